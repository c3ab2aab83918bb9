"""The browser that reports are looked at in: Chromium as the system has it, driven by
playwright.
"""

import importlib.util
import shutil

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
NO_BROWSER = ""  # or why there is none
if BROWSER is None or importlib.util.find_spec("playwright") is None:
    what = (
        "no Chromium is found (apt-get install chromium)"
        if BROWSER is None
        else "playwright is not installed"
    )
    NO_BROWSER = f"{what}: reports are not looked at in a browser"

LOOKS = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 360, "height": 740},
        "is_mobile": True,
        "has_touch": True,
        "device_scale_factor": 2,
    },
}

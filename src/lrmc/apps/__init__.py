"""Front doors for videos, satellite scenes, ultrasound cines and faces."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import clouds as clouds
    from . import faces as faces
    from . import ultrasound as ultrasound
    from . import video as video

__all__ = ["clouds", "faces", "ultrasound", "video"]

if not TYPE_CHECKING:  # each comes, with the packages it needs, when it is asked for

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

import os

# the cores are busy with other tests: one thread, unless a test asks for more
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from browsing import BROWSER, LOOKS, NO_BROWSER
from hypothesis import settings

from lrmc import _kernels

# The same examples on every run and every machine; a loaded machine is no failure.
settings.register_profile("lrmc", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("lrmc")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where presentations put their files."""
    return tmp_path_factory.mktemp("presentations")


@pytest.fixture(autouse=True)
def as_many_threads_as_asked_for(monkeypatch):
    """However small a test's data are: their division among threads is tested too."""
    monkeypatch.setattr(_kernels, "WORTH_A_THREAD", 1)


@pytest.fixture
def restore_instruction_set():
    """What a test chose does not outlast it."""
    chosen = _kernels.instruction_set()
    yield
    _kernels.use_instruction_set(chosen)


@pytest.fixture(scope="module")
def browser():
    if NO_BROWSER:
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser):
    """Opens a page, and sees at the end that it asked for nothing and had nothing to
    complain about.
    """
    pages = []

    def opened(path, look="light"):
        page = browser.new_page(**LOOKS[look])
        page.complaints, page.asked = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        pages.append((page, path))
        return page

    yield opened
    for page, path in pages:
        assert page.complaints == []
        assert [url for url in page.asked if not url.startswith("data:image/")] == [
            path.as_uri()
        ]
        page.close()

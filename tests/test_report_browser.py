"""Reports in a real browser: Chromium as the system has it, driven by playwright.
Skipped where one is absent.
"""

import importlib.util

import numpy as np
import pytest
from browsing import LOOKS, NO_BROWSER
from pages import everything, film

import lrmc
from lrmc import report

if NO_BROWSER:
    pytest.skip(NO_BROWSER, allow_module_level=True)
if importlib.util.find_spec("PIL") is None:
    pytest.skip(
        "Pillow is not installed: reports are not looked at in a browser",
        allow_module_level=True,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page with every kind of section."""
    problem = lrmc.synthetic.problem(500, 3, 0.1, 0.5, n2=90, noise=0.02, form="dense")
    path = tmp_path_factory.mktemp("report") / "report.html"
    return report.write_report(
        path,
        "Every kind of section",
        everything(lrmc.solve(problem.Y)),
        subtitle="in one page",
    )


@pytest.fixture(params=LOOKS)
def look(request):
    return request.param


def test_it_fits_the_screen(show, look, written, tmp_path):
    page = show(written, look)
    assert (
        page.evaluate("document.documentElement.scrollWidth")
        <= LOOKS[look]["viewport"]["width"]
    )
    assert page.evaluate(
        "Array.from(document.images).every(image => image.complete && image.naturalWidth > 0)"
    )
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = (
        sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(", "))) / 3
    )
    assert (brightness < 60) if look == "dark" else (brightness > 230)
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    from PIL import Image

    with Image.open(tmp_path / "page.png") as image:
        assert len(image.convert("RGB").getcolors(1 << 24)) > 500


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(show, scheme, written):
    """Contrast of at least 4.5 to 1, as the WCAG want, for each kind of text."""
    page = show(written, scheme)
    kinds = (
        "body",
        ".subtitle",
        ".note",
        ".facts dt",
        ".words.good p",
        "nav a",
        "th button",
        "td",
        "figcaption",
        "footer",
    )
    for kind in kinds:
        ink, paper = (
            channels(page.evaluate(COLOURS[which], kind)) for which in ("ink", "paper")
        )
        high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, kind


COLOURS = {
    "ink": "kind => getComputedStyle(document.querySelector(kind)).color",
    "paper": """kind => {
        for (let at = document.querySelector(kind); at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (colour !== "rgba(0, 0, 0, 0)") return colour;
        }
    }""",
}


def channels(colour):
    return [
        int(x) / 255 for x in colour.removeprefix("rgb(").removesuffix(")").split(", ")
    ]


def luminance(colour):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour
    ]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_the_slider_moves(show, look, written):
    page = show(written, look)
    box = page.locator(".compare")
    box.scroll_into_view_if_needed()
    area, over = box.bounding_box(), box.locator(".over")

    def shown():
        return over.evaluate("image => getComputedStyle(image).clipPath")

    middle = shown()
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] / 2)
    page.mouse.down()
    page.mouse.move(area["x"] + 0.2 * area["width"], area["y"] + area["height"] / 2)
    page.mouse.up()
    left = shown()
    assert left != middle
    assert box.locator("input").input_value() == "20"
    page.mouse.move(area["x"] + 0.9 * area["width"], area["y"] + area["height"] / 2)
    assert shown() == left  # only while the button is down
    page.keyboard.press("ArrowRight")
    assert box.locator("input").input_value() == "21"
    assert shown() != left
    page.keyboard.press("End")
    assert box.evaluate("box => box.style.getPropertyValue('--at')") == "100%"


def test_what_is_behind_the_slider(show, tmp_path):
    """Pixels: the right part shows the other picture."""
    from PIL import Image

    path = report.write_report(
        tmp_path / "two.html",
        "Two",
        [
            report.BeforeAfter(
                "", np.zeros((200, 300), np.uint8), np.full((200, 300), 255, np.uint8)
            )
        ],
    )
    page = show(path)
    page.locator(".compare input").focus()
    for key, left in (("Home", 255), ("End", 0)):
        page.keyboard.press(key)
        page.locator(".compare").screenshot(path=tmp_path / "part.png")
        with Image.open(tmp_path / "part.png") as image:
            width, height = image.size
            assert image.convert("L").getpixel(
                (width // 4, height * 3 // 4)
            ) == pytest.approx(left, abs=3)


def test_the_scrubber_changes_the_frame(show, written):
    page = show(written)
    film_ = page.locator(".film")
    slider, sources = (
        film_.locator("input"),
        "film => Array.from(film.querySelectorAll('img')).map(image => image.src)",
    )
    first = film_.evaluate(sources)
    assert len(set(first)) == 4
    slider.focus()
    page.keyboard.press("ArrowRight")
    second = film_.evaluate(sources)
    # the background stays
    assert [a != b for a, b in zip(first, second, strict=True)] == [
        True,
        False,
        True,
        True,
    ]
    assert film_.locator("output").inner_text() == "frame 2 of 6"
    page.keyboard.press("End")
    assert film_.locator("output").inner_text() == "frame 6 of 6"
    page.keyboard.press("Home")
    assert film_.evaluate(sources) == first


def test_it_plays_and_pauses(show, written):
    from playwright.sync_api import expect

    page = show(written)
    button, output = page.locator(".play"), page.locator(".film output")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert button.get_attribute("aria-label") == "Pause"
    # the page's policy forbids what wait_for_function does
    expect(output).not_to_have_text("frame 1 of 6")
    button.click()
    stopped = output.inner_text()
    page.wait_for_timeout(200)
    assert output.inner_text() == stopped


def column(table, j):
    return table.evaluate(
        "(table, j) => Array.from(table.tBodies[0].rows).map(row => row.cells[j].textContent)",
        j,
    )


def test_the_table_sorts(show, written):
    page = show(written, "phone")
    table = page.locator("table", has_text="value").last
    name, value = (table.locator("th", has_text=text) for text in ("name", "value"))
    assert column(table, 0) == ["b", "a", "c", "d", "e"]
    value.locator("button").click()
    # by size, not as text; NaN last
    assert column(table, 0) == ["a", "d", "b", "e", "c"]
    assert value.get_attribute("aria-sort") == "ascending"
    value.locator("button").click()
    assert column(table, 0) == ["e", "b", "d", "a", "c"]  # NaN still last
    assert value.get_attribute("aria-sort") == "descending"
    name.locator("button").focus()
    page.keyboard.press("Enter")
    assert column(table, 0) == ["a", "b", "c", "d", "e"]
    assert (name.get_attribute("aria-sort"), value.get_attribute("aria-sort")) == (
        "ascending",
        "none",
    )


def test_the_outliers_sort(show, written):
    page = show(written)
    table = page.locator("table").first
    for j in range(6):
        table.locator("th button").nth(j).click()
        values = table.evaluate(
            "(t, j) => Array.from(t.tBodies[0].rows).map(row => Number(row.cells[j].dataset.v))",
            j,
        )
        assert values == sorted(values)
        assert len(values) == 100


def test_charts_tell_their_values(show, written):
    page = show(written)
    chart = page.locator(".chart").nth(1)  # errors of models come first
    chart.scroll_into_view_if_needed()
    reading = chart.locator(".reading")
    assert reading.inner_text() == ""
    area = chart.locator("svg").bounding_box()
    page.mouse.move(area["x"] + 0.2 * area["width"], area["y"] + 0.3 * area["height"])
    assert "pass" in reading.inner_text()
    chart.focus()
    page.keyboard.press("Home")
    assert reading.inner_text().startswith("pass 1, change: ")
    page.keyboard.press("ArrowRight")
    assert reading.inner_text().startswith("pass 2, change: ")


def test_the_map_tells_rows_and_columns(show, written):
    page = show(written)
    image = page.locator(".map img")
    image.scroll_into_view_if_needed()
    area, reading = image.bounding_box(), page.locator(".aside .reading")
    page.mouse.move(area["x"] + 2, area["y"] + 2)
    assert reading.inner_text() == "rows 0 to 1, column 0"  # 500 rows in steps of two
    page.mouse.move(area["x"] + area["width"] - 2, area["y"] + area["height"] - 2)
    assert reading.inner_text() == "rows 498 to 499, column 89"


def test_hostile_text_does_nothing(show, tmp_path):
    bad = '</script><img src=x onerror="window.hacked = 1">\' onclick=alert(1) <svg onload=alert(2)>'
    frames, back = film(2)
    sections = [
        report.Facts(bad, {bad: bad}),
        report.Table(bad, [bad, "n"], [[bad, 1.0], [bad, 2.0]]),
        report.Frames(bad, {bad: frames}, [bad, bad]),
        report.BeforeAfter(bad, frames[0], back[0], bad, (bad, bad)),
        report.Lines(
            bad, [report.Series(bad, [1, 2], [1, 2])], x_name=bad, marks={bad: 1.0}
        ),
    ]
    page = show(report.write_report(tmp_path / "bad.html", bad, sections, subtitle=bad))
    page.locator(".film input").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".chart").focus()
    page.keyboard.press("Home")
    page.locator("th button").first.click()
    assert page.evaluate("window.hacked") is None
    assert page.title().startswith("</script><img")
    assert page.locator(".film output").inner_text() == bad
    assert bad in page.locator(".reading").inner_text()


def test_the_policy_forbids_requests(browser, written, tmp_path):
    """Even if something foreign came into a page, the browser would not load it."""
    page_text = written.read_text("utf-8").replace(
        "</main>", '<img src="https://example.org/x.png"></main>', 1
    )
    path = tmp_path / "foreign.html"
    path.write_text(page_text, "utf-8")
    page = browser.new_page()
    answered = []
    page.on("response", lambda response: answered.append(response.url))
    with page.expect_console_message(
        lambda message: "Content Security Policy" in message.text
    ):
        page.goto(path.as_uri())
    assert not [url for url in answered if url.startswith("http")]
    page.close()


def test_it_prints(show, written):
    page = show(written)
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert page.pdf(format="A4")[:5] == b"%PDF-"


def test_keyboard_focus_is_seen(show, written):
    page = show(written)
    page.keyboard.press("Tab")
    assert (
        page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        == "solid"
    )

"""Pictures and films in reports."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pages import film, opened, read

from lrmc import report
from lrmc.report import images
from lrmc.report.charts import bars_svg

IMAGES = pytest.importorskip("PIL.Image")


def test_a_picture_keeps_its_pixels():
    small = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    source, width, height = images.picture(small)
    assert (width, height) == (30, 20)
    assert_array_equal(np.asarray(opened(source)), small)
    mask = small[..., 0] > 99
    assert_array_equal(np.asarray(opened(images.picture(mask)[0])), mask)
    floats = np.array([[0.0, 0.5, 1.0, 2.0, -1.0]])
    assert_array_equal(
        np.asarray(opened(images.picture(floats)[0])), [[0, 128, 255, 255, 0]]
    )
    hidden = np.array([[0.0, np.nan]])
    assert_array_equal(
        np.asarray(opened(images.picture(hidden)[0])), [[(0, 0, 0), images.HIDDEN]]
    )


def test_large_pictures_are_scaled_down():
    ramp = np.tile(np.linspace(0, 255, 2000).astype(np.uint8), (500, 1))
    source, width, height = images.picture(ramp)
    assert (width, height) == (1200, 300)
    assert source.startswith("data:image/jpeg;base64,")
    assert_allclose(np.asarray(opened(source))[150], np.linspace(0, 255, 1200), atol=4)


@pytest.mark.parametrize("shape", [(3,), (2, 2, 4), (0, 5), (2, 2, 2, 2)])
def test_what_is_no_picture(shape):
    with pytest.raises(ValueError, match="a picture has shape"):
        images.picture(np.zeros(shape, np.uint8))


def test_pictures_of_other_types():
    with pytest.raises(ValueError, match="a picture has type int64"):
        images.picture(np.zeros((2, 2), np.int64))


def test_frames_keep_to_the_budget():
    rng = np.random.default_rng(0)
    # noise, which does not compress: about 3.7 kB each
    frames = rng.integers(0, 256, (50, 30, 30, 3), np.uint8)
    found = read([report.Frames("Film", {"a": frames, "b": frames})], budget=100_000)
    frames_json = next(
        t for tag, t in found.texts if tag == "script" and "captions" in t
    )
    assert 60_000 < len(frames_json) < 105_000
    assert re.search(r"1\d of 50 frames, evenly chosen", found.text)
    one = read([report.Frames("Film", {"a": frames})], budget=1)
    assert "1 of 50 frames" in one.text


def test_only_shown_frames_are_looked_at():
    class Lazy:
        asked = []  # noqa: RUF012

        def __len__(self):
            return 10**6

        def __getitem__(self, k):
            self.asked.append(k)
            return np.zeros((4, 4), np.uint8)

    read([report.Frames("Film", {"a": Lazy()})])
    assert len(Lazy.asked) < 500
    assert {0, 10**6 - 1} <= set(Lazy.asked)


def test_layers_are_as_long():
    with pytest.raises(ValueError, match="layers have 2, 3 frames"):
        read([report.Frames("", {"a": np.zeros((2, 3, 3)), "b": np.zeros((3, 3, 3))})])


def test_evenly():
    assert images.evenly(10, 3) == [0, 4, 9]
    assert images.evenly(3, 10) == [0, 1, 2]
    assert images.evenly(5, 1) == [0]


def test_film_sections_choose_the_frame_that_shows_most():
    frames, back = film(8)
    frames[5, :, :30] = 255
    scrubber, slider = report.film_sections(
        frames, back, frames != back, frames != back
    )
    assert list(scrubber.layers) == ["original", "background", "foreground", "mask"]
    assert "Frame 6 of 8" in slider.caption
    assert_array_equal(slider.before, frames[5])
    _, slider = report.film_sections(frames.astype(float), back.astype(float))
    assert "Frame 6 of 8" in slider.caption
    assert_allclose(slider.after, back[5] / 255)
    with pytest.raises(ValueError, match="8 frames and 7 of the background"):
        report.film_sections(frames, back[:7])


def test_names_of_many_models_do_not_cross_the_bars_above_them():
    names = [f"model {k}" for k in range(12)]
    svg = bars_svg(names, range(1, 13), [0.0] * 12, "errors")
    heights = [
        float(y) for y in re.findall(r'class="marked" x="\d+" y="([\d.]+)"', svg)
    ]
    stems = [float(y) for y in re.findall(r'class="stem \w+" d="M\d+ ([\d.]+)H', svg)]
    assert len(heights) == len(stems) == 12
    letters = 12  # how high they are
    assert all(
        y - letters > above for y, above in zip(heights[1:], stems, strict=False)
    )
    height = float(re.search(r'viewBox="0 0 \d+ ([\d.]+)"', svg)[1])
    assert stems[-1] < height

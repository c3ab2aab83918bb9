"""How far in grey levels what is in front is from the background: noise, light and colours."""

import io

import numpy as np
import pytest
from each import each
from made.street import Kind, street
from PIL import Image
from scipy import ndimage as ndi
from test_video_traits import f_measure

from lrmc.apps.video import foreground, model, thresholds

BRIGHT = np.array([0.299, 0.587, 0.114])


def in_jpeg(frame, quality):
    """As a camera that stores colours coarsely gives it."""
    file = io.BytesIO()
    Image.fromarray(frame).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


# ---- what the noise asks


@each("colour", [False, True])
@each("seed", [1, 2])
def test_faint_walkers_at_dusk(colour, seed):
    """Six deviations of a pixel would leave half of them out."""
    kind = Kind(bright=0.25, noise=5.0)
    made = street(kind, n=40, colour=colour, seed=seed)
    assert f_measure(model.separate(made.frames).masks(), made.truth) > 0.83


def test_noise_of_neighbours_is_told_by_windows():
    rng = np.random.default_rng(0)
    noise = 5 * rng.standard_normal((12, 96, 128)).astype(np.float32)
    alone, both = thresholds.quiet_of(list(noise), None)
    assert alone == both
    assert 9 < alone < 13
    smooth = ndi.gaussian_filter(noise, (0, 2, 2))
    together, _ = thresholds.quiet_of(list(5 * smooth / smooth.std()), None)
    assert together > 1.4 * alone


def test_what_is_in_front_does_not_count_as_noise():
    rng = np.random.default_rng(1)
    noise = 3 * rng.standard_normal((12, 96, 128, 3)).astype(np.float32)
    before = thresholds.quiet_of(list(noise), np.eye(3))
    noise[:, :20, :40] += 80  # 7 % of the pixels
    after = thresholds.quiet_of(list(noise), np.eye(3))
    assert np.all(after < 1.3 * before)
    assert before[1] < 0.6 * before[0]  # brightness has less noise


@pytest.mark.parametrize(
    ("noise", "quiet", "brightness", "asked"),
    [
        (1.0, None, 120.0, 16.0),
        (5.0, None, 120.0, 30.0),
        (9.0, None, 120.0, 40.0),
        (5.0, 15.0, 30.0, 15.0),
        (5.0, 15.0, 110.0, 22.0),  # reflections grow with the light
        (5.0, 50.0, 30.0, 30.0),  # never more than without windows
        (0.5, 1.0, 3.0, 6.0),  # bytes
    ],
)
def test_thresholds(noise, quiet, brightness, asked):
    assert thresholds.threshold_of(noise, quiet, brightness) == pytest.approx(asked)


def test_frames_smaller_than_a_window():
    off = [np.ones((2, 40), np.float32)] * 3
    assert np.isfinite(thresholds.quiet_of(off, None)).all()


# ---- colours


@each("quality", [90, 60])
def test_colours_that_spread_are_not_in_front(quality):
    made = street("plain", n=40, colour=True, seed=3)
    frames = np.stack([in_jpeg(frame, quality) for frame in made.frames])
    found = f_measure(model.separate(frames).masks(), made.truth)
    plain = f_measure(model.separate(made.frames).masks(), made.truth)
    assert found > plain - 0.045


def naive_distance(frame, behind, mix, light):
    """As the kernel, pixel by pixel."""
    off = frame.astype(float) - behind
    bright = off @ BRIGHT
    colour = np.linalg.norm(off - bright[..., None], axis=-1).astype(int)
    most = ndi.maximum_filter(np.minimum(colour, 255), 17, mode="nearest")
    whole = np.where(2 * colour >= most, np.linalg.norm(off @ mix, axis=-1), 0)
    return np.maximum(light * np.abs(bright), whole)


@each("light", [1.0, 2.5])
def test_distances_are_those_of_a_reference(light):
    rng = np.random.default_rng(2)
    frame = rng.integers(0, 256, (40, 53, 3)).astype(np.uint8)
    behind = ndi.gaussian_filter(frame.astype(np.float32), (3, 3, 0))
    mix = np.eye(3) + 0.2 * rng.standard_normal((3, 3))
    got = foreground.distance(frame[None], behind[None], mix, light)[0]
    # Single precision may round a colour to the next number.
    same = np.isclose(got, naive_distance(frame, behind, mix, light), rtol=1e-4)
    assert same.mean() > 0.999


def test_a_background_of_before_has_its_threshold(tmp_path):
    """A file that says nothing of windows asks what it asked then."""
    made = street(Kind(bright=0.25, noise=5.0), n=40, colour=True, seed=1)
    parts = model.separate(made.frames)
    parts.model.save(tmp_path / "new.npz")
    content = dict(np.load(tmp_path / "new.npz"))
    del content["quiet"]
    np.savez(tmp_path / "old.npz", **content)
    new, old = (
        model.Background.load(tmp_path / f"{x}.npz").threshold for x in ("new", "old")
    )
    assert new == pytest.approx(parts.model.threshold, rel=1e-3)
    assert old > 1.4 * new

"""A camera that moves is told from things that do, from leaves and from light."""

import numpy as np
import pytest
from made.film import write_pictures
from made.street import street
from scipy import ndimage as ndi
from typer.testing import CliRunner

from lrmc import Status, cli
from lrmc.apps import video
from lrmc.apps.video.camera import motion_of, shift_between


def moved(frames, down, right):
    """Each frame shifted, without its border."""
    pairs = zip(frames.astype(np.float32), down, right)
    shifted = [ndi.shift(x, by, order=1, mode="nearest") for x, *by in pairs]
    return np.rint(np.stack(shifted)).astype(np.uint8)[:, 4:-4, 4:-4]


@pytest.mark.parametrize("kind", ["busy", "leaves", "water", "flicker", "camera noise"])
def test_a_camera_that_stands_still(kind):
    assert motion_of(street(kind, n=40, seed=3).frames) == 0


def test_a_thing_before_a_plain_wall_is_not_the_camera():
    frames = np.full((20, 30, 40), 80, np.uint8)
    for t in range(20):
        frames[t, 10:20, t : t + 10] = 200
    assert motion_of(frames) == 0


@pytest.mark.parametrize("how", ["jitter", "pan", "bump"])
def test_a_camera_that_moves(how):
    n = 40
    rng = np.random.default_rng(0)
    down = {
        "jitter": rng.normal(0, 0.7, n),
        "pan": np.linspace(-2, 2, n),
        "bump": np.where(np.arange(n) < 25, 0.0, 2.0),
    }[how]
    frames = moved(street("plain", n=n, seed=4).frames, down, down / 2)
    assert 0.5 / 112 < motion_of(frames) < 4 / 112


def test_the_shift_is_the_true_one():
    wall = ndi.gaussian_filter(np.random.default_rng(0).normal(0, 900, (130, 150)), 3)
    other = ndi.shift(wall, (0.8, -1.2), order=3, mode="nearest")
    found = shift_between(wall[5:-5, 5:-5], other[5:-5, 5:-5])
    np.testing.assert_allclose(found, (0.8, -1.2), atol=0.15)
    flat = np.full((120, 140), 90.0)
    assert not shift_between(flat, flat + 3).any()  # nothing tells


def test_it_is_said_and_the_exit_code_is_1(tmp_path):
    frames = street("plain", n=30, seed=5).frames
    jitter = np.random.default_rng(1).normal(0, 1.5, (2, 30))
    source = write_pictures(tmp_path / "in", moved(frames, *jitter))
    options = ["video", str(source), "-o", str(tmp_path / "out"), "--no-films"]
    done = CliRunner().invoke(cli.app, options)
    assert done.exit_code == 1
    assert "the camera moves" in done.output
    assert "The camera moves" in (tmp_path / "out" / "report.html").read_text()


def test_a_clip_without_a_background_is_told(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (30, 48, 64), dtype=np.uint8)
    source = write_pictures(tmp_path / "in", frames)
    options = ["video", str(source), "-o", str(tmp_path / "out"), "--no-films"]
    done = CliRunner().invoke(cli.app, options)
    assert done.exit_code == 1
    assert "in front of the background, which is what most frames" in done.output
    assert "not to be trusted" in (tmp_path / "out" / "report.html").read_text()


def test_a_camera_that_has_moved_since_its_background_was_learned():
    frames = street("plain", n=40, seed=6).frames
    known = video.separate(frames[:, 4:-4, 4:-4]).model
    same = video.separate(frames[:20, 4:-4, 4:-4], model=known)
    assert same.status is Status.CONVERGED
    with pytest.warns(UserWarning, match="the camera moves"):
        after = video.separate(moved(frames, [2.0] * 40, [1.0] * 40), model=known)
    assert after.status is Status.UNDETERMINED

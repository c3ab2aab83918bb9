"""Things that come and stay are no background, if their surroundings say so."""

import numpy as np
import pytest
from each import each
from made.film import scene
from real_data import DATA

from lrmc.apps.video import model as video
from lrmc.apps.video.stays import FEWEST, behind_what_stays

CLIPS = DATA / "video"


def visited(arrives=25, leaves=100, count=100, *, colour=False, light=0.0):
    """A smooth wall; from one frame to another, a dark thing stands before it."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:60, :80]
    wall = 120 + 30 * np.sin(x / 25) + 20 * np.cos(y / 20)
    bright = 1 + light * np.sin(np.arange(count) / 9)
    frames = bright[:, None, None] * wall + rng.normal(0, 2, (count, 60, 80))
    truth = np.zeros(frames.shape, bool)
    truth[arrives:leaves, 20:44, 30:52] = True
    frames[truth] = 40 + rng.normal(0, 2, truth.sum())
    frames = np.clip(frames, 0, 255).astype(np.uint8)
    return (np.repeat(frames[..., None], 3, 3) if colour else frames), truth


def f_measure(found, truth):
    return 2 * np.sum(found & truth) / max(1, found.sum() + truth.sum())


@each("colour", [False, True])
@each("light", [0.0, 0.08])
@pytest.mark.parametrize("times", [(25, 100), (0, 70)])
def test_what_comes_and_stays_or_leaves(times, colour, light):
    frames, truth = visited(*times, colour=colour, light=light)
    parts = video.separate(frames)
    assert f_measure(parts.masks(), truth) > 0.9
    # and the background is what a clip without the thing shows
    alone, _ = visited(0, 0, colour=colour, light=light)
    off = np.abs(parts.background().astype(float) - alone)
    assert np.quantile(off, 0.99) < 12


def test_what_comes_and_goes_is_left_to_the_median():
    frames, truth = visited(30, 60)
    assert f_measure(video.separate(frames).masks(), truth) > 0.9


def test_a_hole_in_the_wall_stays_a_hole():
    """What is uncovered for most of the clip is the background: the cover had an outline."""
    frames, truth = visited(0, 25)
    assert f_measure(video.separate(frames).masks(), truth) > 0.9


def test_a_sample_will_do():
    frames, truth = visited()
    assert f_measure(video.separate(frames, sample=0.3).masks(), truth) > 0.9


def test_nothing_changes_without_reason():
    frames, _ = scene(100)
    parts = video.separate(frames)
    V = parts.model.model.V
    same = behind_what_stays(V, frames, parts.scores, parts.model.threshold)
    assert np.array_equal(same, V)
    few = visited()[0][: FEWEST - 1]
    assert behind_what_stays(V, few, parts.scores, 25.0) is V


@pytest.mark.data
@pytest.mark.skipif(not CLIPS.is_dir(), reason="no data beside the repository")
def test_a_man_who_sits_down():
    content = np.load(CLIPS / "sbi2015_candela.npz")
    frames, codes = content["frames"][::2], content["masks"][::2]
    counts = (codes != 85) & (codes != 170)
    found = video.separate(frames).masks()
    assert f_measure(found & counts, (codes == 255) & counts) > 0.8

"""Clips that are odd, but not damaged: black ones, few frames, uneven times, names without zeros."""

from fractions import Fraction

import av
import numpy as np
import pytest
from each import each
from made.film import scene
from PIL import Image

import lrmc
from lrmc.apps.pictures import pictures_in
from lrmc.apps.video import process
from lrmc.apps.video.clips import Clip
from lrmc.apps.video.model import separate


@each("sample", [1.0, 0.5])
@each("colour", [False, True])
def test_something_before_black(sample, colour):
    """Black has no brightness that could get brighter."""
    frames = np.zeros((30, 40, 60), np.uint8)
    for k in range(30):
        frames[k, 10:24, 2 * k : 2 * k + 10] = 200
    clip = np.repeat(frames[..., None], 3, 3) if colour else frames
    parts = separate(clip, sample=sample)
    found, truth = parts.masks(), frames > 0
    assert 2 * np.sum(found & truth) / (found.sum() + truth.sum()) > 0.95
    assert parts.background().max() <= 1
    assert not separate(0 * clip).masks().any()


def test_few_frames_are_told():
    frames, _ = scene(40)
    with pytest.warns(lrmc.ConvergenceWarning, match="2 frames: which of them"):
        assert separate(frames[:2]).status == "undetermined"
    with pytest.warns(UserWarning, match="less than its own width"):
        assert separate(frames[:5]).status == "converged"
    assert not separate(frames[:10]).warnings


def test_pictures_are_in_the_order_of_their_numbers(tmp_path):
    names = ["a1b2.png", "a1b10.png", "a2.png", "a10.png", "a010.png", "b.png"]
    for name in names:
        Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / name)
    found = [path.name for path in pictures_in(tmp_path)]
    assert found == ["a1b2.png", "a1b10.png", "a2.png", "a010.png", "a10.png", "b.png"]


def test_events_have_the_times_of_their_frames(tmp_path):
    """A film whose frames are shown unevenly, as phones make them."""
    frames, _ = scene(24)
    times = np.cumsum(np.tile([20, 60, 100], 8))
    with av.open(str(tmp_path / "uneven.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "5"})
        stream.height, stream.width = frames.shape[1:]
        stream.codec_context.time_base = Fraction(1, 1000)
        for frame, time in zip(frames, times.tolist()):
            picture = av.VideoFrame.from_ndarray(frame, format="gray")
            picture.pts, picture.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    done = process(tmp_path / "uneven.mp4", tmp_path / "out", films=False)
    assert len({event.frame for event in done.events}) > 20
    for event in done.events:
        shown = (times[event.frame] - times[0]) / 1000
        assert event.seconds == pytest.approx(shown, abs=2e-3)


def test_one_picture_is_no_film(tmp_path):
    pages = [Image.fromarray(frame) for frame in scene(3)[0]]
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(ValueError, match="a folder with a picture for each frame"):
        Clip.open(tmp_path / "stack.tif")

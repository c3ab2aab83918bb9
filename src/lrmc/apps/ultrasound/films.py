"""Cines as scanners export them for the eye: films, and stacks or folders of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...formats.variables import Unusable
from ...weights import Array
from ..pictures import LUMA, read_pages, read_picture
from ..video.clips import Clip

FILMS = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".mpg", ".mpeg", ".webm")
STACKS = (".tif", ".tiff")
SHORTER = 0.5  # times: steps that are so much smaller are those of time


def read_film(path: Path) -> Array:
    """Frames x height x width, in bytes."""
    try:
        clip = Clip.open(path, grey=True)
        return np.stack(list(clip.frames()))
    except ValueError as error:
        raise Unusable(str(error)) from None


def read_stack(path: Path) -> Array:
    """The pictures of a file, with all their bits."""
    return _as_frames(read_pages(path, "ultrasound"), path)


def read_pictures(paths: list[Path]) -> Array:
    """A picture for each frame, with all their bits."""
    pictures = [read_picture(path, "ultrasound") for path in paths]
    return _as_frames(pictures, paths[0].parent)


def _as_frames(
    pictures: list[Array],
    path: Path,
) -> Array:
    sizes = {picture.shape[:2] for picture in pictures}
    if len(sizes) > 1:
        some = " and ".join(f"{x[0]} x {x[1]}" for x in sorted(sizes)[:2])
        raise Unusable(f"{path} has frames of {some} pixels: one size is wanted")
    # Whole grey levels, as the colours are: their rounding would look like noise.
    grey = [x if x.ndim == 2 else np.rint(x @ LUMA) for x in pictures]
    return np.stack(grey)


def time_is_last(frames: Array) -> bool:
    """Whether what is given as frames x height x width looks like height x width x frames: the last
    axis is the shortest, and along it things change far less than along the first.
    """
    if frames.shape[2] >= min(frames.shape[:2]):
        return False
    along_first = _step(frames[:, ::4, ::4], 0)
    along_last = _step(frames[::4, ::4], 2)
    return along_last < SHORTER * along_first


def _step(values: Array, axis: int) -> float:
    size = np.abs(values).astype(np.float64)
    steps = np.abs(np.diff(size, axis=axis))
    known = steps[np.isfinite(steps)]
    return float(known.mean()) if len(known) else 0.0

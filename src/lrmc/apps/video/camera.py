"""Whether the camera stands still.

Where it moves, all that has edges is shifted by as much. The shift of each tile of a frame is told
by its differences from another frame along the edges of that one; tiles of a camera that moved
agree, and things that pass, leaves and light do not.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ... import _kernels
from ..._work import Outcome
from ...report.text import percent
from ...result import Status
from ...weights import Array

LOOKED = 25  # frames, from all over a clip
SIDE = 240  # pixels of the shorter side that are looked at
SMOOTH = 1.5  # pixels: shifts of twice as much can still be told
TILES = 6  # on each side of a frame
TEXTURE = 1.0  # grey levels per pixel: fainter edges tell nothing
FEWEST = (
    TILES**2 // 2
)  # tiles with texture that must tell: what has fewer may be a thing
AGREE = 0.5  # of the tiles are so near to the common shift, as a share of it
MOVED = 0.5  # pixels: by less, masks hardly change
OFTEN = 0.1  # of the frames; fewer may be cuts, or things that fill the picture


def after_motion(
    outcome: Outcome,
    frames: Array,
    behind: Array | None,
) -> Outcome:
    """The outcome, with a word about a camera that moves."""
    motion = motion_of(frames, behind)
    if not motion:
        return outcome
    return outcome.warned(
        f"the camera moves, by about {percent(motion)} of the picture's shorter side: the"
        " background and the masks are those of a camera that stands still, and are not to"
        " be trusted; stabilise the clip first",
        Status.UNDETERMINED,
    )


def motion_of(frames: Array, behind: Array | None = None) -> float:
    """How far the camera typically moves, as a share of the shorter side of a frame, also against a
    background that is known; 0 if it stands still.
    """
    some = np.linspace(0, len(frames) - 1, min(len(frames), LOOKED)).astype(int)
    looks = [_small(frames[k]) for k in some]
    middle = looks[len(looks) // 2] if behind is None else _small(behind)
    # Slow motion shows far from the middle, fast motion between neighbours.
    pairs = [*((middle, x) for x in looks), *pairwise(looks)]
    far = np.array([np.hypot(*shift_between(*pair)) for pair in pairs])
    moved = far > MOVED
    if moved.mean() <= OFTEN:
        return 0.0
    return float(np.median(far[moved])) / min(middle.shape)


def shift_between(one: Array, other: Array) -> Array:
    """Pixels down and right that most tiles of a grey picture have moved by in the other; 0 if they
    do not agree, or few can tell.
    """
    shifts = _by_tiles(one, other)
    if len(shifts) < FEWEST:
        return np.zeros(2)
    middle = np.median(shifts, axis=0)
    near = AGREE * max(MOVED, float(np.hypot(*middle)))
    agree = np.hypot(*(shifts - middle).T) < near
    return middle if agree.mean() > AGREE else np.zeros(2)


def _small(frame: Array) -> Array:
    """In grey, smooth, and with few pixels."""
    grey = frame if frame.ndim == 2 else frame[..., 1]
    fewer = max(1, min(grey.shape) // SIDE)
    smooth = np.empty(grey.shape, np.float32)
    window = _gaussian(fewer * SMOOTH)
    _kernels.smooth(_kernels.ready(grey, np.uint8), window, out=smooth)
    return smooth[::fewer, ::fewer]


def _gaussian(deviation: float) -> list[float]:
    """The weights of a window, from its middle on."""
    far = np.arange(round(4 * deviation) + 1) / deviation
    weights = np.exp(-(far**2) / 2)
    return (weights / (2 * weights.sum() - 1)).tolist()


def _by_tiles(one: Array, other: Array) -> Array:
    """The shift of each tile that has edges in both directions: tiles x 2. By least squares, as
    Lucas and Kanade do.
    """
    height, width = (n // TILES for n in one.shape)
    if height == 0 or width == 0:
        return np.empty((0, 2))
    sums = np.empty((5, TILES, TILES))
    pair = (_kernels.ready(x, np.float32) for x in (one, other))
    _kernels.tile_sums(*pair, out=sums)
    dd, dr, rr, do, ro = sums.reshape(5, -1) / (height * width)
    weakest = (dd + rr) / 2 - np.hypot((dd - rr) / 2, dr)
    told = weakest > TEXTURE**2
    dd, dr, rr, do, ro = (x[told] for x in (dd, dr, rr, do, ro))
    det = dd * rr - dr**2
    return -np.stack([(rr * do - dr * ro) / det, (dd * ro - dr * do) / det], axis=1)

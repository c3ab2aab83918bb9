"""Things that came during a clip and stayed, or were there at first and left: what is behind them?

A pixel that looks one way when the clip begins (or ends) and another way most of the time had
something in front of it in one of the two. Which one, its surroundings tell: a thing has an outline
in the picture, a background has none there. (What comes and goes leaves the same pixel before and
after: no doubt there.)
"""

from __future__ import annotations

import numpy as np

from ... import _kernels
from ..._scipy import ndimage as ndi
from ..._work import Outcome
from ...result import Status
from ...weights import Array
from .events import SMALLEST
from .foreground import cleaned
from .medians import of_few
from .pixels import pixels, shifted

PARTS = 20  # of a clip: a pixel's median in each says how it looks
# Parts at an end of the clip in which a pixel must look the same. 15 to 17 % of a clip are as good on
# five clips; with 10 %, traffic counts; with 20 %, what stayed for shorter is missed.
LASTS = 3
FEWEST = 3 * PARTS  # frames: a median of fewer than 3 is none
FEW = 10  # frames: half a second, in which walkers hardly leave their places
FAINTER = 0.8  # of the outline: with less, the other look is the background
RING = 2  # pixels on either side of an outline
# pixels around a region that its outline hangs on: the ring, a step, and four deviations of smoothing
ROOM = RING + 1 + 4


def after_few(outcome: Outcome, frames: int) -> Outcome:
    """The outcome, with a word about frames in which little moves."""
    if frames >= FEW:
        return outcome
    if frames == 2:
        text = "2 frames: which of them shows the background where they differ cannot be told"
        return outcome.warned(f"{text}; give more", Status.UNDETERMINED)
    return outcome.warned(
        f"{frames} frames: what moves by less than its own width in them is taken for the"
        " background; more frames, or some from farther apart, would tell"
    )


def behind_what_stays(
    V: Array,
    frames: Array,
    scores: Array,
    threshold: float,
) -> Array:
    """The background of frames, pixels x rank, without things that stayed for most of the clip."""
    if len(frames) < FEWEST:
        return V
    looks = _looks(V, frames, scores)
    center = scores.mean(axis=0)
    picture = (V @ center).reshape(frames.shape[1:])
    off = np.zeros_like(picture)
    for at_the_end in (False, True):
        other = _other(looks[::-1] if at_the_end else looks, threshold)
        for region in _regions(other):
            if _outline(picture + other, region) < FAINTER * _outline(picture, region):
                off[region] = other[region]
    return shifted(V, off, scores)


def _looks(
    V: Array,
    frames: Array,
    scores: Array,
) -> Array:
    """How far pixels typically are from the background in each part of the clip: parts x a frame."""
    medians = np.empty((PARTS, len(V)), np.float32)
    parts = np.array_split(np.arange(len(frames)), PARTS)
    _kernels.part_medians(
        *pixels(V, frames, scores), [int(part[-1]) + 1 for part in parts], out=medians
    )
    return medians.reshape(PARTS, *frames.shape[1:])


def _other(looks: Array, threshold: float) -> Array:
    """What pixels have at first, less the background, where it lasts and is another look; else 0."""
    first = of_few(looks[:LASTS])
    away = np.abs(first)
    unlike = np.abs(looks[:LASTS] - first).max(axis=0)
    if first.ndim == 3:  # with colours
        away = away.max(axis=2, keepdims=True)
        unlike = unlike.max(axis=2, keepdims=True)
    lasting = (away > threshold) & (unlike < threshold)
    return np.where(lasting, first, np.float32(0))


def _regions(other: Array) -> list[Array]:
    """Where pixels hang together that have another look: masks."""
    found = other != 0
    found = found.any(axis=2) if found.ndim == 3 else found
    labels, count = ndi.label(cleaned(found[None])[0])
    areas = np.bincount(labels.ravel(), minlength=count + 1)
    return [
        labels == k for k in range(1, count + 1) if areas[k] >= SMALLEST * labels.size
    ]


def _outline(picture: Array, region: Array) -> float:
    """How strong the edges of a picture are along the border of a region."""
    rows, cols = (np.flatnonzero(region.any(axis=k)) for k in (1, 0))
    box = tuple(
        slice(max(0, int(at[0]) - ROOM), int(at[-1]) + 1 + ROOM) for at in (rows, cols)
    )
    picture, region = picture[box], region[box]
    grey = picture.mean(axis=2) if picture.ndim == 3 else picture
    down, right = np.gradient(ndi.gaussian_filter(grey, 1.0))
    inner = ndi.binary_erosion(region, iterations=RING)
    ring = ndi.binary_dilation(region, iterations=RING) & ~inner
    return float(np.hypot(down, right)[ring].mean())

"""How a pixel looks most often.

Where things pass all the time, as on a busy road, the median of a pixel is none of its looks: the
background is seen for less than half of the clip, but it always looks the same, and what passes
does not.
"""

from __future__ import annotations

import numpy as np

from ... import _kernels
from ...weights import Array
from .pixels import pixels, residuals, shifted

REACH = 3.0  # deviations of the noise: a look that is so near is the same one
USUAL = 0.5  # of the frames: a look that more of them have needs no doubt
OFTENER = 1.3  # times: another look must be so much more frequent. 1 to 2 differ by .005 in F.
FEWEST = 20  # frames: the most frequent look of fewer is chance
BINS = 4  # of a histogram, that are as wide as one look
RANGE = 256.0  # grey levels


def most_common(
    V: Array,
    frames: Array,
    scores: Array,
    noise: float,
) -> Array:
    """The background of frames, pixels x rank, where each pixel looks as it does most often."""
    if len(frames) < FEWEST:
        return V
    colours = frames.shape[3] if frames.ndim == 4 else 1
    reach = REACH * max(noise, 1.0)  # bytes are not finer
    near = np.empty(len(V) // colours, np.int32)
    _kernels.near_background(
        *pixels(V, frames, scores), colours=colours, reach=reach, out=near
    )
    here = near / len(frames)
    off = np.zeros((len(near), colours), np.float32)
    for some, rest in residuals(V, frames, scores, np.flatnonzero(here < USUAL)):
        off[some] = _shifts(rest, here[some], reach)
    return shifted(V, off, scores) if off.any() else V


def _shifts(
    rest: Array,
    here: Array,
    reach: float,
) -> Array:
    """From the background to the look that is most frequent: pixels x colours. `rest` is frames x
    pixels x colours, and `here` the share of the frames that show the background.
    """
    grey = rest.mean(axis=2) if rest.shape[2] > 1 else rest[..., 0]
    off = np.zeros(rest.shape[1:], np.float32)
    where, share = _peaks(grey, reach)
    some = np.flatnonzero((share > OFTENER * here) & (np.abs(where) > reach))
    near = np.abs(grey[:, some] - where[some]) < reach
    # The lower median of the frames that have this look.
    looks = np.sort(np.where(near[..., None], rest[:, some], np.inf), axis=0)
    at = np.maximum(near.sum(axis=0) - 1, 0) // 2
    off[some] = np.take_along_axis(looks, at[None, :, None], axis=0)[0]
    return off


def _peaks(
    x: Array,
    reach: float,
) -> tuple[Array, Array]:
    """Where columns are densest, within `reach` on both sides, and the share of the rows there."""
    width = 2 * reach / BINS
    count = int(2 * RANGE / width) + BINS + 1
    bins = ((x + RANGE) / width).astype(np.int64) + np.arange(x.shape[1]) * count
    table = np.bincount(bins.ravel(), minlength=count * x.shape[1])
    table = table.reshape(x.shape[1], count)
    ends = np.cumsum(np.pad(table, ((0, 0), (1, 0))), axis=1)
    within = ends[:, BINS:] - ends[:, :-BINS]
    at = within.argmax(axis=1)
    share = within.max(axis=1) / len(x)
    return (at + BINS / 2) * width - RANGE, share

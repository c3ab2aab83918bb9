"""What is in front of a background: where frames differ from it, cleaned up."""

from __future__ import annotations

import numpy as np

from ..._scipy import ndimage as ndi
from ...weights import Array

# Parts of the shorter side: where a majority decides, and gaps that are closed.
SMALL, CLOSED = 48, 22


def masks(frames: Array, background: Array, threshold: float) -> Array:
    """Where frames are farther than the threshold from the background in any colour, cleaned up."""
    off = np.abs(frames - background)
    if off.ndim == 4:  # with colours
        off = off.max(axis=3)
    return cleaned(off > threshold)


def cleaned(found: Array) -> Array:
    """What is small goes (a majority of the neighbours decides), gaps are closed: (frames, height,
    width).

    Neighbourhoods grow with the picture: 5 and 11 pixels where its shorter side has 240. Squares,
    since these are separable: the work does not depend on their size.
    """
    side = min(found.shape[1:])
    near = _odd(side / SMALL)
    gap = _odd(side / CLOSED)
    share = ndi.uniform_filter(
        found.astype(np.float32), (1, near, near), mode="nearest"
    )
    room = [
        (0, 0),
        (gap, gap),
        (gap, gap),
    ]  # so that what touches the border is closed as anywhere
    most = (share > 0.5).view(np.uint8)
    closed = np.pad(most, room)
    for smooth in (ndi.maximum_filter1d, ndi.minimum_filter1d):
        for axis in (1, 2):
            closed = smooth(closed, gap, axis=axis, mode="nearest")
    return closed[:, gap:-gap, gap:-gap].astype(bool)


def _odd(size: float) -> int:
    """The nearest odd number, at least 3."""
    return max(3, 2 * round((size - 1) / 2) + 1)


def in_front(frames: Array, found: Array, elsewhere: int = 0) -> Array:
    """Frames where something was found; black elsewhere, or the grey that is asked for."""
    where = found if frames.ndim == 3 else found[..., None]
    return np.where(where, frames, frames.dtype.type(elsewhere))

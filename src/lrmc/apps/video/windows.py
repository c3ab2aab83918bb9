"""Square windows around the pixels of frames: sums, means, and whether any or all are set.

Neighbours are put together in pairs, pairs in fours and so on, whole pictures at a time: the work
grows with the logarithm of the window, and bytes stay bytes.
"""

from __future__ import annotations

import numpy as np

from ..._scipy import ndimage as ndi
from ...weights import Array

BYTE_SIDE = 15  # pixels on a side of windows whose counts are bytes


def count(mask: Array, size: int) -> Array:
    """How many pixels of each window are set."""
    kind = np.uint8 if size <= BYTE_SIDE else np.uint16
    return over_windows(np.add, mask.astype(kind), size)


def mean(x: Array, size: int) -> Array:
    """Of each window, floats."""
    sides = (*[1] * (x.ndim - 2), size, size)
    return np.asarray(ndi.uniform_filter(x, sides, mode="nearest"))


def any_in(mask: Array, size: int) -> Array:
    """Whether any pixel of each window is set."""
    return over_windows(np.logical_or, mask, size)


def all_in(mask: Array, size: int) -> Array:
    """Whether all pixels of each window are set."""
    return over_windows(np.logical_and, mask, size)


def over_windows(op: np.ufunc, x: Array, size: int) -> Array:
    """`op` over `size` x `size` pixels around each, of the last two axes. Borders are repeated."""
    around = (size // 2, size - 1 - size // 2)
    room = [(0, 0)] * (x.ndim - 2) + [around, around]
    x = np.pad(x, room, mode="edge")
    for axis in (x.ndim - 2, x.ndim - 1):
        x = _along(op, x, size, axis)
    return x


def _along(op: np.ufunc, x: Array, size: int, axis: int) -> Array:
    """`op` over `size` neighbours along an axis, which gets as much shorter."""

    def cut(first: int, length: int) -> tuple[slice, ...]:
        return (*[slice(None)] * axis, slice(first, first + length))

    length = x.shape[axis] - size + 1
    out: Array | None = None
    done, width = 0, 1  # neighbours in `out`, and in each value of x
    while True:
        if size & width:
            part = x[cut(done, length)]
            out = part if out is None else op(out, part)
            done += width
        if out is not None and done == size:
            return out
        rest = x.shape[axis] - width
        x = op(x[cut(0, rest)], x[cut(width, rest)])
        width *= 2


def odd(size: float) -> int:
    """The nearest odd number, at least 3."""
    return max(3, 2 * round((size - 1) / 2) + 1)

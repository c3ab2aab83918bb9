"""Square windows around the pixels of frames: whether any or all are set. Borders are repeated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import _kernels
from ...weights import Array


def any_in(mask: Array, size: int) -> Array:
    """Whether any pixel of each window is set, of the last two axes."""
    return _each(_kernels.any_in, mask, size)


def all_in(mask: Array, size: int) -> Array:
    """Whether all pixels of each window are set."""
    return _each(_kernels.all_in, mask, size)


def _each(
    find: Callable[..., None],
    mask: Array,
    size: int,
) -> Array:
    pictures = _kernels.ready(mask, bool).reshape(-1, *mask.shape[-2:])
    found = np.empty_like(pictures)
    find(pictures, size, out=found)
    return found.reshape(mask.shape)


def odd(size: float) -> int:
    """The nearest odd number, at least 3."""
    return max(3, 2 * round((size - 1) / 2) + 1)

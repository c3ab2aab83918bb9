"""The pixels of a background one by one: how far frames are from it, and a correction of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ... import _kernels
from ...weights import Array

AT_ONCE = 1 << 19  # values that are floats at a time: they stay in the cache


def pixels(
    V: Array,
    frames: Array,
    scores: Array,
) -> tuple[Array, Array, Array]:
    """Frames x values, their background, values x rank, and its scores, as kernels take them."""
    flat = _kernels.ready(frames, np.uint8).reshape(len(frames), -1)
    return flat, _kernels.ready(V, np.float32), _kernels.ready(scores, np.float32)


def residuals(
    V: Array,
    frames: Array,
    scores: Array,
    wanted: Array,
) -> Iterator[tuple[Array, Array]]:
    """Frames less their background at the pixels that are wanted, some at a time: which, and frames x
    pixels x colours.
    """
    looks = frames.reshape(len(frames), frames.shape[1] * frames.shape[2], -1)
    colours = looks.shape[2]
    V = V.astype(np.float32)
    scores = scores.astype(np.float32)
    step = max(1, AT_ONCE // (len(frames) * colours))
    for first in range(0, len(wanted), step):
        some = wanted[first : first + step]
        behind = (
            scores @ V.reshape(-1, colours, V.shape[1])[some].reshape(-1, V.shape[1]).T
        )
        yield some, looks[:, some] - behind.reshape(len(frames), -1, colours)


def shifted(
    V: Array,
    off: Array,
    scores: Array,
) -> Array:
    """A background, pixels x rank, and something more in the picture of mean brightness, which gets
    brighter and darker with it.
    """
    center = scores.mean(axis=0)
    return np.asarray(V + np.outer(off.ravel(), center / float(center @ center)))

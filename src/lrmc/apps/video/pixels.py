"""The pixels of a background one by one: how far frames are from it, and a correction of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...weights import Array

AT_ONCE = 1 << 19  # values that are floats at a time: they stay in the cache


def residuals(
    V: Array,
    frames: Array,
    scores: Array,
) -> Iterator[tuple[slice, Array]]:
    """Frames less their background, some pixels at a time: which of the flat pictures, and frames x
    values. Colours of a pixel stay together.
    """
    colours = frames.shape[3] if frames.ndim == 4 else 1
    flat = frames.reshape(len(frames), -1)
    V = V.astype(np.float32)
    scores = scores.astype(np.float32)
    step = colours * max(1, AT_ONCE // (len(frames) * colours))
    for first in range(0, flat.shape[1], step):
        some = slice(first, first + step)
        yield some, flat[:, some] - scores @ V[some].T


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

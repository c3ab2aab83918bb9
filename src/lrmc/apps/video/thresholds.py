"""How far in grey levels what is in front is from the background.

Few deviations of the noise of a pixel are enough where noise differs from pixel to pixel: the masks
ask most of a window. How far most of a window goes by itself is thus learned from the clip, and
with it how noise of neighbours belongs together. Besides noise there are faint shadows and
reflections, which no noise tells of; they grow with the light.
"""

from __future__ import annotations

import numpy as np

from ...weights import Array
from .shadows import window_of

# In deviations of the noise of a pixel, and its limits in grey levels: what is asked at most.
DEVIATIONS, LEAST, MOST = 6.0, 16.0, 40.0
# Of the brightness: faint shadows and reflections. .15 and .25 are as good on five clips.
FAINT = 0.2
BRIGHT = np.array([0.299, 0.587, 0.114])  # shares of the colours in brightness
BANDS, COLUMNS = 12, 24  # of windows that are looked at in a frame
QUARTILE = 0.6745  # deviations


def threshold_of(
    noise: float,
    quiet: float | None,
    brightness: float,
) -> float:
    """How far a pixel is from a background with this noise and brightness that is not the
    background; `quiet` is how far windows of it go by themselves, if that is known.
    """
    most = float(np.clip(DEVIATIONS * noise, LEAST, MOST))
    if quiet is None:
        return most
    # Bytes are not finer than 1.
    return min(most, max(quiet, FAINT * brightness, DEVIATIONS))


def quiet_of(
    off: list[Array],
    colours: Array | None,
) -> Array:
    """How far windows of the background go by themselves in these differences of frames from it: in
    all, and in brightness alone.

    Half of a window, the middle half of all windows: what is in front is less.
    """
    size = window_of(off[0])
    sizes = [_sizes(x, colours, size) for x in off]
    of_all = np.hstack(sizes)
    low, high = np.quantile(of_all, [0.5, 0.75], axis=1)
    return np.asarray(low + DEVIATIONS * (high - low) / QUARTILE)


def _sizes(
    off: Array,
    colours: Array | None,
    size: int,
) -> Array:
    """The median of some windows of a frame, in all and in brightness: 2 x windows."""
    height, width = off.shape[:2]
    rows = _places(height - size + 1, BANDS)[:, None] + np.arange(size)
    columns = _places(width - size + 1, COLUMNS)[:, None] + np.arange(size)
    rows, columns = np.minimum(rows, height - 1), np.minimum(columns, width - 1)
    windows = off[rows[:, None, :, None], columns[:, None, :]]
    if colours is None:
        both = (np.abs(windows),) * 2
    else:
        whole = np.linalg.norm(windows @ colours, axis=-1)
        both = (whole, np.abs(windows @ BRIGHT))
    medians = [np.median(x, axis=(2, 3)) for x in both]
    return np.stack([x.ravel() for x in medians])


def _places(n: int, count: int) -> Array:
    """Some of n places, from the first to the last."""
    places = np.linspace(0, max(n - 1, 0), count)
    return np.unique(places.astype(int))

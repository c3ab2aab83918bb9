"""A robust additive centre: what a row and a column typically are."""

from __future__ import annotations

import numpy as np

from .linalg import Factors
from .storage import Observations
from .weights import Array

ENTRIES = 65  # looked at per row, and MANY per column (or the other way round, for the longer side)
MANY = 2001
LOOKS = 20_000_000  # places that are looked at, if that leaves ENTRIES


def centre(obs: Observations) -> Factors | None:
    """Row medians plus column medians of the rest, as factors of rank 2; None if they explain little.

    Data far from zero (images, prices) have a leading component that no threshold on |y| can tell from outliers.
    """
    some = obs.sample
    typical = float(np.median(np.abs(some.values)))
    if typical == 0 or abs(float(np.median(some.values))) < 0.2 * typical:
        return None
    rows = _medians(obs, 0, np.zeros(obs.shape[1]), float(np.median(some.values)))
    cols = _medians(obs, 1, rows, 0.0)
    left = np.median(np.abs(some.values - rows[some.rows] - cols[some.cols]))
    if left > 0.7 * typical:
        return None
    one, other = np.ones(obs.shape[0]), np.ones(obs.shape[1])
    return Factors(np.stack([rows, one], 1).astype(obs.dtype), np.stack([other, cols], 1).astype(obs.dtype))


def _medians(obs: Observations, axis: int, subtract: Array, empty: float) -> Array:
    """The median of some entries of each row (axis 0) or column (axis 1), less what the others typically are."""
    n, across = obs.shape[axis], obs.shape[1 - axis]
    entries = max(ENTRIES, min(MANY, int(LOOKS * obs.fraction / n))) if n < across else ENTRIES
    count = min(across, int(entries / obs.fraction))
    places = np.unique(np.linspace(0, across - 1, count).astype(np.int64))
    out = np.full(n, empty)
    for at in np.array_split(np.arange(n), max(1, n * len(places) // 4_000_000)):
        one, other = np.repeat(at, len(places)), np.tile(places, len(at))
        values = obs.lookup(*((one, other) if axis == 0 else (other, one))).reshape(len(at), -1) - subtract[places]
        values.sort(axis=1)  # NaN comes last; numpy's nanmedian is ten times slower on long rows
        count = values.shape[1] - np.isnan(values).sum(1)
        seen = np.flatnonzero(count)
        below, above = (values[seen, (count[seen] - k) // 2] for k in (1, 0))
        out[at[seen]] = (below + above) / 2
    return out

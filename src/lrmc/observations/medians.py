"""What a row and a column typically are."""

from __future__ import annotations

import numpy as np

from .._rows import equal
from ..linalg import median_of
from ..weights import Array
from .base import Observations

# looked at per row, and MANY per column (or the other way round, for the longer side)
ENTRIES = 65
MANY = 2001
LOOKS = 20_000_000  # places that are looked at, if that leaves ENTRIES


def medians_of_lines(obs: Observations, axis: int) -> Array:
    """The median of (some entries of) each row (axis 0) or column (axis 1); of all,
    where a line is empty.
    """
    middle = median_of(obs.sample.values) if len(obs.sample.values) else 0.0
    return np.asarray(medians(obs, axis, equal(0.0, obs.shape[1 - axis]), middle))


def medians(obs: Observations, axis: int, subtract: Array, empty: float) -> Array:
    """The median of some entries of each row (axis 0) or column (axis 1), less what the
    others typically are.
    """
    n, across = obs.shape[axis], obs.shape[1 - axis]
    entries = (
        max(ENTRIES, min(MANY, int(LOOKS * obs.fraction / n)))
        if n < across
        else ENTRIES
    )
    count = min(across, int(entries / obs.fraction))
    places = np.unique(np.linspace(0, across - 1, count).astype(np.int64))
    return obs.medians(axis, places, subtract, empty)

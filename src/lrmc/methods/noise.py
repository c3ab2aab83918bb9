"""The noise that rows can be told to have, before anything is fitted."""

from __future__ import annotations

import numpy as np

from ..observations.base import Observations
from ..weights import Array
from .centre import centre


def noise_of_rows(obs: Observations) -> Array:
    """The relative noise of rows, where it can be told from their place in a group."""
    return np.ones(obs.shape[0]) if obs.groups is None else unlike_members(obs)


def unlike_members(obs: Observations) -> Array:
    """The relative noise of each row of data in groups: bands differ, and the same band is alike in
    all groups.

    Taken from how far entries of a band typically are from the median of their row and column.
    """
    assert obs.groups is not None
    count, size = obs.groups.shape
    position = np.empty(obs.shape[0], np.int64)
    position[obs.groups.ravel()] = np.tile(np.arange(size), count)
    some, middle = obs.sample, centre(obs)
    rest = some.values if middle is None else some.residual(middle)
    of_band = [np.abs(rest[position[some.rows] == b]) for b in range(size)]
    levels = np.array([np.median(x) if len(x) else 0.0 for x in of_band])
    if not levels.any():  # nothing varies
        return np.ones(obs.shape[0])
    levels = np.maximum(levels, 1e-3 * levels.max())
    return levels[position] / np.median(levels)

"""Entries beyond all reason: codes for missing values that nobody named, sensors that ran full, slips
of many digits.

The farther off an outlier is, the easier it is told. But entries that are hidden to decide by have
their share of outliers, and a few at a hundred times the spread of all others drown what is to be
compared: these are taken for missing. They lie beyond a gap of their column that tails of what is
measured do not have, and either are a code, one value in several rows, or single ones: what a row
of large numbers has in all columns is no slip."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..linalg import median_of
from ..weights import Array
from ._door import as_observations
from .base import Observations

CELLS = 4_000_000  # of a matrix that is looked at: it is copied
REACH = 30.0  # median deviations of a column: what is nearer does little harm
GAP = 10.0  # times farther out than all that is nearer
CODE = 2  # rows of a column: one value in so many of them beyond the gap, and no other
RARE = 0.05  # of a column: what is there more often is no slip


def without_absurd(obs: Observations) -> Observations:
    """The data without entries beyond all reason; themselves if there are none."""
    n1, n2 = obs.shape
    if obs.groups is not None or not obs.is_here or n1 * n2 > CELLS:
        return obs
    some = obs.sample.values.astype(np.float64)
    away = np.abs(some - median_of(some))
    if away.max(initial=0) <= REACH * median_of(away):
        return obs
    Y = obs.grid(np.arange(n1), np.arange(n2))
    wrong = absurd(Y)
    if not wrong.any():
        return obs
    return as_observations(np.where(wrong, np.nan, Y), threads=obs.threads)


def absurd(Y: Array) -> Array:
    """Which entries are beyond all reason, of an array with NaN where nothing is observed."""
    apart = _beyond_gap(_deviations(Y.astype(np.float64)))
    count = apart.sum(0)
    if not count.any():
        return apart
    low = np.where(apart, Y, np.inf).min(0)
    high = np.where(apart, Y, -np.inf).max(0)
    code = apart & (low == high) & (count >= CODE)
    rest = apart & ~code
    single = rest.sum(1, keepdims=True) == 1
    rare = count <= np.maximum(RARE * (~np.isnan(Y)).sum(0), 1)
    return code | (rest & single & rare)


class Reach(NamedTuple):
    """How far entries of columns may be from the middle: of rows that come later."""

    middle: Array
    most: Array  # infinite where nothing is known of a column

    @classmethod
    def of(cls, Y: Array) -> Reach:
        """Of columns with entries, none of which is beyond all reason."""
        away, unit = _away(Y)
        farthest = np.nanmax(away, axis=0)
        most = np.maximum(GAP * farthest, REACH * unit)
        return cls(_medians(Y), np.where(np.isnan(unit), np.inf, most))

    def kept(self, Y: Array) -> Array:
        """The same rows with NaN for what is farther off."""
        return np.where(np.abs(Y - self.middle) > self.most, np.nan, Y).astype(Y.dtype)


def _deviations(Y: Array) -> Array:
    """From the medians of columns, in the median deviations of what deviates at all."""
    away, unit = _away(Y)
    return np.divide(away, unit, out=np.zeros_like(away), where=unit > 0)


def _away(Y: Array) -> tuple[Array, Array]:
    """How far entries are from the medians of columns, and the median of what is not 0 of it."""
    away = np.abs(Y - _medians(Y))
    return away, _medians(np.where(away > 0, away, np.nan))


def _medians(Y: Array) -> Array:
    """Of columns, without gaps; NaN where there is nothing."""
    count = (~np.isnan(Y)).sum(0)
    middle = np.maximum(count - 1, 0) // 2
    return np.take_along_axis(np.sort(Y, axis=0), middle[None], 0)[0]


def _beyond_gap(deviations: Array) -> Array:
    """What is farther out in its column than the first wide gap, if that is far."""
    ordered = np.sort(deviations, axis=0)
    nearer = np.maximum(ordered[:-1], 1)
    wide = ordered[1:] > np.maximum(GAP * nearer, REACH)
    return deviations >= np.where(wide, ordered[1:], np.inf).min(0, initial=np.inf)

"""What a value that is filled in may be: the decimals of its column, and its plausible range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..weights import Array

# Of the range of a column: how far beyond it a value is still plausible. Of n values from one
# distribution, the next exceeds all of them with probability 1 / (n + 1), seldom by much.
MARGIN = 0.1
# of the entries, and at least so many: where that many are at an end of the range it is the end of a
# scale (marks of 1 to 5, percent, yes and no)
COMMON, FEWEST = 0.05, 3


class Limits(NamedTuple):
    """The plausible range of each column."""

    low: Array
    high: Array


def plausible(observed: Array) -> Limits:
    """From what was observed and is no outlier (NaN elsewhere): the range of each column and a
    tenth more, unless it ends where entries recur; not below 0 where nothing is, nor above it where
    nothing is.
    """
    empty = np.isnan(observed).all(0)
    filled = np.where(empty, 0.0, observed)
    least, most = np.nanmin(filled, axis=0), np.nanmax(filled, axis=0)
    margin = MARGIN * (most - least)
    recurring = np.maximum(FEWEST, COMMON * np.sum(~np.isnan(filled), axis=0))
    low, high = (
        np.where(np.sum(filled == end, axis=0) >= recurring, end, beyond)
        for end, beyond in ((least, least - margin), (most, most + margin))
    )
    low = np.where(least >= 0, np.maximum(low, 0), low)
    high = np.where(most <= 0, np.minimum(high, 0), high)
    return Limits(np.where(empty, -np.inf, low), np.where(empty, np.inf, high))


def limited(X: Array, new: Array, limits: Limits) -> tuple[Array, int]:
    """X with its new entries within the limits, and how many were beyond."""
    within = np.clip(X, *limits)
    beyond = new & (within != X) & ~np.isnan(X)
    return np.where(beyond, within, X), int(beyond.sum())


MORE = 2  # decimals of estimates in lists, beyond those of their column


def readable(x: Array, cols: Array, decimals: Sequence[int | None]) -> Array:
    """Estimates of entries of these columns, with little more decimals than the columns have."""
    places = [np.nan if d is None else d + MORE for d in decimals]
    parts = 10.0 ** np.array(places, np.float64)[cols]  # of 1
    return np.where(np.isnan(parts), x, np.round(x * parts) / parts)


def rounded(X: Array, new: Array, decimals: list[int | None]) -> Array:
    """X with its new entries in the decimals of their columns."""
    out = X.copy()
    for k, places in enumerate(decimals):
        if places is not None:
            out[new[:, k], k] = np.round(X[new[:, k], k], places)
    return out

"""What the most similar lines say of an entry, for tables that are not of low rank alone.

Rows of the longer side (samples, time slots, users) are compared by their completed and cleaned
values. The mean of what the nearest ones have in the same place is a second opinion, which is
blended into the low-rank fit as far as hidden entries are found better with it. Small tables only:
a cleaned copy of the data is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations, row_blocks
from ..weights import Array

NEAREST = 10  # lines; 5 and 20 are within 1 % on tables that gain at all
DOUBT = 0.5  # of a neighbor: how much the fit itself counts among what they say
MOST_CELLS = 2_000_000  # of a table that is copied
MOST_LINES = 6_000  # that are compared with each other


@dataclass(frozen=True, eq=False)
class Neighbors:
    """A part beyond low rank: `weight` of the way from the fit to what neighbors say."""

    X: Factors  # the lines that are compared are rows of L
    cleaned: Array  # the data, residuals clipped; NaN where nothing was observed
    nearest: Array  # for each line, the indices of its neighbors
    weight: float
    transposed: bool  # whether the lines are columns of the matrix
    name: str = "neighbors"

    def at(self, rows: Array, cols: Array) -> Array:
        """By how much neighbors change the entries at these places."""
        lines, across = (cols, rows) if self.transposed else (rows, cols)
        fit = np.einsum("ij,ij->i", self.X.L[lines], self.X.R[across])
        total, count = DOUBT * fit, np.full(len(fit), DOUBT)
        for near in self.nearest[lines].T:
            values = self.cleaned[near, across]
            seen = ~np.isnan(values)
            total += np.where(seen, values, 0.0)
            count += seen
        return np.asarray(self.weight * (total / count - fit))


def can_compare(obs: Observations) -> bool:
    """Whether a table is small enough to compare all of its longer lines."""
    n1, n2 = obs.shape
    return obs.is_here and n1 * n2 <= MOST_CELLS and max(n1, n2) <= MOST_LINES


def neighbors(
    obs: Observations, X: Factors, bend: float, weight: float = 1.0
) -> Neighbors:
    """The neighbors of all lines, where residuals beyond `bend` are clipped."""
    flip = obs.shape[1] > obs.shape[0]
    Y = obs.grid(*map(np.arange, obs.shape))
    if flip:
        Y, X = Y.T, Factors(X.R, X.L)
    X = Factors(*(np.asarray(F, np.float64) for F in X))
    fit = X.L @ X.R.T
    moved = fit + np.clip(Y - fit, -bend, bend)
    completed = np.where(np.isnan(Y), fit, moved)
    nearest = nearest_lines(completed, min(NEAREST, len(Y) - 1))
    return Neighbors(X, moved.astype(np.float32), nearest, weight, flip)


def nearest_lines(Z: Array, count: int) -> Array:
    """For each row the indices of the nearest other rows, the nearest first."""
    Z = Z - Z.mean(0)
    squares = np.einsum("ij,ij->i", Z, Z)
    found = np.empty((len(Z), count), np.int64)
    for block in row_blocks(len(Z), len(Z)):
        distance = squares[None, :] - 2 * Z[block] @ Z.T
        own = np.arange(len(Z))[block]
        distance[np.arange(len(own)), own] = np.inf
        near = np.argpartition(distance, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distance, near, 1), axis=1, kind="stable")
        found[block] = np.take_along_axis(near, order, 1)
    return found

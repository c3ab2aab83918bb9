"""What the most similar lines say of an entry, for tables that are not of low rank alone.

Rows of the longer side (samples, time slots, users) are compared by their completed and cleaned
values. The mean of what the nearest ones have in the same place is a second opinion, which is
blended into the low-rank fit as far as hidden entries are found better with it. Small tables only:
a cleaned copy of the data is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..linalg import Factors, entries_at
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
    bend: float  # where residuals are clipped
    nearest: Array  # for each line, the indices of its neighbors
    weight: float
    transposed: bool  # whether the lines are columns of the matrix
    name: str = "neighbors"

    def at(self, rows: Array, cols: Array) -> Array:
        """By how much neighbors change the entries at these places."""
        lines, across = (cols, rows) if self.transposed else (rows, cols)
        fit = entries_at(self.X, lines, across)
        said = self._said(fit, self.nearest[lines].T, across)
        return np.asarray(self.weight * (said - fit))

    def for_new(self, Y: Array, fit: Array) -> Array:
        """What new rows become that were fitted to the same columns: `fit`, and what the rows
        that are known say.
        """
        if self.transposed:
            return fit
        known = self.X.L @ self.X.R.T
        known = np.where(np.isnan(self.cleaned), known, self.cleaned)
        moved = fit + np.clip(Y - fit, -self.bend, self.bend)
        completed = np.where(np.isnan(Y), fit, moved)
        nearest = nearest_lines(completed, self.nearest.shape[1], known)
        across = np.arange(Y.shape[1])[None, :]
        said = self._said(fit, nearest.T[:, :, None], across)
        return (fit + self.weight * (said - fit)).astype(fit.dtype)

    def _said(self, fit: Array, nearest: Array, across: Array) -> Array:
        """The mean of what neighbors have at these places; `nearest` are the first neighbors of
        all places, then the second, and so on.
        """
        total, count = DOUBT * fit, np.full(fit.shape, DOUBT)
        for near in nearest:
            values = self.cleaned[near, across]
            seen = ~np.isnan(values)
            total = total + np.where(seen, values, 0.0)
            count += seen
        return np.asarray(total / count)


def can_compare(obs: Observations) -> bool:
    """Whether a table is small enough to compare all of its longer lines."""
    n1, n2 = obs.shape
    return obs.is_here and n1 * n2 <= MOST_CELLS and max(n1, n2) <= MOST_LINES


def neighbors(
    obs: Observations,
    X: Factors,
    bend: float,
    weight: float = 1.0,
) -> Neighbors:
    """The neighbors of all lines, where residuals beyond `bend` are clipped."""
    lines = cleaned_lines(obs, X, bend)
    completed = np.where(np.isnan(lines.values), lines.fit, lines.values)
    nearest = nearest_lines(completed, min(NEAREST, len(completed) - 1))
    return Neighbors(lines.X, lines.values, bend, nearest, weight, lines.transposed)


class Cleaned(NamedTuple):
    """The longer lines of a table, and their fit."""

    X: Factors  # whose L has them for rows
    values: Array  # the data, residuals clipped; NaN where nothing was observed
    fit: Array
    transposed: bool  # whether the lines are columns of the matrix


def cleaned_lines(obs: Observations, X: Factors, bend: float) -> Cleaned:
    """The longer lines, where residuals beyond `bend` are clipped."""
    flip = obs.shape[1] > obs.shape[0]
    Y = obs.grid(*map(np.arange, obs.shape))
    if flip:
        Y, X = Y.T, Factors(X.R, X.L)
    X = Factors(*(np.asarray(F, np.float64) for F in X))
    fit = X.L @ X.R.T
    return Cleaned(X, fit + np.clip(Y - fit, -bend, bend), fit, flip)


def nearest_lines(Z: Array, count: int, known: Array | None = None) -> Array:
    """For each row the indices of the nearest other rows, or of those that are known, the nearest
    first.
    """
    among = Z if known is None else known
    middle = among.mean(0)
    Z, among = Z - middle, among - middle
    squares = np.einsum("ij,ij->i", among, among)
    found = np.empty((len(Z), count), np.int64)
    for block in row_blocks(len(Z), len(among)):
        distance = squares[None, :] - 2 * Z[block] @ among.T
        if known is None:
            own = np.arange(len(Z))[block]
            distance[np.arange(len(own)), own] = np.inf
        near = np.argpartition(distance, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distance, near, 1), axis=1, kind="stable")
        found[block] = np.take_along_axis(near, order, 1)
    return found

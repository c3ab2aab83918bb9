"""What the most similar lines say of an entry, for tables that are not of low rank alone.

Rows of the longer side (samples, time slots, users) are compared by their completed and cleaned
values. The mean of what the nearest ones have in the same place is a second opinion, which is
blended into the low-rank fit as far as hidden entries are found better with it. Where low rank is a
poor model, what it says of gaps leads to the wrong neighbors (panels of states and years were filled
in 10 to 20 % worse than by scikit-learn's): by the entries that both lines have is another opinion.
Small tables only: a cleaned copy of the data is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _kernels
from ..linalg import Factors, entries_at
from ..observations.base import Observations
from ..weights import Array
from .cleaned import MOST_CELLS, Lines

NEAREST = 10  # lines; 5 and 20 are within 1 % on tables that gain at all
DOUBT = 0.5  # of a neighbor: how much the fit itself counts among what they say
MOST_LINES = 6_000  # that are compared with each other
SHARING = "neighbors by shared entries"


@dataclass(frozen=True, eq=False)
class Neighbors:
    """A part beyond low rank: `weight` of the way from the fit to what neighbors say."""

    X: Factors  # the lines that are compared are rows of L
    cleaned: Array  # the data, residuals clipped; NaN where nothing was observed
    bend: float  # where residuals are clipped
    nearest: Array  # for each line, the indices of its neighbors
    weight: float
    transposed: bool  # whether the lines are columns of the matrix
    # whether they are compared by the entries that both have, and not by completed ones
    shared: bool = False
    name: str = "neighbors"

    def at(self, rows: Array, cols: Array) -> Array:
        """By how much neighbors change the entries at these places."""
        lines, across = (cols, rows) if self.transposed else (rows, cols)
        fit = entries_at(self.X, lines, across)
        said = self._said(fit, self.nearest, lines, across)
        return np.asarray(self.weight * (said - fit))

    def for_new(self, Y: Array, fit: Array) -> Array:
        """What new rows become that were fitted to the same columns: `fit`, and what the rows
        that are known say.
        """
        if self.transposed:
            return fit
        moved = fit + np.clip(Y - fit, -self.bend, self.bend)
        nearest = self._nearest_to(np.asarray(moved, np.float64), fit)
        lines, across = (x.ravel() for x in np.indices(Y.shape))
        said = self._said(fit.ravel(), nearest, lines, across).reshape(Y.shape)
        return (fit + self.weight * (said - fit)).astype(fit.dtype)

    def _nearest_to(self, moved: Array, fit: Array) -> Array:
        """The nearest of the known lines to others, cleaned, with their fit."""
        count = self.nearest.shape[1]
        if self.shared:
            return nearest_lines(moved, count, self.cleaned)[0]
        known = self.X.L @ self.X.R.T
        known = np.where(np.isnan(self.cleaned), known, self.cleaned)
        completed = np.where(np.isnan(moved), fit, moved)
        return nearest_lines(completed, count, known)[0]

    def _said(self, fit: Array, nearest: Array, lines: Array, across: Array) -> Array:
        """The mean of what the neighbors of these lines have in these columns, and the fit among
        them.
        """
        total, count = among(self.cleaned, nearest, lines, across)
        return np.asarray((DOUBT * fit + total) / (DOUBT + count))


def can_compare(obs: Observations) -> bool:
    """Whether a table is small enough to compare all of its longer lines."""
    n1, n2 = obs.shape
    return obs.is_here and n1 * n2 <= MOST_CELLS and max(n1, n2) <= MOST_LINES


def neighbors(lines: Lines, bend: float, weight: float) -> Neighbors:
    """The neighbors of all lines, where residuals beyond `bend` are clipped."""
    completed = np.where(np.isnan(lines.values), lines.fit, lines.values)
    nearest, _ = nearest_lines(completed, min(NEAREST, len(completed) - 1))
    return Neighbors(lines.X, lines.values, bend, nearest, weight, lines.transposed)


def sharing(lines: Lines, bend: float, weight: float) -> Neighbors:
    """The same by the entries that both lines have."""
    Y = lines.values
    nearest, _ = nearest_lines(Y, min(NEAREST, len(Y) - 1))
    return Neighbors(lines.X, Y, bend, nearest, weight, lines.transposed, shared=True)


def nearest_lines(
    Z: Array, count: int, known: Array | None = None
) -> tuple[Array, Array]:
    """For each row the indices of the nearest other rows, or of those that are known, the nearest
    first; and the squares of their distances. Rows with gaps (NaN) are compared by the entries that
    both have, as if the others were as far apart.
    """
    Z = _kernels.ready(Z, np.float64)
    others = Z if known is None else _kernels.ready(known, np.float64)
    which, apart = np.empty((len(Z), count), np.int64), np.empty((len(Z), count))
    _kernels.nearest(Z, others, which=which, apart=apart, own=known is None)
    return which, apart


def among(
    values: Array,
    which: Array,
    rows: Array,
    cols: Array,
    counts: Array | None = None,
) -> tuple[Array, Array]:
    """What the neighbors of these rows have in these columns: the sum, each as often as it counts,
    and how much counted; where a neighbor has nothing (NaN), it does not.
    """
    places = {"rows": rows, "cols": cols}
    at = {name: _kernels.ready(x, np.int64) for name, x in places.items()}
    sums, total = np.empty(len(rows)), np.empty(len(rows))
    values = _kernels.ready(values, np.float64)
    _kernels.among(values, which, **at, sums=sums, total=total, counts=counts)
    return sums, total

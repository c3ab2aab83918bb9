"""What the other columns of a table say of an entry, corrected by how far they were wrong in the
most similar rows.

One regression serves all rows of a table, also where it bends or consists of parts (panels, kinds
of samples). Its errors are then alike in rows that are alike. Neighbors by themselves know that
too, but draw every entry to their mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations
from ..weights import Array
from .neighbors import DOUBT, can_compare, cleaned_lines, nearest_lines
from .regression import Regression, can_regress, of_lines, told_by_others

NEAREST = 20  # rows; 10 give the same within 0.5 %
# of the median square of distances: nearer rows count alike. 0.001 to 0.1 give the same
NEAR = 0.1


class Near(NamedTuple):
    """The nearest samples of each row, one column for each neighbor."""

    which: Array
    counts: Array  # how much each counts: the nearest 1


@dataclass(frozen=True, eq=False)
class Local:
    """A part beyond low rank: `weight` of the way from the fit to a regression among neighbors."""

    regression: Regression  # with the weight of the part
    values: Array  # cleaned, samples x columns; NaN where nothing was observed
    name: str = "regression among neighbors"

    @cached_property
    def completed(self) -> Array:
        """The samples, with what the regression says in their gaps."""
        return np.where(np.isnan(self.values), self.regression.said, self.values)

    @cached_property
    def near(self) -> Near:
        """The neighbors of the samples themselves."""
        return near_to(self.completed)

    def at(self, rows: Array, cols: Array) -> Array:
        """By how much it changes the entries at these places."""
        lines, across = (cols, rows) if self.regression.transposed else (rows, cols)
        near = Near(self.near.which[lines].T, self.near.counts[lines].T)
        moved = self.regression.weight * self._missed(near, across)
        return np.asarray(self.regression.at(rows, cols) + moved)

    def for_new(self, Y: Array, fit: Array) -> Array:
        """What new rows become that were fitted to the same columns."""
        plain = self.regression.for_new(Y, fit)
        if self.regression.transposed:
            return plain
        bend = self.regression.bend
        cleaned = np.asarray(fit + np.clip(Y - fit, -bend, bend), np.float64)
        said = told_by_others(cleaned, self.regression.normal)
        completed = np.where(np.isnan(cleaned), said, cleaned)
        near = near_to(completed, self.completed)
        near = Near(*(x.T[:, :, None] for x in near))
        missed = self._missed(near, np.arange(Y.shape[1])[None, :])
        return (plain + self.regression.weight * missed).astype(fit.dtype)

    def _missed(self, near: Near, across: Array) -> Array:
        """By how much the regression misses neighbors in these columns: means over the first axis,
        drawn to 0.
        """
        wrong = (
            self.values[near.which, across] - self.regression.said[near.which, across]
        )
        counts = np.where(np.isnan(wrong), 0.0, near.counts)
        total = np.where(np.isnan(wrong), 0.0, wrong) * counts
        return np.asarray(total.sum(0) / (counts.sum(0) + DOUBT))


def can_regress_locally(obs: Observations) -> bool:
    """Whether a table has few columns, and rows that can be compared."""
    return can_regress(obs) and can_compare(obs)


def local(obs: Observations, X: Factors, bend: float, weight: float = 1.0) -> Local:
    """What other columns and neighbors say of all entries, where residuals beyond `bend` are
    clipped.
    """
    lines = cleaned_lines(obs, X, bend)
    return Local(of_lines(lines, bend, weight), lines.values)


def near_to(Z: Array, known: Array | None = None) -> Near:
    """The nearest other rows, or the nearest of those that are known."""
    among = Z if known is None else known
    which = nearest_lines(Z, min(NEAREST, len(among) - 1), known)
    apart = np.stack([((Z - among[k]) ** 2).sum(1) for k in which.T], axis=1)
    apart += NEAR * float(np.median(apart)) + 1e-300
    return Near(which, apart[:, :1] / apart)

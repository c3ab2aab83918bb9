"""What the other columns of a table say of an entry, corrected by how far they were wrong in the
most similar rows.

One regression serves all rows of a table, also where it bends or consists of parts (panels, kinds
of samples). Its errors are then alike in rows that are alike. Neighbors by themselves know that
too, but draw every entry to their mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..observations.base import Observations
from ..weights import Array
from .cleaned import Lines
from .neighbors import DOUBT, Near, among, can_compare, near_each_other, near_to
from .normal import told_by_others
from .regression import Regression, can_regress, regression

NEAREST = 20  # rows; 10 give the same within 0.5 %


@dataclass(frozen=True, eq=False)
class Local:
    """A part beyond low rank: `weight` of the way from the fit to a regression among neighbors."""

    regression: Regression  # with the weight of the part
    values: Array  # cleaned, samples x columns; NaN where nothing was observed
    asked: Array | None = None  # samples that are asked about; None: all
    name: str = "regression among neighbors"

    @cached_property
    def completed(self) -> Array:
        """The samples, with what the regression says in their gaps."""
        return np.where(np.isnan(self.values), self.regression.said, self.values)

    @cached_property
    def near(self) -> Near:
        """The neighbors of the samples themselves."""
        return near_each_other(self.completed, NEAREST, self.asked)

    def at(self, rows: Array, cols: Array) -> Array:
        """By how much it changes the entries at these places."""
        lines, across = (cols, rows) if self.regression.transposed else (rows, cols)
        moved = self.regression.weight * self._missed(self.near, lines, across)
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
        near = near_to(completed, NEAREST, self.completed)
        places = (x.ravel() for x in np.indices(Y.shape))
        missed = self._missed(near, *places).reshape(Y.shape)
        return (plain + self.regression.weight * missed).astype(fit.dtype)

    @cached_property
    def wrong(self) -> Array:
        """By how much the regression misses the samples."""
        return self.values - self.regression.said

    def _missed(self, near: Near, lines: Array, across: Array) -> Array:
        """By how much it misses the neighbors of these lines in these columns: means, drawn to 0."""
        total, counts = among(self.wrong, near.which, lines, across, near.counts)
        return total / (counts + DOUBT)


def can_regress_locally(obs: Observations) -> bool:
    """Whether a table has few columns, and rows that can be compared."""
    return can_regress(obs) and can_compare(obs)


def local(lines: Lines, bend: float, weight: float) -> Local:
    """What other columns and neighbors say of all entries, where residuals beyond `bend` are
    clipped.
    """
    return Local(regression(lines, bend, weight), lines.values, lines.asked)

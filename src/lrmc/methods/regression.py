"""What the other columns of a table say of an entry: its mean, given the rest of its row.

A table of few columns need not be of low rank; its columns can still be told from each other. The
longer lines (samples) are taken for draws of one normal distribution, whose mean and covariance are
found by expectation and maximisation on the cleaned data, so that gaps and outliers do no harm. It
is a second opinion, which is blended into the low-rank fit as far as hidden entries gain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg import Factors, entries_at
from ..observations.base import Observations
from ..weights import Array
from .cleaned import MOST_CELLS, Lines
from .normal import Normal, told_by_others

MOST_COLUMNS = 40  # of which each is told from all others
PLAIN = "plain regression"
SETTLED = "settled regression"
ROWS_EACH = 3  # for each column at least: with fewer a covariance says little


@dataclass(frozen=True, eq=False)
class Regression:
    """A part beyond low rank: `weight` of the way from the fit to what other columns say."""

    X: Factors  # the samples are rows of L
    said: Array  # what the others say of every entry, samples x columns
    normal: Normal
    bend: float  # where residuals of the fit are clipped
    weight: float
    transposed: bool  # whether the samples are columns of the matrix
    name: str = "regression"

    def at(self, rows: Array, cols: Array) -> Array:
        """By how much other columns change the entries at these places."""
        lines, across = (cols, rows) if self.transposed else (rows, cols)
        fit = entries_at(self.X, lines, across)
        return np.asarray(self.weight * (self.said[lines, across] - fit))

    def for_new(self, Y: Array, fit: Array) -> Array:
        """What new rows become that were fitted to the same columns: `fit`, and what their own
        entries say of the others.
        """
        if self.transposed:
            return fit
        moved = fit + np.clip(Y - fit, -self.bend, self.bend)
        said = told_by_others(np.asarray(moved, np.float64), self.normal)
        return (fit + self.weight * (said - fit)).astype(fit.dtype)


def can_regress(obs: Observations) -> bool:
    """Whether a table has few columns and rows enough for them."""
    n, across = max(obs.shape), min(obs.shape)
    few = 2 <= across <= MOST_COLUMNS and n >= ROWS_EACH * across
    return few and obs.is_here and n * across <= MOST_CELLS


def regression(lines: Lines, bend: float, weight: float) -> Regression:
    """What other columns say of all entries, where residuals beyond `bend` are clipped."""
    return Regression(lines.X, *lines.told, bend, weight, lines.transposed)


def plain_regression(lines: Lines, bend: float, weight: float) -> Regression:
    """The same by a covariance that is not drawn to its diagonal: sums and other relations of
    columns that hold exactly are found, however few rows there are.
    """
    told = lines.plainly_told
    return Regression(lines.X, *told, bend, weight, lines.transposed, PLAIN)


def settled_regression(lines: Lines, bend: float, weight: float) -> Regression:
    """The plain one after more rounds: better where relations hold nearly exactly, and worse where
    rows are few and noisy.
    """
    told = lines.told_at_last
    return Regression(lines.X, *told, bend, weight, lines.transposed, SETTLED)

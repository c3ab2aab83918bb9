"""What the other columns of a table say of an entry: its mean, given the rest of its row.

A table of few columns need not be of low rank; its columns can still be told from each other. The
longer lines (samples) are taken for draws of one normal distribution, whose mean and covariance are
found by expectation and maximisation on the cleaned data, so that gaps and outliers do no harm. It
is a second opinion, which is blended into the low-rank fit as far as hidden entries gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..linalg import Factors, entries_at
from ..observations.base import Observations, row_blocks
from ..weights import Array
from .neighbors import MOST_CELLS, cleaned_lines

MOST_COLUMNS = 40  # of which each is told from all others
ROWS_EACH = 3  # for each column at least: with fewer a covariance says little
ROUNDS = 8  # beginning at the low-rank fit, it moves by less than 1 % after 5
MOST_ROWS = 4_000  # that the covariance is found from
TOGETHER = 4  # numbers of missing entries of rows that are solved at once
TINY = 1e-9  # of the largest variance: what a column that does not vary is given


class Normal(NamedTuple):
    """The distribution of a row."""

    mean: Array
    cov: Array


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


def regression(
    obs: Observations,
    X: Factors,
    bend: float,
    weight: float = 1.0,
) -> Regression:
    """What other columns say of all entries, where residuals beyond `bend` are clipped."""
    lines = cleaned_lines(obs, X, bend)
    normal = normal_of(lines.values, lines.fit)
    said = told_by_others(lines.values, normal)
    return Regression(lines.X, said, normal, bend, weight, lines.transposed)


def normal_of(Y: Array, fit: Array) -> Normal:
    """The mean and covariance of rows with gaps (NaN), beginning with `fit` there.

    As many rows more as there are columns are supposed to have been seen in which columns have
    nothing to do with each other: a covariance of few rows is drawn to its diagonal."""
    if len(Y) > MOST_ROWS:
        some = np.random.default_rng(0).choice(len(Y), MOST_ROWS, replace=False)
        Y, fit = Y[some], fit[some]
    n, across = Y.shape
    gaps = gaps_of(Y)
    Z = np.where(np.isnan(Y), fit, Y)
    unknown = np.zeros((across, across))
    for k in range(ROUNDS + 1):
        mean = Z.mean(0)
        off = Z - mean
        alone = np.diag(across * (off**2).mean(0))
        cov = (off.T @ off + unknown + alone) / (n + across)
        normal = Normal(mean, cov + TINY * np.eye(across) * (cov.max() or 1.0))
        if k == ROUNDS:
            break
        Z, unknown = _expected(Y, gaps, normal)
    return normal


class Gaps(NamedTuple):
    """Rows with about as many missing entries, so that they are solved together."""

    rows: Array
    # rows x at most so many missing: their columns; where fewer are missing, columns beyond those
    # of the table, which nothing depends on
    places: Array

    def inverses(self, precision: Array) -> Array:
        """The covariance of what is missing, given what is seen: rows x missing x missing."""
        at = self.places
        return np.linalg.inv(precision[at[:, :, None], at[:, None, :]])


def gaps_of(Y: Array) -> list[Gaps]:
    """All rows with gaps."""
    missing = np.isnan(Y)
    counts, across = missing.sum(1), Y.shape[1]
    widths = np.minimum(-(-counts // TOGETHER) * TOGETHER, across)
    # the columns of what is missing come first
    columns = np.argsort(~missing, axis=1, kind="stable")
    found = []
    for width in np.unique(widths[widths > 0]):
        rows = np.flatnonzero(widths == width)
        numbers = np.arange(width)
        is_gap = numbers < counts[rows, None]
        places = np.where(is_gap, columns[rows, :width], across + numbers)
        for block in row_blocks(len(rows), int(width) * across):
            found.append(Gaps(rows[block], places[block]))
    return found


def _precision(normal: Normal) -> Array:
    """The inverse covariance, and as many columns more that nothing depends on."""
    across = len(normal.mean)
    precision = np.eye(2 * across)
    precision[:across, :across] = np.linalg.inv(normal.cov)
    return precision


def _expected(Y: Array, gaps: Sequence[Gaps], normal: Normal) -> tuple[Array, Array]:
    """The rows with missing entries as the others tell them, and the sum over rows of the
    covariance of what is left open.

    In terms of the inverse covariance P, what is missing has the covariance P_mm^-1 and the mean
    - P_mm^-1 P_ms y_s: the systems are as small as the gaps.
    """
    across = Y.shape[1]
    precision = _precision(normal)
    off = np.where(np.isnan(Y), 0.0, Y - normal.mean)
    off = np.pad(off, ((0, 0), (0, across)))
    pull = off @ precision
    unknown = np.zeros(precision.size)
    for some in gaps:
        rows, at = some.rows[:, None], some.places
        inverse = some.inverses(precision)
        off[rows, at] = -np.einsum("ijk,ik->ij", inverse, pull[rows, at])
        pairs = 2 * across * at[:, :, None] + at[:, None, :]
        unknown += np.bincount(pairs.ravel(), inverse.ravel(), unknown.size)
    left = unknown.reshape(precision.shape)[:across, :across]
    return normal.mean + off[:, :across], left


def told_by_others(Y: Array, normal: Normal) -> Array:
    """Every entry as the others of its row tell it; one that is there, as if it were missing."""
    across, gaps = Y.shape[1], gaps_of(Y)
    complete, _ = _expected(Y, gaps, normal)
    precision = _precision(normal)
    # y_s times the inverse covariance of what is seen, and the diagonal of that
    pull = (complete - normal.mean) @ precision[:across, :across]
    own = np.tile(np.diag(precision)[:across], (len(Y), 1))
    for some in gaps:
        to_gaps = precision[some.places][:, :, :across]
        through = some.inverses(precision) @ to_gaps
        own[some.rows] -= np.einsum("ijk,ijk->ik", to_gaps, through)
    seen = ~np.isnan(Y)
    # without the entry itself: a row and column of the inverse less
    without = Y - pull / np.where(seen, own, 1.0)
    return np.where(seen, without, complete)

"""What the other columns of a table say of an entry: its mean, given the rest of its row.

A table of few columns need not be of low rank; its columns can still be told from each other. The
longer lines (samples) are taken for draws of one normal distribution, whose mean and covariance are
found by expectation and maximisation on the cleaned data, so that gaps and outliers do no harm. It
is a second opinion, which is blended into the low-rank fit as far as hidden entries gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .. import _kernels
from ..linalg import Factors, entries_at
from ..observations.base import Observations
from ..weights import Array
from .neighbors import MOST_CELLS, Cleaned, cleaned_lines

MOST_COLUMNS = 40  # of which each is told from all others
ROWS_EACH = 3  # for each column at least: with fewer a covariance says little
ROUNDS = 8  # beginning at the low-rank fit, it moves by less than 1 % after 5
MOST_ROWS = 4_000  # that the covariance is found from
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
    return of_lines(cleaned_lines(obs, X, bend), bend, weight)


def of_lines(lines: Cleaned, bend: float, weight: float) -> Regression:
    """The same, of lines that were cleaned."""
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
    Y = _kernels.ready(Y, np.float64)
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
        Z, unknown = _expected(Y, normal)
    return normal


def _expected(Y: Array, normal: Normal) -> tuple[Array, Array]:
    """The rows with missing entries as the others tell them, and the sum over rows of the
    covariance of what is left open.
    """
    complete, unknown = np.empty_like(Y), np.empty_like(normal.cov)
    _kernels.gaps(Y, **_given(normal), complete=complete, unknown=unknown)
    return complete, unknown


def told_by_others(Y: Array, normal: Normal) -> Array:
    """Every entry as the others of its row tell it; one that is there, as if it were missing."""
    Y = _kernels.ready(Y, np.float64)
    complete, told = np.empty_like(Y), np.empty_like(Y)
    _kernels.gaps(Y, **_given(normal), complete=complete, told=told)
    return told


def _given(normal: Normal) -> dict[str, Array]:
    """The distribution as the kernel takes it."""
    return {
        "mean": _kernels.ready(normal.mean, np.float64),
        "precision": np.linalg.inv(normal.cov),
    }

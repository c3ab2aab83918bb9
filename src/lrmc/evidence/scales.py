"""How uncertain each entry of a low-rank fit is, beside the others: by its row, its column, and
what is known of them.

Everything is a few numbers per row and column: nothing has n1 x n2 entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..linalg import Factors, balanced, gram
from ..observations.base import Observations, row_blocks
from ..row_systems import pairs
from ..weights import Array, Cauchy

ROUNDS = 2  # of rows and columns in turn
LEAST = 0.03  # of the typical residual: what is smaller says no more (data are rounded)
# in logarithms: what is further from the typical size of its row and column counts as this far
FAR = 2.5
REACH = 4.0  # thresholds of weights, in quantiles LOW of the residuals
LOW = 0.3
SIZES = (0.0, 0.5, 1.0)  # powers of the noise of rows and columns that are tried
DOUBTS = (0.0, 1.0, 3.0, 10.0)  # how many times what is unknown of the factors counts


class Unknown(NamedTuple):
    """What is not known of the factors: at (i, j), noise times rows[i] col_lean[j] +
    cols[j] row_lean[i].
    """

    # how little is known of each row of L, beside the others: 1 in the mean
    rows: Array
    cols: Array
    # how far what is unknown of a column of the matrix reaches in this row
    row_lean: Array
    col_lean: Array
    noise: float  # the variance of good entries

    def leverage(self, rows: Array, cols: Array) -> Array:
        """The variance of the fit at these places, in units of the noise."""
        return np.asarray(
            self.rows[rows] * self.col_lean[cols]
            + self.cols[cols] * self.row_lean[rows]
        )

    def at(self, rows: Array, cols: Array) -> Array:
        """The variance of the fit at these places."""
        return self.noise * self.leverage(rows, cols)

    def times(self, gain: float) -> Unknown:
        """So many times the variance."""
        return self._replace(noise=gain * self.noise)


class Scales(NamedTuple):
    """The scale of errors at (i, j): the root of (row_noise[i] col_noise[j])^2 + the
    variance of the fit there.
    """

    row_noise: Array
    col_noise: Array
    unknown: Unknown

    def at(self, rows: Array, cols: Array) -> Array:
        """At these places."""
        noise = self.row_noise[rows] * self.col_noise[cols]
        return np.asarray(np.sqrt(noise**2 + self.unknown.at(rows, cols)))


class Parts(NamedTuple):
    """What scales at some places are made of."""

    relative: Array  # noise of row times noise of column, 1 where typical
    variance: Array  # of the fit

    def scale(self, noise: float, size: float, doubt: float) -> Array:
        """With this typical noise, and so much faith in each part."""
        return np.asarray(
            np.sqrt((noise * self.relative**size) ** 2 + doubt * self.variance)
        )


def line_noise(obs: Observations, X: Factors) -> tuple[Array, Array]:
    """The relative noise of rows and of columns: typical sizes of residuals, drawn to the others
    where entries are few.

    Logarithms of sizes are a sum of what rows and columns have. A few passes over the data.
    """
    levels = [np.zeros(n) for n in obs.shape]
    size = np.abs(obs.sample.residual(X))
    least = max(LEAST * float(np.median(size)), 1e-300)
    for _ in range(ROUNDS):
        for side, seen in enumerate((obs.row_observed, obs.col_observed)):
            middle = float(
                np.median(
                    np.log(size + least)
                    - levels[0][obs.sample.rows]
                    - levels[1][obs.sample.cols]
                )
            )
            total, square = np.zeros(obs.shape[side]), 0.0
            for lines, away in _sizes(obs, X, levels, least, middle, side):
                total += np.bincount(lines, away, obs.shape[side])
                square += float((away**2).sum())
            levels[side] = levels[side] + _drawn_together(
                total, np.asarray(seen), square
            )
    return np.exp(levels[0]), np.exp(levels[1])


def _sizes(
    obs: Observations,
    X: Factors,
    levels: list[Array],
    least: float,
    middle: float,
    side: int,
) -> Iterator[tuple[Array, Array]]:
    """Lines (rows or columns) of entries, and how far the logarithm of their residual is
    above its usual size.
    """
    for some in obs.residuals(*X):
        usual = levels[0][some.rows] + levels[1][some.cols] + middle
        away = np.log(np.abs(some.values).astype(np.float64) + least) - usual
        yield (some.rows, some.cols)[side], np.clip(away, -FAR, FAR)


def _drawn_together(total: Array, count: Array, square: float) -> Array:
    """Means of lines, each drawn to their mean as far as it is uncertain: empirical Bayes."""
    entries = float(count.sum())
    mean = total.sum() / entries
    each = np.where(count > 0, total / np.maximum(count, 1) - mean, 0.0)
    within = max(
        square / entries - mean**2 - float((count * each**2).sum()) / entries, 1e-300
    )
    used = count > 0
    between = float((each[used] ** 2).mean() - (within / count[used]).mean())
    if between <= 0:
        return np.zeros(len(count))
    return np.asarray(each * count / (count + within / between))


def unknown(obs: Observations, X: Factors) -> Unknown:
    """What is not known of the factors of a fit to these data: one pass, and a small
    system per row and column.
    """
    Z = balanced(*(np.asarray(F, np.float64) for F in X))
    typed = Factors(*(F.astype(obs.dtype) for F in Z))
    size = np.abs(obs.sample.residual(typed))
    reach = max(REACH * float(np.quantile(size, LOW)), 1e-30 * obs.scale)
    weight = Cauchy(np.full(obs.shape[0], reach), np.ones(obs.shape[1]))
    pull = obs.products(*typed, weight, Pw=pairs(typed.L), Qw=pairs(typed.R))
    variance = float(pull.energy) / max(
        float(np.sum(pull.row_weight, dtype=np.float64)), 1e-300
    )
    own = [
        _left_open(H, F, other, variance)
        for H, F, other in zip(pull.grams, Z, reversed(Z), strict=True)
    ]
    (rows, row_mean), (cols, col_mean) = own
    return Unknown(
        rows / max(float(rows.mean()), 1e-300),
        cols / max(float(cols.mean()), 1e-300),
        np.einsum("ia,ab,ib->i", Z.L, col_mean, Z.L),
        np.einsum("ja,ab,jb->j", Z.R, row_mean, Z.R),
        variance,
    )


def _left_open(
    H: Array, F: Array, other: Array, variance: float
) -> tuple[Array, Array]:
    """Of each row of a factor, the mean variance that it leaves in the matrix; and the mean
    covariance of a row.

    In units of the noise: the posterior covariance is (H_i + ridge)^-1, where the ridge is what
    rows are spread like."""
    rank = F.shape[1]
    spread, across = gram(F - F.mean(0)) / len(F), gram(other) / len(other)
    spread += (1e-6 * np.trace(spread) / rank + 1e-300) * np.eye(rank)
    ridge = variance * np.linalg.inv(spread) + 1e-12 * np.trace(across) * np.eye(rank)
    left, total = np.empty(len(F)), np.zeros((rank, rank))
    a, b = np.triu_indices(rank)
    for block in row_blocks(len(F), rank * rank):
        A = np.empty((len(F[block]), rank, rank))
        A[:, a, b] = A[:, b, a] = H[block]
        inverse = np.linalg.inv(A + ridge)
        left[block] = np.einsum("nab,ab->n", inverse, across)
        total += inverse.sum(0)
    return left, total / len(F)

"""How uncertain each entry of a fit is, beside the others: by the noise of its row, the noise of
its column, and how much is known of both.

How much each of the three counts is learned from errors of entries that were set aside. Everything
is a few numbers per row and column: nothing has n1 x n2 entries, and rows stay where they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._rows import Joined, Some, every
from ..fit import Fit
from ..linalg import Factors, balanced, gram, median_of
from ..observations.base import Observations, row_blocks
from ..row_systems import pairs
from ..weights import Array, Cauchy
from .kinds import Kinds
from .own_sizes import OwnSizes

ROUNDS = 2  # of rows and columns in turn
LEAST = 0.03  # of the typical residual: what is smaller says no more (data are rounded)
SMALLEST = 1e-30  # what single precision can add to 0
# in logarithms: what is further from the typical size of its row and column counts as this far
FAR = 2.5
REACH = 4.0  # thresholds of weights, in quantiles LOW of the residuals
LOW = 0.3
# entries that speak for a power of 0: lines of equal noise have none that could be learned
RIDGE = 1.0
UPDATES = 3  # of the powers: what is far off is clipped anew each time
# of the leverages of entries that were set aside: one between these adds as much as the noise
BETWEEN = (0.02, 0.99)
TRIED = 9
# of the noise of rows, of columns, and of the leverage, which is a variance
STEEPEST = np.array([np.inf, np.inf, 0.5])
# entries that every line is supposed to have beside its own: of few, logarithms would run away
USUAL = 2.0
# of a surprise, as the logarithm of its scale grows: half of it is what Gaussian residuals have
FLATTEST = 0.25
TINY = 1e-300


class Leverage(NamedTuple):
    """The variance of a fit in units of the noise: at (i, j), rows[i] col_lean[j] + cols[j]
    row_lean[i].
    """

    # how little is known of each row of L, beside the others: 1 in the mean
    rows: Array
    cols: Array
    # how far what is unknown of a column of the matrix reaches in this row
    row_lean: Array
    col_lean: Array

    def at(self, rows: Array, cols: Array) -> Array:
        """At these places; never 0."""
        of_row = self.rows[rows] * self.col_lean[cols]
        of_col = self.cols[cols] * self.row_lean[rows]
        return np.asarray(np.maximum(of_row + of_col, TINY))

    def flipped(self) -> Leverage:
        """Of the transposed matrix."""
        return Leverage(self.cols, self.rows, self.col_lean, self.row_lean)


class Lines(NamedTuple):
    """What is known of the rows and columns of a fit."""

    row_noise: Array  # relative: 1 is typical
    col_noise: Array
    leverage: Leverage

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return len(self.row_noise), len(self.col_noise)

    def flipped(self) -> Lines:
        """Of the transposed matrix."""
        return Lines(self.col_noise, self.row_noise, self.leverage.flipped())

    def logs(self, rows: Array, cols: Array) -> Array:
        """What scales at these places are made of, in logarithms: the last axis has 3."""
        parts = (
            self.row_noise[rows],
            self.col_noise[cols],
            self.leverage.at(rows, cols),
        )
        return np.asarray(np.log(np.stack(parts, axis=-1)))


class Law(NamedTuple):
    """How large errors are: unit row_noise^a col_noise^b (1 + leverage / usual)^c.

    What a fit leaves open adds to the noise. Where that is much, errors grow as the root of the
    leverage (c is about 1/2); where it is little, they do not (a power alone had intervals of
    places in sparse rows and columns hold 70 to 85 % for 90).
    """

    unit: float
    powers: Array  # a, b and c
    usual: float  # the leverage that adds as much as the noise has

    def at(self, logs: Array) -> Array:
        """For what `Lines.logs` says of places."""
        return np.asarray(self.unit * np.exp(_terms(logs, self.usual) @ self.powers))


class Scales(NamedTuple):
    """The scale of errors at (i, j): by a law, times the size of errors at places of its kind, and of
    its row and column beside that."""

    lines: Lines
    law: Law
    kinds: Kinds | None
    own: OwnSizes

    def at(self, rows: Array, cols: Array) -> Array:
        """At these places."""
        scale = self.law.at(self.lines.logs(rows, cols)) * self.own.at(rows, cols)
        return scale if self.kinds is None else scale * self.kinds.at(rows, cols)


def learned_law(residual: Array, logs: Array, weight: Array) -> Law:
    """The law that tells the sizes of errors best, from them and what their scales are made of."""
    laws, losses = [], []
    least, most = np.quantile(logs[:, 2], BETWEEN)
    for usual in np.exp(np.linspace(least, most, TRIED)):
        terms = _terms(logs, usual)
        unit, powers, loss = learned_powers(residual, terms, weight)
        laws.append(Law(unit, powers, float(usual)))
        losses.append(loss)
    return laws[int(np.argmin(losses))]


def _terms(logs: Array, usual: float) -> Array:
    """What powers are of, in logarithms."""
    known = np.logaddexp(0, logs[..., 2] - np.log(usual))
    return np.stack([logs[..., 0], logs[..., 1], known], axis=-1)


def learned_powers(
    residual: Array, logs: Array, weight: Array
) -> tuple[float, Array, float]:
    """The unit and the powers of scales, from errors and what their scales are made of; and the mean
    square of what these do not tell.

    A weighted regression of the logarithms of their sizes, those far off clipped. Powers are not
    below 0: what is noisier is not more certain.
    """
    size = np.abs(residual).astype(np.float64)
    least = max(LEAST * median_of(size), SMALLEST)
    heights = np.log(size + least)
    mean = np.average(logs, axis=0, weights=weight)
    spread = logs - mean
    weighted = spread * weight[:, None]
    powers = np.zeros(logs.shape[1])
    ridge = RIDGE * np.eye(logs.shape[1])
    gram_ = weighted.T @ spread + ridge

    def untold() -> Array:
        away = heights - spread @ powers
        away -= np.median(away)
        away = np.clip(away, -FAR, FAR)
        away -= np.average(away, weights=weight)
        return np.asarray(away)

    for _ in range(UPDATES):
        moved = np.linalg.solve(gram_, weighted.T @ untold())
        powers = np.clip(powers + moved, 0.0, STEEPEST)
    level = median_of(heights - spread @ powers)
    unit = float(np.exp(level - mean @ powers))
    loss = float(np.average(untold() ** 2, weights=weight))
    return unit, powers, loss


def lines_of(obs: Observations, fit: Fit) -> Lines:
    """Noise and leverage of the rows and columns of a fit to these data: a few passes."""
    if obs.across is not None:  # rows lie across the blocks of a cluster
        return lines_of(obs.across, fit.flipped()).flipped()
    return Lines(*line_noise(obs, fit), leverage(obs, fit.X))


# ---- noise


class Usual(NamedTuple):
    """What the size of a residual is compared with."""

    R: Array
    cols: Array  # the levels of columns, in logarithms
    least: float  # square: what is smaller says no more
    unit: float  # a typical square, where levels are 0
    side: int  # whose sums are wanted: 0 is rows


def line_noise(obs: Observations, fit: Fit) -> tuple[Array, Array]:
    """The relative noise of rows and of columns, drawn to the others where entries are few.

    Scales of greatest likelihood under Cauchy's distribution: outliers count as twice a typical
    residual at most, so that quiet lines, beside which they are larger, seem hardly noisier by
    them. (Means of logarithms are as robust, but twice as far off: small residuals count as much
    as large ones.) Four passes over the data.
    """
    levels = [np.zeros(n) for n in obs.shape]
    drawn = list(levels)
    seen = [np.asarray(x) for x in (obs.row_observed, obs.col_observed)]
    some = obs.telling
    squares = fit.residual(some).astype(np.float64) ** 2
    least = max(LEAST**2 * median_of(squares), SMALLEST**2)
    for turn in range(ROUNDS):
        for side in (0, 1):
            rows, cols = levels
            usual = np.exp(-2 * (rows[some.rows] + cols[some.cols]))
            unit = _cauchy_scale((squares + least) * usual)
            shared = (Usual(fit.X.R, cols, least, unit, side), fit.beyond)
            at_home = (every(obs.shape[0]), fit.X.L, rows)
            _, (of_rows, of_cols, square) = obs.round(_surprises, at_home, shared)
            total = of_cols if side else of_rows.lines
            found = _moved(levels[side], total, seen[side], float(square), turn == 0)
            levels[side], drawn[side] = found
    return np.exp(drawn[0]), np.exp(drawn[1])


def _cauchy_scale(squares: Array) -> float:
    """About the square of the scale of greatest likelihood under Cauchy's distribution: beside it
    the mean surprise is 1.
    """
    scale = median_of(squares) or SMALLEST**2
    for _ in range(UPDATES):
        scale *= float(_surprise(squares / scale).mean()) ** 2
    return scale


def _surprise(square: Array) -> Array:
    """From 0 to 2 for squares in units of their scale; 1 in the mean where that is right."""
    return np.asarray(2 - 2 / (1 + square))


def _surprises(
    block: Observations,
    rows: tuple[Some, Array, Array],
    shared: tuple[Usual, tuple[object, ...]],
) -> tuple[tuple[()], tuple[Joined, Array, float]]:
    """How surprising residuals are: sums by rows or by columns, and of squares over all."""
    numbers, L, levels = rows
    usual, beyond = shared
    by_row = np.zeros(len(L))
    by_col = np.zeros(len(usual.R))
    square = 0.0
    fit = Fit(Factors(L, usual.R), beyond)  # type: ignore[arg-type]
    per_row = np.exp(-2 * levels) / usual.unit
    per_col = np.exp(-2 * usual.cols)
    for some in fit.residuals(block, numbers.first):
        size = some.values.astype(np.float64) ** 2 + usual.least
        size *= per_row[some.rows]
        size *= per_col[some.cols]
        surprise = _surprise(size)
        if usual.side:
            by_col += np.bincount(some.cols, surprise, len(by_col))
        else:
            by_row += np.bincount(some.rows, surprise, len(by_row))
        square += float(surprise @ surprise)
    return (), (Joined.of(by_row), by_col, square)


def _moved(
    level: Array, total: Array, count: Array, square: float, first: bool
) -> tuple[Array, Array]:
    """The levels of lines after a step to where each has a mean surprise of 1, and the same drawn
    to their mean as far as they are uncertain: empirical Bayes.

    Where all residuals of a line have the same size, one step is exact; near the end it is
    Newton's.
    """
    entries = max(float(count.sum()), 1.0)
    mean = float(total.sum()) / entries
    square /= entries
    # what a surprise falls by as the logarithm of its scale grows
    slope = max(2 * mean - square, FLATTEST)
    used = count > 0
    own = (total + USUAL * mean) / np.maximum(count + USUAL, 1)
    own = np.clip(own, SMALLEST, 2 - LEAST)
    step = np.log(own / (2 - own))
    level = level + step / (2 if first else 2 * slope)
    level = np.where(used, level - level[used].mean(), 0.0)
    variance = max(square - mean**2, TINY) / slope**2
    by_chance = (variance / count[used]).mean()
    between = float(level[used].var() - by_chance)
    if between <= 0:
        return level, np.zeros(len(level))
    share = count / (count + variance / between)
    return level, np.asarray(level * share)


# ---- leverage


class Known(NamedTuple):
    """What the posterior covariances of rows are made of, beside their own entries."""

    R: Array
    reach: float  # the threshold of the weights
    ridge: Array
    across: Array  # the mean square of the other factor


def leverage(obs: Observations, X: Factors) -> Leverage:
    """How little is known of the factors of a fit to these data: one pass, and a small
    system per row and column.
    """
    Z = balanced(*(np.asarray(F, np.float64) for F in X))
    L, R = (F.astype(obs.dtype) for F in Z)
    size = np.abs(obs.sample.residual(Factors(L, R))).astype(np.float64)
    reach = max(REACH * float(np.quantile(size, LOW)), 1e-30 * obs.scale)
    weight = 1 / (1 + (size / reach) ** 2)
    variance = float((weight * size**2).sum() / weight.sum())
    known = Known(R, reach, _ridge(Z.L, Z.R, variance), gram(Z.R) / len(Z.R))
    _, (left, total, H) = obs.round(_known_of_rows, (L,), known)
    rows = left.lines
    row_mean = total / len(L)
    ridge, across = _ridge(Z.R, Z.L, variance), gram(Z.L) / len(Z.L)
    cols, col_total = _left_open(H, ridge, across)
    return Leverage(
        rows / max(float(rows.mean()), TINY),
        cols / max(float(cols.mean()), TINY),
        np.einsum("ia,ab,ib->i", Z.L, col_total / len(R), Z.L),
        np.einsum("ja,ab,jb->j", Z.R, row_mean, Z.R),
    )


def _ridge(F: Array, other: Array, variance: float) -> Array:
    """What is known of a row before its entries: it is spread like the others."""
    one = np.eye(F.shape[1])
    spread = gram(F - F.mean(0)) / len(F)
    across = gram(other) / len(other)
    spread += (1e-6 * np.trace(spread) / len(one) + TINY) * one
    small = 1e-12 * np.trace(across) * one
    return np.asarray(variance * np.linalg.inv(spread) + small)


def _known_of_rows(
    block: Observations,
    rows: tuple[Array],
    known: Known,
) -> tuple[tuple[()], tuple[Joined, Array, Array]]:
    """What the rows of a block leave open, the sum of their covariances, and the Gram matrices of
    columns.
    """
    (L,) = rows
    rule = Cauchy(np.full(len(L), known.reach), np.ones(len(known.R)))
    asked = {"Pw": pairs(L), "Qw": pairs(known.R)}
    pull = block.products(L, known.R, rule, **asked)
    left, total = _left_open(pull.grams[0], known.ridge, known.across)
    return (), (Joined.of(left), total, np.asarray(pull.grams[1], np.float64))


def _left_open(H: Array, ridge: Array, across: Array) -> tuple[Array, Array]:
    """Of each row of a factor, the mean variance that it leaves in the matrix; and the sum of
    covariances.

    In units of the noise: the posterior covariance is (H_i + ridge)^-1.
    """
    rank = len(ridge)
    left, total = np.empty(len(H)), np.zeros((rank, rank))
    a, b = np.triu_indices(rank)
    place = np.empty((rank, rank), int)  # in H: gathering is faster than scattering
    place[a, b] = place[b, a] = np.arange(len(a))
    for block in row_blocks(len(H), rank * rank):
        A = np.take(H[block], place, axis=1)
        inverse = np.linalg.inv(A + ridge)
        left[block] = np.einsum("nab,ab->n", inverse, across)
        total += inverse.sum(0)
    return left, total

"""A learned subspace: what new rows are in it, and how it follows a stream of rows.

Rows are offset + V t + noise + outliers, where V has orthonormal columns and scores t are drawn
from a Gaussian. New rows are fitted by a small robust regression each; no row looks at another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from .linalg import Factors, power_of_4
from .methods.noisy import REACH, Loss, two_groups
from .methods.thresholds import DEVIATION, LOW, WIDEST
from .observations import as_observations
from .observations.base import Observations, Regression
from .result import Result
from .row_systems import packed, pairs, solve_rows, unpacked
from .weights import Array, Cauchy, Huber, Mixture, Sides

TOLD_BY = 5_000  # entries: their residuals tell the noise within a few percent
ROUNDS = 3  # of scores and components in turn, for each batch of a stream


@dataclass(frozen=True, eq=False)
class Subspace:
    """All that is needed to read new rows."""

    V: Array  # n2 x r, orthonormal columns, the strongest first
    offset: Array  # n2
    mean: Array  # r, of the scores: 0 if the offset is the mean row
    covariance: Array  # r x r, of the scores
    noise: float  # the standard deviation
    odds: float  # of an outlier against noise at a residual of 0
    loss: Loss = "mixture"
    outliers: Sides = "both"
    shrink: float = 1.0  # of the prior

    @property
    def rank(self) -> int:
        """The number of components."""
        return int(self.V.shape[1])

    @property
    def typical(self) -> float:
        """The root mean square of an entry less the offset."""
        square = (
            float(np.trace(self.covariance)) + float(self.mean @ self.mean)
        ) / len(self.V)
        return math.sqrt(square + self.noise**2)

    @cached_property
    def precision(self) -> Array:
        """The inverse covariance; directions that never varied hardly may."""
        floor = 1e-9 * float(np.trace(self.covariance)) / max(self.rank, 1) + 1e-30
        return np.linalg.inv(self.covariance + floor * np.eye(self.rank))

    def scaled(self, gain: float) -> Subspace:
        """The same for data multiplied by `gain`."""
        return replace(
            self,
            offset=self.offset * gain,
            mean=self.mean * gain,
            covariance=self.covariance * gain**2,
            noise=self.noise * gain,
        )

    def factors(self, T: Array) -> Factors:
        """Factors of offset + T V'."""
        one = np.ones((len(T), 1), T.dtype)
        return Factors(
            np.hstack([T, one]),
            np.hstack([self.V, self.offset[:, None]]).astype(T.dtype),
        )

    def weight(self, n: int) -> Cauchy:
        """The loss, for n rows."""
        deviation, cols = np.full(n, self.noise), np.ones(len(self.V))
        if self.loss == "mixture" or self.outliers != "both":
            return Mixture(deviation, cols, self.outliers, odds=self.odds)
        return (Cauchy if self.loss == "cauchy" else Huber)(
            self.reach * deviation, cols
        )

    @property
    def reach(self) -> float:
        """The threshold of the loss in standard deviations, where it has one."""
        return DEVIATION * REACH.get(self.loss, WIDEST)

    def with_noise(self, obs: Observations, T: Array) -> Subspace:
        """The noise and the odds of an outlier as the residuals have them."""
        noise, odds = _noise_and_odds(obs, self.factors(T))
        return replace(self, noise=noise, odds=odds)


def _noise_and_odds(obs: Observations, X: Factors) -> tuple[float, float]:
    size = np.abs(obs.sample.residual(X)).astype(np.float64)
    noise, odds, _ = two_groups(
        size, float(np.quantile(size, LOW)) if len(size) else 0.0
    )
    return float(noise), max(odds, 1e-12)  # at 0, there would be no outliers


# ---- new rows


class Rows(NamedTuple):
    """Rows that were fitted."""

    T: Array  # n x r: their scores
    deviation: Array  # n: the standard deviation of the noise that each was fitted with
    # n: the root mean square of the residuals in units of the noise, each counted as at most 6
    distance: Array


def fit_rows(obs: Observations, model: Subspace) -> Rows:
    """Each row of the data by its own robust regression. Rows without entries get the mean.

    One reading of the data. See `Observations.regress`.
    """
    unit = power_of_4(model.typical)
    regression = _regression(model.scaled(1 / unit), float(np.finfo(obs.dtype).eps))
    T, deviation, distance = map(np.asarray, obs.scaled(1 / unit).regress(regression))
    one = obs.dtype.type(unit)
    return Rows(T * one, deviation * one, distance)


def _regression(model: Subspace, eps: float) -> Regression:
    """What is fitted to each row. No noise is less than what rounding makes."""
    rounding = 16 * eps * max(model.typical, float(np.abs(model.offset).max(initial=0)))
    lowest = max(model.noise, rounding, 1e-30)
    return Regression(
        V=model.V,
        offset=model.offset,
        mean=model.mean,
        prior=model.shrink * model.precision,
        widest=2 * max(model.typical, lowest),
        lowest=lowest,
        rule=model.weight(0).rule,
        odds=model.odds,
        reach=model.reach,
        outliers=model.outliers,
    )


# ---- learning


@dataclass(frozen=True, eq=False)
class Memory:
    """What is kept of the rows that a subspace was learned from: sums of p p' with p = (t, 1)."""

    rows: Array  # (r + 1) x (r + 1): over all rows
    # n2 x (r + 1)(r + 2) / 2: over the entries of each column, weighed; the upper triangle
    cols: Array

    def scaled(self, gain: float) -> Memory:
        """The same for data multiplied by `gain`."""
        p = np.append(np.full(len(self.rows) - 1, gain), 1.0)
        return Memory(self.rows * np.outer(p, p), self.cols * pairs(p[None]))


class Learned(NamedTuple):
    """A subspace, what it remembers, and the rows it was learned from."""

    model: Subspace
    memory: Memory
    rows: Rows

    def scaled(self, gain: float) -> Learned:
        """The same for data multiplied by `gain`."""
        T, deviation, distance = self.rows
        rows = Rows(T * T.dtype.type(gain), deviation * T.dtype.type(gain), distance)
        return Learned(self.model.scaled(gain), self.memory.scaled(gain), rows)


def learn(
    obs: Observations,
    result: Result,
    *,
    center: bool,
    most: int | None,
    outliers: Sides,
) -> Learned:
    """The subspace of a result, with at most so many components; None keeps all that are
    left without the mean.
    """
    loss, shrink = (
        result.evidence.get("loss", "mixture"),
        float(result.evidence.get("shrink", 1.0)),
    )
    return learn_factors(
        obs, result.factors(), loss, shrink, center=center, most=most, outliers=outliers
    )


def learn_factors(
    obs: Observations,
    X: Factors,
    loss: Loss,
    shrink: float = 1.0,
    *,
    center: bool = False,
    most: int | None = None,
    outliers: Sides = "both",
) -> Learned:
    """The same from factors that were fitted with this loss and prior."""
    unit = power_of_4(obs.scale)
    X = Factors(*(np.asarray(F, np.float64) / math.sqrt(unit) for F in X))
    return _learn(
        obs.scaled(1 / unit), X, (loss, shrink), center, most, outliers
    ).scaled(unit)


def learn_as_fitted(
    obs: Observations,
    X: Factors,
    loss: Loss,
) -> tuple[Subspace, Memory]:
    """The subspace of factors, and what it remembers: rows keep the scores that they were fitted
    with, which saves two readings of the data.
    """
    unit = power_of_4(obs.scale)
    scaled = obs.scaled(1 / unit)
    X = Factors(*(np.asarray(F, np.float64) / math.sqrt(unit) for F in X))
    given = _subspace(scaled, X, (loss, 1.0), False, X.L.shape[1], "both")
    P = np.hstack([X.L, np.ones((len(X.L), 1))]) @ given.K.T
    memory = _memory(scaled, given, P[:, :-1].astype(obs.dtype))
    return given.model.scaled(unit), memory.scaled(unit)


class _Given(NamedTuple):
    """A subspace, sums over the rows that it was learned from, and `K` of `_principal`."""

    model: Subspace
    moments: Array
    K: Array


def _learn(
    obs: Observations,
    X: Factors,
    fit: tuple[Loss, float],
    center: bool,
    most: int | None,
    outliers: Sides,
) -> Learned:
    given = _subspace(obs, X, fit, center, most, outliers)
    some = _some_rows(obs)
    model = given.model.with_noise(some, fit_rows(some, given.model).T)
    rows = fit_rows(obs, model)
    memory = _memory(obs, given._replace(model=model), rows.T)
    return Learned(model, memory, rows)


def _some_rows(obs: Observations) -> Observations:
    """Rows with enough entries to tell the noise by; all of them where these are not far more, or
    elsewhere.
    """
    n, across = obs.shape
    count = int(TOLD_BY / (obs.fraction * across)) + 1
    if 2 * count > n or not obs.is_here or obs.groups is not None:
        return obs
    rows = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
    return as_observations(obs.grid(rows, np.arange(across)), threads=obs.threads)


def _subspace(
    obs: Observations,
    X: Factors,
    fit: tuple[Loss, float],
    center: bool,
    most: int | None,
    outliers: Sides,
) -> _Given:
    """That of factors, with the noise that they leave."""
    used = np.asarray(obs.row_observed) > 0
    P = np.hstack([X.L[used], np.ones((int(used.sum()), 1))])
    R = np.hstack([X.R, np.zeros((len(X.R), 1))])
    noise, odds = _noise_and_odds(obs, X)
    moments = P.T @ P
    V, offset, K = _principal(R, moments, center, most, noise=noise)
    moments = K @ moments @ K.T
    loss, shrink = fit
    mean, covariance = _mean_and_covariance(moments)
    model = Subspace(
        V,
        offset,
        mean,
        covariance,
        noise,
        odds,
        loss=loss,
        outliers=outliers,
        shrink=shrink,
    )
    return _Given(model, moments, K)


def _memory(obs: Observations, given: _Given, T: Array) -> Memory:
    """What is remembered of rows with these scores."""
    X = given.model.factors(T)
    weight = given.model.weight(len(T))
    cols = obs.products(*X, weight, Pw=pairs(X.L)).grams[1]
    return Memory(given.moments, cols.astype(np.float64))


class Part(NamedTuple):
    """Some columns of the data, that are enough to tell the scores of rows."""

    obs: Observations
    columns: Array  # which they are

    def scaled(self, gain: float) -> Part:
        """The same for data multiplied by `gain`."""
        return self._replace(obs=self.obs.scaled(gain))

    def rows(self, model: Subspace) -> Rows:
        """Rows of the whole data, by these columns."""
        # Directions keep their length: scores are as much smaller, and so is what is usual.
        longer = math.sqrt(len(model.V) / len(self.columns))
        some = replace(
            model,
            V=longer * model.V[self.columns],
            offset=model.offset[self.columns],
            mean=model.mean / longer,
            covariance=model.covariance / longer**2,
        )
        T, deviation, distance = fit_rows(self.obs, some)
        return Rows(T * T.dtype.type(longer), deviation, distance)


def follow(
    obs: Observations,
    model: Subspace,
    memory: Memory,
    forgetting: float,
    center: bool,
    part: Part | None = None,
) -> Learned:
    """The subspace after a batch of rows: recursive least squares for each column, with forgetting.

    What was learned before counts `forgetting` times, and less where the batch shows that the
    subspace has moved. Rows are fitted by all columns, or by a part."""
    unit = power_of_4(model.typical)
    parts = obs.scaled(1 / unit), model.scaled(1 / unit), memory.scaled(1 / unit)
    fit = partial(fit_rows, parts[0]) if part is None else part.scaled(1 / unit).rows
    return _follow(*parts, forgetting, center, fit).scaled(unit)


def _follow(
    obs: Observations,
    model: Subspace,
    memory: Memory,
    forgetting: float,
    center: bool,
    fit: Callable[[Subspace], Rows],
) -> Learned:
    before = np.hstack([model.V, model.offset[:, None]])
    now, used, width = before, obs.col_observed > 0, before.shape[1]
    rows = fit(model)
    usual, model = model.noise, model.with_noise(obs, rows.T)
    known = min(usual / max(model.noise, 1e-300), 1.0)
    kept = forgetting * max(known**2, 0.05)
    old = kept * memory.cols
    free = np.append(
        np.zeros(model.rank), 0.0 if center else np.inf
    )  # a pivot of infinity keeps the offset where it is
    for _ in range(ROUNDS):
        P = model.factors(rows.T).L
        pull = obs.products(
            *model.factors(rows.T), model.weight(len(P)), P=P, Pw=pairs(P)
        )
        cols = old + pull.grams[1]
        pulled = pull[1] - np.einsum("jab,jb->ja", unpacked(old, width), now - before)
        ridge = np.diag(free + 1e-9 * float(cols.max()))
        now = now + solve_rows(cols, pulled, ridge, used, obs.threads)
        model = replace(model, V=now[:, :-1], offset=now[:, -1])
        rows = fit(model)
        model = model.with_noise(obs, rows.T)
    P = model.factors(rows.T).L[obs.row_observed > 0].astype(np.float64)
    moments = kept * memory.rows + P.T @ P
    V, offset, K = _principal(now, moments, center, model.rank, like=before[:, :-1])
    moments, cols = K @ moments @ K.T, packed(K @ unpacked(cols, width) @ K.T)
    mean, covariance = _mean_and_covariance(moments)
    model = replace(model, V=V, offset=offset, mean=mean, covariance=covariance)
    return Learned(model, Memory(moments, cols), fit(model))


def _principal(
    R: Array,
    moments: Array,
    center: bool,
    most: int | None,
    *,
    noise: float = 0.0,
    like: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Orthonormal components, the offset, and K such that K p are the new scores (and 1) of a row
    with the old ones.

    Rows are R p, and `moments` is the sum of their p p'. Components are ordered by variance.
    """
    n, rank = moments[-1, -1], len(moments) - 1
    mean = moments[:-1, -1] / n if center else np.zeros(rank)
    spread = moments[:-1, :-1] / n - np.outer(mean, mean)
    Q, triangle = np.linalg.qr(R[:, :-1])
    values, U = np.linalg.eigh(triangle @ spread @ triangle.T)
    values, U = values[::-1], U[:, ::-1]
    # Without the mean, there may be one component less: what is left of it is what noise leaves
    # anywhere, or rounding.
    floor = max((2 * noise * (1 + math.sqrt(len(R) / n))) ** 2, 1e-10 * values[0])
    keep = (
        rank - int(center and rank > 1 and values[-1] < floor)
        if most is None
        else min(most, rank)
    )
    V = Q @ U[:, :keep]
    largest = (
        V[np.abs(V).argmax(0), np.arange(keep)]
        if like is None
        else np.einsum("ij,ij->j", V, like[:, :keep])
    )
    signs = np.where(largest < 0, -1.0, 1.0)
    top = signs[:, None] * (U[:, :keep].T @ triangle)
    K = np.zeros((keep + 1, rank + 1))
    K[:keep, :rank] = top
    K[:keep, rank] = -(top @ mean)
    K[keep, rank] = 1.0
    return V * signs, R[:, -1] + R[:, :-1] @ mean, K


def _mean_and_covariance(moments: Array) -> tuple[Array, Array]:
    mean = moments[:-1, -1] / moments[-1, -1]
    return mean, moments[:-1, :-1] / moments[-1, -1] - np.outer(mean, mean)

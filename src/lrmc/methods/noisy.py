"""Noisy data: a smooth robust loss and a prior that the data themselves give.

Rows of each factor are drawn from a Gaussian whose mean and covariance are estimated as the sweeps
go on (empirical Bayes), so that rows with few or bad entries lean on the others. With s2 the noise
variance and S the covariance, the prior weighs s2 S^-1: it fades as the noise does, and there is no
constant to tune."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from .. import _kernels
from .._rows import column, each, equal, median, take, times, told, turned
from .._scipy import special
from ..linalg import Factors, change, gauge, gram
from ..observations.base import Observations, Sample
from ..row_systems import pairs, solve_rows_and_spread
from ..weights import Array, Cauchy, Huber, Mixture, Sides
from .step import Step
from .thresholds import LOW, WIDEST

Loss = Literal["mixture", "cauchy", "huber", "squares"]
AskedLoss = Literal["auto", Loss]  # what a user may say
# Thresholds in multiples of the quantile LOW of the residuals (DEVIATION of Gaussian ones). Huber
# is
# near the absolute value: if wider, outliers in groups build components. "squares" is Huber too,
# for plain outliers.
REACH: dict[Loss, float] = {"cauchy": WIDEST, "huber": 2.0, "squares": 8.0}
# of the median size of errors by rounding, which are even: their quantile LOW
LOWER = 2 * LOW
# entries that tell a sweep the size of the noise: within 1.5 %
TOLD_BY = 5_000
# the least share of noise: of 0, the odds of an outlier would be infinite
FEWEST_NOISE = 1e-6
# by which its numbers change in a round: what a few thousand entries tell is far less
SETTLED = 1e-4
# data, rank, seed -> a start and a threshold
Start = Callable[[Observations, int, int], tuple[Factors, float]]


@dataclass(frozen=True)
class Noise:
    """What is known of the noise: the loss, the side that outliers are on, the relative
    noise of rows and columns.
    """

    rows: Array
    cols: Array
    loss: Loss = "mixture"
    outliers: Sides = "both"
    # how many entries count as one, where the errors of neighbours are alike
    shrink: float = 1.0

    @classmethod
    def even(
        cls,
        obs: Observations,
        loss: Loss = "mixture",
        outliers: Sides = "both",
    ) -> Noise:
        """The same noise everywhere."""
        return cls(equal(1.0, obs.shape[0]), equal(1.0, obs.shape[1]), loss, outliers)

    def of(self, rows: Array, cols: Array) -> Noise:
        """The same for some rows and columns."""
        return replace(self, rows=self.rows[rows], cols=self.cols[cols])

    def flipped(self) -> Noise:
        """The same for the transposed matrix."""
        return replace(self, rows=self.cols, cols=self.rows)

    @cached_property
    def is_even(self) -> bool:
        """Whether it is the same everywhere."""
        return all(np.ptp(scale) == 0 for scale in (self.rows, self.cols))

    def at(self, some: Sample) -> Array | float:
        """The relative noise of some entries; one number where it is the same."""
        if self.is_even:
            return float(self.rows[0] * self.cols[0])
        return take(self.rows, some.rows) * take(self.cols, some.cols)

    def weight(self, some: Sample, X: Factors, least: float = 0.0) -> Cauchy:
        """The rule that fits the residuals of some entries, which are typically at least so large."""
        residual = some.residual(X).astype(np.float64) / self.at(some)
        if self.outliers != "both":
            return self._one_sided(
                residual if self.outliers == "positive" else -residual
            )
        size = np.abs(residual)
        low = max(float(np.quantile(size, LOW)), LOWER * least) if len(size) else 0.0
        if self.loss == "mixture":
            deviation, odds, _ = two_groups(size, low)
            return Mixture(times(deviation, self.rows), self.cols, odds=odds)
        return (Cauchy if self.loss == "cauchy" else Huber)(
            times(REACH[self.loss] * low, self.rows), self.cols
        )

    def _one_sided(self, residual: Array) -> Mixture:
        """Outliers are above: what is below tells the noise.

        Always the mixture, which leaves the middle alone: a loss that bends from 0 on, and on one
        side only, would pull the fit down."""
        below, above = -residual[residual < 0], residual[residual >= 0]
        if not len(below) or not len(above):
            widest = max(float(np.abs(residual).max(initial=0.0)), 1e-300)
            return Mixture(times(widest, self.rows), self.cols, self.outliers)
        deviation, _, _ = two_groups(below, float(np.quantile(below, LOW)))
        _, odds, _ = two_groups(above, 0.385 * deviation, fixed=True)
        return Mixture(times(deviation, self.rows), self.cols, self.outliers, odds=odds)

    @property
    def even_square(self) -> float | None:
        """`relative_square` where noise is the same everywhere; None elsewhere."""
        return 1 / float(self.rows[0] * self.cols[0]) ** 2 if self.is_even else None

    def relative_square(self, some: Sample, X: Factors, weight: Cauchy) -> float:
        """The mean square of good residuals in units of their relative noise, over that
        in units of the data.
        """
        if self.even_square is not None:
            return self.even_square
        scale = np.asarray(self.at(some))
        residual = some.residual(X)
        reach = take(weight.rows, some.rows) * take(weight.cols, some.cols)
        good = np.abs(residual) <= 2 * reach
        squares = residual[good].astype(np.float64) ** 2
        return (
            float(
                np.sum(squares / scale[good] ** 2) / max(float(squares.sum()), 1e-300)
            )
            if squares.any()
            else 1.0
        )


def two_groups(
    size: Array,
    low: float,
    rounds: int = 20,
    fixed: bool = False,
) -> tuple[float, float, float]:
    """The standard deviation of the noise, the odds of an outlier at 0, the share of noise:
    expectation-maximisation.

    Sizes are those of Gaussian noise, mixed with outliers that are uniform up to the largest size
    seen. `low` is their quantile 0.3; with `fixed`, 0.385 times the standard deviation, which is
    known then."""
    if low <= 0:
        return 1e-300, 0.0, 1.0
    # squares of tiny sizes would be 0, of huge ones infinite
    with np.errstate(over="ignore"):
        size = np.minimum(size.astype(np.float64) / low, 1e100)
    deviation, odds, share = _kernels.two_groups(
        size**2,
        # the quantile 0.3 of |e| is 0.385 standard deviations
        deviation=1 / 0.385,
        share=0.7,
        widest=float(np.quantile(size, 0.999)),
        fewest=FEWEST_NOISE,
        settled=SETTLED,
        rounds=rounds,
        fixed=fixed,
    )
    return low * deviation, odds, share


def is_gaussian(size: Array) -> bool:
    """Whether residuals are Gaussian noise mixed with uniform outliers: the distance of
    Kolmogorov is small.
    """
    size = np.sort(size.astype(np.float64))
    low = float(np.quantile(size, 0.3))
    if low <= 0:
        return False
    deviation, _, share = two_groups(size, low)
    widest = max(float(np.quantile(size, 0.999)), 3 * deviation)
    model = share * special.erf(size / (deviation * np.sqrt(2))) + (
        1 - share
    ) * np.minimum(size / widest, 1)
    steps = np.arange(1, len(size) + 1) / len(size)
    # 0.05 for half outliers, 0.1 and more on real data
    return bool(np.abs(model - steps).max() < 0.06)


def noise_and_share(obs: Observations, X: Factors) -> tuple[float, float]:
    """The standard deviation of the noise and the share of outliers, from the residuals
    of a sample.
    """
    size = np.abs(obs.telling.residual(X)).astype(np.float64)
    if not len(size):
        return math.nan, math.nan
    told = len(size) / len(obs.sample.values)  # of all entries: the others are met
    low, rounding = (
        max(float(np.quantile(size, LOW)), LOWER * obs.rounding),
        64 * float(np.finfo(obs.dtype).eps) * obs.scale,
    )
    # exact data: what is beyond rounding (and what is left of the error) is an outlier
    if low < rounding:
        return low / 0.385, told * float(np.mean(size > max(20 * rounding, 100 * low)))
    deviation, _, share = two_groups(size, low)
    return deviation, told * (1 - share)


@dataclass
class Prior:
    """A Gaussian for the rows of a factor: their spread and what is left unknown of each."""

    count: int  # how many rows have entries
    unknown: Array  # the mean posterior covariance of a row
    free: float  # the mean number of parameters that a row really has

    def of(self, F: Any, observed: Any) -> tuple[Array, Array]:
        """The mean row and the covariance."""
        mean = told(_sum_of_used, (F, observed)) / self.count
        covariance = (
            told(square_of_used, (F, observed), mean) / self.count + self.unknown
        )
        rank = len(mean)
        return mean, covariance + (1e-6 * np.trace(covariance) / rank + 1e-30) * np.eye(
            rank
        )

    @property
    def dof(self) -> float:
        """The number of parameters that all rows really have."""
        return self.free * self.count


def _count_of_used(rows: tuple[Array], _: None) -> tuple[tuple[()], tuple[int]]:
    return (), (int((rows[0] > 0).sum()),)


def _sum_of_used(rows: tuple[Array, Array], _: None) -> tuple[tuple[()], tuple[Array]]:
    F, observed = rows
    return (), (np.where(observed[:, None] > 0, F, 0).sum(0, dtype=np.float64),)


def square_of_used(
    rows: tuple[Array, Array], mean: Array
) -> tuple[tuple[()], tuple[Array]]:
    """Of the rows of a factor that have entries, around their mean."""
    F, observed = rows
    used = observed[:, None] > 0
    return (), (gram(np.where(used, F.astype(np.float64) - mean, 0)),)


def sweeps(
    obs: Observations,
    X: Factors,
    noise: Noise,
    most: int = 4,
    settled: float = 1e-3,
    unknown: tuple[Array | float, Array | float] = (0.0, 0.0),
    sides: tuple[int, ...] | None = None,
) -> Iterator[Step]:
    """Gauss-Seidel: L given R, then R given L, each one pass with the weights, the pull and the
    Gram matrices together.

    At most so many sweeps, fewer when X changes by less than `settled`. `unknown` are the
    covariances of what is not known of the rows of the factors at the beginning; the factor with
    the larger one comes first. `sides` are the factors that are fitted, in this order, if not both."""
    some = obs.telling.thinned(TOLD_BY)
    rank = X.L.shape[1]
    observed = (obs.row_observed, obs.col_observed)
    priors = [
        Prior(
            int(told(_count_of_used, (seen,))),
            spread + np.zeros((rank, rank)),
            float(rank),
        )
        for seen, spread in zip(observed, unknown, strict=True)
    ]
    order = sides or ((1, 0) if np.any(unknown[1]) else (0, 1))
    for _ in range(most):
        before = X = _in_balance(X, priors)
        for side in order:
            weight = noise.weight(some, X, obs.rounding)
            F, other = X[side], X[1 - side]
            own, across = (
                (noise.rows, noise.cols) if side == 0 else (noise.cols, noise.rows)
            )
            pull = obs.products(X.L, X.R, weight, **_asked(side, other, across))
            total = float(np.sum(pull.col_weight, dtype=np.float64))
            dof = min(0.9 * total, priors[0].dof + priors[1].dof)
            variance = (
                pull.energy
                * noise.relative_square(some, X, weight)
                / max(total - dof, 1.0)
            )
            prior = priors[side]
            mean, covariance = prior.of(F, observed[side])
            ridge = noise.shrink * variance * np.linalg.inv(covariance)
            rows = (F, pull[side], pull.grams[side], observed[side], own)
            (after,), (inverse,) = each(_fitted, rows, (mean, ridge, obs.threads))
            inverse = inverse / max(prior.count, 1)
            prior.unknown = variance * inverse
            prior.free = rank - float(np.trace(inverse @ ridge))
            X = Factors(after, X.R) if side == 0 else Factors(X.L, after)
        typical = median(weight.rows) * median(weight.cols)
        moved = change(before, X)
        inliers = pull.n_inliers / obs.n_observed
        yield Step(
            X.L, X.R, typical, inliers, float(np.sqrt(variance)), "noisy", moved=moved
        )
        if moved < settled:
            return


def _asked(side: int, other: Any, across: Array) -> dict[str, Any]:
    """What a pass has to multiply with for the rows (side 0), or the columns: a factor
    in units of the noise there.
    """
    scaled, grams = each(_in_units, (other, across))[0]
    return {"P": scaled, "Pw": grams} if side else {"Q": scaled, "Qw": grams}


def _in_units(
    rows: tuple[Array, Array], _: None
) -> tuple[tuple[Array, Array], tuple[()]]:
    F, noise = rows
    square = column(noise) ** 2
    return ((F / square).astype(F.dtype), (pairs(F) / square).astype(F.dtype)), ()


def _fitted(
    rows: tuple[Array, ...], same: tuple[Array, Array, int]
) -> tuple[tuple[Array], tuple[Array]]:
    """Some rows of a factor after their least-squares problems; where nothing was
    observed, the mean row.
    """
    (F, pull, H, observed, noise), (mean, ridge, threads) = rows, same
    precision = (1 / column(noise) ** 2).astype(F.dtype)
    pulled = pull * precision - ((F - mean) @ ridge).astype(F.dtype)
    used = observed > 0
    step, inverse = solve_rows_and_spread(H * precision, pulled, ridge, used, threads)
    return (np.where(used[:, None], F + step, mean.astype(F.dtype)),), (inverse,)


def _in_balance(X: Factors, priors: list[Prior]) -> Factors:
    """The same X in factors that rounding treats well, and what is unknown of them told
    in the same coordinates.
    """
    turn = gauge(X)
    if turn is None:
        return X
    for prior, T in zip(priors, turn, strict=True):
        prior.unknown = T.T @ prior.unknown @ T
    return Factors(*(turned(F, T) for F, T in zip(X, turn, strict=True)))

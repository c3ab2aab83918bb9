"""Noisy data: a few layers, each a robust least-squares step on the longer factor, then one on the
shorter.

A row f of a factor, with the rows o_j of the other one, its residuals e_j, weights w_j = (1 + (e_j
/ z)^2)^(-s), a Gaussian prior with mean m and covariance S, and noise of variance N:

    H = sum_j w_j (o_j o_j' + kappa V) + lam N S^-1
    f <- f + eta H^-1 (sum_j w_j (e_j o_j - kappa V f) - lam N S^-1 (f - m))

m and S are those of all rows, S with what is unknown of them. V is the mean posterior covariance of
the other factor: by kappa V, components that are mostly noise die, so that the rank is simply high
enough. Units are natural ones (z in medians of |e|, N the weighted mean of e^2): the numbers of a
layer serve data of any scale and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from .._rows import each, median, times, told
from ..linalg import Factors, median_of
from ..observations.base import Observations, Pull, Refit
from ..row_systems import RowStep, regressors
from ..weights import Array, DType, Power
from .noisy import Noise, square_of_used
from .step import Step

# times the variance of a layer ago: if it falls by more, one more layer follows, up to so many
FALLING, MOST_MORE = 0.5, 12
TINY = 1e-6  # of the mean variance: keeps a prior that is no wider invertible
TYPICAL_OF = 4_000  # entries: their median is within 2 % of that of all


@dataclass(frozen=True)
class Layers:
    """The numbers of K layers, which can be learned: plain data."""

    reach: tuple[float, ...]  # z, in medians of |e|
    shape: tuple[float, ...]  # s: 0 is squares, 1/2 near the absolute value, 1 Cauchy
    longer: tuple[float, ...]  # lam for the rows of the longer side
    shorter: tuple[float, ...]  # and of the shorter one
    kappa: tuple[float, ...]
    eta: tuple[float, ...]

    def __post_init__(self) -> None:
        for field, kind in zip(fields(self), self._kinds, strict=True):
            object.__setattr__(self, field.name, tuple(map(float, kind)))
        numbers = self.array()
        if not (np.isfinite(numbers).all() and (numbers > 0).all()):
            raise ValueError(
                f"the numbers of layers are positive and finite; here are {self.plain()}"
            )

    @classmethod
    def same(cls, numbers: Numbers, count: int) -> Layers:
        """So many layers with the same numbers, and the same prior on both sides."""
        reach, shape, prior, kappa, eta = ((x,) * count for x in numbers)
        return cls(reach, shape, prior, prior, kappa, eta)

    def __len__(self) -> int:
        """How many layers there are."""
        return len(self.eta)

    def array(self) -> Array:
        """6 x K."""
        lengths = {len(x) for x in self._kinds}
        if len(lengths) != 1:
            raise ValueError(
                f"each layer has one number of each kind; here are {sorted(lengths)} of them"
            )
        return np.array(self._kinds)

    @property
    def _kinds(self) -> tuple[tuple[float, ...], ...]:
        # `astuple` copies every number, which took a twentieth of a small fit
        return tuple(getattr(self, field.name) for field in fields(self))

    def of(self, k: int, side: int) -> Numbers:
        """What half a layer needs."""
        prior = self.shorter if side else self.longer
        return Numbers(
            self.reach[k], self.shape[k], prior[k], self.kappa[k], self.eta[k]
        )

    def last(self, count: int) -> Layers:
        """The last layers alone."""
        return Layers(*self.array()[:, -count:])

    def plain(self) -> dict[str, list[float]]:
        """As it goes to JSON."""
        return {name: list(numbers) for name, numbers in asdict(self).items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Layers:
        """From what `plain` gave."""
        names = [field.name for field in fields(cls)]
        if sorted(plain) != sorted(names):
            raise ValueError(
                f"layers have {', '.join(names)}; here are {', '.join(map(str, plain))}"
            )
        return cls(**{name: tuple(plain[name]) for name in names})


class Numbers(NamedTuple):
    """The numbers of half a layer."""

    reach: float
    shape: float
    prior: float
    kappa: float
    eta: float


class State(NamedTuple):
    """Both factors, and the mean posterior covariances of their rows."""

    X: Factors
    unknown: tuple[Array, Array]

    @classmethod
    def known(cls, X: Factors) -> State:
        """Factors of which nothing is unknown yet."""
        nothing = np.zeros((X.L.shape[1],) * 2)
        return cls(X, (nothing, nothing))

    def of(self, side: int) -> tuple[Any, Array]:
        """One factor, and what is unknown of it."""
        return self.X[side], self.unknown[side]

    @property
    def rank(self) -> int:
        """How many components there are."""
        return int(self.X.L.shape[1])

    def of_type(self, dtype: DType) -> State:
        """The same in numbers of this type."""
        L, R = (F.astype(dtype, copy=False) for F in self.X)
        return self._replace(X=Factors(L, R))

    def flipped(self) -> State:
        """The same of the transposed matrix."""
        return State(Factors(self.X.R, self.X.L), self.unknown[::-1])

    def replaced(self, side: int, F: Any, unknown: Array) -> State:
        """With another factor on one side."""
        if side == 0:
            return State(Factors(F, self.X.R), (unknown, self.unknown[1]))
        return State(Factors(self.X.L, F), (self.unknown[0], unknown))


class Half(NamedTuple):
    """Half a layer: what it began with and what it made, for its adjoint."""

    before: State
    side: int
    numbers: Numbers
    weight: Power
    pull: Pull
    total: float  # of all weights
    variance: float  # N
    relative: float  # what makes N of the mean weighted square, where noise is uneven
    mean: Array  # m
    covariance: Array  # S
    ridge: Array  # lam N S^-1
    step: Any
    after: State


def typical_residual(obs: Observations, X: Factors, noise: Noise) -> float:
    """The typical residual, in units of the noise that is known."""
    some = obs.telling.thinned(TYPICAL_OF)
    if not len(some.values):
        return obs.scale
    size = np.abs(some.residual(X) / noise.at(some), dtype=np.float64)
    # where half of all residuals are 0, the mean
    return max(median_of(size) or float(np.mean(size)), obs.least_error)


def passes(
    obs: Observations,
    state: State,
    layers: Layers,
    noise: Noise,
) -> Iterator[Half]:
    """Half a layer after the other, each one pass over the data."""
    longer = int(obs.shape[1] > obs.shape[0])
    for k in range(len(layers)):
        for turn in (0, 1):
            half = half_layer(obs, state, longer ^ turn, layers.of(k, turn), noise)
            state = half.after
            yield half


def settled(
    obs: Observations,
    state: State,
    layers: Layers,
    noise: Noise,
) -> Iterator[Half]:
    """The same, and the last layer again as long as that still makes residuals much smaller: with
    little noise, layers come nearer for longer.
    """
    variances: list[float] = []
    halves = passes(obs, state, layers, noise)
    for _ in range(MOST_MORE + 1):
        for half in halves:
            yield half
            variances.append(half.variance)
        # on the same side, a layer ago
        if len(variances) < 3 or variances[-1] > FALLING * variances[-3]:
            return
        halves = passes(obs, half.after, layers.last(1), noise)


def step_of(obs: Observations, half: Half, X: Factors) -> Step:
    """Half a layer as a step of a method, which ends at X."""
    typical = median(half.weight.rows) * median(half.weight.cols)
    inliers = half.pull.n_inliers / obs.n_observed
    return Step(*X, typical, inliers, float(np.sqrt(half.variance)), "noisy")


def half_layer(
    obs: Observations,
    state: State,
    side: int,
    numbers: Numbers,
    noise: Noise,
    *,
    size: float | None = None,
    relative: float | None = None,
) -> Half:
    """One factor given the other. `size` is the unit of the threshold, `relative` what uneven noise
    makes of the mean weighted square; they are measured unless they are given.
    """
    if relative is None:
        relative = noise.even_square
    given = given_to(
        obs, state, side, noise, numbers=numbers, size=size, relative=relative
    )
    made = obs.refit(given)
    if made is None:
        return half_by_rounds(
            obs, state, side, numbers, noise, size=size, relative=relative
        )
    products, grams = (
        (None, X) if side else (X, None) for X in (made.pull, made.grams)
    )
    pull = Pull(*products, n_inliers=made.n_inliers, energy=made.energy, grams=grams)
    return Half(
        before=state,
        side=side,
        numbers=numbers,
        weight=_weight(made.size, numbers, noise),
        pull=pull,
        total=made.total,
        variance=made.variance,
        relative=made.relative,
        mean=made.mean,
        covariance=made.covariance,
        ridge=made.ridge,
        step=made.step,
        after=state.replaced(side, made.after, made.unknown),
    )


def given_to(
    obs: Observations,
    state: State,
    side: int,
    noise: Noise,
    *,
    numbers: Numbers,
    size: float | None = None,
    relative: float | None = None,
) -> Refit:
    """What a kernel is given for half a layer."""
    return Refit(
        *state.X,
        side=side,
        numbers=numbers,
        unknown=state.unknown,
        noise=(noise.rows, noise.cols),
        outliers=noise.outliers,
        sample=obs.telling,
        every=obs.telling.every(TYPICAL_OF),
        least=obs.least_error,
        tiny=TINY,
        size=size or 0.0,
        relative=relative or 0.0,
    )


def half_by_rounds(
    obs: Observations,
    state: State,
    side: int,
    numbers: Numbers,
    noise: Noise,
    *,
    size: float | None = None,
    relative: float | None = None,
) -> Half:
    """The same for rows wherever they are, step by step."""
    if size is None:
        size = typical_residual(obs, state.X, noise)
    weight = _weight(size, numbers, noise)
    F, unknown = state.of(side)
    scales = (noise.rows, noise.cols)
    asked = regressors_of(*state.of(1 - side), numbers, scales[1 - side], obs.threads)
    pull = obs.products(*state.X, weight, **asked_for(side, *asked))
    if relative is None:
        relative = noise.relative_square(obs.telling, state.X, weight)
    weights = total(pull)
    variance = max(relative * pull.energy / weights, obs.least_error**2)
    observed = (obs.row_observed, obs.col_observed)[side]
    count, mean, covariance = prior_of(F, unknown, observed)
    ridge = numbers.prior * variance * np.linalg.inv(covariance)
    rows = (F, pull[side], pull.grams[side], observed, scales[side])
    coupling = numbers.kappa * state.unknown[1 - side]
    (after, step), (inverse,) = each(
        _fitted, rows, (mean, ridge, coupling, numbers.eta, obs.threads)
    )
    return Half(
        before=state,
        side=side,
        numbers=numbers,
        weight=weight,
        pull=pull,
        total=weights,
        variance=variance,
        relative=relative,
        mean=mean,
        covariance=covariance,
        ridge=ridge,
        step=step,
        after=state.replaced(side, after, variance * inverse / count),
    )


def _weight(size: float, numbers: Numbers, noise: Noise) -> Power:
    """The rule of half a layer, for residuals in this unit."""
    return Power(
        times(numbers.reach * size, noise.rows),
        noise.cols,
        noise.outliers,
        shape=numbers.shape,
    )


def regressors_of(
    other: Any,
    unknown: Array,
    numbers: Numbers,
    scale: Array,
    threads: int,
) -> tuple[Any, Any]:
    """The other factor, and what Gram matrices are made of: its pairs with what is
    unknown, and a 1 for the weights.
    """
    coupling = numbers.kappa * unknown
    (plain, squares), _ = each(_regressors, (other, scale), (coupling, threads))
    return plain, squares


def _regressors(
    rows: tuple[Array, Array], same: tuple[Array, int]
) -> tuple[tuple[Array, Array], tuple[()]]:
    (other, scale), (coupling, threads) = rows, same
    return regressors(other, coupling, 1 / scale**2, threads), ()


def asked_for(side: int, plain: Any, squares: Any) -> dict[str, Any]:
    """What a pass multiplies the weighed residual and the weights with, for the rows of
    one side.
    """
    return {"P": plain, "Pw": squares} if side else {"Q": plain, "Qw": squares}


def total(pull: Pull) -> float:
    """The sum of all weights."""
    return max(float(np.sum(pull.col_weight, dtype=np.float64)), 1e-300)


def _fitted(
    rows: tuple[Array, ...], same: tuple[Any, ...]
) -> tuple[tuple[Array, Array], tuple[Array]]:
    """Some rows after their least-squares problems, and their steps; where nothing was
    observed, the mean row.
    """
    (F, pull, grams, observed, scale), (mean, ridge, coupling, eta, threads) = (
        rows,
        same,
    )
    problems = RowStep(
        F=F,
        pull=pull,
        grams=grams,
        used=observed > 0,
        precision=1 / scale**2,
        mean=mean,
        ridge=ridge,
        coupling=coupling,
        eta=eta,
        threads=threads,
    )
    after, step, inverse = problems.taken()
    return (after, step), (inverse,)


def prior_of(F: Any, unknown: Array, observed: Any) -> tuple[int, Array, Array]:
    """How many rows have entries, and their mean and covariance with what is unknown of them."""
    _, (count, sums) = each(_sums_of_used, (F, observed))
    count = max(int(count), 1)
    mean = sums / count
    covariance = told(square_of_used, (F, observed), mean) / count + unknown
    rank = len(mean)
    return (
        count,
        mean,
        covariance + (TINY * np.trace(covariance) / rank + 1e-30) * np.eye(rank),
    )


def _sums_of_used(
    rows: tuple[Array, Array], _: None
) -> tuple[tuple[()], tuple[int, Array]]:
    F, observed = rows
    used = observed > 0
    sums = np.where(used[:, None], F, 0).sum(0, dtype=np.float64)
    return (), (int(used.sum()), sums)

"""Loss, prior and rank for noisy data, by the error on entries that were set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..observations.heldout import hold_out, part_of
from ..observations.medians import medians_of_lines
from ..weights import Array
from .noise import noise_of_rows
from .noisy import Loss, Noise, Start, sweeps, two_groups, with_component
from .step import Step

Way = Callable[[Observations, tuple[Factors, float], Noise], Iterator[Step]]

# The mixture is for Gaussian noise: elsewhere it gives rows up.
LOSSES: tuple[Loss, ...] = ("cauchy", "huber", "squares")
SHRINKS = (1.0, 3.0, 9.0)
FIRST_SWEEPS = 8  # of a fit that does not start from one of nearly its rank
LOOKS = 12  # at higher ranks: each a third higher than the one before
TYPICAL = 0.25  # the quantile of absolute errors that stands for those of good entries
CLOSE = 0.03  # those that are further behind the best are given up, from rank 3 on
ENOUGH = 0.01  # a gain of less than this over three ranks ends the search


class Trial(NamedTuple):
    """One fit to the rest of the data, and its mean absolute error on what was set aside."""

    loss: Loss
    shrink: float
    rank: int
    error: float
    way: Literal["grown", "polished"] = "grown"
    # the lower quartile of the absolute errors, which outliers do not reach
    typical: float = np.nan

    def times(self, unit: float) -> Trial:
        """The same for data that are so many times larger."""
        return self._replace(error=unit * self.error, typical=unit * self.typical)


@dataclass(frozen=True, eq=False)
class Choice:
    """What did best."""

    noise: Noise
    X: Factors  # its fit, to a part of the data
    best: Trial
    trials: tuple[Trial, ...]
    # the mean absolute error of medians of rows, or columns, on the same entries
    simple: float

    @property
    def way(self) -> Literal["grown", "polished"]:
        """How it was reached."""
        return self.best.way

    @property
    def rank(self) -> int:
        """Of the fit."""
        return int(self.X.L.shape[1])


@dataclass(frozen=True, eq=False)
class Candidate:
    """A loss and a prior, with the fit at the rank reached so far."""

    noise: Noise
    X: Factors
    zeta: float = 0.0
    error: float = np.inf
    typical: float = np.inf

    def fitted(self, obs: Observations, judged: Sample, most: int = 4) -> Candidate:
        """The candidate after some sweeps."""
        X, zeta = self.X, self.zeta
        for step in sweeps(obs, X, self.noise, most):
            X, zeta = Factors(step.L, step.R), step.zeta
        return replace(self, X=X, zeta=zeta).judged_by(judged)

    def judged_by(self, judged: Sample) -> Candidate:
        """The candidate with its errors on what was set aside."""
        error, typical = _miss(self.X, judged)
        return replace(self, error=error, typical=typical)

    def trial(self) -> Trial:
        """What is remembered of it."""
        return Trial(
            self.noise.loss,
            self.noise.shrink,
            self.X.L.shape[1],
            self.error,
            typical=self.typical,
        )


def choose(
    obs: Observations,
    noise: Noise,
    start: Start,
    polished: Way,
    *,
    loss: Loss | None,
    rank: int | None,
    most: int,
    seed: int = 0,
) -> Choice:
    """Grow all candidates together, one component at a time, and drop those that fall behind.

    At the end the other way, `polished`, is tried at the rank that did best.
    """
    rest, judged = hold_out(part_of(obs, seed), seed)
    X, _ = start(rest, 1, seed)
    losses = LOSSES if loss is None else (loss,)
    here = noise
    if rest.shape != obs.shape:
        here = Noise(
            noise_of_rows(rest), np.ones(rest.shape[1]), outliers=noise.outliers
        )
    field = [
        Candidate(replace(here, loss=name, shrink=s), X)
        for name in losses
        for s in SHRINKS
    ]
    best, trials = field[0], list[Trial]()
    for r in range(1, (rank or most) + 1):
        field = sorted(
            (candidate.fitted(rest, judged) for candidate in field),
            key=lambda c: c.error,
        )
        trials += [candidate.trial() for candidate in field]
        if r == rank or (rank is None and field[0].error < best.error):
            best = field[0]
        if rank is None and _no_better(trials, r):
            break
        if r < (rank or most):
            field = [
                replace(c, X=with_component(rest, c.X, c.zeta))
                for c in _survivors(field, r)
            ]
    *_, last = polished(rest, start(rest, best.trial().rank, seed), best.noise)
    error, typical = _miss(Factors(last.L, last.R), judged)
    trials.append(best.trial()._replace(error=error, typical=typical, way="polished"))
    noise = replace(noise, loss=best.noise.loss, shrink=best.noise.shrink)
    won = min(best.trial(), trials[-1], key=lambda trial: trial.error)
    return Choice(noise, best.X, won, tuple(trials), missed_by_medians(rest, judged))


def grown_ranks(
    obs: Observations,
    noise: Noise,
    start: Start,
    polished: Way,
    *,
    rank: int,
    most: int,
    seed: int = 0,
) -> tuple[tuple[Trial, ...], float]:
    """Errors on entries set aside, of `rank` and of higher ones, as long as these gain; and what
    medians miss there by.

    Residuals that look Gaussian say nothing about the rank: components below the noise look so too.
    """
    rest, judged = hold_out(part_of(obs, seed), seed)
    if rest.shape != obs.shape:
        noise = replace(noise, rows=noise_of_rows(rest), cols=np.ones(rest.shape[1]))
    *_, last = polished(rest, start(rest, rank, seed), noise)
    fit = Candidate(noise, Factors(last.L, last.R), last.zeta).judged_by(judged)
    trials, best = [fit.trial()], fit.error
    for _ in range(LOOKS):
        wanted = min(most - rank, max(1, rank // 3))
        if wanted <= 0:
            break
        X = fit.X
        for _ in range(wanted):
            X = with_component(rest, X, fit.zeta)
        rank += wanted
        fit = replace(fit, X=X).fitted(rest, judged, FIRST_SWEEPS)
        trials.append(fit.trial())
        if fit.error > (1 - ENOUGH) * best and len(trials) > 2:
            break
        best = min(best, fit.error)
    return tuple(trials), missed_by_medians(rest, judged)


def lowest_good(trials: tuple[Trial, ...]) -> Trial:
    """The one of the lowest rank whose error is not clearly above the best."""
    best = min(trial.error for trial in trials)
    return next(trial for trial in trials if trial.error <= (1 + ENOUGH / 2) * best)


def _miss(X: Factors, judged: Sample) -> tuple[float, float]:
    """The mean and the lower quartile of absolute errors on what was set aside; of a fit
    that ran away, infinity.
    """
    size = np.abs(judged.residual(X))
    if not np.isfinite(size).all():
        return np.inf, np.inf
    return float(size.mean()), float(np.quantile(size, TYPICAL))


def missed_by_medians(rest: Observations, judged: Sample) -> float:
    """The mean absolute error of the simplest model there is: the median of the column,
    or of the row.
    """
    sizes = []
    for axis, lines in ((0, judged.rows), (1, judged.cols)):
        middles = medians_of_lines(rest, axis)
        sizes.append(float(np.abs(judged.values - middles[lines]).mean()))
    return min(sizes)


def _survivors(field: list[Candidate], rank: int) -> list[Candidate]:
    """All at first; fewer of the best as the ranks, and with them the costs, grow."""
    near = [
        candidate
        for candidate in field
        if rank < 3 or candidate.error <= (1 + CLOSE) * field[0].error
    ]
    return near[: {1: len(field), 2: 4, 3: 3}.get(rank, 2)]


def _no_better(trials: list[Trial], rank: int) -> bool:
    if rank <= 3:
        return False
    before, now = (
        min(t.error for t in trials if t.rank <= r) for r in (rank - 3, rank)
    )
    return now > (1 - ENOUGH) * before


def is_gaussian(size: Array) -> bool:
    """Whether residuals are Gaussian noise mixed with uniform outliers: the distance of
    Kolmogorov is small.
    """
    from scipy.special import erf

    size = np.sort(size.astype(np.float64))
    low = float(np.quantile(size, 0.3))
    if low <= 0:
        return False
    deviation, _, share = two_groups(size, low)
    widest = max(float(np.quantile(size, 0.999)), 3 * deviation)
    model = share * erf(size / (deviation * np.sqrt(2))) + (1 - share) * np.minimum(
        size / widest, 1
    )
    steps = np.arange(1, len(size) + 1) / len(size)
    # 0.05 for half outliers, 0.1 and more on real data
    return bool(np.abs(model - steps).max() < 0.06)

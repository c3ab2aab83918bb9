"""Loss, prior and rank for noisy data, by the error on entries that were set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ..heldout import hold_out, noise_of_rows, part_of
from ..linalg import Factors
from ..storage import Observations, Sample
from ..weights import Array
from .lrmc import Step
from .noisy import Loss, Noise, Start, sweeps, two_groups, with_component

Way = Callable[[Observations, tuple[Factors, float], Noise], Iterator[Step]]

# The mixture is for Gaussian noise: elsewhere it gives rows up.
LOSSES: tuple[Loss, ...] = ("cauchy", "huber", "squares")
SHRINKS = (1.0, 3.0, 9.0)
CLOSE = 0.03  # those that are further behind the best are given up, from rank 3 on
ENOUGH = 0.01  # a gain of less than this over three ranks ends the search


class Trial(NamedTuple):
    """One fit to the rest of the data, and its mean absolute error on what was set aside."""

    loss: Loss
    shrink: float
    rank: int
    error: float
    way: Literal["grown", "polished"] = "grown"

    def times(self, unit: float) -> Trial:
        """The same for data that are so many times larger."""
        return self._replace(error=unit * self.error)


@dataclass(frozen=True, eq=False)
class Choice:
    """What did best."""

    noise: Noise
    X: Factors  # its fit, to a part of the data
    way: Literal["grown", "polished"]
    trials: tuple[Trial, ...]

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

    def fitted(self, obs: Observations, judged: Sample) -> Candidate:
        """The candidate after some sweeps."""
        X, zeta = self.X, self.zeta
        for step in sweeps(obs, X, self.noise):
            X, zeta = Factors(step.L, step.R), step.zeta
        return replace(self, X=X, zeta=zeta, error=_miss(X, judged))

    def trial(self) -> Trial:
        """What is remembered of it."""
        return Trial(self.noise.loss, self.noise.shrink, self.X.L.shape[1], self.error)


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
        here = Noise(noise_of_rows(rest), np.ones(rest.shape[1]), outliers=noise.outliers)
    field = [Candidate(replace(here, loss=name, shrink=s), X) for name in losses for s in SHRINKS]
    best, trials = field[0], list[Trial]()
    for r in range(1, (rank or most) + 1):
        field = sorted((candidate.fitted(rest, judged) for candidate in field), key=lambda c: c.error)
        trials += [candidate.trial() for candidate in field]
        if r == rank or (rank is None and field[0].error < best.error):
            best = field[0]
        if rank is None and _no_better(trials, r):
            break
        if r < (rank or most):
            field = [replace(c, X=with_component(rest, c.X, c.zeta)) for c in _survivors(field, r)]
    *_, last = polished(rest, start(rest, best.trial().rank, seed), best.noise)
    trials.append(best.trial()._replace(error=_miss(Factors(last.L, last.R), judged), way="polished"))
    noise = replace(noise, loss=best.noise.loss, shrink=best.noise.shrink)
    return Choice(noise, best.X, "polished" if trials[-1].error < best.error else "grown", tuple(trials))


def _miss(X: Factors, judged: Sample) -> float:
    """The mean absolute error on what was set aside."""
    return float(np.abs(judged.residual(X)).mean())


def _survivors(field: list[Candidate], rank: int) -> list[Candidate]:
    """All at first; fewer of the best as the ranks, and with them the costs, grow."""
    near = [candidate for candidate in field if rank < 3 or candidate.error <= (1 + CLOSE) * field[0].error]
    return near[: {1: len(field), 2: 4, 3: 3}.get(rank, 2)]


def _no_better(trials: list[Trial], rank: int) -> bool:
    if rank <= 3:
        return False
    before, now = (min(t.error for t in trials if t.rank <= r) for r in (rank - 3, rank))
    return now > (1 - ENOUGH) * before


def is_gaussian(size: Array) -> bool:
    """Whether residuals are Gaussian noise mixed with uniform outliers: the distance of Kolmogorov is small."""
    from scipy.special import erf

    size = np.sort(size.astype(np.float64))
    low = float(np.quantile(size, 0.3))
    if low <= 0:
        return False
    deviation, _, share = two_groups(size, low)
    widest = max(float(np.quantile(size, 0.999)), 3 * deviation)
    model = share * erf(size / (deviation * np.sqrt(2))) + (1 - share) * np.minimum(size / widest, 1)
    steps = np.arange(1, len(size) + 1) / len(size)
    return bool(np.abs(model - steps).max() < 0.06)  # 0.05 for half outliers, 0.1 and more on real data

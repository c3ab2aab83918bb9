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

Way = Callable[[Observations, tuple[Factors, float], Noise, int], Iterator[Step]]

LOSSES: tuple[Loss, ...] = ("mixture", "cauchy", "huber")
SHRINKS = (1.0, 3.0, 9.0)
ENOUGH = 0.01  # a gain of less than this over three ranks ends the search


class Trial(NamedTuple):
    """One fit to the rest of the data, and its mean absolute error on what was set aside."""

    loss: Loss
    shrink: float
    rank: int
    error: float
    way: Literal["grown", "polished"] = "grown"


@dataclass(frozen=True)
class Choice:
    """What did best."""

    loss: Loss
    shrink: float
    rank: int
    way: str
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
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
    if rest.shape != obs.shape:
        noise = Noise(noise_of_rows(rest), np.ones(rest.shape[1]), outliers=noise.outliers)
    field = [Candidate(replace(noise, loss=name, shrink=s), X) for name in losses for s in SHRINKS]
    trials: list[Trial] = []
    for r in range(1, (rank or most) + 1):
        field = sorted((candidate.fitted(rest, judged) for candidate in field), key=lambda c: c.error)
        trials += [Trial(c.noise.loss, c.noise.shrink, r, c.error) for c in field]
        if rank is None and _no_better(trials, r):
            break
        if r < (rank or most):
            field = [replace(c, X=with_component(rest, c.X, c.zeta)) for c in _survivors(field, r)]
    best = min((t for t in trials if rank is None or t.rank == rank), key=lambda t: t.error)
    other = replace(noise, loss=best.loss, shrink=best.shrink)
    *_, last = polished(rest, start(rest, best.rank, seed), other, best.rank)
    trials.append(best._replace(error=_miss(Factors(last.L, last.R), judged), way="polished"))
    best = min(best, trials[-1], key=lambda t: t.error)
    return Choice(best.loss, best.shrink, best.rank, best.way, tuple(trials))


def _miss(X: Factors, judged: Sample) -> float:
    """The mean absolute error on what was set aside."""
    return float(np.abs(judged.residual(X)).mean())


def _survivors(field: list[Candidate], rank: int) -> list[Candidate]:
    """All at first; fewer of the best as the ranks, and with them the costs, grow."""
    return field[: {1: len(field), 2: 4, 3: 3}.get(rank, 2)]


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

"""The default: notice which kind of data this is, and do what is right for it.

Exact data (low rank plus outliers) are recovered to any accuracy by rejection: the closed loop. On noisy data it comes
to rest at the noise; then a smooth robust loss with a prior takes over: from there if the noise is plain. If it is not,
loss, prior, rank and way (from there, or from a fresh start one component at a time) are chosen by held-out error.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..centre import centre
from ..linalg import Factors
from ..result import Status
from ..start import leading
from ..storage import Observations
from ..weights import Array, Sides
from .choose import choose, is_gaussian
from .lrmc import Step
from .noisy import Loss, Noise, carried_over, sweeps
from .rank import Found, Test, find_rank, first_guess, settled

MOST_RANK = 15  # that is looked for


@dataclass(frozen=True)
class Findings:
    """What a run found out."""

    status: Status
    regime: str  # "exact" or "noisy"
    evidence: dict[str, Any] = field(default_factory=dict)

    def times(self, unit: float) -> Findings:
        """The same for data that are so many times larger."""
        records = {name: self.evidence[name] for name in ("rank_tests", "trials") if name in self.evidence}
        larger = {name: tuple(record.times(unit) for record in some) for name, some in records.items()}
        return replace(self, evidence=self.evidence | larger)


def start(obs: Observations, rank: int, seed: int) -> tuple[Factors, float]:
    """A spectral start around the typical rows and columns, and a threshold above its errors."""
    middle = centre(obs)
    zeta = _first_threshold(obs, middle)
    return leading(obs, rank, zeta, 1 / obs.fraction, model=middle, keep_model=middle is not None, seed=seed), zeta


def _first_threshold(obs: Observations, middle: Factors | None) -> float:
    some = obs.sample
    size = np.abs(some.values) if middle is None else _sizes(obs, middle)
    return 6 * float(np.median(size)) or 6 * obs.scale


def default(
    obs: Observations,
    rank: int | None,
    *,
    noise: Noise,
    loss: Loss | None,
    tol: float,
    seed: int = 0,
    begin: tuple[Factors, float] | None = None,
) -> Generator[Step, None, Findings]:
    """Steps until the data are fitted as well as they can be. Without a rank, that is found as well.

    `begin` is where an earlier run was, and its threshold.
    """
    found = yield from exact(obs, rank, noise.outliers, tol, seed, begin)
    evidence: dict[str, Any] = {"rank_tests": found.tests}
    if found.settled:
        return Findings(Status.CONVERGED, "exact", evidence)
    if loss in (None, "mixture") and is_gaussian(_sizes(obs, found.X)) and _even(obs, found.X, noise):
        yield from sweeps(obs, found.X, replace(noise, loss="mixture"))
        return Findings(Status.CONVERGED, "noisy", evidence | {"loss": "mixture", "why": "Gaussian residuals"})
    evidence |= yield from noisy(obs, rank, noise=noise, loss=loss, seed=seed, rested=found.X)
    return Findings(Status.CONVERGED, "noisy", evidence)


def noisy(
    obs: Observations,
    rank: int | None,
    *,
    noise: Noise,
    loss: Loss | None,
    seed: int = 0,
    rested: Factors | None = None,
) -> Generator[Step, None, dict[str, Any]]:
    """Steps for data with noise: loss, prior and rank by held-out error. They return the evidence for these.

    `rested` is where the closed loop came to rest, if it was tried.
    """
    most = min(MOST_RANK, min(obs.shape) - 1) or 1
    choice = choose(obs, noise, start, polished, loss=loss, rank=rank, most=most, seed=seed)
    if choice.way == "grown":
        yield from carried_over(obs, choice.X, choice.noise)
    elif rested is not None and choice.rank == rested.L.shape[1]:
        yield from sweeps(obs, rested, choice.noise, 6)
    else:
        yield from polished(obs, start(obs, choice.rank, seed), choice.noise)
    return {
        "loss": choice.noise.loss,
        "shrink": choice.noise.shrink,
        "way": choice.way,
        "trials": choice.trials,
    }


def polished(obs: Observations, begin: tuple[Factors, float], noise: Noise) -> Iterator[Step]:
    """The closed loop until it rests at the noise, then sweeps."""
    X, zeta = begin
    found = yield from settled(obs, X, zeta, tol=0.0, outliers=noise.outliers)
    yield from sweeps(obs, found.X, noise, 6)


def exact(
    obs: Observations,
    rank: int | None,
    outliers: Sides,
    tol: float,
    seed: int,
    begin: tuple[Factors, float] | None = None,
) -> Generator[Step, None, Found]:
    """The closed loop, with the rank given or found."""
    if begin is not None and rank is None:
        X, zeta = begin
        yield Step(X.L, X.R, zeta, math.nan, stage="start")
        test, most = Test(0, (), math.nan, X.L.shape[1]), min(MOST_RANK, *obs.shape)
        return (yield from find_rank(obs, X, zeta, test, most=most, tol=tol, outliers=outliers))
    if rank is not None:
        origin = begin if begin is not None and begin[0].L.shape[1] == rank else start(obs, rank, seed)
        yield Step(*origin[0], origin[1], math.nan, stage="start")
        found = yield from settled(obs, *origin, tol=tol, outliers=outliers, drop=True)
        if found.settled or found.X.L.shape[1] == rank:
            return found
        return (yield from settled(obs, *origin, tol=tol, outliers=outliers))
    middle = centre(obs)
    zeta = _first_threshold(obs, middle)
    most = min(MOST_RANK, *obs.shape)
    X, first = first_guess(obs, zeta, middle, most, seed)
    yield Step(X.L, X.R, zeta, math.nan, stage="start")
    return (yield from find_rank(obs, X, zeta, first, most=most, tol=tol, outliers=outliers))


def _even(obs: Observations, X: Factors, noise: Noise) -> bool:
    """Whether outliers are spread over all rows and columns, as far as chance would have it."""
    weight = replace(noise, loss="mixture").weight(obs.sample, X)
    pull = obs.products(X.L, X.R, weight, None, X.R)
    share = pull.n_inliers / obs.n_observed
    for inliers, seen in ((pull.row_inliers, obs.row_observed), (pull.col_inliers, obs.col_observed)):
        spread = np.sqrt(share * (1 - share) * seen) + 1
        few = (seen > 0) & (inliers < share * seen - 5 * spread)
        if int(few.sum()) > 0.01 * int((seen > 0).sum()):
            return False
    return True


def _sizes(obs: Observations, X: Factors) -> Array:
    some = obs.sample
    return np.abs(some.residual(X))

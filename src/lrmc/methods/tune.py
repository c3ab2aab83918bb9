"""The best numbers for a baseline, found on problems whose answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count, product
from typing import NamedTuple

from ..linalg import Factors
from ..metrics import relative_error
from ..observations._door import as_observations
from ..observations.base import Observations
from ..schedule import Tuning
from ..synthetic import Problem
from .step import Step

Method = Callable[[Observations, int, Tuning], Iterator[Step]]
# of the first, coarse grid over gamma and eta (halved if nothing on it gets there), then around the
# best
STEP = 0.2
GAMMAS, ETAS = (1.0, 2.0), (0.2, 1.8)  # from, to
# what is more than a tenth slower than the best on the problems so far is given up
SLACK = 1.1
LOST = 10.0  # a relative error that no run comes back from


class Tuned(NamedTuple):
    """The best numbers, and how many iterations they take: the mean over the problems,
    infinite if they miss one.
    """

    tuning: Tuning
    iterations: float


def tune(
    method: Method,
    problems: Sequence[Problem],
    *,
    tol: float = 1e-6,
    most: int = 60,
) -> Tuned:
    """The gamma and eta (to 0.05) with the fewest iterations to a relative error below tol, of at
    most `most`.

    All problems have the same alpha. Give several: the best gamma is at an edge below which runs
    stall, and where that is differs from problem to problem. Most numbers lose on the first, so
    this costs some 50 runs, not 50 for each."""
    data = [(as_observations(problem.Y), problem) for problem in problems]
    alpha = problems[0].alpha
    scores: dict[tuple[float, float], float] = {}

    def best() -> tuple[float, float]:
        return min(scores, key=lambda point: scores[point])

    def look_at(points: Iterator[tuple[float, float]]) -> None:
        for gamma, eta in points:
            limit = min(scores.values(), default=math.inf)
            if (gamma, eta) not in scores and gamma >= 1 and eta > 0:
                steps = (
                    method(obs, problem.rank, Tuning(alpha, gamma, eta))
                    for obs, problem in data
                )
                scores[gamma, eta] = _mean(steps, problems, tol, min(limit, most))

    for step in (STEP, STEP / 2):  # large ones first: slow, but they get there
        look_at(product(reversed(_grid(*GAMMAS, step)), reversed(_grid(*ETAS, step))))
        if math.isfinite(scores[best()]):
            break
    for step in (STEP / 2, STEP / 4):
        before = None
        while before != best():
            gamma, eta = before = best()
            look_at(
                (_round(gamma + i * step), _round(eta + j * step))
                for i, j in product((0, -1, 1), repeat=2)
            )
    return Tuned(Tuning(alpha, *best()), scores[best()])


def iterations(
    steps: Iterator[Step],
    problem: Problem,
    tol: float,
    most: float,
) -> float:
    """How many steps until the relative error is tol, with a fraction for where between
    two steps; else infinity.
    """
    before = math.inf
    for k, step in zip(count(), steps):
        error = relative_error(Factors(step.L, step.R), problem)
        if error < tol:
            return k - (
                math.log(tol / error) / math.log(before / error)
                if k and error > 0
                else 0.0
            )
        if k >= most or not error < LOST:
            return math.inf
        before = error
    return math.inf


def _mean(
    runs: Iterator[Iterator[Step]],
    problems: Sequence[Problem],
    tol: float,
    limit: float,
) -> float:
    """Over the problems; infinite as soon as it is clearly above the limit, or misses one."""
    total = 0.0
    for k, (steps, problem) in enumerate(zip(runs, problems), 1):
        total += iterations(steps, problem, tol, k * SLACK * limit - total)
        if not math.isfinite(total):
            return math.inf
    return total / len(problems)


def _grid(first: float, last: float, step: float) -> list[float]:
    return [_round(first + k * step) for k in range(round((last - first) / step) + 1)]


def _round(x: float) -> float:
    """So that the same number is the same point."""
    return round(x, 6)

"""The fast recipe: search for a geometric schedule, refine all layers together by exact gradients,
then find the tail.

Every step of the refinement sees a fresh example: on a fixed few, thresholds fall too fast for the
rare rows that are slow, and the schedule fails on large matrices although it does well on the
examples. Beside it comes the hardest of those seen before: a row that is left behind is one in tens
of thousands, and would hardly count otherwise."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product

import numpy as np

from ..schedule import Schedule
from ..weights import Array
from .examples import Example, Examples
from .network import Shape, errors, loss_and_gradient
from .state import Plan, State
from .tails import HORIZON, best_tail

FIRST_THRESHOLDS = (3.0, 5.0, 8.0, 12.0, 20.0, 35.0)
# without and with the tangent correction
STEPS = {False: (0.5, 0.65, 0.8), True: (0.85, 1.0, 1.15)}
DECAYS = (0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85)
SECOND_THRESHOLDS = (4.0, 1.5, 0.6, 0.25)
# so many of the hardest examples are remembered, and the hardest is seen again
KEPT = 4
RATE, SMALLEST_RATE = 0.08, 0.004
LONGEST_GRADIENT = 2.0
ON_THE_WAY = 0.1  # what the errors before the last layer count, all together
# so many layers of the tail are trained for as well, and count so much
BEYOND, IN_THE_TAIL = 6, 0.3
TAILS = tuple(product(np.arange(0.3, 0.96, 0.05).round(2).tolist(), (0.9, 0.95, 1.0)))


def fast(examples: Examples, plan: Plan, state: State | None = None) -> Iterator[State]:
    """Train, from a state if one is given. The last state has the schedule."""
    with ThreadPoolExecutor(2) as pool:
        first = [examples(number) for number in range(3)]
        if state is None:
            state = (
                _recurrent(first, plan)
                if plan.model == "rnn"
                else geometric(first, plan)
            )
            yield state
        if state.stage != "tail":
            state = yield from _refined(examples, plan, state, pool)
        if plan.model != "fnn" and state.stage != "tail":
            judges = first + [examples(number) for number, _ in state.hardest]
            schedule = best_tail(state.schedule, judges, TAILS, horizon=HORIZON)
            yield replace(state, stage="tail", step=1, steps=1, schedule=schedule)


def _recurrent(some: list[Example], plan: Plan) -> State:
    """A schedule that is a tail from the start on."""
    at = [HORIZON // 8, HORIZON // 4, HORIZON // 2, HORIZON]
    tried = [
        Schedule((zeta_0,), (), tail=(phi, beta), tangent=plan.tangent, eta_0=eta)
        for zeta_0, eta, phi, beta in product(
            FIRST_THRESHOLDS, STEPS[plan.tangent], DECAYS, (0.95, 1.0)
        )
    ]
    found = [
        float(np.mean([errors(schedule, example, at).mean() for example in some]))
        for schedule in tried
    ]
    best = int(np.argmin(found))
    return State("tail", 1, 1, math.exp(found[best]), tried[best])


def geometric(some: list[Example], plan: Plan) -> State:
    """The best schedule with zeta_k = zeta_1 phi^(k-1) and equal steps."""
    tried = _geometric_candidates(some, plan)
    found = [
        float(
            np.mean([errors(schedule, example, [plan.layers])[0] for example in some])
        )
        for schedule in tried
    ]
    best = int(np.argmin(found))
    return State("geometric", 1, 1, math.exp(found[best]), tried[best])


def _geometric_candidates(some: list[Example], plan: Plan) -> list[Schedule]:
    """All that are tried, with the threshold of the start that is best by itself."""
    K = plan.layers

    def candidate(
        zeta_0: float,
        zeta_1: float = 1.0,
        phi: float = 0.5,
        eta: float = 1.0,
    ) -> Schedule:
        zeta = [zeta_1 * phi**k for k in range(K)]
        gamma = (0.03,) * K if plan.momentum else ()
        return Schedule(
            (zeta_0, *zeta),
            (eta,) * K,
            tail=(phi, 1.0),
            tangent=plan.tangent,
            momentum=gamma,
        )

    def start_error(schedule: Schedule) -> float:
        return float(
            np.mean([example.goal.error(example.start(schedule)) for example in some])
        )

    zeta_0 = min(FIRST_THRESHOLDS, key=lambda zeta: start_error(candidate(zeta)))
    tried = product(STEPS[plan.tangent], DECAYS, SECOND_THRESHOLDS)
    return [candidate(zeta_0, zeta_1, phi, eta) for eta, phi, zeta_1 in tried]


def enough_layers(
    examples: Examples,
    plan: Plan,
    wanted: float = 3e-5,
    most: int = 30,
) -> int:
    """How many layers a geometric schedule needs for such an error: refined, it has less
    than 1e-6 then.
    """
    some = [examples(number) for number in range(2)]
    at = range(3, most + 1)
    tried = _geometric_candidates(some, replace(plan, layers=most))
    best = np.min(
        [
            np.mean([errors(schedule, example, at) for example in some], axis=0)
            for schedule in tried
        ],
        axis=0,
    )
    enough = np.flatnonzero(best < math.log(wanted))
    return int(at[enough[0]]) if len(enough) else most


def _refined(
    examples: Examples,
    plan: Plan,
    state: State,
    pool: ThreadPoolExecutor,
) -> Generator[State, None, State]:
    """Adam on all numbers of all layers, with a fresh example in every step."""
    examples = lru_cache(4 * KEPT)(examples)
    shape = Shape(plan.layers, plan.momentum)
    mean, square = (
        np.array(x) if x else np.zeros((2 + plan.momentum) * plan.layers)
        for x in state.moments
    )
    begin = state.step if state.stage == "refine" else 0
    weights = _weights(plan)
    for step in range(begin, plan.steps):
        numbers = [10 + step, *(number for number, _ in state.hardest[:1])]
        runs = list(
            pool.map(
                partial(loss_and_gradient, state.schedule, shape, weights),
                map(examples, numbers),
            )
        )
        gradient = np.mean([run[1] for run in runs], axis=0)
        gradient *= min(
            1.0, LONGEST_GRADIENT / max(float(np.linalg.norm(gradient)), 1e-12)
        )
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        theta = shape.packed(state.schedule) - _rate(step, plan.steps) * _direction(
            mean, square, step + 1
        )
        error = math.exp(float(np.mean([run[2] for run in runs])))
        moments = tuple(mean.tolist()), tuple(square.tolist())
        hardest = _hardest(
            dict(state.hardest) | {number: run[2] for number, run in zip(numbers, runs)}
        )
        schedule = shape.unpacked(theta, state.schedule)
        state = State(
            "refine",
            step + 1,
            plan.steps,
            error,
            schedule,
            moments=moments,
            hardest=hardest,
        )
        yield state
    return state


def _hardest(found: dict[int, float]) -> tuple[tuple[int, float], ...]:
    """The examples with the largest errors, the largest first."""
    return tuple(sorted(found.items(), key=lambda pair: -pair[1])[:KEPT])


def _weights(plan: Plan) -> dict[int, float]:
    """What errors after which layers count."""
    K = plan.layers
    before = {max(1, K * quarter // 4) for quarter in (1, 2, 3)} - {K}
    weights = dict.fromkeys(sorted(before), ON_THE_WAY / 3)
    weights[K] = 1.0
    return weights if plan.model == "fnn" else weights | {K + BEYOND: IN_THE_TAIL}


def _rate(step: int, steps: int) -> float:
    return (
        SMALLEST_RATE
        + (RATE - SMALLEST_RATE) * (1 + math.cos(math.pi * step / steps)) / 2
    )


def _direction(mean: Array, square: Array, step: int) -> Array:
    return (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)

"""The paper's recipe: layer after layer by stochastic gradient descent, then a grid search for the
tail.

As in its section "Training hyperparameters": batches of one fresh instance; layer k is first
trained alone and then together with those before it; zeta_0 begins at the largest |X|, zeta_k at
half of zeta_{k-1}, eta_k at 1/p; the rate of the steps is 0.1; a tail is searched on a grid.

Two things differ. The loss is the logarithm of the error after layer k, and thresholds are learned
by their logarithms: taken literally (squared error, absolute thresholds, rates of zeta_{k-1} /
5000), the gradients fall with the square of the error, and deep layers would hardly move. And the
grid has beta = 1, without which the steps of the tail are summable and it stalls; it is judged over
many layers instead of the next four."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from ..schedule import Schedule
from ..weights import Array
from .examples import Example, Examples
from .network import Shape, errors, loss_and_gradient
from .state import Plan, State
from .tails import FLOOR, HORIZON, best_tail

RATE = 0.1
DECAY = 0.5  # of the thresholds at the beginning
# the paper's (phi, beta)
GRID = tuple(product([k / 10 for k in range(1, 10)], repeat=2))
WITH_ONE = tuple(
    product([k / 10 for k in range(1, 10)], [k / 10 for k in range(1, 11)])
)
FIRST_STEP_SIZES = (0.5, 0.75, 1.0)  # of the RNN
FIRST_STEPS = 30  # for zeta_0, by finite differences
FOR_THE_GRID = 5  # instances: the paper takes 20


def paper(
    examples: Examples,
    plan: Plan,
    state: State | None = None,
) -> Iterator[State]:
    """Train, from a state if one is given. The last state has the schedule."""
    if state is None:
        state = _first_layer(examples, plan)
        yield state
    if state.stage != "tail":
        for k in range(len(state.schedule) or 1, plan.layers + 1):
            state = yield from _layer(examples, plan, state, k)
    if plan.model != "fnn" and state.stage != "tail":
        some = [examples(number) for number in range(FOR_THE_GRID)]
        if plan.model == "rnn":
            state = replace(
                state,
                schedule=best_recurrent(
                    state.schedule, some[:2], WITH_ONE, horizon=HORIZON
                ),
            )
        else:
            state = replace(
                state,
                schedule=best_tail(state.schedule, some, WITH_ONE, horizon=HORIZON),
            )
        yield replace(state, stage="tail", step=1, steps=1)


def _first_layer(examples: Examples, plan: Plan) -> State:
    """The threshold of the start: the gradient by finite differences."""
    # the largest |X| of the paper's problems, in medians of |Y|
    zeta_0 = math.log(10.0)

    def error(example: Example, log_zeta: float) -> float:
        return example.goal.error(example.start(Schedule((math.exp(log_zeta),), ())))

    for step in range(min(FIRST_STEPS, plan.steps)):
        example = examples(10 + step)
        slope = (error(example, zeta_0 + 0.1) - error(example, zeta_0 - 0.1)) / 0.2
        zeta_0 -= RATE * _cooling(step, FIRST_STEPS) * float(np.clip(slope, -5, 5))
    final = error(examples(0), zeta_0)
    return State("layer 0", 1, 1, math.exp(final), Schedule((math.exp(zeta_0),), ()))


def _layer(
    examples: Examples,
    plan: Plan,
    state: State,
    k: int,
) -> Generator[State, None, State]:
    """Layer k alone, then layers 1 to k together."""
    name, schedule, shape = f"layer {k}", state.schedule, Shape(k, momentum=False)
    if state.stage != name:
        schedule = replace(
            schedule,
            zeta=(*schedule.zeta, DECAY * schedule.zeta[-1]),
            eta=(*schedule.eta, 1.0),
        )
        state = replace(
            state, stage=name, step=0, steps=2 * plan.steps, schedule=schedule
        )
    for step in range(state.step, 2 * plan.steps):
        example = examples(1000 + 2 * plan.steps * k + step)
        first = k if step < plan.steps else 1  # alone, or with those before it
        error, gradient, _ = loss_and_gradient(
            schedule, shape, {k: 1.0}, example, first=first
        )
        rate = RATE * _cooling(step % plan.steps, plan.steps)
        theta = shape.packed(schedule)
        theta = theta - rate * _step(gradient, theta, k)
        schedule = shape.unpacked(theta, schedule)
        state = State(name, step + 1, 2 * plan.steps, math.exp(error), schedule)
        yield state
    return state


def _step(gradient: Array, theta: Array, k: int) -> Array:
    """The direction in log zeta and log eta. Steps are learned as they are: d/d eta =
    d/d log eta / eta.
    """
    gradient = np.clip(gradient, -5, 5)
    # a change of eta by x is one of log eta by x / eta
    gradient[k:] /= np.exp(2 * theta[k:])
    return np.asarray(np.clip(gradient, -5, 5))


def _cooling(step: int, steps: int) -> float:
    """The adaptive part of the rate: 1 at first, 0.1 at the end."""
    return 1 / (1 + 9 * step / steps)


def best_recurrent(
    schedule: Schedule,
    some: list[Example],
    tails: tuple[tuple[float, float], ...],
    *,
    horizon: int,
) -> Schedule:
    """The RNN: thresholds and steps are multiples from the start on, and eta_0, phi and
    beta are searched.
    """
    at = [max(1, horizon // 4), horizon // 2, horizon]

    def height(tried: Schedule) -> float:
        return float(
            np.mean(
                [
                    np.maximum(errors(tried, example, at), FLOOR).mean()
                    for example in some
                ]
            )
        )

    tried = [
        replace(schedule, eta_0=eta_0, tail=tail)
        for eta_0, tail in product(FIRST_STEP_SIZES, tails)
    ]
    return min(tried, key=height)

"""`train`: from problems or data to a schedule."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal

from ..schedule import Schedule
from .examples import as_examples
from .fast import fast
from .paper import paper
from .state import Plan, State, card

RECIPES = {"fast": fast, "paper": paper}
DEFAULT_STEPS = {"fast": 300, "paper": 1000}
MODELS = ("frmnn", "fnn", "rnn")
SAVE_EVERY = 2.0  # seconds


def train(
    data: Any,
    rank: int = 5,
    *,
    mask: Any = None,
    layers: int = 10,
    model: Literal["frmnn", "fnn", "rnn"] = "frmnn",
    tangent: bool = False,
    momentum: bool = False,
    recipe: Literal["fast", "paper"] = "fast",
    steps: int | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[State], None] | None = None,
    threads: int | None = None,
) -> Schedule:
    """Learn the thresholds and steps of LRMC.

    `data` is a kind of synthetic problems (`lrmc.synthetic.Problems`), a list of pairs (Y, X) of data and their truth
    (a matrix, or its factors), or one matrix Y (with `mask`, as for `lrmc.solve`): then some of its entries are hidden
    in turn, and the schedule is trained to find them from the rest.

    The model "frmnn" has `layers` layers of their own and then a tail, "fnn" only the layers, "rnn" only the tail.
    `tangent` and `momentum` are the two improvements on the paper's iteration. The recipe "fast" takes seconds; "paper"
    trains layer after layer by stochastic gradient descent as the paper does. `steps` are those of gradient descent.

    With a `checkpoint` file, training that was interrupted goes on where it was; the same seed gives the same schedule
    either way. `progress` is called with each state.
    """
    plan = _plan(recipe, model, layers, tangent, momentum, steps, seed, rank)
    examples = as_examples(data, plan.rank, mask, threads)
    plan = replace(plan, trained_on=examples.about)
    state = None if checkpoint is None else State.load(checkpoint, plan)
    offset = 1_000_000 * (plan.seed + 1)  # far from the seeds that people try schedules on
    states = _timed(RECIPES[plan.recipe](lambda number: examples(offset + number), plan, state), state)
    saved = time.perf_counter()
    try:
        for state in states:
            if checkpoint is not None and time.perf_counter() - saved > SAVE_EVERY:
                state.save(checkpoint, plan)
                saved = time.perf_counter()
            if progress is not None:
                progress(state)
    finally:  # an interruption loses nothing but the step that it fell in
        if checkpoint is not None and state is not None:
            state.save(checkpoint, plan)
    assert state is not None
    tail = None if plan.model == "fnn" else state.schedule.tail
    return replace(state.schedule, tail=tail, card=card(plan, state))


def _timed(states: Iterator[State], before: State | None) -> Iterator[State]:
    """The same states, with the seconds that training took so far, interruptions left out."""
    began = time.perf_counter() - (0.0 if before is None else before.seconds)
    for state in states:
        yield replace(state, seconds=time.perf_counter() - began)


def _plan(
    recipe: str, model: str, layers: int, tangent: bool, momentum: bool, steps: int | None, seed: int, rank: int
) -> Plan:
    """Check what was asked for."""
    for name, value, known in (("recipe", recipe, tuple(RECIPES)), ("model", model, MODELS)):
        if value not in known:
            raise ValueError(f"{name}={value!r}; one of {', '.join(known)} is wanted")
    least = {"layers": (layers, 0 if model == "rnn" else 1), "rank": (rank, 1), "seed": (seed, 0)}
    if steps is not None:
        least["steps"] = (steps, 0)
    for name, (number, smallest) in least.items():
        if not isinstance(number, Integral) or isinstance(number, bool) or number < smallest:
            raise ValueError(f"{name}={number!r}; a whole number of at least {smallest} is wanted")
    if recipe == "paper" and (tangent or momentum):
        raise ValueError("tangent and momentum are not in the paper; train them with recipe='fast'")
    steps = DEFAULT_STEPS[recipe] if steps is None else int(steps)
    K = 0 if model == "rnn" else int(layers)
    return Plan(recipe, model, K, bool(tangent), bool(momentum), steps, int(seed), int(rank))

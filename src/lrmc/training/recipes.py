"""`train`: from problems or data to a schedule."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

from .._arguments import function_or_none, one_of, whole_number, yes_or_no
from ..methods.plan import Aim
from ..observations._checks import checked_threads
from ..schedule import MOST_LAYERS, Schedule
from .examples import Series, are_pairs, as_examples
from .family import is_family, train_family
from .fast import fast
from .paper import paper
from .state import Plan, State, card

RECIPES = {"fast": fast, "paper": paper}
DEFAULT_STEPS = {"fast": 300, "paper": 1000}
Model = Literal["frmnn", "fnn", "rnn", "noisy"]
MODELS = get_args(Model)
RANK = 5  # of the paper's experiments
MOST_STEPS = 10**7  # far beyond where anything is still learned
SAVE_EVERY = 2.0  # seconds


def train(
    data: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    layers: int = 10,
    model: Model | None = None,
    aim: Aim | None = None,
    groups: Any = None,
    tangent: bool = False,
    momentum: bool = False,
    recipe: Literal["fast", "paper"] = "fast",
    steps: int | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[State], None] | None = None,
    threads: int | None = None,
) -> Schedule:
    """Learn a schedule: the thresholds and steps of LRMC, or all that noisy data of one kind need.

    Of several matrices, entries in the shape of their gaps are hidden, and every third matrix only
    judges. The schedule then serves other matrices of the same kind, without learning again.

    Parameters
    ----------
    data : Problems, list of pairs (Y, X), list of matrices, or matrix
        What is trained on: a kind of synthetic problems, data with their truth (a matrix, or its
        factors), real data of one kind (other clips, persons, scenes, days), or one matrix, some of
        whose entries are hidden in turn.
    rank : int, optional
        Rank of the model; 5 if not given, and found for "noisy".
    mask : array of bool, optional
        Of one matrix: True where an entry is observed.
    layers : int, default 10
        Number of layers with numbers of their own; "noisy" always has three.
    model : {"frmnn", "fnn", "rnn", "noisy"}, optional
        Layers of the paper and then a tail, only layers, or only a tail; or layers for noisy data,
        which have priors. "noisy" for several matrices without truth, otherwise "frmnn".
    aim : {"fill", "separate"}, optional
        Of "noisy": as for `lrmc.solve`; "separate" where no matrix has gaps.
    groups : sequence of arrays, optional
        Of "noisy": for each matrix, which of its rows are weighed together, as for `lrmc.solve`.
    tangent, momentum : bool, default False
        Two improvements on the paper's iteration: what both factors would move is moved once, and
        a heavy ball.
    recipe : {"fast", "paper"}, default "fast"
        All layers together, in seconds; or layer after layer by stochastic gradient descent.
    steps : int, optional
        Steps of gradient descent.
    seed : int, default 0
        The same seed gives the same schedule.
    checkpoint : path, optional
        Training that was interrupted goes on from this file.
    progress : callable, optional
        Called with each state.
    threads : int, optional
        Number of threads; all cores if not given.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> import lrmc
    >>> problems = lrmc.synthetic.Problems(n=60, alpha=0.1, p=1.0)
    >>> schedule = lrmc.train(problems, rank=2, layers=3, model="fnn", steps=2)
    >>> len(schedule)
    3
    >>> tables = [problems.draw(2, seed=k).Y for k in range(3)]
    >>> lrmc.train(tables, rank=2).card["trained_on"]["matrices"]
    3
    """
    kind = one_of("model", model or _usual(data), MODELS)
    checked_threads(threads)
    function_or_none("progress", progress)
    if kind == "noisy":
        _check_family(data, aim, mask=mask, checkpoint=checkpoint)
        return train_family(
            data,
            None if rank is None else whole_number("rank", rank, 1),
            aim=aim,
            groups=groups,
            seed=whole_number("seed", seed, 0),
            threads=threads,
            progress=progress,
        )
    if aim is not None or groups is not None:
        raise ValueError("aim= and groups= are for model='noisy'; leave them out")
    plan = _plan(
        recipe=recipe,
        model=kind,
        layers=layers,
        tangent=tangent,
        momentum=momentum,
        steps=steps,
        seed=seed,
        rank=RANK if rank is None else rank,
    )
    examples = as_examples(data, plan.rank, mask, threads)
    plan = replace(plan, trained_on=examples.about)
    state = _trained(examples, plan, checkpoint, progress)
    tail = None if plan.model == "fnn" else state.schedule.tail
    return replace(state.schedule, tail=tail, card=card(plan, state))


def _trained(
    examples: Series,
    plan: Plan,
    checkpoint: str | os.PathLike[str] | None,
    progress: Callable[[State], None] | None,
) -> State:
    """Where training ends; on the way, it is saved and told."""
    state = None if checkpoint is None else State.load(checkpoint, plan)
    # far from the seeds that people try schedules on
    offset = 1_000_000 * (plan.seed + 1)
    states = _timed(
        RECIPES[plan.recipe](lambda number: examples(offset + number), plan, state),
        state,
    )
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
    return state


def _usual(data: Any) -> Model:
    """What is trained where nothing is said."""
    return "noisy" if is_family(data) else "frmnn"


def _check_family(data: Any, aim: Any, **others: Any) -> None:
    """Refuse what training on several matrices does not take."""
    one_of("aim", aim or "fill", get_args(Aim))
    if not is_family(data) and not are_pairs(data):
        raise ValueError(
            "model='noisy' learns on several matrices: give a list of them (or of one), or of pairs"
            " (Y, X)"
        )
    for name, given in others.items():
        if given is not None:
            raise ValueError(
                f"{name}= is not for model='noisy'; leave it out (NaN marks what is missing)"
            )


def _timed(states: Iterator[State], before: State | None) -> Iterator[State]:
    """The same states, with the seconds that training took so far, interruptions left out."""
    began = time.perf_counter() - (0.0 if before is None else before.seconds)
    for state in states:
        yield replace(state, seconds=time.perf_counter() - began)


def _plan(
    *,
    recipe: str,
    model: str,
    layers: int,
    tangent: bool,
    momentum: bool,
    steps: int | None,
    seed: int,
    rank: int,
) -> Plan:
    """Check what was asked for."""
    one_of("recipe", recipe, tuple(RECIPES))
    layers = whole_number("layers", layers, 0 if model == "rnn" else 1, MOST_LAYERS)
    steps = (
        DEFAULT_STEPS[recipe]
        if steps is None
        else whole_number("steps", steps, 0, MOST_STEPS)
    )
    seed, rank = whole_number("seed", seed, 0), whole_number("rank", rank, 1)
    tangent, momentum = yes_or_no("tangent", tangent), yes_or_no("momentum", momentum)
    if recipe == "paper" and (tangent or momentum):
        raise ValueError(
            "tangent and momentum are not in the paper; train them with recipe='fast'"
        )
    return Plan(
        recipe=recipe,
        model=model,
        layers=0 if model == "rnn" else layers,
        tangent=tangent,
        momentum=momentum,
        steps=steps,
        seed=seed,
        rank=rank,
    )

"""A schedule for noisy data of one kind: learned on some matrices, for all others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .._arguments import checked_rank
from ..linalg import Factors, entries_at
from ..methods.family import Member, decide_for_all
from ..methods.learn import SHIPPED, Told, silent
from ..methods.plan import Aim, Decided, Plan, Wanted
from ..methods.safety_net import kind_of
from ..observations._door import as_observations
from ..observations.grouped import grouped
from ..observations.heldout import can_hold_out
from ..schedule import Schedule
from .state import State

LOOKED_AT = 8  # matrices that tell what their kind looks like


def is_family(data: Any) -> bool:
    """Whether these are several matrices: a matrix may come as nested lists, but these have
    shapes.

    Raises
    ------
    ValueError
        If one of several arrays is no matrix.
    """
    if not isinstance(data, list | tuple) or not data:
        return False
    shapes = [tuple(getattr(Y, "shape", ())) for Y in data]
    matrices = [len(shape) == 2 for shape in shapes]
    if any(matrices) and not all(matrices):
        k = matrices.index(False)
        what = f"has shape {shapes[k]}" if shapes[k] else f"is {type(data[k]).__name__}"
        raise ValueError(
            f"matrix {k + 1} of {len(data)} {what}; rows and columns are wanted"
        )
    return all(matrices)


def train_family(
    data: Sequence[Any],
    rank: int | None,
    *,
    aim: Aim | None,
    groups: Sequence[Any] | None,
    seed: int,
    threads: int | None,
    progress: Callable[[State], None] | None = None,
) -> Schedule:
    """A schedule for matrices like these, or like the Y of these pairs of data and truth."""
    began = time.perf_counter()
    if groups is not None and len(groups) != len(data):
        raise ValueError(
            f"groups has {len(groups)} lists of labels for {len(data)} matrices; one each is wanted"
        )
    family = [
        _named(k, len(data), x, None if groups is None else groups[k], threads)
        for k, x in enumerate(data)
    ]
    for member in family:
        if rank is not None:
            checked_rank(rank, member.obs.shape)
    full = all(member.obs.fraction == 1 for member in family)
    wanted = Wanted(rank, aim=aim or ("separate" if full else "fill"))
    decided, judges = decide_for_all(family, wanted, seed, _told_to(progress, began))
    some = [x.obs for x in family[:: -(-len(family) // LOOKED_AT)]]
    plan = replace(decided.plan, kind=kind_of(some, decided.plan, seed))
    card = {
        "source": "learned on matrices of one kind",
        "trained_on": {
            "matrices": len(family),
            "judges": judges,
            "shapes": sorted({tuple(map(int, x.obs.shape)) for x in family})[:5],
            "observed": sum(x.obs.n_observed for x in family),
            "truth": family[0].truth is not None,
        },
        "rank": decided.plan.rank,
        "seed": seed,
        "held_out": standings(decided),
        "learning": [[x.step, round(x.loss, 4)] for x in decided.trials],
        "seconds": round(time.perf_counter() - began, 1),
    }
    return Schedule(plan=plan.plain(), card=card)


def _told_to(progress: Callable[[State], None] | None, began: float) -> Told:
    """What learning calls, of what a user asked to be called."""
    if progress is None:
        return silent
    tell, first = progress, Schedule(plan=Plan(SHIPPED, rank=1).plain())

    def told(stage: str, done: int, total: int) -> None:
        seconds = time.perf_counter() - began
        tell(State(stage, done, total, math.nan, first, seconds=seconds))

    return told


def standings(decided: Decided) -> dict[str, dict[str, float]]:
    """How the plan and what is simple do on hidden entries, in units of the data's scale."""
    return {
        line.name: {"mae": float(f"{line.mae:.4g}"), "rmse": float(f"{line.rmse:.4g}")}
        for line in decided.table
    }


def _named(k: int, count: int, x: Any, groups: Any, threads: int | None) -> Member:
    """A member; what is wrong with it is told with its place in the list."""
    try:
        return _member(x, groups, threads)
    except ValueError as error:
        raise ValueError(f"matrix {k + 1} of {count}: {error}") from None


def _member(x: Any, groups: Any, threads: int | None) -> Member:
    """A matrix, or one with its truth."""
    Y, X = x if isinstance(x, list | tuple) else (x, None)
    obs = as_observations(Y, threads=threads)
    obs = obs if groups is None else grouped(obs, groups)
    if X is None:
        if not can_hold_out(obs):
            raise ValueError(
                f"a matrix of {obs.shape[0]} x {obs.shape[1]} has {obs.n_observed} entries: too few"
                " to hide some of them; leave it out"
            )
        return Member(obs)
    X = _factors_or_matrix(X)
    shape = X.shape if isinstance(X, np.ndarray) else (len(X[0]), len(X[1]))
    if tuple(shape) != obs.shape:
        raise ValueError(
            f"the truth has shape {tuple(shape)}, its data {obs.shape}; a pair is (Y, X)"
        )
    if isinstance(X, np.ndarray):
        return Member(obs, lambda rows, cols: X[rows, cols])
    return Member(obs, partial(entries_at, Factors(*X)))


def _factors_or_matrix(X: Any) -> Any:
    """The truth as numbers: a matrix, or its two factors."""
    if isinstance(X, tuple):
        return tuple(np.asarray(F, np.float64) for F in X)
    return np.asarray(X, np.float64)

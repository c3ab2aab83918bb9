"""The paper's recipe with the numbers that its text and the authors' code have, at the paper's size.

SGD on the relative error, one fresh problem a step, each layer up to 1000 steps alone and as many
with those before it; thresholds begin at a tenth of the one before, steps at 0.5 / p; rates 0.1 for
steps, zeta_(k-1) / 5000 for thresholds. A phase ends sooner where the error of a problem that only
judges hardly falls, and phases after the first have a fifth of the steps at most: thresholds are where
they stay after 50 to 100, and steps move with the error itself, less in each layer. The card has the
errors of the judge on the way."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from trained import ALPHA

import lrmc
from lrmc import Schedule
from lrmc.linalg import Factors
from lrmc.training import paper
from lrmc.training.examples import Example
from lrmc.training.goals import Truth
from lrmc.training.network import Shape, errors, loss_and_gradient
from lrmc.weights import Array

RATE, TIMES_SLOWER = 0.1, 5000
FIRST_ETA, DECAY = 0.5, 0.1  # in the authors' code, for p = 1
# The median of |Y|, which is our unit of thresholds, in theirs: n = 3000, rank 5. Their rates are for
# thresholds of that size.
UNIT = 4.7e-4
FIRST_ZETA = 1e-3 / UNIT
EVERY = 25  # steps, the error is looked at
FLAT = 0.005  # a fall in twice as many steps that is not worth more of them
LONG = 5  # phases with all of their steps, two of each layer
JUDGE = 20_000_000  # the number of the problem that judges


class Recipe(NamedTuple):
    """What is trained."""

    n: int
    rank: int
    layers: int
    steps: int  # of each phase, at most

    def most(self, phase: int) -> int:
        """Steps of a phase."""
        return self.steps if phase <= LONG else -(-self.steps // 5)

    def example(self, number: int) -> Example:
        """A fresh problem."""
        return fresh(self.n, self.rank, number)


# ---- problems


def fresh(n: int, rank: int, number: int) -> Example:
    """A problem as those of `lrmc.synthetic` with p = 1, in single precision and in a quarter of the
    time: made in place, and its outliers are not kept.
    """
    rng = np.random.default_rng(number)
    L, R = (rng.standard_normal((n, rank)) / math.sqrt(n) for _ in range(2))
    Y = L.astype(np.float32) @ R.T.astype(np.float32)
    mean = sum(float(np.abs(rows).sum()) for rows in np.array_split(Y, 50)) / Y.size
    places = distinct(rng, int(ALPHA * Y.size), Y.size)
    Y.ravel()[places] += 2 * mean * (rng.random(len(places), np.float32) - 0.5)
    return Example(
        lrmc.as_observations(Y, threads=1), Truth(Factors(L, R)), rank, number
    )


def distinct(rng: np.random.Generator, count: int, below: int) -> Array:
    """So many different numbers, all sets of them being as likely, in order: drawn again until there
    are enough, which is faster than to shuffle all.
    """
    chosen = np.zeros(below, bool)
    while missing := count - np.count_nonzero(chosen):
        chosen[rng.integers(below, size=missing, dtype=np.int32)] = True
    return np.flatnonzero(chosen)


# ---- training


def as_stated(recipe: Recipe, begun: Path) -> Schedule:
    """Layer after layer; after each phase, the file that is `begun` says where to go on."""
    judge = recipe.example(JUDGE)
    schedule = (
        Schedule.load(begun)
        if begun.exists()
        else Schedule((_first_threshold(recipe),), (), card={"errors": []})
    )
    for done in range(len(schedule.card["errors"]), 2 * recipe.layers):
        schedule = phase(recipe, schedule, judge, alone=done % 2 == 0)
        schedule.save(begun)
        told = schedule.card["errors"][-1]
        print(
            f"layer {done // 2 + 1}: {told[0]:.3e} {told[-1]:.3e}, {len(told)}",
            flush=True,
        )
    begun.unlink(missing_ok=True)
    return schedule


def phase(recipe: Recipe, schedule: Schedule, judge: Example, alone: bool) -> Schedule:
    """Steps for a new layer, or for all; the card gets the errors of the judge on the way."""
    if alone:
        zeta = (*schedule.zeta, DECAY * schedule.zeta[-1])
        schedule = replace(schedule, zeta=zeta, eta=(*schedule.eta, FIRST_ETA))
    begun, k, seen = schedule.zeta, len(schedule), list[float]()
    number = 2 * k - alone  # of the phase, from 1
    first, most = 1000 + recipe.steps * number, recipe.most(number)
    for step in range(most + 1):
        if step % EVERY == 0:
            seen.append(math.exp(errors(schedule, judge, [k])[0]))
            if step == most or is_flat(seen):
                break
        schedule = _descended(schedule, recipe.example(first + step), alone)
        # a threshold below 0 is set back to where it began
        zeta = [z if z > 0 else b for z, b in zip(schedule.zeta, begun, strict=True)]
        schedule = replace(schedule, zeta=tuple(zeta))
    return replace(schedule, card={"errors": [*schedule.card["errors"], seen]})


def is_flat(seen: list[float]) -> bool:
    """Whether the error hardly falls any more."""
    return len(seen) > 2 and seen[-1] > (1 - FLAT) * seen[-3]


def _first_threshold(recipe: Recipe) -> float:
    """That of the start; the gradient by finite differences."""
    zeta = FIRST_ZETA

    def error(example: Example, zeta: float) -> float:
        return math.exp(example.goal.error(example.start(Schedule((zeta,), ()))))

    for step in range(min(recipe.steps, paper.FIRST_STEPS)):
        example, h = recipe.example(10 + step), 0.05 * zeta
        slope = (error(example, zeta + h) - error(example, zeta - h)) / (2 * h)
        zeta -= RATE / TIMES_SLOWER / UNIT**2 * slope
    return max(zeta, FIRST_ZETA / 10)


def _descended(schedule: Schedule, example: Example, alone: bool) -> Schedule:
    """One step for the last layer, or for all."""
    k = len(schedule)
    log_error, slopes, _ = loss_and_gradient(
        schedule,
        Shape(k, momentum=False),
        {k: 1.0},
        example,
        first=k if alone else 1,
    )
    zeta, eta = np.array(schedule.zeta[1:]), np.array(schedule.eta)
    # from logarithms to the numbers themselves: d e / d x = e (d log e / d log x) / x
    by_zeta, by_eta = math.exp(log_error) * slopes.reshape(2, k) / [zeta, eta]
    rates = np.array(schedule.zeta[:-1]) / (TIMES_SLOWER * UNIT)
    zeta, eta = zeta - rates * by_zeta, eta - RATE * by_eta
    return replace(schedule, zeta=(schedule.zeta[0], *zeta), eta=tuple(eta))

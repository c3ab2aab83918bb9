"""Which trained schedule fits some data: by what its card says that it was trained on, and by
entries that are hidden.
"""

from __future__ import annotations

import math
from itertools import islice

from ..linalg import Factors
from ..observations.base import Observations
from ..observations.heldout import can_hold_out
from ..schedule import Schedule
from .closed_loop import closed_loop
from .growing import rank_for
from .lessons import LARGER_PART, SAME, Lesson, Tried, hidden_in, is_better
from .noisy import Noise, noise_and_share
from .plan import Plan
from .rested import start

LOOKS = 6  # steps of the closed loop that tell the share of outliers
# a schedule is not used where entries per unknown are so many times fewer than in its training
TOO_FEW = 2.0
ROUNDING = 1e-3  # of the data: what typical hidden entries are missed by where there is no noise
PLENTY = 1e4  # more entries per unknown make no difference
# a schedule for fewer outliers than there are is so many times worse than one for more
PATIENT = 3.0


def entries_per_unknown(shape: tuple[int, int], p: float, rank: int) -> float:
    """How many entries there are for each number of a factor, as it matters to a schedule.

    Matched sampling: matrices of different size behave alike where n p / (1 - p) is the same.
    """
    p = min(p, 0.99)
    return min(math.sqrt(shape[0] * shape[1]) * p / (1 - p) / rank, PLENTY)


def trained_for(schedule: Schedule) -> tuple[float, float] | None:
    """Entries per unknown and the share of outliers that a schedule was trained for, if
    its card tells. Of data, that share is not known: NaN.
    """
    try:
        trained, rank = schedule.card["trained_on"], schedule.card["rank"]
        if "shape" in trained:
            rows, cols = map(int, trained["shape"])
            p = float(trained["observed"]) / (rows * cols)
            return entries_per_unknown((rows, cols), p, int(rank)), math.nan
        problems = trained["problems"]
        n1, p, alpha = (
            int(problems["n"]),
            float(problems["p"]),
            float(problems["alpha"]),
        )
        return entries_per_unknown(
            (n1, int(problems.get("n2") or n1)), p, int(rank)
        ), alpha
    # a card may hold anything
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        return None


def misfit(schedule: Schedule, obs: Observations, rank: int) -> str | None:
    """Why a schedule should not be used for these data, or None."""
    known = trained_for(schedule)
    if known is None or schedule.units != "relative":
        return None
    here = entries_per_unknown(obs.shape, obs.fraction, rank)
    if here * TOO_FEW < known[0]:
        return f"it was trained with {known[0] / here:.1f} times as many entries per unknown as there are here"
    return None


def nearest(obs: Observations, rank: int, seed: int = 0) -> tuple[str, float]:
    """The name of the trained schedule for data like these, and their estimated share of
    outliers.
    """
    X, zeta = start(obs, rank, seed)
    *_, step = islice(closed_loop(obs, X, zeta), LOOKS)
    _, alpha = noise_and_share(obs, Factors(step.L, step.R))
    here = entries_per_unknown(obs.shape, obs.fraction, rank)

    def distance(card: tuple[float, float]) -> float:
        entries, share = math.log(here / card[0]), alpha - card[1]
        return abs(entries) * (PATIENT if entries < 0 else 1) + 10 * abs(share) * (
            PATIENT if share > 0 else 1
        )

    cards: dict[str, tuple[float, float]] = {}
    for name in Schedule.names():
        known = trained_for(schedule := Schedule.named(name))
        if known is not None and schedule.card.get("zoo"):
            cards[name] = known
    return min(cards, key=lambda name: distance(cards[name])), alpha


def nearest_of_all(
    obs: Observations,
    rank: int | None,
    noise: Noise,
    seed: int = 0,
) -> Schedule:
    """Of the schedules that come with lrmc: for data without noise whose rank is known, the nearest
    of the paper's form; else that for noisy data which misses hidden entries by least.
    """
    if not can_hold_out(obs):
        if rank is None:
            raise ValueError(
                f"schedule='nearest': {obs.n_observed} entries are too few to hide some of them;"
                " name a schedule, or leave it out"
            )
        return Schedule.named(nearest(obs.across or obs, rank, seed)[0])
    high = rank_for(obs) if rank is None else rank
    lessons = hidden_in(obs, high, noise, seed, entries=LARGER_PART, least=1, most=1)
    known = [x for x in map(Schedule.named, Schedule.names()) if x.plan is not None]
    plans = [Plan.from_plain(x.plan or {}) for x in known]
    tried = [Tried.of(_at_most(lessons, plan), plan.layers) for plan in plans]
    typical = [x.unit for x in tried]
    if rank is not None and min(typical) < ROUNDING * lessons[0].rest.scale:
        return Schedule.named(nearest(obs.across or obs, rank, seed)[0])
    return known[_best(tried)]


def _best(tried: list[Tried]) -> int:
    """Which of them misses hidden entries by least; the first of those that do alike."""
    bend, best = tried[0].unit, 0
    losses = [x.losses(bend) for x in tried]
    for k, found in enumerate(losses):
        if is_better(losses[best], found, SAME):
            best = k
    return best


def _at_most(lessons: list[Lesson], plan: Plan) -> list[Lesson]:
    """The same with the rank of a plan, where that is lower."""
    found = []
    for lesson in lessons:
        now: Lesson | None = lesson
        while now is not None and now.rank > plan.rank:
            lesson, now = now, now.lower()
        found.append(now or lesson)
    return found

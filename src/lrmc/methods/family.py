"""A plan for a family of matrices, learned on some of them: then a new one needs no learning.

The same lessons as for one matrix, from several, and those of some matrices only judge: what is
learned must serve matrices that were not learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..observations.base import Observations
from ..observations.heldout import THINNED
from .blends import all_heard, best_blends, unit_of
from .decide import (
    decided_by,
    first_numbers,
    good_rank,
    judged,
    ranks_of,
    scaled_as,
)
from .growing import raised, rank_for
from .learn import Told, silent
from .lessons import LARGER_PART, PART, SAME, Lesson, Tried, Truth, hidden_in, is_better
from .noisy import Noise
from .noisy_layers import Layers
from .plan import BENDS, Decided, Plan, Wanted
from .second_opinions import OPINIONS, opinions_for

MOST_MEMBERS = 24  # that are looked at
JUDGE_EVERY = 3  # one of so many matrices only judges
LESSONS = 12  # about, of all matrices together
# of the entries, and at least so many: the part of new data that a plan is tried in
SHARE, ENOUGH = 0.4, 5_000
# times as many components at once: how many there are was seen on other matrices, and scores of all
# families that ship are those of doubling, in half of the passes
LEAP = 8
# of a line's entries, at most, that are hidden: numbers that are learned where lines have lost most of
# their entries are those for lines with hardly any, and too careful for others
OF_LINE = THINNED
NOTICED = 0.05  # a part of the loss: by so much a plan is worse than no plan
WORSE = (
    "the schedule does not fit these data: entries that were hidden in a part of them are missed"
    " {:.2f} times as much as without it; leave it out, or train one on data like these"
)


class Member(NamedTuple):
    """A matrix of a family, and what it was made from where that is known."""

    obs: Observations
    truth: Truth | None = None

    def scaled(self) -> Member:
        """The same with entries of size 1: all matrices count alike."""
        unit, truth = 1 / self.obs.scale, self.truth
        scaled = self.obs.scaled(unit)
        if truth is None:
            return Member(scaled)
        return Member(scaled, lambda rows, cols: unit * truth(rows, cols))


def decide_for_all(
    family: Sequence[Member],
    wanted: Wanted,
    seed: int = 0,
    told: Told = silent,
) -> tuple[Decided, int]:
    """A plan for matrices like these, and how many of them have judged it.

    Of one or two matrices, hidden entries judge."""
    step = -(-len(family) // MOST_MEMBERS)
    members = [member.scaled() for member in family[::step]]
    high = wanted.rank or min(rank_for(member.obs) for member in members)
    compared = _lessons(members, high, seed, LARGER_PART, told)

    def few(rank: int) -> list[Lesson]:
        return _lessons(members, rank, seed + 1, PART, told)

    shape = members[0].obs.shape
    decided = decided_by(compared, few, wanted, shape, told=told)
    plan = replace(decided.plan, times=LEAP)
    return replace(decided, plan=plan), len(_judges(members))


def _judges(members: Sequence[Member]) -> range:
    """Which of them are not learned from."""
    last = len(members) - 1
    return range(last, -1, -JUDGE_EVERY) if last > 1 else range(0)


def _lessons(
    members: Sequence[Member],
    rank: int,
    seed: int,
    entries: int,
    told: Told = silent,
) -> list[Lesson]:
    """Lessons of all members in turn; those of some are for judging."""
    most = max(1, LESSONS // len(members))
    judges = _judges(members)
    lessons = []
    for k, (obs, truth) in enumerate(members):
        noise = Noise.even(obs)
        some = hidden_in(
            obs,
            rank,
            noise,
            seed + k,
            entries=entries,
            least=min(most, 3),
            most=most,
            of_line=OF_LINE,
            truth=truth,
        )
        if judges:
            some = [replace(lesson, judge=k in judges) for lesson in some]
        lessons += some
        told("hiding entries", k + 1, len(members))
    return lessons


def _highest(ladder: Sequence[Tried], bend: float) -> Tried:
    """The highest rank that is not clearly worse than another: what is not needed dies, and all
    data carry more than a part.
    """
    losses = [tried.losses(bend) for tried in ladder]
    means = [float(loss.mean()) for loss in losses]
    best = losses[int(np.argmin(np.where(np.isfinite(means), means, np.inf)))]
    good = (k for k, loss in enumerate(losses) if not is_better(loss, best, SAME))
    return ladder[next(good)]


class Net(NamedTuple):
    """How a plan that was learned elsewhere does on entries hidden here."""

    decided: Decided  # the plan for data of this size, with the standings of all models
    lesson: Lesson  # which that is seen by, at the rank of the plan
    worse: str = ""  # a sentence where it does worse than no plan would


def caught(obs: Observations, plan: Plan, noise: Noise, seed: int) -> Net:
    """A plan beside the numbers that ship, and what is simple, on entries hidden in a part of new
    data.

    The rank may be half of what was learned, twice, or higher where that is clearly better: other
    data carry more. Second opinions are asked anew.
    """
    usual = first_numbers(obs.groups is not None, None, None)
    high = plan.rank if plan.fixed else min(2 * plan.rank, rank_for(obs))
    entries = int(np.clip(SHARE * obs.n_observed, ENOUGH, LARGER_PART))
    part = hidden_in(
        obs,
        high,
        noise,
        seed,
        entries=entries,
        least=1,
        most=1,
        times=plan.times,
        of_line=OF_LINE,
    )
    planned = Tried.of(part, plan.layers)
    bend = BENDS["auto"] * unit_of(planned.errors)
    rungs = [planned]
    if not plan.fixed:
        rungs = _raised(planned, plan.layers, bend, rank_for(obs))
        lower = ranks_of(planned, plan.layers, bend, plan.rank // 2)[1:]
        ladder = [*rungs, *lower]
        whole = part[0].rest.shape == obs.shape
        planned = good_rank(ladder, bend, whole) if whole else _highest(ladder, bend)
        plan = replace(plan, rank=planned.lessons[0].rank)
    if any(plan.powers):
        planned = Tried.of(scaled_as(planned, plan).lessons, plan.layers)
    # numbers that are too careful may ask for more components than others need: all ranks are tried
    if plan.layers != usual:
        rungs = [Tried.of(rung.lessons, usual) for rung in rungs]
    decided = _with_opinions(obs, plan, planned, bend)
    return Net(decided, planned.lessons[0], _worse(planned, rungs, bend))


def _worse(planned: Tried, others: Sequence[Tried], bend: float) -> str:
    """A sentence where a plan misses hidden entries by clearly more than the best of others."""
    best = min(others, key=lambda tried: float(tried.losses(bend).mean()))
    if not is_better(planned.losses(bend), best.losses(bend), NOTICED):
        return ""
    missed, less = (float(np.abs(x.errors).mean()) for x in (planned, best))
    return WORSE.format(missed / max(less, 1e-300))


def _raised(tried: Tried, layers: Layers, bend: float, most: int) -> list[Tried]:
    """Lessons with twice as many components as long as these are clearly better, and then those
    that were given: the highest rank comes first.
    """
    ladder = [tried]
    while (lesson := ladder[0].lessons[0]).rank < min(most, *lesson.rest.shape):
        rank = min(2 * lesson.rank, most, *lesson.rest.shape)
        state = raised(lesson.rest, lesson.states[-1], rank, lesson.noise)
        higher = replace(lesson, states=(*lesson.states, state))
        more = Tried.of([higher], layers)
        if not is_better(ladder[0].losses(bend), more.losses(bend), SAME):
            break
        ladder.insert(0, more)
    return ladder


def _with_opinions(
    obs: Observations,
    plan: Plan,
    planned: Tried,
    bend: float,
) -> Decided:
    """The plan, with what clearly adds to it in these data, and how all models do there."""
    can_ask = plan.aim == "fill" and obs.groups is None
    asked = {x.name for x in plan.blends} & set(OPINIONS)
    if can_ask:
        asked |= set(opinions_for(obs))
    heard = all_heard(planned, sorted(asked))
    found = best_blends(heard, bend) if can_ask else ()
    return judged(replace(plan, blends=found) if found else plan, heard)

"""A plan for a family of matrices, learned on some of them: then a new one needs no learning.

The same lessons as for one matrix, from several, and those of some matrices only judge: what is
learned must serve matrices that were not learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..observations.base import Observations
from ..observations.heldout import THINNED
from .decide import decided_by
from .growing import rank_for
from .learn import Told, silent
from .lessons import LARGER_PART, PART, Lesson, Truth, hidden_in
from .noisy import Noise
from .plan import Decided, Wanted

MOST_MEMBERS = 24  # that are looked at
JUDGE_EVERY = 3  # one of so many matrices only judges
LESSONS = 12  # about, of all matrices together
# times as many components at once: how many there are was seen on other matrices, and scores of all
# families that ship are those of doubling, in half of the passes
LEAP = 8
# of a line's entries, at most, that are hidden: numbers that are learned where lines have lost most of
# their entries are those for lines with hardly any, and too careful for others
OF_LINE = THINNED


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

"""How a plan that was learned on other data does on new ones: hidden entries say so.

In a part of the new data some entries are hidden. The rank follows what they ask for, second opinions
are asked anew, and the plan is compared with what would be done without it, short of learning. What
learning would gain is not seen there: data that do not look like those that it was learned on are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations
from ..observations.heldout import can_hold_out
from .blends import Hearing, all_heard, blends_for, losses
from .decide import (
    first_numbers,
    good_rank,
    judged,
    ranks_of,
)
from .family import OF_LINE
from .growing import rank_for, supported
from .lessons import (
    FEWEST,
    LARGER_PART,
    PART,
    SAME,
    Lesson,
    Tried,
    hidden_in,
    is_better,
)
from .likeness import Kind, Look
from .mixtures import all_mixed, with_mixture
from .noisy import Noise
from .noisy_layers import Layers
from .plan import BENDS, Aim, Decided, Plan, Score
from .planned import LEAST, RECOVERY
from .second_opinions import OPINIONS, opinions_for
from .settling import settle, trimmed
from .uneven import own_noise, scaled_as

# of the entries, and at least so many: the part of new data that a plan is tried in. Small tables are
# looked at as a whole: in a part of them fewer components, and more of second opinions, seem right
SHARE, ENOUGH = 0.4, PART
# a part of the loss, about twice that of the error: by so much a plan is worse than no plan
NOTICED = 0.02
WORSE = (
    "the schedule does not fit these data: entries that were hidden in a part of them are missed"
    " {:.2f} times as much as without it; leave it out, or train one on data like these"
)
# where gaps are there to be filled, and a plan would not do it
TO_SEPARATE = (
    "the schedule was learned to separate outliers, not to fill gaps: entries that were hidden in a"
    " part of the data are missed {:.2f} times as much as without it; leave it out, or say aim='fill'"
    " (or aim='separate', if that is what is wanted)"
)


class Net(NamedTuple):
    """How a plan that was learned elsewhere does on entries hidden here."""

    decided: Decided  # the plan for data of this size, with the standings of all models
    lesson: Lesson  # which that is seen by, at the rank of the plan
    worse: str = ""  # a sentence where it does worse than no plan would, or was not made for such data


def caught(
    obs: Observations,
    plan: Plan,
    noise: Noise,
    seed: int,
    *,
    usual_aim: Aim = "fill",
    score: Score = "auto",
) -> Net:
    """A plan beside the numbers that ship, on entries hidden in a part of new data. `usual_aim` is
    what would be done with these data without a plan, `score` what is looked at.

    The rank may be half of what was learned, any lower one of a small table, or higher where that is
    not clearly worse: other data carry more.
    """
    highest = Tried.of(_part(obs, plan, noise, seed), plan.layers)
    bend = BENDS[score] * highest.unit
    whole = highest.lessons[0].rest.shape == obs.shape
    chosen = highest
    if not plan.fixed:
        ladder = ranks_of(highest, plan.layers, bend, 1 if whole else plan.rank // 2)
        chosen = (
            good_rank(ladder, bend, whole) if whole else _highest(ladder, bend, obs)
        )
        plan = replace(plan, rank=chosen.lessons[0].rank)
    if any(plan.powers):
        chosen = Tried.of(scaled_as(chosen, plan).lessons, plan.layers)
    mixed = all_mixed(chosen) if plan.polish else chosen
    planned = _heard(obs, plan, mixed, bend)
    layers = first_numbers(obs.groups is not None, None, None)
    usual = Plan(layers, plan.rank, fixed=plan.fixed, aim=usual_aim, times=plan.times)
    beside = chosen
    if plan.layers != layers or any(plan.powers):
        beside = _at_best_rank((highest, chosen), usual, bend, whole)
    if whole:
        usual, beside = _as_usual(usual, beside, bend)
    decided, worse = judged(*planned), ""
    if usual != replace(plan, blends=(), kind=None):
        worse = _worse(planned, _heard(obs, usual, beside, bend, planned[1]), bend)
    if plan.kind is not None and not worse:
        worse = plan.kind.unlike(_look(decided, obs), obs.groups is not None)
    return Net(decided, chosen.lessons[0], worse)


def kind_of(family: Sequence[Observations], plan: Plan, seed: int) -> Kind | None:
    """What matrices look like that a plan was learned on: as new ones are looked at."""
    looks = [
        _look(caught(obs, plan, Noise.even(obs), seed).decided, obs)
        for obs in family
        if can_hold_out(obs)
    ]
    grouped = family[0].groups is not None
    return Kind.of([look for look in looks if look is not None], grouped)


def _look(decided: Decided, obs: Observations) -> Look | None:
    return Look.of(decided.table, obs.fraction)


def _part(obs: Observations, plan: Plan, noise: Noise, seed: int) -> list[Lesson]:
    """Lessons with as many components as such data may have: one, or more where entries are few."""
    return hidden_in(
        obs,
        plan.rank if plan.fixed else rank_for(obs),
        noise,
        seed,
        entries=int(np.clip(SHARE * obs.n_observed, ENOUGH, LARGER_PART)),
        least=1,
        most=FEWEST,
        times=plan.times,
        of_line=OF_LINE,
    )


def _at_best_rank(
    some: tuple[Tried, Tried],
    plan: Plan,
    bend: float,
    whole: bool,
) -> Tried:
    """The numbers of a plan at the rank that they do best with: numbers that are too careful may ask
    for more components than others need.
    """
    highest = Tried.of(some[0].lessons, plan.layers)
    if whole and not plan.fixed:
        return good_rank(ranks_of(highest, plan.layers, bend), bend, whole)
    if some[1] is some[0]:
        return highest
    lower = Tried.of(some[1].lessons, plan.layers)
    return min(highest, lower, key=lambda x: float(x.losses(bend).mean()))


def _as_usual(plan: Plan, tried: Tried, bend: float) -> tuple[Plan, Tried]:
    """What else would be done with a small table, short of learning: noise of its lines, and a
    mixture at the end.
    """
    plan = replace(plan, rank=tried.lessons[0].rank)
    if plan.aim == "separate" or tried.lessons[0].rest.groups is not None:
        return plan, tried
    powers, tried = own_noise(tried, plan.layers, bend)
    plan = replace(plan, powers=powers)
    return with_mixture(plan, tried, bend)


def _highest(ladder: Sequence[Tried], bend: float, obs: Observations) -> Tried:
    """The highest rank that is not clearly worse than another: what is not needed dies, and all
    data carry more than a part.
    """
    found = [tried.losses(bend) for tried in ladder]
    ranks = [tried.lessons[0].rank for tried in ladder]
    means = [loss.mean() for loss in found]
    best = int(np.argmin(np.where(np.isfinite(means), means, np.inf)))
    price = _price_of_part(ladder[0].lessons[0], obs)
    for tried, loss, rank in zip(ladder, found, ranks, strict=True):
        worth = SAME + price * max(rank - ranks[best], 0)
        if not is_better(loss, found[best], worth):
            return tried
    return ladder[best]


def _price_of_part(lesson: Lesson, obs: Observations) -> float:
    """What a component costs in a part beyond what it costs in all data, as a share of the noise:
    one unknown in each line, which has as many entries less.
    """
    seen = lesson.rest.n_observed + len(lesson.hidden.values)
    in_part, in_all = np.array(lesson.rest.shape) / seen, np.array(obs.shape)
    return float(np.maximum(in_part - in_all / obs.n_observed, 0).sum())


# a plan, and what it and all other models say of hidden entries
Heard = tuple[Plan, Sequence[Hearing]]


def _heard(
    obs: Observations,
    plan: Plan,
    tried: Tried,
    bend: float,
    known: Sequence[Hearing] = (),
) -> Heard:
    """The plan with what clearly adds to it in these data; `known` as for `hearing`."""
    if plan.aim == "separate" and not plan.fixed:
        tried = tried._replace(fits=[_separated(x, plan.layers) for x in tried.lessons])
    can_ask = plan.aim == "fill" and obs.groups is None
    asked = {x.name for x in plan.blends} & set(OPINIONS)
    if can_ask:
        asked |= set(opinions_for(obs))
    heard = all_heard(tried, sorted(asked), known)
    # all data carry more components than a part, which leave less to add
    part = tried.lessons[0].rest.shape != obs.shape
    found = blends_for(tried, heard, bend, typically=part) if can_ask else ()
    return replace(plan, blends=found) if found else plan, heard


def _separated(lesson: Lesson, layers: Layers) -> Factors:
    """A fit without components that few entries ask for, as it is made to separate outliers."""
    end = settle(lesson.rest, lesson.states[-1], layers, lesson.noise)
    begun, last = supported(end.after), layers.last(RECOVERY)
    end = settle(lesson.rest, begun, last, lesson.noise)
    return trimmed(lesson.rest, end, LEAST["separate"])


def _worse(planned: Heard, usual: Heard, bend: float) -> str:
    """A sentence where a plan misses hidden entries by clearly more than what is usual."""
    before, after = (
        losses(heard, plan.blends, bend) for plan, heard in (planned, usual)
    )
    lost = not np.isfinite(before.each).all()
    if not (lost or is_better(before, after, NOTICED)):
        return ""
    missed, less = (
        float(np.mean([np.abs(x.errors(plan.blends)).mean() for x in heard]))
        for plan, heard in (planned, usual)
    )
    missed = np.inf if lost else missed
    # typical entries may gain while the mean, which is what is said, stays as it is
    if missed < (1 + NOTICED / 2) * less:
        return ""
    said = WORSE if planned[0].aim == usual[0].aim else TO_SEPARATE
    return said.format(missed / max(less, 1e-300))

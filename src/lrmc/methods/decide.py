"""How noisy data are to be fitted: decided on hidden entries.

What is decided: the rank to begin with, the numbers of the layers (by gradient), how far rows and
columns have noise of their own, whether a final fit with a mixture of noise and outliers helps,
and whether a simple model, neighbors or a regression know something that low rank does not. All of
it is judged by the same hidden entries, and what is simpler stays unless the gain is clear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..observations.heldout import THINNED
from .blends import (
    WORTH,
    Hearing,
    all_heard,
    blends_for,
    missed_by,
    opinion_standings,
    simple_names,
    standings,
)
from .growing import rank_for
from .learn import IN_GROUPS, SHIPPED, Learned, Told, Trial, learned, silent
from .lessons import (
    LARGER_PART,
    PART,
    SAME,
    Lesson,
    Tried,
    hidden_in,
    is_better,
    mean_gain,
)
from .mixtures import Ways, fewest, with_mixture
from .neighbors import SHARING
from .noisy import Loss, Noise
from .noisy_layers import Layers
from .plan import BENDS, Aim, Decided, Plan, Score, Wanted
from .planned import LEAST, Fitted, carried
from .second_opinions import opinions_for
from .settling import settle
from .uneven import own_noise, scaled_as

# times that entries are hidden at least: of few entries some to learn from and others to judge by; of
# many once is enough
COMPARISONS, OF_FEW = 1, 2
# of all entries: with fewer, gaps are laid over lines in stretches. Anything between 0.45 and 0.58 is
# the same on all data it was measured on
SEEN = 0.5
# times the least loss: of fewer components than two ranks that lose so much, still more is lost
TOO_FEW = 1.1
# of the loss: where as many components as are tried at first gain more than half as many, more are tried
TOO_LOW = 0.05
OF_EACH = (
    3  # entries of a line for each component, in the part on which these are compared
)
TYPICAL = 0.25  # the quantile of absolute errors that stands for those of good entries
SHAPES: Mapping[Loss, float] = {"cauchy": 1.0, "huber": 0.5, "squares": 0.02}
WIDE_REACH = 6.0  # medians of |e|: four standard deviations


def decide(
    obs: Observations,
    rank: int | None,
    *,
    noise: Noise,
    loss: Loss | None = None,
    score: Score = "auto",
    aim: Aim = "fill",
    rested: int | None = None,
    neighbors: bool = True,
    learns: bool = True,
    seed: int = 0,
    layers: Layers | None = None,
) -> Decided:
    """A plan for these data, by entries that are hidden in a part of them.

    `rested` is the rank at which the closed loop came to rest, where residuals there are those of
    Gaussian noise and outliers. `learns` as of `Wanted`."""
    high = rank_for(obs) if rank is None else rank
    # what is left of them after hiding some must be more than is learned from
    least = OF_FEW if obs.n_observed <= 1.5 * PART else COMPARISONS
    hide = partial(hidden_in, obs, noise=noise, of_line=most_of_line(obs.fraction))
    beside = opinions_for(obs) if neighbors and aim == "fill" else ()
    whole = SHARING in beside
    few = partial(hide, seed=seed + 1)
    larger = partial(hide, seed=seed, entries=LARGER_PART, least=least, whole=whole)

    def higher(than: int) -> Sequence[Lesson]:
        more = rank_for(obs, 2 * than)
        return () if more <= than else _judging(larger(more, of_a_line=OF_EACH * more))

    wanted = Wanted(rank, loss, score, aim, rested, opinions=beside, learns=learns)
    compared = _judging(larger(high))
    return decided_by(compared, few, wanted, obs.shape, layers, higher=higher)


def _judging(lessons: Sequence[Lesson]) -> Sequence[Lesson]:
    """All of them judge, where they are so large that what is learned from lies elsewhere."""
    if lessons[0].rest.n_observed <= PART:
        return lessons
    return [replace(lesson, judge=True) for lesson in lessons]


def most_of_line(fraction: float) -> float:
    """Of a line's entries, how many may be hidden, where gaps are structured and so much is seen.

    Whole gaps are what is to be filled. But where most is missing, they leave lines hardly any of
    their entries, and what is decided there is too careful for lines that have theirs."""
    return THINNED if fraction < SEEN else 1.0


def decided_by(
    compared: Sequence[Lesson],
    few: Callable[[int], Sequence[Lesson]],
    wanted: Wanted,
    shape: tuple[int, int],
    layers: Layers | None = None,
    told: Told = silent,
    higher: Callable[[int], Sequence[Lesson]] | None = None,
) -> Decided:
    """A plan that these lessons ask for. Numbers are learned from `few`, of this rank, in a small
    part, where these have more entries; `shape` is that of all data. Where the rank is not enough,
    lessons of a `higher` one are asked for.
    """
    in_groups = compared[0].rest.groups is not None
    form = None if wanted.loss is None else SHAPES.get(wanted.loss)
    layers = first_numbers(in_groups, layers, form)
    tried = Tried.of(compared, layers, LEAST[wanted.aim])
    bend = BENDS[wanted.score] * tried.unit
    fewer = None
    larger: Sequence[Lesson] = ()
    if wanted.rank is None:
        ladder = ranks_of(tried, layers, bend)
        if higher and is_too_low(ladder, bend):
            larger = higher(compared[0].rank)
        whole = compared[0].rest.shape == shape
        tried = good_rank(ladder, bend, whole)
        fewer = fewest(ladder, tried, bend)
    rank = tried.lessons[0].rank
    plan = Plan(layers, rank, fixed=wanted.rank is not None, aim=wanted.aim)
    trials: tuple[Trial, ...] = ()
    # of groups, what covers all of a date would count as the noise of that date
    if wanted.aim == "fill" and not in_groups:
        lessons = lessons_for(plan, few, tried)
        more = Teaching(form, wanted.learns, told)
        plan, tried, trials = taught(plan, lessons, tried, bend, more)
        if wanted.loss in (None, "mixture"):
            asked = wanted.loss == "mixture"
            ways = Ways(wanted.rested, fewer, asked)
            plan, tried = with_mixture(plan, tried, bend, ways)
    decided = contested(plan, tried, bend, trials, wanted.opinions)
    if not larger:
        return decided
    other = decided_by(
        larger,
        few,
        wanted,
        shape,
        layers=layers,
        told=told,
        higher=higher,
    )
    better = other.missed_part < (1 - WORTH) * decided.missed_part
    return other if better else decided


def first_numbers(
    in_groups: bool,
    layers: Layers | None,
    shape: float | None,
) -> Layers:
    """Those that are given, or ship for such data, with the shape that is asked for."""
    if layers is None:
        layers = IN_GROUPS if in_groups else SHIPPED
    return layers if shape is None else with_shape(layers, shape)


def lessons_for(
    plan: Plan,
    few: Callable[[int], Sequence[Lesson]],
    compared: Tried,
) -> Tried:
    """Lessons to learn from: in a small part, where the others have more entries."""
    if all(lesson.rest.n_observed <= PART for lesson in compared.lessons):
        return compared
    return Tried.of(few(plan.rank), plan.layers)


class Teaching(NamedTuple):
    """How numbers of the layers are learned."""

    shape: float | None = None  # of the loss, if it is given
    learns: bool = True
    told: Told = silent

    def learned(
        self, tried: Tried, bend: float, layers: Layers, final: bool
    ) -> Learned:
        """As `learn.learned`; the same numbers where nothing is learned."""
        if not self.learns:
            return Learned(layers, ())
        return learned(tried, bend, layers, self.shape, self.told, final=final)


def taught(
    plan: Plan,
    tried: Tried,
    compared: Tried,
    bend: float,
    more: Teaching,
) -> tuple[Plan, Tried, tuple[Trial, ...]]:
    """The plan with noise of lines and numbers that hidden entries ask for, in a small part and
    then in a larger one; and what is compared, fitted as planned.
    """
    powers, scaled = own_noise(tried, plan.layers, bend)
    last = tried is compared
    found = more.learned(scaled, bend, plan.layers, last)
    better = replace(plan, powers=powers, layers=found.layers)
    if better == plan:
        return plan, compared, found.trials
    if last:
        plan, before = replace(plan, powers=powers), scaled
        if better == plan:  # with the same numbers, these are the fits again
            return plan, before, found.trials
        after = Tried.of(scaled.lessons, better.layers)
    else:
        before = compared
        after = Tried.of(scaled_as(compared, better).lessons, better.layers)
    plain, gained = (some.judges().losses(bend) for some in (before, after))
    if is_better(plain, gained, SAME):
        return better, after, found.trials
    return plan, before, found.trials


def with_shape(layers: Layers, shape: float) -> Layers:
    """The same numbers with this shape of the loss; a gentle one reaches farther, so that small
    residuals count in full.
    """
    reach = tuple(max(z, WIDE_REACH) if shape < 1 else z for z in layers.reach)
    return replace(layers, shape=(shape,) * len(layers), reach=reach)


def good_rank(ladder: Sequence[Tried], bend: float, whole: bool) -> Tried:
    """Of lessons with lower and lower ranks, those with the lowest that is as good as any; in a part
    of the data with the highest that is nearly as good, since all of them can carry more.

    Components that are not needed die, but of small tables not soon enough.
    """
    losses = [some.losses(bend) for some in ladder]
    means = np.array([loss.mean() for loss in losses])
    means[~np.isfinite(means)] = np.inf
    best = int(means.argmin())
    good = np.flatnonzero(means <= (1 + (SAME if whole else WORTH)) * means[best])
    if not whole:
        return ladder[int(good[0])]
    # the mean may be that of outliers: typical entries are asked as well
    alike = [k for k in good if not is_better(losses[k], losses[best], SAME)]
    return ladder[int(alike[-1])]


def is_too_low(ladder: Sequence[Tried], bend: float) -> bool:
    """Whether the last doubling of the rank gained much."""
    if len(ladder) < 2:
        return False
    first, second = (some.losses(bend) for some in ladder[:2])
    return mean_gain(second, first) > TOO_LOW


def ranks_of(tried: Tried, layers: Layers, bend: float, least: int = 1) -> list[Tried]:
    """The lessons, and then with lower and lower ranks from `least` on, until two of them in a row
    lose much.
    """
    ladder, means = [tried], [float(tried.losses(bend).mean())]
    while lower := [x for x in (y.lower() for y in ladder[-1].lessons) if x]:
        if len(lower) < len(tried.lessons) or lower[0].rank < least:
            break
        if all(mean > TOO_FEW * min(means) for mean in means[-2:]):
            break
        ladder.append(Tried.of(lower, layers))
        means.append(float(ladder[-1].losses(bend).mean()))
    return ladder


def contested(
    plan: Plan,
    tried: Tried,
    bend: float,
    trials: tuple[Trial, ...],
    opinions: Sequence[str],
) -> Decided:
    """The plan with the blend that does best, and how all models do."""
    tried = widened(tried, plan)
    heard = all_heard(tried, opinions)
    plan = replace(plan, blends=blends_for(tried, heard, bend))
    missed = missed_by(tried, heard, plan.blends)
    return replace(judged(plan, heard, trials), missed=missed)


def widened(tried: Tried, plan: Plan) -> Tried:
    """The same lessons in all data, where they know them, with the fits carried there as planned: in
    a part, what is near a line is mostly missing, and low rank is told by fewer lines."""
    pairs = zip(tried.lessons, tried.fits, strict=True)
    some = [_in_whole(lesson, X, plan) for lesson, X in pairs]
    return Tried([lesson for lesson, _ in some], [X for _, X in some])


def _in_whole(lesson: Lesson, X: Factors, plan: Plan) -> tuple[Lesson, Factors]:
    if lesson.whole is None or lesson.lines is None:
        return lesson, X
    obs, noise = lesson.whole
    end = settle(lesson.rest, lesson.states[-1], plan.layers, lesson.noise)
    *_, last = carried(obs, plan, Fitted(lesson.rest, end), noise=noise)
    rows, cols, values = lesson.hidden
    hidden = Sample(lesson.lines[0][rows], lesson.lines[1][cols], values)
    there = replace(lesson, rest=obs, hidden=hidden, noise=noise, lines=None)
    return there, Factors(last.L, last.R)


def judged(
    plan: Plan,
    heard: Sequence[Hearing],
    trials: tuple[Trial, ...] = (),
) -> Decided:
    """How the plan and all models do."""
    sizes = [np.abs(x.errors(plan.blends)) for x in heard]
    tell = [size[x.tells] for size, x in zip(sizes, heard, strict=True)]
    errors = np.concatenate(sizes)
    table = standings(heard, plan.blends)
    simple = min(x.mae for x in table if x.name in simple_names(heard))
    return Decided(
        plan,
        table,
        opinion_standings(heard, plan.blends),
        trials,
        typical=float(np.quantile(np.concatenate(tell), TYPICAL)),
        error=float(errors.mean()),
        simple=simple,
    )

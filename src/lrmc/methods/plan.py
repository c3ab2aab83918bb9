"""How noisy data are fitted: decided on hidden entries, and kept as plain data.

What is decided: the rank to begin with, the numbers of the layers (by gradient), how far rows and
columns have noise of their own, whether a final fit with a mixture of noise and outliers helps,
and whether a simple model, neighbors or a regression know something that low rank does not. All of it is judged
by the same hidden entries, and what is simpler stays unless the gain is clear."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from ..evidence.scales import line_noise
from ..evidence.simple import LOW_RANK, blend, simple_models
from ..fit import Fit, Part
from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..weights import Array, DType
from .learn import IN_GROUPS, SHIPPED, Told, Trial, learned, silent
from .lessons import (
    CELLS,
    FAR,
    LARGER_PART,
    PART,
    SAME,
    Lesson,
    Tried,
    gains,
    hidden_in,
    is_better,
    is_typically_better,
    losses_of,
    part_at,
    with_scales,
)
from .noisy import Loss, Noise, sweeps
from .noisy_layers import (
    DEAD,
    DYING,
    Half,
    Layers,
    State,
    begin,
    from_part,
    half_layer,
    joined,
    leading_of,
    raised,
    rank_for,
    settled,
    step_of,
    supported,
    trimmed,
    without_dead,
)
from .rested import polished, start
from .second_opinions import OPINIONS, opinions_for
from .step import Step

Score = Literal["auto", "mae", "rmse"]
Aim = Literal["fill", "separate"]
# medians of the error: up to here its square counts, beyond its size
BENDS: Mapping[Score, float] = {"mae": 0.3, "auto": 3.0, "rmse": 10.0}
WORTH = 0.01  # a part of the loss: what gains less is not worth another model
POWERS = (0.5, 1.0)  # of the noise of lines that are tried
# of a component, to be one: see there
LEAST: Mapping[Aim, float] = {"fill": DEAD, "separate": DYING}
EVEN = 0.1  # in logarithms: lines whose noise differs by less have the same
# medians of |e|: where values are clipped for second opinions; gently, or all but outliers
REACHES = (3.0, 30.0)
# times that entries are hidden at least: of few entries some to learn from and others to judge by; of
# many once is enough
COMPARISONS, OF_FEW = 1, 2
MOST_POLISH = (
    20  # sweeps after the closed loop: far fewer settle it, unless entries are few
)
# one of so many lessons, and so many sweeps, tell whether the mixture is worth a trial
FEW_OF, FIRST_SWEEPS = 4, 2
POLISH = 6  # sweeps with the mixture of noise and outliers
# times the least loss: of fewer components than two ranks that lose so much, still more is lost
TOO_FEW = 1.1
# of the scale of the data: noise above this is far above the rounding of single precision
SMALL = 1e-3
TYPICAL = 0.25  # the quantile of absolute errors that stands for those of good entries
SHAPES: Mapping[Loss, float] = {"cauchy": 1.0, "huber": 0.5, "squares": 0.02}
WIDE_REACH = 6.0  # medians of |e|: four standard deviations
RECOVERY = (
    3  # layers after components were dropped, or lines of a part were joined by all
)
GENTLE = 0.5  # the shape of a loss that rejects nothing: near the absolute value


class Blend(NamedTuple):
    """What is blended into the low-rank fit."""

    name: str = LOW_RANK  # or the name of a simple model, or of a second opinion
    weight: float = 0.0  # of that model
    reach: float = 0.0  # of second opinions: one of REACHES


NOTHING = Blend()


@dataclass(frozen=True)
class Plan:
    """All that a fit to noisy data needs to know: plain data."""

    layers: Layers
    rank: int  # that the layers begin with
    powers: tuple[float, float] = (0.0, 0.0)  # of the noise of rows and columns
    polish: bool = False  # whether the mixture of noise and outliers comes last
    closed_loop: bool = False  # whether that, and no layers, come before the mixture
    blend: Blend = NOTHING
    fixed: bool = False  # whether the rank was given: nothing is cut
    aim: Aim = "fill"
    times: int = 2  # as many components at once, while they are added

    def plain(self) -> dict[str, Any]:
        """As it goes to JSON."""
        return {
            "layers": self.layers.plain(),
            "rank": self.rank,
            "powers": list(self.powers),
            "polish": self.polish,
            "closed_loop": self.closed_loop,
            "blend": list(self.blend),
            "fixed": self.fixed,
            "aim": self.aim,
            "times": self.times,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Plan:
        """From what `plain` gave."""
        name, weight, reach = plain["blend"]
        rows, cols = map(float, plain["powers"])
        return cls(
            layers=Layers.from_plain(plain["layers"]),
            rank=int(plain["rank"]),
            powers=(rows, cols),
            polish=bool(plain["polish"]),
            closed_loop=bool(plain["closed_loop"]),
            blend=Blend(str(name), float(weight), float(reach)),
            fixed=bool(plain["fixed"]),
            aim="separate" if plain["aim"] == "separate" else "fill",
            times=int(plain.get("times", 2)),
        )


class Standing(NamedTuple):
    """How a model does on hidden entries: a line of `result.evidence["table"]`."""

    name: str
    mae: float
    rmse: float
    chosen: bool

    def times(self, unit: float) -> Standing:
        """The same for data that are so many times larger."""
        return self._replace(mae=unit * self.mae, rmse=unit * self.rmse)


@dataclass(frozen=True)
class Decided:
    """A plan, and what it rests on."""

    plan: Plan
    table: tuple[Standing, ...] = ()
    trials: tuple[Trial, ...] = ()  # of the numbers
    typical: float = np.nan  # a quarter of the hidden entries is missed by less
    error: float = np.nan  # the mean by which they are missed
    simple: float = np.nan  # and that of the best simple model


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
    seed: int = 0,
    layers: Layers | None = None,
) -> Decided:
    """A plan for these data, by entries that are hidden in a part of them.

    `rested` is the rank at which the closed loop came to rest, where residuals there are those of
    Gaussian noise and outliers."""
    high = rank_for(obs) if rank is None else rank
    # what is left of them after hiding some must be more than is learned from
    least = OF_FEW if obs.n_observed <= 1.5 * PART else COMPARISONS
    compared = hidden_in(obs, high, noise, seed, entries=LARGER_PART, least=least)
    few = partial(hidden_in, obs, noise=noise, seed=seed + 1)
    if compared[0].rest.n_observed > PART:
        # what is learned from lies elsewhere
        compared = [replace(lesson, judge=True) for lesson in compared]
    beside = opinions_for(obs) if neighbors and aim == "fill" else ()
    wanted = Wanted(rank, loss, score, aim, rested, beside)
    return decided_by(compared, few, wanted, obs.shape, layers)


class Wanted(NamedTuple):
    """What was said of the data, and what they allow."""

    rank: int | None = None
    loss: Loss | None = None
    score: Score = "auto"
    aim: Aim = "fill"
    rested: int | None = None  # see `decide`
    opinions: tuple[str, ...] = ()  # that can be asked beside low rank


def decided_by(
    compared: Sequence[Lesson],
    few: Callable[[int], Sequence[Lesson]],
    wanted: Wanted,
    shape: tuple[int, int],
    layers: Layers | None = None,
    told: Told = silent,
) -> Decided:
    """A plan that these lessons ask for. Numbers are learned from `few`, of this rank, in a small
    part, where these have more entries; `shape` is that of all data.
    """
    in_groups = compared[0].rest.groups is not None
    form = None if wanted.loss is None else SHAPES.get(wanted.loss)
    layers = first_numbers(in_groups, layers, form)
    tried = Tried.of(compared, layers, LEAST[wanted.aim])
    bend = BENDS[wanted.score] * unit_of(tried.errors)
    if wanted.rank is None:
        whole = compared[0].rest.shape == shape
        tried = good_rank(ranks_of(tried, layers, bend), bend, whole)
    rank = tried.lessons[0].rank
    plan = Plan(layers, rank, fixed=wanted.rank is not None, aim=wanted.aim)
    trials: tuple[Trial, ...] = ()
    # of groups, what covers all of a date would count as the noise of that date
    if wanted.aim == "fill" and not in_groups:
        lessons = lessons_for(plan, few, tried)
        plan, tried, trials = taught(plan, lessons, tried, bend, form, told=told)
        if wanted.loss in (None, "mixture"):
            asked = wanted.loss == "mixture"
            plan, tried = with_mixture(plan, tried, bend, wanted.rested, asked)
    return contested(plan, tried, bend, trials, wanted.opinions)


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


def taught(
    plan: Plan,
    tried: Tried,
    compared: Tried,
    bend: float,
    shape: float | None,
    *,
    told: Told = silent,
) -> tuple[Plan, Tried, tuple[Trial, ...]]:
    """The plan with noise of lines and numbers that hidden entries ask for, in a small part and
    then in a larger one; and what is compared, fitted as planned.
    """
    powers, scaled = own_noise(tried, plan.layers, bend)
    found = learned(scaled, bend, plan.layers, shape, told)
    better = replace(plan, powers=powers, layers=found.layers)
    if better == plan:
        return plan, compared, found.trials
    if tried is compared:
        plan, before = replace(plan, powers=powers), scaled
        after = Tried.of(scaled.lessons, better.layers)
    else:
        before = compared
        after = Tried.of(scaled_as(compared, better).lessons, better.layers)
    plain, gained = (some.judges().losses(bend) for some in (before, after))
    if is_better(plain, gained, SAME):
        return better, after, found.trials
    return plan, before, found.trials


def scaled_as(tried: Tried, plan: Plan) -> Tried:
    """The lessons with the noise that their fits show, as planned."""
    if not any(plan.powers):
        return tried
    pairs = zip(tried.lessons, tried.line_noise(), strict=True)
    return tried._replace(lessons=[x.scaled(lines, plan.powers) for x, lines in pairs])


def with_shape(layers: Layers, shape: float) -> Layers:
    """The same numbers with this shape of the loss; a gentle one reaches farther, so that small
    residuals count in full.
    """
    reach = tuple(max(z, WIDE_REACH) if shape < 1 else z for z in layers.reach)
    return replace(layers, shape=(shape,) * len(layers), reach=reach)


def unit_of(errors: Array) -> float:
    """The median of their sizes; where half are 0, the mean."""
    size = np.abs(errors)
    return float(np.median(size)) or float(np.mean(size)) or 1.0


def good_rank(ladder: Sequence[Tried], bend: float, whole: bool) -> Tried:
    """Of lessons with lower and lower ranks, those with the lowest that is as good as any; in a part
    of the data with the highest that is nearly as good, since all of them can carry more.

    Components that are not needed die, but of small tables not soon enough.
    """
    losses = [some.losses(bend) for some in ladder]
    means = np.array([float(loss.mean()) for loss in losses])
    means[~np.isfinite(means)] = np.inf
    best = int(means.argmin())
    good = np.flatnonzero(means <= (1 + (SAME if whole else WORTH)) * means[best])
    if not whole:
        return ladder[int(good[0])]
    # the mean may be that of outliers: typical entries are asked as well
    alike = [k for k in good if not is_better(losses[k], losses[best], SAME)]
    return ladder[int(alike[-1])]


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


def own_noise(
    tried: Tried,
    layers: Layers,
    bend: float,
) -> tuple[tuple[float, float], Tried]:
    """Powers of the noise that rows and columns show, and the lessons with it: one side after the
    other, as long as typical entries clearly gain: it is their noise.
    """
    lines = tried.line_noise()
    powers, best = (0.0, 0.0), tried
    for side in (1, 0):
        if np.std(np.log(lines[0][side])) < EVEN:
            continue
        for power in POWERS:
            trial = (power, powers[1]) if side == 0 else (powers[0], power)
            pairs = zip(tried.lessons, lines, strict=True)
            scaled = Tried.of([x.scaled(n, trial) for x, n in pairs], layers)
            if not is_typically_better(best.losses(bend), scaled.losses(bend), SAME):
                break
            powers, best = trial, scaled
    return powers, best


def with_mixture(
    plan: Plan,
    tried: Tried,
    bend: float,
    rested: int | None,
    asked: bool,
) -> tuple[Plan, Tried]:
    """The plan with a mixture of noise and outliers at the end: after the layers, or after the
    closed loop at the rank where it came to rest.

    It is right for Gaussian noise, and taken then unless it is clearly worse; else only if it is
    clearly better, or asked for."""
    lessons, plain = tried.lessons, tried.losses(bend)
    if not (asked or rested is not None or promises(tried, bend)):
        return plan, tried
    ways = [(replace(plan, polish=True), all_mixed(tried))]
    if rested is not None:
        again = [rested_at(x.rest, rested, x.noise) for x in lessons]
        loop = replace(plan, polish=True, rank=rested, closed_loop=True)
        ways.append((loop, tried._replace(fits=again)))
    sound = [way for way in ways if np.isfinite(way[1].errors).all()]
    if not sound:
        return plan, tried
    best = min(sound, key=lambda way: _loss_found(way[1].losses(bend), plain))
    mixture = best[1].losses(bend)
    usual = rested is not None and not is_better(mixture, plain)
    taken = asked or usual or is_better(plain, mixture)
    return best if taken else (plan, tried)


def promises(tried: Tried, bend: float) -> bool:
    """Whether the first sweeps with the mixture gain anything in a few of the lessons: else more
    are not clearly better in all of them.
    """
    few = -(-len(tried.lessons) // FEW_OF)
    some = Tried(tried.lessons[:few], tried.fits[:few])
    after = all_mixed(some, FIRST_SWEEPS)
    mean, typical = gains(some.losses(bend), after.losses(bend))
    return float((mean + typical).sum()) > 0


def all_mixed(tried: Tried, most: int = POLISH) -> Tried:
    """The same lessons, with fits after so many sweeps with the mixture."""
    pairs = zip(tried.lessons, tried.fits, strict=True)
    return tried._replace(fits=[mixed(x.rest, X, x.noise, most) for x, X in pairs])


def _loss_found(losses: Array, others: Array) -> float:
    """The mean where not both miss by far."""
    found = np.minimum(losses, others) < FAR * float(np.median(others))
    return float(losses[found].mean()) if found.any() else np.inf


def mixed(obs: Observations, X: Factors, noise: Noise, most: int = POLISH) -> Factors:
    """X after sweeps with the mixture of noise and outliers."""
    for step in sweeps(obs, X, replace(noise, loss="mixture"), most):
        X = step.X
    return X


def rested_at(obs: Observations, rank: int, noise: Noise) -> Factors:
    """Where the closed loop comes to rest at this rank, and then the mixture."""
    begin = start(obs, rank, 0)
    *_, last = polished(obs, begin, replace(noise, loss="mixture"), POLISH)
    return last.X


# ---- against what is simple


class Hearing(NamedTuple):
    """What the fit and others say of the same hidden entries."""

    truth: Array
    fit: Array
    others: dict[Blend, Array]

    def losses(self, other: Blend, weight: float, bend: float) -> Array:
        """Of a blend."""
        mixed = self.fit + weight * (self.others[other] - self.fit)
        return losses_of(self.truth - mixed, bend)

    def halves(self) -> list[Hearing]:
        """Of every other entry."""
        return [
            Hearing(
                self.truth[k::2],
                self.fit[k::2],
                {other: said[k::2] for other, said in self.others.items()},
            )
            for k in (0, 1)
        ]


def hearing(
    obs: Observations,
    hidden: Sample,
    X: Factors,
    opinions: Sequence[str],
) -> Hearing:
    """What all models say that are fitted to the same data."""
    places = hidden.rows, hidden.cols
    truth = hidden.values.astype(np.float64)
    others = {
        Blend(name): truth - hidden.residual(model)
        for name, model in simple_models(obs).items()
    }
    fit = truth - hidden.residual(X).astype(np.float64)
    unit = _residual_unit(obs, X)
    for name, reach in product(opinions, REACHES):
        part = OPINIONS[name].of(obs, X, reach * unit, 1.0)
        others[Blend(name, 0.0, reach)] = fit + part.at(*places)
    return Hearing(truth, fit, others)


def _residual_unit(obs: Observations, X: Factors) -> float:
    return unit_of(obs.sample.residual(X))


def contested(
    plan: Plan,
    tried: Tried,
    bend: float,
    trials: tuple[Trial, ...],
    opinions: Sequence[str],
) -> Decided:
    """The plan with the blend that does best, and how all models do."""
    heard = all_heard(tried, opinions)
    plan = replace(plan, blend=best_blend(heard, bend))
    return judged(plan, heard, trials)


def all_heard(tried: Tried, opinions: Sequence[str]) -> list[Hearing]:
    """What all models say, and these second opinions."""
    pairs = zip(tried.lessons, tried.fits, strict=True)
    return [hearing(x.rest, x.hidden, X, opinions) for x, X in pairs]


def judged(
    plan: Plan,
    heard: Sequence[Hearing],
    trials: tuple[Trial, ...] = (),
) -> Decided:
    """How the plan and all models do."""
    chosen = plan.blend
    errors = np.abs(np.concatenate([_errors(x, chosen) for x in heard]))
    table = standings(heard, chosen)
    simple = min(x.mae for x in table if x.name in simple_names(heard))
    return Decided(
        plan,
        table,
        trials,
        typical=float(np.quantile(errors, TYPICAL)),
        error=float(errors.mean()),
        simple=simple,
    )


def _errors(heard: Hearing, chosen: Blend) -> Array:
    if chosen.weight == 0:
        return heard.truth - heard.fit
    other = heard.others[chosen._replace(weight=0.0)]
    return heard.truth - heard.fit - chosen.weight * (other - heard.fit)


def best_blend(heard: Sequence[Hearing], bend: float) -> Blend:
    """The model that adds most to the fit, with its weight; none if no gain is clear.

    The weight by which a set is judged was found on the other sets; a single one is halved.
    """
    sets = heard if len(heard) > 1 else heard[0].halves()
    plain = np.concatenate([losses_of(x.truth - x.fit, bend) for x in sets])
    best, least = NOTHING, plain
    for other in heard[0].others:
        after = []
        for k, x in enumerate(sets):
            rest = [y for j, y in enumerate(sets) if j != k]
            after.append(x.losses(other, best_weight(rest, other, bend), bend))
        losses = np.concatenate(after)
        if is_better(plain, losses, WORTH) and losses.mean() < least.mean():
            best = other._replace(weight=best_weight(heard, other, bend))
            least = losses
    return best if best.weight else _as_good(heard, bend)


def _as_good(heard: Sequence[Hearing], bend: float) -> Blend:
    """The simple model that does better on average than the fit, if not clearly, with its weight;
    none if the fit is as good: what is simple needs no proof.
    """
    fit = np.concatenate([losses_of(x.truth - x.fit, bend) for x in heard]).mean()
    means = {
        other: np.concatenate([x.losses(other, 1.0, bend) for x in heard]).mean()
        for other in heard[0].others
        if other.name not in OPINIONS
    }
    best = min(means, key=lambda other: means[other], default=NOTHING)
    if not means.get(best, np.inf) < (1 - SAME) * fit:
        return NOTHING
    return best._replace(weight=best_weight(heard, best, bend))


def best_weight(heard: Sequence[Hearing], other: Blend, bend: float) -> float:
    """The weight from 0 to 1 with the least loss: reweighted least squares on one number."""
    error = np.concatenate([x.truth - x.fit for x in heard])
    toward = np.concatenate([x.others[other] - x.fit for x in heard])
    weight = 0.0
    for _ in range(20):
        w = 1 / np.sqrt(1 + ((error - weight * toward) / bend) ** 2)
        square = float(np.sum(w * toward**2))
        weight = float(np.clip(np.sum(w * toward * error) / max(square, 1e-300), 0, 1))
    return weight


def simple_names(heard: Sequence[Hearing]) -> list[str]:
    """The models that know nothing of low rank."""
    return [x.name for x in heard[0].others if x.name not in OPINIONS]


def standings(heard: Sequence[Hearing], chosen: Blend) -> tuple[Standing, ...]:
    """Errors of all models on the same entries, and which of them is the answer."""
    truth = np.concatenate([x.truth for x in heard])

    def standing(name: str, said: list[Array], is_chosen: bool) -> Standing:
        e = truth - np.concatenate(said)
        mae, rmse = float(np.abs(e).mean()), float(np.sqrt((e**2).mean()))
        return Standing(name, mae, rmse, is_chosen)

    lines = [standing(LOW_RANK, [x.fit for x in heard], chosen.weight == 0)]
    for other in heard[0].others:
        if other.name not in OPINIONS:
            lines.append(standing(other.name, [x.others[other] for x in heard], False))
    if chosen.weight:
        name = f"{100 * (1 - chosen.weight):.0f} % low rank, {100 * chosen.weight:.0f} % {chosen.name}"
        lines.append(
            standing(name, [x.truth - _errors(x, chosen) for x in heard], True)
        )
    return tuple(lines)


# ---- the fit


def fit(
    obs: Observations,
    plan: Plan,
    *,
    noise: Noise,
    seed: int = 0,
    begun: State | None = None,
) -> Generator[Step, None, Fitted | None]:
    """Layers over all data as planned; the last step is the answer. They begin at `begun`, or with
    components that are grown from all data.

    Noise above the rounding of single precision is fitted in it: half of the cost, and the same
    answer for data of either type."""
    if plan.closed_loop:
        begin_at = start(obs, plan.rank, seed)
        mixture = replace(noise, loss="mixture")
        for step in polished(obs, begin_at, mixture, MOST_POLISH):
            yield step
        yield from _blended(obs, plan, step)
        return None
    if _can_be_single(obs):
        rows, cols = map(np.arange, obs.shape)
        steps = _layered(part_at(obs, rows, cols), plan, noise, seed, begun)
        fitted = yield from _as_type(steps, obs.dtype)
        if fitted.half.variance > (SMALL * obs.scale) ** 2:
            return fitted
    return (yield from _layered(obs, plan, noise, seed, begun))


def _can_be_single(obs: Observations) -> bool:
    """Whether data in double precision are small enough for a copy of half the size."""
    small = obs.shape[0] * obs.shape[1] <= CELLS and obs.is_here
    return small and obs.dtype == np.float64 and obs.groups is None


def _as_type(
    steps: Generator[Step, None, Fitted], dtype: DType
) -> Generator[Step, None, Fitted]:
    """The same steps with factors of this type."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        yield step._replace(L=step.L.astype(dtype), R=step.R.astype(dtype))


def _layered(
    obs: Observations,
    plan: Plan,
    noise: Noise,
    seed: int,
    begun: State | None = None,
) -> Generator[Step, None, Fitted]:
    """The same by layers."""
    state = begun or begin(obs, plan.rank, noise, seed, plan.times)
    half = yield from _through(obs, state, plan.layers, noise)
    if any(plan.powers):
        noise = with_scales(noise, line_noise(obs, Fit(half.after.X)), plan.powers)
        # a fit that has begun without it keeps what it made of noisy lines
        state = begun or begin(obs, plan.rank, noise, seed, plan.times)
        half = yield from _through(obs, state, plan.layers, noise)
    if plan.aim == "separate" and not plan.fixed:
        last = plan.layers.last(RECOVERY)
        half = yield from _through(obs, supported(half.after), last, noise)
    yield from _finished(obs, plan, half, noise)
    return Fitted(obs, half)


class Fitted(NamedTuple):
    """Where layers ended, before anything is cut: data, and half a layer."""

    obs: Observations
    half: Half


def _through(
    obs: Observations,
    state: State,
    layers: Layers,
    noise: Noise,
) -> Generator[Step, None, Half]:
    for half in settled(obs, state, layers, noise):
        yield step_of(obs, half, half.after.X)
    return half


def _finished(
    obs: Observations,
    plan: Plan,
    half: Half,
    noise: Noise,
) -> Generator[Step, None, None]:
    """The last steps: without components that died, polished, and blended."""
    X = half.after.X if plan.fixed else trimmed(obs, half, LEAST[plan.aim])
    step = step_of(obs, half, X)
    yield step
    if plan.polish:
        for step in sweeps(obs, X, replace(noise, loss="mixture"), POLISH):
            yield step
    yield from _blended(obs, plan, step)


def _blended(obs: Observations, plan: Plan, step: Step) -> Iterator[Step]:
    """A simple model blended in, if that is planned."""
    if plan.blend.weight and plan.blend.name not in OPINIONS:
        simple = simple_models(obs)[plan.blend.name]
        X = blend(step.X, simple, 1 - plan.blend.weight)
        yield step._replace(L=X.L, R=X.R)


def carried(
    obs: Observations,
    plan: Plan,
    part: Fitted,
    *,
    noise: Noise,
) -> Generator[Step, None, None]:
    """All data, from a fit to some of their longer lines: the others are fitted to what is known
    of the shorter ones, gently at first; then layers fit both sides.

    A loss that rejects would leave lines that begin at the mean there."""
    side = int(obs.shape[1] > obs.shape[0])
    known = part.half.after if plan.fixed else without_dead(part.obs, part.half)
    state = from_part(known, side, obs.shape[side])
    numbers = plan.layers.of(len(plan.layers) - 1, 0)
    gentle = numbers._replace(shape=min(numbers.shape, GENTLE), eta=1.0)
    for wanted in (gentle, numbers._replace(eta=1.0)):
        half = half_layer(obs, state, side, wanted, noise)
        state = half.after
        yield step_of(obs, half, state.X)
    if any(plan.powers):
        noise = with_scales(noise, line_noise(obs, Fit(state.X)), plan.powers)
    half = yield from _through(obs, state, plan.layers.last(RECOVERY), noise)
    yield from _finished(obs, plan, half, noise)


def grown_in(
    lesson: Lesson,
    obs: Observations,
    plan: Plan,
    noise: Noise,
) -> State | None:
    """Where the layers begin, if the first components are those of a lesson in a part: that part
    needs all lines of the shorter side, and no groups (what covers patches of a part is there
    more easily a component).
    """
    side = int(obs.shape[1] > obs.shape[0])
    lines = lesson.lines
    if plan.times == 2 or obs.groups is not None or lines is None:
        return None
    if len(lines[1 - side]) < obs.shape[1 - side]:
        return None
    first = leading_of(lesson.states[-1], -(-plan.rank // plan.times))
    state = from_part(first.of_type(obs.dtype), side, obs.shape[side], lines[side])
    if len(lines[side]) < obs.shape[side]:
        state = joined(obs, state, noise)
    return raised(obs, state, plan.rank, noise)


def parts_of(plan: Plan, obs: Observations, X: Factors) -> tuple[Part, ...]:
    """What lies beyond low rank, of a fit that was made as planned."""
    name, weight, reach = plan.blend
    if not weight or name not in OPINIONS or not OPINIONS[name].is_for(obs):
        return ()
    return (OPINIONS[name].of(obs, X, reach * _residual_unit(obs, X), weight),)

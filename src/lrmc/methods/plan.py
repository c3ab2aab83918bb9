"""How noisy data are fitted: decided on hidden entries, and kept as plain data.

What is decided: the rank to begin with, the numbers of the layers (by gradient), how far rows and
columns have noise of their own, whether a final fit with a mixture of noise and outliers helps,
and whether a simple model or neighbors know something that low rank does not. All of it is judged
by the same hidden entries, and what is simpler stays unless the gain is clear."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..evidence.scales import line_noise
from ..evidence.simple import LOW_RANK, blend, simple_models
from ..fit import Fit, Part
from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..weights import Array
from .learn import CLEARLY, IN_GROUPS, SHIPPED, Trial, learned
from .lessons import (
    LARGER_PART,
    PART,
    Lesson,
    hidden_in,
    loss_of,
    losses_of,
    with_scales,
)
from .neighbors import can_compare
from .neighbors import neighbors as neighbors_of
from .noisy import Loss, Noise, sweeps
from .noisy_layers import (
    Half,
    Layers,
    State,
    begin,
    from_part,
    half_layer,
    passes,
    rank_for,
    step_of,
    supported,
    trimmed,
)
from .rested import polished, start
from .step import Step

Score = Literal["auto", "mae", "rmse"]
Aim = Literal["fill", "separate"]
# medians of the error: up to here its square counts, beyond its size
BENDS: Mapping[Score, float] = {"mae": 0.3, "auto": 3.0, "rmse": 10.0}
SAME = 0.004  # a part of the loss: what gains less is no gain
WORTH = 0.01  # a part of the loss: what gains less is not worth another model
POWERS = (0.0, 0.5, 1.0)  # of the noise of lines
# medians of |e|: where the values of neighbors are clipped; gently, or all but outliers
REACHES = (3.0, 30.0)
COMPARISONS = 2  # times that entries are hidden in a larger part
FAR = 100.0  # medians of the loss, about 10 of the error: what is missed by more is an outlier
MOST_POLISH = (
    20  # sweeps after the closed loop: far fewer settle it, unless entries are few
)
POLISH = 6  # sweeps with the mixture of noise and outliers
TYPICAL = 0.25  # the quantile of absolute errors that stands for those of good entries
SHAPES: Mapping[Loss, float] = {"cauchy": 1.0, "huber": 0.5, "squares": 0.02}
NEIGHBORS = "neighbors"
WIDE_REACH = 6.0  # medians of |e|: four standard deviations
RECOVERY = (
    3  # layers after components were dropped, or lines of a part were joined by all
)
GENTLE = 0.5  # the shape of a loss that rejects nothing: near the absolute value


class Blend(NamedTuple):
    """What is blended into the low-rank fit."""

    name: str = LOW_RANK  # or the name of a simple model, or of neighbors
    weight: float = 0.0  # of that model
    reach: float = 0.0  # of neighbors: one of REACHES


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
    shape = None if loss is None else SHAPES.get(loss)
    layers = first_numbers(obs, layers, shape)
    high = rank_for(obs) if rank is None else rank
    compared = hidden_in(obs, high, noise, seed, entries=LARGER_PART, least=COMPARISONS)
    bend = BENDS[score] * _unit([x.errors(x.fitted(layers)) for x in compared])
    if rank is None and aim == "fill":
        whole = compared[0].rest.shape == obs.shape
        compared = good_rank(compared, layers, bend, whole)
    plan = Plan(layers, compared[0].rank, fixed=rank is not None, aim=aim)
    trials: tuple[Trial, ...] = ()
    # of groups, what covers all of a date would count as the noise of that date
    if aim == "fill" and obs.groups is None:
        plan, trials = taught(plan, obs, noise, compared, bend, shape=shape, seed=seed)
    compared = scaled_as(compared, plan)
    fits = [lesson.fitted(plan.layers) for lesson in compared]
    if aim == "fill" and obs.groups is None and loss in (None, "mixture"):
        plan, fits = with_mixture(plan, compared, fits, bend, rested, loss == "mixture")
    near = neighbors and aim == "fill" and can_compare(obs)
    return contested(plan, compared, fits, bend, trials, near)


def first_numbers(
    obs: Observations, layers: Layers | None, shape: float | None
) -> Layers:
    """Those that are given, or ship for such data, with the shape that is asked for."""
    if layers is None:
        layers = SHIPPED if obs.groups is None else IN_GROUPS
    return layers if shape is None else with_shape(layers, shape)


def lessons_for(
    obs: Observations, plan: Plan, noise: Noise, seed: int, compared: list[Lesson]
) -> list[Lesson]:
    """Lessons to learn from: in a small part, where the others have more entries."""
    if compared[0].rest.n_observed <= PART:
        return compared
    return hidden_in(obs, plan.rank, noise, seed + 1)


def taught(
    plan: Plan,
    obs: Observations,
    noise: Noise,
    compared: list[Lesson],
    bend: float,
    *,
    shape: float | None,
    seed: int,
) -> tuple[Plan, tuple[Trial, ...]]:
    """The plan with noise of lines and numbers that hidden entries ask for, in a small part, and
    again in a larger one.
    """
    lessons = lessons_for(obs, plan, noise, seed, compared)
    powers, scaled = own_noise(lessons, plan.layers, bend)
    found = learned(scaled, bend, plan.layers, shape)
    better = replace(plan, powers=powers, layers=found.layers)
    small = lessons is not compared
    if small and not is_confirmed(compared, better, plan.layers, bend):
        return plan, found.trials
    return better, found.trials


def scaled_as(lessons: list[Lesson], plan: Plan) -> list[Lesson]:
    """The lessons with the noise of their lines, as planned."""
    if not any(plan.powers):
        return lessons
    fits = [lesson.fitted(plan.layers) for lesson in lessons]
    pairs = zip(lessons, fits, strict=True)
    return [x.scaled(line_noise(x.rest, Fit(X)), plan.powers) for x, X in pairs]


def is_confirmed(
    lessons: list[Lesson], plan: Plan, layers: Layers, bend: float
) -> bool:
    """Whether what was learned on a part does better than `layers` on a larger one."""
    if plan.layers == layers and not any(plan.powers):
        return True
    before = _losses(lessons, [x.fitted(layers) for x in lessons], bend)
    scaled = scaled_as(lessons, plan)
    after = _losses(scaled, [x.fitted(plan.layers) for x in scaled], bend)
    return _is_better(before, after, SAME)


def with_shape(layers: Layers, shape: float) -> Layers:
    """The same numbers with this shape of the loss; a gentle one reaches farther, so that small
    residuals count in full.
    """
    reach = tuple(max(z, WIDE_REACH) if shape < 1 else z for z in layers.reach)
    return replace(layers, shape=(shape,) * len(layers), reach=reach)


def _unit(errors: Sequence[Array]) -> float:
    """The median of their sizes; where half are 0, the mean."""
    size = np.abs(np.concatenate(errors))
    return float(np.median(size)) or float(np.mean(size)) or 1.0


def good_rank(
    lessons: list[Lesson], layers: Layers, bend: float, whole: bool
) -> list[Lesson]:
    """The lessons with the lowest rank that is as good as any; in a part of the data with the
    highest that is nearly as good, since all of them can carry more.

    Components that are not needed die, but of small tables not soon enough.
    """
    ladder = [lessons]
    while (lower := [x.lower() for x in ladder[-1]])[0] is not None:
        ladder.append([x for x in lower if x is not None])
    losses = [
        sum(loss_of(x.errors(x.fitted(layers)), bend) for x in some) for some in ladder
    ]
    most = (1 + (SAME if whole else WORTH)) * min(losses)
    good = [some for some, loss in zip(ladder, losses, strict=True) if loss <= most]
    return good[-1 if whole else 0]


def own_noise(
    lessons: list[Lesson], layers: Layers, bend: float
) -> tuple[tuple[float, float], list[Lesson]]:
    """Powers of the noise that rows and columns show, and the lessons with it: one side after the
    other, as long as hidden entries clearly gain.
    """
    fits = [lesson.fitted(layers) for lesson in lessons]
    lines = [line_noise(x.rest, Fit(X)) for x, X in zip(lessons, fits, strict=True)]
    before = _losses(lessons, fits, bend)
    powers, best = (0.0, 0.0), lessons
    for side in (1, 0):
        for power in POWERS[1:]:
            trial = (power, powers[1]) if side == 0 else (powers[0], power)
            scaled = [x.scaled(n, trial) for x, n in zip(lessons, lines, strict=True)]
            after = _losses(scaled, [x.fitted(layers) for x in scaled], bend)
            if _is_better(before, after, SAME):
                powers, best, before = trial, scaled, after
    return powers, best


def _losses(lessons: Sequence[Lesson], fits: Sequence[Factors], bend: float) -> Array:
    pairs = zip(lessons, fits, strict=True)
    return losses_of(np.concatenate([x.errors(X) for x, X in pairs]), bend)


def _is_better(before: Array, after: Array, worth: float = WORTH) -> bool:
    """Whether losses at the same entries fell by more than chance, and enough.

    Entries that both miss by far are outliers, and say nothing of either.
    """
    found = np.minimum(before, after) < FAR * float(np.median(before))
    if not found.any():
        return False
    gains = (before - after)[found]
    error = float(gains.std()) / np.sqrt(max(len(gains), 1))
    least = max(CLEARLY * error, worth * float(before[found].mean()))
    return bool(gains.mean() > least)


def with_mixture(
    plan: Plan,
    lessons: Sequence[Lesson],
    fits: list[Factors],
    bend: float,
    rested: int | None,
    asked: bool,
) -> tuple[Plan, list[Factors]]:
    """The plan with a mixture of noise and outliers at the end: after the layers, or after the
    closed loop at the rank where it came to rest.

    It is right for Gaussian noise, and taken then unless it is clearly worse; else only if it is
    clearly better, or asked for."""
    plain, pairs = _losses(lessons, fits, bend), zip(lessons, fits, strict=True)
    after_layers = [mixed(x.rest, X, x.noise) for x, X in pairs]
    ways = [(replace(plan, polish=True), after_layers)]
    if rested is not None:
        again = [rested_at(x.rest, rested, x.noise) for x in lessons]
        loop = replace(plan, polish=True, rank=rested, closed_loop=True)
        ways.append((loop, again))
    sound = [
        way for way in ways if all(np.isfinite(F).all() for X in way[1] for F in X)
    ]
    if not sound:
        return plan, fits
    best = min(
        sound, key=lambda way: _loss_found(_losses(lessons, way[1], bend), plain)
    )
    mixture = _losses(lessons, best[1], bend)
    usual = rested is not None and not _is_better(mixture, plain, SAME)
    taken = asked or usual or _is_better(plain, mixture, SAME)
    return best if taken else (plan, fits)


def _loss_found(losses: Array, others: Array) -> float:
    """The mean where not both miss by far."""
    found = np.minimum(losses, others) < FAR * float(np.median(others))
    return float(losses[found].mean()) if found.any() else np.inf


def mixed(obs: Observations, X: Factors, noise: Noise) -> Factors:
    """X after sweeps with the mixture of noise and outliers."""
    for step in sweeps(obs, X, replace(noise, loss="mixture"), POLISH):
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


def hearing(obs: Observations, hidden: Sample, X: Factors, compare: bool) -> Hearing:
    """What all models say that are fitted to the same data."""
    places = hidden.rows, hidden.cols
    truth = hidden.values.astype(np.float64)
    others = {
        Blend(name): truth - hidden.residual(model)
        for name, model in simple_models(obs).items()
    }
    fit = truth - hidden.residual(X).astype(np.float64)
    if compare:
        for reach in REACHES:
            part = neighbors_of(obs, X, reach * _residual_unit(obs, X))
            others[Blend(NEIGHBORS, 0.0, reach)] = fit + part.at(*places)
    return Hearing(truth, fit, others)


def _residual_unit(obs: Observations, X: Factors) -> float:
    return _unit([obs.sample.residual(X)])


def contested(
    plan: Plan,
    lessons: Sequence[Lesson],
    fits: Sequence[Factors],
    bend: float,
    trials: tuple[Trial, ...],
    near: bool,
) -> Decided:
    """The plan with the blend that does best, and how all models do."""
    heard = [
        hearing(x.rest, x.hidden, X, near) for x, X in zip(lessons, fits, strict=True)
    ]
    chosen = best_blend(heard, bend)
    plan = replace(plan, blend=chosen)
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

    The weight by which a set is judged was found on the other sets.
    """
    plain = np.concatenate([losses_of(x.truth - x.fit, bend) for x in heard])
    best, least = NOTHING, plain
    for other in heard[0].others:
        after = []
        for k, x in enumerate(heard):
            rest = [y for j, y in enumerate(heard) if j != k]
            after.append(x.losses(other, best_weight(rest, other, bend), bend))
        losses = np.concatenate(after)
        if _is_better(plain, losses) and losses.mean() < least.mean():
            best = other._replace(weight=best_weight(heard, other, bend))
            least = losses
    return best


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
    return [x.name for x in heard[0].others if x.name != NEIGHBORS]


def standings(heard: Sequence[Hearing], chosen: Blend) -> tuple[Standing, ...]:
    """Errors of all models on the same entries, and which of them is the answer."""
    truth = np.concatenate([x.truth for x in heard])

    def standing(name: str, said: list[Array], is_chosen: bool) -> Standing:
        e = truth - np.concatenate(said)
        mae, rmse = float(np.abs(e).mean()), float(np.sqrt((e**2).mean()))
        return Standing(name, mae, rmse, is_chosen)

    lines = [standing(LOW_RANK, [x.fit for x in heard], chosen.weight == 0)]
    for other in heard[0].others:
        if other.name != NEIGHBORS:
            lines.append(standing(other.name, [x.others[other] for x in heard], False))
    if chosen.weight:
        name = f"{100 * (1 - chosen.weight):.0f} % low rank, {100 * chosen.weight:.0f} % {chosen.name}"
        lines.append(
            standing(name, [x.truth - _errors(x, chosen) for x in heard], True)
        )
    return tuple(lines)


# ---- the fit


def fit(
    obs: Observations, plan: Plan, *, noise: Noise, seed: int = 0
) -> Generator[Step, None, Fitted | None]:
    """Layers over all data as planned; the last step is the answer."""
    if plan.closed_loop:
        begin_at = start(obs, plan.rank, seed)
        mixture = replace(noise, loss="mixture")
        for step in polished(obs, begin_at, mixture, MOST_POLISH):
            yield step
        yield from _blended(obs, plan, step)
        return None
    half = yield from _through(
        obs, begin(obs, plan.rank, noise, seed), plan.layers, noise
    )
    if any(plan.powers):
        noise = with_scales(noise, line_noise(obs, Fit(half.after.X)), plan.powers)
        state = begin(obs, plan.rank, noise, seed)
        half = yield from _through(obs, state, plan.layers, noise)
    if plan.aim == "separate" and not plan.fixed:
        last = plan.layers.last(RECOVERY)
        half = yield from _through(obs, supported(half.after), last, noise)
    yield from _finished(obs, plan, half, noise)
    return Fitted(half, noise)


class Fitted(NamedTuple):
    """Where layers ended, before anything is cut, and the noise that they took for given."""

    half: Half
    noise: Noise


def _through(
    obs: Observations, state: State, layers: Layers, noise: Noise
) -> Generator[Step, None, Half]:
    for half in passes(obs, state, layers, noise):
        yield step_of(obs, half, half.after.X)
    return half


def _finished(
    obs: Observations, plan: Plan, half: Half, noise: Noise
) -> Generator[Step, None, None]:
    """The last steps: without components that died, polished, and blended."""
    X = half.after.X if plan.fixed else trimmed(obs, half)
    step = step_of(obs, half, X)
    yield step
    if plan.polish:
        for step in sweeps(obs, X, replace(noise, loss="mixture"), POLISH):
            yield step
    yield from _blended(obs, plan, step)


def _blended(obs: Observations, plan: Plan, step: Step) -> Iterator[Step]:
    """A simple model blended in, if that is planned."""
    if plan.blend.weight and plan.blend.name != NEIGHBORS:
        simple = simple_models(obs)[plan.blend.name]
        X = blend(step.X, simple, 1 - plan.blend.weight)
        yield step._replace(L=X.L, R=X.R)


def carried(
    obs: Observations, plan: Plan, part: Fitted, *, noise: Noise
) -> Generator[Step, None, None]:
    """All data, from a fit to some of their longer lines: the others are fitted to what is known
    of the shorter ones, gently at first; then each side once more.

    A loss that rejects would leave lines that begin at the mean there."""
    side = int(obs.shape[1] > obs.shape[0])
    state = from_part(part.half.after, side, obs.shape[side])
    numbers = plan.layers.of(len(plan.layers) - 1, 0)
    gentle = numbers._replace(shape=min(numbers.shape, GENTLE), eta=1.0)
    half = part.half
    for wanted in (gentle, gentle, numbers._replace(eta=1.0)):
        half = half_layer(obs, state, side, wanted, noise)
        state = half.after
        yield step_of(obs, half, state.X)
    if any(plan.powers):
        noise = with_scales(noise, line_noise(obs, Fit(state.X)), plan.powers)
    half = yield from _through(obs, state, plan.layers.last(RECOVERY), noise)
    yield from _finished(obs, plan, half, noise)


def parts_of(plan: Plan, obs: Observations, X: Factors) -> tuple[Part, ...]:
    """What lies beyond low rank, of a fit that was made as planned."""
    asked = plan.blend.weight and plan.blend.name == NEIGHBORS
    if not asked or not can_compare(obs):
        return ()
    bend = plan.blend.reach * _residual_unit(obs, X)
    return (neighbors_of(obs, X, bend, plan.blend.weight),)

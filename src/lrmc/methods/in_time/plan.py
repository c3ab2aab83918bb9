"""What to fill a table with: estimates that entries set aside, in the shape of the gaps, speak for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...weights import Array
from ..plan import Score
from . import left_out
from .gaps import fail_together, gaps_for
from .model import Model
from .nights import Nights, find_nights
from .processes import (
    PERIOD,
    Entries,
    Process,
    more_models,
    sound_ones,
    told_entries,
)
from .simple import ALL_DAYS, SLOT_MEAN, every_day, simple_fits
from .stack import (
    DISTANCES,
    N_CLASSES,
    beside_class,
    blended,
    class_of,
    gain_in_loss,
    gain_of_typical,
    good_ones,
    learned_weights,
    plausible,
)
from .sweeps import fit, fit_moved, of_more_sensors
from .trials import WITHOUT_TIME, Trial, judged_at, trials_of

LEARNED_FROM = 120_000  # cells: of a larger table, as many sensors as that is
FEWEST_SENSORS = 40  # to learn from; fewer know too little of what all share
ONE_DEVIATION = 0.6827  # of Gaussian errors are within it
ENOUGH_ERRORS = 100  # that a deviation of a class is told from; else that of all
IDLE = 0.005  # of the error: a process that spares no more than this is not made
IDLE_IN_WINDOWS = (
    0.02  # the same for long tables, where processes are nearly all of the time
)
JUDGED = 5_000  # held-out entries that it is told from
TINY = 1e-9  # where all that has a weight is missing, what is left counts alike
WORTH = 0.02  # of the error: a smaller gain is not worth a model of time


@dataclass(frozen=True, eq=False)
class Plan:
    """How tables like this one are filled in."""

    period: int | None
    told_by: int | None  # the period of the process that tells gross errors
    nights: Nights | None  # between periods
    estimates: tuple[str, ...]
    weights: Array  # by classes of entries x estimates
    errors: Mapping[str, float]  # mean absolute, on entries set aside
    gain: float  # over the fit without time, in mean absolute error; 0 if that takes no part
    gain_error: float
    # over the best of what knows no order, that fit and medians, as a part of its loss
    gain_by_order: float
    gain_of_typical: float  # over the fit without time, as a part of the median error
    best: Process  # the process with the least error
    sizes: Array  # deviations by class, in units of the best process
    sensors: Array  # those that the models are of,
    n_sensors: int  # of so many
    models: Mapping[Process, Model] = field(default_factory=dict)  # to begin with
    told: Model | None = None  # the one that told gross errors
    is_of_few: bool = False  # whether entries had to be set aside more than once
    # medians of sensors x slots that windows of a long table share
    all_days: Array | None = None

    def is_worth_it(self, *, clearly: bool, fills: bool = True) -> bool:
        """Whether the model of time is better than the fit without it: clearly so, and better than
        medians, where nobody said that there is time, and where that leaves nothing open.

        That neighbors are alike beyond chance is known by then. Standard errors are not asked: of
        few gaps they are as large as the gain, and lines were left for what is worse. Outliers that
        lie beside each other foretell each other, and a model that follows them gains by it: typical
        entries must not lose as much, and nothing where there are no gaps to fill."""
        if WITHOUT_TIME not in self.errors:
            return True
        if not clearly:
            return self.gain > 0
        less = self.gain_by_order if fills else 0.0
        typically = self.gain_of_typical + less >= 0
        return typically and self.gain > 0 and self.gain_by_order > WORTH

    def is_of_some(self, Y: Array) -> bool:
        """Whether models are those of some of these sensors."""
        return len(self.sensors) < len(Y) == self.n_sensors

    def without_values(self) -> Plan:
        """The same, without what its models say of any entry: a table without some of its entries is
        filled in as if these had never been seen, which models that knew them would tell."""
        if len(self.sensors) < self.n_sensors:
            return self  # of these, only what sensors share is taken up
        models = {p: replace(m, c=None, draw=None) for p, m in self.models.items()}
        return replace(self, models=models, told=None)

    @property
    def used(self) -> dict[str, list[float]]:
        """Estimates that count, with their weights by class (`stack.class_of`)."""
        return {
            name: [round(float(x), 3) for x in w]
            for name, w in zip(self.estimates, self.weights.T, strict=True)
            if w.any()
        }

    def plain(self) -> dict[str, Any]:
        """For `Result.evidence`."""
        return {
            "period": self.period,
            "nights": 0 if self.nights is None else self.nights.steps,
            "weights": self.used,
            "distances": list(DISTANCES),
            "held_out": dict(self.errors),
            "gain": self.gain,
            "gain_error": self.gain_error,
            "gain_by_order": self.gain_by_order,
            "gain_of_typical": self.gain_of_typical,
        }


def learn_plan(
    Y: Array,
    period: int | None,
    without_time: Callable[[Array, Array], Array] | None,
    seed: int = 0,
    idle: float = IDLE,
    all_days: Array | None = None,
    score: Score = "auto",
) -> Plan:
    """Weights of estimates of Y (sensors x times) that do best on entries set aside.

    `without_time` gives the values there of a fit that knows neither them nor time; if there is
    none, it takes no part. `all_days` are medians, sensors x slots, of the long table that Y is a
    window of. A large table is learned from by some of its sensors, a small one by several
    trials. `score` is what an order that nobody named must gain in."""
    S, T = Y.shape
    sensors = some_sensors(S, T, seed)
    if len(sensors) == S and all_days is None:
        idle = 0.0  # of a small table no process costs much once it is learned
    nights = find_nights(Y, period)
    trials = trials_of(Y, sensors, period, nights, without_time, seed)
    _add_all_days(trials, all_days, sensors, T)
    models, names = _in_all(trials)
    errors = np.concatenate([t.errors(names) for t in trials])
    classes = np.concatenate([t.classes for t in trials])
    sizes = dict(zip(names, map(float, np.abs(errors).mean(0)), strict=True))
    relative = beside_class(errors, classes)
    good = good_ones(relative)
    missed = dict(zip(names, np.abs(relative[good]).mean(0), strict=True))
    best = min(models, key=lambda p: missed[p.name])
    spared = [p != best for p in models]
    needed, counts = _needed(relative[good], classes[good], spared, idle)
    weights = np.zeros((N_CLASSES, len(names)))
    weights[:, needed] = learned_weights(relative[:, needed], classes)
    blend = (weights[classes] * errors).sum(1)
    other = blend if without_time is None else errors[:, names.index(WITHOUT_TIME)]
    better = np.abs(other) - np.abs(blend)
    unordered = np.concatenate([t.errors_without_order() for t in trials])
    gain, gain_error = mean_and_error(better, [t.held for t in trials])
    units = np.concatenate([t.units(best) for t in trials])
    used = zip(models, weights.T, strict=False)
    return Plan(
        period=period
        if nights or _is_periodic(names, counts + weights.sum(0))
        else None,
        told_by=period,
        nights=nights,
        estimates=tuple(names),
        weights=weights,
        errors=sizes | {"blend": float(np.abs(blend).mean())},
        gain=gain,
        gain_error=gain_error,
        gain_by_order=gain_in_loss(blend, unordered, score),
        gain_of_typical=gain_of_typical(blend, other),
        best=best,
        sizes=_deviations(errors[:, names.index(best.name)] / units, classes),
        sensors=sensors,
        n_sensors=len(Y),
        models={p: trials[0].models[p] for p, w in used if p == best or w.any()},
        told=trials[0].told,
        is_of_few=len(trials) > 1,
        all_days=all_days,
    )


def _add_all_days(
    trials: list[Trial], all_days: Array | None, sensors: Array, T: int
) -> None:
    """Medians of all days of a long table among what is found for its window."""
    if all_days is None:
        return
    usual = every_day(all_days, T)[sensors]
    for trial in trials:
        trial.hear(ALL_DAYS, usual[trial.held])


def _in_all(trials: list[Trial]) -> tuple[list[Process], list[str]]:
    """Processes that are sound in all trials, and the names of all estimates there."""
    models = [p for p in trials[0].models if all(p in t.models for t in trials)]
    if not models:
        raise np.linalg.LinAlgError("no process in time fits these data")
    left_out = {p.name for t in trials for p in t.models if p not in models}
    return models, [name for name in trials[0].found if name not in left_out]


def some_sensors(S: int, T: int, seed: int) -> Array:
    """Those that a table of S sensors and T times is learned from."""
    n = max(LEARNED_FROM // T, FEWEST_SENSORS)
    return np.sort(np.random.default_rng(seed).permutation(S)[:n])


def _is_periodic(names: list[str], counts: Array) -> bool:
    """Whether some estimate that counts has a period."""
    return any(
        c > 0 and (f"{PERIOD} " in name or SLOT_MEAN in name or name == ALL_DAYS)
        for name, c in zip(names, counts, strict=True)
    )


def _needed(
    errors: Array,
    classes: Array,
    spared: list[bool],
    idle: float,
) -> tuple[Array, Array]:
    """Which estimates are worth their time, and how much each counts if all are made: processes
    (those that can be spared are marked; they come first) are left out while the blend is hardly
    worse for it, the least weight first."""
    step = -(-len(errors) // JUDGED)
    E = errors[::step]
    at = classes[::step]
    left = np.arange(E.shape[1])
    weights = learned_weights(E, at)
    most = (1 + idle) * _blend_error(E, at, weights)
    counts = weights[at].mean(0)
    for k in sorted(np.flatnonzero(spared), key=lambda k: counts[k]):
        fewer = left[left != k]
        some = E[:, fewer]
        if _blend_error(some, at, learned_weights(some, at)) <= most:
            left = fewer
    return left, counts


def _blend_error(errors: Array, classes: Array, weights: Array) -> float:
    return float(np.abs((weights[classes] * errors).sum(1)).mean())


def _deviations(errors: Array, classes: Array) -> Array:
    """By class; that of all errors for classes with few."""
    size = np.abs(errors)
    parts = [size[classes == k] for k in range(N_CLASSES)]
    parts = [x if len(x) >= ENOUGH_ERRORS else size for x in parts]
    return np.array([np.quantile(x, ONE_DEVIATION) for x in parts])


def mean_and_error(x: Array, held: list[Array]) -> tuple[float, float]:
    """The mean of what was found at held-out entries, and its standard error; entries of one gap
    are not independent."""
    gaps: list[Array] = []
    for some in held:
        begins = some.copy()
        begins[:, 1:] &= ~some[:, :-1]
        gaps.append(np.cumsum(begins[some]) + (gaps[-1][-1] if gaps else 0))
    rest = np.bincount(np.concatenate(gaps), x - x.mean())
    # the same entries may be in several trials, which know no more of them than one
    return float(x.mean()), float(np.sqrt((rest**2).sum() * len(held)) / len(x))


class Estimate(NamedTuple):
    """Of every entry of a table, sensors x times."""

    values: Array
    others: Array  # the same; of entries that were seen, as the others tell them


def carried_out(
    Y: Array,
    plan: Plan,
    without_time: Array | None,
    moved: bool = False,
) -> Estimate:
    """The estimate of every entry of a table by a plan; `moved` if it was made for other times."""
    T = Y.shape[1]
    classes = class_of(~np.isnan(Y))
    entries = None if moved or plan.is_of_some(Y) else _entries_for(Y, plan)
    models = models_of(Y, plan, entries, moved)
    best = plan.best if plan.best in models else next(iter(models))
    own = models[best]
    deviation = best.times_of(np.broadcast_to(own.units, own.weights.shape), T)
    deviation = deviation * plan.sizes.astype(Y.dtype)[classes]
    good = best.times_of(own.weights, T)
    found = {p.name: _by_model(p, m, Y) for p, m in models.items()}
    del models, own
    if entries is not None:
        found |= _begun_twice(entries, plan, found)
    names = {
        name: i for i, name in enumerate(plan.estimates) if plan.weights[:, i].any()
    }
    simple = simple_fits(Y, plan.period, plan.nights, names.keys())
    others = left_out.of_simple_fits(Y, plan.period, plan.nights, simple)
    found |= {name: Estimate(x, others[name]) for name, x in simple.items()}
    if without_time is not None:
        found[WITHOUT_TIME] = Estimate(without_time, without_time)
    if plan.all_days is not None and ALL_DAYS in names:
        usual = every_day(plan.all_days, T)
        found[ALL_DAYS] = Estimate(usual, usual)
    names = {name: i for name, i in names.items() if name in found}
    weights = plan.weights[:, list(names.values())] + TINY
    weights /= weights.sum(1, keepdims=True)
    return Estimate(
        *(
            blended(
                [plausible(found[name][k], Y, good) for name in names],
                weights,
                classes,
                deviation,
            )
            for k in range(2)
        )
    )


def _by_model(p: Process, model: Model, Y: Array) -> Estimate:
    """What a process says of the table that it was fitted to."""
    X = model.values()
    others = left_out.of_model(model, p.days_of(Y), X)
    return Estimate(*(p.times_of(x, Y.shape[1]) for x in (X, others)))


def _entries_for(Y: Array, plan: Plan) -> Entries:
    """Gross errors are told where a process wants to know of them."""
    if any(p.robust for p in plan.models):
        return told_entries(Y, plan.told_by, plan.told)
    return Entries(Y)


def models_of(
    Y: Array,
    plan: Plan,
    entries: Entries | None,
    moved: bool = False,
) -> dict[Process, Model]:
    """Processes fitted to a table, from what the plan knows of them, without those that run away if
    there are others; gross errors that are told already are in `entries`."""

    def fitted(p: Process) -> Model:
        if moved:
            return _moved(Y, p, plan.models[p])
        if entries is None:
            return _of_more_sensors(Y, plan, p)
        return entries.fitted(p, plan.models[p])

    # where all run away, what they say is held to what is plausible, as ever
    found = sound_ones(Y, plan.models, fitted)
    return found or {p: fitted(p) for p in plan.models}


def _begun_twice(
    entries: Entries,
    plan: Plan,
    found: Mapping[str, Estimate],
) -> dict[str, Estimate]:
    """Robust processes that began where entries had been set aside: means with fits that begin anew.

    What is drawn at random in a fit is 2 to 3 % of the error of Birmingham with outliers. Where
    processes that believe all entries take part there are more estimates to blend; large tables,
    whose models begin from some sensors, are spared the time."""
    if not all(p.robust for p in plan.models):
        return {}
    models = more_models(entries._replace(told=None), plan.models, {})
    anew = {p.name: _by_model(p, model, entries.Y) for p, model in models.items()}
    return {
        name: Estimate(*((a + b) / 2 for a, b in zip(found[name], again, strict=True)))
        for name, again in anew.items()
    }


def _moved(Y: Array, p: Process, begin: Model) -> Model:
    """A process of other times; of other shape, it begins anew."""
    G = p.days_of(Y)
    if begin.weights.shape == G.shape:
        return fit_moved(G, begin, robust=p.robust)
    return fit(G, robust=p.robust, begin=begin)


def _of_more_sensors(Y: Array, plan: Plan, p: Process) -> Model:
    """The same where the plan is that of some sensors."""
    G = p.days_of(Y)
    begin = of_more_sensors(plan.models[p], G, plan.sensors, robust=p.robust)
    return fit(G, robust=p.robust, begin=begin)


def weighed_by_all(
    plan: Plan,
    Y: Array,
    without_time: Callable[[Array, Array], Array],
    seed: int,
    score: Score = "auto",
) -> Plan:
    """The same with weights that suit models of all sensors of Y, where these fail together.

    In a gap that all of them share, processes have only time to go by, and what some sensors say of
    them is not what all do: lines were as good in METR-LA, and had hardly any weight. What is set
    aside is what `learn_plan` did, so that models to begin with have not seen it."""
    if not (plan.is_of_some(Y) and fail_together(~np.isnan(Y))):
        return plan
    held = gaps_for(~np.isnan(Y), plan.sensors, seed, plan.told_by)
    rest = np.where(held, np.nan, Y).astype(Y.dtype)
    trial = judged_at(held, Y, models_of(rest, plan, None), plan.told_by, plan.nights)
    if plan.best not in trial.models:
        return plan
    trial.hear(WITHOUT_TIME, without_time(held, np.arange(len(Y))))
    names = [name for name in plan.estimates if name in trial.found]
    errors, classes = trial.errors(names), trial.classes
    some = learned_weights(beside_class(errors, classes), classes)
    weights = np.zeros_like(plan.weights)
    weights[:, [plan.estimates.index(name) for name in names]] = some
    blend = (some[classes] * errors).sum(1)
    sizes = dict(zip(names, map(float, np.abs(errors).mean(0)), strict=True))
    other = errors[:, names.index(WITHOUT_TIME)]
    gain, gain_error = mean_and_error(np.abs(other) - np.abs(blend), [held])
    units = trial.units(plan.best)
    return replace(
        plan,
        weights=weights,
        errors=sizes | {"blend": float(np.abs(blend).mean())},
        gain=gain,
        gain_error=gain_error,
        gain_by_order=gain_in_loss(blend, trial.errors_without_order(), score),
        gain_of_typical=gain_of_typical(blend, other),
        sizes=_deviations(errors[:, names.index(plan.best.name)] / units, classes),
    )


def for_all_sensors(plan: Plan, Y: Array) -> Plan:
    """A plan that was learned from some of the sensors of Y, with models of all of them."""
    if len(plan.sensors) == len(Y):
        return plan
    return replace(plan, models=models_of(Y, plan, None), sensors=np.arange(len(Y)))

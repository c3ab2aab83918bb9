"""What to fill a table with: estimates that entries set aside, in the shape of the gaps, speak for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...weights import Array
from .gaps import gaps_elsewhere
from .periods import longer_period
from .simple import simple_fits
from .stack import DISTANCES, blended, class_of, learned_weights
from .sweeps import Model, fit

WITHOUT_TIME = "without time"  # the fit of a matrix whose columns have no order
DRAWS = 6  # from the posterior, that deviations are made of
DRAWS_MOVED = 2  # of a window of many: there they only hold what runs away
MARGIN = 0.1  # of the range of a sensor's entries, that estimates may lie beyond it
ENOUGH = 50  # entries that tell the range of a sensor; else that of all
BELIEVED = 0.5  # chance of being good
CLEARLY = 2.0  # standard errors that a gain over the fit without time must have
TINY = 1e-9  # where all that has a weight is missing, what is left counts alike
WORTH = 0.02  # of the error: a smaller gain is not worth a model of time


class Process(NamedTuple):
    """A model in time: its period, and whether outliers are weighed down."""

    period: int | None
    robust: bool

    @property
    def name(self) -> str:
        """For people."""
        period = "no period" if self.period is None else f"period {self.period}"
        return f"process, {period}, {'robust' if self.robust else 'all entries'}"


@dataclass(frozen=True, eq=False)
class Plan:
    """How tables like this one are filled in."""

    period: int | None
    estimates: tuple[str, ...]
    weights: Array  # by classes of entries x estimates
    errors: Mapping[str, float]  # mean absolute, on entries set aside
    gain: float  # over the fit without time, in mean absolute error; 0 if that takes no part
    gain_error: float
    best: Process  # the process with the least error
    models: Mapping[Process, Model] = field(default_factory=dict)  # to begin with

    def is_worth_it(self, *, fills: bool) -> bool:
        """Whether the model of time is clearly better than the fit without it; where it also fills
        what that leaves open, whether it is better at all.
        """
        if WITHOUT_TIME not in self.errors:
            return True
        least = max(
            CLEARLY * self.gain_error, WORTH * self.errors.get(WITHOUT_TIME, np.inf)
        )
        return self.gain > (0.0 if fills else least)

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
            "weights": self.used,
            "distances": list(DISTANCES),
            "held_out": dict(self.errors),
            "gain": self.gain,
            "gain_error": self.gain_error,
        }


def folded(Y: Array, period: int | None) -> Array:
    """Sensors x times as sensors x days x slots; the last day is filled up with NaN."""
    S, T = Y.shape
    P = period or T
    D = -(-T // P)
    if D * P == T:
        return Y.reshape(S, D, P)
    G = np.full((S, D * P), np.nan, Y.dtype)
    G[:, :T] = Y
    return G.reshape(S, D, P)


def unfolded(x: Array, T: int) -> Array:
    """Back again."""
    return x.reshape(len(x), -1)[:, :T]


def processes(Y: Array, period: int | None) -> list[Process]:
    """Those that are tried: with the period, with a longer one, and without."""
    periods: list[int | None] = [None] if period is None else [period, None]
    longer = None if period is None else longer_period(Y, period)
    if longer is not None:
        periods.append(longer)
    return [Process(p, robust) for p in periods for robust in (False, True)]


def learn_plan(
    Y: Array,
    period: int | None,
    without_time: Callable[[Array], Array] | None,
    seed: int = 0,
) -> Plan:
    """Weights of estimates of Y (sensors x times) that do best on entries set aside.

    `without_time` gives the values there of a fit that knows neither them nor time; if there is
    none, it takes no part."""
    held = gaps_elsewhere(~np.isnan(Y), seed, period)
    rest = np.where(held, np.nan, Y).astype(Y.dtype)
    T = Y.shape[1]
    models = sound_models(rest, processes(Y, period))
    found = {p.name: unfolded(m.values(), T)[held] for p, m in models.items()}
    found |= {name: z[held] for name, z in simple_fits(rest, period).items()}
    if without_time is not None:
        found[WITHOUT_TIME] = without_time(held)
    truth = Y[held].astype(np.float64)
    errors = np.stack([z - truth for z in found.values()], axis=1)
    classes = class_of(~np.isnan(rest))[held]
    weights = learned_weights(errors, classes)
    blend = (weights[classes] * errors).sum(1)
    sizes = {
        name: float(np.abs(e).mean()) for name, e in zip(found, errors.T, strict=True)
    }
    other = errors[:, -1] if without_time is not None else blend
    better = np.abs(other) - np.abs(blend)
    best = min(models, key=lambda p: sizes[p.name])
    used = {
        p: m for p, m in models.items() if p == best or _counts(p.name, found, weights)
    }
    return Plan(
        period=period if any(p.period is not None for p in used) else None,
        estimates=tuple(found),
        weights=weights,
        errors=sizes | {"blend": float(np.abs(blend).mean())},
        gain=float(better.mean()),
        gain_error=_standard_error(better, held),
        best=best,
        models=used,
    )


def sound_models(Y: Array, some: list[Process]) -> dict[Process, Model]:
    """Those of these processes whose fits to Y (sensors x times) do not run away, as one that
    believes all entries does from a gross error.
    """
    found = {}
    for p in some:
        try:
            model = fit(folded(Y, p.period), robust=p.robust)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(model.values()).all():
            found[p] = model
    if not found:
        raise np.linalg.LinAlgError("no process in time fits these data")
    return found


def _counts(name: str, found: Mapping[str, Array], weights: Array) -> bool:
    return bool(weights[:, list(found).index(name)].any())


def _standard_error(better: Array, held: Array) -> float:
    """Of the mean of what was found at held-out entries; those of one gap are not independent."""
    begins = held.copy()
    begins[:, 1:] &= ~held[:, :-1]
    gap = np.cumsum(begins[held]) - 1
    rest = np.bincount(gap, better - better.mean())
    return float(np.sqrt((rest**2).sum()) / len(better))


def carried_out(
    Y: Array, plan: Plan, without_time: Array | None, moved: bool = False
) -> Array:
    """The estimate of every entry of a table by a plan; `moved` if it was made for other times."""
    T, seen = Y.shape[1], ~np.isnan(Y)
    models = {
        p: fit(folded(Y, p.period), robust=p.robust, begin=m, moved=moved)
        for p, m in plan.models.items()
    }
    found = {p.name: unfolded(m.values(), T) for p, m in models.items()}
    names = {
        name: i for i, name in enumerate(plan.estimates) if plan.weights[:, i].any()
    }
    if not names.keys() <= found.keys():
        found |= simple_fits(Y, plan.period)
    if without_time is not None:
        found[WITHOUT_TIME] = without_time
    names = {name: i for name, i in names.items() if name in found}
    weights = plan.weights[:, list(names.values())] + TINY
    weights /= weights.sum(1, keepdims=True)
    own = models[plan.best]
    draws = DRAWS_MOVED if moved else DRAWS
    deviation, good = (unfolded(x, T) for x in (own.deviation(draws), own.weights))
    sound = [plausible(found[name], Y, good) for name in names]
    return blended(sound, weights, class_of(seen), deviation)


def plausible(values: Array, Y: Array, good: Array) -> Array:
    """Values within the range of each sensor's good entries, and a little beyond; not below 0 where
    no good entry is."""
    there = good > BELIEVED
    low, high = np.where(there, Y, np.inf).min(1), np.where(there, Y, -np.inf).max(1)
    few = there.sum(1) < ENOUGH
    low[few], high[few] = low.min(), high.max()
    least = low.min()
    margin = MARGIN * (high - low)
    low = low - margin if least < 0 else np.maximum(low - margin, 0)
    return np.clip(values, low[:, None], (high + margin)[:, None])

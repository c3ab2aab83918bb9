"""Entries that are set aside, in the shape of the gaps, and what all estimates say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .gaps import gaps_for
from .model import Model
from .nights import Nights
from .periods import longer_period
from .processes import (
    Entries,
    Process,
    more_models,
    told_entries,
)
from .simple import simple_fits
from .sizes import median, medians_of_rows, typical_rows
from .stack import (
    beside_class,
    class_of,
    good_ones,
    learned_weights,
    range_of,
)

WITHOUT_TIME = "without time"  # the fit of a matrix whose columns have no order
TRIED = 3_000  # held-out entries, about: small tables set some aside several times
MOST_TRIALS = 4


class Trial(NamedTuple):
    """Estimates of entries that were set aside once."""

    held: Array  # sensors x times, where they are
    models: dict[Process, Model]
    told: Model | None  # the one that told gross errors
    found: dict[str, Array]  # estimates, by name
    truth: Array
    classes: Array
    sizes: Array  # of their sensors, beside the usual one
    medians: Array  # entries x 2: of their sensor, and of all sensors at their time
    limits: tuple[Array, Array]  # what is beyond has run away

    def hear(self, name: str, said: Array) -> None:
        """What an estimate says, within reason: as it is used, it stays in the range of its sensor."""
        self.found[name] = np.clip(said, *self.limits)

    def errors(self, names: list[str]) -> Array:
        """Entries x estimates; each sensor counts alike, whatever its unit is."""
        return self._off(np.stack([self.found[name] for name in names], axis=1))

    def errors_without_order(self) -> Array:
        """The same of what would be said if times were in any other order."""
        fit = self.found.get(WITHOUT_TIME)
        some = [] if fit is None else [fit[:, None]]
        return self._off(np.concatenate([self.medians, *some], axis=1))

    def _off(self, found: Array) -> Array:
        return (found - self.truth[:, None]) / self.sizes[:, None]

    def units(self, p: Process) -> Array:
        """Of a process, at these entries, as errors are."""
        model = self.models[p]
        units = np.broadcast_to(model.units, model.weights.shape)
        T = self.held.shape[1]
        return p.times_of(units, T)[self.held] / self.sizes


def trials_of(
    Y: Array,
    sensors: Array,
    period: int | None,
    nights: Nights | None,
    without_time: Callable[[Array, Array], Array] | None,
    seed: int,
) -> list[Trial]:
    """One, or as many as it takes until enough entries were set aside."""
    trials: list[Trial] = []
    for k in range(MOST_TRIALS):
        known = list(trials[0].models) if trials else None
        trial = tried(Y, sensors, period, nights, without_time, seed + k, known=known)
        trials += [trial] if len(trial.truth) else []
        # one more that would be mostly beyond it is not worth its time
        if sum(len(t.truth) for t in trials) + len(trial.truth) / 2 >= TRIED:
            break
    if not trials:
        raise np.linalg.LinAlgError("too few entries to set some of them aside")
    return trials


def tried(
    Y: Array,
    sensors: Array,
    period: int | None,
    nights: Nights | None,
    without_time: Callable[[Array, Array], Array] | None,
    seed: int,
    *,
    known: list[Process] | None = None,
) -> Trial:
    """All estimates of entries of these sensors that are set aside, in the shape of the gaps; of
    processes, those that are known to be of use."""
    held = gaps_for(~np.isnan(Y), sensors, seed, period)
    whole = Y[sensors]
    rest = np.where(held[sensors], np.nan, whole).astype(Y.dtype)
    # of a large table processes begin from those of some sensors, and tell gross errors themselves
    told = len(sensors) == len(Y) and (known is None or any(p.robust for p in known))
    entries = told_entries(rest, period) if told else Entries(rest)
    models = (
        _useful_models(entries, whole, period, nights)
        if known is None
        else more_models(entries, known, {})
    )
    trial = judged_at(held[sensors], whole, models, period, nights)
    if without_time is not None:
        trial.hear(WITHOUT_TIME, without_time(held, sensors))
    return trial._replace(told=entries.told)


def judged_at(
    held: Array,
    Y: Array,
    models: dict[Process, Model],
    period: int | None,
    nights: Nights | None,
) -> Trial:
    """What models of the other entries, and what is simple, say of entries of Y that are held out."""
    T = Y.shape[1]
    rest = np.where(held, np.nan, Y).astype(Y.dtype)
    found = {p.name: p.times_of(m.values(), T)[held] for p, m in models.items()}
    found |= {name: z[held] for name, z in simple_fits(rest, period, nights).items()}
    seen, (sensors, times) = ~np.isnan(rest), np.nonzero(held)
    low, high = range_of(rest, seen)
    middle = medians_of_rows(rest)
    trial = Trial(
        held=held,
        models=models,
        told=None,
        found={},
        truth=Y[held].astype(np.float64),
        classes=class_of(seen)[held],
        sizes=_relative_sizes(rest - middle[:, None])[sensors],
        medians=_medians(middle[sensors], median(rest, 0)[times]),
        limits=(low[sensors], high[sensors]),
    )
    for name, said in found.items():
        trial.hear(name, said)
    return trial


def _medians(of_sensor: Array, at_time: Array) -> Array:
    """Both, side by side; at times without an entry, that of the sensor."""
    at_time = np.where(np.isnan(at_time), of_sensor, at_time)
    return np.stack([of_sensor, at_time], axis=1)


def _relative_sizes(off: Array) -> Array:
    """How far entries of each sensor typically are off its middle, beside the usual one."""
    size = typical_rows(off)
    return np.asarray(size / np.median(size), np.float64)


def _useful_models(
    entries: Entries,
    Y: Array,
    period: int | None,
    nights: Nights | None,
) -> dict[Process, Model]:
    """Fits of the processes that are tried to what is left of Y, robust and not; with other periods
    only as is of use where entries are held out."""
    first, *others = periods_of(Y, period)
    kinds = (True, False)  # robust first: whatever begins with it begins well
    found = more_models(entries, [Process(first, robust) for robust in kinds], {})
    if not (found and others):
        return found
    useful = _useful_kinds(entries, Y, found)
    every = [_process(p, robust, nights) for p in others for robust in useful]
    return more_models(entries, every, found)


def _useful_kinds(
    entries: Entries,
    Y: Array,
    found: Mapping[Process, Model],
) -> list[bool]:
    """Whether robust processes, others, or both are of use; of a large table, which one misses
    less."""
    left = ~np.isnan(entries.Y)
    held = ~left & ~np.isnan(Y)
    T = Y.shape[1]
    errors = [p.times_of(m.values(), T)[held] - Y[held] for p, m in found.items()]
    classes = class_of(left)[held]
    relative = beside_class(np.stack(errors, axis=1), classes)
    good = good_ones(relative)
    if entries.good is None:
        some = np.abs(relative[good]).mean(0).argmin(keepdims=True)
    else:
        weights = learned_weights(relative[good], classes[good])
        some = np.flatnonzero(weights.any(0))
    return [list(found)[k].robust for k in some]


def _process(period: int | None, robust: bool, nights: Nights | None) -> Process:
    """Nights are for the one without a period."""
    return Process(period, robust, nights if period is None else None)


def periods_of(Y: Array, period: int | None) -> list[int | None]:
    """Those that are tried: the period, none, and a longer one."""
    if period is None:
        return [None]
    longer = longer_period(Y, period)
    return [period, None] if longer is None else [period, None, longer]

"""The next steps in time, and how far off forecasts of this table were before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from .model import Model
from .plan import Plan
from .processes import Process, sound_ones
from .simple import LAST_PERIOD, last_period, simple_fits
from .sizes import medians_of_rows, typical_rows
from .stack import convex_weights, plausible
from .sweeps import fit

DRAWS = 6  # from the posterior, that deviations are made of
ORIGINS = 5  # earlier forecasts that weights and errors are learned from
LEAST = 0.5  # of the table that a forecast begins with
FEWEST = 20  # errors that intervals are made of
LENT = 1.0  # forecasts of usual errors that every sensor is taken to have had
TINY = 1e-6  # of the usual error
# times as wide as intervals by sizes of sensors alone: a process that ran away
RUNS_AWAY = 2.0


class Ahead(NamedTuple):
    """What each estimate says of the next steps, and the processes among them."""

    estimates: dict[str, Array]  # sensors x steps
    models: dict[Process, Model]
    n_times: int  # of their window

    def deviation(self, p: Process | None, sizes: Array) -> Array:
        """By a process (sensors x steps); those of sensors, if there is none."""
        some = next(iter(self.estimates.values()))
        steps = some.shape[1]
        if p is None:
            return np.repeat(sizes[:, None], steps, axis=1)
        whole = self.models[p].deviation(DRAWS)
        found = p.times_of(whole, self.n_times)
        return found[:, -steps:]


class Earlier(NamedTuple):
    """A forecast from an earlier end of the table, and what came (sensors x steps)."""

    ahead: Ahead
    truth: Array

    def errors(self, names: list[str], sizes: Array) -> Array:
        """Of what was seen, in units of sensors: entries x estimates."""
        seen = ~np.isnan(self.truth)
        estimates = self.ahead.estimates
        of_sensors = sizes[:, None]
        off = [((estimates[name] - self.truth) / of_sensors)[seen] for name in names]
        return np.stack(off, axis=1).astype(np.float64)

    def ratios(self, errors: Array, p: Process | None, sizes: Array) -> Array:
        """Sizes of errors (in units of sensors) beside the deviations that a process expects, NaN
        where nothing was seen."""
        found = np.full(self.truth.shape, np.nan)
        seen = ~np.isnan(self.truth)
        found[seen] = np.abs(errors)
        expected = self.ahead.deviation(p, sizes)
        return found * sizes[:, None] / expected


def forecast(
    Y: Array,
    plan: Plan,
    width: int,
    steps: int,
    level: float,
) -> tuple[Array, Array, Array]:
    """Of sensors x times: values, lower and upper ends, sensors x steps.

    The table is cut off before its end, several times, and what follows is forecast: estimates get
    the weights that did best there (a gap with one side only is unlike those within the table), where
    errors count in units of their sensor. Conformal quantiles of the errors, each with weights and
    sizes of sensors by the other cuts, give the widths."""
    ends = [Y.shape[1] - k * steps for k in range(1, ORIGINS + 1)]
    cuts = [
        Earlier(_ahead(Y[:, :end], plan, width, steps), Y[:, end : end + steps])
        for end in ends
        if end >= LEAST * Y.shape[1]
    ]
    now = _ahead(Y, plan, width, steps)
    every = [now, *(cut.ahead for cut in cuts)]
    names, best = _in_all(every, plan.best)
    middle = medians_of_rows(Y[:, None, :])
    sizes = typical_rows(Y - middle[:, None])
    errors = [cut.errors(names, sizes) for cut in cuts]
    by_sizes = _half_widths(cuts, errors, now, None, sizes, level)
    if by_sizes is None:
        raise ValueError(
            f"steps={steps}: the table has {Y.shape[1]} steps in time, too few to tell"
            " how far off such forecasts are; fewer steps, or a lower level, are wanted"
        )
    half = by_sizes
    if best is not None:
        by_process = _half_widths(
            cuts,
            errors,
            now,
            best,
            sizes,
            level,
        )
        assert by_process is not None
        if _width(by_process, sizes) < RUNS_AWAY * _width(by_sizes, sizes):
            half = by_process
    estimates = np.stack([now.estimates[name] for name in names])
    weights = _weights(errors).astype(Y.dtype)
    seen = (~np.isnan(Y)).astype(Y.dtype)
    values = np.tensordot(weights, estimates, 1)
    values = plausible(values, Y, seen)
    return values, values - half, values + half


def _half_widths(
    cuts: list[Earlier],
    errors: list[Array],
    now: Ahead,
    p: Process | None,
    sizes: Array,
    level: float,
) -> Array | None:
    """Of intervals, sensors x steps, in which deviations go with those of a process, or with sizes of
    sensors; None where there are too few errors."""
    ratios = [
        cut.ratios(own @ _weights(_but(errors, own)), p, sizes)
        for cut, own in zip(cuts, errors, strict=True)
    ]
    border = _border(ratios, level)
    if border is None:
        return None
    return border * _of_sensors(ratios) * now.deviation(p, sizes)


def _width(half: Array, sizes: Array) -> float:
    """In units of sensors, mostly."""
    return float(np.median(half / sizes[:, None]))


def _in_all(some: list[Ahead], best: Process) -> tuple[list[str], Process | None]:
    """Estimates that are in all of them, and a process that is: the best one, if it is."""
    first = some[0]
    names = [name for name in first.estimates if all(name in x.estimates for x in some)]
    sound = [p for p in (best, *first.models) if all(p in x.models for x in some)]
    return names, sound[0] if sound else None


def _but(some: list[Array], own: Array) -> list[Array]:
    """All but one of them; that one, if it is the only one."""
    return [x for x in some if x is not own] or some


def _weights(errors: list[Array]) -> Array:
    return convex_weights(np.concatenate(errors)).weights


def _border(ratios: list[Array], level: float) -> float | None:
    """What errors beside those of their sensor at other cuts stay below with this probability; None
    where there are too few."""
    parts = [x / _of_sensors(_but(ratios, x)) for x in ratios]
    found = np.concatenate([x[~np.isnan(x)] for x in parts or [np.empty(0)]])
    found.sort()
    rank = int(np.ceil(level * (len(found) + 1)))
    if len(found) < FEWEST or rank > len(found):
        return None
    return float(found[rank - 1])


def _of_sensors(ratios: list[Array]) -> Array:
    """How large errors of each sensor are beside what is expected of them (sensors x 1): the mean of
    logarithms over forecasts, drawn to the usual as far as there are few."""
    some = np.stack(ratios)
    count = (~np.isnan(some)).sum(2)
    size = np.nansum(some, axis=2) / np.maximum(count, 1)
    there = size > 0
    usual = 1.0
    if there.any():
        usual = float(np.exp(np.log(size[there]).mean()))
    logs = np.where(count > 0, np.log(size / usual + TINY), 0.0)
    n_forecasts = (count > 0).sum(0)
    drawn = logs.sum(0) / (n_forecasts + LENT)
    return np.exp(drawn)[:, None]


def _ahead(Y: Array, plan: Plan, width: int, steps: int) -> Ahead:
    """Estimates of the next steps, from the last window; of processes, those that do not run away."""
    P = plan.period or 1
    begin = max(Y.shape[1] - width, 0) // P * P
    empty = np.full((len(Y), steps), np.nan, Y.dtype)
    window = np.hstack([Y[:, begin:], empty])
    T = window.shape[1]
    models = sound_ones(
        window, plan.models, lambda p: fit(p.days_of(window), robust=p.robust)
    )
    found = {p.name: p.times_of(m.values(), T) for p, m in models.items()}
    found |= simple_fits(window, plan.period, plan.nights)
    if plan.period is not None:
        found[LAST_PERIOD] = last_period(window, plan.period)
    seen = (~np.isnan(Y)).astype(Y.dtype)
    # beyond the last entry a process has nothing to hold it
    ahead = {name: plausible(x[:, -steps:], Y, seen) for name, x in found.items()}
    return Ahead(ahead, models, T)

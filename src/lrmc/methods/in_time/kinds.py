"""Kinds of faults of sensors: spikes, stuck values, drifts and shifts of level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...weights import Array

SPIKE, STUCK, DRIFT, SHIFT = "spike", "stuck", "drift", "shift"
FEWEST = (
    4  # entries of one fault that a drift or a shift is told from; fewer are spikes
)
SKIPPED = 1  # entries within a fault that may have gone unnoticed
GROWN = 0.5  # of the largest residual, that a straight line must rise by in a drift
# of the entries of a sensor that have one value, or of the other sensors that repeat theirs at the
# same time: from there on it is how things are
OFTEN = 0.25
FALSE_ALARMS = 0.01  # stuck runs that a table without any is expected to show


def stuck(Y: Array) -> Array:
    """Which entries (sensors x times, NaN where missing) repeat the one before in a run so long
    that its sensor hardly makes it: less than FALSE_ALARMS such runs are expected in all.

    A sensor that often repeats its values, as one that saturates does, needs longer runs. A value
    that it often has, and what many others do at the same times, is no fault: dry days, nights."""
    found = np.zeros(Y.shape, bool)
    seen = ~np.isnan(Y)
    n_observed = int(seen.sum())
    for s, y in enumerate(Y):
        at = np.flatnonzero(seen[s])
        for run in _improbable(np.diff(y[at]) == 0, n_observed):
            here = at[run.start : run.stop + 1]
            found[s, here] = (y[at] == y[here[0]]).sum() <= OFTEN * len(at)
    sensors, times = np.nonzero(found)
    if len(times):
        others = found.sum(0)[times] - 1
        common = others > OFTEN * (seen.sum(0)[times] - 1)
        found[sensors[common], times[common]] = False
    return found


def _improbable(same: Array, n_observed: int) -> Iterator[slice]:
    """Runs of True that are too long for the rate of True in what is outside of them."""
    edges = np.diff(np.pad(same.astype(np.int8), 1))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    longest_first = np.argsort(begins - ends)
    outside, repeats = len(same), int(same.sum())
    for k in longest_first:
        length = int(ends[k] - begins[k])
        # a run tells nothing of the rate that it is judged by; one pseudo-count on each side
        rate = (repeats - length + 1) / (outside - length + 2)
        if n_observed * rate**length > FALSE_ALARMS:
            return
        outside, repeats = outside - length, repeats - length
        yield slice(int(begins[k]), int(ends[k]))


def kinds_of(sensors: Array, times: Array, residual: Array, Y: Array) -> Array:
    """The kind of each listed entry (indices of sensors and times, and what the model misses it
    by) of a table Y (sensors x times).

    Entries of a sensor that follow each other are one fault: stuck if they repeat a value; if they
    lie on one side of the model, a drift where the residual grows along a line, else a shift."""
    kinds = np.full(len(sensors), SPIKE, dtype=object)
    order = np.lexsort((times, sensors))
    nth = np.cumsum(~np.isnan(Y), axis=1)[sensors, times]
    apart = np.diff(nth[order]) > 1 + SKIPPED
    breaks = np.flatnonzero(apart | (np.diff(sensors[order]) != 0)) + 1
    for fault in np.split(order, breaks):
        if len(fault) >= FEWEST:
            kinds[fault] = _kind(times[fault], residual[fault])
    kinds[stuck(Y)[sensors, times]] = STUCK
    return kinds


def _kind(times: Array, residual: Array) -> str:
    """Of one fault."""
    sign = np.sign(residual)
    if not (sign == sign[0]).all():
        return SPIKE
    t = times - times.mean()
    size = np.abs(residual)
    slope = float(t @ size / (t @ t))
    rise = abs(slope) * float(np.ptp(times))
    rest = size - size.mean() - slope * t
    explained = 1 - float(rest @ rest) / max(
        float(np.sum((size - size.mean()) ** 2)), 1e-30
    )
    straight = explained > GROWN
    return DRIFT if straight and rise > GROWN * float(size.max()) else SHIFT

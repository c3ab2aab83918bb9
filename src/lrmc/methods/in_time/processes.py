"""Models in time that are tried on a table, folded by their periods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from ..._scipy import fft
from ...weights import Array
from .basis import SHORT
from .model import Model
from .nights import Nights
from .simple import linear
from .sweeps import believed, fit, refolded

PERIOD = "period"


class Process(NamedTuple):
    """A model in time: its period, and whether gross errors are left out."""

    period: int | None
    robust: bool
    nights: Nights | None = None  # steps between periods; with a period, slots tell

    @property
    def name(self) -> str:
        """For people."""
        period = "no period" if self.period is None else f"{PERIOD} {self.period}"
        return f"process, {period}, {'robust' if self.robust else 'all entries'}"

    def days_of(self, Y: Array) -> Array:
        """Sensors x times as sensors x days x slots, NaN in between and after the last one."""
        Y = Y if self.nights is None else self.nights.spread(Y)
        return folded(Y, self.period)

    def times_of(self, x: Array, T: int) -> Array:
        """Back again."""
        if self.nights is None:
            return unfolded(x, T)
        return self.nights.gathered(x.reshape(len(x), -1), T)

    def begun(self, x: Array, other: Process, T: int) -> Array:
        """What another process says of its days, of those of this one; lines at night."""
        x = self.days_of(other.times_of(x, T))
        if self.nights is None:
            return np.nan_to_num(x)
        return linear(x.reshape(len(x), -1)).reshape(x.shape)


def folded(Y: Array, period: int | None) -> Array:
    """Sensors x times as sensors x days x slots; the last day is filled up with NaN, and without a
    period all of it, to a length that is transformed fast (eight times faster than a prime one)."""
    S, T = Y.shape
    P = period or (T if T <= SHORT else fft.next_fast_len(T))
    D = -(-T // P)
    if D * P == T:
        return Y.reshape(S, D, P)
    G = np.full((S, D * P), np.nan, Y.dtype)
    G[:, :T] = Y
    return G.reshape(S, D, P)


def unfolded(x: Array, T: int) -> Array:
    """Back again."""
    return x.reshape(len(x), -1)[:, :T]


class Entries(NamedTuple):
    """A table, sensors x times, and what is left of it without gross errors."""

    Y: Array
    good: Array | None = None  # None where each process tells them by itself
    told: Model | None = None  # the model that told them, if it did not run away

    def fitted(self, p: Process, begin: Model) -> Model:
        """A process of these entries, from an earlier model."""
        Y, robust = self._left(p)
        return fit(Y, robust=robust, begin=begin)

    def fitted_after(self, p: Process, found: Mapping[Process, Model]) -> Model:
        """The same after other processes."""
        Y, robust = self._left(p)
        return fit(Y, robust=robust, begin=self._begun(p, found), resize=True)

    def _begun(self, p: Process, found: Mapping[Process, Model]) -> Model | None:
        """What a process begins with: the same one with or without gross errors, or the one that
        told them, or one with another period."""
        other = found.get(p._replace(robust=not p.robust))
        if other is not None:
            return other
        Y, _ = self._left(p)
        if not found:
            same = self.told is not None and self.told.weights.shape == Y.shape
            return self.told if same else None
        other_p, model = next(iter(found.items()))
        T = self.Y.shape[1]
        return refolded(model, Y, lambda x: p.begun(x, other_p, T))

    def _left(self, p: Process) -> tuple[Array, bool]:
        """Days of what such a process is fitted to, and whether it has to tell gross errors."""
        told = p.robust and self.good is not None
        Y = self.good if told else self.Y
        assert Y is not None
        return p.days_of(Y), p.robust and not told


def told_entries(Y: Array, period: int | None, begin: Model | None = None) -> Entries:
    """Gross errors of a table are told once, by the process with its period, for all processes.

    One that knows less of the table takes what it cannot foresee for a gross error: without days,
    Birmingham lost three times as many good entries and was missed by half as much again."""
    try:
        good, told = believed(folded(Y, period), begin)
    except np.linalg.LinAlgError:
        return Entries(Y)
    begin = told if told.is_sound(folded(Y, period)) else None
    return Entries(Y, unfolded(good, Y.shape[1]), begin)


def more_models(
    entries: Entries,
    some: Iterable[Process],
    found: Mapping[Process, Model],
) -> dict[Process, Model]:
    """Those that were found before, and those of these processes whose fits do not run away, as one
    that believes all entries does from a gross error. Each begins with what was found before it."""
    found = dict(found)
    for p in some:
        fitted = partial(entries.fitted_after, found=found)
        found |= sound_ones(entries.Y, [p], fitted)
    return found


def sound_ones(
    Y: Array,
    some: Iterable[Process],
    fitted: Callable[[Process], Model],
) -> dict[Process, Model]:
    """Processes fitted to Y (sensors x times), without those that run away."""
    found = {}
    for p in some:
        try:
            model = fitted(p)
        except np.linalg.LinAlgError:
            continue
        if model.is_sound(p.days_of(Y)):
            found[p] = model
    return found

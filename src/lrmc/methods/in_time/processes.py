"""Models in time that are tried on a table, folded by their periods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .sweeps import Model, believed, fit

PERIOD = "period"


class Process(NamedTuple):
    """A model in time: its period, and whether gross errors are left out."""

    period: int | None
    robust: bool

    @property
    def name(self) -> str:
        """For people."""
        period = "no period" if self.period is None else f"{PERIOD} {self.period}"
        return f"process, {period}, {'robust' if self.robust else 'all entries'}"


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


class Entries(NamedTuple):
    """A table, sensors x times, and what is left of it without gross errors."""

    Y: Array
    good: Array | None = None  # None where each process tells them by itself

    def fitted(self, p: Process, begin: Model | None = None) -> Model:
        """A process of these entries, from an earlier model if there is one."""
        told = p.robust and self.good is not None
        Y = self.good if told else self.Y
        robust = p.robust and not told
        return fit(folded(_there(Y), p.period), robust=robust, begin=begin)


def _there(Y: Array | None) -> Array:
    assert Y is not None
    return Y


def told_entries(Y: Array, period: int | None) -> Entries:
    """Gross errors of a table are told once, by the process with its period, for all processes.

    One that knows less of the table takes what it cannot foresee for a gross error: without days,
    Birmingham lost three times as many good entries and was missed by half as much again."""
    try:
        good = believed(folded(Y, period))
    except np.linalg.LinAlgError:
        return Entries(Y)
    return Entries(Y, unfolded(good, Y.shape[1]))


def entries_for(Y: Array, period: int | None, wanted: Iterable[Process]) -> Entries:
    """Gross errors are told where a process wants to know of them."""
    if any(p.robust for p in wanted):
        return told_entries(Y, period)
    return Entries(Y)


def sound_models(entries: Entries, some: Iterable[Process]) -> dict[Process, Model]:
    """Those of these processes whose fits do not run away, as one that believes all entries does
    from a gross error.
    """
    found = {}
    for p in some:
        try:
            model = entries.fitted(p)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(model.values()).all():
            found[p] = model
    return found

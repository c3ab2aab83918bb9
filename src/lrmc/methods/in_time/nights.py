"""Steps that a table leaves out: a car park that is counted from 8 to 16:30 has its nights between
two columns, and these are no neighbors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from ..interpolation import along_rows
from .sizes import median, medians_of_rows, typical_rows

# of what entries typically differ by at any other slot: as the root mean square of two steps is of
# one, which is a night of one step
LONGER = 2**0.5
CLEARLY = 3.0  # standard deviations of a number of days by chance


class Nights(NamedTuple):
    """Steps that are missing between two times of each period."""

    period: int
    first: int  # slot after a night
    steps: int

    def cells(self, T: int) -> Array:
        """Where so many times are, with nights between them."""
        at = np.arange(T)
        return at + self.steps * ((at - self.first) // self.period + (self.first > 0))

    def spread(self, x: Array) -> Array:
        """Sensors x times with nights between them, NaN there."""
        cells = self.cells(x.shape[1])
        wide = np.full((len(x), cells[-1] + 1), np.nan, x.dtype)
        wide[:, cells] = x
        return wide

    def gathered(self, x: Array, T: int) -> Array:
        """Back again."""
        return np.asarray(x[:, self.cells(T)])


def find_nights(Y: Array, period: int | None) -> Nights | None:
    """Those of sensors x times: where entries differ most from one slot to the next, and lines that
    take longer there are nearer to entries beside them, when these are left out, on clearly more
    days than not. None if there are none."""
    if period is None:
        return None
    jumps = np.abs(np.diff(Y, axis=1))
    if np.isnan(jumps).all():  # every second step
        return None
    jumps /= typical_rows(jumps)[:, None]
    by_slot = np.array([_middle(jumps[:, p::period]) for p in range(period)])
    last = int(by_slot.argmax())
    others = np.delete(by_slot, last)
    if by_slot[last] <= LONGER * others.max():
        return None
    first = (last + 1) % period
    beside = np.isin(np.arange(Y.shape[1]) % period, (last, first))
    Z = Y / typical_rows(Y - medians_of_rows(Y)[:, None])[:, None]
    missed = {0: np.abs(Z - between(Z, None))[:, beside]}
    steps = 1
    while steps <= period:
        nights = Nights(period, first, steps)
        missed[steps] = np.abs(Z - between(Z, nights))[:, beside]
        steps *= 2
    best = min(missed, key=lambda k: _middle(missed[k]))
    better = np.sign(np.nansum(np.sign(missed[0] - missed[best]), axis=0))
    if better.sum() <= CLEARLY * np.sqrt(np.abs(better).sum()):
        return None
    return Nights(period, first, best)


def between(Y: Array, nights: Nights | None) -> Array:
    """Each entry on the line between others of its sensor (sensors x times)."""
    if nights is None:
        return along_rows(Y)[0]
    return nights.gathered(along_rows(nights.spread(Y))[0], Y.shape[1])


def _middle(x: Array) -> float:
    return float(np.nan_to_num(median(x.ravel())))

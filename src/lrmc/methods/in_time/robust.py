"""Which entries are gross errors: by residuals beside those of their neighbors in time, and by what
became of other entries with the same value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .sizes import median, usual_size

REACH = 4  # neighbors in time on each side
FEWEST = 3  # of them, to tell how large residuals are around an entry
BURST = 5.0  # residuals may be at most so many times larger than usual all around
SOME = 10_000  # residuals that the mixture is fitted to
ROUNDS = 15
LOW, OF_GAUSSIAN = 0.3, 0.385  # a quantile of |e|, and what it is for e ~ N(0, 1)
OF_DENSITY = float(np.sqrt(2 / np.pi))  # of |e| at 0, for e ~ N(0, 1)
BELIEVED = 0.5  # chance of being good, below which an entry is doubted
BEYOND = 2.0  # standard deviations, from which on gross errors are log-uniform
USUAL = 10  # entries of the usual chance that every value is taken to have had
IN_TURN = 3  # times that chances follow those of others with the same value
IN_CACHE = 50_000  # entries that are looked at together
AGREED = 4  # neighbors with other values that tell how far off the model is all around
APART = 0.5  # of how far off it is: neighbors that differ by more do not agree


class Mixture(NamedTuple):
    """Gaussian residuals, and gross errors that are uniform and then log-uniform."""

    share: float  # of the Gaussian ones
    deviation: float
    widest: float

    def good(self, size: Array, share: Array | float | None = None) -> Array:
        """The chance that residuals of these sizes are no gross errors; of entries of which
        another share is good, if that is known."""
        _, s, widest = self
        share = self.share if share is None else share
        good = share / s * OF_DENSITY * np.exp(-0.5 * (size / s) ** 2)
        gross = (1 - share) / np.maximum(size, BEYOND * s)
        gross /= 1 + np.log(widest / (BEYOND * s))
        return np.asarray(good / (good + gross + 1e-30))


def fitted_mixture(size: Array) -> Mixture:
    """By expectation-maximisation."""
    low, high = usual_size(size, LOW), np.quantile(size, 0.9995)
    s = low / OF_GAUSSIAN + 1e-12
    found = Mixture(0.8, s, max(float(high), 2 * BEYOND * s))
    for _ in range(ROUNDS):
        w = found.good(size)
        share = float(np.clip(w.mean(), 0.3, 1 - 1e-6))
        s = float(np.sqrt((w * size**2).sum() / max(w.sum(), 1e-30))) + 1e-12
        found = Mixture(share, s, max(found.widest, 2 * BEYOND * s))
    return found


class Recurring(NamedTuple):
    """Which entries have the same value, to the last digit.

    A sensor that fails says 0, or the end of its scale, again and again. Such entries hold each
    other up where several are side by side; what became of them elsewhere tells what they are."""

    value: Array  # of each entry that was seen, the number of its value
    counts: Array  # of entries, by value

    @classmethod
    def of(cls, Y: Array) -> Recurring:
        """In these data, NaN where nothing was seen."""
        _, value, counts = np.unique(
            Y[~np.isnan(Y)], return_inverse=True, return_counts=True
        )
        return cls(value, counts)

    def shares(
        self, good: Array, usual: float, some: Array | slice = slice(None)
    ) -> Array:
        """Which part of the others with the same value is good, by chances of all entries to be; of
        some of the entries."""
        value = self.value[some]
        others = np.bincount(self.value, good)[value] - good[some]
        return (USUAL * usual + others) / (USUAL + self.counts[value] - 1)


def weights_of(residual: Array, seen: Array, alike: Recurring) -> Array:
    """The chance that each entry (sensors x days x slots) is good; 0 where none was seen."""
    usual = around(residual, seen)[seen]
    size = np.abs(residual[seen]) / usual
    found = fitted_mixture(size[:: -(-len(size) // SOME)])
    good = found.good(size)
    doubted = np.flatnonzero(good < BELIEVED)
    beside = beside_others(residual, seen, alike, doubted) / usual[doubted]
    size[doubted] = np.minimum(size[doubted], beside)
    good[doubted] = found.good(size[doubted])
    again = np.flatnonzero(alike.counts[alike.value] > 1)
    for _ in range(IN_TURN):
        good[again] = found.good(size[again], alike.shares(good, found.share, again))
    weights = np.zeros_like(residual)
    weights[seen] = good
    return weights


def beside_others(
    residual: Array,
    seen: Array,
    alike: Recurring,
    some: Array,
) -> Array:
    """How far residuals of some of the seen entries are from those around them; infinite where
    these do not agree.

    On a day unlike all others the model is off by about the same all around: entries that agree
    on it are no gross errors. Entries with the same value say nothing of each other: a sensor that
    is stuck agrees with itself."""
    e = residual[seen]
    day = np.nonzero(seen.reshape(-1, seen.shape[2]))[0]
    near = some[:, None] + np.r_[-REACH:0, 1 : REACH + 1]
    there = (near >= 0) & (near < len(e))
    near = np.where(there, near, 0)
    there &= day[near] == day[some][:, None]
    there &= alike.value[near] != alike.value[some][:, None]
    others = np.where(there, e[near], np.nan)
    off = median(others)
    spread = median(np.abs(others - off[:, None]))
    far = np.abs(off) > BURST * float(np.median(np.abs(e)))
    agreed = far & (there.sum(1) >= AGREED) & (spread < APART * np.abs(off))
    rest = np.abs(e[some] - off)
    return np.where(agreed, rest, np.inf)


def around(residual: Array, seen: Array) -> Array:
    """How large residuals are around each in time, itself left out.

    In a burst that the model does not follow, all are large, and none is an outlier. It is half
    the second or third smallest of up to eight: outliers among them do no harm."""
    typical = usual_size(np.abs(residual[seen]))
    usual = np.empty_like(residual)
    step = max(IN_CACHE // max(residual[0].size, 1), 1)
    for k in range(0, len(residual), step):
        here = slice(k, k + step)
        size = np.where(seen[here], np.abs(residual[here]), np.inf)
        usual[here] = _usual_around(size, typical)
    return usual


def _usual_around(size: Array, typical: float) -> Array:
    """Of sizes (sensors x days x slots), infinite where nothing was seen."""
    least = [np.full_like(size, np.inf) for _ in range(FEWEST)]
    count = np.zeros(size.shape, np.int8)
    for near in _neighbors(size):
        count += np.isfinite(near)
        for k in range(FEWEST):
            least[k], near = np.minimum(least[k], near), np.maximum(least[k], near)
    chosen = np.select([count >= 6, count >= 4], [least[2], least[1]], least[0])
    usual = np.clip(chosen / 2, typical, BURST * typical)
    return np.where(count >= FEWEST, usual, typical) + 1e-30


def _neighbors(size: Array) -> Iterator[Array]:
    """The same moved by one slot after another to both sides; infinite where there is none."""
    for k in range(1, min(REACH, size.shape[2] - 1) + 1):
        for to, of in ((slice(k, None), slice(-k)), (slice(-k), slice(k, None))):
            near = np.full_like(size, np.inf)
            near[..., to] = size[..., of]
            yield near

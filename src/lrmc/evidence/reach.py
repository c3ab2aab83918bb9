"""How many good residuals lie far out, judged by those that do: not by the many in the middle.

A shape that fits the bulk says little of what lies ten times farther, where rows and columns with
heavy tails of their own are on their way out: of 13,800 residuals of a medical table it expected 23
good ones beyond a border, and there were 137. So residuals beyond a start are looked at alone. Good
ones go on falling from there, as a power or faster; gross errors do not fall. The start is moved
outwards step by step, and the largest number that any of them expects is the one that is told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..weights import Array
from .tails import TINY, Tails

# k: 0 is a power law, 1 an exponential, 2 a Gaussian
BENDS = (0.0, 0.5, 1.0, 2.0)
# a: good residuals have a variance; what falls more slowly (decimal points in the wrong place, of
# columns of all sizes) is gross
STEEPNESS = np.geomspace(2.0, 40.0, 25)
# times k: what bends has begun to fall where the tail begins; the far end of gross errors, which is
# not sharp, has not
BENT = 1.5
OUTWARDS = 1.6  # times as far: the next start
FEWEST = 20  # residuals beyond a start: fewer say nothing
EARNED = 3.0  # in logarithms of the likelihood, by which two kinds must explain more than one
ROUNDS, SETTLED = 30, 1e-4  # of expectation-maximisation
FARTHEST = 30.0  # times a start: a few errors that are huge do not make a fall slow
CLEAR = 0.05  # of what is beyond a start is good: farther out it is less still
DOUBTFUL = 0.5  # of what is found is good: where the first start is


class Falling(NamedTuple):
    """Good residuals beyond a start: exp(-a (x^k - 1) / k) of them are beyond x times as far."""

    a: float
    k: float
    share: float  # of what is beyond the start

    def beyond(self, times: Array) -> Array:
        """The share that is good, and so many times as far as the start."""
        return np.asarray(self.share * np.exp(-self.a * _power(times, self.k)))


def _power(times: Array, k: float) -> Array:
    """The transformation of Box and Cox, 1964."""
    return np.asarray(np.log(times) if k == 0 else (times**k - 1) / k)


def good_beyond(
    residual: Array,
    scale: Array,
    tails: Tails,
    borders: Array,
    good: Array,
) -> Array:
    """The share of all residuals that are good and beyond each of these borders, in units of the
    scales; `good` is what `tails` expects, and the least that is told.
    """
    size = np.abs(residual).astype(np.float64) / scale
    found = np.array([np.mean(size > border) for border in borders])
    doubtful = good > DOUBTFUL * found
    # nothing is known of what is nearer: all of it may be good
    first = int(np.argmin(doubtful)) if not doubtful.all() else len(borders) - 1
    told = np.where(np.arange(len(borders)) < first, np.maximum(good, found), good)
    start = float(borders[first])
    while (count := int(np.sum(size > start))) >= FEWEST:
        far = size > start
        falling = _fit(residual[far], scale[far], tails, start)
        before = int(np.sum((size > start / OUTWARDS) & ~far))
        falling = _carried_on(falling, before / count)
        times = np.maximum(borders / start, 1.0)
        more = falling.beyond(times) * count / len(size)
        told = np.where(borders >= start, np.maximum(told, more), told)
        if falling.share < CLEAR:
            break
        start *= OUTWARDS
    return np.asarray(np.minimum(told, np.maximum(found, good)))


def _carried_on(falling: Falling, before: float) -> Falling:
    """The same with no more good ones than carry on those before the start: `before` is how many
    there are within the last step, for each beyond. What falls has more of them there; where there
    are hardly any, another kind of residuals begins.
    """
    more = OUTWARDS**falling.a - 1
    return falling._replace(share=min(falling.share, before / more))


def _fit(residual: Array, scale: Array, tails: Tails, start: float) -> Falling:
    """The most likely fall of what is beyond a start: all of it is good unless gross errors explain
    clearly more, and nothing is unless a fall does.
    """
    times = np.minimum(np.abs(residual) / scale / start, FARTHEST)
    gross = tails.gross_from(residual, scale, start)
    best = plain = Falling(1.0, 0.0, 1.0)
    most = alone = -np.inf
    for k in BENDS:
        power, slope = _power(times, k), times ** (k - 1)
        for a in STEEPNESS[BENT * k <= STEEPNESS]:
            good = a * slope * np.exp(-a * power)
            share = _share(good, gross)
            mixed = np.maximum(share * good + (1 - share) * gross, TINY)
            likelihood = float(np.log(mixed).sum())
            if likelihood > most:
                best, most = Falling(float(a), k, share), likelihood
            likelihood = float(np.log(np.maximum(good, TINY)).sum())
            if likelihood > alone:
                plain, alone = Falling(float(a), k, 1.0), likelihood
    if most - alone < EARNED:
        return plain
    flat = float(np.log(np.maximum(gross, TINY)).sum())
    return best if most - flat > EARNED else best._replace(share=0.0)


def _share(good: Array, gross: Array) -> float:
    """Of good ones in a mixture of the two densities: expectation-maximisation."""
    share = 0.5
    for _ in range(ROUNDS):
        mine = share * good
        after = float(np.mean(mine / np.maximum(mine + (1 - share) * gross, TINY)))
        if abs(after - share) < SETTLED:
            break
        share = after
    return after

"""Whether columns have an order, and whether they have a period: before anything is fitted."""

from __future__ import annotations

import numpy as np

from ..._scipy import fft
from ...weights import Array
from ..interpolation import last_before, some_lines
from .sizes import median, medians_of_rows

# standard deviations of random orders: tables without one have up to 7, those with one from 14 on
ORDERED = 12.0
ORDERS = 20  # random ones
# the correlation of neighbors, beyond medians: large tables are surely ordered by less, of which low rank
# knows most (films by their number, 0.18: 0.1 % of the error). Made households with gaps and outliers,
# whose order helps, have 0.25, most of R's ordered tables 0.5 and more
WORTH = 0.2
# of what entries at any two times differ by. Of 64 tables, those of time and panels are below 0.55,
# those whose rows are people or cars above 0.65; what is tried has to prove itself
SMOOTH = 0.5
SHORTEST = 4  # slots of a period
FEWEST = 3  # periods that must be there
CLIPPED = 3.0  # median absolute deviations
PEAK = 0.2  # of the correlation of neighbors, that a period has at least
RISE = 0.15  # above what was lowest before
NEARLY = (
    0.8  # of the highest peak: the first such is the period, the others its multiples
)
LEAST = 0.1  # correlation of neighbors: with less there is no order that could have a period
CHANCE = 4.0  # standard deviations of the correlation of independent pairs
TINY = 1e-300
MOST_TIMES = 14  # periods in a longer one
LONGER = 0.03  # by which the correlation must be higher


def is_ordered(Y: Array, seed: int = 0) -> bool:
    """Whether neighboring columns are more alike than chance has it, and by as much as may help."""
    return order_score(Y, seed) > ORDERED and correlation(Y) > WORTH


def correlation(Y: Array) -> float:
    """Of neighboring columns, as `order_score` compares them."""
    Z = _in_deviations_of_both(Y)
    left, right = Z[:, :-1], Z[:, 1:]
    both = ~np.isnan(left + right)
    left, right = left[both], right[both]
    size = np.sqrt((left @ left) * (right @ right))
    return float(left @ right) / max(float(size), TINY)


def order_score(Y: Array, seed: int = 0) -> float:
    """How much more neighboring columns are alike than random pairs, in standard deviations of
    random orders, whatever units sensors have."""
    if Y.shape[1] < FEWEST:
        return 0.0
    Z = np.nan_to_num(_in_deviations_of_both(Y))
    rng = np.random.default_rng(seed)
    n = Z.shape[1]
    own = _likeness(Z, np.arange(n))
    others = [_likeness(Z, rng.permutation(n)) for _ in range(ORDERS)]
    return float((own - np.mean(others)) / (np.std(others) + 1e-12))


def is_smooth(Y: Array, seed: int = 0) -> bool:
    """Whether most sensors differ much less from one time to the next than between any two: those
    that rise and fall together as well, which columns that are alike do not tell."""
    some = Y[some_lines(len(Y))]
    order = np.random.default_rng(seed).permutation(Y.shape[1])
    beside, elsewhere = steps_of(some), steps_of(some[:, order])
    told = elsewhere > 0
    return bool(told.any() and np.median(beside[told] / elsewhere[told]) < SMOOTH)


def steps_of(Y: Array) -> Array:
    """By how much the entries of each row typically differ from the last before them; 0 without
    any."""
    apart = np.abs(Y - last_before(Y)[0])
    return np.nan_to_num(median(apart))


def _likeness(Z: Array, order: Array) -> float:
    return float(np.mean(Z[:, order[1:]] * Z[:, order[:-1]]))


def _in_deviations_of_both(Y: Array) -> Array:
    """In deviations of rows, of columns, and of rows again."""
    return _in_deviations(_in_deviations(_in_deviations(Y).T).T)


def _standardized(Y: Array) -> Array:
    """As `_in_deviations`; 0 where missing."""
    return np.nan_to_num(_in_deviations(Y))


def _in_deviations(Y: Array) -> Array:
    """Rows from their medians in median absolute deviations, clipped."""
    Z = Y - medians_of_rows(Y[:, None, :])[:, None]
    spread = medians_of_rows(np.abs(Z)[:, None, :])[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(Z / (1.4826 * spread), -CLIPPED, CLIPPED)


def autocorrelation(Y: Array) -> Array:
    """By lag, over all sensors and pairs of seen entries; 1 for neighbors, 0 where it may be
    chance."""
    T = Y.shape[1]
    n = fft.next_fast_len(2 * T)
    products, pairs = np.zeros(n), np.zeros(n)
    Z, seen = _standardized(Y), (~np.isnan(Y)).astype(Y.dtype)
    for z, there in zip(Z, seen, strict=True):
        for x, total in ((z, products), (there, pairs)):
            total += fft.irfft(np.abs(fft.rfft(x, n)) ** 2, n)
    correlation = products[:T] / np.maximum(pairs[:T], 1)
    near = max(float(correlation[1:4].mean()), LEAST * float(correlation[0]), 1e-12)
    by_chance = CHANCE * correlation[0] / np.sqrt(np.maximum(pairs[:T], 1))
    return np.where(correlation > by_chance, correlation / near, 0)


def find_period(Y: Array) -> int | None:
    """The first lag with a high peak of the autocorrelation; None if there is none."""
    c = autocorrelation(Y)
    T = len(c)
    reach = 3 * max(1, T // 1000)
    peaks = [h for h in range(SHORTEST, T // FEWEST) if _is_peak(c, h, reach)]
    if not peaks:
        return None
    best = max(c[h] for h in peaks)
    first = next(h for h in peaks if c[h] >= NEARLY * best)
    # a lag that is off by one is found out over several periods
    return max(range(max(first - 2, SHORTEST), first + 3), key=lambda h: _comb(c, h))


def _is_peak(c: Array, h: int, reach: int) -> bool:
    here = c[max(h - reach, 1) : h + reach + 1]
    before = c[SHORTEST // 2 : h]
    return bool(c[h] > PEAK and c[h] >= here.max() and c[h] > before.min() + RISE)


def _comb(c: Array, h: int) -> float:
    return float(c[h::h].sum() / len(c[h::h]))


def longer_period(Y: Array, period: int) -> int | None:
    """A multiple after which values are clearly more alike than after one period: the week of a
    table with days. None if there is none."""
    c = autocorrelation(Y)
    most = min(len(c) // (2 * period), MOST_TIMES)
    if most < 2:
        return None
    times = max(range(2, most + 1), key=lambda k: c[k * period])
    return times * period if c[times * period] > c[period] + LONGER else None

"""Entries that a process takes for gross errors, and that go on from those around them."""

from __future__ import annotations

import numpy as np

from ...weights import Array
from .robust import BELIEVED, OF_DENSITY, SOME, Recurring, fitted_mixture
from .sizes import median, typical_rows

NEAR = 2  # entries on each side that tell what an entry goes on from
FEWEST = 2  # of them, that have another value
WIDEST = (
    0.99  # quantile of what doubted entries are off by: gross errors are anywhere in it
)
ROUNDS = 30
LEAST = 1e-4  # of the doubted entries, and of the others


def reconsidered(Y: Array, good: Array, alike: Recurring) -> Array:
    """Chances of entries (sensors x days x slots) to be good, 1 for those of the doubted ones that
    are more likely than not near the median of entries around them.

    On a day unlike all others a process goes its own way where entries are few, and leaves out the
    few that hold it. Which part of what is doubted is good, expectation-maximisation tells. A value
    that was a gross error elsewhere has no second chance, nor do entries of the same value speak
    for each other."""
    seen = ~np.isnan(Y)
    chance = good[seen]
    off = off_others(Y, seen)
    told = np.isfinite(off)
    usual = alike.shares(chance, float(chance.mean()))
    some = np.flatnonzero(told & (chance < BELIEVED) & (usual > BELIEVED))
    doubted = off[told & (chance < BELIEVED)]
    if not len(some):
        return good
    size = fitted_mixture(off[told][:: -(-int(told.sum()) // SOME)]).deviation
    widest = max(float(np.quantile(doubted, WIDEST)), size)
    ratio = widest * OF_DENSITY / size * np.exp(-0.5 * (doubted / size) ** 2)
    share = BELIEVED
    for _ in range(ROUNDS):
        share = float(np.mean(share * ratio / (share * ratio + 1 - share)))
        share = min(max(share, LEAST), 1 - LEAST)
    near = widest * OF_DENSITY / size * np.exp(-0.5 * (off[some] / size) ** 2)
    chance[some[share * near > 1 - share]] = 1
    found = np.zeros_like(good)
    found[seen] = chance
    return found


def off_others(Y: Array, seen: Array) -> Array:
    """How far entries that were seen are from the median of those around them on the same day that
    have another value, in units of their sensor; infinite where there are too few."""
    y = Y[seen]
    day = np.nonzero(seen.reshape(-1, seen.shape[2]))[0]
    near = np.arange(len(y))[:, None] + np.r_[-NEAR:0, 1 : NEAR + 1]
    there = (near >= 0) & (near < len(y))
    near = np.where(there, near, 0)
    there &= (day[near] == day[:, None]) & (y[near] != y[:, None])
    off = np.full(Y.shape, np.nan, Y.dtype)
    enough = there.sum(1) >= FEWEST
    off[seen] = np.where(
        enough, np.abs(y - median(np.where(there, y[near], np.nan))), np.nan
    )
    off /= typical_rows(off)[:, None, None]
    return np.nan_to_num(off[seen], nan=np.inf, posinf=np.inf)

"""Entries set aside in the shape of the gaps: runs in time of a sensor, and of all sensors."""

from __future__ import annotations

import numpy as np

from ...weights import Array

SHARE = 0.1  # of the observed entries that are set aside
MOST = 50_000  # of them
# times the variance by chance, from which on sensors fail together; of a few sensors, whose variance
# is as many times that at most, half of the way there
TOGETHER, HALFWAY = 4.0, 0.5
LEAST_LEFT = 0.3  # of a sensor's entries that a late beginning laid over it leaves
# by which masks of neighboring sensors are more alike (correlations) than those of any two, and than
# one time is like the next, where entries were seen in stretches: 0.9 for cars on a road, others 0.1
STRETCHES = 0.5
PAIRS = 200  # of sensors, and of times, that tell it
WINDOWS = 40  # in which gaps are moved together, of the whole length


def gaps_elsewhere(
    seen: Array,
    seed: int,
    period: int | None = None,
    most: int = MOST,
) -> Array:
    """Which of the seen entries (sensors x times) to set aside: gaps, moved in time.

    Gaps of single sensors are moved one by one; those of times where sensors fail together by
    windows, as they are. A move is one of whole periods, if there is one, so that days stay days. A gap
    before the first entry of a sensor or after its last is moved to another sensor. Single entries,
    where there are no gaps. Whole stretches of sensors, if entries were seen in such."""
    rng = np.random.default_rng(seed)
    wanted = min(SHARE * seen.sum(), most)
    if in_stretches(seen):
        held = _stretches(seen, wanted, rng)
        return held & _others_left(seen & ~held)
    held = np.zeros_like(seen)
    if not seen.all():
        beyond = beyond_ends(seen)
        within = ~seen & ~beyond
        common = _shared_gaps(within)
        per_gap = wanted / (~seen).sum()
        for gaps, move in ((common, _windows_moved), (within & ~common, _moved)):
            if gaps.any():
                held |= move(gaps, per_gap * gaps.sum(), rng, period) & seen
        if beyond.any():
            held |= _of_other_sensors(beyond, per_gap * beyond.sum(), seen, rng)
    # gaps that recur at the same places cannot be moved by periods
    if held.sum() < 0.1 * wanted:
        held |= seen & (rng.random(seen.shape) < wanted / seen.sum())
    return held & _others_left(seen & ~held)


def gaps_for(seen: Array, judged: Array, seed: int, period: int | None) -> Array:
    """Entries to set aside where only some sensors are judged: gaps of these, moved in time.

    Of all sensors, where they fail together: others would tell what is set aside, which nobody does
    in the gaps themselves."""
    if fail_together(seen) or in_stretches(seen):
        most = MOST * len(seen) // len(judged)
        return gaps_elsewhere(seen, seed, period, most)
    held = np.zeros_like(seen)
    held[judged] = gaps_elsewhere(seen[judged], seed, period)
    return held


def beyond_ends(seen: Array) -> Array:
    """Entries before the first of a sensor or after its last; none of one that has no entry."""
    begun = np.maximum.accumulate(seen, axis=1)
    to_come = np.maximum.accumulate(seen[:, ::-1], axis=1)[:, ::-1]
    return (begun ^ to_come) & ~seen


def beside_gaps(seen: Array) -> Array:
    """Entries (sensors x times) that were seen, just before or after one that was not."""
    missing = np.pad(~seen, ((0, 0), (1, 1)))
    return seen & (missing[:, :-2] | missing[:, 2:])


def _of_other_sensors(
    beyond: Array,
    wanted: float,
    seen: Array,
    rng: np.random.Generator,
) -> Array:
    """Late beginnings and early ends, laid over other sensors: about so many entries."""
    held = np.zeros_like(beyond)
    for s in rng.permutation(len(beyond)):
        gap = beyond[rng.choice(np.flatnonzero(beyond.any(1)))]
        if (seen[s] & ~gap).sum() > LEAST_LEFT * seen[s].sum():
            held[s] = gap & seen[s]
        if held.sum() >= wanted:
            break
    return held


def fail_together(seen: Array) -> bool:
    """Whether the share of missing sensors varies in time far more than by chance."""
    if len(seen) < 2:
        return False
    missing = 1 - float(seen.mean())
    by_chance = missing * (1 - missing) / len(seen)
    enough = min(TOGETHER, 1 + HALFWAY * (len(seen) - 1))
    return float((1 - seen.mean(0)).var()) > enough * by_chance


def in_stretches(seen: Array) -> bool:
    """Whether entries were seen in stretches of neighboring sensors, anew from one time to the next, as
    by a car that passes them.

    Entries of one stretch have errors in common: one that is set aside amid the others of its car is
    missed by less than what no car has seen."""
    n, T = seen.shape
    if seen.all() or n < 2 or T < 2:
        return False
    rng = np.random.default_rng(0)
    lines, times = rng.integers(0, n - 1, PAIRS), rng.integers(0, T - 1, PAIRS)
    beside = _likeness(seen[lines], seen[lines + 1])
    others = _likeness(seen[lines], seen[rng.permutation(lines)])
    in_time = _likeness(seen[:, times], seen[:, times + 1])
    return beside - max(others, in_time) > STRETCHES


def _likeness(a: Array, b: Array) -> float:
    """The correlation of two masks."""
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).mean() / max(a.std() * b.std(), 1e-30))


def _stretches(seen: Array, wanted: float, rng: np.random.Generator) -> Array:
    """Some of the stretches of sensors that were seen at a time: about so many entries."""
    times, _, lengths = runs(seen.T)
    number = np.repeat(np.arange(len(times)), lengths)
    order = rng.permutation(len(times))
    count = int(np.searchsorted(np.cumsum(lengths[order]), wanted)) + 1
    chosen = np.zeros(len(times), bool)
    chosen[order[:count]] = True
    held = np.zeros_like(seen.T)
    held[seen.T] = chosen[number]
    return np.ascontiguousarray(held.T)


def _shared_gaps(missing: Array) -> Array:
    """Gaps at times where more sensors fail than by chance, if sensors fail together; all gaps, if
    they do so at other times, too.
    """
    if not fail_together(~missing):
        return np.zeros_like(missing)
    share = missing.mean(0)
    usual = float(np.median(share))
    by_chance = usual * (1 - usual) / len(missing)
    shared = share > usual + np.sqrt(TOGETHER * by_chance)
    return missing if fail_together(~missing[:, ~shared]) else missing & shared


def _windows_moved(
    missing: Array,
    wanted: float,
    rng: np.random.Generator,
    period: int | None,
) -> Array:
    """All gaps of some windows, elsewhere: about so many entries."""
    length = missing.shape[1]
    step = period if period is not None and 2 * period <= length else 1
    moved = np.zeros_like(missing)
    width = max(period or 0, length // WINDOWS, 1)
    for begin in rng.permutation(length)[: 2 * WINDOWS]:
        here = (begin + np.arange(width)) % length
        there = (here + step * int(rng.integers(1, max(length // step, 2)))) % length
        moved[:, here] |= missing[:, there]
        if (moved & ~missing).sum() >= wanted:
            break
    return moved


def _others_left(left: Array) -> Array:
    """Where a sensor keeps an entry: one that loses all of them tells nothing."""
    return np.broadcast_to(left.any(1, keepdims=True), left.shape)


def _moved(
    missing: Array,
    wanted: float,
    rng: np.random.Generator,
    period: int | None,
) -> Array:
    """Runs of missing entries in the same row, elsewhere: about so many entries."""
    n, length = missing.shape
    rows, starts, lengths = runs(missing)
    # some of a moved gap falls on what is missing anyway
    wanted = wanted / max(1 - float(missing.mean()), SHARE)
    order = rng.permutation(len(rows))
    chosen = order[: int(np.searchsorted(np.cumsum(lengths[order]), wanted)) + 1]
    rows, starts, lengths = rows[chosen], starts[chosen], lengths[chosen]
    step = period if period is not None and 2 * period <= length else 1
    room = (length - lengths - starts % step) // step + 1
    starts = starts % step + step * rng.integers(0, room)
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    places = places + np.arange(len(places))
    moved = np.zeros((n, length), bool)
    moved[np.repeat(rows, lengths), places] = True
    return moved


def gaps_of(missing: Array) -> Array:
    """The number of the gap of each missing entry, row by row; sensors that fail from one time to
    another are one gap."""
    _, starts, lengths = runs(missing)
    same = np.unique(np.stack([starts, lengths]), axis=1, return_inverse=True)[1]
    return np.repeat(same.ravel(), lengths)


def runs(missing: Array) -> tuple[Array, Array, Array]:
    """Rows, beginnings and lengths of runs of True along the last axis."""
    padded = np.pad(missing.astype(np.int8), ((0, 0), (1, 1)))
    edges = np.diff(padded, axis=1)
    rows, starts = np.nonzero(edges == 1)
    return rows, starts, np.nonzero(edges == -1)[1] - starts

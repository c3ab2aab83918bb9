"""Sensors that fail for a while: stretches that are off as a whole, or stuck at a value.

Entries of such a stretch agree with each other, so that no entry tells of the one beside it that it is
wrong, and a process in time follows them. What speaks against a stretch is what the other sensors say
of its times: beside that, it begins and ends with a jump, and is level in between. (A jam or a storm
is uneven, comes and goes by and by, or is seen by others.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .gaps import runs
from .kinds import stuck
from .simple import OF_GAUSSIAN

FEWEST = 4  # entries of a stretch, and on each side of an edge
FLANK = 6  # entries on each side of a stretch that it is held against
LEAST_FLANK = 3
# of a sensor's entries: what lasts longer is how the sensor is, as far as the table tells
LONGEST = 0.1
EDGE = 3.0  # standard errors, from which on a change of level may be an edge
# of the standard errors of a stretch that are wanted, at its edges: with as many entries on both
# sides they would be more than half
OF_STRETCH = 0.2
NEXT = 6  # edges that the other end of a stretch is looked for among
NEARBY = (-2, -1, 1, 2)  # entries by which an edge may be off
LONGER = 1.2  # times the length before: lengths of drifts that are tried
PROMISING = 0.5  # of the standard errors that are wanted: the best ends are looked for from there on
SUSPECT = 8.0  # standard errors of a stretch that the others are asked about without it
FAR = 2.0  # standard deviations
# of the entries: real tables that pass for clean have about as many in such stretches (0.03 to 0.2 %,
# once 0.4); those that are stuck are listed all the same
FEW = 2e-3
EVEN = 0.1  # of the usual variance around an edge, the least that counts: values are rounded
TINY = 1e-30


def faulty(
    Y: Array,
    low_rank: Callable[[int], Array],
    asked_again: Callable[[Array], Array] | None,
) -> Array | None:
    """Which entries of Y (sensors x times, NaN where missing) are in faulty stretches; None if none is,
    or so few that they may be events.

    `low_rank` gives what the other sensors say of a sensor. What is suspected there is left out, and
    what remains says what to expect of every entry (`asked_again`, sensors x times); where that would
    take too long (None), what was said first has to be clear."""
    repeated = stuck(Y)
    off = _off_as_a_whole(Y, low_rank, SUSPECT if asked_again else None)
    suspected = off | repeated
    few = FEW * float((~np.isnan(Y)).sum())
    if suspected.sum() <= few:
        return None
    expected: Callable[[int], Array] = low_rank
    if asked_again is not None:
        again = asked_again(np.where(suspected, np.nan, Y).astype(Y.dtype))
        expected = again.__getitem__
        off = _off_as_a_whole(Y, expected)
    found = off | _unlike(Y, expected, repeated)
    return found if found.sum() > few else None


def _off_as_a_whole(
    Y: Array,
    expected: Callable[[int], Array],
    least: float | None = None,
) -> Array:
    """Which entries are in stretches beyond so many standard errors; those that one can be sure of,
    if nothing is said."""
    found = np.zeros(Y.shape, bool)
    for s, y in enumerate(Y):
        at = np.flatnonzero(~np.isnan(y))
        e = (y - expected(s))[at].astype(np.float64)
        usual = float(np.median(np.abs(e))) if len(e) else 0.0
        for begin, end in stretches(e, (SHIFT, DRIFT), least):
            far = abs(float(np.median(e[begin:end]))) > usual
            found[s, at[begin:end]] |= far and not _is_state(y[at], begin, end)
    return found


def _is_state(y: Array, begin: int, end: int) -> bool:
    """Whether most of a stretch has one value, which the sensor has as often at other times: a switch
    or a set point goes from one level to another, and is no fault. (What is stuck is told by itself.)
    """
    here = np.sort(y[begin:end])
    value = here[len(here) // 2]
    count = int((here == value).sum())
    most = 2 * count > len(here)
    return most and int((y == value).sum()) >= 2 * count


def _unlike(Y: Array, expected: Callable[[int], Array], repeated: Array) -> Array:
    """Which of the stretches of repeats are far from what is expected: others do no harm."""
    found = np.zeros_like(repeated)
    for s in map(int, np.flatnonzero(repeated.any(1))):
        size = np.abs(Y[s] - expected(s))
        at = np.flatnonzero(~np.isnan(size))
        usual = OF_GAUSSIAN * float(np.median(size[at]))
        _, begins, lengths = runs(repeated[s, at][None])
        for begin, length in zip(begins, lengths, strict=True):
            here = at[begin : begin + length]
            found[s, here] = float(np.median(size[here])) > FAR * usual
    return found


class Sums(NamedTuple):
    """Of residuals, of their squares, and of residuals by their number, up to each."""

    first: Array
    second: Array
    moment: Array

    @classmethod
    def of(cls, e: Array) -> Sums:
        """One more than there are residuals."""
        parts = (e, e * e, e * np.arange(len(e)))
        return cls(*(np.concatenate([[0.0], np.cumsum(x)]) for x in parts))

    @property
    def n_entries(self) -> int:
        """Of residuals."""
        return len(self.first) - 1

    def between(self, begin: Array, end: Array) -> tuple[Array, Array]:
        """The mean from one to another, and the sum of squares around it."""
        n = np.maximum(end - begin, 1)
        total = self.first[end] - self.first[begin]
        squares = self.second[end] - self.second[begin]
        return total / n, squares - total * total / n


class Shape(NamedTuple):
    """What a fault adds to a stretch, h at each of its entries, and its products with residuals."""

    h: Array  # the sum
    hh: Array
    he: Array


def _level(sums: Sums, begin: Array, end: Array) -> Shape:
    """The same everywhere."""
    n = np.maximum(end - begin, 1).astype(np.float64)
    return Shape(n, n, sums.first[end] - sums.first[begin])


def _growing(sums: Sums, begin: Array, end: Array) -> Shape:
    """From 0 to 1 along a line."""
    n = np.maximum(end - begin, 1).astype(np.float64)
    total = sums.first[end] - sums.first[begin]
    moment = sums.moment[end] - sums.moment[begin]
    return Shape(
        n / 2, (4 * n * n - 1) / (12 * n), (moment - (begin - 0.5) * total) / n
    )


class Fault(NamedTuple):
    """A kind of fault that lasts, and how sure one must be of it."""

    shape: Callable[[Sums, Array, Array], Shape]
    sure: float


# standard errors, beyond what events of clean real tables reach (60 sensors of METR-LA: 22 level ones
# beyond 15, 5 beyond 20, one beyond 30; what grows along a line and ends at once is rarer: 2 beyond
# 15, none beyond 20). A jam that is left out costs more than a shift that is believed
SHIFT, DRIFT = Fault(_level, 30.0), Fault(_growing, 20.0)


class Stretch(NamedTuple):
    """Candidates of one sensor, by the number of their entries among those that were seen."""

    begin: Array
    end: Array
    sure: Array  # standard errors between the stretch and both of its sides

    def better(self, other: Stretch) -> Stretch:
        """Of each of them, the one that is surer."""
        more = other.sure > self.sure
        both = zip(self, other, strict=True)
        return Stretch(*(np.where(more, b, a) for a, b in both))


def stretches(
    e: Array,
    faults: tuple[Fault, ...],
    least: float | None = None,
) -> Iterator[tuple[int, int]]:
    """Beginnings and ends of stretches of residuals that are off as one of these faults is, by more
    than so many standard errors from both sides (those that one can be sure of, if nothing is said);
    of each fault the surest first, none over another."""
    sums = Sums.of(e)
    every, changes = _edges(sums)
    longest = int(LONGEST * len(e))
    for fault in faults:
        sure = fault.sure if least is None else least
        some = np.abs(changes) > max(EDGE, OF_STRETCH * sure)
        at, sign = every[some], np.sign(changes[some])
        pairs = _pairs(at, sign, longest) if fault is SHIFT else _ramps(at, longest)
        found = _refined(sums, fault, *pairs, least=PROMISING * sure)
        yield from _apart(found, sure, len(e))


def _apart(found: Stretch, least: float, n_entries: int) -> Iterator[tuple[int, int]]:
    """Those beyond so many standard errors, the surest first, without what lies over them."""
    taken = np.zeros(n_entries, bool)
    for k in np.argsort(-found.sure):
        if not found.sure[k] > least:
            return
        begin, end = int(found.begin[k]), int(found.end[k])
        if not taken[begin:end].any():
            taken[max(begin - 1, 0) : end + 1] = True
            yield begin, end


def _edges(sums: Sums) -> tuple[Array, Array]:
    """Where the level changes more than around, and by how many standard errors."""
    at = np.arange(FEWEST, sums.n_entries - FEWEST + 1)
    if not len(at):
        return at, at
    before, around_before = sums.between(at - FEWEST, at)
    after, around_after = sums.between(at, at + FEWEST)
    around = np.maximum(around_before + around_after, 0)
    variance = (around + EVEN * np.median(around) + TINY) / (2 * FEWEST - 2)
    change = (after - before) / np.sqrt(variance * 2 / FEWEST)
    size = np.pad(np.abs(change), 1)
    top = (size[1:-1] >= size[:-2]) & (size[1:-1] >= size[2:])
    return at[top], change[top]


def _pairs(at: Array, sign: Array, longest: int) -> tuple[Array, Array]:
    """Edges to opposite sides that may be the ends of one stretch."""
    begins, ends = [at[:0]], [at[:0]]
    for k in range(1, min(NEXT, len(at) - 1) + 1):
        length = at[k:] - at[:-k]
        some = (sign[k:] != sign[:-k]) & (length >= FEWEST) & (length <= longest)
        begins.append(at[:-k][some])
        ends.append(at[k:][some])
    return np.concatenate(begins), np.concatenate(ends)


def _ramps(at: Array, longest: int) -> tuple[Array, Array]:
    """Stretches of several lengths that end with an edge."""
    n = int(np.log(max(longest / FEWEST, 1)) / np.log(LONGER)) + 1
    lengths = np.unique(np.rint(FEWEST * LONGER ** np.arange(n)).astype(at.dtype))
    ends = np.repeat(at, len(lengths))
    begins = ends - np.tile(lengths, len(at))
    inside = (begins >= 0) & (longest >= FEWEST)
    return begins[inside], ends[inside]


def _refined(
    sums: Sums,
    fault: Fault,
    begin: Array,
    end: Array,
    least: float,
) -> Stretch:
    """Stretches that may be so sure, with the best ends nearby: first the one, then the other."""
    sure = _standard_errors(sums, fault, begin, end)
    found = Stretch(*(x[sure > least] for x in (begin, end, sure)))
    if not len(found.begin):
        return found
    for first, last in ((1, 0), (0, 1)):
        begin, end, _ = found
        for k in NEARBY:
            a = np.maximum(begin + k * first, 0)
            b = np.minimum(end + k * last, sums.n_entries)
            found = found.better(Stretch(a, b, _standard_errors(sums, fault, a, b)))
    return found


def _standard_errors(sums: Sums, fault: Fault, begin: Array, end: Array) -> Array:
    """Of a fault of this shape, from the level of the nearer of both sides, by what it leaves and how
    uneven these are; 0 where both do not agree on its sign."""
    first, last = np.maximum(begin - FLANK, 0), np.minimum(end + FLANK, sums.n_entries)
    (left, rest_left), (right, rest_right) = (
        sums.between(*ends) for ends in ((first, begin), (end, last))
    )
    n, free = end - begin, np.maximum(last - first - 3, 1)
    mean, around = sums.between(begin, end)
    h, hh, he = fault.shape(sums, begin, end)
    error_of_one = np.sqrt(1 / hh + (h / hh) ** 2 / FLANK)
    found = []
    for level in (left, right):
        size = (he - h * level) / hh
        rest = around + n * (mean - level) ** 2 - size * size * hh
        variance = np.maximum(rest + rest_left + rest_right, TINY) / free
        found.append(size / np.sqrt(variance) / error_of_one)
    possible = (found[0] * found[1] > 0) & (n >= FEWEST)
    possible &= (begin - first >= LEAST_FLANK) & (last - end >= LEAST_FLANK)
    return np.where(possible, np.minimum(*np.abs(found)), 0.0)

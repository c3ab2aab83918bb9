"""Some observed entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import _kernels
from ..linalg import Factors, entries_at
from ..weights import Array

# of all entries: a value that is found more often is left out of quantiles
OFTEN = 0.05
# of all entries: a value that is found more often than this is the pattern, and others are outliers
DOMINANT = 0.85
# of all entries: without a value that is found more often, the median of sizes is among the lower
# half of the others at least; with it, anywhere down to 0
A_QUARTER = 0.25
FEWEST_TELLING = 30  # entries that must be left then
# of a line's entries, and of all: where more have the value that is usual in their line, the median
# of sizes can be that of residuals which any fit meets
MOST = 0.5
LOOKED_AT = 2_000  # entries that tell whether values repeat at all
SINGLE = 2  # entries of a line with one value may have it by chance
SHORT = 2**16
# of values that come again: no more than so many of them differ
AGAIN = 0.5
FEWEST_STEPS = 2  # values: two are always multiples of something
EVEN = 0.05  # of a step: by how much multiples of it may be rounded


def most_frequent(values: Array) -> tuple[float, int]:
    """The most frequent value, the least of several, and how often it stands there: data that are 0
    in many places agree with X = 0 there.
    """
    return _kernels.most_frequent(_kernels.ready(values, values.dtype))


def telling(values: Array, often: float = A_QUARTER, most: float = 1.0) -> Array:
    """Which of them are not the value that stands in more than such a part of the places, but in no
    more than `most`, if others are left: all of them where there is no such value.
    """
    value, times = most_frequent(values)
    share = times / max(len(values), 1)
    if not often < share < most or len(values) - times < FEWEST_TELLING:
        return np.ones(len(values), bool)
    return np.asarray(values != value)


def usual_in_lines(lines: Array, values: Array, often: float = MOST) -> Array:
    """Which entries have a value that more than such a part of the entries of their line have."""
    order = np.lexsort((values, lines))
    line, value = lines[order], values[order]
    begins = (line[1:] != line[:-1]) | (value[1:] != value[:-1])
    first = np.concatenate([[0], 1 + np.flatnonzero(begins)])
    times = np.diff(first, append=len(order))
    of_line = np.bincount(lines)[line[first]]
    usual = np.empty(len(order), bool)
    usual[order] = np.repeat((times > often * of_line) & (times > SINGLE), times)
    return usual


def step_of(values: Array) -> float:
    """What lies between values that come again and are all multiples of it: grey levels, tenths of a
    degree. 0 where there is no such step."""
    some = np.unique(values).astype(np.float64)
    if not FEWEST_STEPS < len(some) < AGAIN * len(values):
        return 0.0
    step = float(np.diff(some).min())
    steps = (some - some[0]) / step
    return step if np.abs(steps - np.round(steps)).max() < EVEN else 0.0


def in_order(rows: Array) -> Array:
    """Which rows come first, second and so on."""
    short = rows.max(initial=0) < SHORT
    # numpy sorts short integers by counting: ten times faster
    return np.argsort(rows.astype(np.uint16) if short else rows, kind="stable")


class Sample(NamedTuple):
    """Some observed entries."""

    rows: Array
    cols: Array
    values: Array

    def residual(self, X: Factors) -> Array:
        """Y - L R' at these entries."""
        return self.values - entries_at(X, self.rows, self.cols)

    def sizes(self, X: Factors) -> Array:
        """|Y - L R'| at these entries."""
        dtype = np.result_type(X.L.dtype, X.R.dtype)
        return entries_at(
            X, self.rows, self.cols, self.values.astype(dtype, copy=False)
        )

    def flipped(self) -> Sample:
        """The same entries of the transposed matrix."""
        return Sample(self.cols, self.rows, self.values)

    def thinned(self, most: int) -> Sample:
        """At most so many of these entries, evenly."""
        step = self.every(most)
        return Sample(*(x[::step] for x in self)) if step > 1 else self

    def every(self, most: int) -> int:
        """Every so many of these entries are at most so many."""
        return -(-len(self.values) // most)

    def by_row(self) -> Sample:
        """The same entries in the order of their rows."""
        order = in_order(self.rows)
        return Sample(*(x[order] for x in self))

    def tells(self, often: float = A_QUARTER, most: float = 1.0) -> Array:
        """Which entries say how large residuals are: as `telling` has it, or, where most have the
        value that is usual in their line, the others."""
        others = telling(self.values, often, most)
        if not others.all():
            return others
        usual = self.usual()
        left = len(usual) - int(usual.sum())
        return ~usual if usual.mean() < most and left >= FEWEST_TELLING else others

    def usual(self) -> Array:
        """Which entries have the value that most of their column have, or else of their row; none
        unless these are most of all entries.

        Columns of counts or of yes and no that were standardized have each a zero of their own."""
        if self._repeats():
            for lines in (self.cols, self.rows):
                usual = usual_in_lines(lines, self.values)
                if usual.mean() > MOST:
                    return usual
        return np.zeros(len(self.values), bool)

    def _repeats(self) -> bool:
        """Whether values come again, by some of them."""
        some = self.thinned(LOOKED_AT).values
        return 2 * len(np.unique(some)) < (1 + MOST) * len(some)

    def telling(self, often: float = OFTEN, most: float = DOMINANT) -> Sample:
        """Without the values that stand in many places, as `tells` has it.

        Zeros of a dark border, a saturated or a stuck sensor are met at once or never: quantiles of
        residuals that count them say nothing about the fit. (A value that stands nearly everywhere
        is what there is to fit.)"""
        others = self.tells(often, most)
        return self if others.all() else Sample(*(x[others] for x in self))

"""Lines of a table whose errors have a shape of their own: columns of yes and no, of counts, of values
that end at a limit. A scale alone does not tell it: the size that nine tenths of the errors stay below
is several times the typical one in one column, and hardly more in the next."""

from __future__ import annotations

import numpy as np

from ..observations.base import Sample
from ..observations.sample import usual_in_lines
from ..weights import Array
from .kinds import quantile_of

# errors of all lines that count beside those of each: 20 and 50 hold the same on 80 tables
LENT = 30
LEVEL = 0.9  # by whose intervals it is told whether lines differ
# of the loss: lines that are alike gain up to 0.008 by chance, those of most tables 0.04 to 0.09
WORTH = 0.01
# of the entries of a line: a value that so many have is no gross error (0.02 to 0.1 give the same on 80
# tables; of ratings, a tenth of which were made the lowest or the highest, 0.05 believed those)
OFTEN = 0.1


def axis_of(shape: tuple[int, int]) -> int:
    """The axis of the fewer lines, of which each has more errors: 1 for columns."""
    return int(shape[0] >= shape[1])


def named_alike(whole: tuple[int, int], part: tuple[int, int]) -> bool:
    """Whether the fewer lines of a part of the data, of this shape, are those of all data."""
    axis = axis_of(whole)
    return axis == axis_of(part) and whole[axis] == part[axis]


def common_values(
    lines: Array,
    others: Array,
    values: Array,
) -> Array:
    """Which entries (by the line and the other line that they are in) have a value that is common in
    their line.

    Who is missed there by far is one of the few with the rarer answer, and no gross error: intervals
    of zeros and ones that left these out held 50 to 80 % for 90. An entry may be there several times."""
    places = np.stack([lines, others])
    _, first, number = np.unique(places, axis=1, return_index=True, return_inverse=True)
    common = usual_in_lines(lines[first], values[first], OFTEN)
    return np.asarray(common[number.ravel()])


def line_of(some: Sample, axis: int) -> Array:
    """The line of each of these entries."""
    return some.cols if axis else some.rows


def quantiles_by_line(
    size: Array,
    weight: Array,
    lines: Array,
    level: float,
    asked: Array,
) -> Array:
    """What a new error in each of the lines `asked` stays below with this probability, from weighted
    sizes of others and the lines that these are in. All errors together count as a few of its own.
    """
    order = np.argsort(size)
    size, weight, lines = size[order], weight[order], lines[order]
    lent = np.cumsum(weight) * (LENT / weight.sum())
    by_line = np.argsort(lines, kind="stable")
    first, last = (
        np.searchsorted(lines[by_line], asked, side) for side in ("left", "right")
    )
    found = []
    for begin, end in zip(first, last, strict=True):
        at = by_line[begin:end]
        own = np.cumsum(np.append(0.0, weight[at]))
        count = own[-1]
        # the new one is one of them, as far as they are its own
        wanted = level * (LENT + count + count / (count + LENT))
        k = np.searchsorted(lent[at] + own[1:], wanted)
        place = np.searchsorted(lent, wanted - own[k])
        found.append(min(place, *at[k : k + 1], len(size) - 1))
    return np.asarray(size[found])


def lines_differ(
    size: Array,
    good: Array,
    lines: Array,
    sets: Array,
) -> bool:
    """Whether quantiles of lines suit errors of other sets better than that of all: by what quantiles
    minimize. Where lines are alike, each would have a width of its own by chance."""
    lost = np.zeros(2)
    for k in np.unique(sets):
        own = sets == k
        known = size[~own], good[~own]
        asked, at = np.unique(lines[own], return_inverse=True)
        apart = quantiles_by_line(*known, lines[~own], LEVEL, asked)
        usual = quantile_of(*known, LEVEL, np.arange(len(known[0])))
        for side, border in enumerate((usual, apart[at])):
            away = size[own] - border
            pinball = np.maximum(LEVEL * away, (LEVEL - 1) * away)
            lost[side] += good[own] @ pinball
    return bool(lost[1] < (1 - WORTH) * lost[0])

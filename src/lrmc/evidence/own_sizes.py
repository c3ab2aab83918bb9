"""How large errors of each row and column are beside what the law of scales expects of them.

The law has one power of the noise for all lines. Sensors of other units, a million times as large, or
power that is 0 at night, are beside it: where a line has errors enough, they speak for themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..weights import Array

ENOUGH = (
    50  # errors of a line that tell its size; so many of the usual size are lent to it
)
# of the sizes: of half of them, zeros that any fit meets may be all; of nine tenths, gross errors
TOLD_BY = 0.75
# the variance of the logarithm of this quantile of n errors, times n: .84 of Gaussian ones, more of
# those with tails, and of those that come together
BY_CHANCE = 2.0


class OwnSizes(NamedTuple):
    """Factors of scales, by rows and by columns; 1 where little is known."""

    rows: Array
    cols: Array

    @classmethod
    def even(cls, shape: tuple[int, int]) -> OwnSizes:
        """As the law has it."""
        return cls(*map(np.ones, shape))

    def at(self, rows: Array, cols: Array) -> Array:
        """At these places."""
        return np.asarray(self.rows[rows] * self.cols[cols])

    def of_new_rows(self, n: int) -> OwnSizes:
        """The same columns with so many other rows."""
        return self._replace(rows=np.ones(n))

    def followed(self, size: Array, places: tuple[Array, Array]) -> OwnSizes:
        """The same, and what sizes of errors beside these scales still tell of lines."""
        found = []
        for factor, line in zip(self[::-1], places[::-1], strict=True):
            more = _beside_usual(size, line, len(factor))
            size = size / more[line]
            found.append(factor * more)
        return OwnSizes(*found[::-1])


def _beside_usual(size: Array, line: Array, n: int) -> Array:
    """Of each line, drawn to the usual as far as lines differ by no more than chance."""
    usual = float(np.quantile(size, TOLD_BY))
    count = np.bincount(line, minlength=n)
    logs = np.zeros(n)
    for k in np.flatnonzero(count >= ENOUGH):
        own = float(np.quantile(size[line == k], TOLD_BY))
        if own > 0 and usual > 0:
            logs[k] = np.log(own / usual)
    told = logs != 0
    if not told.any():
        return np.ones(n)
    by_chance = BY_CHANCE / np.maximum(count, 1)
    between = max(float(np.mean(logs[told] ** 2 - by_chance[told])), 0.0)
    return np.exp(logs * between / (between + by_chance))

"""What the nearest entries along a row and along a column say of one, for matrices in which rows and
columns beside each other are alike: a photograph, a map, a field that was sampled on a grid.

Between two entries, a and b steps away, the straight line is what is expected of a random walk that
goes through them, and it misses by the variance of a b / (a + b) steps. How variances grow with
steps is measured along each axis, and both are weighed by them: an axis along which the matrix is
rough, or a long gap, counts little. Small matrices only: a matrix of the same size is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..linalg import Factors, entries_at
from ..observations.base import Observations
from ..weights import Array
from .cleaned import MOST_CELLS, Lines

SHORTEST = 16  # lines: of fewer, hardly any is between two others
# of what entries that are not beside each other differ by: in photographs, neighbors differ by 0.05
# to 0.3 of it, in tables by about 1 along at least one side
ALIKE = 0.5
# times 1 / sqrt(n): by how much less n entries of a shuffled line may differ from those beside them by
# chance, where all lines do alike; where both sides differ by less, hidden entries decide
CHANCE = 3.0
LOOKED = 100  # lines that tell so
FEWEST = 100  # pairs of entries that tell how variances grow
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Interpolation:
    """A part beyond low rank: `weight` of the way from the fit to lines between neighbors."""

    X: Factors  # the lines are rows of L
    said: Array  # of every entry, as if it were missing: lines x entries
    weight: float
    transposed: bool  # whether the lines are columns of the matrix
    name: str = "interpolation"

    def at(self, rows: Array, cols: Array) -> Array:
        """By how much neighbors change the entries at these places."""
        at = (cols, rows) if self.transposed else (rows, cols)
        return np.asarray(self.weight * (self.said[at] - entries_at(self.X, *at)))


def can_interpolate(obs: Observations) -> bool:
    """Whether a matrix is small enough, and lines beside each other are alike on both sides."""
    n1, n2 = obs.shape
    small = min(n1, n2) >= SHORTEST and n1 * n2 <= MOST_CELLS
    if not (small and obs.is_here and obs.groups is None):
        return False
    some_rows = obs.grid(some_lines(n1), np.arange(n2))
    some_cols = obs.grid(np.arange(n1), some_lines(n2)).T
    return is_smooth(some_rows, _border(n2)) and is_smooth(some_cols, _border(n1))


def _border(n: int) -> float:
    """Of what n entries of a line differ by: what differ by less from those beside them are alike."""
    return max(ALIKE, 1 - CHANCE / math.sqrt(n))


def some_lines(n: int) -> Array:
    """Of n lines, a hundred at most from all over, that tell whether entries along them are alike."""
    return np.unique(np.linspace(0, n - 1, min(n, LOOKED)).astype(np.int64))


def is_smooth(Y: Array, border: float = ALIKE) -> bool:
    """Whether the entries of rows (NaN where there is none) differ less from those beside them than
    from others: by less than this part of it.
    """
    order = np.random.default_rng(0).permutation(Y.shape[1])
    beside, elsewhere = roughness(Y), roughness(Y[:, order])
    return beside < border * elsewhere


def roughness(Y: Array) -> float:
    """By how much entries typically differ from the last before them; 0 without any."""
    before, _ = last_before(Y)
    apart = np.abs(Y - before)
    apart = apart[~np.isnan(apart)]
    return float(np.median(apart)) if len(apart) else 0.0


def interpolation(lines: Lines, bend: float, weight: float) -> Interpolation:
    """Of all entries, where residuals beyond `bend` are clipped."""
    said = between(lines.values, lines.fit)
    return Interpolation(lines.X, said, weight, lines.transposed)


def between(Y: Array, fit: Array) -> Array:
    """What others along the row and the column of each entry say of it; `fit` where there are none."""
    total, weights = np.zeros(Y.shape), np.zeros(Y.shape)
    for flip in (False, True):
        lines = Y.T if flip else Y
        said, steps = along_rows(lines)
        weight = 1 / growth(lines).variance(steps)
        weight = np.where(np.isnan(said), 0.0, weight)
        said = np.where(np.isnan(said), 0.0, said)
        total += (said * weight).T if flip else said * weight
        weights += weight.T if flip else weight
    return np.where(weights > 0, total / np.maximum(weights, TINY), fit)


class Growth(NamedTuple):
    """How entries of a row differ: a variance of unit steps^power."""

    unit: float
    power: float

    def variance(self, steps: Array) -> Array:
        """Of entries so many steps apart; never 0."""
        return np.asarray(np.maximum(self.unit * steps**self.power, TINY))


def growth(Y: Array) -> Growth:
    """From entries that are one and two steps apart; that of a random walk where these are few."""
    before, steps = last_before(Y)
    apart = np.abs(Y - before)
    near, far = (apart[(steps == k) & ~np.isnan(apart)] for k in (1, 2))
    if min(len(near), len(far)) < FEWEST:
        return Growth(roughness(Y) ** 2, 1.0)
    one, two = float(near.mean()), float(far.mean())
    # between noise, which does not grow, and a slope
    power = 2 * np.log2(max(two, TINY) / max(one, TINY))
    return Growth(one**2, float(np.clip(power, 0.0, 2.0)))


def along_rows(Y: Array) -> tuple[Array, Array]:
    """Each entry on the line between the last before it and the next after it, or as the only one
    of them; and the variance of that, in those of one step.
    """
    before, a = last_before(Y)
    after, b = (x[:, ::-1] for x in last_before(Y[:, ::-1]))
    first, last = np.isnan(before), np.isnan(after)
    before, after = np.where(first, after, before), np.where(last, before, after)
    share = np.where(first, 0.0, np.where(last, 1.0, b / (a + b)))
    steps = np.where(first, b, np.where(last, a, a * b / (a + b)))
    return share * before + (1 - share) * after, steps


def last_before(Y: Array) -> tuple[Array, Array]:
    """The last value before each entry of its row, NaN where there is none; and how far it is."""
    at = np.arange(Y.shape[1])
    seen = np.maximum.accumulate(np.where(np.isnan(Y), -1, at), axis=1)
    last = np.full(Y.shape, -1)
    last[:, 1:] = seen[:, :-1]
    value = np.take_along_axis(Y, np.maximum(last, 0), axis=1)
    return np.where(last < 0, np.nan, value), at - last

"""Entries set aside to judge a fit by, without copying the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._scipy import sparse as sp
from .._typing import override
from ..weights import Array, Weight
from ._door import as_observations
from .base import (
    Adjoint,
    Counts,
    Multipliers,
    Observations,
    Pull,
    Regression,
    Sample,
    Stripes,
    common,
    standing_out,
)
from .dense import magnitudes_by_parts, regress_by_parts
from .grouped import grouped

MOST = 20_000  # entries that a fit is judged by
SHARE = 0.1  # of the observed entries that are set aside at most
ENOUGH_CELLS = 1_000_000  # of a matrix to choose by
FEWEST = 3  # entries that a fit can be judged by at all
# gaps are structured where their share varies so many times more than by chance
UNEVEN = 4.0
# of a row's or a column's entries, at most, where single entries are set aside: with far fewer, it
# would be another fit that is judged
THINNED = 0.15
POOL = 20  # entries that are drawn for each that is set aside: those near gaps are few


@dataclass(frozen=True, eq=False, kw_only=True)
class Without(Observations):
    """The data without some entries: their part of every sum is taken away again."""

    of: Observations
    held: Observations

    @override
    def multiply(self, L: Any, R: Any, weight: Weight, by: Multipliers) -> Pull:
        whole, part = (obs.multiply(L, R, weight, by) for obs in (self.of, self.held))
        return whole.minus(part)

    @override
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        whole, part = (obs.adjoint(L, R, zeta, Ab, Bb) for obs in (self.of, self.held))
        return whole.minus(part)

    @override
    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        """What is largest cannot be taken away again: copies of some lines at a time are
        looked at.
        """
        return magnitudes_by_parts(self, L, R, share)

    @override
    def regress(self, model: Regression, axis: int = 0) -> tuple[Array, Array, Array]:
        """With copies of some lines at a time."""
        return regress_by_parts(self, model, axis)

    @override
    def survey(self) -> Counts:
        whole, part = self.of.survey(), self.held.survey()
        return Counts(
            whole.rows - part.rows,
            whole.cols - part.cols,
            whole.infinite - part.infinite,
        )

    @override
    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """A CSR matrix of the entries that stand out, and only these."""
        return standing_out(self.residuals(L, R), threshold, self.shape)

    @override
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        return map(self._kept, self.of.residuals(L, R))

    @override
    def lookup(self, rows: Array, cols: Array) -> Array:
        held = ~np.isnan(self.held.lookup(rows, cols))
        return np.where(held, np.nan, self.of.lookup(rows, cols)).astype(self.dtype)

    @override
    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        return self._kept(self.of.draw(size, seed))

    def _kept(self, some: Sample) -> Sample:
        """Those of some entries that were not set aside."""
        kept = np.isnan(self.held.lookup(some.rows, some.cols))
        return Sample(*(x[kept] for x in some))

    @override
    def grid(self, rows: Array, cols: Array) -> Array:
        held = ~np.isnan(self.held.grid(rows, cols))
        return np.where(held, np.nan, self.of.grid(rows, cols)).astype(self.dtype)

    @property
    @override
    def in_blocks(self) -> bool:
        return self.of.in_blocks

    @property
    @override
    def entries_read(self) -> int:
        return self.of.entries_read

    @override
    def stripes(self) -> Stripes:
        return self.of.stripes()

    @override
    def check_unchanged(self, closely: bool = True) -> None:
        self.of.check_unchanged(closely)

    @override
    def in_form(self, L: Any, R: Any) -> tuple[Any, Any]:
        return self.of.in_form(L, R)

    @override
    def scaled(self, gain: float) -> Without:
        of, held = self.of.scaled(gain), self.held.scaled(gain)
        return replace(self, of=of, held=held, gain=of.gain)


def can_hold_out(obs: Observations) -> bool:
    """Whether there are enough entries to set some aside, and rows and columns to tell
    them from.
    """
    return min(obs.shape) > 1 and has_enough(obs)


def has_enough(obs: Observations) -> bool:
    """Whether there are enough entries to set some aside."""
    return SHARE * obs.n_observed >= FEWEST


def hold_out(
    obs: Observations,
    seed: int = 0,
    of_line: float = 1.0,
) -> tuple[Observations, Sample]:
    """The data without a tenth of their entries, and (at most 20,000 of) these.

    What is set aside looks like what is missing: where gaps are uneven, as with clouds or broken
    sensors, the gaps of one column (or row) are laid over another. Random entries would be too easy
    there, and favour too high a rank. With less than 1 `of_line`, no column loses a larger share of
    its entries: a stretch of the gap is laid over it, so that it is left as many as others have."""
    rng = np.random.default_rng(seed)
    axis = _uneven_axis(obs)
    rows, cols = (
        _random_places(obs, rng)
        if axis is None
        else _gaps_elsewhere(obs, axis, rng, of_line)
    )
    if obs.groups is not None:
        return _without_groups(obs, obs.groups, (rows, cols), rng)
    values = obs.lookup(rows, cols)
    # columns that are missing together: nothing is seen in the gaps of the other
    if np.isnan(values).all():
        rows, cols = _random_places(obs, rng)
        values = obs.lookup(rows, cols)
    seen = ~np.isnan(values)
    some = Sample(rows[seen], cols[seen], values[seen])
    rest = without(obs, some)
    return rest, rest.held.draw(MOST, seed) if rest.held.n_observed > MOST else some


def in_one_piece(obs: Observations) -> bool:
    """Whether gaps are structured, so that `hold_out` lays whole ones over other lines."""
    return _uneven_axis(obs) is not None


def set_aside(
    obs: Observations,
    share: float,
    seed: int = 0,
) -> tuple[Observations, Sample]:
    """The data without about this share of their entries, and these: single ones, where entries are
    missing.

    Rows and columns with many gaps give more. None loses more than a few, so that the fit to the
    rest is as good as one to all.
    """
    rng = np.random.default_rng(seed)
    wanted = max(FEWEST, int(share * obs.n_observed))
    some = obs.draw(POOL * wanted, int(rng.integers(1 << 31)))
    numbers = some.rows * obs.shape[1] + some.cols
    some = Sample(*(x[np.unique(numbers, return_index=True)[1]] for x in some))
    # in a random order, those first that are more likely: Efraimidis and Spirakis, 2006
    order = np.argsort(rng.exponential(size=len(some.rows)) / _gaps_at(obs, some))
    some = Sample(*(x[order] for x in some))
    spared = np.ones(len(order), bool)
    for lines, seen in (
        (some.rows, obs.row_observed),
        (some.cols, obs.col_observed),
    ):
        most = np.maximum(1, THINNED * np.asarray(seen)[lines])
        spared &= _number_within(np.where(spared, lines, -1)) < most
    some = Sample(*(x[np.flatnonzero(spared)[:wanted]] for x in some))
    if obs.groups is not None:
        return _without_groups(obs, obs.groups, some[:2], rng)
    return without(obs, some), some


def _gaps_at(obs: Observations, some: Sample) -> Array:
    """How likely these places would be missing, from the shares of their rows and columns."""
    n1, n2 = obs.shape
    # half a gap more: without any, all lines are alike
    rows = n2 - np.asarray(obs.row_observed)[some.rows] + 0.5
    cols = n1 - np.asarray(obs.col_observed)[some.cols] + 0.5
    return np.asarray(rows / n2 * cols / n1)


def _number_within(lines: Array) -> Array:
    """The how many-th of its line each is, from 0."""
    order = np.argsort(lines, kind="stable")
    ordered = lines[order]
    first = np.searchsorted(ordered, ordered)
    numbers = np.empty(len(lines), np.int64)
    numbers[order] = np.arange(len(lines)) - first
    return numbers


def without(obs: Observations, some: Sample) -> Without:
    """The data without these entries, which are copied."""
    held = as_sparse(obs, some)
    left = {
        name: getattr(obs, name) - getattr(held, name)
        for name in ("row_observed", "col_observed")
    }
    return Without(of=obs, held=held, **(common(obs) | left))


def _without_groups(
    obs: Observations,
    groups: Array,
    places: tuple[Array, Array],
    rng: np.random.Generator,
) -> tuple[Observations, Sample]:
    """The same for rows in groups: a group is set aside as a whole. Makes a copy: give
    it a part of the data.
    """
    count, size = groups.shape
    group_of = np.empty(obs.shape[0], np.int64)
    group_of[groups.ravel()] = np.repeat(np.arange(count), size)
    rows, cols = places
    if obs.of_complex:  # the other column holds the same numbers
        rows, cols = np.tile(rows, 2), np.concatenate([cols, cols ^ 1])
    whole = groups[group_of[rows]]  # places x size of a group
    numbers = np.unique(whole.ravel() * obs.shape[1] + np.repeat(cols, size))
    rows, cols = numbers // obs.shape[1], numbers % obs.shape[1]
    values = obs.grid(*map(np.arange, obs.shape))
    held = values[rows, cols]  # a copy
    values[rows, cols] = np.nan
    seen = np.flatnonzero(~np.isnan(held))
    judged = rng.choice(seen, min(MOST, len(seen)), replace=False)
    left = as_observations(values, threads=obs.threads)
    rest = grouped(left, group_of, modulus=obs.of_complex)
    return rest, Sample(rows[judged], cols[judged], held[judged])


class Submatrix(NamedTuple):
    """A part of a matrix, in memory, and which rows and columns of the whole it has."""

    obs: Observations
    rows: Array
    cols: Array


def part_of(obs: Observations, seed: int = 0) -> Observations:
    """Some rows (or columns, if there are more of these) of a large matrix: enough to choose by.

    Of these not all entries, where they are very long.
    """
    if not _is_large(obs, ENOUGH_CELLS) and obs.is_here:
        return obs
    return part_in_memory(obs, seed).obs


def part_in_memory(
    obs: Observations,
    seed: int = 0,
    cells: int | None = None,
) -> Submatrix:
    """The same as an array in memory, with the rows and columns that were chosen: all of a matrix
    that is not large, with four times as many `cells` as are enough.
    """
    rng, cells = np.random.default_rng(seed), cells or ENOUGH_CELLS
    if obs.groups is not None and not obs.in_blocks:
        return _some_groups(obs, obs.groups, rng, cells)
    rows, cols = (np.arange(n) for n in obs.shape)
    if _is_large(obs, cells):
        rows, cols = _some_lines(obs, rng, cells)
    elif obs.is_here and not obs.in_blocks:
        return Submatrix(obs, rows, cols)
    values = obs.grid(rows, cols).astype(obs.dtype, copy=False)
    return Submatrix(as_observations(values, threads=obs.threads), rows, cols)


def _is_large(obs: Observations, cells: int) -> bool:
    return obs.shape[0] * obs.shape[1] > 4 * cells


def _some_groups(
    obs: Observations,
    groups: Array,
    rng: np.random.Generator,
    cells: int,
) -> Submatrix:
    """Some of the rows, whole groups."""
    rows, cols = (np.arange(n) for n in obs.shape)
    size = groups.shape[1]
    count = max(cells // (obs.shape[1] * size), 100)
    if not _is_large(obs, cells) or count >= len(groups):
        return Submatrix(obs, rows, cols)
    rows = groups[np.sort(rng.choice(len(groups), count, replace=False))].ravel()
    values = as_observations(obs.grid(rows, cols), threads=obs.threads)
    labels = np.repeat(np.arange(count), size)
    return Submatrix(grouped(values, labels, modulus=obs.of_complex), rows, cols)


def _some_lines(
    obs: Observations,
    rng: np.random.Generator,
    cells: int,
) -> tuple[Array, Array]:
    """Rows and columns of a part of a large matrix."""
    axis = 0 if obs.shape[0] >= obs.shape[1] else 1
    n, across = obs.shape[axis], np.arange(obs.shape[1 - axis])
    count = min(n, max(cells // len(across), 1000))
    chosen = np.sort(rng.choice(n, count, replace=False))
    entries = obs.fraction * count * len(across)
    if entries > 4 * ENOUGH_CELLS:
        fewer = int(len(across) * ENOUGH_CELLS / entries)
        across = np.sort(rng.choice(len(across), fewer, replace=False))
    return (chosen, across) if axis == 0 else (across, chosen)


def _uneven_axis(obs: Observations) -> int | None:
    """Along which axis the share of missing entries varies far more than by chance: 0
    for columns, 1 for rows.
    """
    missing = 1 - obs.fraction
    if missing == 0:
        return None
    ratios = []
    for seen, n in ((obs.col_observed, obs.shape[0]), (obs.row_observed, obs.shape[1])):
        ratios.append(float((1 - seen / n).var()) / (missing * (1 - missing) / n))
    best = int(np.argmax(ratios))
    return best if ratios[best] > UNEVEN and obs.shape[1 - best] > 3 else None


def _random_places(obs: Observations, rng: np.random.Generator) -> tuple[Array, Array]:
    wanted = min(MOST, int(SHARE * obs.n_observed))
    some = obs.draw(wanted, int(rng.integers(1 << 31)))
    places = np.unique(some.rows * obs.shape[1] + some.cols)
    return places // obs.shape[1], places % obs.shape[1]


def _gaps_elsewhere(
    obs: Observations,
    axis: int,
    rng: np.random.Generator,
    of_line: float = 1.0,
) -> tuple[Array, Array]:
    """Places in some columns (axis 0; rows for axis 1) that are missing in others.

    Neighbouring columns take the gaps of neighbours, so that gaps which reach over several keep
    their shape; of each, as much as covers this share `of_line`."""
    n, lines = obs.shape[axis], obs.shape[1 - axis]
    along, beside = np.arange(n), max(1, lines // 20)
    seen = obs.col_observed if axis == 0 else obs.row_observed
    left, ones, others = SHARE * obs.n_observed, [], []
    taken: set[int] = set()
    for begin in rng.permutation(lines)[: max(3, lines // 3)]:
        shift = int(rng.integers(1, lines))
        first = int(rng.integers(n)) if of_line < 1 else 0
        for line in (begin + np.arange(beside)) % lines:
            donor = (line + shift) % lines
            gap = along[np.isnan(obs.lookup(*_line(axis, donor, along)))]
            if (
                line in taken
                or seen[line] < 0.3 * n * obs.fraction
                or not 0 < len(gap) < 0.9 * n
            ):
                continue
            if of_line < 1:
                gap = np.roll(gap, -int(np.searchsorted(gap, first)))
                covered = ~np.isnan(obs.lookup(*_line(axis, line, gap)))
                gap = gap[np.cumsum(covered) <= of_line * seen[line]]
            taken.add(int(line))
            ones.append(gap)
            others.append(np.full(len(gap), line))
            left -= len(gap) * seen[line] / n
            if left <= 0:
                break
        if left <= 0:
            break
    if not ones:
        return _random_places(obs, rng)
    return _line(axis, np.concatenate(others), np.concatenate(ones))


def _line(axis: int, line: Any, along: Array) -> tuple[Array, Array]:
    """Rows and columns of places along one or more lines."""
    across = np.broadcast_to(line, along.shape).astype(np.int64)
    return (along, across) if axis == 0 else (across, along)


def as_sparse(obs: Observations, some: Sample) -> Observations:
    """These entries as a sparse matrix in the precision of the data."""
    matrix = sp.csr_array(
        (some.values.astype(obs.dtype), (some.rows, some.cols)), shape=obs.shape
    )
    return as_observations(matrix, threads=obs.threads)

"""Data in blocks of rows, each of which is in memory only while its turn is: a pass is a sum over
the blocks.

`rows_from_disk.RowBlocks` reads them one after another from disk; `dask.DaskBlocks` leaves them where Dask has
them. What is done with one block is the same, and is written here once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._rows import Answer, Joined, Lines, Work
from .._typing import override
from ..weights import Array, DType, Weight
from .base import (
    DRAW_FROM_STORED_BELOW,
    Adjoint,
    Counts,
    Multipliers,
    Observations,
    Pull,
    Regression,
    Sample,
    Stripes,
)
from .places import stored_places
from .reading import Reading, dense_block
from .watched import Watched

if TYPE_CHECKING:
    from typing_extensions import Self

PANEL = 1 << 25  # entries of some columns that are looked at together
# for the rows of a block, and to be summed over blocks
Answers = tuple[tuple[Any, ...], tuple[Any, ...]]
# a function of one block, its rows, what is the same for all, and a question of its own
Question = Callable[..., Any]


class BlockError(OSError):
    """A block that could not be read, by name."""


@dataclass
class Meter:
    """How many rows were read so far."""

    rows: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Blocks(Observations):
    """What is abstract here is what a subclass has to do."""

    borders: Array  # the first row of each block, and the number of rows
    block_observed: Array  # how many entries of each block are observed
    meter: Meter = field(default_factory=Meter)  # shared by all forms of the same data
    reading: Reading
    watched: tuple[Watched, ...] = ()  # what the data are read from
    # more than for data in memory: each time is a pass
    AT_ONCE: ClassVar[int] = 16_000_000

    @abstractmethod
    @override
    def round(self, work: Work, rows: Lines, shared: Any) -> Answer: ...

    @abstractmethod
    def visit(
        self,
        ask: Question,
        rows: Lines,
        shared: Any,
        each: Mapping[int, Any],
    ) -> Iterator[tuple[int, Any]]:
        """The answers of `ask(block, rows, shared, each[number])` with their numbers, of
        the blocks in `each` only.
        """

    def check_unchanged(self, closely: bool = True) -> None:
        """Raise an error if what the data are read from did not stay what it was. See
        `Watched.check`.
        """
        for source in self.watched:
            source.check(closely)

    # ---- what `Observations` promises, for all blocks

    @property
    @override
    def in_blocks(self) -> bool:
        return True

    @property
    @override
    def stored(self) -> DType:
        return self.reading.stored

    @property
    @override
    def entries_read(self) -> int:
        return self.meter.rows * self.shape[1]

    @override
    def stripes(self) -> Stripes:
        return Stripes(self.borders, by_columns=False)

    @override
    def survey(self) -> Counts:
        (rows,), (cols, infinite, _) = self.round(surveyed, (), None)
        return Counts(rows, cols, int(infinite))

    @override
    def regress(self, model: Regression, axis: int = 0) -> tuple[Any, Any, Any]:
        if axis:
            raise ValueError(
                "rows of these data lie across their blocks; chunks of whole rows are wanted here"
            )
        scores, deviation, distance = self.round(_regress, (), model)[0]
        return scores, deviation, distance

    def scaled(self, gain: float) -> Self:
        """See `Observations.scaled`."""
        other = replace(
            self,
            gain=self.gain * gain,
            reading=replace(self.reading, gain=self.reading.gain * gain),
        )
        return self.with_sample_for(other, gain)

    @property
    def n_observed(self) -> int:
        """How many entries are observed."""
        return int(self.block_observed.sum())

    @override
    def multiply(self, L: Any, R: Any, weight: Weight, by: Multipliers) -> Pull:
        thresholds, rest = weight.split()
        (CQ, WQ, row_inliers, row_weight, row_energy), told = self.round(
            _products, (L, by.P, by.Pw, *thresholds), (R, by.Q, by.Qw, rest)
        )
        CtP, WtP, col_inliers, col_weight, col_energy, energy, n_inliers = told
        CtP, WtP, col_weight = (
            None if x is None else x.astype(self.dtype, copy=False)
            for x in (CtP, WtP, col_weight)
        )
        if not thresholds:
            return Pull(CQ, CtP, n_inliers=int(n_inliers))
        return Pull(
            CQ,
            CtP,
            n_inliers=int(n_inliers),
            row_inliers=row_inliers,
            col_inliers=col_inliers,
            row_weight=row_weight,
            col_weight=col_weight,
            row_energy=row_energy,
            col_energy=col_energy,
            energy=None if energy is None else float(energy),
            grams=(WQ, WtP),
        )

    @override
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        (GL,), (GR, slope) = self.round(_adjoint, (L, Ab), (R, float(zeta), Bb))
        return Adjoint(GL, GR.astype(self.dtype), float(slope))

    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        """See `Observations.magnitudes`. Columns are looked at some at a time, with one
        more pass for each lot.
        """
        (rows,), _ = self.round(_row_magnitudes, (L,), (R, share))
        cols, every = [], np.arange(self.shape[0])
        for some in np.array_split(
            np.arange(self.shape[1]), -(-self.shape[0] * self.shape[1] // PANEL)
        ):
            Y = self.grid(every, some)
            panel = dense_block(Y, None, self.dtype, threads=self.threads)
            panel = replace(
                panel,
                row_observed=np.zeros(len(Y), np.int64),
                col_observed=self.col_observed[some],
            )
            left, right = (None, None) if L is None else (np.asarray(L), R[some])
            # rounded as in a pass: what is k-th largest is exact
            cols.append(panel.magnitudes(left, right, share)[1])
        return rows, np.concatenate(cols)

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`. Each block is read at most once."""
        rows, cols = np.asarray(rows), np.asarray(cols)
        out = np.full(len(rows), np.nan, self.dtype)
        each = {
            b: (rows[at] - self.borders[b], cols[at], at)
            for b, at in self._by_block(rows)
        }
        sent = {b: places[:2] for b, places in each.items()}
        for b, values in self.visit(_lookup, (), None, sent):
            out[each[b][2]] = values
        return out

    @override
    def grid(self, rows: Array, cols: Array) -> Array:
        rows, cols = np.asarray(rows), np.asarray(cols)
        out = np.empty((len(rows), len(cols)), self.dtype)
        where = dict(self._by_block(rows))
        for b, values in self.visit(
            _grid, (), cols, {b: rows[at] - self.borders[b] for b, at in where.items()}
        ):
            out[where[b]] = values
        return out

    @override
    def medians(self, axis: int, places: Array, subtract: Array, empty: float) -> Any:
        if axis:
            return super().medians(axis, places, subtract, empty)
        return self.round(_row_medians, (), (places, subtract, empty))[0][0]

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """See `Observations.draw`; where few entries are observed, drawn from those."""
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        where = stored_places(self.n_observed, size, seed)
        before = np.concatenate([[0], np.cumsum(self.block_observed)])
        parts = np.searchsorted(where, before)
        each = {
            b: where[i:j] - before[b]
            for b, (i, j) in enumerate(pairwise(parts))
            if j > i
        }
        found = [
            (i + self.borders[b], j, y)
            for b, (i, j, y) in self.visit(_numbered, (), None, each)
        ]
        return Sample(*(np.concatenate(x) for x in zip(*found, strict=True)))

    @override
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        for b in range(len(self.block_observed)):
            for _, (i, j, e) in self.visit(_residuals, (L,), R, {b: None}):
                yield Sample(i + self.borders[b], j, e)

    def _by_block(self, rows: Array) -> Iterator[tuple[int, Array]]:
        """The blocks that hold some rows, and which of these."""
        block = np.searchsorted(self.borders, rows, side="right") - 1
        order = np.argsort(block, kind="stable")
        found, first = np.unique(block[order], return_index=True)
        yield from zip(found.tolist(), np.split(order, first[1:]))


# ---- what is done with one block


def _products(block: Observations, rows: Lines, same: Any) -> Answers:
    L, P, Pw, *thresholds = rows
    R, Q, Qw, rest = same
    pull = block.products(L, R, rest.joined(thresholds), P=P, Q=Q, Pw=Pw, Qw=Qw)
    WQ, WtP = pull.grams or (None, None)
    told = (
        pull[1],
        WtP,
        pull.col_inliers,
        pull.col_weight,
        pull.col_energy,
        pull.energy,
        pull.n_inliers,
    )
    of_rows = (pull[0], WQ, pull.row_inliers, pull.row_weight, pull.row_energy)
    return of_rows, told


def _adjoint(block: Observations, rows: tuple[Array, Array], same: Any) -> Answers:
    (L, Ab), (R, zeta, Bb) = rows, same
    GL, GR, slope = block.adjoint(L, R, zeta, Ab, Bb)
    return (GL,), (GR, slope)


def _row_magnitudes(block: Observations, rows: tuple[Any], same: Any) -> Answers:
    (L,), (R, share) = rows, same
    observed, cols, _ = block.survey()
    counted = block.with_counts(observed, cols)
    return (counted.magnitudes(L, R, share)[0],), ()


def _regress(block: Observations, _: tuple[()], model: Regression) -> Answers:
    return block.regress(model), ()


def _row_medians(block: Observations, rows: tuple[()], same: Any) -> Answers:
    return (block.medians(0, *same),), ()


def _lookup(block: Observations, _rows: tuple[()], _same: None, places: Any) -> Array:
    return block.lookup(*places)


def _grid(block: Observations, _rows: tuple[()], cols: Array, rows: Array) -> Array:
    return block.grid(rows, cols)


def _numbered(
    block: Observations,
    _rows: tuple[()],
    _same: None,
    numbers: Array,
) -> tuple[Array, Array, Array]:
    """Observed entries by their numbers, row after row, in order."""
    rows, _, _ = block.survey()
    before = np.concatenate([[0], np.cumsum(rows)])
    i = np.searchsorted(before, numbers, side="right") - 1
    chosen, first = np.unique(i, return_index=True)
    every, found = np.arange(block.shape[1]), []
    for row, some in zip(chosen, np.split(numbers, first[1:])):
        seen = np.flatnonzero(~np.isnan(block.grid(np.array([row]), every)[0]))
        found.append(seen[some - before[row]])
    j = np.concatenate(found)
    return i, j, block.lookup(i, j)


def _residuals(
    block: Observations,
    rows: tuple[Array],
    R: Array,
    _: Any,
) -> tuple[Array, Array, Array]:
    parts = list(block.residuals(rows[0], R))
    return tuple(np.concatenate(x) for x in zip(*parts, strict=True))  # type: ignore[return-value]


def surveyed(block: Observations, rows: tuple[()], _: None) -> Answers:
    """What the first pass counts."""
    observed, cols, infinite = block.survey()
    return (observed,), (cols, infinite, Joined.of(np.array([observed.sum()])))


def unreadable(b: int, borders: Array, error: BaseException) -> BlockError:
    """What is said of a block that cannot be read."""
    reason = " ".join(str(error).split()) or type(error).__name__
    first, last = borders[b : b + 2]
    return BlockError(
        f"block {b} of {len(borders) - 1} (lines {first} to {last - 1}) could not be read: {reason}"
    )

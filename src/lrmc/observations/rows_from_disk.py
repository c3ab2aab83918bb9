"""Blocks of rows that are read from disk, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._rows import Answer, Lines, Work, added, cut, like, wide
from .._typing import override
from ..weights import Array
from .base import Observations, Sample, standing_out
from .blocks import Blocks, Question, unreadable


@dataclass(frozen=True, eq=False, kw_only=True)
class RowBlocks(Blocks):
    """Rows that are read from disk block by block, the next one while the present one is
    computed with.
    """

    source: Any  # has read(rows, into): some rows, in memory
    mask: Any = None  # the same for a mask

    def round(self, work: Work, rows: Lines, shared: Any) -> Answer:
        """See `Observations.round`. What belongs to rows is in memory, all of it."""
        out: list[Any] = []
        total: Any = None
        for b, block in self._read(range(len(self.block_observed))):
            first, last = (int(x) for x in self.borders[b : b + 2])
            answer, told = work(block, cut(rows, first, last), shared)
            out = out or [self._room(x) for x in answer]
            total = like(
                told, [wide(x) for x in told] if total is None else added(total, told)
            )
            for room, x in zip(out, answer, strict=True):
                if room is not None:
                    room[first:last] = x
        return like(answer, out), total

    def _room(self, x: Any) -> Any:
        """For what a work keeps of all rows."""
        return (
            np.empty((self.shape[0], *x.shape[1:]), x.dtype)
            if isinstance(x, np.ndarray)
            else None
        )

    @override
    def visit(
        self,
        ask: Question,
        rows: Lines,
        shared: Any,
        each: Mapping[int, Any],
    ) -> Iterator[tuple[int, Any]]:
        for b, block in self._read(sorted(each)):
            first, last = (int(x) for x in self.borders[b : b + 2])
            yield b, ask(block, cut(rows, first, last), shared, each[b])

    @override
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        for b, block in self._read(range(len(self.block_observed))):
            first, last = self.borders[b : b + 2]
            for i, j, e in block.residuals(L[first:last], R):
                yield Sample(i + first, j, e)

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """A CSR matrix of the entries that stand out, and only these: the others would
        not fit into memory.
        """
        return standing_out(self.residuals(L, R), threshold, self.shape)

    def _read(self, numbers: Sequence[int]) -> Iterator[tuple[int, Observations]]:
        """Blocks in order; while one is used, the next one is read."""
        from concurrent.futures import Future, ThreadPoolExecutor

        # two buffers in turn: fresh memory for each block would cost as much as reading
        rooms: list[Any] = [{}, {}]
        with ThreadPoolExecutor(1) as reader:
            ahead: Future[Observations] | None = None
            for k, b in enumerate(numbers):
                now = ahead or reader.submit(self._one, b, rooms[k % 2])
                block = now.result()
                self.meter.rows += block.shape[0]
                ahead = (
                    reader.submit(self._one, numbers[k + 1], rooms[(k + 1) % 2])
                    if k + 1 < len(numbers)
                    else None
                )
                yield b, block
        # a glance if it was no whole pass
        self.check_unchanged(closely=len(numbers) == len(self.block_observed))

    def _one(self, b: int, room: dict[str, Any]) -> Observations:
        rows = slice(int(self.borders[b]), int(self.borders[b + 1]))
        try:
            mask = None
            if self.mask is not None:
                mask = self.mask.read(rows, room.setdefault("mask", {}))
            Y = self.source.read(rows, room)
        except Exception as error:
            self.check_unchanged()
            raise unreadable(b, self.borders, error) from error
        return self.reading.block(Y, mask)

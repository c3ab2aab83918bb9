"""Rows that are steps in time."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ..methods.in_time.clock import NoClock, read_clock, without_nights
from ..methods.in_time.improve import Asked
from ..methods.in_time.part import InTime, estimates_of
from ..methods.in_time.plan import Estimate
from ..methods.in_time.stream import Stream, stream_of
from ..result import Result
from ..weights import Array


def keys_of(rows: Array) -> list[bytes]:
    """What a row is known by."""
    return [blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


class Steps(NamedTuple):
    """Rows that are steps in time, as far as they are kept."""

    keys: list[bytes]
    estimate: Estimate  # of these rows
    end: Stream | None  # None if times are not even
    told: bool  # in words: new rows are the next steps, whatever their dates
    times: Any = None  # of an index

    def completed(self, rows: Array, by_rows: Array, times: Any) -> Estimate | None:
        """What rows are estimated to be: a stretch of those that are known, or the next steps; None
        if they are neither."""
        at = self._place(keys_of(rows))
        if at is not None:
            return Estimate(*(x[at : at + len(rows)] for x in self.estimate))
        if not self._are_next(times):
            return None
        return _turned(self._end().followed(rows.T, by_rows.T)[1])

    def followed(self, rows: Array, by_rows: Array, times: Any) -> Steps | None:
        """After the next steps; None if these are others."""
        if not self._are_next(times):
            return None
        end, _ = self._end().followed(rows.T, by_rows.T)
        kept = _turned(end.estimate)
        keys = (self.keys + keys_of(rows))[-len(kept.values) :]
        every = None if self.told else _joined(self.times, times)
        return Steps(keys, kept, end, self.told, every)

    def _are_next(self, times: Any) -> bool:
        """Whether rows with these times are the next steps: as the user said, or as dates have it."""
        if self.told:
            return True
        if self.times is None or times is None or self.end is None:
            return False
        every = _joined(self.times, times)
        try:
            return without_nights(read_clock(every, len(every))).is_plain
        except NoClock:
            return False

    def _place(self, keys: list[bytes]) -> int | None:
        """Where a stretch of rows begins that has these keys."""
        n = len(keys)
        for at in range(len(self.keys) - n + 1):
            if self.keys[at] == keys[0] and self.keys[at : at + n] == keys:
                return at
        return None

    def _end(self) -> Stream:
        if self.end is None:
            raise ValueError(
                "the times of the rows that were fitted are not even steps, so that it is not known"
                " when new rows are; call lrmc.solve(Y, time='rows', times=...) with all of them"
            )
        return self.end


def _turned(estimate: Estimate) -> Estimate:
    """Sensors x times as times x sensors, or back."""
    return Estimate(*(x.T for x in estimate))


def _joined(times: Any, others: Any) -> Array:
    return np.concatenate([np.asarray(times), np.asarray(others)])


def steps_of(result: Result, keys: list[bytes], asked: Asked) -> Steps | None:
    """The rows of a result as steps in time; None if they are none."""
    part = next((x for x in result.beyond if isinstance(x, InTime)), None)
    if part is None or part.fills != "rows":
        return None
    assert result.observations is not None
    end = stream_of(part, result.observations, result.factors())
    return Steps(keys, estimates_of(part), end, asked.in_words, asked.times)

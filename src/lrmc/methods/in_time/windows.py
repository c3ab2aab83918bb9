"""Long tables: one window of time after another, each beginning with what the last one learned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._kernels import max_threads
from ...weights import Array
from .plan import Estimate, Plan, carried_out

WHOLE = 4_000_000  # cells of a table that is filled in as one
CELLS = 1_000_000  # of a window of a longer one: about 100 MB in all
OVERLAP = 8  # a window shares a part of this size with the next
MOST_AT_ONCE = 4  # windows in memory
FEWEST_DAYS = 8  # of a window, as far as the table has them


def width_of(S: int, T: int, period: int | None) -> int:
    """Of a window of a table with S sensors and T times: whole periods."""
    if S * T <= WHOLE:
        return T
    P = period or 1
    width = max(CELLS // S, FEWEST_DAYS * P)
    return min(-(-width // P) * P, T)


def windows(T: int, width: int, period: int | None) -> Iterator[tuple[int, int]]:
    """Beginnings and ends; they begin with a period."""
    P = period or 1
    stride = max((width - width // OVERLAP) // P, 1) * P
    begin = 0
    while begin + width < T:
        yield begin, begin + width
        begin += stride
    yield begin, T


def middle_window(T: int, width: int, period: int | None) -> slice:
    """One to learn from."""
    all_of_them = list(windows(T, width, period))
    begin, end = all_of_them[(len(all_of_them) - 1) // 2]
    return slice(begin, end)


def in_windows(
    Y: Array,
    plan: Plan,
    without_time: Array | None,
    width: int,
) -> Estimate:
    """The estimate of a long table: windows fade into each other where they overlap.

    No window looks at another one, so that several are filled in at once."""
    S, T = Y.shape
    if width == T:
        return carried_out(Y, plan, without_time)
    from concurrent.futures import ThreadPoolExecutor

    total = Estimate(*(np.zeros((S, T), Y.dtype) for _ in range(2)))
    spans = list(windows(T, width, plan.period))
    faded = 0  # columns up to here have been estimated before
    with ThreadPoolExecutor(max(min(max_threads(), MOST_AT_ONCE), 1)) as team:
        parts = team.map(
            lambda span: _filled(Y, plan, without_time, width, span), spans
        )
        for (begin, end), found in zip(spans, parts, strict=True):
            for x, part in zip(total, found, strict=True):
                _fade(x, part, begin, end, faded)
            faded = end
    return total


def _filled(
    Y: Array,
    plan: Plan,
    without_time: Array | None,
    width: int,
    span: tuple[int, int],
) -> Estimate:
    """The estimate of one window; the last one is filled up with NaN."""
    begin, end = span
    room = (0, 0), (0, width - (end - begin))
    part = np.pad(Y[:, begin:end], room, constant_values=np.nan)
    own = None
    if without_time is not None:
        own = np.pad(without_time[:, begin:end], room)
    return carried_out(part, plan, own, moved=True)


def _fade(total: Array, found: Array, begin: int, end: int, faded: int) -> None:
    """Put an estimate in its place; where there is one already, the new one comes in slowly."""
    overlap = max(faded - begin, 0)
    rise = np.ones(end - begin, total.dtype)
    rise[:overlap] = (np.arange(overlap) + 0.5) / max(overlap, 1)
    here = total[:, begin:end]
    here += rise * (found[:, : end - begin] - here)

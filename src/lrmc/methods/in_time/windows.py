"""Long tables: one window of time after another, each beginning with what the last one learned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...weights import Array
from .plan import Estimate, Plan, carried_out

CELLS = 2_000_000  # of a window: about 200 MB in all
OVERLAP = 8  # a window shares a part of this size with the next
FEWEST_DAYS = 8  # of a window, as far as the table has them


def width_of(S: int, T: int, period: int | None) -> int:
    """Of a window of a table with S sensors and T times: whole periods."""
    if S * T <= 2 * CELLS:
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
    Y: Array, plan: Plan, without_time: Array | None, width: int
) -> Estimate:
    """The estimate of a long table: windows fade into each other where they overlap."""
    S, T = Y.shape
    if width == T:
        return carried_out(Y, plan, without_time)
    total = Estimate(*(np.zeros((S, T), Y.dtype) for _ in range(3)))
    faded = 0  # columns up to here have been estimated before
    for begin, end in windows(T, width, plan.period):
        part = np.full((S, width), np.nan, Y.dtype)
        part[:, : end - begin] = Y[:, begin:end]
        own = None if without_time is None else np.zeros_like(part)
        if own is not None and without_time is not None:
            own[:, : end - begin] = without_time[:, begin:end]
        found = carried_out(part, plan, own, moved=True)
        _fade(total, found, begin, end, faded)
        faded = end
    return total


def _fade(total: Estimate, found: Estimate, begin: int, end: int, faded: int) -> None:
    """Put an estimate in its place; where there is one already, the new one comes in slowly."""
    overlap = max(faded - begin, 0)
    rise = np.ones(end - begin, total.values.dtype)
    rise[:overlap] = (np.arange(overlap) + 0.5) / max(overlap, 1)
    for old, new in zip(total, found, strict=True):
        here = old[:, begin:end]
        here += rise * (new[:, : end - begin] - here)

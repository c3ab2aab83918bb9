"""When the columns of a table were: cells of a regular grid, and what the calendar says."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ...weights import Array

SPARSEST = 16  # cells of the grid for each time, at most
DENSE_STEP = 0.1  # quantile of steps between times that is the step of the grid
DAY = 86_400.0
DAYS_OF_WEEK, WEEKS_OF_YEAR, MONTHS_OF_YEAR = 7, 52, 12
SHORTEST = 4  # cells of a period
FEWEST = 2  # periods that must be there
# of the times that share a cell with another: clocks are put back, and loggers send twice
FEW_SHARED = 0.05
BY_CHANCE = 0.01  # of slots that no time has, if all were as likely
ALIKE = 1e-3  # by how much a step may differ from a day
Unit = Literal["steps", "seconds", "months"]


class NoClock(ValueError):
    """Times of which no grid can be made."""


class Clock(NamedTuple):
    """Cells of a grid in time."""

    cells: Array  # of each column; several columns may share one (an hour that is lived twice)
    n: int
    period: int | None = None  # in cells, as the calendar has it

    def on_grid(self, Y: Array) -> Array:
        """Sensors x times as sensors x cells: means where times share one, NaN where there is none."""
        if self.is_plain:
            return Y
        seen = ~np.isnan(Y)
        total, count = (np.zeros((self.n, len(Y)), Y.dtype) for _ in range(2))
        np.add.at(total, self.cells, np.where(seen, Y, 0).T)
        np.add.at(count, self.cells, seen.T)
        with np.errstate(invalid="ignore"):
            return (total / np.where(count > 0, count, np.nan)).T

    def check_shared(self, Y: Array, on_grid: Array, noise: float) -> None:
        """Refuse times that many entries share whose values are unlike: a mean is none of them."""
        shared = np.bincount(self.cells, minlength=self.n)[self.cells] > 1
        count = int(shared.sum())
        if count <= FEW_SHARED * len(shared):
            return
        away = np.abs(Y[:, shared] - on_grid[:, self.cells[shared]])
        away = away[~np.isnan(away)]
        if len(away) and float(np.median(away)) > noise:
            raise NoClock(
                f"{count} of {len(shared)} times are there more than once, with values that differ"
                f" (typically by {np.median(away):.2g} from their mean; the noise is {noise:.2g}): one"
                " line for each time is wanted. Pivot a table of several series, or take means"
            )

    def off_grid(self, x: Array) -> Array:
        """Sensors x cells as sensors x times."""
        return x if self.is_plain else x[:, self.cells]

    @property
    def is_plain(self) -> bool:
        """Whether each column is the next cell."""
        return self.n == len(self.cells) and bool(
            np.array_equal(self.cells, np.arange(self.n))
        )


def even_clock(n: int) -> Clock:
    """One cell for each of n times."""
    return Clock(np.arange(n), n)


def read_clock(times: Any, n: int) -> Clock:
    """From one number or date for each of n columns, in any order."""
    seconds, unit = _as_numbers(times)
    if seconds.shape != (n,):
        raise ValueError(
            f"times has shape {seconds.shape}, and the table {n} steps in time;"
            " one time for each is wanted"
        )
    if not np.isfinite(seconds).all():
        raise NoClock("times holds what is no time (NaN, NaT or infinite)")
    steps = np.diff(np.unique(seconds))
    if not len(steps):
        raise NoClock("all times are the same; at least two different ones are wanted")
    step = float(np.quantile(steps, DENSE_STEP, method="lower"))
    cells = np.rint((seconds - seconds.min()) / step).astype(np.int64)
    count = int(cells.max()) + 1
    if count > SPARSEST * n:
        raise NoClock(
            f"{n} times lie on {count} steps of {step:g}: too far apart for a model of"
            " time. Give a part of the table, or time=None"
        )
    return Clock(cells, count, _calendar(step, count, unit))


def without_nights(clock: Clock) -> Clock:
    """The same without the slots of each period that no time ever has: a table of car parks that are
    open for 9 hours has days of 9 hours, and whole days of it are gaps as others are."""
    P = clock.period
    if P is None:
        return clock
    cells = np.unique(clock.cells)
    slots = np.unique(cells % P)
    shut = np.diff(slots, append=slots[0] + P) - 1
    longest = int(shut.argmax())
    run, first = int(shut[longest]), int(slots[(longest + 1) % len(slots)])
    if P - run < SHORTEST:
        return clock
    days = clock.n / P
    open_ = min(len(cells) / (days * (P - run)), 1.0)
    if P * (1 - open_) ** (run * days) > BY_CHANCE:
        return clock
    # periods that begin after a night, so that slots are counted without it
    shift = (P - first) % P
    day, slot = np.divmod(clock.cells + shift, P)
    cells = day * (P - run) + slot
    begin = int(cells.min())
    return Clock(cells - begin, int(cells.max()) - begin + 1, P - run)


def _as_numbers(times: Any) -> tuple[Array, Unit]:
    """Months of dates that are months, else seconds, as the clock on the wall shows them; numbers as
    they are."""
    if getattr(times, "tz", None) is not None:
        # days have the shape that people give them: by the local clock, summer time included
        times = times.tz_localize(None)
    array = np.asarray(times)
    if array.dtype.kind == "O":
        array = _dates(array)
    if array.dtype.kind in "Mm":
        seconds = array.astype(
            "datetime64[us]" if array.dtype.kind == "M" else "m8[us]"
        )
        missing = np.isnat(seconds)
        if array.dtype.kind == "M" and not missing.any() and _are_months(seconds):
            months = seconds.astype("datetime64[M]").astype(np.int64)
            return months.astype(np.float64), "months"
        return np.where(missing, np.nan, seconds.astype(np.int64) / 1e6), "seconds"
    if array.dtype.kind not in "fiu":
        raise ValueError(
            f"times has the type {array.dtype}; numbers or dates (datetime64) are wanted"
        )
    return array.astype(np.float64), "steps"


def _are_months(dates: Array) -> bool:
    """Whether dates are months, quarters or years: all of them as far from where a month begins, or
    from where it ends. Months are of one length then, whatever their days."""
    months = dates.astype("datetime64[M]")
    since, until = dates - months, (months + 1).astype(dates.dtype) - dates
    same = any(bool((x == x[0]).all()) for x in (since, until) if len(x))
    return same and len(np.unique(months)) == len(np.unique(dates)) > 1


def _dates(array: Array) -> Array:
    try:
        return array.astype("datetime64[us]")
    except (ValueError, TypeError):
        raise ValueError(
            f"times holds {array.ravel()[0]!r}; numbers or dates (datetime64) are wanted"
        ) from None


def _calendar(step: float, cells: int, unit: Unit) -> int | None:
    """How many such steps a day, a week (of days) or a year (of weeks or months) has."""
    if unit == "steps":
        return None
    if unit == "months":
        period = round(MONTHS_OF_YEAR / step)
    elif abs(step / DAY - 1) < ALIKE:
        period = DAYS_OF_WEEK
    elif abs(step / DAY - DAYS_OF_WEEK) < ALIKE:
        period = WEEKS_OF_YEAR
    else:
        period = round(DAY / step)
    fits = period >= SHORTEST and FEWEST * period <= cells
    return period if fits else None

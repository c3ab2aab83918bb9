"""What kinds of tables say about time by themselves: indices of dates, names of dimensions, a
third dimension."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .improve import FEWEST, Asked, AskedTime

TIME_DIMENSION = "time"


class Table(NamedTuple):
    """A matrix, and what is known of its times."""

    Y: Any
    asked: Asked
    mask: Any = None


def told_by(Y: Any, mask: Any, asked: Asked) -> Table:
    """A table as a matrix, with the times that it has itself unless the user gave others."""
    if asked.time is None:
        return Table(Y, asked, mask)
    if getattr(Y, "ndim", 2) == 3 and isinstance(Y, np.ndarray):
        few = Y.shape[1] * Y.shape[2] < FEWEST  # not sensors x days x slots
        return Table(Y, asked, mask) if few else _folded(Y, mask, asked)
    if asked.times is not None:
        return Table(Y, asked, mask)
    if type(Y).__module__.partition(".")[0] == "pandas" and hasattr(Y, "columns"):
        return Table(*_of_frame(Y, asked), mask)
    if hasattr(Y, "dims") and TIME_DIMENSION in Y.dims and len(Y.dims) == 2:
        return Table(Y, _of_dimension(Y, asked), mask)
    return Table(Y, asked, mask)


def _folded(Y: Any, mask: Any, asked: Asked) -> Table:
    """Sensors x days x slots: a matrix of sensors x times whose period is known."""
    if asked.time == "rows":
        raise ValueError(
            f"an array of shape {Y.shape} is read as sensors x days x slots, so that times are columns; got time='rows'"
        )
    if asked.period not in ("auto", Y.shape[2]):
        raise ValueError(
            f"period={asked.period} for an array of shape {Y.shape}, read as"
            f" sensors x days x slots: {Y.shape[2]} is wanted, or nothing"
        )
    flat = Y.reshape(len(Y), -1)
    mask = None if mask is None else np.asarray(mask).reshape(flat.shape)
    return Table(flat, asked._replace(time="columns", period=Y.shape[2]), mask)


def _of_frame(frame: Any, asked: Asked) -> tuple[Any, Asked]:
    """A DataFrame without its column of dates, and the dates of its rows or columns."""
    if asked.time != "columns":
        times = dates_of(frame.index)
        if times is not None:
            return frame, asked._replace(time="rows", times=times)
        dates = [i for i, kind in enumerate(frame.dtypes) if _is_kind_of_date(kind)]
        if len(dates) == 1 and len(frame) >= FEWEST:
            i = dates[0]
            times = frame.iloc[:, i].array
            others = frame.drop(columns=frame.columns[i])
            return others, asked._replace(time="rows", times=times)
    times = None if asked.time == "rows" else dates_of(frame.columns)
    if times is not None:
        return frame, asked._replace(time="columns", times=times)
    return frame, asked


def dates_of(index: Any) -> Any:
    """The times of an index of pandas; None if it has none."""
    if type(index).__name__ == "PeriodIndex":
        return index.to_timestamp()
    kinds = ("DatetimeIndex", "TimedeltaIndex")
    return index if type(index).__name__ in kinds else None


def _is_kind_of_date(kind: Any) -> bool:
    return getattr(kind, "kind", "") == "M"


def _of_dimension(array: Any, asked: Asked) -> Asked:
    """A DataArray with a dimension of time."""
    axis: AskedTime = "rows" if array.dims[0] == TIME_DIMENSION else "columns"
    if asked.time in ("rows", "columns") and asked.time != axis:
        raise ValueError(
            f"time={asked.time!r}, and the dimension {TIME_DIMENSION!r} of the array is its {axis}"
        )
    known = TIME_DIMENSION in getattr(array, "coords", ())
    times = array[TIME_DIMENSION].values if known else None
    return asked._replace(time=axis, times=times)

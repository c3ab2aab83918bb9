"""The column of dates of a table, if it has one: its rows are times then."""

from __future__ import annotations

import warnings
from typing import Any

from .._extras import optional
from .table import Table

AUTO, NONE = "auto", "none"  # what `time` may be beside the name of a column
# Of the rows: a column with fewer different dates is no axis of time (a birthday, an id that
# reads as a year).
DISTINCT = 0.5
UNKNOWN = (  # formats that pandas does not find out by itself
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%d/%m/%Y %I:%M %p",
    "%d/%m/%Y %I:%M:%S %p",
    "%d.%m.%y",
    "%d.%m.%y %H:%M",
)
# what follows a time of day: it differs within a column where summer time begins
OFFSET = r"(?<=:\d\d)(\.\d+)?\s*(Z|[+-]\d\d:?\d\d)$"
GUESSED = "Could not infer format"  # how pandas says that it reads each cell as it can


def dates_of(table: Table, asked: str) -> tuple[str | None, Any]:
    """The name of the column of dates and its dates; None without.

    With "auto", the index or the first column that passes through and reads as dates."""
    if asked == NONE or table.frame is None:
        if asked not in (NONE, AUTO):
            raise ValueError(f"time={asked!r}: the file has no columns with names")
        return None, None
    if asked == AUTO:
        return _first(table)
    names = [str(label) for label in table.frame.columns]
    if asked not in names:
        raise ValueError(
            f"there is no column {asked!r} of times; there are: {', '.join(names)}"
        )
    dates = _read(table.frame.iloc[:, names.index(asked)], guess=True)
    if dates is None:
        raise ValueError(f"the column {asked!r} does not read as dates")
    return asked, dates


def _first(table: Table) -> tuple[str | None, Any]:
    if type(table.frame.index).__name__ == "DatetimeIndex":
        return str(table.frame.index.name or "index"), table.frame.index
    for name in table.others():
        columns = [str(label) for label in table.frame.columns]
        dates = _read(table.frame.iloc[:, columns.index(name)], guess=False)
        if dates is not None and dates.nunique() > max(1, DISTINCT * len(dates)):
            return name, dates
    return None, None


def _read(column: Any, guess: bool) -> Any:
    """A column as dates of the local clock; None if it is none, or holds gaps. Without a guess,
    all cells must have one format: `ST-100` could be a year as well. Where days and months could be
    exchanged, as in 01.02.2024, dates are read so that they follow each other.
    """
    if column.dtype.kind not in "OMUT" and str(column.dtype) not in ("string", "str"):
        return None
    if column.dtype.kind != "M":
        column = column.replace(OFFSET, "", regex=True)
    # days come first where they are followed by dots
    dots = column.dtype.kind != "M" and "." in str(column.iloc[0])[:3]
    ways: list[dict[str, Any]] = [{"dayfirst": dots}, {"dayfirst": not dots}]
    ways += [{"format": form} for form in UNKNOWN]
    first = None
    for way in ways:
        dates = _as_dates(column, guess, way)
        if dates is not None and dates.is_monotonic_increasing:
            return dates
        first = dates if first is None else first
    return first


def _as_dates(column: Any, guess: bool, way: dict[str, Any]) -> Any:
    pandas = optional("pandas", "tables")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of days before months
        if not guess:
            warnings.filterwarnings("error", GUESSED, UserWarning)
        try:
            dates = pandas.to_datetime(column, errors="raise", **way)
        except (ValueError, TypeError, OverflowError, UserWarning):
            return None
    if dates.dtype.kind != "M" or bool(dates.isna().any()):
        return None
    index = pandas.DatetimeIndex(dates)
    return index.tz_localize(None) if index.tz is not None else index

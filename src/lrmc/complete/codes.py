"""Codes for missing values: those that were named, and columns that look as if they had one."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._scipy import sparse as sp
from ..weights import Array
from .table import Table

NINES = re.compile(r"-?9{2,}")  # the usual codes: -99, 999, -9999
FEWEST = 2  # times that a code stands in a column
DISTINCT = (
    5  # values beside it that a column must have, or it is one of a few categories
)
MOST_NAMED = 5  # columns in a sentence


def as_codes(text: str | None) -> tuple[str, ...]:
    """Codes from a list with commas, as `--missing` takes it."""
    return tuple(code for code in (text or "").split(",") if code.strip())


def numeric_codes(missing: Sequence[str]) -> list[float]:
    """Those codes that are numbers."""
    found = []
    for code in missing:
        try:
            number = float(code)
        except ValueError:
            continue
        found += [number] if math.isfinite(number) else []
    return found


def without_codes(table: Table, missing: Sequence[str]) -> Table:
    """The table with NaN where a code stands. Text was looked at when it was read."""
    codes = numeric_codes(missing)
    if not codes:
        return table
    if sp.issparse(table.values):
        raise ValueError(
            "--missing is for tables and full matrices; of a sparse one, what is missing"
            " is not stored"
        )
    values = np.ma.filled(
        table.values.astype(np.result_type(table.values, np.float32)), np.nan
    )
    return replace(table, values=np.where(np.isin(values, codes), np.nan, values))


def odd_value(column: Array) -> float | None:
    """A value that may be a code for missing: it stands several times at the end of the
    column's range, farther away than all others are from each other; or it is made of
    nines.
    """
    seen = column[~np.isnan(column)]
    values, counts = np.unique(seen, return_counts=True)
    if len(values) <= DISTINCT:
        return None
    for end, rest in ((0, values[1:]), (-1, values[:-1])):
        value = float(values[end])
        gap = float(np.abs(rest - value).min())
        far = gap > rest[-1] - rest[0]
        nines = NINES.fullmatch(f"{value:.15g}") is not None
        # Nines may be the next number of a range that is full.
        apart = gap > 2 * (rest[-1] - rest[0]) / (len(rest) - 1)
        if counts[end] >= FEWEST and (far or (nines and apart)):
            return value
    return None


def mention_codes(table: Table) -> None:
    """Warn of columns that seem to have a code for missing values."""
    if sp.issparse(table.values) or table.values.ndim != 2 or table.frame is None:
        return
    found: dict[float, list[str]] = {}
    for k, column in enumerate(table.values.T):
        value = odd_value(column)
        if value is not None:
            found.setdefault(value, []).append(table.called(k))
    for value, columns in found.items():
        more = len(columns) - MOST_NAMED
        named = ", ".join(columns[:MOST_NAMED]) + (
            f" and {more} more" if more > 0 else ""
        )
        sentence = (
            f"{value:g} stands far from all other values, and more than once, in {named}:"
            f" if it means missing, say so with --missing={value:g}"
        )
        warnings.warn(sentence, UserWarning, stacklevel=3)

"""Columns of numbers that are labels: counters, identifiers, years, dates. They are no data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import date

import numpy as np

from .._scipy import sparse as sp
from ..weights import Array
from .table import Table

FEWEST = 3  # rows that tell something
YEARS = (1500, 2200)
SECONDS = (1e8, 1e10)  # since 1970, as of 1973 to 2286
ID = re.compile(
    r"(^|[^a-z])(id|ids|uuid|guid|index|idx|key|code|zip|zipcode|postcode|nr|no)($|[^a-z])"
)
CAMEL_ID = re.compile(r"[a-z]I[Dd]$")
DATED = re.compile(
    r"(^|[^a-z])(year|yr|date|day|month|time|timestamp|datetime|epoch)s?($|[^a-z])"
)
MOST_NAMED = 8


def label(name: str, column: Array) -> str:
    """Why a column is no data, in a few words; empty if it is."""
    seen = column[~np.isnan(column)]
    if len(seen) < FEWEST or np.any(seen != np.rint(seen)):
        return ""
    word = name.strip().lower()
    if len(seen) == len(column) and np.all(np.diff(seen) == 1):
        return "counts the rows"
    if _dates(seen):
        return "holds dates"
    if DATED.search(word) and _in(seen, YEARS):
        return "holds years"
    if DATED.search(word) and (_in(seen, SECONDS) or _in(seen / 1000, SECONDS)):
        return "holds times"
    named = ID.search(word) or CAMEL_ID.search(name.strip())
    if named and len(np.unique(seen)) == len(seen):
        return "holds identifiers"
    return ""


def _in(values: Array, limits: tuple[float, float]) -> bool:
    return bool(limits[0] <= values.min() and values.max() <= limits[1])


def _dates(values: Array) -> bool:
    """Whether all are dates as in 20240131."""
    if not _in(values, (YEARS[0] * 10000, YEARS[1] * 10000)):
        return False
    for value in np.unique(values).astype(int).tolist():
        try:
            date(value // 10000, value // 100 % 100, value % 100)
        except ValueError:
            return False
    return True


def without_labels(table: Table, data: Sequence[str]) -> Table:
    """The table without columns that are labels, which is told; `data` names those that are data
    all the same. Where all columns look like labels, none is taken for one.
    """
    table.check_named(data, "take as data")
    if table.frame is None or sp.issparse(table.values):
        return table
    names = table.headings()
    found = {}
    for i, column in zip(table.columns, table.values.T):
        why = (
            "" if names[i] in data else label(names[i] if table.header else "", column)
        )
        if why:
            found[i] = why
    if len(found) == len(table.columns):
        return table
    for k, i in [(k, i) for k, i in enumerate(table.columns) if i in found][
        :MOST_NAMED
    ]:
        how = f"; --data {names[i]} completes it all the same" if table.header else ""
        sentence = f"{table.called(k)} {found[i]}, and passes through{how}"
        warnings.warn(sentence, UserWarning, stacklevel=3)
    return table.only([k for k, i in enumerate(table.columns) if i not in found])

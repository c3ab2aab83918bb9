"""A matrix as it stood in a file, with everything around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._scipy import sparse as sp
from ..formats.sparse import Matrix, sound
from ..weights import Array

Frame: TypeAlias = Any  # of pandas, which need not be installed
IN_FULL = 10  # decimals that nobody measured: numbers as a program writes them


# How a date without a time of day is written by those who have times only.
MIDNIGHT = ("T00:00:00", " 00:00:00")


class Long(NamedTuple):
    """Which columns of a long table name the rows, the columns and the values of the matrix."""

    rows: str
    columns: str
    values: str


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was said about a file before it is read."""

    name: str | None = None  # of a variable, or of a sheet
    missing: tuple[str, ...] = ()  # codes for missing values, as text
    keep: tuple[str, ...] = ()  # columns of numbers that pass through
    data: tuple[str, ...] = ()  # columns that are data although they look like labels
    long: Long | None = None


class Sheet(NamedTuple):
    """Where a table was in a spreadsheet."""

    path: Path
    name: str
    first_row: int  # of its numbers, below the header; from 1


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix from a file, and what stood around it there."""

    values: Matrix
    name: str = "X"  # of the variable, in npz and mat files
    frame: Frame = (
        None  # the whole table, if it was one: as text from CSV, typed from Parquet
    )
    columns: Sequence[int] = ()  # where the columns of `values` are in the frame
    header: bool = True
    delimiter: str = ","
    decimal: str = "."
    sheet: Sheet | None = None
    # By column: text that was taken as missing.
    markers: Mapping[int, Counter[str]] = field(default_factory=dict)

    def decimals(self) -> list[int | None]:
        """How many decimals the numbers of each column of `values` have; None where they are
        written in full.
        """
        if self.frame is None:
            return [None] * self.values.shape[1]
        return [_decimals(self.frame.iloc[:, i], self.decimal) for i in self.columns]

    def row_names(self) -> list[str] | None:
        """The index, or else the first column that passes through and whose cells are all
        different; None without.
        """
        if self.frame is None:
            return None
        if type(self.frame.index).__name__ != "RangeIndex":
            return _distinct(self.frame.index)
        for k in self._beside():
            if self.frame.iloc[:, k].is_unique:
                return _distinct(self.frame.iloc[:, k])
        return None

    def col_names(self) -> list[str] | None:
        """The header over the columns of `values`; None without."""
        if self.frame is None or not self.header:
            return None
        return _distinct(self.frame.columns[list(self.columns)])

    def others(self) -> list[str]:
        """The header over the columns that pass through."""
        if self.frame is None:
            return []
        return [str(self.frame.columns[i]) for i in self._beside()]

    def headings(self) -> list[str]:
        """The header over all columns, as it stands there."""
        return [] if self.frame is None else [str(x) for x in self.frame.columns]

    def check_named(self, names: Iterable[str], what_for: str) -> None:
        """Refuse names of columns that are not there."""
        there = self.headings()
        for name in names:
            if name not in there:
                raise ValueError(
                    f"there is no column {name!r} to {what_for}; there are:"
                    f" {', '.join(there) or 'no names'}"
                )

    def called(self, k: int) -> str:
        """The k-th column of `values` in a sentence."""
        i = self.columns[k]
        return (
            f"column {self.headings()[i]!r}" if self.header else f"column {i} (from 0)"
        )

    def _beside(self) -> list[int]:
        """Where the columns are that pass through."""
        completed = set(self.columns)
        return [i for i in range(self.frame.shape[1]) if i not in completed]

    def without(self, keep: Sequence[str]) -> Table:
        """The table without the columns that only pass through."""
        if not keep:
            return self
        names = self.headings()
        self.check_named(keep, "keep")
        chosen = [k for k, i in enumerate(self.columns) if names[i] not in keep]
        if not chosen:
            raise ValueError(
                "all columns of numbers are kept unchanged, and none is left to"
                " complete"
            )
        return self.only(chosen)

    def only(self, chosen: Sequence[int]) -> Table:
        """The table of which only these columns of `values` are data."""
        if len(chosen) == len(self.columns):
            return self
        return replace(
            self,
            values=self.values[:, list(chosen)],
            columns=[self.columns[k] for k in chosen],
        )


def _decimals(column: Frame, decimal: str) -> int | None:
    """Of text, as many as the longest has; of whole numbers none; of floats it is not known."""
    dtype = column.dtype
    if not (isinstance(dtype, np.dtype) and dtype.kind == "O"):
        return 0 if dtype.kind in "iu" else None
    most = 0
    for cell in column.to_numpy(object):
        whole, mark, rest = cell.strip().partition(decimal)
        if not whole.lstrip("+-").isdigit() and not rest.isdigit():
            continue  # no plain number
        if not rest.isdigit() and mark:
            return None if rest else most
        most = max(most, len(rest))
    return most if most < IN_FULL else None


def _distinct(labels: Iterable[object]) -> list[str]:
    """Labels as text; one that is empty or not the only one of its name is followed by its place,
    counted from 0.
    """
    names = [
        " / ".join(map(str, x)) if isinstance(x, tuple) else str(x).strip()
        for x in labels
    ]
    if names and all(name.endswith(MIDNIGHT) for name in names):  # dates without a time
        names = [name[: -len("T00:00:00")] for name in names]
    seen = Counter(names)
    return [
        name if name and seen[name] == 1 else f"{name} [{i}]".strip()
        for i, name in enumerate(names)
    ]


def is_new(new: Array, old: Array) -> Array:
    """Which entries are new: what is not determined stays as it was."""
    return (new != old) & ~np.isnan(new)


def as_dense(Y: Matrix) -> Array:
    """A copy: floats, NaN where nothing was observed."""
    if sp.issparse(Y):
        stored = sound(Y).tocsr().copy()
        stored.sum_duplicates()
        stored = stored.tocoo()
        dense = np.full(Y.shape, np.nan, np.result_type(stored.dtype, np.float32))
        dense[stored.row, stored.col] = stored.data
        return dense
    floats = np.array(Y, np.result_type(Y.dtype, np.float32))
    return (
        np.where(Y.mask, np.nan, floats) if isinstance(Y, np.ma.MaskedArray) else floats
    )

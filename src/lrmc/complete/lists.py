"""Lists beside a completed table: what stood out, what was filled in, what is new."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._extras import optional
from ..weights import Array
from .limits import readable
from .table import Table, as_dense, is_new

COLUMNS = ("row", "column", "value", "expected", "score")  # of the list of outliers
INTERVALS = ("row", "column", "value", "lower", "upper")  # of what was filled in
MARKS = ("row", "column", "was", "now", "why")  # of the list of new cells
SCORE_DECIMALS = 2  # in the list of outliers
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how they begin
NEGATIVE = re.compile(r"-\d+(\.\d*)?([eE][-+]?\d+)?")


class Outliers(NamedTuple):
    """The observed entries that stand out, the highest score first."""

    rows: Array
    cols: Array
    values: Array  # as observed
    expected: Array  # by the model
    # the difference, in standard deviations of the noise of its row and column; in thresholds
    # without
    scores: Array
    # spike, stuck, drift or shift (`in_time.kinds`); None of a table without time
    kinds: Array | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the list."""
        return COLUMNS if self.kinds is None else (*COLUMNS, "kind")

    def named(
        self, row_names: Sequence[str] | None, col_names: Sequence[str] | None
    ) -> Iterator[tuple[object, ...]]:
        """Row, column, value, expected, score and, with time, kind of each; rows and columns
        without names by number, from 0.
        """
        parts = tuple(x for x in self if x is not None)
        return named(parts, row_names, col_names)


def named(
    some: tuple[Array, ...],
    row_names: Sequence[str] | None,
    col_names: Sequence[str] | None,
) -> Iterator[tuple[object, ...]]:
    """Lines from columns: the first two are rows and columns, which get their names, or stay
    numbers from 0.
    """
    rows, cols = (
        at.tolist() if names is None else [names[i] for i in at.tolist()]
        for at, names in zip(some[:2], (row_names, col_names), strict=True)
    )
    return zip(rows, cols, *(x.tolist() for x in some[2:]))


def write_outliers(path: Path, table: Table, outliers: Outliers) -> None:
    """The entries that stood out, the highest score first."""
    expected = readable(outliers.expected, outliers.cols, table.decimals())
    scores = np.round(outliers.scores, SCORE_DECIMALS)
    shown = outliers._replace(expected=expected, scores=scores)
    lines = shown.named(table.row_names(), table.col_names())
    if path.suffix.lower() == ".parquet":
        pandas = optional("pandas", "tables")
        frame = pandas.DataFrame(lines, columns=list(outliers.columns))
        frame.to_parquet(path, engine="pyarrow", index=False)
        return
    _write_csv(path, outliers.columns, lines)


def write_intervals(
    path: Path,
    table: Table,
    parts: Iterator[tuple[Array, ...]],
) -> None:
    """Each entry that was missing, with the ends of its interval."""
    names, decimals = (table.row_names(), table.col_names()), table.decimals()
    shown = (
        (rows, cols, values, *(readable(x, cols, decimals) for x in ends))
        for rows, cols, values, *ends in parts
    )
    lines = (line for part in shown for line in named(part, *names))
    _write_csv(path, INTERVALS, lines)


def write_marks(path: Path, table: Table, X: Array) -> None:
    """Each cell that is new, with what it was and why it is new."""
    before = as_dense(table.values)
    rows, cols = np.nonzero(is_new(X, before))
    was, now = before[rows, cols], X[rows, cols]
    missing = np.isnan(was)
    why = np.where(missing, "filled", "replaced")
    parts = rows, cols, np.where(missing, "", was.astype(object)), now, why
    lines = named(parts, table.row_names(), table.col_names())
    _write_csv(path, MARKS, lines)


def _write_csv(
    path: Path,
    columns: Sequence[str],
    lines: Iterable[tuple[object, ...]],
) -> None:
    """Lines of a row's name, a column's name, and numbers."""
    with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(
            (_harmless(row), _harmless(column), *numbers)
            for row, column, *numbers in lines
        )


def _harmless(label: object) -> object:
    """A label that a spreadsheet would take for a formula, and execute, as text: with an apostrophe
    before it.
    """
    if not isinstance(label, str) or NEGATIVE.fullmatch(label):
        return label
    return f"'{label}" if label.startswith(FORMULA) else label

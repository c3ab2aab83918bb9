"""Tables of text: csv files. Text all through, so that what is not replaced is written back letter
for letter.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._extras import optional
from ..formats.variables import Unusable
from ..weights import Array
from .frames import NO_NUMBERS, updated
from .table import Frame, Table

# In lower case. Words that only ever mean missing are read so without a word about it ...
MISSING_TEXT = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>"}
)
# ... and others where the rest of the column is numbers, which is told.
MARKERS = frozenset(
    {
        "?",
        "-",
        "--",
        "---",
        "–",
        "—",
        "−",
        ".",
        "..",
        "...",
        "*",
        "**",
        "n.a.",
        "n.a",
        "missing",
        "unknown",
        "nil",
    }
    | {
        "not available",
        "no data",
        "nodata",
        "#value!",
        "#div/0!",
        "#ref!",
        "#num!",
        "#null!",
        "#name?",
    }
)
MOST_NAMED = 8  # columns in a message
# other cells for each number: with fewer, a column was meant to be one of numbers
MIXED = 0.5
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*$")


def read_csv_file(path: Path, name: str | None) -> Table:
    """Header, index and delimiter are found out."""
    pandas = optional("pandas", "tables")
    try:
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline()
            for _ in iter(lambda: file.read(1 << 20), ""):
                pass
    except UnicodeDecodeError:
        raise Unusable(
            f"{path} is not UTF-8 text, which is wanted: convert it, as with iconv -f"
            " latin1 -t utf-8"
        ) from None
    delimiter = max(",;\t", key=first.count)
    # Objects and not pandas' own text: that is an array for each column, which takes minutes if
    # there are 100,000.
    text = pandas.read_csv(
        path,
        header=None,
        dtype=object,
        keep_default_na=False,
        sep=delimiter,
        encoding="utf-8-sig",
    )
    cells = text.fillna("").to_numpy(object)
    header = _is_header(cells[0])
    names = cells[0].tolist() if header else range(cells.shape[1])
    body = pandas.DataFrame(cells[1:] if header else cells, columns=names, dtype=object)
    parsed = _parsed(body.to_numpy(object))
    columns = [
        i
        for i in np.flatnonzero(parsed.completed).tolist()
        if not _is_index(body, i, header)
    ]
    _mention_mixed(parsed, names, header)
    if not columns and any(
        DECIMAL_COMMA.match(cell) for cell in body.to_numpy(object).flat
    ):
        raise Unusable(
            f"{path} writes numbers with decimal commas (1,5); points are wanted"
        )
    if not columns or not len(body):
        raise Unusable(NO_NUMBERS)
    return Table(
        parsed.numbers[:, columns],
        frame=body,
        columns=columns,
        header=header,
        delimiter=delimiter,
        markers=_counted_markers(parsed),
    )


class _Parsed(NamedTuple):
    """Cells of text, and which of them are numbers."""

    cells: Array  # n1 x n2 objects
    numbers: Array  # n1 x n2, NaN where a cell is no number
    markers: Array  # cells that may say missing: pairs of row and column, k x 2
    others: Array  # cells that are something else

    @property
    def counts(self) -> Array:
        """Of each column: numbers, markers and other cells, (3, n2)."""
        n2 = self.cells.shape[1]
        told = (np.bincount(x[:, 1], minlength=n2) for x in (self.markers, self.others))
        return np.array([np.count_nonzero(~np.isnan(self.numbers), axis=0), *told])

    @property
    def completed(self) -> Array:
        """Whether a column is one of numbers: nothing else is in it, but markers beside numbers are
        missing.
        """
        numbers, markers, others = self.counts
        return (others == 0) & ((markers == 0) | (numbers > 0))


def _parsed(cells: Array) -> _Parsed:
    """All cells at once: column by column takes minutes if there are 100,000."""
    pandas = optional("pandas", "tables")
    flat = pandas.to_numeric(
        pandas.Series(cells.ravel(), dtype=object), errors="coerce"
    )
    numbers = flat.to_numpy(np.float64, na_value=np.nan).reshape(cells.shape)
    unread = np.argwhere(np.isnan(numbers))
    words = [cell.strip().lower() for cell in cells[unread[:, 0], unread[:, 1]]]
    marker = np.array([word in MARKERS for word in words], bool)
    other = np.array([word not in MISSING_TEXT for word in words], bool) & ~marker
    return _Parsed(cells, numbers, unread[marker], unread[other])


def _is_header(first: Array) -> bool:
    """Whether a row names columns: something in it is no number, or it is the `,0,1,2` that pandas
    writes.
    """
    cells = first.tolist()
    if cells[0] == "" and cells[1:] == [str(i) for i in range(len(cells) - 1)]:
        return True
    found = _parsed(first[None])
    return len(found.others) > 0 or (
        len(found.markers) > 0 and bool(np.isnan(found.numbers).all())
    )


def _is_index(body: Frame, i: int, header: bool) -> bool:
    return (
        header and i == 0 and body.shape[1] > 1 and str(body.columns[0]).strip() == ""
    )


def _counted_markers(parsed: _Parsed) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for row, column in parsed.markers.tolist():
        found.setdefault(column, Counter())[parsed.cells[row, column].strip()] += 1
    return found


def mention_markers(table: Table) -> None:
    """Warn of text that was taken as missing, each kind once."""
    where: dict[str, dict[int, int]] = {}
    for column in table.columns:
        for marker, count in table.markers.get(column, {}).items():
            where.setdefault(marker, {})[column] = count
    for marker, counts in where.items():
        told = [
            f"{_called(i, table.frame.columns, table.header)} ({n})"
            for i, n in counts.items()
        ]
        sentence = (
            f"{marker!r} is taken as missing, in {sum(counts.values())} cells:"
            f" {_listed(told)}"
        )
        warnings.warn(
            f"{sentence}; --keep passes a column through as it is",
            UserWarning,
            stacklevel=3,
        )


def _mention_mixed(parsed: _Parsed, names: Sequence[object], header: bool) -> None:
    """Warn of columns that would be completed but for a few cells."""
    numbers, _, others = parsed.counts
    mixed = np.flatnonzero((others > 0) & (others < MIXED * numbers)).tolist()
    n1 = len(parsed.cells)
    for i in mixed[:MOST_NAMED]:
        row = parsed.others[parsed.others[:, 1] == i][0, 0]
        cells = (
            f"{others[i]} of its {n1} cells are no numbers, such as"
            f" {parsed.cells[row, i]!r}"
        )
        sentence = (
            f"{_called(i, names, header)} passes through: {cells}; empty these to have"
            " it completed"
        )
        warnings.warn(sentence, UserWarning, stacklevel=2)
    if len(mixed) > MOST_NAMED:
        sentence = (
            f"{len(mixed) - MOST_NAMED} more columns pass through: a few of their cells"
            " are no numbers"
        )
        warnings.warn(sentence, UserWarning, stacklevel=2)


def _called(i: int, names: Sequence[object], header: bool) -> str:
    return f"column {names[i]!r}" if header else f"column {i} (from 0)"


def _listed(told: Sequence[str]) -> str:
    """Some of many."""
    more = len(told) - MOST_NAMED
    return ", ".join(told[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def write_csv_file(path: Path, table: Table, X: Array) -> None:
    """With the delimiter of the source; cells that did not change stay letter for letter."""
    frame = updated(table, X, as_text=True)
    default_index = type(frame.index).__name__ == "RangeIndex"
    frame.to_csv(
        path,
        header=table.frame is not None and table.header,
        index=not default_index,
        sep=table.delimiter,
        na_rep="",
    )

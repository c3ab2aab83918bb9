"""Tables from cells of text, as csv and xlsx files have them. Text all through, so that what is not
replaced is written back letter for letter.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._extras import optional
from ..formats.variables import Unusable
from ..weights import Array
from .codes import numeric_codes
from .frames import NO_NUMBERS
from .long import pivoted
from .table import Frame, Reading, Table

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
FEWEST_COUNTED = 4  # columns that are numbered in the first row
MOST_LOOKED_AT = 1000  # columns of text that are looked at for numbers
NEARLY_ALL = 0.8  # of the cells of a column
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*$")
DECIMAL_POINT = re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*$")
THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*$")
# a number with something before or after it, as in "$5", "1 200", "12 kg", "40 %"
QUANTITY = re.compile(
    r"(?P<before>[<>~≈$€£]*\s*)[-+]?\d[\d.,' ]*(?P<after>\s*[%°A-Za-zµ²³/]{0,10})"
)


DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d{1,2}:\d\d")


def text_table(cells: Array, how: Reading, path: Path, delimiter: str = ",") -> Table:
    """A table from cells of text: header, index, decimal commas and what is missing are found
    out.
    """
    pandas = optional("pandas", "tables")
    decimal = _decimal(cells, delimiter)
    header = _is_header(cells[0], decimal)
    names = cells[0].tolist() if header else range(cells.shape[1])
    body = pandas.DataFrame(cells[1:] if header else cells, columns=names, dtype=object)
    if how.long is not None:
        body, header = pivoted(body, how.long, ""), True
    parsed = _parsed(body.to_numpy(object), decimal, how.missing)
    columns = [
        i
        for i in np.flatnonzero(parsed.completed).tolist()
        if not _is_index(body, i, header)
    ]
    _mention_text(parsed, list(body.columns), header)
    if not columns or not len(body):
        raise Unusable(f"{path}: {NO_NUMBERS}{_written(parsed)}")
    return Table(
        parsed.numbers[:, columns],
        frame=body,
        columns=columns,
        header=header,
        delimiter=delimiter,
        decimal=decimal,
        markers=_counted_markers(parsed),
    )


def _decimal(cells: Array, delimiter: str) -> str:
    """The decimal mark: a comma where numbers have commas and none has a point.

    `1,234` between commas, in quotes, is 1234 as a rule; between semicolons it is 1.234, which is
    told if nothing else shows it.
    """
    commas, thousands = 0, 0
    for cell in cells.flat:
        if "," in cell and DECIMAL_COMMA.match(cell):
            commas += 1
            thousands += THOUSANDS.match(cell) is not None
        elif "." in cell and DECIMAL_POINT.match(cell):
            return "."
    if not commas or (delimiter == "," and thousands == commas):
        return "."
    if thousands == commas:
        sentence = "commas are read as decimal commas: 1,234 is a little more than 1"
        warnings.warn(sentence, UserWarning, stacklevel=4)
    return ","


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
        """Whether a column is one of numbers: it has some, and nothing else but what says missing."""
        numbers, _, others = self.counts
        return (others == 0) & (numbers > 0)


def _parsed(cells: Array, decimal: str = ".", missing: Sequence[str] = ()) -> _Parsed:
    """All cells at once: column by column takes minutes if there are 100,000."""
    pandas = optional("pandas", "tables")
    text = pandas.Series(cells.ravel(), dtype=object)
    if decimal == ",":
        text = text.str.replace(",", ".", regex=False)
    flat = pandas.to_numeric(text, errors="coerce")
    numbers = flat.to_numpy(np.float64, na_value=np.nan).reshape(cells.shape)
    coded = np.isin(numbers, numeric_codes(missing))
    unread = np.argwhere(np.isnan(numbers))
    words = [cell.strip().lower() for cell in cells[unread[:, 0], unread[:, 1]]]
    said = MISSING_TEXT | {code.strip().lower() for code in missing}
    markers = MARKERS - said
    marker = np.array([word in markers for word in words], bool)
    other = np.array([word not in said for word in words], bool) & ~marker
    numbers = np.where(coded, np.nan, numbers)
    return _Parsed(cells, numbers, unread[marker], unread[other])


def _is_header(first: Array, decimal: str) -> bool:
    """Whether a row names columns: something in it is no number, or it counts them, as pandas does
    and years do.
    """
    cells = first.tolist()
    if _counts(cells[1:] if cells[0] == "" else cells, beside_index=cells[0] == ""):
        return True
    found = _parsed(first[None], decimal)
    return len(found.others) > 0 or (
        len(found.markers) > 0 and bool(np.isnan(found.numbers).all())
    )


def _counts(cells: Sequence[str], *, beside_index: bool) -> bool:
    """Whether cells are whole numbers, each the next one: four of them, or 0 and so on beside an
    index.
    """
    if not cells or not cells[0].isdecimal():
        return False
    first = int(cells[0])
    enough = len(cells) >= FEWEST_COUNTED or (beside_index and first == 0)
    return enough and list(cells) == [str(first + i) for i in range(len(cells))]


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


def _mention_text(parsed: _Parsed, names: Sequence[object], header: bool) -> None:
    """Warn of columns that would be completed but for a few cells, or for how numbers are
    written.
    """
    numbers, _, others = parsed.counts
    for i, cell in _like_numbers(parsed):
        sentence = (
            f"{_called(i, names, header)} passes through as text, but looks like"
            f" numbers, such as {cell!r}: write plain numbers, without units"
            " and separators, to have it completed"
        )
        warnings.warn(sentence, UserWarning, stacklevel=4)
    mixed = np.flatnonzero((others > 0) & (others < MIXED * numbers)).tolist()
    n1 = len(parsed.cells)
    for i in mixed[:MOST_NAMED]:
        row = parsed.others[parsed.others[:, 1] == i][0, 0]
        told = (
            f"{others[i]} of its {n1} cells are no numbers, such as"
            f" {parsed.cells[row, i]!r}"
        )
        sentence = (
            f"{_called(i, names, header)} passes through: {told}; name these with"
            " --missing to have it completed"
        )
        warnings.warn(sentence, UserWarning, stacklevel=2)
    if len(mixed) > MOST_NAMED:
        sentence = (
            f"{len(mixed) - MOST_NAMED} more columns pass through: a few of their cells"
            " are no numbers"
        )
        warnings.warn(sentence, UserWarning, stacklevel=2)


def _like_numbers(parsed: _Parsed) -> Iterator[tuple[int, str]]:
    """Columns of text that look like numbers, with a cell of each."""
    numbers, _, others = parsed.counts
    for i in np.flatnonzero((numbers == 0) & (others > 0)).tolist()[:MOST_LOOKED_AT]:
        rows = parsed.others[parsed.others[:, 1] == i][:, 0]
        cells = [cell.strip() for cell in parsed.cells[rows, i]]
        if looks_numeric(cells):
            yield i, cells[0]


def _written(parsed: _Parsed) -> str:
    """What a table without numbers may have instead."""
    cell = next((cell for _, cell in _like_numbers(parsed)), None)
    if cell is not None:
        return f"; write plain ones, without units and separators, instead of {cell!r}"
    numbers, _, others = parsed.counts
    if not len(parsed.others):
        return ""
    mixed = (numbers > others)[parsed.others[:, 1]]
    row, i = parsed.others[mixed.argmax()]
    such = f"such as {parsed.cells[row, i]!r}"
    if mixed.any():
        return (
            f"; columns of numbers hold other cells as well, {such}: take these out, or name them"
            " with --missing"
        )
    return f"; cells are text, {such}: write 0 and 1 for no and yes"


def looks_numeric(cells: Sequence[str]) -> bool:
    """Whether text is numbers with a unit, a currency or separators: nearly all cells are, with
    the same words around the number.
    """
    found = [QUANTITY.fullmatch(cell) for cell in cells if not DATE.match(cell)]
    around = Counter(
        (match["before"].strip(), match["after"].strip()) for match in found if match
    )
    if not around:
        return False
    (words, count), *_ = around.most_common(1)
    written = any(words) or any("," in cell or " " in cell for cell in cells)
    return written and count >= NEARLY_ALL * len(cells)


def _called(i: int, names: Sequence[object], header: bool) -> str:
    return f"column {names[i]!r}" if header else f"column {i} (from 0)"


def _listed(told: Sequence[str]) -> str:
    """Some of many."""
    more = len(told) - MOST_NAMED
    return ", ".join(told[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

"""Tables in spreadsheets: xlsx files, read as values and written back into the same sheet, where
cells that are new are highlighted.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import optional
from .._memory import memory_there_is
from ..formats.variables import Unusable
from ..weights import Array
from .frames import NO_NUMBERS, updated
from .table import Reading, Sheet, Table, as_dense, is_new
from .text_tables import text_table

FILLED, REPLACED = "FFF2CC", "F8CBAD"  # colors of cells: pale yellow, pale orange
MOST_UNPACKED = 2  # parts of the memory that an unpacked file may take: one in so many


def read_xlsx_file(path: Path, how: Reading) -> Table:
    """The first sheet with a table, or the one that is named. Formulas are not computed: their
    last values count.
    """
    _check_size(path)
    openpyxl = optional("openpyxl", "tables")
    book = openpyxl.load_workbook(
        path, read_only=True, data_only=True, keep_links=False
    )
    try:
        sheet = _chosen(book, how.name, path)
        lines = [
            [_text(cell) for cell in line] for line in sheet.iter_rows(values_only=True)
        ]
    finally:
        book.close()
    cells, first = _trimmed(lines, path)
    table = text_table(cells, how, path, delimiter=",")
    at = (
        None if how.long is not None else Sheet(path, sheet.title, first + table.header)
    )
    return replace(table, sheet=at)


def _check_size(path: Path) -> None:
    """Refuse a file that would unpack to more than the memory can hold."""
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > memory_there_is() // MOST_UNPACKED:
        raise Unusable(
            f"{path} unpacks to {size / 1e9:.1f} GB, more than the memory holds"
        )


def _chosen(book: Any, name: str | None, path: Path) -> Any:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if name is not None:
        if name not in sheets:
            raise Unusable(
                f"{path} has no sheet {name!r}; there are: {', '.join(sheets)}"
            )
        return sheets[name]
    for sheet in sheets.values():
        if any(
            any(cell is not None for cell in line)
            for line in sheet.iter_rows(values_only=True)
        ):
            return sheet
    raise Unusable(f"{path}: {NO_NUMBERS}")


def _text(cell: object) -> str:
    """A cell as it would stand in a csv file."""
    if cell is None:
        return ""
    if isinstance(cell, datetime | date | time):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)


def _trimmed(lines: list[list[str]], path: Path) -> tuple[Array, int]:
    """Cells without empty lines above and columns beside them; the number of the first line, from
    1.
    """
    first = next((i for i, line in enumerate(lines) if any(line)), None)
    if first is None:
        raise Unusable(f"{path}: {NO_NUMBERS}")
    kept = lines[first:]
    while not any(kept[-1]):
        kept.pop()
    width = max(
        max((j + 1 for j, cell in enumerate(line) if cell), default=0) for line in kept
    )
    cells = np.full((len(kept), width), "", object)
    for i, line in enumerate(kept):
        cells[i, : min(width, len(line))] = line[:width]
    return cells, first + 1


def write_xlsx_file(path: Path, table: Table, X: Array) -> None:
    """Into the sheet that the table was read from, or a new one. Cells that are filled in are
    yellow, those that are replaced orange, with their old value in a note.
    """
    openpyxl = optional("openpyxl", "tables")
    if table.sheet is None:
        book = _new_book(openpyxl, table, X)
        sheet, first = book.active, 1 + _has_header(table)
    else:
        book = openpyxl.load_workbook(table.sheet.path, keep_links=False)
        sheet, first = book[table.sheet.name], table.sheet.first_row
    _put(sheet, table, X, first)
    book.save(path)


def _has_header(table: Table) -> bool:
    return table.frame is not None and table.header


def _new_book(openpyxl: Any, table: Table, X: Array) -> Any:
    book = openpyxl.Workbook()
    sheet = book.active
    frame = updated(table, X, as_text=False)
    if _has_header(table):
        sheet.append([str(label) for label in frame.columns])
    for line in frame.itertuples(index=False):
        sheet.append([_cell(value) for value in line])
    return book


def _cell(value: Any) -> Any:
    """What openpyxl takes; text that would be a formula stays text."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value != value:
        return None
    if isinstance(value, str) and value.startswith("="):
        return f"'{value}"
    return value


def _put(sheet: Any, table: Table, X: Array, first: int) -> None:
    """Set and mark the cells that are new."""
    styles = optional("openpyxl.styles", "tables")
    comments = optional("openpyxl.comments", "tables")
    filled, replaced = (
        styles.PatternFill("solid", fgColor=color) for color in (FILLED, REPLACED)
    )
    columns = list(table.columns) or list(range(X.shape[1]))
    before = as_dense(table.values)
    for row, k in np.argwhere(is_new(X, before)).tolist():
        cell = sheet.cell(first + row, columns[k] + 1, float(X[row, k]))
        missing = np.isnan(before[row, k])
        cell.fill = filled if missing else replaced
        if not missing:
            cell.comment = comments.Comment(f"was {before[row, k]:g}", "lrmc")

"""Tables with typed columns: parquet files, and any table with new numbers in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .._extras import optional
from ..formats.variables import Unusable
from ..weights import Array
from .long import pivoted
from .table import Frame, Reading, Table, is_new

NO_NUMBERS = (
    "the table has no numbers: at least one row and one column of numbers are wanted"
)


def read_parquet_file(path: Path, how: Reading) -> Table:
    """Columns of floats and integers are the matrix."""
    optional("pyarrow", "tables")
    pandas = optional("pandas", "tables")
    frame = pandas.read_parquet(path)
    if how.long is not None:
        frame = pivoted(frame.reset_index(), how.long, np.nan)
    kinds = pandas.api.types

    def of_numbers(dtype: object) -> bool:
        return bool(kinds.is_float_dtype(dtype) or kinds.is_integer_dtype(dtype))

    columns = [i for i, dtype in enumerate(frame.dtypes) if of_numbers(dtype)]
    parts = [_as_floats(frame.iloc[:, i]) for i in columns]
    if not parts or not len(frame):
        raise Unusable(NO_NUMBERS)
    return Table(np.stack(parts, axis=1), frame=frame, columns=columns)


def _as_floats(column: Frame) -> Array:
    dtype = np.float32 if str(column.dtype).lower() == "float32" else np.float64
    return column.to_numpy(dtype, na_value=np.nan)


def updated(table: Table, X: Array, as_text: bool) -> Frame:
    """The table with new numbers; as text, cells that did not change stay as they were, letter for
    letter.

    So do cells that a spreadsheet would take for a formula: they are the user's own, and an
    apostrophe before them would change the table. In the list of outliers, which is ours, labels
    are made harmless.
    """
    pandas = optional("pandas", "tables")
    if table.frame is None:
        return pandas.DataFrame(X, columns=[str(j) for j in range(X.shape[1])])
    if as_text and all(
        dtype.kind == "O" and isinstance(dtype, np.dtype)
        for dtype in table.frame.dtypes
    ):
        return _updated_text(table, X)
    frame = pandas.concat(list(_new_columns(table, X, as_text)), axis=1)
    frame.columns = table.frame.columns
    return frame


def _updated_text(table: Table, X: Array) -> Frame:
    """As `updated`, for a table that is text: all at once, as there may be 100,000 columns."""
    pandas = optional("pandas", "tables")
    cells = np.array(table.frame.to_numpy(object))
    at = list(table.columns)
    changed = is_new(X, table.values)
    completed = cells[:, at]
    decimals = table.decimals()
    for k in np.flatnonzero(changed.any(0)).tolist():
        new = changed[:, k]
        completed[new, k] = written(X[new, k], decimals[k], table.decimal)
    cells[:, at] = completed
    return pandas.DataFrame(
        cells, index=table.frame.index, columns=table.frame.columns, dtype=object
    )


def written(values: Array, decimals: int | None, decimal: str = ".") -> list[str]:
    """Numbers as text, with so many decimals, or in full."""
    text = (
        values.astype(str)
        if decimals is None
        else [f"{x:.{decimals}f}" for x in values]
    )
    return [str(cell).replace(".", decimal) for cell in text]


def _new_columns(table: Table, X: Array, as_text: bool) -> Iterator[Frame]:
    pandas = optional("pandas", "tables")
    place = {i: k for k, i in enumerate(table.columns)}
    for i in range(table.frame.shape[1]):
        old = table.frame.iloc[:, i]
        if i not in place:
            yield old
            continue
        new = X[:, place[i]]
        changed = is_new(new, table.values[:, place[i]])
        whole = pandas.api.types.is_integer_dtype(old.dtype)
        if as_text:
            cells = old.astype(str).mask(old.isna(), "").to_numpy(object)
            cells[changed] = written(new[changed], 0 if whole else None)
            yield pandas.Series(cells, index=old.index, dtype=object)
        elif whole and np.all(new[changed] == np.rint(new[changed])):
            column = old.copy()
            column[changed] = new[changed].astype(np.int64)
            yield column
        elif changed.any() or not pandas.api.types.is_numeric_dtype(old.dtype):
            yield pandas.Series(new, index=old.index)
        else:
            yield old


def write_parquet_file(path: Path, table: Table, X: Array) -> None:
    """Columns that did not change keep their type."""
    frame = updated(table, X, as_text=False)
    frame.columns = [str(label) for label in frame.columns]
    frame.to_parquet(path, engine="pyarrow")

"""Long tables, with one value in each line: pivoted if it is said how, refused with a hint if it is
not.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np

from .._extras import optional
from .._memory import is_large
from ..formats.variables import Unusable
from .table import Frame, Long, Table

FEWEST = 9  # lines of a table that may be long
MOST_COLUMNS = 5  # that a long table has
REPEATED = 0.5  # of the lines: a name of rows or columns stands in several


def pivoted(frame: Frame, long: Long, nothing: object) -> Frame:
    """The wide table of a long one: a line for each row, in the order in which they come, and
    `nothing` where there is no line.
    """
    pandas = optional("pandas", "tables")
    names = [str(column) for column in frame.columns]
    for name in long:
        if names.count(name) != 1:
            raise Unusable(
                f"there is no column {name!r} to pivot by, or more than one; there are:"
                f" {', '.join(names)}"
            )
    rows, cols, values = (frame.iloc[:, names.index(name)] for name in long)
    (i, row_labels), (j, col_labels) = pandas.factorize(rows), pandas.factorize(cols)
    if is_large(8.0 * len(row_labels) * len(col_labels)):
        raise Unusable(
            f"as a matrix the table has {len(row_labels)} x {len(col_labels)} cells, too"
            " many for the memory: write it as an .mtx or a sparse .npz file"
        )
    place = i * len(col_labels) + j
    twice = np.flatnonzero(np.bincount(place) > 1)
    if len(twice):
        row, col = divmod(int(twice[0]), len(col_labels))
        raise Unusable(
            f"{len(twice)} pairs of {long.rows!r} and {long.columns!r} have more than one"
            f" line, such as {row_labels[row]!r}, {col_labels[col]!r}: keep one of each"
        )
    dtype = object if isinstance(nothing, str) else np.float64
    wide = np.full(len(row_labels) * len(col_labels), nothing, dtype)
    wide[place] = values.to_numpy(dtype)
    matrix = wide.reshape(len(row_labels), len(col_labels))
    # named, since pandas makes texts of another type, which says nothing of decimals
    headings = [str(label) for label in col_labels]
    out = pandas.DataFrame(matrix, columns=headings, dtype=dtype)
    out.insert(0, long.rows, row_labels)
    return out


def refuse_long(table: Table, source: Path) -> None:
    """Refuse a table that is plainly long: two columns name a place, each pair of names stands in
    one line, and one column has numbers.
    """
    how = plainly_long(table)
    if how is None:
        return
    raise ValueError(
        f"{source} is a long table, with one value in each line: give --rows"
        f" {how.rows!r} --columns {how.columns!r} --values {how.values!r} to have it made"
        " a matrix; if it is none, name the columns that are data with --data"
    )


def plainly_long(table: Table) -> Long | None:
    """Which columns a long table would be pivoted by; None where a table is not plainly long."""
    frame = table.frame
    if frame is None or not table.header or not 3 <= frame.shape[1] <= MOST_COLUMNS:
        return None
    if len(frame) < FEWEST:
        return None
    names = table.headings()
    keys = [i for i in range(len(names)) if _names_things(table, i)]
    for pair in combinations(keys, 2):
        values = [i for i in table.columns if i not in pair]
        if len(values) == 1 and not frame.iloc[:, list(pair)].duplicated().any():
            return Long(names[pair[0]], names[pair[1]], names[values[0]])
    return None


def _names_things(table: Table, i: int) -> bool:
    """Whether a column has names that stand in several lines: text, or whole numbers."""
    column = table.frame.iloc[:, i]
    if not 2 <= column.nunique() <= REPEATED * len(column):
        return False
    if i not in table.columns:
        return True
    values = table.values[:, list(table.columns).index(i)]
    return bool(np.all(values == np.rint(values)))  # false where one is missing

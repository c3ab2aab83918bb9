"""Matrices in files: read one, and write another back in its place with everything around it
unchanged.

A format is one reader and one writer, found by suffix in the two tables at the end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from .._extras import optional
from .._files import whole
from ..formats.variables import reading
from ..weights import Array
from .array_files import (
    read_mat_file,
    read_mtx_file,
    read_npy_file,
    read_npz_file,
    write_mat_file,
    write_mtx_file,
    write_npy_file,
    write_npz_file,
)
from .codes import mention_codes, without_codes
from .csv_files import (
    CSV,
    TSV,
    read_csv_file,
    read_tsv_file,
    write_csv_file,
    write_tsv_file,
)
from .excel_files import read_xlsx_file, write_xlsx_file
from .frames import read_parquet_file, write_parquet_file
from .labels import without_labels
from .table import Long, Reading, Table
from .text_tables import mention_markers

__all__ = [
    "READERS",
    "TABLES",
    "WRITERS",
    "Long",
    "Table",
    "checked_place",
    "checked_target",
    "read",
    "suffix_of",
    "write",
]
TABLES = (*CSV, *TSV, ".xlsx", ".parquet")  # files whose columns have names


def read(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    keep: Sequence[str] = (),
    data: Sequence[str] = (),
    missing: Sequence[str] = (),
    long: Long | None = None,
) -> Table:
    """The matrix in a file, by the file's suffix. Nothing in the file is executed.

    `name` is a variable of an npz or mat file, or a sheet of an xlsx file; `keep` names columns
    that pass through, `data` columns that are data although they look like labels, `missing` codes
    for missing values; `long` says how a long table becomes a matrix.
    """
    path = Path(path)
    suffix = suffix_of(path)
    _check_loop(path)
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    # the names of the rows that a long table becomes are no data, numbers or not
    keep = (*keep, *(() if long is None else (long.rows,)))
    how = Reading(
        name=name,
        missing=tuple(missing),
        keep=keep,
        data=tuple(data),
        long=long,
    )
    with reading(f"{path} could not be read as {suffix[1:]}"):
        table = READERS[suffix](path, how)
    table = without_codes(table, how.missing).without(how.keep)
    table = without_labels(table, how.data)
    mention_markers(table)
    mention_codes(table)
    return table


def write(path: str | os.PathLike[str], table: Table, X: Array) -> None:
    """Write X where `table.values` was, in the format of the suffix. The file appears whole or not
    at all.
    """
    path = checked_target(path)
    with whole(path) as temporary:
        WRITERS[suffix_of(path)](temporary, table, X)


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Refuse an output that could not be written, before the work and not after it."""
    path = Path(path)
    suffix = suffix_of(path)
    needed = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
    if suffix in needed:
        optional(needed[suffix], "tables")
    if suffix in TABLES:
        optional("pandas", "tables")
    return checked_place(path)


def checked_place(path: Path) -> Path:
    """Refuse a place where no file can be."""
    _check_loop(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such directory", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(21, "is a directory, and a file is wanted", str(path))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(
            13, "files cannot be written into this directory", str(path.parent)
        )
    return path


def _check_loop(path: Path) -> None:
    """Refuse a link that leads to itself: `Path.resolve` would raise a RuntimeError, and writing
    replace the link.
    """
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(
                errno.ELOOP, "is a symbolic link that leads to itself", str(path)
            ) from None


def suffix_of(path: Path) -> str:
    """The suffix that says the format, such as .csv or .csv.gz; unknown ones are refused."""
    name = path.name.lower()
    fitting = [suffix for suffix in READERS if name.endswith(suffix)]
    if not fitting:
        raise ValueError(
            f"{path}: the suffix says the format, and one of {' '.join(READERS)} is"
            " wanted"
        )
    return max(fitting, key=len)


Reader = Callable[[Path, Reading], Table]
Writer = Callable[[Path, Table, Array], None]
READERS: dict[str, Reader] = {
    ".npy": read_npy_file,
    ".npz": read_npz_file,
    **dict.fromkeys(CSV, read_csv_file),
    **dict.fromkeys(TSV, read_tsv_file),
    ".xlsx": read_xlsx_file,
    ".parquet": read_parquet_file,
    ".mtx": read_mtx_file,
    ".mat": read_mat_file,
}
WRITERS: dict[str, Writer] = {
    ".npy": write_npy_file,
    ".npz": write_npz_file,
    **dict.fromkeys(CSV, write_csv_file),
    **dict.fromkeys(TSV, write_tsv_file),
    ".xlsx": write_xlsx_file,
    ".parquet": write_parquet_file,
    ".mtx": write_mtx_file,
    ".mat": write_mat_file,
}

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
from .csv_files import mention_markers, read_csv_file, write_csv_file
from .frames import read_parquet_file, write_parquet_file
from .table import Table

__all__ = [
    "READERS",
    "WRITERS",
    "Table",
    "checked_place",
    "checked_target",
    "read",
    "write",
]


def read(
    path: str | os.PathLike[str], *, name: str | None = None, keep: Sequence[str] = ()
) -> Table:
    """The matrix in a file, by the file's suffix. Nothing in the file is executed."""
    path = Path(path)
    reader = READERS[_suffix(path)]
    _check_loop(path)
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    with reading(f"{path} could not be read as {path.suffix.lower()[1:]}"):
        table = reader(path, name)
    table = table.without(keep)
    mention_markers(table)
    return table


def write(path: str | os.PathLike[str], table: Table, X: Array) -> None:
    """Write X where `table.values` was, in the format of the suffix. The file appears whole or not
    at all.
    """
    path = checked_target(path)
    with whole(path) as temporary:
        WRITERS[path.suffix.lower()](temporary, table, X)


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Refuse an output that could not be written, before the work and not after it."""
    path = Path(path)
    suffix = _suffix(path)
    if suffix == ".parquet":
        optional("pyarrow", "tables")
    if suffix in (".csv", ".parquet"):
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


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ValueError(
            f"{path}: the suffix says the format, and one of {' '.join(READERS)} is"
            " wanted"
        )
    return suffix


Reader = Callable[[Path, str | None], Table]
Writer = Callable[[Path, Table, Array], None]
READERS: dict[str, Reader] = {
    ".npy": read_npy_file,
    ".npz": read_npz_file,
    ".csv": read_csv_file,
    ".parquet": read_parquet_file,
    ".mtx": read_mtx_file,
    ".mat": read_mat_file,
}
WRITERS: dict[str, Writer] = {
    ".npy": write_npy_file,
    ".npz": write_npz_file,
    ".csv": write_csv_file,
    ".parquet": write_parquet_file,
    ".mtx": write_mtx_file,
    ".mat": write_mat_file,
}

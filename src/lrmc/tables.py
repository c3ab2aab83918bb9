"""Matrices in files: read one, and write another back in its place with everything around it unchanged.

A format is one reader and one writer, found by suffix in the two tables at the end.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from .extras import MissingPackage, optional
from .files import whole
from .sparse import sound
from .weights import Array

MISSING_TEXT = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>"}
)  # in CSV files, in lower case

DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*$")


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix from a file, and what stood around it there."""

    values: Any  # what `lrmc.solve` takes: an array (NaN is missing), a masked array or a sparse matrix
    name: str = "X"  # of the variable, in npz and mat files
    frame: Any = None  # the whole table, if it was one: as text from CSV, typed from Parquet
    columns: Sequence[int] = ()  # where the columns of `values` are in the frame
    header: bool = True
    delimiter: str = ","

    def row_names(self) -> list[str] | None:
        """The index, or else the first column that passes through if its cells are all different; None without."""
        if self.frame is None:
            return None
        if type(self.frame.index).__name__ != "RangeIndex":
            return _distinct(self.frame.index)
        beside = next((i for i in range(self.frame.shape[1]) if i not in set(self.columns)), None)
        if beside is None or not self.frame.iloc[:, beside].is_unique:
            return None
        return _distinct(self.frame.iloc[:, beside])

    def col_names(self) -> list[str] | None:
        """The header over the columns of `values`; None without."""
        if self.frame is None or not self.header:
            return None
        return _distinct(self.frame.columns[list(self.columns)])

    def others(self) -> list[str]:
        """The header over the columns that pass through."""
        if self.frame is None:
            return []
        return [str(name) for i, name in enumerate(self.frame.columns) if i not in set(self.columns)]


# ---- the doors


def read(path: str | os.PathLike[str], *, name: str | None = None, keep: Sequence[str] = ()) -> Table:
    """The matrix in a file, by the file's suffix. Nothing in the file is executed."""
    path = Path(path)
    reader = READERS[_suffix(path)]
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    try:
        table = reader(path, name)
    except (MissingPackage, OSError, _Wanted):
        raise
    except Exception as error:  # zipfile, zlib, pandas, pyarrow and scipy each have their own
        sentence = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} could not be read as {path.suffix.lower()[1:]}: {sentence}") from error
    return _without(table, keep)


def write(path: str | os.PathLike[str], table: Table, X: Array) -> None:
    """Write X where `table.values` was, in the format of the suffix. The file appears whole or not at all."""
    path = checked_target(path)
    with whole(path) as temporary:
        WRITERS[path.suffix.lower()](temporary, table, X)


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Refuse an output that could not be written, before the work and not after it."""
    path = Path(path)
    if _suffix(path) in (".csv", ".parquet"):
        _pandas(path.suffix.lower())
    return checked_place(path)


def checked_place(path: Path) -> Path:
    """Refuse a place where no file can be."""
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such directory", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(21, "is a directory, and a file is wanted", str(path))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(13, "files cannot be written into this directory", str(path.parent))
    return path


class _Wanted(ValueError):
    """A sentence for the user that needs no frame around it."""


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ValueError(f"{path}: the suffix says the format, and one of {' '.join(READERS)} is wanted")
    return suffix


def _distinct(labels: Any) -> list[str]:
    """Labels as text; one that is empty or not the only one of its name is followed by its place, counted from 0."""
    names = [" / ".join(map(str, x)) if isinstance(x, tuple) else str(x).strip() for x in labels]
    seen = Counter(names)
    return [name if name and seen[name] == 1 else f"{name} [{i}]".strip() for i, name in enumerate(names)]


def _pandas(suffix: str) -> Any:
    if suffix == ".parquet":
        optional("pyarrow", "tables")
    return optional("pandas", "tables")


# ---- arrays: npy, npz, mat, mtx


def _read_npy(path: Path, name: str | None) -> Table:
    with open(path, "rb") as file:  # opened here: numpy leaves it open when it is damaged
        return Table(np.load(file, allow_pickle=False))


def _read_npz(path: Path, name: str | None) -> Table:
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
        names = set(content.files)
        if {"format", "shape", "data"} <= names:
            return Table(sound(sp.load_npz(path)))
        return _chosen({key: content[key] for key in sorted(names)}, name, path)


def _read_mat(path: Path, name: str | None) -> Table:
    try:
        content = scipy.io.loadmat(path)
    except NotImplementedError:
        raise _Wanted(f"{path} is a MATLAB 7.3 file (HDF5), which is not read; in MATLAB, save it with -v7") from None
    return _chosen({key: value for key, value in content.items() if not key.startswith("__")}, name, path)


def _read_mtx(path: Path, name: str | None) -> Table:
    return Table(scipy.io.mmread(path))


def _chosen(content: Mapping[str, Any], name: str | None, path: Path) -> Table:
    """The named variable, or the only matrix beside an optional `mask` (not 0 where observed)."""
    if name is not None and name not in content:
        raise _Wanted(f"{path} has no variable {name!r}; it has: {', '.join(content) or 'none'}")
    numbers = {
        key: value
        for key, value in content.items()
        if key != "mask" and len(value.shape) == 2 and (sp.issparse(value) or value.dtype.kind in "fiub")
    }
    # MATLAB stores scalars and vectors as matrices: they count only if nothing else is there
    matrices = [key for key, value in numbers.items() if min(value.shape) > 1] or list(numbers)
    if name is None and len(matrices) != 1:
        which = f"{len(matrices)} matrices ({', '.join(matrices)})" if matrices else "no matrix of numbers"
        raise _Wanted(f"{path} holds {which}; one is wanted: choose with --name")
    chosen = matrices[0] if name is None else name
    values, mask = content[chosen], content.get("mask")
    if sp.issparse(values):
        return Table(sound(values), chosen)
    if mask is None or chosen == "mask":
        return Table(values, chosen)
    if mask.shape != values.shape:
        raise _Wanted(f"{path}: mask has shape {mask.shape}, {chosen} has {values.shape}")
    return Table(np.ma.MaskedArray(values, mask=mask == 0), chosen)


def _write_npy(path: Path, table: Table, X: Array) -> None:
    np.save(path, X, allow_pickle=False)


def _write_npz(path: Path, table: Table, X: Array) -> None:
    name = "X" if table.name == "file" else table.name  # numpy's savez has a parameter of that name
    content: dict[str, Any] = {name: X}
    np.savez(path, **content)


def _write_mat(path: Path, table: Table, X: Array) -> None:
    scipy.io.savemat(path, {table.name: X})


def _write_mtx(path: Path, table: Table, X: Array) -> None:
    scipy.io.mmwrite(path, X)


# ---- tables: csv, parquet


def _read_csv(path: Path, name: str | None) -> Table:
    """Text all through, so that what is not replaced is written back letter for letter."""
    pandas = _pandas(".csv")
    try:
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline()
            for _ in iter(lambda: file.read(1 << 20), ""):
                pass
    except UnicodeDecodeError:
        raise _Wanted(
            f"{path} is not UTF-8 text, which is wanted: convert it, as with iconv -f latin1 -t utf-8"
        ) from None
    delimiter = max(",;\t", key=first.count)
    text = pandas.read_csv(path, header=None, dtype=str, keep_default_na=False, sep=delimiter, encoding="utf-8-sig")
    text = text.fillna("")
    header = _is_header(text.iloc[0])
    if header:
        body = text.iloc[1:].reset_index(drop=True)
        body.columns = text.iloc[0].tolist()
    else:
        body = text
    parsed = {i: _numbers(body.iloc[:, i]) for i in range(body.shape[1])}
    columns = [i for i, x in parsed.items() if x is not None and not _is_index(body, i, header)]
    for i in (i for i, x in parsed.items() if x is None):
        _mention_mixed(body.iloc[:, i], header)
    if not columns and body.map(lambda cell: bool(DECIMAL_COMMA.match(cell))).any(axis=None):
        raise _Wanted(f"{path} writes numbers with decimal commas (1,5); points are wanted")
    return Table(_side_by_side([parsed[i] for i in columns], len(body)), "X", body, columns, header, delimiter)


def _is_header(first: Any) -> bool:
    """Whether a row names columns: something in it is no number, or it is the `,0,1,2` that pandas writes."""
    cells = first.tolist()
    return _numbers(first) is None or (cells[0] == "" and cells[1:] == [str(i) for i in range(len(cells) - 1)])


def _is_index(body: Any, i: int, header: bool) -> bool:
    return header and i == 0 and body.shape[1] > 1 and str(body.columns[0]).strip() == ""


def _numbers(text: Any) -> Any:
    """The column as floats, NaN where a cell says missing; None if some cell is no number."""
    import pandas

    numbers = pandas.to_numeric(text, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    unread = text[np.isnan(numbers)].str.strip().str.lower()
    return numbers if unread.isin(MISSING_TEXT).all() else None


def _mention_mixed(text: Any, header: bool) -> None:
    """Warn of a column that would be completed but for a few cells."""
    import pandas

    other = text[pandas.to_numeric(text, errors="coerce").isna() & ~text.str.strip().str.lower().isin(MISSING_TEXT)]
    numbers = len(text) - len(other)
    if 0 < len(other) < 0.5 * numbers:
        name = f"column {text.name!r}" if header else f"column {text.name} (from 0)"
        cells = f"{len(other)} of its {len(text)} cells are no numbers, such as {other.iloc[0]!r}"
        sentence = f"{name} passes through: {cells}; empty these to have it completed"
        warnings.warn(sentence, UserWarning, stacklevel=2)


def _read_parquet(path: Path, name: str | None) -> Table:
    pandas = _pandas(".parquet")
    frame = pandas.read_parquet(path)
    kinds = pandas.api.types
    columns = [i for i, t in enumerate(frame.dtypes) if kinds.is_float_dtype(t) or kinds.is_integer_dtype(t)]
    parts = [frame.iloc[:, i].to_numpy(_float_like(frame.dtypes.iloc[i]), na_value=np.nan) for i in columns]
    return Table(_side_by_side(parts, len(frame)), "X", frame, columns)


def _float_like(dtype: Any) -> Any:
    return np.float32 if str(dtype).lower() == "float32" else np.float64


def _side_by_side(columns: Sequence[Array], n_rows: int) -> Array:
    if not columns or not n_rows:
        raise _Wanted("the table has no numbers: at least one row and one column of numbers are wanted")
    return np.stack(columns, axis=1)


def _without(table: Table, keep: Sequence[str]) -> Table:
    """The table without the columns that only pass through."""
    if not keep:
        return table
    names = [] if table.frame is None else [str(label) for label in table.frame.columns]
    unknown = [label for label in keep if label not in names]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r} to keep; there are: {', '.join(names) or 'no names'}")
    chosen = [k for k, i in enumerate(table.columns) if names[i] not in keep]
    if not chosen:
        raise ValueError("all columns of numbers are kept unchanged, and none is left to complete")
    return replace(table, values=table.values[:, chosen], columns=[table.columns[k] for k in chosen])


def _updated(table: Table, X: Array, as_text: bool) -> Any:
    """The table with new numbers; as text, cells that did not change stay as they were written."""
    pandas = _pandas(".csv")
    if table.frame is None:
        return pandas.DataFrame(X, columns=[str(j) for j in range(X.shape[1])])
    series = list(_new_columns(table, X, as_text))
    frame = pandas.concat(series, axis=1)
    frame.columns = table.frame.columns
    return frame


def _new_columns(table: Table, X: Array, as_text: bool) -> Iterator[Any]:
    import pandas

    place = {i: k for k, i in enumerate(table.columns)}
    for i in range(table.frame.shape[1]):
        old = table.frame.iloc[:, i]
        if i not in place:
            yield old
            continue
        new = X[:, place[i]]
        changed = (new != table.values[:, place[i]]) & ~np.isnan(new)
        if as_text:
            cells = old.astype(str).mask(old.isna(), "").to_numpy(object)
            cells[changed] = new[changed].astype(str)
            yield pandas.Series(cells, index=old.index, dtype=object)
        elif changed.any() or not pandas.api.types.is_numeric_dtype(old.dtype):
            yield pandas.Series(new, index=old.index)
        else:
            yield old


def _write_csv(path: Path, table: Table, X: Array) -> None:
    frame = _updated(table, X, as_text=True)
    default_index = type(frame.index).__name__ == "RangeIndex"
    frame.to_csv(
        path, header=table.frame is not None and table.header, index=not default_index, sep=table.delimiter, na_rep=""
    )


def _write_parquet(path: Path, table: Table, X: Array) -> None:
    frame = _updated(table, X, as_text=False)
    frame.columns = [str(label) for label in frame.columns]
    frame.to_parquet(path, engine="pyarrow")


Reader = Callable[[Path, str | None], Table]
Writer = Callable[[Path, Table, Array], None]
READERS: dict[str, Reader] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".mtx": _read_mtx,
    ".mat": _read_mat,
}
WRITERS: dict[str, Writer] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".mtx": _write_mtx,
    ".mat": _write_mat,
}

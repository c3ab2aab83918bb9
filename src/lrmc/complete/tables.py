"""Matrices in files: read one, and write another back in its place with everything around it unchanged.

A format is one reader and one writer, found by suffix in the two tables at the end.
"""

from __future__ import annotations

import errno
import io
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.io
import scipy.sparse as sp

from .._extras import MissingPackage, optional
from .._files import whole
from ..formats.arrays import opened_npz, read_npy
from ..formats.matlab import NewerFormatError, read_mat
from ..formats.sparse import sound
from ..observations._checks import as_mask
from ..weights import Array

# In CSV files, in lower case. Words that only ever mean missing are read so without a word about it ...
MISSING_TEXT = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>"})
# ... and others where the rest of the column is numbers, which is told.
MARKERS = frozenset(
    {"?", "-", "--", "---", "–", "—", "−", ".", "..", "...", "*", "**", "n.a.", "n.a", "missing", "unknown", "nil"}
    | {"not available", "no data", "nodata", "#value!", "#div/0!", "#ref!", "#num!", "#null!", "#name?"}
)
MOST_NAMED = 8  # columns in a message
NO_NUMBERS = "the table has no numbers: at least one row and one column of numbers are wanted"

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
    markers: Mapping[int, Counter[str]] = field(default_factory=dict)  # by column: text that was taken as missing

    def row_names(self) -> list[str] | None:
        """The index, or else the first column that passes through if its cells are all different; None without."""
        if self.frame is None:
            return None
        if type(self.frame.index).__name__ != "RangeIndex":
            return _distinct(self.frame.index)
        beside = next(iter(self._beside()), None)
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
        return [str(self.frame.columns[i]) for i in self._beside()]

    def _beside(self) -> list[int]:
        """Where the columns are that pass through."""
        completed = set(self.columns)
        return [i for i in range(self.frame.shape[1]) if i not in completed]


# ---- the doors


def read(path: str | os.PathLike[str], *, name: str | None = None, keep: Sequence[str] = ()) -> Table:
    """The matrix in a file, by the file's suffix. Nothing in the file is executed."""
    path = Path(path)
    reader = READERS[_suffix(path)]
    _check_loop(path)
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    try:
        table = reader(path, name)
    except (MissingPackage, NewerFormatError, _Wanted):
        raise
    except Exception as error:  # zipfile, zlib, pandas, pyarrow and scipy each have their own
        if isinstance(error, OSError) and error.filename is not None:  # from the system; theirs name no file
            raise
        sentence = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} could not be read as {path.suffix.lower()[1:]}: {sentence}") from error
    table = _without(table, keep)
    _mention_markers(table)
    return table


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
    _check_loop(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such directory", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(21, "is a directory, and a file is wanted", str(path))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(13, "files cannot be written into this directory", str(path.parent))
    return path


def _check_loop(path: Path) -> None:
    """Refuse a link that leads to itself: `Path.resolve` would raise a RuntimeError, and writing replace the link."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a symbolic link that leads to itself", str(path)) from None


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
    return Table(read_npy(path))


def _read_npz(path: Path, name: str | None) -> Table:
    with opened_npz(path) as content:
        if {"format", "shape", "data"} <= set(content):
            content.check()
            return Table(sound(sp.load_npz(path)))
        return _chosen({key: content[key] for key in sorted(content)}, name, path)


def _read_mat(path: Path, name: str | None) -> Table:
    return _chosen(read_mat(path), name, path)


def _read_mtx(path: Path, name: str | None) -> Table:
    whole = _check_text(path)
    return Table(scipy.io.mmread(path if whole else io.BytesIO(path.read_bytes() + b"\n")))


IN_NUMBERS = b"0123456789+-.eE \t\r\nnNaAiIfFtTyY"  # with inf, infinity and nan


BROKEN_NUMBER = re.compile(rb"[eE][-+]?(?![-+\d])|\.\d*\.|\d[-+]")  # 2e, 1.5.2, 1-2


def _check_text(path: Path) -> bool:
    """Refuse what scipy would read as another number, such as 1,5 as 1, and bytes of 0, at which it crashes.

    Whether the last line is a whole one: scipy also crashes at a last line without an end that has more than numbers.
    """
    with open(path, "rb") as file:
        line = file.readline()
        if not line.startswith(b"%%MatrixMarket"):
            return True  # which scipy tells
        while line.startswith(b"%"):
            line = file.readline()
        last = line
        for part in chain([line], iter(lambda: file.read(1 << 20) + file.readline(), b"")):
            other, last = part.translate(None, IN_NUMBERS), part
            if other:
                raise ValueError(f"among its numbers is {other[:1].decode('latin1')!r}; decimal points are wanted")
            if broken := BROKEN_NUMBER.search(part):
                raise ValueError(f"one of its numbers is broken, at {broken[0].decode()!r}")
    return last.endswith(b"\n")


def _chosen(content: Mapping[str, Any], name: str | None, path: Path) -> Table:
    """The named variable, or the only matrix beside an optional `mask` (True or 1 where observed)."""
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
    try:
        seen = as_mask(mask, values.shape)
    except ValueError as error:
        raise _Wanted(f"{path}: {error}") from None
    return Table(np.ma.MaskedArray(values, mask=~seen), chosen)


def _write_npy(path: Path, table: Table, X: Array) -> None:
    np.save(path, X, allow_pickle=False)


def _write_npz(path: Path, table: Table, X: Array) -> None:
    # Not numpy's savez: variables are its keywords, and it has parameters of its own called `file` and `allow_pickle`.
    with zipfile.ZipFile(path, "w") as archive, archive.open(f"{table.name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.asarray(X), allow_pickle=False)


def _write_mat(path: Path, table: Table, X: Array) -> None:
    name = _matlab_name(table.name)
    if name != table.name:
        sentence = f"MATLAB has no variable named {table.name!r}; it is written as {name!r}"
        warnings.warn(sentence, UserWarning, stacklevel=2)
    scipy.io.savemat(path, {name: X})


def _matlab_name(name: str) -> str:
    """The nearest name that MATLAB allows: a letter, then up to 62 letters, digits and underscores."""
    name = re.sub("[^a-zA-Z0-9_]", "_", name)
    return (name if name[:1].isalpha() else f"X{name}")[:63]


def _write_mtx(path: Path, table: Table, X: Array) -> None:
    with open(path, "wb") as file:  # opened here: into a file of its own, scipy writes without looking for errors
        scipy.io.mmwrite(file, X)


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
    # Objects and not pandas' own text: that is an array for each column, which takes minutes if there are 100,000.
    text = pandas.read_csv(path, header=None, dtype=object, keep_default_na=False, sep=delimiter, encoding="utf-8-sig")
    cells = text.fillna("").to_numpy(object)
    header = _is_header(cells[0])
    names = cells[0].tolist() if header else range(cells.shape[1])
    body = pandas.DataFrame(cells[1:] if header else cells, columns=names, dtype=object)
    parsed = _parsed(body.to_numpy(object))
    columns = [i for i in np.flatnonzero(parsed.completed).tolist() if not _is_index(body, i, header)]
    _mention_mixed(parsed, names, header)
    if not columns and any(DECIMAL_COMMA.match(cell) for cell in body.to_numpy(object).flat):
        raise _Wanted(f"{path} writes numbers with decimal commas (1,5); points are wanted")
    if not columns or not len(body):
        raise _Wanted(NO_NUMBERS)
    return Table(parsed.numbers[:, columns], "X", body, columns, header, delimiter, _counted_markers(parsed))


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
        """Whether a column is one of numbers: nothing else is in it, but markers beside numbers are missing."""
        numbers, markers, others = self.counts
        return (others == 0) & ((markers == 0) | (numbers > 0))


def _parsed(cells: Array) -> _Parsed:
    """All cells at once: column by column takes minutes if there are 100,000."""
    import pandas

    flat = pandas.to_numeric(pandas.Series(cells.ravel(), dtype=object), errors="coerce")
    numbers = flat.to_numpy(np.float64, na_value=np.nan).reshape(cells.shape)
    unread = np.argwhere(np.isnan(numbers))
    words = [cell.strip().lower() for cell in cells[unread[:, 0], unread[:, 1]]]
    marker = np.array([word in MARKERS for word in words], bool)
    other = np.array([word not in MISSING_TEXT for word in words], bool) & ~marker
    return _Parsed(cells, numbers, unread[marker], unread[other])


def _is_header(first: Array) -> bool:
    """Whether a row names columns: something in it is no number, or it is the `,0,1,2` that pandas writes."""
    cells = first.tolist()
    if cells[0] == "" and cells[1:] == [str(i) for i in range(len(cells) - 1)]:
        return True
    found = _parsed(first[None])
    return len(found.others) > 0 or (len(found.markers) > 0 and bool(np.isnan(found.numbers).all()))


def _is_index(body: Any, i: int, header: bool) -> bool:
    return header and i == 0 and body.shape[1] > 1 and str(body.columns[0]).strip() == ""


def _counted_markers(parsed: _Parsed) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for row, column in parsed.markers.tolist():
        found.setdefault(column, Counter())[parsed.cells[row, column].strip()] += 1
    return found


def _mention_markers(table: Table) -> None:
    """Warn of text that was taken as missing, each kind once."""
    where: dict[str, dict[int, int]] = {}
    for column in table.columns:
        for marker, count in table.markers.get(column, {}).items():
            where.setdefault(marker, {})[column] = count
    for marker, counts in where.items():
        told = [f"{_called(i, table.frame.columns, table.header)} ({n})" for i, n in counts.items()]
        sentence = f"{marker!r} is taken as missing, in {sum(counts.values())} cells: {_listed(told)}"
        warnings.warn(f"{sentence}; --keep passes a column through as it is", UserWarning, stacklevel=3)


def _mention_mixed(parsed: _Parsed, names: Sequence[Any], header: bool) -> None:
    """Warn of columns that would be completed but for a few cells."""
    numbers, _, others = parsed.counts
    mixed = np.flatnonzero((others > 0) & (others < 0.5 * numbers)).tolist()
    n1 = len(parsed.cells)
    for i in mixed[:MOST_NAMED]:
        row = parsed.others[parsed.others[:, 1] == i][0, 0]
        cells = f"{others[i]} of its {n1} cells are no numbers, such as {parsed.cells[row, i]!r}"
        sentence = f"{_called(i, names, header)} passes through: {cells}; empty these to have it completed"
        warnings.warn(sentence, UserWarning, stacklevel=2)
    if len(mixed) > MOST_NAMED:
        sentence = f"{len(mixed) - MOST_NAMED} more columns pass through: a few of their cells are no numbers"
        warnings.warn(sentence, UserWarning, stacklevel=2)


def _called(i: int, names: Sequence[Any], header: bool) -> str:
    return f"column {names[i]!r}" if header else f"column {i} (from 0)"


def _listed(told: Sequence[str]) -> str:
    """Some of many."""
    more = len(told) - MOST_NAMED
    return ", ".join(told[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _read_parquet(path: Path, name: str | None) -> Table:
    pandas = _pandas(".parquet")
    frame = pandas.read_parquet(path)
    kinds = pandas.api.types
    columns = [i for i, t in enumerate(frame.dtypes) if kinds.is_float_dtype(t) or kinds.is_integer_dtype(t)]
    parts = [frame.iloc[:, i].to_numpy(_float_like(frame.dtypes.iloc[i]), na_value=np.nan) for i in columns]
    if not parts or not len(frame):
        raise _Wanted(NO_NUMBERS)
    return Table(np.stack(parts, axis=1), "X", frame, columns)


def _float_like(dtype: Any) -> Any:
    return np.float32 if str(dtype).lower() == "float32" else np.float64


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
    """The table with new numbers; as text, cells that did not change stay as they were, letter for letter.

    So do cells that a spreadsheet would take for a formula: they are the user's own, and an apostrophe before them
    would change the table. In the list of outliers, which is ours, labels are made harmless.
    """
    pandas = _pandas(".csv")
    if table.frame is None:
        return pandas.DataFrame(X, columns=[str(j) for j in range(X.shape[1])])
    if as_text and all(dtype.kind == "O" and isinstance(dtype, np.dtype) for dtype in table.frame.dtypes):
        return _updated_text(table, X)
    frame = pandas.concat(list(_new_columns(table, X, as_text)), axis=1)
    frame.columns = table.frame.columns
    return frame


def _updated_text(table: Table, X: Array) -> Any:
    """As `_updated`, for a table that is text: all at once, as there may be 100,000 columns."""
    import pandas

    cells, at = np.array(table.frame.to_numpy(object)), list(table.columns)
    changed = _changed(X, table.values)
    completed = cells[:, at]
    completed[changed] = X[changed].astype(str)
    cells[:, at] = completed
    return pandas.DataFrame(cells, index=table.frame.index, columns=table.frame.columns, dtype=object)


def _new_columns(table: Table, X: Array, as_text: bool) -> Iterator[Any]:
    import pandas

    place = {i: k for k, i in enumerate(table.columns)}
    for i in range(table.frame.shape[1]):
        old = table.frame.iloc[:, i]
        if i not in place:
            yield old
            continue
        new = X[:, place[i]]
        changed = _changed(new, table.values[:, place[i]])
        if as_text:
            cells = old.astype(str).mask(old.isna(), "").to_numpy(object)
            cells[changed] = new[changed].astype(str)
            yield pandas.Series(cells, index=old.index, dtype=object)
        elif changed.any() or not pandas.api.types.is_numeric_dtype(old.dtype):
            yield pandas.Series(new, index=old.index)
        else:
            yield old


def _changed(new: Array, old: Array) -> Array:
    """Which entries are new: what is not determined stays as it was."""
    return (new != old) & ~np.isnan(new)


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

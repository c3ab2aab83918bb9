"""Matrices in files of arrays: npy, npz, mat and mtx."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from .._scipy import io as scipy_io
from .._scipy import sparse as sp
from ..formats.arrays import opened_npz, read_npy
from ..formats.sparse import Matrix, sound
from ..formats.variables import Unusable, chosen_name, read_variables
from ..observations._checks import as_mask
from ..weights import Array
from .table import Reading, Table

IN_NUMBERS = b"0123456789+-.eE \t\r\nnNaAiIfFtTyY"  # with inf, infinity and nan
BROKEN_NUMBER = re.compile(rb"[eE][-+]?(?![-+\d])|\.\d*\.|\d[-+]")  # 2e, 1.5.2, 1-2
SPARSE = {"format", "shape", "data"}  # what scipy's npz files of a sparse matrix hold
LONGEST_NAME = 63  # characters of a variable in MATLAB


def read_npy_file(path: Path, how: Reading) -> Table:
    """The only array."""
    return Table(read_npy(path))


def read_npz_file(path: Path, how: Reading) -> Table:
    """A sparse matrix of scipy, or one of some arrays."""
    with opened_npz(path) as content:
        sparse = set(content) >= SPARSE
        if sparse:
            content.check()
    if sparse:
        return Table(sound(sp.load_npz(path)))
    return _chosen(read_variables(path), how.name, path)


def read_mat_file(path: Path, how: Reading) -> Table:
    """One of some variables."""
    return _chosen(read_variables(path), how.name, path)


def read_mtx_file(path: Path, how: Reading) -> Table:
    """Dense or sparse."""
    whole = _check_text(path)
    return Table(
        scipy_io.mmread(path if whole else io.BytesIO(path.read_bytes() + b"\n"))
    )


def _check_text(path: Path) -> bool:
    """Refuse what scipy would read as another number, such as 1,5 as 1, and bytes of 0, at which it
    crashes.

    Whether the last line is a whole one: scipy also crashes at a last line without an end that has
    more than numbers.
    """
    with open(path, "rb") as file:
        line = file.readline()
        if not line.startswith(b"%%MatrixMarket"):
            return True  # which scipy tells
        while line.startswith(b"%"):
            line = file.readline()
        last = line
        for part in chain(
            [line], iter(lambda: file.read(1 << 20) + file.readline(), b"")
        ):
            other, last = part.translate(None, IN_NUMBERS), part
            if other:
                raise ValueError(
                    f"among its numbers is {other[:1].decode('latin1')!r}; decimal"
                    " points are wanted"
                )
            if broken := BROKEN_NUMBER.search(part):
                raise ValueError(
                    f"one of its numbers is broken, at {broken[0].decode()!r}"
                )
    return last.endswith(b"\n")


def _chosen(content: Mapping[str, Any], name: str | None, path: Path) -> Table:
    """The named variable, or the only matrix beside an optional `mask` (True or 1 where
    observed).
    """
    words = ("matrices", "no matrix of numbers")
    chosen = chosen_name(content, name, path, fitting=_matrices(content), words=words)
    values, mask = content[chosen], content.get("mask")
    if sp.issparse(values):
        return Table(sound(values), chosen)
    if mask is None or chosen == "mask":
        return Table(values, chosen)
    try:
        seen = as_mask(mask, values.shape)
    except ValueError as error:
        raise Unusable(f"{path}: {error}") from None
    return Table(np.ma.MaskedArray(values, mask=~seen), chosen)


def _matrices(content: Mapping[str, Any]) -> list[str]:
    """MATLAB stores scalars and vectors as matrices: they count only if nothing else is there."""
    numbers = {
        key: value
        for key, value in content.items()
        if key != "mask" and _is_of_numbers(value)
    }
    return [key for key, value in numbers.items() if min(value.shape) > 1] or list(
        numbers
    )


def _is_of_numbers(value: Matrix) -> bool:
    return len(value.shape) == 2 and (sp.issparse(value) or value.dtype.kind in "fiub")


def write_npy_file(path: Path, table: Table, X: Array) -> None:
    """The array alone."""
    np.save(path, X, allow_pickle=False)


def write_npz_file(path: Path, table: Table, X: Array) -> None:
    """The array under its name."""
    # Not numpy's savez: variables are its keywords, and it has parameters of its own called
    # `file` and `allow_pickle`.
    with (
        zipfile.ZipFile(path, "w") as archive,
        archive.open(f"{table.name}.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array(file, np.asarray(X), allow_pickle=False)


def write_mat_file(path: Path, table: Table, X: Array) -> None:
    """The array under its name, or the nearest that MATLAB allows."""
    name = _matlab_name(table.name)
    if name != table.name:
        sentence = (
            f"MATLAB has no variable named {table.name!r}; it is written as {name!r}"
        )
        warnings.warn(sentence, UserWarning, stacklevel=2)
    scipy_io.savemat(path, {name: X})


def _matlab_name(name: str) -> str:
    """The nearest name that MATLAB allows: a letter, then up to 62 letters, digits and
    underscores.
    """
    name = re.sub("[^a-zA-Z0-9_]", "_", name)
    return (name if name[:1].isalpha() else f"X{name}")[:LONGEST_NAME]


def write_mtx_file(path: Path, table: Table, X: Array) -> None:
    """A dense matrix."""
    # Opened here: into a file of its own, scipy writes without looking for errors.
    with open(path, "wb") as file:
        scipy_io.mmwrite(file, X)

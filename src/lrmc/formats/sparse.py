"""Sparse matrices that are what they say: scipy's conversions trust the indices they find, and so
do our kernels.

A wrong one, from a damaged or hostile file, would make them read and write beyond their arrays.
"""

from __future__ import annotations

from numbers import Integral, Number
from typing import Any, TypeAlias

import numpy as np

from ..weights import Array

Sparse: TypeAlias = (
    Any  # a matrix of scipy, of any format: each has attributes of its own
)
# With gaps: an array (NaN is missing), a masked array or a sparse matrix.
Matrix: TypeAlias = Array | Sparse


class _Damaged(ValueError):
    """What is wrong with a sparse matrix."""


def sound(Y: Sparse) -> Sparse:
    """The same sparse matrix, of any format, once all its indices are known to lie within its
    shape.
    """
    if len(Y.shape) != 2:
        raise ValueError(
            f"a 2-D matrix is wanted, but the sparse input has shape {Y.shape}"
        )
    if Y.dtype.kind not in "biufc":
        raise ValueError(
            f"the sparse matrix holds entries of type {Y.dtype}; numbers are wanted"
        )
    try:
        _CHECKS[Y.format](Y)
    except _Damaged as error:
        raise ValueError(
            f"the sparse matrix ({Y.format}) is damaged: {error}"
        ) from None
    return Y


def _need(fits: bool, what: str) -> None:
    if not fits:
        raise _Damaged(what)


def _within(indices: Array, n: int, what: str) -> None:
    """Whole numbers from 0 to n - 1."""
    _need(
        indices.ndim == 1 and indices.dtype.kind in "iu",
        f"its {what} are not whole numbers in a line",
    )
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        _need(
            low >= 0 and high < n,
            f"its {what} lie between {low} and {high}, not between 0 and {n - 1}",
        )


def _compressed(Y: Sparse) -> None:
    """By rows or by columns."""
    lines, places = Y.shape if Y.format == "csr" else Y.shape[::-1]
    _need(Y.data.ndim == 1, f"its entries have {Y.data.ndim} dimensions")
    _pointers(Y, lines, places)


def _blocks(Y: Sparse) -> None:
    _need(Y.data.ndim == 3, f"its blocks have {Y.data.ndim - 1} dimensions")
    sizes = Y.data.shape[1:]
    divided = all(size > 0 and n % size == 0 for n, size in zip(Y.shape, sizes))
    _need(
        divided,
        f"blocks of {sizes[0]} x {sizes[1]} do not divide a shape of {Y.shape[0]} x"
        f" {Y.shape[1]}",
    )
    _pointers(Y, Y.shape[0] // sizes[0], Y.shape[1] // sizes[1])


def _pointers(Y: Sparse, lines: int, places: int) -> None:
    indptr, indices = Y.indptr, Y.indices
    _need(
        indptr.shape == (lines + 1,),
        f"indptr has shape {indptr.shape} for {lines} lines, one more is wanted",
    )
    _need(indptr.dtype.kind in "iu", "indptr does not hold whole numbers")
    _need(int(indptr[0]) == 0, f"indptr begins with {indptr[0]}, not with 0")
    _need(bool((indptr[1:] >= indptr[:-1]).all()), "indptr falls")
    stored, last = len(indices), int(indptr[-1])
    _need(
        len(indices) == len(Y.data),
        f"{len(indices)} indices are there for {len(Y.data)} entries",
    )
    _need(last <= stored, f"indptr ends at {last}, but {stored} entries are stored")
    _within(indices[:last], places, "indices")


def _coordinates(Y: Sparse) -> None:
    _need(Y.data.ndim == 1, f"its entries have {Y.data.ndim} dimensions")
    for indices, n, what in zip(Y.coords, Y.shape, ("rows", "columns")):
        _need(
            indices.shape == Y.data.shape,
            f"{len(indices)} {what} are named for {len(Y.data)} entries",
        )
        _within(indices, n, what)


def _diagonals(Y: Sparse) -> None:
    rows, cols = Y.shape
    _need(
        Y.data.ndim == 2 and Y.offsets.shape == Y.data.shape[:1],
        "it has not one offset for each diagonal",
    )
    _need(Y.offsets.dtype.kind in "iu", "its diagonals are not whole numbers")
    _within(
        Y.offsets.astype(np.int64) + (rows - 1),
        rows + cols - 1,
        "diagonals, counted from the lowest,",
    )
    _need(len(np.unique(Y.offsets)) == len(Y.offsets), "a diagonal is there twice")


def _lists(Y: Sparse) -> None:
    _need(len(Y.rows) == len(Y.data) == Y.shape[0], "it has not one list for each row")
    for columns, values in zip(Y.rows, Y.data):
        _need(
            isinstance(columns, list) and isinstance(values, list),
            "its rows are not lists",
        )
        _need(
            len(columns) == len(values),
            f"{len(columns)} columns are named for {len(values)} entries",
        )
        _within(_line(columns), Y.shape[1], "columns")
        _numbers(values)


def _keys(Y: Sparse) -> None:
    keys = list(Y.keys())
    _need(
        all(isinstance(key, tuple) and len(key) == 2 for key in keys),
        "its keys are not pairs",
    )
    for axis, what in enumerate(("rows", "columns")):
        _within(_line([key[axis] for key in keys]), Y.shape[axis], what)
    _numbers(list(Y.values()))


def _line(items: list[object]) -> Array:
    """As an array of one dimension, whatever they are."""
    line = np.array(items or [0], object)
    whole = all(isinstance(item, Integral) for item in line.ravel())
    return line.astype(np.int64) if whole and np.abs(line).max() < 2**62 else line


def _numbers(values: list[object]) -> None:
    _need(
        all(isinstance(value, Number) for value in values),
        "its entries are not numbers",
    )


_CHECKS = {
    "csr": _compressed,
    "csc": _compressed,
    "bsr": _blocks,
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
    "dok": _keys,
}

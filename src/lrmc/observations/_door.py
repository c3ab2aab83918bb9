"""The door: the only code that knows kinds of input, and the place where everything is
checked once.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from .._memory import is_large
from .._scipy import sparse as sp
from ..formats.sparse import sound
from ..weights import Array
from . import native
from ._checks import (
    NO_NUMBERS,
    as_mask,
    check_finite,
    check_numbers,
    check_observed,
    check_shape,
    checked_threads,
    precision,
    storable,
    worth,
)
from .base import Form, Observations, common
from .dense import Dense, rows_contiguous
from .ondisk import blocks, is_on_disk
from .sparse import Sparse
from .transposed import transposed

# What a sparse pass takes, in the time that a dense one takes for an entry, seen or not: for
# each stored entry, and for each row. On AVX2, 480,000 x 60 bytes at rank 2, by the rule clip: 2.6
# an entry and 17 a row. By other rules an entry costs more: 5 is where square matrices cross
# (benchmarks/passes.py); against the dense passes of lean.hpp, 4 to 5 an entry and 26 to 34 a row, so
# that both forms cost the same there at 10 to 15 %. So 20 % of long rows, or 15 % of rows of 60 entries, are worth it.
ENTRY_COST = 5
ROW_COST = 15
# Columns of a sparse matrix whose factor and sums stay in the second-level cache. Of more, the
# columns become rows, if they are the longer side: a pass was two to three times faster then.
CACHED_COLUMNS = 1 << 13
# A sparse matrix becomes dense only where that takes no more memory.
DENSE_ABOVE = 0.5
MOST_NAMED = 8  # columns in a message
AT_ONCE = 1 << 22  # entries of a sparse matrix that are looked at together


def as_observations(
    Y: Any,
    mask: Any = None,
    *,
    threads: int | None = None,
) -> Observations:
    """Data as the methods see them: check the input once, and find out what is observed.

    Parameters
    ----------
    Y : 2-D array, masked array, sparse matrix, DataFrame, DataArray, tensor, zarr, HDF5 or Dask array
        NaN, masked and not stored entries are missing; a stored zero is an observation. A Dask
        array is solved where it lies; arrays on disk that take more than a quarter of the memory
        are read block by block; a dense tensor on a GPU stays there. float32, uint8, int16 and
        uint16 are computed in float32, float64 in float64; other types are converted.
    mask : array of bool, optional
        True where an entry is observed.
    threads : int, optional
        Number of threads; all cores if not given.

    Returns
    -------
    Observations

    Raises
    ------
    ValueError
        If Y is not a matrix of numbers, has infinite entries, or nothing is observed.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> obs = lrmc.as_observations(np.array([[1.0, np.nan], [2.0, 3.0]]))
    >>> obs.shape, obs.n_observed
    ((2, 2), 3)
    """
    if isinstance(Y, Observations):
        if mask is not None:
            raise ValueError(
                "mask= was given with observations that are already made; give it to as_observations"
            )
        return Y
    threads = checked_threads(threads)
    if _is_tensor(Y) or _is_tensor(mask):
        from .tensor import as_torch_observations, on_cpu, stays

        if _is_tensor(Y) and stays(Y):
            return as_torch_observations(Y, mask, threads=worth(threads, Y.numel()))
        Y, mask = (on_cpu(x) if _is_tensor(x) else x for x in (Y, mask))
    if isinstance(Y, np.memmap) or not isinstance(Y, np.ndarray | list | tuple):
        found = elsewhere(Y, mask, threads)
        if found is not None:
            return found
    return _not_empty(_in_memory(Y, mask, threads))


def _in_memory(Y: Any, mask: Any, threads: int) -> Observations:
    """What is here: a sparse matrix, or something that numpy reads."""
    if sp.issparse(Y):
        if mask is not None:
            raise ValueError(
                "mask= was given with a sparse matrix, which says itself what is observed: what it stores"
            )
        return _from_sparse(sound(Y), threads)
    form: Form = "dense"
    if isinstance(Y, np.ma.MaskedArray):
        _refuse_records(Y)
        seen = ~np.ma.getmaskarray(Y)
        mask = seen if mask is None else seen & as_mask(mask, Y.shape)
        Y, form = Y.data, "masked"
    Y = _as_array(Y)
    mask = None if mask is None else as_mask(mask, Y.shape)
    if _by_columns(Y):
        return transposed(
            _from_dense(Y.T, None if mask is None else mask.T, form, threads)
        )
    return _from_dense(Y, mask, form, threads)


def _not_empty(obs: Observations) -> Observations:
    """As it came: asked last, because what is said has the shape of the input, not that
    of its transpose.
    """
    check_observed(obs.n_observed, obs.shape)
    return obs


def _is_tensor(x: Any) -> bool:
    """Whether this is a torch tensor: without torch there is none."""
    return "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor)


def elsewhere(Y: Any, mask: Any, threads: int) -> Observations | None:
    """Blocks of a Dask array, or of an array on disk that takes more than a quarter of
    the memory; None for others.
    """
    if "dask.array" in sys.modules:
        from .dask import as_dask_observations, is_dask

        if is_dask(Y):
            return as_dask_observations(Y, mask, threads=threads)
    if not (isinstance(Y, np.memmap) or is_on_disk(Y)) or len(Y.shape) != 2:
        return None
    size = float(np.prod(Y.shape, dtype=np.float64)) * np.dtype(Y.dtype).itemsize
    return blocks(Y, mask, threads=threads or None) if is_large(size) else None


def _as_array(Y: Any) -> Array:
    if isinstance(Y, str | os.PathLike):
        raise ValueError(
            f"a matrix was wanted, and this is the name of a file, {os.fspath(Y)!r}: read it first,"
            " or complete it by `lrmc complete FILE -o TARGET`"
        )
    if type(Y).__name__ == "LazyFrame":
        raise ValueError("a LazyFrame holds no numbers yet: collect() it first")
    if _is_table(Y):
        check_columns(Y)
        Y = _table_values(Y)
    try:
        array = np.asanyarray(Y)
    # what other libraries raise when numpy asks them
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"a matrix was wanted, but this could not be read as one: {error}"
        ) from None
    _refuse_records(array)
    check_shape(array.shape)
    array = array.astype(storable(array.dtype), copy=False)
    return array if array.flags.aligned else array.copy()


def _refuse_records(array: Array) -> None:
    """What their type says is more than what their dimensions or their masks do."""
    if array.dtype.kind == "V":
        check_numbers(array.dtype)


def _is_table(Y: Any) -> bool:
    """Whether this is a DataFrame of pandas."""
    return type(Y).__module__.partition(".")[0] == "pandas" and hasattr(Y, "columns")


def check_columns(Y: Any) -> None:
    """Refuse a DataFrame with columns that hold no numbers, although pandas could make
    some of them: of dates, say.
    """
    if not _is_table(Y):
        return
    unlike = {}
    for i, dtype in enumerate(Y.dtypes):
        what = _no_numbers(dtype, Y, i)
        if what:
            unlike[str(Y.columns[i])] = what
    if unlike:
        named = [f"{name!r} ({what})" for name, what in unlike.items()]
        listed = ", ".join(named[:MOST_NAMED]) + (
            f" and {len(named) - MOST_NAMED} more" * (len(named) > MOST_NAMED)
        )
        raise ValueError(
            f"the table has columns that are not numbers; choose the numeric ones. These are not: {listed}."
            " Drop them, or convert numbers that are written as text with pandas.to_numeric"
        )


def _no_numbers(dtype: Any, table: Any, i: int) -> str:
    """What a column holds instead of numbers; empty if it holds numbers."""
    if type(dtype).__name__ == "CategoricalDtype":
        return "categories"
    kind = getattr(dtype, "kind", "O")  # nullable columns have one as well
    if kind in "fiub":
        return ""
    if kind == "O":
        # the table is of pandas, so it is there
        from pandas.api.types import infer_dtype

        found = infer_dtype(table.iloc[:, i], skipna=True)
        return "" if found in _NUMBERS_IN_OBJECTS else _IN_OBJECTS.get(found, found)
    return NO_NUMBERS.get(kind, (str(dtype), ""))[0]


_NUMBERS_IN_OBJECTS = (
    "floating",
    "integer",
    "mixed-integer-float",
    "boolean",
    "decimal",
    "empty",
)
_IN_OBJECTS = {
    "string": "text",
    "mixed": "things of several kinds",
    "mixed-integer": "numbers and other things",
}


def _table_values(table: Any) -> Array:
    """The numbers of a DataFrame; its own missing values (pandas.NA) become NaN."""
    if all(isinstance(t, np.dtype) and t.kind in "fiu" for t in table.dtypes):
        return table.to_numpy()
    return np.stack([_column_values(table, i) for i in range(table.shape[1])], axis=1)


def _column_values(table: Any, i: int) -> Array:
    try:
        return table.iloc[:, i].to_numpy(dtype=float, na_value=np.nan)
    # integers of 400 digits, decimals that signal
    except (ValueError, TypeError, ArithmeticError) as error:
        name = str(table.columns[i])
        raise ValueError(
            f"the column {name!r} holds a number that is no float ({error}); convert it first"
        ) from None


def _by_columns(Y: Array) -> bool:
    """Whether columns, not rows, are contiguous."""
    size = Y.itemsize
    return Y.strides[1] != size and Y.strides[0] == size and Y.shape[1] > 1


def _from_dense(Y: Array, mask: Array | None, form: Form, threads: int) -> Observations:
    Y = rows_contiguous(np.asarray(Y))
    seen = None if mask is None else rows_contiguous(mask).view(np.uint8)
    rows, cols, infinite = native.survey(Y, seen, worth(threads, Y.size))
    check_finite(infinite)
    observed = int(rows.sum())
    dense = Dense(
        shape=Y.shape,
        dtype=precision(Y.dtype),
        row_observed=rows,
        col_observed=cols,
        form=form,
        threads=worth(threads, observed),
        Y=Y,
        mask=seen if observed < Y.size else None,
    )
    return _cheaper(dense)


def _cheaper(dense: Dense) -> Observations:
    """The same data, stored so that a pass takes less time."""
    n1, n2 = dense.shape
    turn = _turns(n1, n2)
    work = ENTRY_COST * dense.n_observed + ROW_COST * (n2 if turn else n1)
    if work >= n1 * n2:
        return dense
    return transposed(compressed(dense, by_column=True)) if turn else compressed(dense)


def compressed(dense: Dense, *, by_column: bool = False) -> Sparse:
    """The observed entries of a dense matrix by row, or those of its transpose."""
    about = common(dense)
    if by_column:
        about |= {
            "shape": dense.shape[::-1],
            "row_observed": dense.col_observed,
            "col_observed": dense.row_observed,
        }
    indptr = np.concatenate([[0], np.cumsum(about["row_observed"])])
    indices = np.empty(indptr[-1], np.int32)
    values = np.empty(indptr[-1], dense.Y.dtype)
    native.compress(
        dense.data, indptr=indptr, indices=indices, values=values, by_column=by_column
    )
    return Sparse(indptr=indptr, indices=indices, values=values, **about)


def _from_sparse(Y: Any, threads: int) -> Observations:
    check_shape(Y.shape)
    if max(Y.shape) > np.iinfo(np.int32).max:
        raise ValueError(
            f"shape {Y.shape}: sparse matrices have at most 2^31 - 1 rows and columns"
        )
    if Y.format == "csc":  # its transpose is stored by rows
        return transposed(_from_sparse(Y.T, threads))
    wanted = storable(Y.dtype)
    # scipy computes with all types but these
    if Y.dtype.char == "e" or not Y.dtype.isnative:
        Y = Y.astype(wanted)
    csr = Y.tocsr()
    if not csr.has_canonical_format:  # duplicates are summed, as everywhere in scipy
        csr = csr.copy() if csr is Y else csr
        csr.sum_duplicates()
    stored = slice(csr.indptr[-1])  # there may be room for more
    indptr, indices, values = csr.indptr, csr.indices[stored], csr.data[stored]
    values = values.astype(storable(values.dtype), copy=False)
    columns, missing, infinite = _surveyed(indices, values, csr.shape[1])
    if missing:
        here = ~np.isnan(values)
        indptr = np.concatenate([[0], np.cumsum(here)])[indptr]
        indices, values = indices[here], values[here]
    check_finite(infinite)
    indptr = indptr.astype(np.int64, copy=False)
    sparse = Sparse(
        shape=csr.shape,
        dtype=precision(values.dtype),
        row_observed=np.diff(indptr),
        col_observed=columns,
        form="sparse",
        threads=worth(threads, len(values)),
        indptr=indptr,
        indices=indices.astype(np.int32, copy=False),
        values=np.ascontiguousarray(values),
    )
    if sparse.fraction >= DENSE_ABOVE:
        return _expanded(sparse)
    return transposed(sparse.turned()) if _worth_turning(sparse) else sparse


def _surveyed(indices: Array, values: Array, n2: int) -> tuple[Array, int, int]:
    """How many numbers each column has, how many entries are NaN and how many infinite. Some at a
    time: entries may be mapped from files larger than the memory.
    """
    columns, missing, infinite = np.zeros(n2, np.int64), 0, 0
    floats = values.dtype.kind == "f"
    for first in range(0, len(values), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        if not floats:
            columns += np.bincount(indices[some], minlength=n2)
            continue
        gaps, beyond = native.survey_entries(indices[some], values[some], columns)
        missing, infinite = missing + gaps, infinite + beyond
    return columns, missing, infinite


def _worth_turning(sparse: Sparse) -> bool:
    """Whether passes over a copy by column are worth making it."""
    copied = sparse.indices.nbytes + sparse.values.nbytes
    return _turns(*sparse.shape) and not is_large(copied)


def _turns(n1: int, n2: int) -> bool:
    """Whether the columns of a matrix this size had better be stored as rows."""
    return n1 < n2 and n2 > CACHED_COLUMNS


def _expanded(sparse: Sparse) -> Dense:
    """The dense form of a sparse matrix with few gaps."""
    floats = sparse.values.dtype.kind == "f"
    Y = np.full(sparse.shape, np.nan if floats else 0, sparse.values.dtype)
    where = (np.repeat(np.arange(sparse.shape[0]), sparse.row_observed), sparse.indices)
    Y[where] = sparse.values
    mask = None
    if not floats and sparse.fraction < 1:
        mask = np.zeros(sparse.shape, np.uint8)
        mask[where] = 1
    return Dense(Y=Y, mask=mask, **common(sparse))

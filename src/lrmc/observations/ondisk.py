"""Matrices on disk: how they lie there, and how they come in block by block."""

from __future__ import annotations

import contextlib
import mmap
import os
from dataclasses import replace
from typing import Any

import numpy as np

from .._memory import allowed_memory
from .._scipy import sparse as sp
from ..formats.arrays import read_header
from ..formats.sparse import sound
from ..units import Units, float_type
from ..weights import DType
from ._checks import (
    check_finite,
    check_mask,
    check_observed,
    check_shape,
    checked_threads,
    precision,
    storable,
    worth,
)
from .base import Observations
from .blocks import surveyed
from .reading import Reading
from .rows_from_disk import RowBlocks
from .sources import InFile, Rescaled, Stored
from .transposed import transposed
from .watched import watched

# bytes of a block, unless its chunks are larger: more makes nothing faster
LARGEST = 1 << 26
# blocks have one part in so many of the memory: the next one is read meanwhile, and both are
# converted
AT_A_TIME = 8
# what an array's attributes may call its missing values
DECLARED = ("_FillValue", "missing_value", "nodata")


def blocks(
    Y: Any,
    mask: Any = None,
    *,
    memory: int | str | None = None,
    threads: int | None = None,
    units: Units | None = None,
) -> Observations:
    """Rows of an array on disk as observations, read block by block in every pass: for `lrmc.solve`
    and all else.

    Y is a zarr array, a memmap, an h5py dataset, an xarray DataArray that was not loaded, or
    anything else with `shape`, `dtype` and slices; `mask`, of the same kinds, is True where an
    entry is observed. Missing are also NaN, and what the array's attributes name (`_FillValue`,
    `missing_value` or `nodata`); zarr's own fill value is not missing. If `chunks` are whole
    columns rather than whole rows, blocks are columns. Beside the factors about `memory` (bytes, or
    such as "2GB") is used; a quarter of what there is if not given. With `units`, columns are read
    in these."""
    check_shape(tuple(getattr(Y, "shape", ())))
    if mask is not None:
        mask = (
            sound(mask).tocsr()
            if sp.issparse(mask)
            else mask
            if hasattr(mask, "shape")
            else np.asarray(mask)
        )
        check_mask(mask, tuple(Y.shape))
    allowed = allowed_memory(memory)
    dtype = np.dtype(Y.dtype)
    stored = storable(dtype) if units is None else float_type(storable(dtype))
    by_columns, step = _layout(Y, mask, allowed, max(dtype.itemsize, stored.itemsize))
    shape = (
        (int(Y.shape[1]), int(Y.shape[0]))
        if by_columns
        else (int(Y.shape[0]), int(Y.shape[1]))
    )
    borders = np.append(np.arange(0, shape[0], step), shape[0])
    cores = worth(checked_threads(threads), step * shape[1])
    fill, source = declared(Y, dtype), _source(Y, by_columns)
    reading = Reading(
        precision(stored), stored, 1.0, cores, fill if units is None else None
    )
    lines = counted(
        RowBlocks(
            shape=shape,
            dtype=reading.dtype,
            row_observed=np.zeros(0, np.int64),
            col_observed=np.zeros(0, np.int64),
            threads=cores,
            borders=borders,
            block_observed=np.zeros(len(borders) - 1, np.int64),
            source=source
            if units is None
            else Rescaled(source, units, by_columns, fill),
            mask=None if mask is None else _source(mask, by_columns),
            reading=reading,
            watched=tuple(
                found for found in map(watched, (Y, mask)) if found is not None
            ),
        )
    )
    obs: Observations = transposed(lines) if by_columns else lines
    check_observed(obs.n_observed, obs.shape)
    return obs


def counted(obs: Any) -> Any:
    """The same blocks, with their entries counted: the first pass, which also notices
    infinite entries.
    """
    (rows,), (cols, infinite, totals) = obs.round(surveyed, (), None)
    check_finite(infinite)
    return replace(
        obs, row_observed=rows, col_observed=cols, block_observed=totals.lines
    )


def in_npy(path: str | os.PathLike[str]) -> InFile:
    """The matrix of a .npy file, for `blocks`: not even mapped, so that a limit on
    addresses is no obstacle.
    """
    with open(path, "rb") as file:
        header = read_header(file, os.fstat(file.fileno()).st_size, str(path))
    shape = header.shape
    if len(shape) != 2:
        raise ValueError(
            f"{path}: a 2-D matrix is wanted, but the array has shape {shape}; reshape it"
        )
    return InFile(
        os.fspath(path),
        header.offset,
        (shape[0], shape[1]),
        header.dtype,
        header.by_columns,
    )


def is_on_disk(Y: Any) -> bool:
    """Whether an array gives its numbers only when asked for them: it is no array of
    numpy, but has its attributes.
    """
    if (
        isinstance(Y, np.ndarray)
        or sp.issparse(Y)
        or not all(hasattr(Y, x) for x in ("shape", "dtype", "ndim"))
    ):
        return False
    kind = type(Y).__module__.partition(".")[0]
    if kind == "xarray":
        return not getattr(getattr(Y, "variable", None), "_in_memory", True)
    return hasattr(Y, "chunks") and kind != "dask"


# ---- how the data lie


def _layout(Y: Any, mask: Any, memory: int, size: int) -> tuple[bool, int]:
    """Whether blocks are columns, and how many rows (or columns) each has: as many whole
    chunks as are wanted.
    """
    chunk = _chunk(Y)
    if isinstance(Y, np.ndarray) and Y.strides[0] == Y.itemsize != Y.strides[1]:
        chunk = (int(Y.shape[0]), 1)
    # bytes of one line of chunks
    bands = [chunk[axis] * Y.shape[1 - axis] * size for axis in (0, 1)]
    axis = int(bands[1] < bands[0])
    most = memory // AT_A_TIME
    if bands[axis] > 2 * most:
        raise ValueError(
            f"chunks of {chunk[0]} x {chunk[1]}: a line of them takes {bands[axis] / 1e6:.0f} MB, too much for"
            f" {memory / 1e6:.0f} MB of memory in all; allow more memory, or store the array in smaller chunks"
        )
    return bool(axis), chunk[axis] * max(1, min(most, LARGEST) // max(1, bands[axis]))


def _chunk(Y: Any) -> tuple[int, int]:
    """How many rows and columns are stored together; a row at a time if that is not told."""
    told = getattr(Y, "shards", None) or getattr(Y, "chunks", None)
    if told is None and hasattr(Y, "encoding"):
        encoding = Y.encoding
        told = encoding.get("chunksizes") or encoding.get("preferred_chunks")
        told = (
            tuple(told.get(d, n) for d, n in zip(Y.dims, Y.shape))
            if isinstance(told, dict)
            else told
        )
    if told is None or len(told) != 2:
        return 1, int(Y.shape[1])
    chunk = tuple(min(int(np.max(c)), int(n)) for c, n in zip(told, Y.shape))
    if min(chunk) < 1:
        raise ValueError(
            f"the array is stored in chunks of {chunk[0]} x {chunk[1]}; its metadata are damaged"
        )
    return chunk  # type: ignore[return-value]


def declared(Y: Any, dtype: DType) -> Any:
    """The number that stands for missing, where the attributes of an array name one; NaN
    needs no naming.
    """
    attributes = dict(getattr(Y, "attrs", None) or {})
    for name in DECLARED:
        with contextlib.suppress(
            TypeError, ValueError, KeyError, OverflowError, IndexError
        ):
            value = np.asarray(attributes[name]).astype(dtype).flat[0]
            return None if np.isnan(value) else value
    return None


def _source(Y: Any, by_columns: bool) -> Stored | InFile:
    """How blocks are read. A memmap is read from its file: pages that are mapped would
    count as memory.
    """
    if isinstance(Y, InFile):
        return Y
    if isinstance(Y, np.memmap) and Y.filename is not None and Y.mode != "c":
        flat = Y.T if by_columns else Y
        if flat.flags.c_contiguous:
            return InFile(
                str(Y.filename),
                _offset(Y),
                (Y.shape[0], Y.shape[1]),
                Y.dtype,
                by_columns,
            )
    return Stored(Y, by_columns)


def _offset(Y: np.memmap[Any, Any]) -> int:
    """Where in its file the first number is. A part of a memmap has the offset of the
    whole, so addresses are asked.
    """
    mapped = np.frombuffer(Y._mmap, np.uint8)  # type: ignore[attr-defined]
    return (
        Y.ctypes.data
        - mapped.ctypes.data
        + Y.offset
        - Y.offset % mmap.ALLOCATIONGRANULARITY
    )

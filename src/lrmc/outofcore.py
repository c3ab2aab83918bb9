"""Matrices larger than memory: how they come in, block by block, and how results are written.

`lrmc.solve` takes such arrays as they are; `blocks` is for those who want to say how much memory may be used.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from .arrays import read_header
from .blocks import Blocks, InFile, Reading, Rescaled, RowBlocks, Stored, surveyed
from .extras import optional
from .files import together, whole
from .sparse import sound
from .storage import Observations, Transposed, row_blocks, transposed
from .units import Units, float_type
from .watched import watched
from .weights import Array

if TYPE_CHECKING:
    from .result import Result

SHARE = 4  # data that take less than one part in so many of the memory are simply read
LARGEST = 1 << 26  # bytes of a block, unless its chunks are larger: more makes nothing faster
UNKNOWN = 1 << 33  # bytes of memory, where the system does not tell
AT_A_TIME = 8  # blocks have one part in so many of the memory: the next one is read meanwhile, and both are converted
Fill = Literal["missing", "missing+outliers", "all"]
FILLS = ("missing", "missing+outliers", "all")
DECLARED = ("_FillValue", "missing_value", "nodata")  # what an array's attributes may call its missing values


def blocks(
    Y: Any,
    mask: Any = None,
    *,
    memory: int | str | None = None,
    threads: int | None = None,
    units: Units | None = None,
) -> Observations:
    """Rows of an array on disk as observations, read block by block in every pass: for `lrmc.solve` and all else.

    Y is a zarr array, a memmap, an h5py dataset, an xarray DataArray that was not loaded, or anything else with
    `shape`, `dtype` and slices; `mask`, of the same kinds, is True where an entry is observed. Missing are also NaN,
    and what the array's attributes name (`_FillValue`, `missing_value` or `nodata`); zarr's own fill value is not
    missing. If `chunks` are whole columns rather than whole rows, blocks are columns. Beside the factors about
    `memory` (bytes, or such as "2GB") is used; a quarter of what there is if not given. With `units`, columns are read
    in these.
    """
    from .observations import check_observed, checked_threads, precision, storable, worth

    if getattr(Y, "ndim", 0) != 2 or 0 in Y.shape:
        raise ValueError(f"a 2-D matrix with entries is wanted, but the array has shape {getattr(Y, 'shape', None)}")
    if mask is not None:
        mask = sound(mask).tocsr() if sp.issparse(mask) else mask if hasattr(mask, "shape") else np.asarray(mask)
        if tuple(mask.shape) != tuple(Y.shape):
            raise ValueError(f"mask has shape {tuple(mask.shape)}, the matrix {tuple(Y.shape)}")
        if np.dtype(mask.dtype).kind not in "biu":
            raise ValueError(f"mask has type {mask.dtype}; booleans are wanted, True where an entry is observed")
    allowed = allowed_memory(memory)
    dtype = np.dtype(Y.dtype)
    stored = storable(dtype) if units is None else float_type(storable(dtype))
    by_columns, step = _layout(Y, mask, allowed, max(dtype.itemsize, stored.itemsize))
    shape = (int(Y.shape[1]), int(Y.shape[0])) if by_columns else (int(Y.shape[0]), int(Y.shape[1]))
    borders = np.append(np.arange(0, shape[0], step), shape[0])
    cores = worth(checked_threads(threads), step * shape[1])
    fill, source = declared(Y, dtype), _source(Y, by_columns)
    reading = Reading(precision(stored), stored, 1.0, cores, fill if units is None else None)
    obs: Observations = counted(
        RowBlocks(
            shape=shape,
            dtype=reading.dtype,
            row_observed=np.zeros(0, np.int64),
            col_observed=np.zeros(0, np.int64),
            threads=cores,
            borders=borders,
            block_observed=np.zeros(len(borders) - 1, np.int64),
            source=source if units is None else Rescaled(source, units, by_columns, fill),
            mask=None if mask is None else _source(mask, by_columns),
            reading=reading,
            watched=tuple(found for found in map(watched, (Y, mask)) if found is not None),
        )
    )
    check_observed(obs.n_observed, obs.shape)
    return transposed(obs) if by_columns else obs


def counted(obs: Any) -> Any:
    """The same blocks, with their entries counted: the first pass, which also notices infinite entries."""
    (rows,), (cols, infinite, totals) = obs.sweep(surveyed, (), None)
    if infinite:
        raise ValueError(f"{infinite} observed entries are infinite; set them to NaN (missing) or to finite values")
    return replace(obs, row_observed=rows, col_observed=cols, block_observed=np.array(totals))


def in_npy(path: str | os.PathLike[str]) -> InFile:
    """The matrix of a .npy file, for `blocks`: not even mapped, so that a limit on addresses is no obstacle."""
    with open(path, "rb") as file:
        header = read_header(file, os.fstat(file.fileno()).st_size, str(path))
    shape = header.shape
    if len(shape) != 2:
        raise ValueError(f"{path}: a 2-D matrix is wanted, but the array has shape {shape}; reshape it")
    return InFile(os.fspath(path), header.offset, (shape[0], shape[1]), header.dtype, header.by_columns)


def is_on_disk(Y: Any) -> bool:
    """Whether an array gives its numbers only when asked for them: it is no array of numpy, but has its attributes."""
    if isinstance(Y, np.ndarray) or sp.issparse(Y) or not all(hasattr(Y, x) for x in ("shape", "dtype", "ndim")):
        return False
    kind = type(Y).__module__.partition(".")[0]
    if kind == "xarray":
        return not getattr(getattr(Y, "variable", None), "_in_memory", True)
    return hasattr(Y, "chunks") and kind != "dask"


def elsewhere(Y: Any, mask: Any, threads: int) -> Any:
    """Blocks of a Dask array, or of an array on disk that takes more than a quarter of the memory; None for others."""
    if "dask.array" in sys.modules:
        from .dasked import as_dask_observations, is_dask

        if is_dask(Y):
            return as_dask_observations(Y, mask, threads=threads)
    if not (isinstance(Y, np.memmap) or is_on_disk(Y)) or len(Y.shape) != 2:
        return None
    size = float(np.prod(Y.shape, dtype=np.float64)) * np.dtype(Y.dtype).itemsize
    return blocks(Y, mask, threads=threads or None) if is_large(size) else None


def is_large(size: float) -> bool:
    """Whether so many bytes are better not read at once."""
    return size > memory_there_is() // SHARE


# ---- memory


def as_bytes(memory: int | str) -> int:
    """Of 2000000000, "2GB" or "500 MB"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kMGT]?)i?B?\s*", str(memory), re.IGNORECASE)
    size = float(found[1]) * 1000 ** " kmgt".index(found[2].lower() or " ") if found else 0.0
    if size < 1:
        raise ValueError(f"memory={memory!r}; a number of bytes is wanted, or such as '2GB'")
    return int(size)


def allowed_memory(memory: int | str | None = None) -> int:
    """Bytes that were asked for; a quarter of what there is if none were."""
    return as_bytes(memory) if memory is not None else memory_there_is() // SHARE


def memory_there_is() -> int:
    """Bytes that this process may use: what the machine has, or less where a limit is set."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else UNKNOWN]
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(place).read_text()))
    with contextlib.suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    return min(found)


# ---- how the data lie


def _layout(Y: Any, mask: Any, memory: int, size: int) -> tuple[bool, int]:
    """Whether blocks are columns, and how many rows (or columns) each has: as many whole chunks as are wanted."""
    chunk = _chunk(Y)
    if isinstance(Y, np.ndarray) and Y.strides[0] == Y.itemsize != Y.strides[1]:
        chunk = (int(Y.shape[0]), 1)
    bands = [chunk[axis] * Y.shape[1 - axis] * size for axis in (0, 1)]  # bytes of one line of chunks
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
        told = tuple(told.get(d, n) for d, n in zip(Y.dims, Y.shape)) if isinstance(told, dict) else told
    if told is None or len(told) != 2:
        return 1, int(Y.shape[1])
    chunk = tuple(min(int(np.max(c)), int(n)) for c, n in zip(told, Y.shape))
    if min(chunk) < 1:
        raise ValueError(f"the array is stored in chunks of {chunk[0]} x {chunk[1]}; its metadata are damaged")
    return chunk  # type: ignore[return-value]


def declared(Y: Any, dtype: np.dtype[Any]) -> Any:
    """The number that stands for missing, where the attributes of an array name one; NaN needs no naming."""
    attributes = dict(getattr(Y, "attrs", None) or {})
    for name in DECLARED:
        with contextlib.suppress(TypeError, ValueError, KeyError, OverflowError, IndexError):
            value = np.asarray(attributes[name]).astype(dtype).flat[0]
            return None if np.isnan(value) else value
    return None


def _source(Y: Any, by_columns: bool) -> Stored | InFile:
    """How blocks are read. A memmap is read from its file: pages that are mapped would count as memory."""
    if isinstance(Y, InFile):
        return Y
    if isinstance(Y, np.memmap) and Y.filename is not None and Y.mode != "c":
        flat = Y.T if by_columns else Y
        if flat.flags.c_contiguous:
            return InFile(str(Y.filename), _offset(Y), (Y.shape[0], Y.shape[1]), Y.dtype, by_columns)
    return Stored(Y, by_columns)


def _offset(Y: np.memmap[Any, Any]) -> int:
    """Where in its file the first number is. A part of a memmap has the offset of the whole, so addresses are asked."""
    mapped = np.frombuffer(Y._mmap, np.uint8)  # type: ignore[attr-defined]
    return Y.ctypes.data - mapped.ctypes.data + Y.offset - Y.offset % mmap.ALLOCATIONGRANULARITY


# ---- results


def write_completed(
    result: Result, target: Any, *, fill: Fill = "all", units: Units | None = None, data: Observations | None = None
) -> None:
    """Write the completed matrix to a .zarr or .npy, some rows at a time. It appears whole or not at all.

    `fill` as for `lrmc complete`: "all" is L R' everywhere; "missing" only where nothing was observed, the data
    elsewhere; "missing+outliers" also in place of the outliers. The last two need the data, so no loaded result.
    Where `units` were removed before the fit, `data` are the observations without that.
    """
    target, obs = Path(target), result.observations
    if fill not in FILLS:
        raise ValueError(f"fill={fill!r}; one of {', '.join(FILLS)} is wanted")
    if obs is None and fill != "all":
        raise ValueError(f"fill={fill!r} needs the data, which a result loaded from a file does not hold")
    border = {"all": -1.0, "missing": np.inf}.get(fill, 0.0)  # what is farther from the model is replaced by it
    border = result.noise_threshold(obs) if obs is not None and fill == "missing+outliers" else border
    data = obs if data is None else data
    inner = data.of if isinstance(data, Transposed) else data
    by_columns = isinstance(data, Transposed) and isinstance(inner, Blocks)
    n1, n2 = result.shape
    lines = inner.borders if isinstance(inner, Blocks) else np.append([b.start for b in row_blocks(n1, n2)], n1)
    with _opened(target, result, lines, by_columns) as put:
        for first, last in pairwise(lines):
            some = _Lines(slice(int(first), int(last)), by_columns)
            put(int(first), int(last), _part(result, data, some, units, border))
        if isinstance(inner, Blocks):
            inner.check_unchanged()


class _Lines(NamedTuple):
    """Some rows, or some columns."""

    at: slice
    by_columns: bool

    @property
    def cols(self) -> slice:
        return self.at if self.by_columns else slice(None)

    @property
    def rows(self) -> slice:
        return slice(None) if self.by_columns else self.at


def _part(result: Result, data: Observations | None, some: _Lines, units: Units | None, border: float) -> Array:
    """Some lines of the completed matrix: the data, but the model where these are missing or beyond the border."""
    X = np.asarray(result.low_rank(some.rows, some.cols))
    X = X if units is None else units.put_back(X, some.cols)
    if border < 0:
        return X
    assert data is not None
    Y = data.grid(*(np.arange(n)[at] for n, at in zip(data.shape, (some.rows, some.cols))))
    away = np.abs(Y - X) if units is None else np.abs(Y - X) / units.spread[some.cols]
    return np.where(np.isnan(Y) | (away > border), X, Y)


@contextlib.contextmanager
def _opened(
    target: Path, result: Result, lines: Array, by_columns: bool
) -> Iterator[Callable[[int, int, Array], None]]:
    """A function that puts some rows (or columns) in their place."""
    dtype, step = np.dtype(result.R.dtype), int(np.diff(lines).max())
    if target.suffix == ".zarr":
        zarr = optional("zarr", "scale")
        with together() as meanwhile, _finished() as do:
            folder = meanwhile(target)
            chunks = (result.shape[0], step) if by_columns else (step, result.shape[1])
            array = do(zarr.create_array, folder, shape=result.shape, dtype=dtype, chunks=chunks)

            def put(first: int, last: int, part: Array) -> None:
                do(array.__setitem__, (slice(None), slice(first, last)) if by_columns else slice(first, last), part)

            yield put
    elif target.suffix == ".npy":
        with whole(target) as path, open(path, "wb") as file:
            about = {"descr": dtype.str, "fortran_order": by_columns, "shape": result.shape}
            np.lib.format.write_array_header_1_0(file, about)

            def append(first: int, last: int, part: Array) -> None:
                lines = np.ascontiguousarray(part.T if by_columns else part, dtype)
                file.write(lines.data)  # `tofile` would not say that the disk is full

            yield append
    else:
        raise ValueError(f"{target}: matrices larger than memory are written as .zarr or .npy")


@contextlib.contextmanager
def _finished() -> Iterator[Callable[..., Any]]:
    """A function that calls others in a thread, and waits for it also when it is interrupted.

    zarr writes in threads of its own. Interrupted, it would leave them to go on, in a folder that is being removed.
    """
    with ThreadPoolExecutor(1) as thread:
        yield lambda work, *arguments, **options: thread.submit(work, *arguments, **options).result()


def write_outliers(result: Result, target: Any, *, units: Units | None = None) -> int:
    """Write the entries that stand out to a .zarr group of three arrays, `row`, `col` and `value`; how many there are.

    `value` is the data less the model, in the units of the data. Only the outliers of one block are in memory.
    """
    obs, target = result.observations, Path(target)
    if obs is None:
        raise ValueError("this result was loaded from a file, which does not hold the data")
    if target.suffix != ".zarr":
        raise ValueError(f"{target}: outliers of large matrices are written as .zarr")
    threshold, count = result.noise_threshold(obs), 0
    zarr = optional("zarr", "scale")
    with together() as meanwhile, _finished() as do:
        folder = meanwhile(target)
        group = do(zarr.open_group, folder, mode="w")
        kinds = {"row": np.int64, "col": np.int64, "value": result.R.dtype}
        out = {k: do(group.create_array, k, shape=(0,), dtype=t, chunks=(1 << 20,)) for k, t in kinds.items()}
        for some in obs.residuals(result.L, result.R):
            large = np.abs(some.values) > threshold
            count += int(large.sum())
            found = some if units is None else some._replace(values=some.values * units.spread[some.cols])
            for array, x in zip(out.values(), found):
                if large.any():
                    do(array.append, x[large])
        inner = obs.of if isinstance(obs, Transposed) else obs
        if isinstance(inner, Blocks):
            inner.check_unchanged()
    return count

"""Matrices larger than memory: how they come in, block by block, and how results are written.

`lrmc.solve` takes such arrays as they are; `blocks` is for those who want to say how much memory
may be used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ._extras import optional
from ._files import together, whole
from ._memory import allowed_memory, as_bytes, memory_there_is
from .evidence.alarms import Listing
from .observations.base import Observations, Stripes, row_stripes
from .observations.ondisk import blocks, in_npy
from .result import Result, Undetermined, left_out
from .units import Units
from .weights import Array

__all__ = [
    "allowed_memory",
    "as_bytes",
    "blocks",
    "in_npy",
    "memory_there_is",
    "write_completed",
    "write_intervals",
    "write_outliers",
]

Fill = Literal["missing", "missing+outliers", "all"]
FILLS = ("missing", "missing+outliers", "all")


def write_completed(
    result: Result,
    target: Any,
    *,
    fill: Fill = "all",
    units: Units | None = None,
    data: Observations | None = None,
    undetermined: Undetermined = "nan",
) -> None:
    """Write the completed matrix to a file, some rows at a time. It appears whole or not at all.

    Parameters
    ----------
    result : Result
        Of `lrmc.solve`.
    target : path
        A .zarr or .npy file.
    fill : {"all", "missing", "missing+outliers"}, default "all"
        The model everywhere; only where nothing was observed; or also in place of the outliers. The
        last two need the data, so no loaded result.
    units : Units, optional
        Units of columns that were removed before the fit.
    data : Observations, optional
        With `units`: the observations as they came.
    undetermined : {"nan", "keep"}, default "nan"
        As for `Result.low_rank`; what was observed in such rows and columns stays.

    Raises
    ------
    ValueError
        If an argument cannot be used.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=60, rank=2, p=0.8).Y)
    >>> lrmc.outofcore.write_completed(result, "X.npy")
    >>> np.load("X.npy", mmap_mode="r").shape
    (60, 60)
    """
    target, obs = Path(target), result.observations
    if fill not in FILLS:
        raise ValueError(f"fill={fill!r}; one of {', '.join(FILLS)} is wanted")
    if obs is None and fill != "all":
        raise ValueError(
            f"fill={fill!r} needs the data, which a result loaded from a file does not hold"
        )
    # what is farther from the model is replaced by it
    border = Listing.even(-1.0 if fill == "all" else np.inf, result.shape)
    if fill == "missing+outliers":
        border, result = result.listing().to_replace(), left_out(result)
    data = obs if data is None else data
    stripes = row_stripes(*result.shape) if data is None else data.stripes()
    with _opened(target, result, stripes) as put:
        for first, last in pairwise(stripes.borders):
            some = _Lines(slice(int(first), int(last)), stripes.by_columns)
            X = np.asarray(
                result.completed(some.rows, some.cols, undetermined=undetermined)
            )
            put(int(first), int(last), _part(X, data, some, units, border))
        if data is not None:
            data.check_unchanged()


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


def _part(
    X: Array,
    data: Observations | None,
    some: _Lines,
    units: Units | None,
    border: Listing,
) -> Array:
    """Some lines of the completed matrix: the data, but the model X where these are
    missing or beyond the border.
    """
    X = X if units is None else units.put_back(X, some.cols)
    if border.threshold < 0:
        return X
    assert data is not None
    Y = data.grid(
        *(np.arange(n)[at] for n, at in zip(data.shape, (some.rows, some.cols)))
    )
    away = np.abs(Y - X) if units is None else np.abs(Y - X) / units.spread[some.cols]
    far = (
        away > border.threshold * border.rows[some.rows, None] * border.cols[some.cols]
    )
    return np.where(np.isnan(Y) | far, X, Y)


@contextlib.contextmanager
def _opened(
    target: Path,
    result: Result,
    stripes: Stripes,
) -> Iterator[Callable[[int, int, Array], None]]:
    """A function that puts some rows (or columns) in their place."""
    borders, by_columns = stripes
    dtype, step = np.dtype(result.R.dtype), int(np.diff(borders).max())
    if target.suffix == ".zarr":
        zarr = optional("zarr", "scale")
        with together() as meanwhile, _finished() as do:
            folder = meanwhile(target)
            chunks = (result.shape[0], step) if by_columns else (step, result.shape[1])
            array = do(
                zarr.create_array,
                folder,
                shape=result.shape,
                dtype=dtype,
                chunks=chunks,
            )

            def put(first: int, last: int, part: Array) -> None:
                do(
                    array.__setitem__,
                    (slice(None), slice(first, last))
                    if by_columns
                    else slice(first, last),
                    part,
                )

            yield put
    elif target.suffix == ".npy":
        with whole(target) as path, open(path, "wb") as file:
            about = {
                "descr": dtype.str,
                "fortran_order": by_columns,
                "shape": result.shape,
            }
            np.lib.format.write_array_header_1_0(file, about)

            def append(first: int, last: int, part: Array) -> None:
                lines = np.ascontiguousarray(part.T if by_columns else part, dtype)
                file.write(lines.data)  # `tofile` would not say that the disk is full

            yield append
    else:
        raise ValueError(
            f"{target}: matrices larger than memory are written as .zarr or .npy"
        )


@contextlib.contextmanager
def _finished() -> Iterator[Callable[..., Any]]:
    """A function that calls others in a thread, and waits for it also when it is interrupted.

    zarr writes in threads of its own. Interrupted, it would leave them to go on, in a folder that
    is being removed."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda work, *arguments, **options: thread.submit(
            work, *arguments, **options
        ).result()


def write_outliers(result: Result, target: Any, *, units: Units | None = None) -> int:
    """Write the entries that stand out to a file, of one block at a time.

    Parameters
    ----------
    result : Result
        Of `lrmc.solve`; a loaded one has no data.
    target : path
        A .zarr group of three arrays: `row`, `col` and `value`, the data less the model in the
        units of the data.
    units : Units, optional
        Units of columns that were removed before the fit.

    Returns
    -------
    int
        Number of outliers.

    Raises
    ------
    ValueError
        If the result has no data, or `target` is no .zarr file.

    Examples
    --------
    >>> import lrmc, zarr
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=60, rank=2, p=1).Y)
    >>> n = lrmc.outofcore.write_outliers(result, "S.zarr")
    >>> zarr.open_group("S.zarr", mode="r")["row"].shape == (n,)
    True
    """
    obs, target = _checked(result, Path(target), "outliers")
    listed, count = result.listing(), 0
    kinds: dict[str, Any] = {"row": np.int64, "col": np.int64, "value": result.R.dtype}
    with _lists(target, kinds) as append:
        for some in result.fit.residuals(obs):
            large = listed.beyond(some)
            values = some.values
            if units is not None:
                values = values * units.spread[some.cols]
            append(some.rows[large], some.cols[large], values[large])
            count += int(large.sum())
        obs.check_unchanged()
    return count


def write_intervals(
    result: Result,
    target: Any,
    level: float = 0.9,
    *,
    units: Units | None = None,
) -> int:
    """Write what is missing to a file, with intervals, of one block at a time.

    Parameters
    ----------
    result : Result
        Of `lrmc.solve`; a loaded one has no data.
    target : path
        A .zarr group of five arrays: `row`, `col`, `value`, `lower` and `upper`, in the units of
        the data. Entries that are not determined are left out.
    level : float, default 0.9
        Probability with which an interval holds what is missing.
    units : Units, optional
        Units of columns that were removed before the fit.

    Returns
    -------
    int
        Number of entries.

    Raises
    ------
    NotCalibrated
        If no interval could be vouched for; see `Result.interval`.
    ValueError
        If the result has no data, or `target` is no .zarr file.

    Examples
    --------
    >>> import lrmc, zarr
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=60, rank=2, p=0.8, noise=0.1).Y)
    >>> n = lrmc.outofcore.write_intervals(result, "intervals.zarr", 0.9)
    >>> zarr.open_group("intervals.zarr", mode="r")["lower"].shape == (n,)
    True
    """
    obs, target = _checked(result, Path(target), "intervals")
    result.interval(0, 0, level)  # calibrated, or refused, before a file is made
    kinds: dict[str, Any] = dict.fromkeys(("row", "col"), np.int64)
    kinds |= dict.fromkeys(("value", "lower", "upper"), result.R.dtype)
    count = 0
    with _lists(target, kinds) as append:
        for rows, cols in _missing(obs):
            lower, upper = result.interval(rows, cols, level)
            known = ~np.isnan(lower)
            rows, cols = rows[known], cols[known]
            lower, upper = lower[known], upper[known]
            numbers = [(lower + upper) / 2, lower, upper]
            if units is not None:
                numbers = [units.put_back(x, cols) for x in numbers]
            append(rows, cols, *numbers)
            count += int(known.sum())
        obs.check_unchanged()
    return count


def _checked(result: Result, target: Path, what: str) -> tuple[Observations, Path]:
    """The data, and a place where a list can be written."""
    if result.observations is None:
        raise ValueError(
            "this result was loaded from a file, which does not hold the data"
        )
    if target.suffix != ".zarr":
        raise ValueError(f"{target}: {what} of large matrices are written as .zarr")
    return result.observations, target


def _missing(obs: Observations) -> Iterator[tuple[Array, Array]]:
    """Where nothing was observed: indices of rows and columns, of one block at a time."""
    stripes = obs.stripes()
    for first, last in pairwise(stripes.borders):
        some = _Lines(slice(int(first), int(last)), stripes.by_columns)
        lines = [np.arange(n)[at] for n, at in zip(obs.shape, (some.rows, some.cols))]
        at = np.nonzero(np.isnan(obs.grid(*lines)))
        yield lines[0][at[0]], lines[1][at[1]]


@contextlib.contextmanager
def _lists(target: Path, kinds: Mapping[str, Any]) -> Iterator[Callable[..., None]]:
    """A function that appends to arrays of these names in a .zarr group."""
    zarr = optional("zarr", "scale")
    with together() as meanwhile, _finished() as do:
        group = do(zarr.open_group, meanwhile(target), mode="w")
        arrays = [
            do(group.create_array, name, shape=(0,), dtype=dtype, chunks=(1 << 20,))
            for name, dtype in kinds.items()
        ]

        def append(*columns: Array) -> None:
            for array, x in zip(arrays, columns, strict=True):
                if len(x):
                    do(array.append, x)

        yield append

"""`lrmc complete` for matrices that do not fit into memory: .zarr, .npy and HDF5 files, or a Dask cluster."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .blocks import Blocks
from .extras import optional
from .files import whole
from .observations import as_observations
from .outofcore import Fill, blocks, in_npy, is_large, write_completed, write_outliers
from .result import Iterate, Result
from .solve import solve
from .storage import Observations, Transposed

SUFFIXES = (".zarr", ".npy", ".nc", ".h5")
EVERY = 60.0  # seconds between two savings of where the run is


class Completed(NamedTuple):
    """How a large matrix was completed."""

    result: Result
    outliers: int | None  # how many were written, if they were
    observed: float  # fraction
    seconds: float  # of the solve
    passes: float  # over the data
    resumed: int | None  # the iteration from which an earlier run was taken up


class Pace(NamedTuple):
    """What a progress bar shows of a run over large data."""

    passes: float
    speed: float  # MB/s


def is_for(source: str | os.PathLike[str], memory: Any = None, scheduler: Any = None) -> bool:
    """Whether a file is read block by block: zarr and HDF5 always; .npy if it is large, or memory is limited."""
    path = Path(source)
    if path.suffix.lower() != ".npy":
        if (memory or scheduler) and path.suffix.lower() not in SUFFIXES:
            raise ValueError(f"{path}: --memory and --scheduler are for {' '.join(SUFFIXES)}")
        return path.suffix.lower() in SUFFIXES
    return bool(memory or scheduler) or (path.is_file() and is_large(path.stat().st_size))


def complete_large(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    rank: int | None = None,
    *,
    outliers_to: str | os.PathLike[str] | None = None,
    fill: Fill = "missing+outliers",
    name: str | None = None,
    memory: int | str | None = None,
    scheduler: str | None = None,
    progress: Callable[[Iterate, Pace], None] | None = None,
    **options: Any,
) -> Completed:
    """Complete a matrix on disk block by block, and write it as .zarr or .npy.

    `scheduler` is "threads" or the address of a Dask cluster that sees the same files; without, this process reads
    block by block, with about `memory`. `name` chooses an array of a group or file. An interrupted run leaves
    `target` with ".resume.npz", from which the same call goes on. Other options are those of `lrmc.solve`.
    """
    target = _checked(Path(source), Path(target), outliers_to)
    resume = target.with_name(target.name + ".resume.npz")
    with _computing(scheduler):
        obs = _observations(Path(source), name, memory, scheduler)
        inner = obs.of if isinstance(obs, Transposed) else obs
        start = _resumed(resume, obs, rank)
        began, watch = time.perf_counter(), _Watch(inner, resume, progress)
        try:
            options |= {} if start is None else {"start": start}
            result = solve(obs, rank, progress=watch, **options)
        except BaseException:
            watch.save()
            raise
        seconds = time.perf_counter() - began
        count = None if outliers_to is None else write_outliers(result, outliers_to)
        write_completed(result, target, fill=fill)
        resume.unlink(missing_ok=True)
    return Completed(result, count, obs.fraction, seconds, watch.passes, None if start is None else start.k)


class _Watch:
    """Tells progress, and saves where the run is now and then."""

    def __init__(self, obs: Any, resume: Path, progress: Callable[[Iterate, Pace], None] | None) -> None:
        self.obs, self.resume, self.progress = obs, resume, progress
        self.saved = self.began = time.perf_counter()
        self.last: Iterate | None = None
        self.first_rows = self._rows()

    def __call__(self, it: Iterate) -> None:
        self.last = it
        now = time.perf_counter()
        if self.progress is not None:
            size = self.obs.shape[1] * self._itemsize() / 1e6
            self.progress(it, Pace(self.passes, (self._rows() - self.first_rows) * size / max(now - self.began, 1e-9)))
        if now - self.saved > EVERY:
            self.save()

    @property
    def passes(self) -> float:
        return self._rows() / self.obs.shape[0]

    def save(self) -> None:
        """Write the last iterate, if there is one after the start."""
        it = self.last
        if it is None or it.k == 0:
            return
        about = {"format": "lrmc-iterate", "k": it.k, "zeta": it.zeta, "change": it.change, "stage": it.stage}
        with whole(self.resume) as path, open(path, "wb") as file:
            np.savez(file, about=np.array(json.dumps(about)), L=np.asarray(it.L), R=np.asarray(it.R))
        self.saved = time.perf_counter()

    def _rows(self) -> int:
        return self.obs.meter.rows if isinstance(self.obs, Blocks) else 0

    def _itemsize(self) -> int:
        reading = getattr(self.obs, "reading", None)
        return reading.stored.itemsize if reading is not None else self.obs.dtype.itemsize


def _resumed(path: Path, obs: Observations, rank: int | None) -> Iterate | None:
    """The iterate of an interrupted run of the same command, if there is one that fits."""
    if not path.exists():
        return None
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            about, L, R = json.loads(str(content["about"])), content["L"], content["R"]
            if about.get("format") != "lrmc-iterate" or L.shape[1] != R.shape[1]:
                raise ValueError("it holds something else")
            it = Iterate(int(about["k"]), L, R, float(about["change"]), float(about["zeta"]), np.nan, about["stage"])
    except Exception as error:
        raise ValueError(f"{path} could not be read; remove it to begin anew: {error}") from error
    if (len(it.L), len(it.R)) != obs.shape or (rank is not None and it.L.shape[1] != rank):
        raise ValueError(f"{path} is of a run with another matrix or rank; remove it to begin anew")
    return it


# ---- where the data come from, and who computes


def _checked(source: Path, target: Path, outliers_to: Any) -> Path:
    """Refuse outputs that could not be written, before the work."""
    if target.suffix not in (".zarr", ".npy"):
        raise ValueError(f"{target}: matrices larger than memory are written as .zarr or .npy")
    if outliers_to is not None and Path(outliers_to).suffix != ".zarr":
        raise ValueError(f"{outliers_to}: outliers of large matrices are written as .zarr")
    for path in (target, *(() if outliers_to is None else (Path(outliers_to),))):
        if not path.parent.is_dir():
            raise FileNotFoundError(2, "there is no such directory", str(path.parent))
        if path.resolve() == source.resolve():
            raise ValueError(f"{path} is also the input; give the output a place of its own")
    if not source.exists():
        raise FileNotFoundError(2, "there is no such file", str(source))
    return target


def _observations(source: Path, name: str | None, memory: Any, scheduler: str | None) -> Observations:
    if scheduler is None:
        return blocks(in_npy(source) if source.suffix == ".npy" else _opened(source, name), memory=memory)
    Y = _opened(source, name)
    da = optional("dask.array", "scale")
    if source.suffix == ".zarr":
        return as_observations(da.from_zarr(Y))
    if source.suffix == ".npy":
        rows = max(1, (1 << 26) // max(1, Y.shape[1] * Y.itemsize))
        return as_observations(da.from_array(Y, chunks=(rows, -1)))
    return as_observations(Y.chunk())


def _opened(source: Path, name: str | None) -> Any:
    """The array in a file, of which nothing is read yet."""
    if source.suffix == ".npy":
        return np.load(source, mmap_mode="r", allow_pickle=False)
    if source.suffix == ".zarr":
        zarr = optional("zarr", "scale")
        found = zarr.open(source, mode="r")
        arrays = dict(found.arrays()) if hasattr(found, "arrays") else {"": found}
    else:
        dataset = optional("xarray", "scale").open_dataset(source, engine="h5netcdf")
        arrays = {str(key): value for key, value in dataset.data_vars.items() if value.ndim == 2}
    if name is not None and name in arrays:
        return arrays[name]
    if name is not None or len(arrays) != 1:
        told = ", ".join(sorted(arrays)) or "none"
        raise ValueError(f"{source} holds the arrays {told}; choose one with --name")
    return next(iter(arrays.values()))


@contextlib.contextmanager
def _computing(scheduler: str | None) -> Iterator[None]:
    """Dask with threads, or with the cluster at an address."""
    if scheduler is None:
        yield
    elif scheduler == "threads":
        with optional("dask", "scale").config.set(scheduler="threads"):
            yield
    else:
        try:
            client = optional("distributed", "scale").Client(scheduler, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise ValueError(f"--scheduler {scheduler}: no Dask scheduler answers there ({error})") from None
        with client:
            yield

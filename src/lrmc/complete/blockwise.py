"""`lrmc complete` for matrices that do not fit into memory: .zarr, .npy and HDF5 files, or a Dask
cluster.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._arguments import one_of
from .._extras import optional
from .._files import Format, opened_arrays, save_arrays, together
from .._memory import allowed_memory, is_large
from .._progress import Tell, silent
from .._work import following
from ..evidence.alarms import LEFT
from ..observations.base import Observations
from ..observations.ondisk import AT_A_TIME, blocks, declared
from ..observations.sources import InFile
from ..observations.stores import opened
from ..observations.watched import ChangedError, watched
from ..outofcore import FILLS, Fill, write_completed, write_intervals, write_outliers
from ..report import Words, result_sections, write_report
from ..result import UNDETERMINED, Iterate, Result, Undetermined, check_factors
from ..solve import solve
from ..units import Scale, Units, chosen_units
from ..weights import Array
from .in_memory import TOL, no_intervals
from .places import Completion, Places, places
from .report_page import about_units, few_observed

Stored: TypeAlias = Any  # an array on disk, of any library

FORMAT = Format(
    "lrmc-iterate", "an iterate", unsaid=1, hint="; remove it to begin anew"
)
SUFFIXES = (".zarr", ".npy", ".nc", ".h5")
SAMPLED = 4000  # rows that tell the spreads of columns
STORES = ("zarr.json", ".zarray", ".zgroup")  # files of which a zarr store has one
EVERY = 60.0  # seconds between two savings of where the run is


@dataclass(frozen=True, eq=False, kw_only=True)
class Completed(Completion):
    """How a large matrix was completed."""

    outliers: int | None  # how many were written, if they were
    passes: float  # over the data
    resumed: int | None  # the iteration from which an earlier run was taken up


def is_for(
    source: str | os.PathLike[str],
    memory: int | str | None = None,
    scheduler: str | None = None,
) -> bool:
    """Whether a file is read block by block: zarr and HDF5 always; .npy if it is large, or memory
    is limited.
    """
    path = Path(source)
    if path.suffix.lower() != ".npy":
        if (memory or scheduler) and path.suffix.lower() not in SUFFIXES:
            raise ValueError(
                f"{path}: --memory and --scheduler are for {' '.join(SUFFIXES)}"
            )
        return path.suffix.lower() in SUFFIXES
    return bool(memory or scheduler) or (
        path.is_file() and is_large(path.stat().st_size)
    )


def complete_large(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    rank: int | None = None,
    *,
    outliers_to: str | os.PathLike[str] | None = None,
    report_to: str | os.PathLike[str] | None = None,
    intervals_to: str | os.PathLike[str] | None = None,
    level: float = 0.9,
    fill: Fill = "missing+outliers",
    scale: Scale = "auto",
    name: str | None = None,
    memory: int | str | None = None,
    scheduler: str | None = None,
    undetermined: Undetermined = "nan",
    progress: Tell | None = None,
    **options: Any,
) -> Completed:
    """Complete a matrix on disk block by block, and write it as .zarr or .npy. All outputs appear,
    whole, or none does.

    `outliers_to` (.zarr) lists what did not fit, `report_to` (.html) tells and shows everything,
    `intervals_to` (.zarr) lists what was missing, with intervals that hold the truth with
    probability `level`; where they could not be vouched for, a warning says why, and none is
    written.
    `scale` is explained at `lrmc.units`; medians and spreads of columns are those of at most a few
    thousand rows. `scheduler` is "threads", or the address of a Dask cluster that sees the same
    files; without, this process reads block by block, with about `memory`. `name` chooses an array
    of a group or file. An interrupted run leaves `target` with ".resume.npz", from which the same
    call goes on. `undetermined` is explained at `Result.low_rank`. Other options are those of
    `lrmc.solve`.
    """
    one_of("undetermined", undetermined, UNDETERMINED)
    given = places(target, outliers_to, report_to, intervals_to)
    to = _checked(Path(source), given, fill)
    resume = to.target.with_name(to.target.name + ".resume.npz")
    with _computing(scheduler):
        data = _observations(Path(source), name, memory, scheduler)
        units = chosen_units(
            _some_rows(data, memory) if scale == "columns" else None, scale, table=False
        )
        obs = (
            data
            if units is None
            else _observations(Path(source), name, memory, scheduler, units)
        )
        start = _resumed(resume, obs, rank, scaled=units is not None)
        if start is not None:
            options["start"] = start
        watch = _Watch(
            obs, resume, progress, tol=options.get("tol", TOL), scaled=units is not None
        )
        began = time.perf_counter()
        try:
            result = solve(obs, rank, progress=watch, **options)
            seconds = time.perf_counter() - began
            why_not = "" if to.intervals is None else no_intervals(result, level)
            if why_not:
                to = to._replace(intervals=None)
            how = _How(fill, undetermined, level)
            count = _write(to, result, data, units, how, Path(source).name)
        except ChangedError:  # what was learned of other data is no place to go on from
            raise
        except BaseException:
            # A full disk: what went wrong first is what is told.
            with contextlib.suppress(OSError):
                watch.save()
            raise
        resume.unlink(missing_ok=True)
    done = Completed(
        result=result,
        units=units,
        observed=obs.fraction,
        undetermined=undetermined,
        coverage=None if to.intervals is None else result.calibration.coverage,
        outliers=count,
        passes=watch.passes,
        resumed=None if start is None else start.k,
        status=result.status,
        warnings=result.warnings,
        files=to.given,
        seconds=seconds,
        report=to.report,
    )
    if fill == "missing+outliers" and result.listing().is_doubtful:
        done = done.warned(LEFT)
    return done.warned(f"no intervals are written: {why_not}") if why_not else done


def _some_rows(data: Observations, memory: int | str | None = None) -> Array:
    """Rows that tell the spreads of columns, NaN where nothing was observed: two blocks, but 100 at
    least.
    """
    n1, n2 = data.shape
    entries = 2 * allowed_memory(memory) // AT_A_TIME // 8
    most = min(n1, SAMPLED, max(100, entries // n2))
    rows = np.random.default_rng(0).choice(n1, most, replace=False)
    return data.grid(np.sort(rows), np.arange(n2))


class _How(NamedTuple):
    """What is written."""

    fill: Fill
    undetermined: Undetermined
    level: float  # of intervals


def _write(
    to: Places,
    result: Result,
    data: Observations,
    units: Units | None,
    how: _How,
    title: str,
) -> int | None:
    """Everything is written beside its place, and moved there when all of it is there; how many
    outliers there are.
    """
    count = None
    with together() as meanwhile:
        write_completed(
            result,
            meanwhile(to.target),
            fill=how.fill,
            units=units,
            data=data,
            undetermined=how.undetermined,
        )
        if to.outliers is not None:
            count = write_outliers(result, meanwhile(to.outliers), units=units)
        if to.intervals is not None:
            write_intervals(result, meanwhile(to.intervals), how.level, units=units)
        if to.report is not None:
            _report(result, meanwhile(to.report), units, how.undetermined, title)
    return count


def _report(
    result: Result,
    path: Path,
    units: Units | None,
    undetermined: Undetermined,
    title: str,
) -> None:
    # Pages are made in this process.
    here = replace(result, L=np.asarray(result.L), R=np.asarray(result.R))
    sections = result_sections(here, units=units, undetermined=undetermined)
    told = [text for text in (few_observed(here), about_units(units)) if text]
    if told:
        sentences = [text[0].upper() + text[1:].rstrip(".") + "." for text in told]
        sections.append(Words("The columns", sentences))
    write_report(
        path,
        f"{title}, completed",
        sections,
        subtitle="read and written block by block",
    )


class _Watch:
    """Tells progress, and saves where the run is now and then."""

    def __init__(
        self,
        obs: Observations,
        resume: Path,
        progress: Tell | None,
        *,
        tol: float,
        scaled: bool,
    ) -> None:
        self.obs = obs
        self.resume = resume
        self.scaled = scaled
        self.follow = following(progress or silent, tol, self._pace)
        self.saved = self.began = time.perf_counter()
        self.last: Iterate | None = None
        self.read_before = obs.entries_read

    def __call__(self, it: Iterate) -> None:
        self.last = it
        self.follow(it)
        if time.perf_counter() - self.saved > EVERY:
            self.save()

    def _pace(self) -> str:
        """How much was read so far, and how fast."""
        megabytes = (
            (self.obs.entries_read - self.read_before) * self.obs.stored.itemsize / 1e6
        )
        speed = megabytes / max(time.perf_counter() - self.began, 1e-9)
        return f"{self.passes:.0f} passes, {speed:.0f} MB/s"

    @property
    def passes(self) -> float:
        n1, n2 = self.obs.shape
        return self.obs.entries_read / (n1 * n2)

    def save(self) -> None:
        """Write the last iterate, if there is one after the start."""
        it = self.last
        if it is None or it.k == 0:
            return
        about = {
            "k": it.k,
            "zeta": it.zeta,
            "change": it.change,
            "stage": it.stage,
            "scaled": self.scaled,
        }
        save_arrays(
            self.resume, FORMAT, {"L": np.asarray(it.L), "R": np.asarray(it.R)}, about
        )
        self.saved = time.perf_counter()


def _resumed(
    path: Path,
    obs: Observations,
    rank: int | None,
    scaled: bool,
) -> Iterate | None:
    """The iterate of an interrupted run of the same command, if there is one that fits."""
    if not path.exists():
        return None
    with opened_arrays(path, FORMAT) as (about, content):
        L, R = content["L"], content["R"]
        check_factors(L, R)
        k, zeta, change = int(about["k"]), float(about["zeta"]), float(about["change"])
        if k < 1 or not 0 <= zeta < np.inf:
            raise ValueError(f"iteration {k} and threshold {zeta} make no sense")
        it = Iterate(k, L, R, change, zeta, inliers=np.nan, stage=str(about["stage"]))
    if (len(it.L), len(it.R)) != obs.shape or (
        rank is not None and it.L.shape[1] != rank
    ):
        raise ValueError(
            f"{path} is of a run with another matrix or rank; remove it to begin anew"
        )
    if bool(about.get("scaled", False)) != scaled:
        raise ValueError(
            f"{path} is of a run with another --scale; remove it to begin anew"
        )
    return it


# ---- where the data come from, and who computes


def _checked(source: Path, to: Places, fill: Fill) -> Places:
    """Refuse outputs that could not be written, before the work."""
    if fill not in FILLS:
        raise ValueError(f"fill={fill!r}; one of {', '.join(FILLS)} is wanted")
    if to.target.suffix not in (".zarr", ".npy"):
        raise ValueError(
            f"{to.target}: matrices larger than memory are written as .zarr or .npy"
        )
    for what, path in (("outliers", to.outliers), ("intervals", to.intervals)):
        if path is not None and path.suffix != ".zarr":
            raise ValueError(f"{path}: {what} of large matrices are written as .zarr")
    if to.report is not None and to.report.suffix.lower() != ".html":
        raise ValueError(f"{to.report}: the report is written as .html")
    for path in to.given:
        if not path.parent.is_dir():
            raise FileNotFoundError(2, "there is no such directory", str(path.parent))
        if source.resolve() in (path.resolve(), *path.resolve().parents):
            raise ValueError(
                f"{path} is also the input, or within it; give the output a place of"
                " its own"
            )
        _check_replaced(path)
    if len({path.resolve() for path in to.given}) < len(to.given):
        raise ValueError(
            f"{to.target} is also the place of another output; each needs its own"
        )
    if not source.exists():
        raise FileNotFoundError(2, "there is no such file", str(source))
    return to


def _check_replaced(path: Path) -> None:
    """Refuse to put an output in the place of something of another kind."""
    if not path.exists():
        return
    if path.is_dir() != (path.suffix == ".zarr"):
        what = "a folder" if path.is_dir() else "a file"
        raise ValueError(
            f"{path} is {what}, which is not replaced; remove it, or choose another"
            " place"
        )
    if (
        path.is_dir()
        and any(path.iterdir())
        and not any((path / name).is_file() for name in STORES)
    ):
        raise ValueError(
            f"{path} is a folder of something else than zarr, which is not replaced;"
            " choose another place"
        )


def _observations(
    source: Path,
    name: str | None,
    memory: int | str | None,
    scheduler: str | None,
    units: Units | None = None,
) -> Observations:
    """The matrix of a file, in blocks; what damaged data make others raise is told in a
    sentence.
    """
    try:
        Y = opened(source, name)
        return (
            blocks(Y, memory=memory, units=units)
            if scheduler is None
            else _by_dask(source, Y, units)
        )
    except (OSError, ValueError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(
            f"{source} could not be read; is it damaged? ({type(error).__name__}:"
            f" {error})"
        ) from error


def _by_dask(source: Path, Y: Stored, units: Units | None) -> Observations:
    from ..observations.dask import as_dask_observations

    da = optional("dask.array", "scale")
    seen, fill = watched(Y), declared(Y, np.dtype(Y.dtype))
    if isinstance(Y, InFile):
        rows = max(1, (1 << 26) // max(1, Y.shape[1] * Y.dtype.itemsize))
        chunks = (-1, rows) if Y.by_columns else (rows, -1)
        Y = da.from_array(
            np.load(source, mmap_mode="r", allow_pickle=False), chunks=chunks
        )
    else:
        Y = da.from_zarr(Y) if source.suffix.lower() == ".zarr" else Y.chunk().data
    if units is not None:
        Y, fill = (
            units.removed(Y if fill is None else da.where(fill != Y, Y, np.nan)),
            None,
        )
    return as_dask_observations(Y, fill=fill, watched=() if seen is None else (seen,))


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
            raise ValueError(
                f"--scheduler {scheduler}: no Dask scheduler answers there ({error})"
            ) from None
        # A scheduler that is lost is told below.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        with client:
            try:
                yield
            finally:
                client.close(timeout=5)

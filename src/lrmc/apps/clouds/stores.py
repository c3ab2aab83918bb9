"""A series of scenes in a zarr store, cleared chunk by chunk: the whole of it is never in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._extras import optional
from ..._progress import FitFailed, Progress, Tell, silent
from ...observations.stores import readable, zarr_arrays
from .classes import RULES
from .lazy import CLEARING, Lazily, remove_clouds_lazily
from .look import BLOCK
from .model import Cleared, held, remove_clouds
from .scenes import Scenes, checked_rgb, usual_bands
from .series import (
    BANDS,
    DataArray,
    Dataset,
    LaidOut,
    answers,
    band_of,
    believed,
    dimension,
    laid_out,
    together,
)

LARGEST = 8 * BLOCK  # numbers of a chunk, all dates and bands: larger ones are divided


class Series(NamedTuple):
    """What is cleared of a store, of which nothing was read yet."""

    path: Path
    store: Dataset
    names: tuple[str, ...]  # the variable with all bands, or one for each of them
    masks: str | None  # the variable that says what may be believed
    version: int  # of the format

    @classmethod
    def opened(
        cls,
        path: Path,
        name: str | None,
        masks: str | os.PathLike[str] | None,
    ) -> Series:
        """A store, its variable of that name, and the one with masks."""
        with readable(path):
            arrays = zarr_arrays(path).values()
            version = max((one.metadata.zarr_format for one in arrays), default=3)
            store = _opened(path)
        asked = None if masks is None else _masks(store, os.fspath(masks), path)
        names = _variables(store, name, asked, path)
        return cls(path, store, names, asked, version)

    @property
    def array(self) -> DataArray:
        """All bands."""
        if len(self.names) == 1:
            return self.store[self.names[0]]
        return together(self.store, self.names)

    @property
    def mask_name(self) -> str:
        """Of the variable that is added."""
        return f"{self.names[0]}_mask" if len(self.names) == 1 else "clouds"

    def laid_out(self) -> LaidOut:
        """As `remove_clouds` takes it, in chunks of the picture that are not too large."""
        laid = laid_out(self.array)
        if laid.like.chunks is None:
            return laid
        T, bands = laid.data.shape[:2]
        whole = laid.data.rechunk({0: T, 1: bands})
        if np.prod([max(sizes) for sizes in whole.chunks]) > LARGEST:
            limit = LARGEST * laid.data.dtype.itemsize
            smaller = {0: T, 1: bands, 2: "auto", 3: "auto"}
            whole = laid.data.rechunk(smaller, block_size_limit=limit)
        return laid._replace(data=whole)

    def seen(self, laid: LaidOut) -> Any:
        """T x height x width: what may be believed; None if nothing is said."""
        if self.masks is None:
            return None
        dims = [d for d in laid.like.dims if d != laid.band]
        classes = self.store[self.masks]
        if set(classes.dims) != set(dims):
            raise ValueError(
                f"{self.path}: {self.masks} has the dimensions"
                f" {', '.join(map(str, classes.dims))};"
                f" {', '.join(map(str, dims))} are wanted"
            )
        with readable(self.path):
            return believed(classes.transpose(*dims)).data

    def answer(self, laid: LaidOut, done: Cleared | Lazily) -> Dataset:
        """The store with what was cleared, in the chunks that it had."""
        parts = answers(self.array, laid, done)
        clear, mask = parts["clear"], parts["clouds"]
        added = {self.mask_name: mask}
        unsure = parts.get("deviation")
        if len(self.names) == 1:
            added[self.names[0]] = clear
            if unsure is not None:
                added[f"{self.names[0]}_sd"] = unsure
        else:
            added |= {
                name: band_of(clear, name, self.store[name]) for name in self.names
            }
            if unsure is not None:
                spread = {name: unsure.sel(band=name, drop=True) for name in self.names}
                added |= {f"{name}_sd": one for name, one in spread.items()}
        chunks = self.store[self.names[0]].chunksizes
        for name, one in added.items() if chunks else ():
            added[name] = one.chunk({d: chunks[d] for d in one.dims})
        return self.store.assign(added)

    def read_back(self, path: Path, done: Cleared | Lazily) -> Cleared | Lazily:
        """What was found, from where it was written: nothing is computed again."""
        if isinstance(done, Cleared):
            return done
        written = self._replace(path=path, store=_opened(path))
        laid = laid_out(written.array)
        dims = [d for d in laid.like.dims if d != laid.band]
        mask = written.store[self.mask_name].transpose(*dims)
        return replace(done, scenes=laid.data, mask=mask.data)


def _opened(path: Path) -> Dataset:
    """With numbers as they are stored."""
    xarray = optional("xarray", "clouds")
    return xarray.open_zarr(path, mask_and_scale=False, consolidated=False)


def _variables(
    store: Dataset,
    name: str | None,
    masks: str | None,
    path: Path,
) -> tuple[str, ...]:
    """What is cleared: the variable that is named, or the one with bands; without any, all that have
    times, as bands.
    """
    known = [str(one) for one in store.data_vars]
    if not known:
        raise ValueError(f"{path} holds no variables")
    if name is not None and name not in known:
        raise ValueError(f"{path} has no variable {name!r}; it has {', '.join(known)}")
    if name is not None:
        return (name,)
    most = max(known, key=lambda one: store[one].ndim)
    if store[most].ndim != 3 or dimension(store[most], None, BANDS):
        return (most,)
    left_out = {masks, *(one for one in known if one.lower() in RULES)}
    alike = [one for one in known if store[one].dims == store[most].dims]
    return tuple(one for one in alike if one not in left_out) or (most,)


def _masks(store: Dataset, asked: str, path: Path) -> str:
    """The variable with masks of this name, in capitals or not."""
    known = {str(one).lower(): str(one) for one in store.data_vars}
    if asked.lower() not in known:
        raise ValueError(
            f"{path} has no variable {asked!r} with masks; it has"
            f" {', '.join(known.values())}"
        )
    return known[asked.lower()]


def as_scenes(laid: LaidOut, rgb: Sequence[int] | None) -> Scenes:
    """The same as scenes of files, named by their dates."""
    bands = laid.data.shape[1]
    labels = range(len(laid.data)) if laid.dates is None else laid.dates
    dated = laid.dates is not None and laid.dates.dtype.kind == "M"
    return Scenes(
        data=laid.data,
        seen=None,
        nodata=laid.nodata,
        paths=tuple(Path(str(when)[:10]) for when in labels),
        days=np.asarray(laid.dates, "datetime64[D]") if dated else None,
        rgb=usual_bands(bands) if rgb is None else checked_rgb(rgb, bands),
    )


def clear_store(
    series: Series,
    target: Path,
    laid: LaidOut,
    options: dict[str, Any],
) -> Cleared | Lazily:
    """A store without clouds, written in the version of the format that it has; chunk by chunk, if
    Dask is installed.
    """
    seen = series.seen(laid)
    about = {"nodata": laid.nodata, "dates": laid.dates, **options}
    if laid.like.chunks is None:
        done = remove_clouds(laid.data, seen, **about)
        _write(series, series.answer(laid, done), target)
        return done
    lazily = remove_clouds_lazily(laid.data, seen, source=series.path, **about)
    clipped = _write_chunks(series, laid, lazily, target, about.get("progress"))
    outcome = lazily.outcome
    if lazily.ground.limits is not None:
        limits = lazily.ground.limits
        outcome = held(outcome, clipped, laid.data.size, limits)
    return series.read_back(target, replace(lazily, outcome=outcome))


def _write_chunks(
    series: Series,
    laid: LaidOut,
    done: Lazily,
    target: Path,
    progress: Tell | None,
) -> int:
    """Compute and write all of it, and count what had to be clipped."""
    dask = optional("dask", "scale")
    callback = optional("dask.callbacks", "scale").Callback
    tell = progress or silent
    total = laid.data.numblocks[2] * laid.data.numblocks[3]
    finished: list[str] = []

    def count(key: Any, *rest: Any) -> None:
        if str(key).startswith(CLEARING):
            finished.append(str(key))
            tell(Progress("clearing", len(finished), total, "chunks"))

    written = _write(series, series.answer(laid, done), target, compute=False)
    with callback(posttask=count), _copied(series.path):
        _, clipped = dask.compute(written, done.clipped)
    return int(clipped)


def _write(
    series: Series,
    answer: Dataset,
    target: Path,
    compute: bool = True,
) -> Any:
    """In the version of the format that the source has: its compressors are not known to
    another.
    """
    for one in answer.variables.values():
        one.encoding.pop("chunks", None)
    options = {"consolidated": False, "zarr_format": series.version}
    with _copied(series.path):
        return answer.to_zarr(target, compute=compute, **options)


@contextmanager
def _copied(source: Path) -> Iterator[None]:
    """Other variables of the source are read only when they are written."""
    try:
        yield
    except (OSError, MemoryError, FitFailed):  # of the disk
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{source} could not be copied with its other variables; is it damaged?"
            f" ({reason})"
        ) from error

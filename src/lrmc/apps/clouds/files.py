"""Series of scenes in files, cleared of clouds: GeoTIFFs, or a zarr store."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._extras import optional
from ..._files import whole_folder
from ..._work import Outcome, placed
from ...observations.stores import readable, zarr_arrays
from ...weights import Array
from .classes import rule_of
from .model import Cleared, remove_clouds
from .scenes import Scenes, checked_rgb, read_scenes, usual_bands, write_scene
from .series import Dataset, LaidOut, answers, laid_out
from .show import write_pictures
from .stac import write_item

FEWEST = 3  # dates of a place


@dataclass(frozen=True, eq=False, kw_only=True)
class Processed(Outcome):
    """What `process` made of a series of scenes."""

    cleared: Cleared
    scenes: Scenes


def process(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    masks: str | os.PathLike[str] | None = None,
    name: str | None = None,
    rgb: Sequence[int] | None = None,
    **options: Any,
) -> Processed:
    """Remove clouds from files of satellite scenes: what `lrmc clouds` does.

    The folder gets the scenes, masks, quick-looks and report.html, all of it or nothing. For each
    GeoTIFF X.tif come an X.tif and an X_mask.tif. For one zarr store X.zarr (time, band, y, x)
    comes an X.zarr: the same, with the variable cleared and NAME_mask added. Numbers are taken as
    they are stored; attributes and coordinates stay. With `uncertainty=True` there are X_sd.tif, or
    NAME_sd: the standard deviation of every value. A scene with a STAC item beside it, X.json, gets
    one for what was made of it.

    Parameters
    ----------
    sources : sequence of paths
        GeoTIFFs on the same grid, or one zarr store.
    target : path
        The folder to make.
    masks : path or str, optional
        A folder with a file for each scene X.tif: X_mask.tif or X.tif, not 0 where it is not to be
        believed; X_SCL.tif, Sentinel-2's classes; or X_QA_PIXEL.tif, Landsat's flags. Of a zarr
        store, the name of a variable with masks, such as scl or qa_pixel.
    name : str, optional
        Variable of the zarr store; the one with most dimensions if not given.
    rgb : sequence of three ints, optional
        Numbers of the bands to show, from 1.
    **options
        Those of `remove_clouds`.

    Returns
    -------
    Processed
        Files, report, status, warnings and seconds, and the scenes.

    Raises
    ------
    ValueError
        If the input or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If a fit diverged; nothing is written then.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> from lrmc.apps import clouds
    >>> rng = np.random.default_rng(0)
    >>> ground = rng.uniform(500, 2000, (3, 24, 24))
    >>> scenes = ground * rng.uniform(0.9, 1.1, (10, 1, 1, 1))
    >>> scenes[4, :, 5:15, 5:15] = 8000  # a cloud
    >>> dims = ("time", "band", "y", "x")
    >>> stored = xarray.Dataset({"light": (dims, scenes.astype(np.uint16))})
    >>> _ = stored.to_zarr("scenes.zarr", consolidated=False)
    >>> done = clouds.process(["scenes.zarr"], "out")
    >>> "scenes.zarr" in [file.name for file in done.files], done.report.name
    (True, 'report.html')
    """
    paths = [Path(source) for source in sources]
    if len(paths) == 1 and paths[0].suffix == ".zarr":
        return _process_zarr(paths[0], Path(target), (name, masks), rgb, options)
    return _process_tiffs(paths, Path(target), masks, rgb, options)


def _process_tiffs(
    sources: Sequence[Path],
    target: Path,
    masks: str | os.PathLike[str] | None,
    rgb: Sequence[int] | None,
    options: dict[str, Any],
) -> Processed:
    began = time.perf_counter()
    paths = _checked_paths(sources, target)
    scenes = read_scenes(paths, masks=masks, rgb=rgb)
    with whole_folder(target) as folder:
        cleared = remove_clouds(
            scenes.data, scenes.seen, nodata=scenes.nodata, dates=scenes.days, **options
        )
        for k, path in enumerate(paths):
            unsure = None if cleared.deviation is None else cleared.deviation[k]
            write_scene(folder, path, cleared.scenes[k], cleared.mask[k], unsure)
            write_item(folder, path)
        page = write_pictures(folder, scenes, cleared)
        return _processed(scenes, cleared, began, page, target)


def _processed(
    scenes: Scenes,
    cleared: Cleared,
    began: float,
    page: Path,
    target: Path,
) -> Processed:
    return Processed(
        cleared=cleared,
        scenes=scenes,
        status=cleared.status,
        warnings=cleared.warnings,
        files=placed(page.parent, target),
        seconds=time.perf_counter() - began,
        report=target / page.name,
    )


def _checked_paths(sources: Sequence[Path], target: Path) -> tuple[Path, ...]:
    paths = tuple(sources)
    if len(paths) < FEWEST:
        raise ValueError(
            f"{len(paths)} scene(s); at least {FEWEST} dates of the same place are"
            " wanted"
        )
    written: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path}: there is no such file")
        _check_apart(path, target)
        for name in (f"{path.stem}{end}.tif" for end in ("", "_mask", "_sd")):
            if name in written:
                raise ValueError(
                    f"{written[name]} and {path} would both be written as {name};"
                    " rename one of them"
                )
            written[name] = path
    return paths


def _check_apart(path: Path, target: Path) -> None:
    if os.path.dirname(os.path.realpath(path)) == os.path.realpath(target):
        raise ValueError(
            f"{path} lies in the output folder, where it would be overwritten; choose"
            " another folder"
        )


# ---- zarr


def _process_zarr(
    path: Path,
    target: Path,
    names: tuple[str | None, str | os.PathLike[str] | None],
    rgb: Sequence[int] | None,
    options: dict[str, Any],
) -> Processed:
    """The names are those of the variable to clear, and of the one that masks it."""
    began = time.perf_counter()
    xarray = optional("xarray", "clouds")
    _check_apart(path, target)
    with readable(path):
        version = max(
            (array.metadata.zarr_format for array in zarr_arrays(path).values()),
            default=3,
        )
        store = xarray.open_zarr(path, mask_and_scale=False, consolidated=False)
    name = _variable(store, names[0], path)
    with readable(path):
        array = store[name].load()
    laid = laid_out(array)
    seen = _seen(store, names[1], laid, path)
    scenes = _as_scenes(laid, rgb)
    with whole_folder(target) as folder:
        cleared = remove_clouds(
            laid.data, seen, nodata=laid.nodata, dates=laid.dates, **options
        )
        parts = answers(array, laid, cleared)
        answer = store.assign({name: parts["clear"], f"{name}_mask": parts["clouds"]})
        if "deviation" in parts:
            answer = answer.assign({f"{name}_sd": parts["deviation"]})
        _write_store(folder / path.name, answer, version, path)
        page = write_pictures(folder, scenes, cleared)
        return _processed(scenes, cleared, began, page, target)


def _variable(store: Dataset, name: str | None, path: Path) -> str:
    """The variable that is cleared: the one with most dimensions, if none is named."""
    known = [str(one) for one in store.data_vars]
    if not known:
        raise ValueError(f"{path} holds no variables")
    chosen = name or max(known, key=lambda one: store[one].ndim)
    if chosen not in store:
        raise ValueError(
            f"{path} has no variable {chosen!r}; it has {', '.join(known)}"
        )
    return chosen


def _seen(
    store: Dataset,
    masks: str | os.PathLike[str] | None,
    laid: LaidOut,
    path: Path,
) -> Array | None:
    """T x height x width: what the variable with the masks says may be believed."""
    if masks is None:
        return None
    asked = os.fspath(masks)
    known = {str(one).lower(): str(one) for one in store.data_vars}
    if asked.lower() not in known:
        raise ValueError(
            f"{path} has no variable {asked!r} with masks; it has"
            f" {', '.join(known.values())}"
        )
    dims = [d for d in laid.like.dims if d != laid.band]
    classes = store[known[asked.lower()]]
    if set(classes.dims) != set(dims):
        raise ValueError(
            f"{path}: {asked} has the dimensions {', '.join(map(str, classes.dims))};"
            f" {', '.join(map(str, dims))} are wanted"
        )
    with readable(path):
        return ~rule_of(asked)(classes.transpose(*dims).values)


def _as_scenes(laid: LaidOut, rgb: Sequence[int] | None) -> Scenes:
    count, *size = laid.data.shape[1:]
    T = len(laid.data)
    labels = range(T) if laid.dates is None else laid.dates
    dated = laid.dates is not None and laid.dates.dtype.kind == "M"
    return Scenes(
        data=laid.data,
        seen=np.ones((T, *size), bool),
        nodata=laid.nodata,
        paths=tuple(Path(str(when)[:10]) for when in labels),
        days=laid.dates.astype("datetime64[D]")
        if dated and laid.dates is not None
        else None,
        rgb=usual_bands(count) if rgb is None else checked_rgb(rgb, count),
    )


def _write_store(target: Path, answer: Dataset, version: int, source: Path) -> None:
    """In the version of the format that the source has: its compressors are not known to
    another.
    """
    for one in answer.variables.values():
        one.encoding.pop("chunks", None)
    try:
        answer.to_zarr(target, consolidated=False, zarr_format=version)
    except (OSError, MemoryError):  # of the disk
        raise
    except Exception as error:  # other variables of the source are read only now
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{source} could not be copied with its other variables; is it damaged?"
            f" ({reason})"
        ) from error

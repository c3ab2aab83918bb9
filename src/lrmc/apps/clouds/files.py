"""Series of scenes in files, cleared of clouds: GeoTIFFs, or a zarr store."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..._files import whole_folder
from ..._work import Outcome, placed
from .lazy import Lazily
from .model import Cleared, remove_clouds
from .scenes import Scenes, read_scenes, write_scene
from .show import write_pictures
from .stac import write_item
from .stores import Series, as_scenes, clear_store

FEWEST = 3  # dates of a place


@dataclass(frozen=True, eq=False, kw_only=True)
class Processed(Outcome):
    """What `process` made of a series of scenes."""

    cleared: Cleared | Lazily  # lazy of a store: read from what was written
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
        return _process_store(paths[0], Path(target), (name, masks), rgb, options)
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


def _process_store(
    path: Path,
    target: Path,
    names: tuple[str | None, str | os.PathLike[str] | None],
    rgb: Sequence[int] | None,
    options: dict[str, Any],
) -> Processed:
    """The names are those of the variable to clear, and of the one that masks it."""
    began = time.perf_counter()
    _check_apart(path, target)
    series = Series.opened(path, *names)
    laid = series.laid_out()
    scenes = as_scenes(laid, rgb)
    with whole_folder(target) as folder:
        cleared = clear_store(series, folder / path.name, laid, options)
        page = write_pictures(folder, scenes, cleared)
        done = _processed(scenes, cleared, began, page, target)
    return replace(done, cleared=series.read_back(target / path.name, cleared))


def _processed(
    scenes: Scenes,
    cleared: Cleared | Lazily,
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

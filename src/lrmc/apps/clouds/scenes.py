"""Satellite scenes in files: GeoTIFFs of one place on one grid, read into memory and written back
as they came.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..._extras import optional
from ...weights import Array
from .classes import rule_of
from .series import MEANING, SD_MEANING

Raster: TypeAlias = Any  # a file that rasterio opened
# How they begin; with a plus, the large ones.
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
MASKS = ("mask", "SCL", "QA_PIXEL")  # how their names end
TILE = 512  # pixels, the usual size of tiles
OFFLINE = {
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}"
}  # no address that a file names is asked
# Endings of masks and overviews that GDAL looks for.
BESIDE = (".msk", ".MSK", ".ovr", ".OVR")
SAME_PLACE = 1e-6  # of a pixel, that two grids may differ by
DATE = re.compile(
    r"(?<!\d)((?:19|20)\d\d)[-_]?(0[1-9]|1[0-2])[-_]?(0[1-9]|[12]\d|3[01])(?!\d)"
)
COLOURS = ("red", "green", "blue")
NAMES = {
    "red": "red",
    "green": "green",
    "blue": "blue",
    "b04": "red",
    "b4": "red",
    "b03": "green",
    "b3": "green",
}
NAMES |= {"b02": "blue", "b2": "blue"}


@dataclass(frozen=True, eq=False)
class Scenes:
    """Scenes of one place on one grid."""

    data: Array  # T x bands x height x width
    seen: Array | None  # T x height x width; None where masks are not here
    nodata: float | None
    paths: tuple[Path, ...]
    days: Array | None  # as datetime64, if all names tell their date
    rgb: tuple[int, ...]  # the bands that are shown, from 0: one or three


@contextmanager
def _opened(path: Path) -> Iterator[Raster]:
    """A GeoTIFF; what is wrong with it is told in a sentence with its name.

    No other driver: some read files (VRT) that name others, or addresses.
    """
    rasterio = optional("rasterio", "clouds")
    _check_beside(path)
    try:
        with (
            rasterio.Env(**OFFLINE),
            rasterio.open(path.absolute(), driver="GTiff") as source,
        ):
            yield source
    except rasterio.errors.RasterioError as error:
        said = " ".join(str(error).split())
        raise ValueError(
            f"{path} cannot be read as a scene, a GeoTIFF is wanted: {said}"
        ) from None


def _check_beside(path: Path) -> None:
    """A mask or overviews beside a scene, which GDAL would open with any driver, are GeoTIFFs
    too.
    """
    for ending in BESIDE:
        other = Path(f"{path}{ending}")
        if not other.is_file():
            continue
        with open(other, "rb") as file:
            begins = file.read(4)
        if begins not in TIFF:
            raise ValueError(
                f"{other} cannot be read as a part of its scene, a GeoTIFF is wanted;"
                " remove it?"
            )


def read_scenes(
    paths: Sequence[Path],
    *,
    masks: str | os.PathLike[str] | None = None,
    rgb: Sequence[int] | None = None,
) -> Scenes:
    """All scenes in memory, once they are known to lie on the same grid."""
    paths = tuple(paths)
    with _opened(paths[0]) as first:
        shape = (len(paths), first.count, first.height, first.width)
        dtype = first.dtypes[0]
        nodata = first.nodata
        shown = _shown_bands(first, rgb)
    for path in paths:
        _check_grid(path, paths[0])
    if np.dtype(dtype).kind not in "iuf":
        raise ValueError(f"{paths[0]} holds {dtype}; integers or floats are wanted")
    data = np.empty(shape, dtype)
    seen = np.empty((shape[0], *shape[2:]), bool)
    for k, path in enumerate(paths):
        with _opened(path) as source:
            source.read(out=data[k])
            seen[k] = source.dataset_mask() != 0
        if masks is not None:
            seen[k] &= ~_masked(Path(masks), path, shape[2:])
    return Scenes(data, seen, nodata, paths, dates_of(paths), shown)


def _check_grid(path: Path, first: Path) -> None:
    with _opened(path) as one, _opened(first) as other:
        facts = {
            "size": (f"{one.width} x {one.height}", f"{other.width} x {other.height}"),
            "number of bands": (one.count, other.count),
            "type": (set(one.dtypes), set(other.dtypes)),
            "coordinate system": (one.crs, other.crs),
            "nodata value": (str(one.nodata), str(other.nodata)),
            "scale": (one.scales, other.scales),
            "offset": (one.offsets, other.offsets),
        }
        for name, (here, there) in facts.items():
            if here != there:
                here, there = (
                    ", ".join(sorted(x)) if isinstance(x, set) else x
                    for x in (here, there)
                )
                raise ValueError(
                    f"{path} has another {name} than {first.name}: {here}, not {there}"
                )
        if len(set(one.dtypes)) > 1:
            raise ValueError(
                f"{path} has bands of different types: {', '.join(one.dtypes)}; one"
                " type is wanted"
            )
        if not one.transform.almost_equals(
            other.transform, SAME_PLACE * abs(other.transform.a)
        ):
            raise ValueError(
                f"{path} lies elsewhere than {first.name}: another transform; warp them"
                " to one grid first"
            )


def _masked(folder: Path, path: Path, shape: tuple[int, ...]) -> Array:
    """What a file in the folder of masks says is not to be believed of a scene."""
    for kind in MASKS:
        file = folder / f"{path.stem}_{kind}.tif"
        if file.is_file():
            return _hidden(file, kind, shape)
    if (folder / path.name).is_file():
        return _hidden(folder / path.name, None, shape)
    names = ", ".join(f"{path.stem}_{kind}.tif" for kind in MASKS)
    raise ValueError(f"{folder}: there is no mask {names} or {path.name}")


def _hidden(file: Path, kind: str | None, shape: tuple[int, ...]) -> Array:
    """By the rule of this kind, or of the one that the band is called by."""
    with _opened(file) as source:
        if source.shape != shape:
            raise ValueError(f"{file} has {source.shape} pixels, its scene {shape}")
        rule = rule_of(kind or source.descriptions[0])
        return rule(source.read(1))


def dates_of(paths: Sequence[Path]) -> Array | None:
    """The dates in the names, such as 2021-06-30 or 20210630; None if not every name has one."""
    found = []
    for path in paths:
        match = DATE.search(path.stem)
        if match is None:
            return None
        try:
            found.append(np.datetime64("-".join(match.groups()), "D"))
        except ValueError:  # the 31st of February
            return None
    return np.array(found)


def _shown_bands(source: Raster, asked: Sequence[int] | None) -> tuple[int, ...]:
    if asked is not None:
        return checked_rgb(asked, source.count)
    described = [str(name).lower() for name in source.descriptions]
    meanings = [
        NAMES.get(name, one.name) for name, one in zip(described, source.colorinterp)
    ]
    if all(colour in meanings for colour in COLOURS):
        return tuple(meanings.index(colour) for colour in COLOURS)
    return usual_bands(source.count)


def usual_bands(count: int) -> tuple[int, ...]:
    """Those that are shown where nothing is known of them: blue, green and red come first."""
    return (2, 1, 0) if count >= 3 else (0,)


def checked_rgb(asked: Sequence[int], count: int) -> tuple[int, ...]:
    """Bands to show, counted from 1, as they are counted from 0."""
    if len(asked) not in (1, 3) or not all(1 <= b <= count for b in asked):
        raise ValueError(
            f"bands {', '.join(map(str, asked))} to show; one or three of 1 to {count}"
            " are wanted"
        )
    return tuple(b - 1 for b in asked)


# ---- writing


def write_scene(
    folder: Path,
    path: Path,
    scene: Array,
    mask: Array,
    deviation: Array | None = None,
) -> None:
    """A scene and its mask with everything that the file had beside its numbers; and its standard
    deviations, if there are any. All are cloud-optimised: tiles, and overviews of large ones.
    """
    with _opened(path) as source:
        place = {name: source.profile[name] for name in ("crs", "transform")}
        with _written(folder / f"{path.stem}.tif", scene, place, "average") as out:
            out.nodata = source.nodata
            _copy_tags(source, out)
        about = folder / f"{path.stem}_mask.tif"
        with _written(about, mask[None], place, "mode") as out:
            out.set_band_description(1, "cloud mask")
            out.update_tags(MEANING=MEANING)
        if deviation is None:
            return
        about = folder / f"{path.stem}_sd.tif"
        with _written(about, deviation, place, "average") as out:
            out.scales = source.scales  # of differences: an offset has no part in them
            out.descriptions = source.descriptions
            out.update_tags(MEANING=SD_MEANING)


@contextmanager
def _written(
    path: Path,
    values: Array,
    place: dict[str, Any],
    overviews: str,
) -> Iterator[Raster]:
    """A cloud-optimised GeoTIFF of values, bands x height x width; what is beside them is to be
    added. Its driver copies a whole raster, which is made in memory.
    """
    rasterio = optional("rasterio", "clouds")
    copy = optional("rasterio.shutil", "clouds").copy
    count, height, width = values.shape
    about = {"count": count, "height": height, "width": width, **place}
    about |= {"driver": "GTiff", "dtype": values.dtype, "bigtiff": "if_safer"}
    options = {"compress": "deflate", "blocksize": TILE, "bigtiff": "if_safer"}
    with rasterio.MemoryFile() as room:
        with room.open(**about) as out:
            out.write(values)
            yield out
        copy(room.name, path, driver="COG", overview_resampling=overviews, **options)


def _copy_tags(source: Raster, out: Raster) -> None:
    out.scales, out.offsets = source.scales, source.offsets
    out.colorinterp = source.colorinterp
    for b, (name, unit) in enumerate(zip(source.descriptions, source.units), 1):
        if name is not None:
            out.set_band_description(b, name)
        if unit:
            out.set_band_unit(b, unit)
        tags = {
            key: value
            for key, value in source.tags(b).items()
            if not key.startswith("STATISTICS_")
        }
        out.update_tags(b, **tags)
    out.update_tags(**source.tags())
    if source.tags(ns="RPC"):
        out.update_tags(ns="RPC", **source.tags(ns="RPC"))

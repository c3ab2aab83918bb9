"""Satellite scenes in files: GeoTIFFs of one place, cleared of clouds and written back as they came."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._extras import optional
from ..._files import whole_folder
from ...observations.stores import readable, zarr_arrays
from ...report import BeforeAfter, Facts, Frames, Table, Words, write_report
from ...report.images import evenly
from ...weights import Array
from .model import CLOUD, MISSING, Cleared, remove_clouds

QUICK_LOOK = 700  # pixels, at most
SHOWN_AT_MOST = 120  # scenes in the report
LOSSY = ("jpeg", "webp", "lerc", "jxl")  # what a GeoTIFF may be compressed by that changes its numbers
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # how they begin; with a plus, the large ones
OFFLINE = {"CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}"}  # no address that a file names is asked
MEANING = "0 clear, 1 cloud or shadow, 2 nothing was observed"
NAMES = {"red": "red", "green": "green", "blue": "blue", "b04": "red", "b4": "red", "b03": "green", "b3": "green"}
NAMES |= {"b02": "blue", "b2": "blue"}


@dataclass(frozen=True, eq=False)
class Scenes:
    """Scenes of one place on one grid."""

    data: Array  # T x bands x height x width
    seen: Array  # T x height x width
    nodata: float | None
    paths: tuple[Path, ...]
    days: Array | None  # as datetime64, if all names tell their date
    rgb: tuple[int, ...]  # the bands that are shown, from 0: one or three


def clear_files(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    masks: str | os.PathLike[str] | None = None,
    rgb: Sequence[int] | None = None,
    **options: Any,
) -> tuple[Cleared, Scenes]:
    """For each X.tif, an X.tif without clouds and an X_mask.tif in the folder `target`, quick-looks and report.html.

    All scenes must be on the same grid. `masks` is a folder with a file X.tif or X_mask.tif for each scene, not 0 where
    it is not to be believed. `rgb` are the numbers of the bands to show, from 1. Options are those of `remove_clouds`.
    Everything appears, whole, or nothing does.
    """
    paths = _checked_paths(sources, Path(target))
    scenes = read_scenes(paths, masks=masks, rgb=rgb)
    with whole_folder(target) as folder:
        cleared = remove_clouds(scenes.data, scenes.seen, nodata=scenes.nodata, dates=scenes.days, **options)
        for k, path in enumerate(paths):
            write_scene(folder, path, cleared.scenes[k], cleared.mask[k])
        _show(folder, scenes, cleared)
    return cleared, scenes


def clear_zarr(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    name: str | None = None,
    rgb: Sequence[int] | None = None,
    **options: Any,
) -> tuple[Cleared, Scenes]:
    """For a zarr store X.zarr (time, band, y, x) an X.zarr in the folder `target`: the same, without clouds.

    The variable `name` (the one with most dimensions, if not given) is cleared, and NAME_mask added. Numbers are taken
    as they are stored; attributes and coordinates stay. Quick-looks and report.html as for GeoTIFFs.
    """
    xarray, path = optional("xarray", "clouds"), Path(source)
    if os.path.dirname(os.path.realpath(path)) == os.path.realpath(target):
        raise ValueError(f"{path} lies in the output folder, where it would be overwritten; choose another folder")
    with readable(path):
        version = max((array.metadata.zarr_format for array in zarr_arrays(path).values()), default=3)
        whole = xarray.open_zarr(path, mask_and_scale=False, consolidated=False)
    if not whole.data_vars:
        raise ValueError(f"{path} holds no variables")
    name = name or max(map(str, whole.data_vars), key=lambda one: whole[one].ndim)
    if name not in whole:
        raise ValueError(f"{path} has no variable {name!r}; it has {', '.join(map(str, whole.data_vars))}")
    from ...xarray import Accessor

    with readable(path):
        series = Accessor(whole[name].load())
    laid = series.laid_out()
    labels = tuple(Path(str(when)[:10]) for when in (laid.dates if laid.dates is not None else range(len(laid.data))))
    days = laid.dates if laid.dates is not None and laid.dates.dtype.kind == "M" else None
    count = laid.data.shape[1]
    shown = _checked_rgb(rgb, count) if rgb is not None else (2, 1, 0) if count >= 3 else (0,)
    there = np.ones((len(laid.data), *laid.data.shape[2:]), bool)
    scenes = Scenes(
        laid.data, there, laid.nodata, labels, None if days is None else days.astype("datetime64[D]"), shown
    )
    with whole_folder(target) as folder:
        cleared = remove_clouds(laid.data, nodata=laid.nodata, dates=laid.dates, **options)
        parts = series.answers(laid, cleared)
        answer = whole.assign({name: parts["clear"], f"{name}_mask": parts["clouds"]})
        for one in answer.variables.values():
            one.encoding.pop("chunks", None)
        _write_store(folder / path.name, answer, version, path)
        _show(folder, scenes, cleared)
    return cleared, scenes


def _write_store(target: Path, answer: Any, version: int, source: Path) -> None:
    """In the version of the format that the source has: its compressors are not known to another."""
    try:
        answer.to_zarr(target, consolidated=False, zarr_format=version)
    except (OSError, MemoryError):  # of the disk
        raise
    except Exception as error:  # other variables of the source are read only now
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{source} could not be copied with its other variables; is it damaged? ({reason})") from error


def _show(folder: Path, scenes: Scenes, cleared: Cleared) -> None:
    pictures = Pictures(scenes, cleared)
    pictures.write(folder / "quicklooks")
    sections = report_sections(scenes, cleared, pictures)
    write_report(folder / "report.html", "Clouds", sections, subtitle=_subtitle(scenes))


def _checked_paths(sources: Sequence[str | os.PathLike[str]], target: Path) -> tuple[Path, ...]:
    paths = tuple(Path(source) for source in sources)
    if len(paths) < 3:
        raise ValueError(f"{len(paths)} scene(s); at least 3 dates of the same place are wanted")
    written: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path}: there is no such file")
        if os.path.dirname(os.path.realpath(path)) == os.path.realpath(target):
            raise ValueError(f"{path} lies in the output folder, where it would be overwritten; choose another folder")
        for name in (f"{path.stem}.tif", f"{path.stem}_mask.tif"):
            if name in written:
                raise ValueError(f"{written[name]} and {path} would both be written as {name}; rename one of them")
            written[name] = path
    return paths


# ---- reading


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A GeoTIFF; what is wrong with it is told in a sentence with its name.

    No other driver: some read files (VRT) that name others, or addresses.
    """
    rasterio = optional("rasterio", "clouds")
    _check_beside(path)
    try:
        with rasterio.Env(**OFFLINE), rasterio.open(path.absolute(), driver="GTiff") as source:
            yield source
    except rasterio.errors.RasterioError as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read as a scene, a GeoTIFF is wanted: {said}") from None


def _check_beside(path: Path) -> None:
    """A mask or overviews beside a scene, which GDAL would open with any driver, are GeoTIFFs too."""
    for ending in (".msk", ".MSK", ".ovr", ".OVR"):
        other = Path(f"{path}{ending}")
        if not other.is_file():
            continue
        with open(other, "rb") as file:
            begins = file.read(4)
        if begins not in TIFF:
            raise ValueError(f"{other} cannot be read as a part of its scene, a GeoTIFF is wanted; remove it?")


def read_scenes(
    paths: Sequence[Path], *, masks: str | os.PathLike[str] | None = None, rgb: Sequence[int] | None = None
) -> Scenes:
    """All scenes in memory, once they are known to lie on the same grid."""
    paths = tuple(paths)
    with _opened(paths[0]) as first:
        shape, dtype, nodata = (len(paths), first.count, first.height, first.width), first.dtypes[0], first.nodata
        shown = _shown_bands(first, rgb)
    for path in paths:
        _check_grid(path, paths[0])
    if np.dtype(dtype).kind not in "iuf":
        raise ValueError(f"{paths[0]} holds {dtype}; integers or floats are wanted")
    data, seen = np.empty(shape, dtype), np.empty((shape[0], *shape[2:]), bool)
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
        }
        for name, (here, there) in facts.items():
            if here != there:
                here, there = (", ".join(sorted(x)) if isinstance(x, set) else x for x in (here, there))
                raise ValueError(f"{path} has another {name} than {first.name}: {here}, not {there}")
        if len(set(one.dtypes)) > 1:
            raise ValueError(f"{path} has bands of different types: {', '.join(one.dtypes)}; one type is wanted")
        if not one.transform.almost_equals(other.transform, 1e-6 * abs(other.transform.a)):
            raise ValueError(f"{path} lies elsewhere than {first.name}: another transform; warp them to one grid first")


def _masked(folder: Path, path: Path, shape: tuple[int, ...]) -> Array:
    for name in (f"{path.stem}_mask.tif", path.name):
        if (folder / name).is_file():
            with _opened(folder / name) as source:
                if source.shape != shape:
                    raise ValueError(f"{folder / name} has {source.shape} pixels, its scene {shape}")
                return np.asarray(source.read(1) != 0)
    raise ValueError(f"{folder}: there is no mask {path.name} or {path.stem}_mask.tif")


def dates_of(paths: Sequence[Path]) -> Array | None:
    """The dates in the names, such as 2021-06-30 or 20210630; None if not every name has one."""
    found = []
    for path in paths:
        match = re.search(r"(?<!\d)((?:19|20)\d\d)[-_]?(0[1-9]|1[0-2])[-_]?(0[1-9]|[12]\d|3[01])(?!\d)", path.stem)
        if match is None:
            return None
        try:
            found.append(np.datetime64("-".join(match.groups()), "D"))
        except ValueError:  # the 31st of February
            return None
    return np.array(found)


def _shown_bands(source: Any, asked: Sequence[int] | None) -> tuple[int, ...]:
    if asked is not None:
        return _checked_rgb(asked, source.count)
    described = [str(name).lower() for name in source.descriptions]
    meanings = [NAMES.get(name, one.name) for name, one in zip(described, source.colorinterp)]
    if all(colour in meanings for colour in ("red", "green", "blue")):
        return tuple(meanings.index(colour) for colour in ("red", "green", "blue"))
    return (2, 1, 0) if source.count >= 3 else (0,)


def _checked_rgb(asked: Sequence[int], count: int) -> tuple[int, ...]:
    if len(asked) not in (1, 3) or not all(1 <= b <= count for b in asked):
        raise ValueError(f"bands {', '.join(map(str, asked))} to show; one or three of 1 to {count} are wanted")
    return tuple(b - 1 for b in asked)


# ---- writing


def write_scene(folder: Path, path: Path, scene: Array, mask: Array) -> None:
    """A scene and its mask with everything that the file had beside its numbers."""
    rasterio = optional("rasterio", "clouds")
    with _opened(path) as source:
        profile = {**source.profile, "driver": "GTiff"}
        if str(profile.get("compress", "")).lower().startswith(LOSSY):
            profile |= {"compress": "deflate", "photometric": "minisblack"}
        large = scene.nbytes + mask.nbytes > 3 << 30
        with rasterio.open(folder / f"{path.stem}.tif", "w", **profile, **({"bigtiff": "yes"} if large else {})) as out:
            out.write(scene)
            _copy_tags(source, out)
        keep = ("crs", "transform", "width", "height")
        about = {name: profile[name] for name in keep} | {"driver": "GTiff", "count": 1, "dtype": "uint8"}
        with rasterio.open(folder / f"{path.stem}_mask.tif", "w", **about, compress="deflate") as out:
            out.write(mask, 1)
            out.set_band_description(1, "cloud mask")
            out.update_tags(MEANING=MEANING)


def _copy_tags(source: Any, out: Any) -> None:
    out.scales, out.offsets = source.scales, source.offsets
    out.colorinterp = source.colorinterp
    for b, (name, unit) in enumerate(zip(source.descriptions, source.units), 1):
        if name is not None:
            out.set_band_description(b, name)
        if unit:
            out.set_band_unit(b, unit)
        tags = {key: value for key, value in source.tags(b).items() if not key.startswith("STATISTICS_")}
        out.update_tags(b, **tags)
    out.update_tags(**{key: value for key, value in source.tags().items() if key != "AREA_OR_POINT"})
    if "AREA_OR_POINT" in source.tags():
        out.update_tags(AREA_OR_POINT=source.tags()["AREA_OR_POINT"])
    if source.tags(ns="RPC"):
        out.update_tags(ns="RPC", **source.tags(ns="RPC"))


# ---- showing


class Pictures:
    """Scenes as pictures of at most 700 pixels, from the 1st to the 99th percentile of the ground."""

    def __init__(self, scenes: Scenes, cleared: Cleared) -> None:
        self.scenes, self.cleared = scenes, cleared
        height, width = scenes.data.shape[2:]
        self.step = -(-max(height, width) // QUICK_LOOK)
        some = evenly(len(scenes.data), 20)
        ground = np.stack([self._bands(cleared.scenes, k) for k in some]).astype(np.float64)
        self.low, self.high = (np.nanpercentile(ground, q, axis=(0, 1, 2)) for q in (1, 99))

    def _bands(self, stack: Array, k: int) -> Array:
        return np.moveaxis(stack[k][list(self.scenes.rgb)][:, :: self.step, :: self.step], 0, -1)

    def _picture(self, stack: Array, k: int) -> Array:
        spread = np.where(self.high > self.low, self.high - self.low, 1.0)
        return np.clip((self._bands(stack, k) - self.low) / spread, 0, 1).astype(np.float32)

    def before(self, k: int) -> Array:
        """As it was; NaN where nothing was observed."""
        hidden = self.mask(k) == MISSING
        return np.where(hidden[..., None], np.float32(np.nan), self._picture(self.scenes.data, k))

    def after(self, k: int) -> Array:
        """Without clouds."""
        return self._picture(self.cleared.scenes, k)

    def mask(self, k: int) -> Array:
        """As in the file."""
        return self.cleared.mask[k, :: self.step, :: self.step]

    def shown_mask(self, k: int) -> Array:
        """White: cloud; dark: nothing was observed; black: clear."""
        return np.where(self.mask(k) == MISSING, np.nan, self.mask(k) == CLOUD).astype(np.float32)

    def write(self, folder: Path) -> None:
        """A PNG for each scene: as it was, and without clouds."""
        from ...report.images import as_bytes

        pillow = optional("PIL.Image", "clouds")
        folder.mkdir()
        for k, path in enumerate(self.scenes.paths):
            pair = [as_bytes(x if x.shape[2] == 3 else np.repeat(x, 3, 2)) for x in (self.before(k), self.after(k))]
            gap = np.full((len(pair[0]), 6, 3), 255, np.uint8)
            pillow.fromarray(np.hstack([pair[0], gap, pair[1]])).save(folder / f"{path.stem}.png")


class _Lazy(Sequence[Array]):
    """Pictures that are made when they are looked at."""

    def __init__(self, make: Any, n: int) -> None:
        self.make, self.n = make, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, k: Any) -> Any:
        return self.make(k)


def report_sections(scenes: Scenes, cleared: Cleared, pictures: Pictures) -> list[Any]:
    """What was found, a scene before and after, all scenes, and a table of the dates."""
    T, ground = len(scenes.paths), cleared.ground
    cloud, missing = (np.mean(cleared.mask == kind, axis=(1, 2)) for kind in (CLOUD, MISSING))
    covered = cloud + missing
    order = np.arange(T) if scenes.days is None else np.argsort(scenes.days, kind="stable")
    names = [scenes.paths[k].stem if scenes.days is None else str(scenes.days[k]) for k in range(T)]
    best = int(np.argmax(np.where(covered < 0.9, cloud * (1 - covered), -1)))
    captions = [
        f"{names[k]}: {cloud[k]:.0%} cloud, {missing[k]:.0%} missing{', estimated' if ground.estimated[k] else ''}"
        for k in order
    ]
    layers = {
        "as it was": _Lazy(lambda i: pictures.before(int(order[i])), T),
        "without clouds": _Lazy(lambda i: pictures.after(int(order[i])), T),
        "mask": _Lazy(lambda i: pictures.shown_mask(int(order[i])), T),
    }
    facts = {
        "scenes": T,
        "bands": scenes.data.shape[1],
        "pixels": f"{scenes.data.shape[3]} x {scenes.data.shape[2]}",
        "clouds found": f"{float(cloud.mean()):.1%}",
        "missing": f"{float(missing.mean()):.1%}",
        "rank": ground.rank,
        "dates estimated": int(ground.estimated.sum()),
        "fit": str(cleared.status),
    }
    rows = [
        (
            names[k],
            scenes.paths[k].name,
            100 * cloud[k],
            100 * missing[k],
            "estimated" if ground.estimated[k] else "seen",
        )
        for k in order
    ]
    about = (
        "Pixels that look clear were kept as they were; clouds, shadows, haze and snow that do not last, and what was"
        " missing, were replaced by what the other dates say about that place and this date.",
        "A date that shows no ground is estimated from the dates around it: its pixels are a guess at the season.",
    )
    return [
        Facts("Found", facts),
        *cleared.outcome.sections(),
        BeforeAfter(
            "With and without clouds",
            pictures.before(best),
            pictures.after(best),
            captions[int(np.flatnonzero(order == best)[0])],
        ),
        Frames(
            "All dates", layers, captions, "Dark: nothing was observed. White in the mask: cloud or shadow.", rate=3
        ),
        Table("Dates", ("date", "file", "cloud, %", "missing, %", "ground"), rows),
        Words("What was done", about),
    ]


def _subtitle(scenes: Scenes) -> str:
    if scenes.days is None:
        return f"{len(scenes.paths)} scenes"
    return f"{len(scenes.paths)} scenes from {scenes.days.min()} to {scenes.days.max()}"

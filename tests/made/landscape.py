"""A landscape through the seasons under clouds, made up: for tests, the demo and the benchmark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import zoom

from lrmc._extras import optional
from lrmc.weights import Array

BANDS = ("B02", "B03", "B08")
# reflectances, times 10 000
FIELD, FOREST, WATER = (600, 800, 2200), (250, 450, 3200), (300, 260, 120)
DAYS = 10  # between scenes
NODATA = 0


class Landscape(NamedTuple):
    """A series of scenes, and what it shows."""

    data: Array  # T x bands x height x width, uint16
    ground: Array | None  # the same without clouds; None if it was not asked for
    clouds: Array  # T x height x width: the share of light that is lost to a cloud
    dates: Array  # T, datetime64


def landscape(
    T: int = 24,
    height: int = 96,
    width: int = 96,
    *,
    cover: float = 0.25,
    seed: int = 0,
    keep_ground: bool = True,
) -> Landscape:
    """Forest, fields and water; leaves come and go; clouds with shadows on most dates,
    one date overcast.
    """
    rng = np.random.default_rng(seed)
    height_map = _smooth(rng, height, width, 8)
    wood, wet = _share(height_map, 0.2), _share(-height_map, 0.9)
    dry, leafy = (1 - wet) * (1 - wood), (1 - wet) * wood
    crop = dry * _share(_smooth(rng, height, width, 24), 0.0)
    dates = np.datetime64("2023-01-05") + DAYS * np.arange(T)
    season = np.sin(2 * np.pi * (DAYS * np.arange(T) - 100) / 365)  # high summer: 1
    harvest = np.maximum(0, np.sin(2 * np.pi * (DAYS * np.arange(T) - 150) / 365)) ** 2
    data = np.empty((T, 3, height, width), np.uint16)
    ground = np.empty_like(data) if keep_ground else None
    clouds = np.zeros((T, height, width), np.float32)
    for t in range(T):
        if t % 5:  # every fifth date is clear
            clouds[t] = _share(
                _smooth(rng, height, width, 6), np.sqrt(2) * (0.5 - cover) * 2, 0.15
            )
        if t == T // 2:
            clouds[t] = 0.9
        light = (1 - clouds[t]) * (
            1 - 0.5 * np.roll(clouds[t], (height // 12, width // 12), (0, 1))
        )
        for b in range(3):
            leaf = FOREST[b] * (
                1 + (0.45, 0.3, -0.35)[b] * float(0.5 - 0.5 * season[t])
            )
            reaped = FIELD[b] * (0.2, 0.3, -0.5)[b] * float(harvest[t])
            # all in single precision
            bare = dry * FIELD[b] + reaped * crop + leafy * leaf + wet * WATER[b]
            bare += 12 * rng.standard_normal(bare.shape, np.float32)
            data[t, b] = np.clip(light * bare + clouds[t] * (7000 + 300 * b), 1, 10000)
            if ground is not None:
                ground[t, b] = np.clip(bare, 1, 10000)
    return Landscape(data, ground, clouds, dates)


def _smooth(rng: np.random.Generator, height: int, width: int, cells: int) -> Array:
    """Random hills, of mean 0 and standard deviation 1."""
    coarse = rng.standard_normal((cells + 3, cells + 3)).astype(np.float32)
    fine = zoom(coarse, (height / cells, width / cells), order=1)[:height, :width]
    return (fine - fine.mean()) / fine.std()


def _share(hills: Array, above: float, soft: float = 0.3) -> Array:
    """From 0 to 1, where hills are higher than this."""
    return np.clip((hills - above) / soft, 0, 1).astype(np.float32)


def write_landscape(
    folder: str | os.PathLike[str], scene: Landscape, **profile: Any
) -> list[Path]:
    """GeoTIFFs as an agency would give them out: scaled integers with nodata, names of
    bands, and tags.
    """
    rasterio = optional("rasterio", "clouds")
    folder = Path(folder)
    T, count, height, width = scene.data.shape
    about = {
        "driver": "GTiff",
        "width": width,
        "height": height,
        "count": count,
        "dtype": str(scene.data.dtype),
        "crs": "EPSG:32635",
        "transform": rasterio.Affine(10, 0, 399960, 0, -10, 4900020),
        "nodata": NODATA,
        "compress": "deflate",
    } | profile
    paths = []
    for t in range(T):
        paths.append(folder / f"S2_{str(scene.dates[t]).replace('-', '')}.tif")
        with rasterio.open(paths[-1], "w", **about) as out:
            out.write(scene.data[t])
            out.scales, out.offsets = (1e-4,) * count, (0.0,) * count
            for b, name in enumerate(BANDS[:count], 1):
                out.set_band_description(b, name)
                out.update_tags(b, WAVELENGTH=("490", "560", "842")[b - 1])
            out.update_tags(DATE=str(scene.dates[t]), PLATFORM="made up")
    return paths

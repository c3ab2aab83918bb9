"""A mountain lake, painted: the same view at noon, at sunset and at night."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._scipy import ndimage as ndi
from ..weights import Array

Colour = tuple[float, float, float]  # red, green and blue, from 0 to 1
SHORE = 0.68  # of the height: the lake is below
WINDOWS = (0.16, 0.20, 0.23, 0.86)  # of the village on the shore, in parts of the width
LIT: Colour = (1.0, 0.72, 0.30)  # windows
MOON: Colour = (0.96, 0.95, 0.86)
STARS = 0.006  # fraction of the pixels of the sky
WHITE = 0.9  # of the brightest, so that outliers stand out of it


class Ridge(NamedTuple):
    """Mountains: where their crest is, how much it rises and falls, and their colours."""

    base: float
    relief: float
    by_day: Colour
    by_dusk: Colour
    by_night: Colour


RIDGES = (
    Ridge(
        base=0.58,
        relief=0.26,
        by_day=(0.46, 0.55, 0.66),
        by_dusk=(0.46, 0.24, 0.34),
        by_night=(0.13, 0.18, 0.29),
    ),
    Ridge(
        base=0.76,
        relief=0.13,
        by_day=(0.28, 0.44, 0.42),
        by_dusk=(0.26, 0.13, 0.24),
        by_night=(0.09, 0.13, 0.20),
    ),
    Ridge(
        base=0.91,
        relief=0.06,
        by_day=(0.15, 0.30, 0.18),
        by_dusk=(0.13, 0.07, 0.14),
        by_night=(0.05, 0.08, 0.12),
    ),
)


class Views(NamedTuple):
    """The same view at noon, at sunset, and what shines at night: each height x width x 3."""

    noon: Array
    sunset: Array
    night: Array


def landscape(height: int, width: int, rng: np.random.Generator) -> Views:
    """Sky, mountains and their reflection in the lake."""
    shore = int(SHORE * height)
    views = _sky(shore, width, rng)
    for ridge in RIDGES:
        views = _with_ridge(views, ridge, rng)
    _light_windows(views)
    ripples = (
        (1.5 * _texture(rng, (height - shore, width), 0.5, stretch=6))
        .round()
        .astype(int)
    )
    whole = (_with_lake(picture, height, ripples) for picture in views)
    return Views(*(np.clip(picture, 0, 1) * WHITE for picture in whole))


def _sky(shore: int, width: int, rng: np.random.Generator) -> Views:
    # Down: 0 at the top, 1 at the shore.
    down, right = np.mgrid[0:shore, 0:width] / shore
    aspect = width / shore
    y = down[..., None]
    clouds = np.clip(_texture(rng, (shore, width), 0.5, stretch=4), 0, 2)[..., None]
    noon = _blend(y, (0.16, 0.38, 0.72), (0.66, 0.80, 0.90))
    noon = noon + 0.16 * clouds * (1 - y)
    sunset = _blend(y**1.5, (0.20, 0.12, 0.34), (0.95, 0.48, 0.20))
    sunset = sunset + 0.10 * clouds * np.array([1.0, 0.45, 0.35])
    from_sun = np.hypot(right - 0.60 * aspect, down - 0.55)
    sunset += _glow(from_sun, 0.30) * np.array([0.45, 0.30, 0.10])
    sunset[from_sun < 0.055] = (1.0, 0.90, 0.62)
    night = _blend(y, (0.05, 0.09, 0.22), (0.20, 0.30, 0.46)) + 0.05 * clouds
    from_moon = np.hypot(right - 0.22 * aspect, down - 0.20)
    night += _glow(from_moon, 0.25) * np.array([0.16, 0.20, 0.26])
    for picture in (night, sunset):
        picture[from_moon < 0.06] = MOON
    stars = rng.random((shore, width)) < STARS
    night[stars] += rng.uniform(0.2, 0.6, (np.count_nonzero(stars), 1))
    return Views(noon, sunset, night)


def _glow(away: Array, reach: float) -> Array:
    return np.exp(-((away / reach) ** 2))[..., None]


def _with_ridge(views: Views, ridge: Ridge, rng: np.random.Generator) -> Views:
    shore, width, _ = views.noon.shape
    down = np.arange(shore)[:, None] / shore
    crest = ridge.base + ridge.relief * _skyline(rng, width)
    land = (down > crest)[..., None]
    rock = 1 + 0.18 * _texture(rng, (shore, width), 1.0)[..., None]
    haze = 0.25 * np.clip((down - crest) / 0.35, 0, 1)[..., None]
    noon = np.array(ridge.by_day) * rock + haze * 0.5
    sunset = np.array(ridge.by_dusk) * rock + haze * np.array([0.5, 0.25, 0.2])
    night = np.array(ridge.by_night) * rock + haze * np.array([0.1, 0.14, 0.2])
    near = (noon, sunset, night)
    return Views(*(np.where(land, mountain, far) for mountain, far in zip(near, views)))


def _light_windows(views: Views) -> None:
    """From dusk to dawn, in place."""
    shore, width, _ = views.noon.shape
    i = int(0.955 * shore)
    for place in WINDOWS:
        j = int(place * width)
        for picture in (views.sunset, views.night):
            picture[i : i + 2, j : j + 2] = LIT


def _blend(y: Array, top: tuple[float, ...], bottom: tuple[float, ...]) -> Array:
    return np.asarray((1 - y) * np.array(top) + y * np.array(bottom))


def _texture(
    rng: np.random.Generator,
    shape: tuple[int, int],
    roughness: float,
    stretch: int = 1,
) -> Array:
    """Noise of all sizes, with mean 0 and variance 1."""
    total = np.zeros(shape)
    for size in (1, 2, 4, 8, 16):
        layer = ndi.gaussian_filter(
            rng.standard_normal(shape), (size, size * stretch), mode="wrap"
        )
        total += layer / layer.std() * size ** (1 - roughness)
    return np.asarray((total - total.mean()) / total.std())


def _skyline(rng: np.random.Generator, width: int) -> Array:
    """A crest, between -1 and 1."""
    line = np.zeros(width)
    for size in (2, 5, 12, 30):
        layer = ndi.gaussian_filter1d(rng.standard_normal(width), size, mode="wrap")
        line += layer / np.abs(layer).max() * size
    return np.asarray(line / np.abs(line).max())


def _with_lake(picture: Array, height: int, ripples: Array) -> Array:
    """The picture above its own, rippled reflection."""
    shore, width, _ = picture.shape
    depth = np.arange(height - shore)[:, None]
    rows = np.clip(shore - 1 - depth * 1.3 + ripples, 0, shore - 1).astype(int)
    cols = np.clip(np.arange(width) + ripples, 0, width - 1)
    return np.vstack([picture, picture[rows, cols] * np.array([0.62, 0.70, 0.78])])

"""The colours that the ground of a date has. A field that was mown, ploughed or harvested is not what
the other dates say of it, but it looks like other fields of that day; a cloud looks like no ground.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._scipy import spatial
from ...weights import Array

if TYPE_CHECKING:
    from scipy.spatial import KDTree

NEIGHBORS = 5  # clear pixels that must be near a colour: one may be a cloud itself
USUAL = 0.9  # of the clear pixels have so many nearer than the unit of distances
ENOUGH = 50  # clear pixels that tell the colours of a date
RIDGE = 1e-6  # of the mean variance, so that a covariance can be inverted


class Space(NamedTuple):
    """Where colours are compared: the ground of a date varies alike in all directions."""

    least: float | None  # light, of which logarithms are taken; None: it is no light
    centre: Array  # bands
    whiten: Array  # bands x bands

    @classmethod
    def of(cls, y: Array, least: float) -> Space:
        """By clear pixels, bands x n."""
        light = least if np.all(np.median(y, axis=1) > 0) else None
        values = _scaled(y, light)
        bands = len(y)
        covariance = np.cov(values).reshape(bands, bands)
        covariance += (RIDGE * np.trace(covariance) / bands + 1e-30) * np.eye(bands)
        whiten = np.linalg.inv(np.linalg.cholesky(covariance))
        return cls(light, np.median(values, axis=1), whiten)

    def places(self, y: Array) -> Array:
        """n x bands, of bands x n values."""
        return (_scaled(y, self.least).T - self.centre) @ self.whiten.T


def _scaled(y: Array, least: float | None) -> Array:
    """A shadow and a slope take a share of the light."""
    y = y.astype(np.float64)
    return y if least is None else np.log(np.maximum(y, least))


class Palette(NamedTuple):
    """The colours of the clear pixels of a date."""

    space: Space
    tree: KDTree
    unit: float  # how far most clear pixels are from their neighbors, at most
    near: float = 1.0  # such units, that a familiar colour is away, at most

    @classmethod
    def of(cls, y: Array, least: float) -> Palette:
        """Of clear pixels, bands x n."""
        space = Space.of(y, least)
        places = space.places(y)
        tree = spatial.KDTree(places)
        # The nearest one is the pixel itself.
        apart, _ = tree.query(places, k=[NEIGHBORS + 1])
        return cls(space, tree, float(np.quantile(apart, USUAL)))

    def apart(self, y: Array, most: float) -> Array:
        """n: how far colours, bands x n, are from those of several clear pixels, in units; infinite
        where it is more than `most` of them.
        """
        apart, _ = self.tree.query(
            self.space.places(y), k=[NEIGHBORS], distance_upper_bound=most * self.unit
        )
        return np.asarray(apart[:, 0] / max(self.unit, 1e-300))

    def has(self, y: Array) -> Array:
        """n: whether colours are familiar."""
        return np.isfinite(self.apart(y, self.near))


Palettes = tuple[Palette | None, ...]  # of each date; None where too little is clear


def palettes(Y: Array, clear: Array, least: float) -> Palettes:
    """Of T x bands x lines x width values, where they are clear; `least` is the smallest noise."""
    return tuple(
        Palette.of(y[:, seen], least) if np.count_nonzero(seen) >= ENOUGH else None
        for y, seen in zip(Y, clear)
    )


def familiar(Y: Array, asked: Array, colours: Palettes) -> Array:
    """T x lines x width: which of the pixels that are asked for have a colour of their date."""
    answer = np.zeros(asked.shape, bool)
    for t, palette in enumerate(colours):
        if palette is not None and asked[t].any():
            answer[t, asked[t]] = palette.has(Y[t][:, asked[t]])
    return answer

"""What of the residual is blood: more than noise, more than neighbours share, more than the median
pixel has, and more than speckle that is new in every frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._scipy import ndimage
from ..._work import Outcome
from ...result import Status
from ...weights import Array, Sides
from .motion import spread

BEYOND_NOISE = 2.5  # standard deviations of the noise: less is not called blood
NEAR = 1.0  # pixels: the neighbourhood that tells signal from noise; 0.7 to 1.5 are as good
# pixels: what neighbours have in common, beyond the noise, is tissue that moves. Bubbles are smaller
# and walls larger; 3 costs bubbles, and 6 leaves half of the walls (docs/ultrasound.md).
COMMON = 4.0
# pixels: the side of the surroundings whose median pixel tells what is everywhere. Vessels are
# narrower than half of it; 32 costs some bubbles, 64 is as good.
SURROUNDINGS = 48
GRID = 16  # pixels between the places where the surroundings are looked at
CHANCE = 2.0  # times the power of the median pixel: powers of few frames differ by that
PASSING = 0.05  # of the frames: what is bright for no longer is a bubble that passes, not flicker
# Noise over brightness. Fully developed speckle that is new in every frame (Rayleigh) has 0.45 if
# its dark side tells the noise; with that much, tissue tells nothing about speckle.
ALL_SPECKLE = 0.43
BEYOND_SPECKLE = 2.0  # times as much as beyond noise: speckle has longer tails
STANDS_CLEAR = 0.5  # of the power: with more left when so much is asked, less is enough
MAD = 1.4826  # the standard deviation of normal noise over its median size


@dataclass(frozen=True, eq=False)
class Blood:
    """What was found, and what was not."""

    blood: Array  # (frames, height, width)
    noise: float
    deviation: Array  # (height, width)
    speckle: bool  # whether tissue leaves as much as speckle that is new in every frame

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome, with a word about speckle."""
        if not self.speckle:
            return outcome
        return outcome.warned(
            "the speckle of the tissue is new in every frame, so that blood can hardly be told"
            " from it: what is not far brighter may be missing, or may be speckle; more frames"
            " per second, or IQ data, would tell",
            Status.UNDETERMINED,
        )


def found_blood(
    rest: Array,
    tissue: Array,
    outliers: Sides,
    least: float = 0.0,
) -> Blood:
    """The blood in what tissue leaves of a cine; changes of `least` or less tell nothing."""
    blood, noise = beyond_noise(rest, outliers, least)
    shrunk = _shrunk(blood, rest, outliers, noise, noise)
    speckle = outliers == "positive" and all_speckle(rest, tissue, noise, least)
    if speckle:
        # Where all is dark, there is no dark side, and the median of the bright one is more.
        bright = MAD * float(np.median(rest[rest > least]))
        level = BEYOND_SPECKLE * max(noise, bright)
        clear = np.where(blood > BEYOND_NOISE * level, blood, np.float32(0))
        left = _shrunk(clear, rest, outliers, noise, level)
        if _power(left) < STANDS_CLEAR * _power(shrunk):
            blood, shrunk = clear, left
    return Blood(shrunk, noise, deviation_without(blood, rest), speckle)


def _shrunk(
    blood: Array,
    rest: Array,
    outliers: Sides,
    noise: float,
    level: float,
) -> Array:
    """By neighbours and surroundings; `level` is the noise that blood must be beyond."""
    shared = shared_by_neighbours(blood, noise)
    blood = blood * wiener_gain(rest, outliers, level, shared)
    return np.asarray(blood * beyond_surroundings(blood))


def _power(blood: Array) -> float:
    return float(np.nansum(np.square(blood), dtype=np.float64))


def all_speckle(rest: Array, tissue: Array, noise: float, least: float) -> bool:
    """Whether noise is as large, beside the tissue's brightness, as speckle makes it."""
    lively = np.abs(rest) > least
    if not lively.any():
        return False
    return noise > ALL_SPECKLE * float(np.mean(tissue[lively]))


def beyond_surroundings(blood: Array) -> Array:
    """How much of a pixel's power over time the median pixel around it does not have: 0 to 1,
    (height, width). Blood flows in vessels; what flickers everywhere is speckle.
    """
    squares = np.nan_to_num(np.square(blood))
    brightest = max(round(PASSING * len(blood)), 1)
    longer = np.partition(squares, -brightest, axis=0)[:-brightest]
    power, lasting = (
        ndimage.gaussian_filter(each.mean(axis=0), NEAR, mode="nearest")
        for each in (squares, longer)
    )
    usual = CHANCE * _median_around(lasting)
    tiny = np.finfo(np.float32).tiny
    return np.asarray(np.maximum(power - usual, 0) / np.maximum(power, tiny))


def _median_around(power: Array) -> Array:
    """The median of the surroundings of each pixel, from a grid."""
    rows, columns = (_windows(n) for n in power.shape)
    medians = [[np.median(power[down, across]) for across in columns] for down in rows]
    y, x = (np.arange(n, dtype=np.float32) for n in power.shape)
    return spread(np.asarray(medians, np.float32), GRID, y, x)


def _windows(length: int) -> list[slice]:
    """Surroundings of every block of the grid; at the ends, they are moved inside."""
    last = max(length - SURROUNDINGS, 0)
    middles = range(GRID // 2, length + GRID // 2, GRID)
    begins = [min(max(at - SURROUNDINGS // 2, 0), last) for at in middles]
    return [slice(at, at + SURROUNDINGS) for at in begins]


def beyond_noise(
    residual: Array,
    outliers: Sides,
    least: float = 0.0,
) -> tuple[Array, float]:
    """What of the residual is more than noise, and the standard deviation of that.

    If blood is bright, what lies below the tissue tells the noise; else the median size does.
    Residuals of `least` or less tell nothing: around the picture all is black.
    """
    known = residual[np.abs(residual) > least]  # nor does NaN
    if not len(known):
        return np.zeros_like(residual), 0.0
    if outliers == "positive":
        below = known[known < 0]
        noise = (
            float(np.sqrt(np.mean(below.astype(np.float64) ** 2)))
            if len(below)
            else 0.0
        )
        found = residual > BEYOND_NOISE * noise
    else:
        noise = MAD * float(np.median(np.abs(known)))
        found = np.abs(residual) > BEYOND_NOISE * noise
    return np.where(found, residual, np.float32(0)), noise


def deviation_without(blood: Array, rest: Array) -> Array:
    """The root mean square of what tissue leaves of each pixel in frames without blood: (height,
    width), NaN where there is no such frame.
    """
    free = (blood == 0) & np.isfinite(rest)
    count = np.count_nonzero(free, axis=0)
    square = np.where(free, np.abs(rest) ** 2, np.float32(0)).sum(axis=0)
    known = np.where(count > 0, count, np.float32(np.nan))
    return np.sqrt(square / known).astype(np.float32)


def shared_by_neighbours(blood: Array, noise: float) -> Array:
    """How much of what may be blood all around has too, beyond the noise: walls that moved.

    Twice the mean: at the edge of a wall, half of the neighbours are beside it.
    """
    near = (0, COMMON, COMMON)
    mean = ndimage.gaussian_filter(blood, near, mode="nearest")
    return np.asarray(
        2 * np.maximum(np.abs(mean) - np.float32(BEYOND_NOISE * noise), 0)
    )


def wiener_gain(
    residual: Array,
    outliers: Sides,
    noise: float,
    shared: Array | float = 0.0,
) -> Array:
    """How much of a residual is signal, from the power in its neighbourhood: 0 to 1. A bubble has
    neighbours, a speck of noise has none; what a wide neighbourhood shares is noise of motion.
    """
    known = np.nan_to_num(residual)
    known = np.maximum(known, 0) if outliers == "positive" else known
    power = ndimage.gaussian_filter(known**2, (0, NEAR, NEAR), mode="nearest")
    unwanted = np.float32(noise**2) + np.square(shared, dtype=np.float32)
    signal = np.maximum(power - unwanted, 0)
    tiny = np.finfo(np.float32).tiny
    return np.asarray(signal / np.maximum(signal + unwanted, tiny))

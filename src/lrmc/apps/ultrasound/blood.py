"""What of the residual is blood: more than noise, more than neighbours share, more than the median
pixel has, and more than speckle that is new in every frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ... import _kernels
from ..._scipy import ndimage
from ..._work import Outcome
from ...result import Status
from ...weights import Array, Sides
from .medians import some_frames
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
# of the power of blood, found on the dark side: errors of the tissue have a longer bright side (about
# four times as much power on cines where blood was known), so that half of the blood may be none.
MOST_DARK = 0.125
STANDS_CLEAR = 0.5  # of the power: with more left when so much is asked, less is enough
IN_CACHE = 16  # frames that are shrunk at a time
MAD = 1.4826  # the standard deviation of normal noise over its median size


@dataclass(frozen=True, eq=False)
class Blood:
    """What was found, and what was not."""

    blood: Array  # (frames, height, width)
    noise: float
    deviation: Array  # (height, width)
    speckle: bool  # whether tissue leaves as much as speckle that is new in every frame
    dark: float = 0.0  # the power of what looks like blood, but is darker than tissue, over that of blood

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome, with a word about tissue that may have been taken for blood."""
        if self.speckle:
            return outcome.warned(
                "the speckle of the tissue is new in every frame, so that blood can hardly be told"
                " from it: what is not far brighter may be missing, or may be speckle; more frames"
                " per second, or IQ data, would tell",
                Status.UNDETERMINED,
            )
        if self.dark > MOST_DARK:
            return outcome.warned(
                f"what is darker than the tissue looks like blood, too ({self.dark:.0%} of its"
                " power): much of the blood may be tissue whose motion was not undone, and faint"
                " blood is missing; brighter bubbles, or more frames per second, would tell",
                Status.UNDETERMINED,
            )
        return outcome


def found_blood(
    rest: Array,
    tissue: Array,
    outliers: Sides,
    least: float = 0.0,
) -> Blood:
    """The blood in what tissue leaves of a cine; changes of `least` or less tell nothing."""
    blood, noise = beyond_noise(rest, outliers, least)
    shrunk = _shrunk(blood, rest, outliers, noise, noise)
    dark = _dark_share(shrunk, rest, noise) if outliers == "positive" else 0.0
    speckle = outliers == "positive" and all_speckle(rest, tissue, noise, least)
    if speckle:
        # Where all is dark, there is no dark side, and the median of the bright one is more.
        bright = MAD * float(np.median(rest[rest > least]))
        level = BEYOND_SPECKLE * max(noise, bright)
        clear = np.where(blood > BEYOND_NOISE * level, blood, np.float32(0))
        left = _shrunk(clear, rest, outliers, noise, level)
        if _power(left) < STANDS_CLEAR * _power(shrunk):
            blood, shrunk = clear, left
    return Blood(shrunk, noise, deviation_without(blood, rest), speckle, dark)


def _dark_share(shrunk: Array, rest: Array, noise: float) -> float:
    """Blood is bright, and errors of the tissue are bright or dark: what the same steps find on the
    dark side, over what they found on the bright one. From some frames.
    """
    some = some_frames(len(rest))
    below = -rest[some]
    found = np.where(below > BEYOND_NOISE * noise, below, np.float32(0))
    dark = _power(_shrunk(found, below, "positive", noise, noise))
    bright = _power(shrunk[some])
    return dark / bright if noise and bright else 0.0


def _shrunk(
    blood: Array,
    rest: Array,
    outliers: Sides,
    noise: float,
    level: float,
) -> Array:
    """By neighbours and surroundings; `level` is the noise that blood must be beyond."""
    out = np.empty_like(blood)
    for found, some, to in zip(in_cache(blood), in_cache(rest), in_cache(out)):
        shared = shared_by_neighbours(found, noise)
        np.multiply(found, wiener_gain(some, outliers, level, shared), out=to)
    out *= beyond_surroundings(out)
    return out


def _power(blood: Array) -> float:
    return sum(float(np.vdot(some, some)) for some in in_cache(blood))


def all_speckle(rest: Array, tissue: Array, noise: float, least: float) -> bool:
    """Whether noise is as large, beside the tissue's brightness, as speckle makes it."""
    count, total = 0, 0.0
    for some, below in zip(in_cache(rest), in_cache(tissue)):
        lively = np.abs(some) > least
        count += int(np.count_nonzero(lively))
        total += float(np.vdot(below, lively.astype(np.float32)))
    return count > 0 and noise * count > ALL_SPECKLE * total


def beyond_surroundings(blood: Array) -> Array:
    """How much of a pixel's power over time the median pixel around it does not have: 0 to 1,
    (height, width). Blood flows in vessels; what flickers everywhere is speckle.
    """
    squares = np.square(blood)
    brightest = max(round(PASSING * len(blood)), 1)
    lasting = np.zeros(blood.shape[1:], np.float32)
    often = np.count_nonzero(squares, axis=0) > brightest  # elsewhere nothing is left
    longer = np.partition(squares[:, often].T, -brightest, axis=1)[:, :-brightest]
    lasting[often] = longer.mean(axis=1)
    power, lasting = (
        ndimage.gaussian_filter(each, NEAR, mode="nearest")
        for each in (squares.mean(axis=0), lasting)
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
    if outliers == "positive":
        noise = _below(residual, least)
        found = residual > max(BEYOND_NOISE * noise, 0.0 if noise else least)
    else:
        known = np.abs(residual[np.abs(residual) > least])  # nor does NaN
        noise = MAD * float(np.median(known)) if len(known) else 0.0
        found = np.abs(residual) > max(BEYOND_NOISE * noise, 0.0 if noise else least)
    return np.where(found, residual, np.float32(0)), noise


def _below(residual: Array, least: float) -> float:
    """The root mean square of what lies below by more than `least`; 0 if nothing does."""
    count, square = 0, 0.0
    for some in in_cache(residual):
        dark = some < -least
        below = np.where(dark, some, np.float32(0)).ravel()
        count += int(np.count_nonzero(dark))
        square += float(np.dot(below, below))
    return (square / count) ** 0.5 if count else 0.0


def in_cache(frames: Array) -> Iterator[Array]:
    """A few frames at a time: what is done with them in several steps stays near."""
    for first in range(0, len(frames), IN_CACHE):
        yield frames[first : first + IN_CACHE]


def deviation_without(blood: Array, rest: Array) -> Array:
    """The root mean square of what tissue leaves of each pixel in frames without blood: (height,
    width), NaN where there is no such frame.
    """
    count = np.zeros(rest.shape[1:], np.float32)
    square = np.zeros(rest.shape[1:], np.float32)
    for found, some in zip(in_cache(blood), in_cache(rest)):
        free = (found == 0) & np.isfinite(some)
        count += np.count_nonzero(free, axis=0)
        size = np.where(free, np.abs(some), np.float32(0))
        square += np.einsum("tij,tij->ij", size, size)
    count[count == 0] = np.nan
    return np.sqrt(square / count)


def shared_by_neighbours(blood: Array, noise: float) -> Array:
    """How much of what may be blood all around has too, beyond the noise: walls that moved.

    Twice the mean: at the edge of a wall, half of the neighbours are beside it.
    """
    mean = smoothed(blood, COMMON)
    np.abs(mean, out=mean)
    mean -= np.float32(BEYOND_NOISE * noise)
    np.maximum(mean, 0, out=mean)
    mean *= 2
    return mean


def wiener_gain(
    residual: Array,
    outliers: Sides,
    noise: float,
    shared: Array | float = 0.0,
) -> Array:
    """How much of a residual is signal, from the power in its neighbourhood: 0 to 1. A bubble has
    neighbours, a speck of noise has none; what a wide neighbourhood shares is noise of motion.
    """
    known = np.where(np.isnan(residual), np.float32(0), residual)
    if outliers == "positive":
        np.maximum(known, 0, out=known)
    known *= known
    power = smoothed(known, NEAR)
    unwanted = np.square(shared, dtype=np.float32) + np.float32(noise**2)
    power -= unwanted
    np.maximum(power, 0, out=power)
    unwanted += power
    power /= np.maximum(unwanted, np.finfo(np.float32).tiny)
    return power


def smoothed(pictures: Array, deviation: float) -> Array:
    """Each picture, (n, height, width), times a Gaussian; it goes on beyond its edges."""
    out = np.empty(pictures.shape, np.float32)
    window = _gaussian(deviation)
    threads = _kernels.threads_for(4 * len(window) * out.size, _kernels.max_threads())
    ready = _kernels.ready(pictures, np.float32)
    _kernels.windowed(ready, window, out=out, threads=threads)
    return out


@lru_cache(maxsize=4)
def _gaussian(deviation: float) -> Array:
    """To four standard deviations, as SciPy has it."""
    reach = round(4 * deviation)
    window = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    return np.asarray(window / window.sum(), np.float32)

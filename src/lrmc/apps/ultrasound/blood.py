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
from .medians import dark_frame, some_frames
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
# times as far above the tissue as medians say: tails of errors are longer (docs/ultrasound.md)
TAILS = 1.4
MOST_ERRORS = 0.55  # of the power of blood: with more, most of it may be none
# pixels: where errors of the tissue are looked for, around each; 1 to 4 are as good
AROUND = 2.0
NEAR_LIT = 1.5  # pixels: neighbours that are lit together
DARKEST = 0.05  # of the frames of a pixel: they show the tissue, if bubbles light it up
BY_CHANCE = 2.0  # standard deviations by which they may lie lower, too
GREYS = 16  # kinds of brightness that have a noise of their own
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
    errors: float = 0.0  # the power that errors of the tissue may have, over blood's

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome, with a word about tissue that may have been taken for blood."""
        if self.speckle:
            return outcome.warned(
                "the speckle of the tissue is new in every frame, so that blood can hardly be told"
                " from it: what is not far brighter may be missing, or may be speckle; more frames"
                " per second, or IQ data, would tell",
                Status.UNDETERMINED,
            )
        if self.errors > MOST_ERRORS:
            so = "it is shown faintly" if self.blood.any() else "none of it is shown"
            return outcome.warned(
                "what is darker than the tissue looks like blood, too: half of the blood or more may"
                f" be tissue whose motion was not undone, so that {so}; brighter bubbles, or more"
                " frames per second, would tell",
                Status.UNDETERMINED,
            )
        return outcome


def found_blood(
    rest: Array,
    tissue: Array,
    outliers: Sides,
    least: float = 0.0,
    lit: Array | float = 0.0,
) -> Blood:
    """The blood in what tissue leaves of a cine; changes of `least` or less tell nothing. By `lit`,
    (height, width), the tissue was darkened after its fit.
    """
    levels = Levels.of(rest, tissue, outliers, least)
    noise, beyond = levels.noise, levels.beyond
    blood = shrunk(rest, outliers, beyond, noise, noise)
    speckle = outliers == "positive" and levels.all_speckle
    errors = 0.0
    if speckle:
        # Where all is dark, there is no dark side, and the median of the bright one is more.
        bright = MAD * float(np.median(rest[rest > least]))
        level = BEYOND_SPECKLE * max(noise, bright)
        clear = max(beyond, BEYOND_NOISE * level)
        left = shrunk(rest, outliers, clear, noise, level)
        if _power(left) < STANDS_CLEAR * _power(blood):
            beyond, blood = clear, left
    elif outliers == "positive" and noise:
        errors = _without_errors(blood, rest, lit, beyond, noise, least)
    size = rest if outliers == "positive" else np.abs(rest)
    return Blood(blood, noise, deviation_without(size > beyond, rest), speckle, errors)


def _without_errors(
    blood: Array,
    rest: Array,
    lit: Array | float,
    beyond: float,
    noise: float,
    least: float,
) -> float:
    """Blood is bright, and errors of the tissue are bright or dark: what the same steps find on the
    dark side, in some frames, tells how much of each pixel's power is none. Blood is shrunk by that,
    in place, and all of it by the share that is given, if that is too much.
    """
    chosen = some_frames(len(rest))
    some, before = rest[chosen], _power(blood[chosen])
    # Of the fit as it was: what made it darker hides its errors.
    own = some - lit
    stretched = lopsided(own[:, ::2, ::2], least)
    dark = by_neighbours(some, "positive", beyond, noise, noise, sign=-stretched)
    blood *= _beyond(_mean_square(blood), _mean_square(dark))
    far = shrunk(own, "positive", beyond, noise, noise, sign=-TAILS * stretched)
    share = _power(far) / before if before else 0.0
    if share > MOST_ERRORS:
        blood *= np.float32(max(1 - share, 0))
    return share


def lopsided(rest: Array, least: float) -> float:
    """How much farther above the tissue residuals lie than below, by their medians: at least 1. The
    fit keeps to the dark side, and speckle is uneven.
    """
    above, below = (x[x > least] for x in (rest, -rest))
    if not (len(above) and len(below)):
        return 1.0
    return max(float(np.median(above) / np.median(below)), 1.0)


def _mean_square(blood: Array) -> Array:
    """Over time, of the surroundings of each pixel: (height, width)."""
    mean = np.einsum("tij,tij->ij", blood, blood) / np.float32(len(blood))
    return np.asarray(ndimage.gaussian_filter(mean, AROUND, mode="nearest"))


def _beyond(power: Array, unwanted: Array) -> Array:
    """How much of the power is more: 0 to 1."""
    tiny = np.finfo(np.float32).tiny
    return np.asarray(np.maximum(power - unwanted, 0) / np.maximum(power, tiny))


def too_bright(rest: Array, tissue: Array, least: float) -> Array:
    """By how much the tissue of each pixel is too bright, (height, width): what bubbles light up for
    most of the time looks like tissue, until they are away. So the darkest frames of a pixel lie
    farther below than noise has them in pixels as bright; what its neighbours do not confirm, and
    what chance has, is left.
    """
    lowest = -dark_frame(rest, DARKEST)
    lively = lowest > least
    if np.count_nonzero(lively) < GREYS**2:
        return np.zeros(lowest.shape, np.float32)
    brightness = tissue.mean(axis=0)
    usual = _usual(lowest[lively], brightness[lively])
    excess = np.zeros(lowest.shape, np.float32)
    excess[lively] = lowest[lively] - usual
    excess = ndimage.gaussian_filter(excess, NEAR_LIT, mode="nearest")
    excess -= BY_CHANCE * MAD * np.median(np.abs(excess[lively]))
    return np.clip(excess, 0, np.maximum(lowest, 0))


def _usual(lowest: Array, brightness: Array) -> Array:
    """The median of pixels that are about as bright."""
    order = np.argsort(brightness)
    parts = np.array_split(order, GREYS)
    middles = [np.median(brightness[part]) for part in parts]
    return np.interp(brightness, middles, [np.median(lowest[part]) for part in parts])


def shrunk(
    rest: Array,
    outliers: Sides,
    beyond: float,
    noise: float,
    level: float,
    *,
    sign: float = 1.0,
) -> Array:
    """What is more than `beyond`, by neighbours and surroundings; `level` is the noise that blood
    must be beyond. Of -1 times the residual, say, with that sign.
    """
    blood = by_neighbours(rest, outliers, beyond, noise, level, sign=sign)
    blood *= beyond_surroundings(blood)
    return blood


def by_neighbours(
    rest: Array,
    outliers: Sides,
    beyond: float,
    noise: float,
    level: float,
    *,
    sign: float = 1.0,
) -> Array:
    """Residuals beyond a threshold, times how much of each is signal by the power in its
    neighbourhood: a bubble has neighbours, a speck of noise has none. What a wide neighbourhood
    shares, beyond the noise, is a wall that moved, and counts as noise.
    """
    out = np.empty(rest.shape, np.float32)
    near, common = (_gaussian(x) for x in (NEAR, COMMON))
    _kernels.shrink(
        _kernels.ready(rest, np.float32),
        near,
        common,
        both=outliers == "both",
        sign=sign,
        beyond=beyond,
        allowed=BEYOND_NOISE * noise,
        level=level,
        out=out,
        threads=_threads(4 * len(common) * out.size),
    )
    return out


def _power(blood: Array) -> float:
    return sum(float(np.vdot(some, some)) for some in in_cache(blood))


@dataclass(frozen=True)
class Levels:
    """What residuals tell of their noise."""

    noise: float
    beyond: float  # less is not called blood
    all_speckle: (
        bool  # noise is as large, beside the tissue's brightness, as speckle makes it
    )

    @classmethod
    def of(
        cls,
        rest: Array,
        tissue: Array,
        outliers: Sides,
        least: float = 0.0,
    ) -> Levels:
        """If blood is bright, what lies below the tissue tells the noise; else the median size does.
        Residuals of `least` or less tell nothing: around the picture all is black.
        """
        report = np.empty((len(rest), 4))
        _kernels.noise_levels(
            _kernels.ready(rest, np.float32),
            _kernels.ready(tissue, np.float32),
            least=least,
            report=report,
            threads=_threads(rest.size),
        )
        dark, square, lively, bright = report.sum(axis=0).tolist()
        if outliers == "positive":
            noise = (square / dark) ** 0.5 if dark else 0.0
        else:
            known = np.abs(rest[np.abs(rest) > least])  # nor does NaN
            noise = MAD * float(np.median(known)) if len(known) else 0.0
        beyond = max(BEYOND_NOISE * noise, 0.0 if noise else least)
        return cls(noise, beyond, lively > 0 and noise * lively > ALL_SPECKLE * bright)


def beyond_surroundings(blood: Array) -> Array:
    """How much of a pixel's power over time the median pixel around it does not have: 0 to 1,
    (height, width). Blood flows in vessels; what flickers everywhere is speckle.
    """
    power, lasting = (np.empty(blood.shape[1:], np.float32) for _ in range(2))
    _kernels.lasting(
        blood,
        brightest=max(round(PASSING * len(blood)), 1),
        power=power,
        lasting=lasting,
        threads=_threads(4 * blood.size),
    )
    power, lasting = (
        ndimage.gaussian_filter(each, NEAR, mode="nearest") for each in (power, lasting)
    )
    return _beyond(power, CHANCE * _median_around(lasting))


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


def in_cache(frames: Array) -> Iterator[Array]:
    """A few frames at a time: what is done with them in several steps stays near."""
    for first in range(0, len(frames), IN_CACHE):
        yield frames[first : first + IN_CACHE]


def deviation_without(found: Array, rest: Array) -> Array:
    """The root mean square of what tissue leaves of each pixel in frames where nothing was found:
    (height, width), NaN where there is no such frame.
    """
    count = np.zeros(rest.shape[1:], np.float32)
    square = np.zeros(rest.shape[1:], np.float32)
    for blood, some in zip(in_cache(found), in_cache(rest)):
        free = ~blood & np.isfinite(some)
        count += np.count_nonzero(free, axis=0)
        size = np.where(free, np.abs(some), np.float32(0))
        square += np.einsum("tij,tij->ij", size, size)
    count[count == 0] = np.nan
    return np.sqrt(square / count)


def _threads(work: int) -> int:
    return _kernels.threads_for(work, _kernels.max_threads())


@lru_cache(maxsize=4)
def _gaussian(deviation: float) -> Array:
    """To four standard deviations, as SciPy has it."""
    reach = round(4 * deviation)
    window = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    return np.asarray(window / window.sum(), np.float32)

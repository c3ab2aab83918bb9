"""Blood of complex (IQ) cines beside tissue whose directions of slow time are known: a Wiener filter
with the Doppler spectrum of each pixel's neighbourhood.

Tissue's directions hold blood, too: as much as its spectrum, told by what lies outside of them, has
there. Where tissue has hardly more than that around a pixel, what is seen in them is mostly blood.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ..._scipy import fft
from ...weights import Array

WORKERS = 2  # threads of Fourier transforms
SOME = 4096  # pixels at a time: their systems take rank^2 numbers each
IN_CACHE = 1 << 16  # values that are smoothed at a time
TINY = float(np.finfo(np.float32).tiny)
ROUNDED = float(np.finfo(np.float32).eps) ** 2  # of the power: cines may be exact
# A spectrum is averaged over neighbours within about so many pixels, and so many bins.
NEAR, NEAR_IN_SPECTRUM = 1.5, 2.0
# Tissue's power in a direction, over so many: 3 and 6 give errors within 1 % of each other.
NEAR_IN_TISSUE = 4.0
# of a direction's power, whatever blood has of it: 0.01 and 0.2 differ by 1 %
LEAST_TISSUE = 0.05
# of a frequency, outside of tissue's directions: with less, its power is not told from what is left
LEAST_OUTSIDE = 0.05
CERTAIN = (
    5.0  # deviations of the power of pixels without blood: less is not called blood
)


class Seen(NamedTuple):
    """What a window of frames has: (frames, pixels); and what its tissue does."""

    values: Array
    basis: Array  # of the tissue: frames x rank, orthonormal
    noise: float  # the mean of |n|^2


def squared(values: Array) -> Array:
    """|z|^2, four times as fast as by numpy.abs, which takes care of overflow."""
    return values.real**2 + values.imag**2


def tissue_and_blood(seen: Seen, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Both, frames x pixels of pictures of this shape; blood is 0 where its power is not beyond
    chance.
    """
    inside = seen.basis.conj().T @ seen.values
    tissue = seen.basis @ inside
    spectrum, found = _spectrum(seen.values - tissue, seen, shape)
    power = _among_neighbours(squared(inside), shape, NEAR_IN_TISSUE)
    blood = np.zeros_like(tissue)
    pixels = np.flatnonzero(found)
    for start in range(0, len(pixels), SOME):
        some = pixels[start : start + SOME]
        here = seen._replace(values=seen.values[:, some])
        tissue[:, some], blood[:, some] = _filtered(
            here, spectrum[:, some], power[:, some]
        )
    return tissue, blood


def _spectrum(rest: Array, seen: Seen, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Of blood, from what tissue leaves: its power at each frequency, frames x pixels, as if tissue
    had left all of it; and which pixels have blood.
    """
    power = _among_neighbours(squared(_transformed(rest)), shape, NEAR)
    power = _along_frequencies(power)
    found = _has_blood(power.mean(axis=0))
    left = 1 - squared(_transformed(seen.basis)).sum(axis=1)
    outside = np.maximum(_along_frequencies(left[:, None]), LEAST_OUTSIDE)
    # Noise, averaged over so many entries, is above its mean by chance: that is no blood.
    averaged = 8 * np.pi**1.5 * NEAR**2 * NEAR_IN_SPECTRUM
    noise = np.float32(seen.noise * (1 + averaged**-0.5))
    return np.maximum(power / outside - noise, 0), found


def _filtered(seen: Seen, spectrum: Array, power: Array) -> tuple[Array, Array]:
    """Tissue and blood of some pixels: the mean of both, given what is seen, if blood has this
    spectrum and all together this power in tissue's directions (rank x pixels).
    """
    values = _transformed(seen.values)
    basis = _transformed(seen.basis)
    rank = basis.shape[1]
    least = ROUNDED * float(squared(seen.values).mean()) + TINY
    # the power of all that is not tissue
    others = spectrum + np.float32(max(seen.noise, least))
    theirs = squared(basis).T @ others
    prior = np.maximum(power - theirs, np.maximum(LEAST_TISSUE * power, TINY))
    pairs = basis.conj()[:, :, None] * basis[:, None, :]
    grams = ((1 / others).T @ pairs.reshape(len(basis), -1)).reshape(-1, rank, rank)
    grams[:, range(rank), range(rank)] += 1 / prior.T
    sums = basis.conj().T @ (values / others)
    scores = np.linalg.solve(grams, sums.T[..., None])[..., 0].T
    blood = (values - basis @ scores) * (spectrum / others)
    return seen.basis @ scores, fft.ifft(blood, axis=0, norm="ortho", workers=WORKERS)


def _transformed(values: Array) -> Array:
    return fft.fft(values, axis=0, norm="ortho", workers=WORKERS)


def _along_frequencies(power: Array) -> Array:
    """Means of neighbouring bins, frequencies x pixels."""
    out = np.empty_like(power)
    step = max(1, IN_CACHE // len(power))
    for start in range(0, power.shape[1], step):
        some = slice(start, start + step)
        out[:, some] = _smooth(power[:, some], NEAR_IN_SPECTRUM, 0, "wrap")
    return out


def _among_neighbours(
    power: Array,
    shape: tuple[int, ...],
    near: float,
) -> Array:
    """Means of neighbouring pixels of pictures of this shape, pictures x pixels."""
    out = np.empty_like(power)
    step = max(1, IN_CACHE // power.shape[1])
    for start in range(0, len(power), step):
        some = slice(start, start + step)
        pictures = power[some].reshape(-1, *shape)
        for axis in (1, 2):
            pictures = _smooth(pictures, near, axis, "edge")
        out[some] = pictures.reshape(-1, power.shape[1])
    return out


def _smooth(
    values: Array,
    deviation: float,
    axis: int,
    beyond: Literal["edge", "wrap"],
) -> Array:
    """As scipy.ndimage.gaussian_filter1d, in a seventh of its time: neighbours are whole rows."""
    reach = round(4 * deviation)
    far = np.arange(reach + 1) / deviation
    weights = np.exp(-0.5 * far**2)
    weights /= 2 * weights.sum() - 1
    weights = weights.astype(values.dtype)
    room = [(0, 0)] * values.ndim
    room[axis] = (reach, reach)
    padded = np.pad(values, room, beyond)
    rows = np.moveaxis(padded, axis, 0)
    count = values.shape[axis]
    total = weights[0] * rows[reach : reach + count]
    for k in range(1, reach + 1):
        before = rows[reach - k :][:count]
        after = rows[reach + k :][:count]
        total += weights[k] * (before + after)
    return np.moveaxis(total, 0, axis)


def _has_blood(power: Array) -> Array:
    """Pixels whose power is beyond that of pixels without blood, which the weaker half tells."""
    level = np.log(np.maximum(power, TINY))
    middle = float(np.median(level))
    below = level[level < middle] - middle
    deviation = float(np.sqrt(np.mean(below**2))) if len(below) else 0.0
    return level > middle + CERTAIN * deviation


def doppler(blood: Array) -> Array:
    """The mean Doppler frequency of each pixel in cycles per frame, -0.5 to 0.5 (Kasai's lag-one
    autocorrelation); NaN without blood.
    """
    known = np.nan_to_num(blood)
    lag = np.sum(known[1:] * known[:-1].conj(), axis=0)
    return np.where(lag == 0, np.nan, np.angle(lag) / (2 * np.pi)).astype(np.float32)

"""Traits of a background, learned from the frames that it was learned from: what sways, how colours
belong together, which ratios of brightness are shadows, and how sure the background is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ... import _kernels
from ...weights import Array
from .events import SMALLEST
from .foreground import Traits, cleaned, distance
from .medians import of_bytes
from .shadows import PARTS as PARTS_OF_SHADOWS
from .shadows import Evidence, with_colours
from .thresholds import quiet_of

LOOKED = 100  # frames that are looked at
PARTS = 20  # of a clip, at most: what sways does so in most of them
KNOWN = 3  # frames without a thing that a part needs
FEWEST = 6 * KNOWN  # frames
LARGE = 10 * SMALLEST  # of the pixels of a frame: what hangs together so far is a thing
ROOM = 5  # pixels around a thing that are left out, too
BEYOND = 1.25  # times as far as the background goes by itself; 1 and 1.5 are as good
DISTINCT = (
    2.0  # times: how much more differences of colours count than of brightness, at most
)
BEYOND_CHANCE = 3.0  # standard errors
ROUNDING = np.float32(1 / 12)  # the variance that bytes have at least
THIN = 5  # every which pixel tells how colours belong together

Picture = Callable[[int], Array]  # the background of a frame


def noise_of(
    frames: Array,
    picture: Picture,
    threshold: float,
    noise: float,
) -> Traits:
    """What frames and their backgrounds show of the noise."""
    noise = max(noise, 1.0)  # bytes are not finer
    if len(frames) < FEWEST:
        return Traits(noise)
    off = [frames[k] - picture(k) for k in looked_at(len(frames))[::THIN]]
    colours = _colours(off, threshold) if frames.ndim == 4 else None
    return Traits(noise, colours=colours, quiet=quiet_of(off, colours))


def traits_of(
    frames: Array,
    picture: Picture,
    threshold: float,
    light: float,
    first: Traits,
    observed: float = 1.0,
) -> tuple[Traits, Array | None]:
    """What frames and their backgrounds show besides, and by how much the background is off; of the
    frames, so much was observed. `light` is that of `foreground.distance`.
    """
    if len(frames) < FEWEST:
        return first, None
    some = looked_at(len(frames))
    parts = min(PARTS, len(some) // KNOWN)
    sways = _Sways(parts, frames.shape[1:3])
    spread = _Spread(frames.shape[1:])
    evidence = Evidence(first.noise)
    for k in some:
        behind = picture(k)
        off = distance(frames[k][None], behind[None], first.colours, light)[0]
        mask = cleaned(off[None] > threshold)[0]
        here = k * parts // len(frames)
        frame, picture_behind = with_colours(frames[k][None], behind[None])
        sums, squares = spread.room()
        _kernels.note(
            frame[0],
            picture_behind[0],
            off,
            mask,
            least=smallest_thing(mask),
            room=ROOM,
            threshold=threshold,
            farthest=sways.farthest[here],
            seen=sways.seen[here],
            sums=sums,
            squares=squares,
            count=spread.count,
        )
        part = k * PARTS_OF_SHADOWS // len(frames)
        evidence.add(part, frames[k], behind, mask & (off > threshold / 2))
    times = observed * len(frames) / len(some)
    deviation, sd, off = spread.found(times)
    found = replace(
        first,
        sways=sways.found(threshold),
        ratios=evidence.ratios(),
        spread=deviation,
        sd=sd,
    )
    return found, off


def looked_at(n: int) -> list[int]:
    """Some of n frames, from all over the clip."""
    return np.unique(np.linspace(0, n - 1, min(n, LOOKED)).astype(int)).tolist()


def _colours(
    off: list[Array],
    threshold: float,
) -> Array:
    """Differences of colours times this matrix have equal noise in all directions, as far as one
    may count more than another, and the noise of one colour.
    """
    rest = np.concatenate([x[::THIN, ::THIN].reshape(-1, 3) for x in off])
    rest = rest[np.abs(rest).max(axis=1) < threshold].astype(np.float64)
    values, vectors = np.linalg.eigh(rest.T @ rest + np.eye(3))
    scale = np.sqrt(values.mean())
    values = np.maximum(values, values[-1] / DISTINCT**2)
    return np.asarray(scale * vectors / np.sqrt(values))


class _Sways:
    """How far pixels go from the background where no thing is, in parts of a clip."""

    def __init__(
        self,
        parts: int,
        shape: tuple[int, ...],
    ) -> None:
        self.farthest = np.zeros((parts, *shape), np.uint8)
        self.seen = np.zeros((parts, *shape), np.uint8)

    def found(
        self,
        threshold: float,
    ) -> Array | None:
        """What is beyond is in front; None if that is the threshold everywhere."""
        known = self.seen >= min(KNOWN, self.seen.max())
        # The median of the parts that are known: unknown ones come first.
        count = known.sum(axis=0)
        parts = len(known)
        middle = np.clip(parts - (count + 1) // 2, 0, parts - 1)
        usual = of_bytes(self.farthest * known, middle=middle)
        far = BEYOND * np.where(4 * count >= parts, usual, 0)
        if not np.any(far > threshold):
            return None
        return np.minimum(far, 255).astype(np.uint8)


class _Spread:
    """How far pixels are from the background where nothing is in front."""

    def __init__(
        self,
        shape: tuple[int, ...],
    ) -> None:
        self.sums = np.zeros(
            (2, *shape), np.float32
        )  # of differences, of their squares
        self.count = np.zeros(shape[:2], np.float32)

    def room(self) -> tuple[Array, Array]:
        """Sums with colours last, as kernels take them."""
        shape = (*self.count.shape, -1)
        return self.sums[0].reshape(shape), self.sums[1].reshape(shape)

    def found(
        self,
        times: float,
    ) -> tuple[Array, Array, Array]:
        """The standard deviation of a pixel; that of the background, learned from so many times
        more frames; and by how much the background is off, where that is beyond chance (a robust
        fit leans to what often is in front).
        """
        known = np.where(self.count > 0, self.count, np.float32(np.nan))
        known = known.reshape(*known.shape, *(1,) * (self.sums.ndim - 3))
        mean, square = self.sums / known
        lean = np.nan_to_num(mean)
        deviation = np.sqrt(np.maximum(square - mean**2, 0) + ROUNDING)
        chance = deviation / np.sqrt(known)
        leans = np.abs(lean) > BEYOND_CHANCE * chance
        sd = np.where(leans, chance, chance / np.sqrt(np.float32(times)))
        return deviation, sd, np.where(leans, lean, np.float32(0))


def smallest_thing(mask: Array) -> int:
    """Pixels that hang together in a thing, at least."""
    return math.ceil(LARGE * mask.size)

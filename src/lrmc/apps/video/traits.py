"""Traits of a background, learned from the frames that it was learned from: what sways, how colours
belong together, which ratios of brightness are shadows, and how sure the background is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._scipy import ndimage as ndi
from ...weights import Array
from .events import SMALLEST
from .foreground import Traits, cleaned, distance
from .shadows import PARTS as PARTS_OF_SHADOWS
from .shadows import Evidence

LOOKED = 100  # frames that are looked at
PARTS = 20  # of a clip: what sways does so in most of them
FEWEST = 3 * PARTS  # frames
LARGE = 10 * SMALLEST  # of the pixels of a frame: what hangs together so far is a thing
ROOM = 5  # pixels around a thing that are left out, too
BEYOND = 1.25  # times as far as the background goes by itself; 1 and 1.5 are as good
KNOWN = 3  # frames without a thing that a part needs
DISTINCT = (
    2.0  # times: how much more differences of colours count than of brightness, at most
)
ROUNDING = np.float32(1 / 12)  # the variance that bytes have at least
THIN = 5  # every which pixel tells how colours belong together

Picture = Callable[[int], Array]  # the background of a frame


def traits_of(
    frames: Array,
    picture: Picture,
    threshold: float,
    noise: float,
    observed: float = 1.0,
) -> Traits:
    """What frames and their backgrounds show; of the frames, so much was observed."""
    noise = max(noise, 1.0)  # bytes are not finer
    if len(frames) < FEWEST:
        return Traits(noise)
    some = looked_at(len(frames))
    colours = None
    if frames.ndim == 4:
        colours = _colours([frames[k] - picture(k) for k in some[::THIN]], threshold)
    sways = _Sways(frames.shape[1:3])
    spread = _Spread(frames.shape[1:])
    evidence = Evidence(noise)
    for k in some:
        behind = picture(k)
        off = distance(frames[k][None], behind[None], colours)[0]
        mask = cleaned(off[None] > threshold)[0]
        sways.add(k * PARTS // len(frames), off, mask)
        spread.add(frames[k] - behind, ~mask)
        part = k * PARTS_OF_SHADOWS // len(frames)
        evidence.add(part, frames[k], behind, mask & (off > threshold / 2))
    return Traits(
        noise,
        sways.found(threshold),
        colours,
        evidence.ratios(),
        spread.of_frames(),
        spread.of_background(observed * len(frames) / len(some)),
    )


def looked_at(n: int) -> list[int]:
    """Some of n frames, from all over the clip."""
    return np.unique(np.linspace(0, n - 1, min(n, LOOKED)).astype(int)).tolist()


def _colours(off: list[Array], threshold: float) -> Array:
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

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.farthest = np.zeros((PARTS, *shape), np.uint8)
        self.seen = np.zeros((PARTS, *shape), np.uint8)

    def add(self, part: int, off: Array, mask: Array) -> None:
        """A frame: how far its pixels are from the background, and what is in front."""
        free = ~ndi.maximum_filter(large(mask), ROOM)
        size = np.minimum(np.ceil(off), 255).astype(np.uint8)
        np.maximum(self.farthest[part], size * free, out=self.farthest[part])
        self.seen[part] += free

    def found(self, threshold: float) -> Array | None:
        """What is beyond is in front; None if that is the threshold everywhere."""
        known = self.seen >= KNOWN
        # The median of the parts that are known: unknown ones come first.
        order = np.sort(np.where(known, self.farthest, 0), axis=0)
        count = known.sum(axis=0)
        middle = np.clip(PARTS - (count + 1) // 2, 0, PARTS - 1)
        usual = np.take_along_axis(order, middle[None], axis=0)[0]
        far = BEYOND * np.where(count >= PARTS // 4, usual, 0)
        if not np.any(far > threshold):
            return None
        return np.minimum(far, 255).astype(np.uint8)


class _Spread:
    """How far pixels typically are from the background where nothing is in front."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.squares = np.zeros(shape, np.float32)
        self.count = np.zeros(shape[:2], np.float32)

    def add(self, off: Array, free: Array) -> None:
        """A frame less its background, and where nothing is in front."""
        self.squares += off**2 * (free if off.ndim == 2 else free[..., None])
        self.count += free

    def of_frames(self) -> Array:
        """The standard deviation of a pixel."""
        count = self.count if self.squares.ndim == 2 else self.count[..., None]
        known = np.where(count > 0, count, np.nan)
        return np.sqrt((self.squares + ROUNDING * count) / known)

    def of_background(self, times: float) -> Array:
        """The standard error of the background, learned from so many times more frames."""
        count = self.count if self.squares.ndim == 2 else self.count[..., None]
        seen = np.maximum(times * count, 1)
        return np.asarray(self.of_frames() / np.sqrt(seen), np.float32)


def large(mask: Array) -> Array:
    """What hangs together in so many pixels that it is a thing."""
    labels, _ = ndi.label(mask, np.ones((3, 3)))
    areas = np.bincount(labels.ravel())
    areas[0] = 0
    return np.asarray((areas >= LARGE * mask.size)[labels])

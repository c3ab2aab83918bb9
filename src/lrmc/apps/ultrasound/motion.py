"""How the picture moves: every frame brought into register with one reference, and back.

A displacement is estimated on a coarse grid, by Lucas and Kanade's least squares in smooth windows,
from coarse pictures to fine ones. Tissue that breathes moves smoothly; what is small and moves on
its own hardly counts there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ..._progress import Progress, Tell, silent
from ..._scipy import ndimage
from ...linalg import power_of_4
from ...weights import Array

BLOCK = 8  # pixels between grid points
# pixels, the standard deviation of the windows: smaller ones follow the bubbles
WINDOW = 32.0
ROUNDS = 3  # least-squares steps at each size of the picture
# Pixels of the shorter and the longer side of the pictures that are compared.
SMALLEST, LARGEST = 24, 400
TEMPLATE = 64  # frames whose median is the reference, at most
RIDGE = 0.02  # of the mean squared gradient: where nothing is seen, nothing moves
LONGEST = 1.5  # pixels that a step may go
REJECTION = 3 * 1.4826  # residuals beyond so many median absolute ones are clipped
MORE_ALIKE = (
    0.95  # of the distance of frames from their median: less is left by following
)
# Half a grey level of 256: what differs by less does not differ (black around a sector, text).
GREY = 1 / 512

Field = tuple[Array, Array]  # displacements down and to the right


@dataclass(frozen=True, eq=False)
class Motion:
    """Where the reference is in every frame: cine[t] at (y + down, x + right) shows what the
    reference does at (y, x).

    Displacements are on the grid (frames, rows, columns), in pixels. The reference reaches `margin`
    pixels beyond the frames on every side, so that what moves out of some frames has a place.
    """

    shape: tuple[int, int]  # of a frame
    down: Array
    right: Array
    block: int = BLOCK

    @property
    def farthest(self) -> float:
        """The largest displacement, in pixels."""
        return float(np.hypot(self.down, self.right).max())

    @property
    def typical(self) -> float:
        """The median displacement, in pixels."""
        return float(np.median(np.hypot(self.down, self.right)))

    @cached_property
    def margin(self) -> int:
        """As far as anything moves, but not more than an eighth of a side."""
        return math.ceil(min(self.farthest, min(self.shape) / 8))

    @property
    def canvas(self) -> tuple[int, int]:
        """The shape of the reference, margins included."""
        return self.shape[0] + 2 * self.margin, self.shape[1] + 2 * self.margin

    def registered(
        self,
        cine: Array,
        fixed: Array | None = None,
    ) -> tuple[Array, Array]:
        """The cine on the canvas, (frames, rows, columns), and True where it was seen and not near
        a fixed pixel.
        """
        hidden = None if fixed is None or not fixed.any() else fixed.astype(np.float32)
        shape = (len(cine), *self.canvas)
        out = np.empty(shape, np.float32)
        seen = np.empty(shape, bool)
        for t, frame in enumerate(cine):
            y, x = self._at(t)
            ndimage.map_coordinates(frame, (y, x), out[t], order=3, mode="nearest")
            seen[t] = _inside(y, x, self.shape)
            if hidden is not None:
                seen[t] &= (
                    ndimage.map_coordinates(hidden, (y, x), order=1, mode="nearest")
                    < 0.01
                )
        return out, seen

    def restored(
        self,
        t: int,
        picture: Array,
    ) -> Array:
        """A picture on the canvas as it looks in frame t."""
        y, x = self._back(t)
        return ndimage.map_coordinates(
            picture, (y + self.margin, x + self.margin), order=3, mode="nearest"
        )

    def _at(self, t: int) -> Field:
        """The places of the canvas in frame t."""
        height, width = self.shape
        y, x = (
            np.arange(-self.margin, n + self.margin, dtype=np.float32)
            for n in (height, width)
        )
        down, right = (
            spread(grid[t], self.block, y, x) for grid in (self.down, self.right)
        )
        return y[:, None] + down, x + right

    def _back(
        self,
        t: int,
        rounds: int = 4,
    ) -> Field:
        """The places of frame t on the reference: the inverse, by fixed-point iteration."""
        y, x = np.mgrid[: self.shape[0], : self.shape[1]].astype(np.float32)
        down, right = self.down[t], self.right[t]
        at_y, at_x = y, x
        for _ in range(rounds):
            places = [
                np.clip((at + 0.5) / self.block - 0.5, 0, n - 1)
                for at, n in zip((at_y, at_x), down.shape)
            ]
            at_y = y - ndimage.map_coordinates(down, places, order=1)
            at_x = x - ndimage.map_coordinates(right, places, order=1)
        return at_y, at_x


def follow(
    cine: Array,
    fixed: Array | None = None,
    progress: Tell | None = None,
) -> Motion | None:
    """The motion of a cine (frames, height, width), or None if frames do not become more alike by
    following it.

    Pixels that are `fixed` (height, width), such as text, say nothing about it. Twice: against the
    middle frame, then against the median of the frames brought into register with it.
    """
    some = np.unique(np.linspace(0, len(cine) - 1, TEMPLATE).round().astype(int))
    largest = float(np.abs(cine).max())
    if largest == 0:
        return None
    cine = np.asarray(cine, np.float32) / np.float32(power_of_4(largest))
    template = cine[len(cine) // 2]
    free = (
        np.ones(template.shape, np.float32)
        if fixed is None
        else (~fixed).astype(np.float32)
    )
    tell = progress or silent
    first = _against(template, free, cine[some], _half(tell, 0.0))
    if first is None:
        return None
    chosen = cine[some]
    template = np.median([frame for frame, _ in _seen_by(first, chosen)], axis=0)
    motion = _against(template, free, cine, _half(tell, 0.5))
    if motion is None:
        return None
    shown = Motion(motion.shape, motion.down[some], motion.right[some], motion.block)
    still = np.median(chosen, axis=0)
    before = np.mean([np.mean(np.abs(frame - still)) for frame in chosen])
    registered = _seen_by(shown, chosen)
    after = np.mean(
        [np.mean(np.abs(frame - template)[seen]) for frame, seen in registered]
    )
    return motion if after < MORE_ALIKE * before else None


def _seen_by(motion: Motion, frames: Array) -> list[tuple[Array, Array]]:
    """Frames in register, without the margins, and where they were seen."""
    inner = tuple(slice(motion.margin, motion.margin + n) for n in motion.shape)
    moved, seen = motion.registered(frames)
    return [(frame[inner], where[inner]) for frame, where in zip(moved, seen)]


def _half(tell: Tell, before: float) -> Callable[[float], None]:
    """Half of the work, told by its share; `before` is the share of all that was done before it."""
    return lambda share: tell(Progress("motion", before + share / 2, 1.0))


def _against(
    template: Array,
    free: Array,
    frames: Array,
    tell: Callable[[float], None],
) -> Motion | None:
    """The motion of frames against a template."""
    references, scale = _pyramid(template)
    weights, _ = _pyramid(free)
    grids: list[Field] = []
    for n, frame in enumerate(frames):
        pictures, _ = _pyramid(frame)
        grids.append(_displacement(references, weights, pictures))
        tell((n + 1) / len(frames))
    down, right = (
        np.stack([grid[k] for grid in grids]) * np.float32(scale) for k in (0, 1)
    )
    if not (np.isfinite(down).all() and np.isfinite(right).all()):
        return None
    return Motion(template.shape, down, right, BLOCK * scale)


def _pyramid(picture: Array) -> tuple[list[Array], int]:
    """The picture, halved again and again; the first is not too large, and what its pixels
    measure.
    """
    scale, levels = 1, [picture]
    while min(levels[-1].shape) // 2 >= SMALLEST:
        levels.append(_halved(levels[-1]))
    while max(levels[0].shape) > LARGEST and len(levels) > 1:
        scale, levels = 2 * scale, levels[1:]
    return levels, scale


def _halved(picture: Array) -> Array:
    height, width = (n // 2 * 2 for n in picture.shape)
    even = picture[:height, :width]
    left = even[::2, ::2] + even[1::2, ::2]
    return (left + even[::2, 1::2] + even[1::2, 1::2]) / 4


def _displacement(
    references: Sequence[Array],
    weights: Sequence[Array],
    pictures: Sequence[Array],
) -> Field:
    """Of a frame against the reference, from the coarsest pictures to the finest."""
    field: Field | None = None
    for reference, free, picture in zip(
        reversed(references), reversed(weights), reversed(pictures)
    ):
        grid = tuple(-(-n // BLOCK) for n in picture.shape)
        if field is None:
            field = np.zeros(grid, np.float32), np.zeros(grid, np.float32)
        # the grid points of this size lie at the middles of half blocks of the last
        else:
            places = [np.arange(n, dtype=np.float32) for n in grid]
            field = 2 * spread(field[0], 2, *places), 2 * spread(field[1], 2, *places)
        for _ in range(ROUNDS):
            field = _better(reference, free, picture, field)
    assert field is not None
    return field


def _better(
    reference: Array,
    free: Array,
    picture: Array,
    field: Field,
) -> Field:
    """One least-squares step in each window."""
    height, width = picture.shape
    y = np.arange(height, dtype=np.float32)
    x = np.arange(width, dtype=np.float32)
    at_y = y[:, None] + spread(field[0], BLOCK, y, x)
    at_x = x + spread(field[1], BLOCK, y, x)
    moved = ndimage.map_coordinates(picture, (at_y, at_x), order=1, mode="nearest")
    inside = _inside(at_y, at_x, (height, width))
    dy, dx = np.gradient((moved + reference) / 2)
    off = reference - moved
    differs = np.abs(off)[np.abs(off) > GREY]
    if not len(differs):
        return field
    far = REJECTION * float(np.median(differs))
    weight = free * inside * far / np.maximum(np.abs(off), far)
    products = np.stack([dy * dy, dx * dx, dy * dx, dy * off, dx * off])
    yy, xx, yx, ye, xe = _windowed(weight * products)
    ridge = RIDGE * float(np.mean(yy + xx)) + 1e-12
    yy = yy + ridge
    xx = xx + ridge
    determinant = yy * xx - yx * yx
    down = (xx * ye - yx * xe) / determinant
    right = (yy * xe - yx * ye) / determinant
    return field[0] + _not_too_far(down), field[1] + _not_too_far(right)


def _windowed(values: Array) -> Array:
    """Means of pictures, (n, height, width), over smooth windows around the blocks of the grid."""
    means = _block_means(values)
    down, across = (_smoothing(n) for n in means.shape[1:])
    return np.asarray(down @ means @ across.T)


@lru_cache(maxsize=16)
def _smoothing(n: int) -> Array:
    """A Gaussian filter of n blocks as a matrix: a call of SciPy's takes longer than the products."""
    ones = np.eye(n, dtype=np.float32)
    return np.asarray(
        ndimage.gaussian_filter1d(ones, WINDOW / BLOCK, axis=0, mode="nearest")
    )


def _not_too_far(step: Array) -> Array:
    return np.clip(step, -LONGEST, LONGEST)


def _inside(
    y: Array,
    x: Array,
    shape: tuple[int, int],
) -> Array:
    """Whether places lie within a frame."""
    height, width = shape
    return (y >= 0) & (y <= height - 1) & (x >= 0) & (x <= width - 1)


def _block_means(pictures: Array) -> Array:
    count, *shape = pictures.shape
    height, width = (-(-n // BLOCK) for n in shape)
    padded = pictures
    if shape != [height * BLOCK, width * BLOCK]:
        padded = np.zeros((count, height * BLOCK, width * BLOCK), np.float32)
        padded[:, : shape[0], : shape[1]] = pictures
    rows = padded.reshape(count, height, BLOCK, -1).sum(axis=2)
    return rows.reshape(count, height, width, BLOCK).sum(axis=3) / BLOCK**2


def spread(
    grid: Array,
    block: int,
    y: Array,
    x: Array,
) -> Array:
    """Values on a grid of blocks at the pixels (y, x): linear between the middles of blocks,
    constant beyond.
    """
    (i, to_i), (j, to_j) = (_between(at, block, n) for at, n in zip((y, x), grid.shape))
    height, width = grid.shape
    below = np.minimum(i + 1, height - 1)
    beside = np.minimum(j + 1, width - 1)
    rows = grid[i] * (1 - to_i)[:, None] + grid[below] * to_i[:, None]
    return rows[:, j] * (1 - to_j) + rows[:, beside] * to_j


def _between(
    at: Array,
    block: int,
    n: int,
) -> tuple[Array, Array]:
    place = np.clip((at + np.float32(0.5)) / block - np.float32(0.5), 0, n - 1)
    low = np.minimum(place.astype(np.intp), max(n - 2, 0))
    return low, (place - low).astype(np.float32)

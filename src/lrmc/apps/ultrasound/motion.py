"""How the picture moves: every frame brought into register with one reference, and back.

A displacement is estimated on a coarse grid, by Lucas and Kanade's least squares in smooth windows,
from coarse pictures to fine ones. Tissue that breathes moves smoothly; what is small and moves on
its own hardly counts there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ... import _kernels
from ..._progress import Progress, Tell, silent
from ..._scipy import ndimage
from ...linalg import power_of_4
from ...weights import Array
from .medians import median_frame, some_frames

BLOCK = 8  # pixels between grid points
# pixels, the standard deviation of the windows: smaller ones follow the bubbles
WINDOW = 32.0
# Least-squares steps at each size of the picture, at most, until they are shorter (pixels).
ROUNDS = 12
SETTLED = 0.05
# Pixels of the shorter and the longer side of the pictures that are compared.
SMALLEST, LARGEST = 24, 400
EDGE = 4  # pixels around what is fixed; 2 and 8 are as good
RIDGE = 0.02  # of the mean squared gradient: where nothing is seen, nothing moves
LONGEST = 1.5  # pixels that a step may go
REJECTION = 3 * 1.4826  # residuals beyond so many median absolute ones are clipped
MORE_ALIKE = (
    0.95  # of the distance of frames from their median: less is left by following
)
# Half a grey level of 256: what differs by less does not differ (black around a sector, text).
GREY = 1 / 512
SPLINE, SEARCH = 40, 200  # operations for a pixel, about: of a spline, of all steps


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
        seen = np.empty(shape, np.uint8)
        _kernels.onto_canvas(
            _kernels.ready(cine, np.float32),
            self.down,
            self.right,
            hidden=hidden,
            out=out,
            seen=seen,
            **self._asked(out),
        )
        return out, seen.view(bool)

    def restored(self, canvases: Array) -> Array:
        """Pictures on the canvas, one for each frame, as they look in their frames."""
        out = np.empty((len(canvases), *self.shape), np.float32)
        _kernels.from_canvas(
            _kernels.ready(canvases, np.float32),
            self.down,
            self.right,
            out=out,
            **self._asked(out),
        )
        return out

    def _asked(self, out: Array) -> dict[str, int]:
        """What both directions are told."""
        threads = _threads(out.size * SPLINE)
        return {"block": self.block, "margin": self.margin, "threads": threads}


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
    some = some_frames(len(cine))
    largest = float(np.abs(cine).max())
    if largest == 0:
        return None
    if fixed is not None:
        # Edges of what is fixed stand still, and are strong.
        fixed = ndimage.binary_dilation(fixed, iterations=EDGE)
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
    template = median_frame(np.stack([frame for frame, _ in _seen_by(first, chosen)]))
    motion = _against(template, free, cine, _half(tell, 0.5))
    if motion is None:
        return None
    shown = Motion(motion.shape, motion.down[some], motion.right[some], motion.block)
    still = median_frame(chosen)
    # Not at what is fixed: the edge of a sector does not move with what is within.
    registered = _seen_by(shown, chosen, fixed)
    loose = slice(None) if fixed is None else ~fixed
    before = np.mean([_away(frame, still, loose) for frame in chosen])
    after = np.mean([_away(frame, template, seen) for frame, seen in registered])
    return motion if after < MORE_ALIKE * before else None


def _away(
    frame: Array,
    other: Array,
    where: Array | slice,
) -> float:
    off = np.abs(frame - other)[where]
    return float(np.mean(off)) if off.size else 0.0


def _seen_by(
    motion: Motion,
    frames: Array,
    fixed: Array | None = None,
) -> list[tuple[Array, Array]]:
    """Frames in register, without the margins, and where they were seen, not near a fixed pixel."""
    inner = tuple(slice(motion.margin, motion.margin + n) for n in motion.shape)
    moved, seen = motion.registered(frames, fixed)
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
    grid = [-(-n // BLOCK) for n in references[0].shape]
    down, right = (np.empty((len(frames), *grid), np.float32) for _ in range(2))
    some = max(1, len(frames) // 8)  # at a time, so that there is something to tell
    for first in range(0, len(frames), some):
        now = slice(first, first + some)
        _kernels.follow(
            _kernels.ready(frames[now], np.float32),
            [_level(*pair) for pair in zip(references, weights)],
            halved=scale.bit_length() - 1,
            block=BLOCK,
            rounds=ROUNDS,
            settled=SETTLED,
            rejection=REJECTION,
            grey=GREY,
            ridge=RIDGE,
            longest=LONGEST,
            down=down[now],
            right=right[now],
            threads=_threads(frames[now].size * SEARCH),
        )
        tell(min(1.0, (first + some) / len(frames)))
    if not (np.isfinite(down).all() and np.isfinite(right).all()):
        return None
    size = np.float32(scale)
    return Motion(template.shape, size * down, size * right, BLOCK * scale)


def _level(reference: Array, free: Array) -> list[Array]:
    """What a kernel compares pictures of one size with, and the windows it looks through."""
    windows = [_smoothing(-(-n // BLOCK)) for n in reference.shape]
    return [_kernels.ready(x, np.float32) for x in (reference, free, *windows)]


def _threads(work: int) -> int:
    return _kernels.threads_for(work, _kernels.max_threads())


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


@lru_cache(maxsize=16)
def _smoothing(n: int) -> Array:
    """A Gaussian filter of n blocks as a matrix."""
    ones = np.eye(n, dtype=np.float32)
    return np.asarray(
        ndimage.gaussian_filter1d(ones, WINDOW / BLOCK, axis=0, mode="nearest")
    )


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

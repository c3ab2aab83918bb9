"""What is in front of a background: where frames differ from it, cleaned up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ... import _kernels
from ...weights import Array
from .shadows import BINS, EDGES, SMALL, TAKEN, numbers, with_colours
from .windows import odd

CLOSED = 22  # parts of the shorter side: gaps that are closed
AT_ONCE = 1 << 18  # values that are looked at together: they stay in the cache


@dataclass(frozen=True, eq=False)
class Traits:
    """How a background looks besides its picture, as the clip shows."""

    noise: float  # grey levels
    # height x width, bytes: how far pixels of the background go by themselves (leaves, water)
    sways: Array | None = None
    # 3 x 3: differences of colours times this have equal noise; None: the largest counts
    colours: Array | None = None
    ratios: Array | None = None  # bins of brightness that are shadows, see `shadows`
    # A frame's shape: the standard deviation of pixels where nothing is in front, and that of the
    # background itself, grey levels; NaN where something always is.
    spread: Array | None = None
    sd: Array | None = None
    # 2: how far windows go by themselves, in all and in brightness; see `thresholds`
    quiet: Array | None = None

    def check(
        self,
        shape: tuple[int, ...],
    ) -> None:
        """Refuse traits that are not those of frames of this shape."""
        wanted = {
            "sways": (np.uint8, shape[:2]),
            "colours": (np.float64, (3, 3) if len(shape) == 3 else None),
            "ratios": (np.bool_, (2 * BINS,)),
            "quiet": (np.float64, (2,)),
            "spread": (np.float32, shape),
            "sd": (np.float32, shape),
        }
        for name, (kind, size) in wanted.items():
            value = getattr(self, name)
            if value is None:
                continue
            fits = value.dtype == kind and value.shape == size
            if not fits or np.isinf(value).any():
                raise ValueError(f"its {name} are not those of such frames")


def masks(
    frames: Array,
    background: Array,
    threshold: float,
    traits: Traits | None = None,
    light: float = 1.0,
) -> Array:
    """Where frames are farther than the threshold from the background, cleaned up; see `distance`.

    Without traits, shadows and what sways are in front.
    """
    traits = traits or Traits(1.0)
    left_out = traits.ratios is not None and traits.ratios.any()
    frames, background = with_colours(frames, background)
    found = np.empty(frames.shape[:3], bool)
    near, gap = _windows(found)
    _kernels.masks(
        frames,
        background,
        _mix(traits.colours),
        light=light,
        threshold=threshold,
        sways=traits.sways,
        near=near,
        gap=gap,
        edges=EDGES,
        numbers=numbers(found[0], traits.noise),
        taken=TAKEN,
        ratios=traits.ratios if left_out else None,
        out=found,
    )
    return found


def together(size: int) -> int:
    """How many frames of so many values are looked at together."""
    return max(1, AT_ONCE // max(size, 1))


def distance(
    frames: Array,
    background: Array,
    colours: Array | None = None,
    light: float = 1.0,
) -> Array:
    """How far frames are from the background, in grey levels: (frames, height, width).

    Colours are as far as the one that is farthest. If it is known how their noise belongs together,
    brightness alone counts `light` times. Films store colours coarsely, so that they spread: they
    count where they are at least half as far as the farthest nearby.
    """
    frames, background = with_colours(frames, background)
    off = np.empty(frames.shape[:3], np.float32)
    _kernels.distances(frames, background, _mix(colours), light=light, out=off)
    return off


def _mix(colours: Array | None) -> Array | None:
    return None if colours is None else _kernels.ready(colours, np.float32)


def cleaned(found: Array) -> Array:
    """What is small goes (a majority of the neighbours decides), gaps are closed: (frames, height,
    width).

    Neighbourhoods grow with the picture: 5 and 11 pixels where its shorter side has 240.
    """
    pictures = _kernels.ready(found, bool)
    left = np.empty_like(pictures)
    near, gap = _windows(found)
    _kernels.clean(pictures, near=near, gap=gap, out=left)
    return left


def _windows(found: Array) -> tuple[int, int]:
    """What is small, and gaps that are closed, in pixels."""
    side = min(found.shape[1:])
    return odd(side / SMALL), odd(side / CLOSED)


def in_front(
    frames: Array,
    found: Array,
    elsewhere: int = 0,
) -> Array:
    """Frames where something was found; black elsewhere, or the grey that is asked for."""
    where = found[..., None] if frames.ndim > found.ndim else found
    return np.where(where, frames, frames.dtype.type(elsewhere))

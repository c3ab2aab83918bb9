"""What is in front of a background: where frames differ from it, cleaned up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ... import _kernels
from ...weights import Array
from .shadows import BINS, SMALL, without_shadows
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

    def check(
        self,
        shape: tuple[int, ...],
    ) -> None:
        """Refuse traits that are not those of frames of this shape."""
        wanted = {
            "sways": (np.uint8, shape[:2]),
            "colours": (np.float64, (3, 3) if len(shape) == 3 else None),
            "ratios": (np.bool_, (2 * BINS,)),
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
) -> Array:
    """Where frames are farther than the threshold from the background, cleaned up.

    Without traits, colours are as far as the one that is farthest, and shadows and what sways are
    in front.
    """
    step = together(background[:1].size)
    if len(frames) > step:
        each = [
            masks(frames[k : k + step], background[k : k + step], threshold, traits)
            for k in range(0, len(frames), step)
        ]
        return np.concatenate(each)
    far = farther(
        frames,
        background,
        threshold,
        traits,
    )
    found = cleaned(far)
    if traits is None or traits.ratios is None or not traits.ratios.any():
        return found
    how = (traits.ratios, traits.noise)
    left = [
        without_shadows(*layers, how) for layers in zip(frames, background, far, found)
    ]
    return cleaned(np.stack(left))


def together(size: int) -> int:
    """How many frames of so many values are looked at together."""
    return max(1, AT_ONCE // max(size, 1))


def farther(
    frames: Array,
    background: Array,
    threshold: float,
    traits: Traits | None = None,
) -> Array:
    """Where frames are farther than the threshold from the background, pixel by pixel."""
    off = distance(
        frames,
        background,
        None if traits is None else traits.colours,
    )
    if traits is None or traits.sways is None:
        return np.asarray(off > threshold)
    return np.asarray(off > np.maximum(traits.sways, np.float32(threshold)))


def distance(
    frames: Array,
    background: Array,
    colours: Array | None = None,
) -> Array:
    """How far frames are from the background, in grey levels: (frames, height, width)."""
    off = frames - background
    if off.ndim == 3:
        return np.abs(off, out=off)
    if colours is None:
        return farthest(np.abs(off, out=off))
    off = off @ colours.astype(off.dtype)
    off *= off
    return np.asarray(np.sqrt(off[..., 0] + off[..., 1] + off[..., 2]))


def farthest(off: Array) -> Array:
    """The largest of three colours: a tenth of the time of numpy.max over so short an axis."""
    red, green, blue = (off[..., c] for c in range(3))
    return np.asarray(np.maximum(np.maximum(red, green), blue))


def cleaned(found: Array) -> Array:
    """What is small goes (a majority of the neighbours decides), gaps are closed: (frames, height,
    width).

    Neighbourhoods grow with the picture: 5 and 11 pixels where its shorter side has 240.
    """
    side = min(found.shape[1:])
    near = odd(side / SMALL)
    gap = odd(side / CLOSED)
    pictures = _kernels.ready(found, bool)
    left = np.empty_like(pictures)
    _kernels.clean(pictures, near=near, gap=gap, out=left)
    return left


def in_front(
    frames: Array,
    found: Array,
    elsewhere: int = 0,
) -> Array:
    """Frames where something was found; black elsewhere, or the grey that is asked for."""
    where = found[..., None] if frames.ndim > found.ndim else found
    return np.where(where, frames, frames.dtype.type(elsewhere))

"""Shadows and patches of light: the background, times a ratio that is the same for neighbours.

Nothing tells a shadow on plain ground from a dark coat, but where the ground has a texture, however
faint, a shadow keeps it and a coat hides it. For each ratio of brightness, the slope of what is
seen on what is behind, pooled over the clip, is thus the share of shadows among all that could be
some. Ratios that are mostly shadows are left out of the masks; if none is, nothing is.
"""

from __future__ import annotations

import numpy as np

from ... import _kernels
from ..._scipy import ndimage as ndi
from ...weights import Array
from .windows import odd

# Ratios of brightness, in steps of a tenth.
EDGES = np.exp(np.arange(np.log(0.1), np.log(3.0), 0.1))
BINS = len(EDGES) + 1
ALIKE = 0.1  # a ratio that is so near 1 is no shadow
PARTS = 10  # of a clip, from which the error of a share is told
# Deviations of the noise that neighbours may differ by to be candidates, and to be taken as shadow.
CANDIDATES, TAKEN = 2.0, 1.5
TINT = 0.15  # of the brightness: by how much colours of a shadow may differ from it
# A bin is left out if at least this share of it are shadows, and so many standard errors say that
# some are. (F gains where the share is above F / 2; slopes are too small by a quarter, since
# neighbours of a border count.)
SHARE, SURE = 0.4, 2.0
FEWEST = 2.5  # parts of equal weight that must have told
TEXTURE = 3.0  # deviations of the noise: texture beyond counts as this much
SMALL = 48  # parts of the shorter side, that windows have


class Evidence:
    """What a clip says about its shadows, frame by frame."""

    def __init__(
        self,
        noise: float,
    ) -> None:
        self.noise = noise
        self.sums = np.zeros((PARTS, 3, 2 * BINS))

    def add(
        self,
        part: int,
        frame: Array,
        picture: Array,
        mask: Array,
    ) -> None:
        """A frame of a part of the clip (0 .. PARTS - 1), what is behind, and where to look.

        The mask is to be of more than what is far enough: pixels that are chosen for being darker
        than others behind them would have a slope of their own.
        """
        frames, pictures = with_colours(frame[None], picture[None])
        _kernels.add_slopes(
            frames[0],
            pictures[0],
            _kernels.ready(mask, bool),
            edges=EDGES,
            numbers=numbers(mask, self.noise),
            alike=ALIKE,
            texture=TEXTURE,
            sums=self.sums[part],
        )

    def ratios(self) -> Array:
        """Which bins of the ratio are shadows, or light."""
        share, error, parts = self.shares()
        return np.asarray((share > SHARE) & (share > SURE * error) & (parts > FEWEST))

    def shares(self) -> tuple[Array, Array, Array]:
        """Of each bin: the share of shadows, its standard error, and how many parts have told."""
        sums = self.sums.reshape(
            PARTS,
            3,
            2,
            BINS,
        )
        near = np.ones(3)  # neighbours are of one kind
        sums = ndi.convolve1d(
            sums,
            near,
            axis=3,
            mode="constant",
        )
        sums[..., [0, -1]] = 0  # these have no end
        top, bottom, variance = sums.reshape(PARTS, 3, 2 * BINS).transpose(1, 0, 2)
        whole = np.maximum(bottom.sum(axis=0), 1e-9)
        parts = whole**2 / np.maximum(np.sum(bottom**2, axis=0), 1e-9)
        share = top.sum(axis=0) / whole
        # Parts differ by chance and by what passes; few parts may happen to agree.
        differ = np.sum((top - share * bottom) ** 2, axis=0)
        differ *= parts / np.maximum(parts - 1, 1e-9)
        return share, np.sqrt(differ + variance.sum(axis=0)) / whole, parts


def numbers(frame: Array, noise: float) -> tuple[int, float, float, float]:
    """What kernels have to know of shadows in such frames."""
    return window_of(frame), noise, CANDIDATES, TINT


def window_of(frame: Array) -> int:
    """Pixels on a side of windows: 5 where the shorter side of a frame has 240."""
    return odd(min(frame.shape[:2]) / SMALL)


def with_colours(frames: Array, pictures: Array) -> tuple[Array, Array]:
    """Frames and what is behind them as kernels take them: frames x height x width x colours."""
    shape = (*frames.shape[:3], -1)
    return (
        _kernels.ready(frames, np.uint8).reshape(shape),
        _kernels.ready(pictures, np.float32).reshape(shape),
    )

"""Shadows and patches of light: the background, times a ratio that is the same for neighbours.

Nothing tells a shadow on plain ground from a dark coat, but where the ground has a texture, however
faint, a shadow keeps it and a coat hides it. For each ratio of brightness, the slope of what is
seen on what is behind, pooled over the clip, is thus the share of shadows among all that could be
some. Ratios that are mostly shadows are left out of the masks; if none is, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._scipy import ndimage as ndi
from ...weights import Array
from .windows import all_in, any_in, mean, odd

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
CELL = (
    4  # windows on a side of a cell: things in cells that touch are looked at together
)


class _Windows(NamedTuple):
    """Windows around pixels of a crop. Colours come first: colours x height x width."""

    frame: Array
    behind: Array
    mean: Array  # of the frame's windows
    mean_behind: Array
    texture: Array  # height x width: the mean square of what is behind, less its mean
    ratio: Array  # height x width, as all that follows
    rough: Array  # whether the ground is
    tinted: Array  # whether colours differ

    def kind(self, some: Array) -> Array:
        """Bins of the ratios of some; those of rough ground come after those of plain ground."""
        return np.digitize(self.ratio[some], EDGES) + BINS * self.rough[some]

    def rest(self, size: int) -> Array:
        """How far frames are from the background times the ratio, less the mean: height x width."""
        unlike = self.mean - self.ratio * self.mean_behind
        square = _mean_square(self.frame - self.ratio * self.behind, size)
        return np.sqrt(np.maximum(square - np.square(unlike).mean(axis=0), 0))

    def rougher(self, noise: float, size: int) -> Array:
        """Whether the frame is rougher than a shadow would be. By frame and background alone, not by
        how they go together: that would choose shadows.
        """
        square = _mean_square(self.frame - self.mean, size)
        ground = np.where(self.rough, self.ratio**2 * self.texture, 0)
        return np.asarray(square > (CANDIDATES * noise) ** 2 + ground)

    def slope(self, noise: float) -> Array:
        """Its numerator, denominator, and the variance of the first: 3 x height x width."""
        high_f, high_b = self.frame - self.mean, self.behind - self.mean_behind
        bounded = np.clip(high_b, -TEXTURE * noise, TEXTURE * noise)
        parts = [
            bounded * high_f,
            bounded * self.ratio * high_b,
            (noise * bounded) ** 2,
        ]
        return np.stack([x.sum(axis=0) for x in parts])


def _windows(
    frame: Array,
    picture: Array,
    noise: float,
    size: int,
) -> _Windows:
    f, b = _planes(frame), _planes(picture)
    mean_f, mean_b = mean(f, size), mean(b, size)
    bright = mean_f.mean(axis=0)
    ratio = bright / np.maximum(mean_b.mean(axis=0), 1)
    texture = _mean_square(b - mean_b, size)
    rough = ratio**2 * texture > (CANDIDATES * noise) ** 2
    unlike = np.abs(mean_f - ratio * mean_b).max(axis=0)
    return _Windows(
        frame=f,
        behind=b,
        mean=mean_f,
        mean_behind=mean_b,
        texture=texture,
        ratio=ratio,
        rough=rough,
        tinted=unlike > TINT * bright + noise,
    )


def _planes(picture: Array) -> Array:
    """Colours first, one after another: sums over them are then fast."""
    planes = np.moveaxis(picture.reshape(*picture.shape[:2], -1), 2, 0)
    return np.ascontiguousarray(planes, np.float32)


def _mean_square(x: Array, size: int) -> Array:
    """Of windows and colours."""
    return mean(np.square(x).mean(axis=0), size)


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
        size = window_of(mask)
        for crop in crops(mask, size):
            found = _windows(
                frame[crop],
                picture[crop],
                self.noise,
                size,
            )
            some = all_in(mask[crop], size) & ~found.tinted
            some &= np.abs(found.ratio - 1) > ALIKE
            some &= ~found.rougher(self.noise, size)
            kinds = found.kind(some)
            for k, values in enumerate(found.slope(self.noise)):
                self.sums[part, k] += np.bincount(kinds, values[some], 2 * BINS)

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


def window_of(frame: Array) -> int:
    """Pixels on a side of windows: 5 where the shorter side of a frame has 240."""
    return odd(min(frame.shape[:2]) / SMALL)


def without_shadows(
    frame: Array,
    picture: Array,
    far: Array,
    mask: Array,
    how: tuple[Array, float],
) -> Array:
    """What is far from the background and no shadow or light. `mask` is where to look, and `how`
    the ratios of `Evidence`, and the noise.
    """
    left = far.copy()
    size = window_of(far)
    for crop in crops(mask, size):
        left[crop] &= ~_shadowed(frame[crop], picture[crop], far[crop], size, how)
    return left


def _shadowed(
    frame: Array,
    picture: Array,
    far: Array,
    size: int,
    how: tuple[Array, float],
) -> Array:
    ratios, noise = how
    window = _windows(
        frame,
        picture,
        noise,
        size,
    )
    core = all_in(far, 3) & ~window.tinted
    core[core] = ratios[window.kind(core)]
    core &= window.rest(size) < TAKEN * noise * np.maximum(window.ratio, 1)
    return any_in(core, size)


def crops(
    mask: Array,
    room: int,
) -> Iterator[tuple[slice, slice]]:
    """Boxes around what is near to each other in a mask, with some room."""
    cell = CELL * room
    starts = [np.arange(0, n, cell) for n in mask.shape]
    rows_of_cells = np.logical_or.reduceat(mask, starts[0], axis=0)
    cells = np.logical_or.reduceat(rows_of_cells, starts[1], axis=1)
    labels, _ = ndi.label(cells)
    for box in ndi.find_objects(labels):
        rows, cols = (
            slice(max(0, cell * x.start - room), cell * x.stop + room) for x in box
        )
        yield rows, cols

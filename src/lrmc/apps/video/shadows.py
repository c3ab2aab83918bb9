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
CELL = (
    4  # windows on a side of a cell: things in cells that touch are looked at together
)


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
        _kernels.add_slopes(
            *_with_colours(frame, picture),
            _kernels.ready(mask, bool),
            crops(mask, size),
            edges=EDGES,
            size=size,
            noise=self.noise,
            candidates=CANDIDATES,
            tint=TINT,
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
    ratios, noise = how
    left = far.copy()
    size = window_of(far)
    _kernels.leave_out(
        *_with_colours(frame, picture),
        _kernels.ready(far, bool),
        crops(mask, size),
        edges=EDGES,
        size=size,
        noise=noise,
        candidates=CANDIDATES,
        tint=TINT,
        taken=TAKEN,
        ratios=_kernels.ready(ratios, bool),
        left=left,
    )
    return left


def _with_colours(frame: Array, picture: Array) -> tuple[Array, Array]:
    """A frame and what is behind it as kernels take them: height x width x colours."""
    shape = (*frame.shape[:2], -1)
    return (
        _kernels.ready(frame, np.uint8).reshape(shape),
        _kernels.ready(picture, np.float32).reshape(shape),
    )


Box = tuple[int, int, int, int]  # top, left, height, width


def crops(
    mask: Array,
    room: int,
) -> list[Box]:
    """Boxes around what is near to each other in a mask, with some room."""
    cell = CELL * room
    cells = np.zeros([-(-n // cell) for n in mask.shape], bool)
    _kernels.in_cells(_kernels.ready(mask, bool), cell, out=cells)
    labels, _ = ndi.label(cells)
    return [_box(box, cell, room, mask.shape) for box in ndi.find_objects(labels)]


def _box(
    cells: tuple[slice, slice],
    cell: int,
    room: int,
    shape: tuple[int, ...],
) -> Box:
    """Some cells in pixels, with some room in the picture."""
    starts = [max(0, cell * x.start - room) for x in cells]
    ends = [min(n, cell * x.stop + room) for x, n in zip(cells, shape)]
    return starts[0], starts[1], ends[0] - starts[0], ends[1] - starts[1]

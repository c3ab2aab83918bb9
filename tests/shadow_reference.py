"""The shadows of video, pixel by pixel in NumPy and SciPy: what the kernels are held against."""

from typing import NamedTuple

import numpy as np
from scipy import ndimage as ndi

from lrmc.apps.video.shadows import (
    ALIKE,
    BINS,
    CANDIDATES,
    EDGES,
    TAKEN,
    TEXTURE,
    TINT,
)


def mean(x, size):
    """Of each window of the last two axes."""
    sides = (*[1] * (x.ndim - 2), size, size)
    return ndi.uniform_filter(x, sides, mode="nearest")


def all_in(mask, size):
    """Whether all pixels of a window are set."""
    return ndi.minimum_filter(mask, size, mode="nearest")


def any_in(mask, size):
    """Whether any is."""
    return ndi.maximum_filter(mask, size, mode="nearest")


class Windows(NamedTuple):
    """Windows around pixels of a crop. Colours come first: colours x height x width."""

    frame: np.ndarray
    behind: np.ndarray
    mean: np.ndarray  # of the frame's windows
    mean_behind: np.ndarray
    texture: (
        np.ndarray
    )  # height x width: the mean square of what is behind, less its mean
    ratio: np.ndarray  # height x width, as all that follows
    rough: np.ndarray  # whether the ground is
    tinted: np.ndarray  # whether colours differ

    def kind(self, some):
        """Bins of the ratios of some; those of rough ground come after those of plain ground."""
        return np.digitize(self.ratio[some], EDGES) + BINS * self.rough[some]

    def rest(self, size):
        """How far frames are from the background times the ratio, less the mean: height x width."""
        unlike = self.mean - self.ratio * self.mean_behind
        square = _mean_square(self.frame - self.ratio * self.behind, size)
        return np.sqrt(np.maximum(square - np.square(unlike).mean(axis=0), 0))

    def rougher(self, noise, size):
        """Whether the frame is rougher than a shadow would be. By frame and background alone, not by
        how they go together: that would choose shadows.
        """
        square = _mean_square(self.frame - self.mean, size)
        ground = np.where(self.rough, self.ratio**2 * self.texture, 0)
        return np.asarray(square > (CANDIDATES * noise) ** 2 + ground)

    def slope(self, noise):
        """Its numerator, denominator, and the variance of the first: 3 x height x width."""
        high_f, high_b = self.frame - self.mean, self.behind - self.mean_behind
        bounded = np.clip(high_b, -TEXTURE * noise, TEXTURE * noise)
        parts = [
            bounded * high_f,
            bounded * self.ratio * high_b,
            (noise * bounded) ** 2,
        ]
        return np.stack([x.sum(axis=0) for x in parts])


def windows_of(
    frame,
    picture,
    noise,
    size,
):
    f, b = _planes(frame), _planes(picture)
    mean_f, mean_b = mean(f, size), mean(b, size)
    bright = mean_f.mean(axis=0)
    ratio = bright / np.maximum(mean_b.mean(axis=0), 1)
    texture = _mean_square(b - mean_b, size)
    rough = ratio**2 * texture > (CANDIDATES * noise) ** 2
    unlike = np.abs(mean_f - ratio * mean_b).max(axis=0)
    return Windows(
        frame=f,
        behind=b,
        mean=mean_f,
        mean_behind=mean_b,
        texture=texture,
        ratio=ratio,
        rough=rough,
        tinted=unlike > TINT * bright + noise,
    )


def _planes(picture):
    """Colours first, one after another: sums over them are then fast."""
    planes = np.moveaxis(picture.reshape(*picture.shape[:2], -1), 2, 0)
    return np.ascontiguousarray(planes, np.float32)


def _mean_square(x, size):
    """Of windows and colours."""
    return mean(np.square(x).mean(axis=0), size)


def slopes(frame, picture, mask, noise, size):
    """Sums of the slopes by bin, 3 x (2 bins)."""
    found = windows_of(frame, picture, noise, size)
    some = all_in(mask, size) & ~found.tinted
    some &= np.abs(found.ratio - 1) > ALIKE
    some &= ~found.rougher(noise, size)
    kinds = found.kind(some)
    values = found.slope(noise)
    return np.stack([np.bincount(kinds, x[some], 2 * BINS) for x in values])


def shadowed(frame, picture, far, size, ratios, noise):
    """What is shadow or light."""
    window = windows_of(frame, picture, noise, size)
    core = all_in(far, 3) & ~window.tinted
    core[core] = ratios[window.kind(core)]
    core &= window.rest(size) < TAKEN * noise * np.maximum(window.ratio, 1)
    return any_in(core, size)

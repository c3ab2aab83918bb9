"""Whether what stands out can be a cloud at all: a cloud lies between the ground that is expected there and
the colours of clouds. A bare field, which is brighter too, has other colours than any such mixture.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array

SURE = 15.0  # standard deviations above the ground, in most bands: a cloud to learn colours from
WHITE = 0.4  # of the light in its brightest band, that it has in any
ENOUGH = 10  # of these pixels, at least
COLOURS = 24  # that are kept of them
TOLERANCE = (
    0.1  # of its distance from the ground, that a cloud differs by from one of these
)
LEFT_BY_SHADOW = 0.75  # of the light, at most
IN_SHADOW = 3.0  # standard deviations that a shadow is below the ground; 4 does as well
OPAQUE = 0.5  # of the way from the ground to a cloud
FEW = 0.2  # of what is seen of a clear date may stand out: fields that change
# Tolerances beyond which nothing is a thin cloud: 95 % of the clouds of Romania are nearer.
BEYOND = 0.5


class Clouds(NamedTuple):
    """The colours of clouds, and how strictly each date is judged by them."""

    colours: Array  # k x bands
    # T: dates of which much stands out, or most of that is opaque: what is thin there is an edge
    clouded: Array
    strongest: int  # the band in which the ground is brightest

    def shadows(self, Y: Array, away: Array, deviation: Array) -> Array:
        """T x lines x width: pixels of dates with clouds that are darker in all bands, and have lost a shadow's
        share of the light where the ground is brightest: haze adds least there.
        """
        answer = np.all(away < 0, axis=1) & self.clouded[:, None, None]
        y, far, sd = (one[:, self.strongest] for one in (Y, away, deviation))
        answer &= (far < -IN_SHADOW) & (y < LEFT_BY_SHADOW * (y - far * sd))
        return np.asarray(answer)

    def possible(
        self,
        y: Array,
        away: Array,
        deviation: Array,
        dates: Array,
    ) -> Array:
        """n: whether pixels of some dates, bands x n values, so many standard deviations from the
        ground, may be clouds or shadows.
        """
        opacity, misfit = nearest_mixture(self.colours, y, away, deviation)
        darker = np.median(away, axis=0) < 0
        sure = self.clouded[dates] | (opacity > OPAQUE)
        return np.asarray(darker | sure | (misfit < BEYOND))


def nearest_mixture(
    colours: Array,
    y: Array,
    away: Array,
    deviation: Array,
) -> tuple[Array, Array]:
    """n: the opacity of the mixture of the ground and a cloud that is nearest to a pixel, and how far
    it is away, in tolerances.
    """
    opacity = np.zeros(y.shape[1], np.float32)
    least = np.full(y.shape[1], np.inf, np.float32)
    for colour in colours:
        whole = (colour[:, None] - y) / deviation + away
        length = np.maximum(np.sum(whole**2, axis=0), 1e-30)
        share = np.maximum(np.sum(away * whole, axis=0) / length, 0)
        apart = np.sum((away - share * whole) ** 2, axis=0)
        nearer = apart < least
        opacity[nearer], least[nearer] = share[nearer], apart[nearer]
    tolerance = 1 + TOLERANCE**2 * np.sum(away**2, axis=0)
    return opacity, np.sqrt(least / tolerance)


def learned_clouds(
    Y: Array,
    seen: Array,
    away: Array,
    deviation: Array,
    out: Array,
) -> Clouds | None:
    """From a sample, T x bands x n: what was seen, and what of it stands out. None where too few clouds
    are sure.
    """
    white = Y.min(1) > WHITE * Y.max(1)
    sure = seen & white & (np.median(away, axis=1) > SURE)
    found = np.moveaxis(Y, 1, -1)[sure].astype(np.float32)
    if len(found) < ENOUGH or not np.any(seen & ~out):
        return None
    # By colour, not by brightness, which mixtures have of any kind.
    order = np.argsort(found[:, 0] / np.maximum(found.sum(1), 1e-30), kind="stable")
    colours = found[order[np.linspace(0, len(found) - 1, COLOURS).astype(int)]]
    clouded = np.count_nonzero(out & seen, axis=1) > FEW * np.count_nonzero(
        seen, axis=1
    )
    for t in np.flatnonzero((seen & (out | sure)).any(1)):
        asked = seen[t] & (out[t] | sure[t])
        some = (one[t][:, asked] for one in (Y, away, deviation))
        clouded[t] |= np.median(nearest_mixture(colours, *some)[0]) > OPAQUE
    levels = np.median(np.moveaxis(Y, 1, -1)[seen & ~out], axis=0)
    return Clouds(colours, clouded, int(np.argmax(levels)))

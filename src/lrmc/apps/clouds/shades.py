"""Dates of which nothing but shadow is left.

Between clouds there may be shadow only, and a fit takes what most pixels of a date show for its ground.
A shadow takes a share of the light, and goes away; haze adds some to every band, least where the ground
is brightest. So dates are compared in that band, with the brightest of those near them on both sides:
the others may lie in a shadow as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .ground import FEW, Sample, smallest
from .screen import LOOKED_AT

TAKEN = float(np.log(0.75))  # the light that a shadow leaves, or less
MOSTLY = 0.5  # of a date is covered: what is left of it may be nothing but shadow
NEAR = 2  # dates on each side of one that it is compared with
SHARED = 0.25  # of what is seen of a date, that another one must show to be compared


class Shades(NamedTuple):
    """Dates that are darker than those around them."""

    sure: Array  # T: than before and than after, and brighter in no band: shadow
    # T: brighter in other bands (haze and shadow, or leaves that fell), or little is left of the
    # date, and it is darker than half-way between those before and after
    unsure: Array
    # T: with far more light than those around them: clouds, haze or snow
    bright: Array


def shades(sample: Sample, days: Array) -> Shades:
    """The dates of a sample, without its clouds, that may be nothing but shadow: the darkest first,
    since a date in a shadow must not tell how bright others are.
    """
    T, bands = sample.Y.shape[:2]
    some = slice(None, None, max(1, sample.there[0].size // LOOKED_AT))
    Y = sample.Y.reshape(T, bands, -1)[..., some]
    there = sample.there.reshape(T, -1)[:, some]
    sure, usable = np.zeros(T, bool), there.mean(1) > FEW
    levels = [np.median(Y[:, b][there]) if there.any() else 0 for b in range(bands)]
    band = int(np.argmax(levels))
    if levels[band] <= 0:  # no light: temperatures, decibels
        return Shades(sure, sure, sure)
    compared = _Compared(_ratios(Y, there, smallest(sample.Y)), days)
    seen, usable = usable, usable & ~compared.bright(usable)
    while True:
        depth, raised = compared.depth(usable, band), compared.raised(usable)
        transient = depth.max(1)  # NaN at the ends: seasons begin and end there
        found = np.where(np.isnan(transient) | raised, 0.0, transient)
        darkest = int(np.argmin(found))
        if found[darkest] >= TAKEN:
            little = (there.mean(1) < MOSTLY) & (_half_way(depth) < TAKEN)
            unsure = raised & (transient < TAKEN) | little
            return Shades(sure, unsure, compared.bright(seen & ~sure))
        sure[darkest], usable[darkest] = True, False


def _half_way(depth: Array) -> Array:
    """T: the mean of both sides, or the only one; 0 where there is none."""
    known = ~np.isnan(depth)
    return np.asarray(np.nansum(depth, axis=1) / np.maximum(known.sum(1), 1))


def _ratios(Y: Array, there: Array, least: float) -> Array:
    """T x T x bands: how much brighter a date is than another, a logarithm; NaN where they share too
    few pixels.
    """
    T, bands = Y.shape[:2]
    light = np.log(np.maximum(Y.astype(np.float64), least))
    ratios = np.full((T, T, bands), np.nan)
    for t in np.flatnonzero(there.mean(1) > FEW):
        enough = np.count_nonzero(there & there[t], axis=1) > SHARED * there[t].sum()
        for s in np.flatnonzero(enough & (np.arange(T) != t)):
            both = there[t] & there[s]
            ratios[t, s] = np.median(light[t][:, both] - light[s][:, both], axis=1)
    return ratios


class _Compared(NamedTuple):
    """Each date with those near it."""

    ratios: Array
    days: Array

    def bright(self, usable: Array) -> Array:
        """T: dates with far more light than those near them in most bands, and less in none: clouds
        or snow, which do not tell how bright the ground is.
        """
        answer = np.zeros(len(usable), bool)
        for t, sides in self._near(usable):
            middle = np.median(np.concatenate(sides), axis=0)
            most = np.mean(middle > -2 * TAKEN) > 0.5
            answer[t] = most and np.all(middle > TAKEN)
        return answer

    def depth(self, usable: Array, band: int) -> Array:
        """T x 2: how far a date is below the brightest before it, and after it; NaN if there is
        none.
        """
        answer = np.full((len(usable), 2), np.nan)
        for t, sides in self._near(usable):
            for k, side in enumerate(sides):
                answer[t, k] = np.min(side[:, band]) if len(side) else np.nan
        return answer

    def raised(self, usable: Array) -> Array:
        """T: dates that are brighter than all near them in some band."""
        answer = np.zeros(len(usable), bool)
        for t, sides in self._near(usable):
            answer[t] = np.any(np.concatenate(sides).min(0) > -TAKEN)
        return answer

    def _near(self, usable: Array) -> Iterator[tuple[int, list[Array]]]:
        """Dates that have some near them, and the ratios to these: some x bands before, and after."""
        for t in np.flatnonzero(usable):
            others = usable & ~np.isnan(self.ratios[t, :, 0])
            apart = self.days - self.days[t]
            sides = []
            for some in (others & (apart <= 0), others & (apart > 0)):
                s = np.flatnonzero(some)
                s = s[np.argsort(np.abs(apart[s]), kind="stable")][:NEAR]
                sides.append(self.ratios[t, s])
            if any(len(side) for side in sides):
                yield int(t), sides

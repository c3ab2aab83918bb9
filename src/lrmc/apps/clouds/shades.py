"""Dates that have far less, or far more, light than those around them.

A fit takes what most pixels of a date show for its ground. So a date that is mostly cloud becomes
ground where others have snow, which is as bright; and where nothing is left between clouds but their
shadow, shadow becomes ground. Neither lasts: the dates before and after tell.

A shadow takes a share of the light; haze adds some to every band, least where the ground is brightest.
So shadows are looked for in that band, beside the brightest of the dates near: others may lie in a
shadow as well. And a shadow takes its share of the contrast of every band, which neither haze nor
the seasons do. A cloud adds light in most bands and takes it in none. Leaves that come or fall add in
some bands and take in others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from .ground import Sample
from .light import Light
from .mixed import LEFT_BY_SHADOW
from .ways import line

TAKEN = float(np.log(LEFT_BY_SHADOW))  # what a shadow takes, or more
GIVEN = (
    -TAKEN
)  # what a cloud adds to a pixel, at least; twice as much to most of a date
LITTLE = 0.25  # of a date is left between clouds: it may be nothing but shadow
MOST_BANDS = 0.5  # more than these are brighter under a cloud


class Shades(NamedTuple):
    """Dates that are darker, or brighter, than those around them."""

    # T: darker than before and than after, and brighter in no band; or darker than half-way
    # between them, and without contrast: shadow
    sure: Array
    # T: darker than one side and without contrast
    unsure: Array
    # T: what little clouds left of the date is darker than half-way
    scarce: Array
    # T: with far more light than those around them: clouds, haze or snow
    bright: Array


# ---- shadow


def shades(sample: Sample, days: Array, given: Array) -> Shades:
    """The dates of a sample, without its clouds, that may be nothing but shadow: the darkest first,
    since a date in a shadow must not tell how bright others are. `given` is the share of each date
    that was there with clouds.
    """
    light = Light.of(sample, days)
    sure = np.zeros(len(sample.Y), bool)
    if light is None:
        return Shades(sure, sure, sure, sure)
    usable = light.known & ~_bright(light, light.known)
    while True:
        beside = _beside(light, usable)
        found = beside.shadow
        darkest = int(np.argmin(found))
        if found[darkest] >= TAKEN:
            break
        sure[darkest], usable[darkest] = True, False
    believed = usable.copy()
    for t in np.flatnonzero(sure).tolist():
        if _tells(light, t, believed):
            sure[t], usable[t] = False, True
    little = light.there.mean(1) < LITTLE * given
    unsure = beside.doubtful
    for t in np.flatnonzero(unsure & ~sure).tolist():
        unsure[t] = not _tells(light, t, usable)
    scarce = little & (beside.half_way < TAKEN)
    return Shades(sure, unsure, scarce, _bright(light, light.known & ~sure))


def _tells(light: Light, t: int, usable: Array) -> bool:
    """Whether the dates beside one are all predicted better with it than without, by a line between
    dates: leafless ground is dark and flat as well, but tells of the dates beside it.
    """
    without = usable.copy()
    without[t] = False
    beside = np.concatenate([side[:1] for side in light.near(t, without)])
    with_it = without.copy()
    with_it[t] = True
    errors = [_off_line(light, t, beside, dates) for dates in (with_it, without)]
    return len(beside) > 0 and bool(np.all(errors[0] < errors[1]))


def _off_line(light: Light, t: int, beside: Array, dates: Array) -> Array:
    """How far some dates are from a line between others, where date t was seen as well."""
    there = light.there & dates[:, None]
    said = line(light.values, there, light.days)
    known = there.sum(0) > 1
    answer = np.full(len(beside), np.nan)
    for k, s in enumerate(beside):
        shown = light.there[s] & light.there[t] & known
        if shown.any():
            answer[k] = np.mean(np.abs(said[s] - light.values[s])[:, shown])
    return answer


class _Beside(NamedTuple):
    """Each date beside the brightest of those near it, before and after; NaN if there is none."""

    depth: (
        Array  # T x 2: how far below it, in the band in which the ground is brightest
    )
    # T x 2: whether all bands have less contrast, as in a shadow: haze adds light, but no contrast
    flat: Array
    raised: Array  # T: whether some band is brighter than on all dates near
    beyond: Array  # T: whether some band is brighter than on one side

    @property
    def half_way(self) -> Array:
        """T: how far below the mean of both sides, or the only one; 0 where there is none."""
        known = ~np.isnan(self.depth)
        return np.asarray(np.nansum(self.depth, axis=1) / np.maximum(known.sum(1), 1))

    @property
    def transient(self) -> Array:
        """T: how far below both sides; NaN at the ends: seasons begin and end there."""
        return np.asarray(self.depth.max(1))

    @property
    def shadow(self) -> Array:
        """T: how far dates are below those near them that are so as a shadow is; 0 of others."""
        below = np.where(self.beyond, 0.0, self.transient)
        flat = np.where(self.flat.all(1), self.half_way, 0.0)
        return np.fmin(np.nan_to_num(below), flat)

    @property
    def doubtful(self) -> Array:
        """T: dates that are flat below one side, brighter in no band, and not on a way from bright to
        dark that goes on.
        """
        one_side = np.any(self.flat & (self.depth < TAKEN), axis=1)
        return one_side & ~self.raised & (self.half_way < TAKEN / 2)


def _beside(light: Light, usable: Array) -> _Beside:
    T, band = len(usable), light.strongest
    depth, flat = np.full((T, 2), np.nan), np.zeros((T, 2), bool)
    raised, beyond = np.zeros(T, bool), np.zeros(T, bool)
    for t in np.flatnonzero(usable).tolist():
        sides = light.near(t, usable)
        ratios = [light.ratios(t, side) for side in sides]
        beside = []
        for k, side in enumerate(ratios):
            if len(side):
                brightest = int(np.argmin(side[:, band]))
                depth[t, k] = side[brightest, band]
                contrast = light.contrast(t, sides[k][brightest])
                flat[t, k] = np.all(contrast < TAKEN)
                beside.append(side[brightest])
        raised[t] = len(beside) > 0 and np.any(np.min(beside, axis=0) > GIVEN)
        beyond[t] = len(beside) > 0 and np.any(np.max(beside, axis=0) > GIVEN)
    return _Beside(depth, flat, raised, beyond)


def _bright(light: Light, usable: Array) -> Array:
    """T: dates with far more light than the dates near them: clouds, haze or snow, which do not tell
    how bright the ground is.
    """
    answer = np.zeros(len(usable), bool)
    for t in np.flatnonzero(usable).tolist():
        around = np.concatenate(light.near(t, usable))
        if len(around):
            more = np.median(light.ratios(t, around), axis=0)
            answer[t] = _outshines(more, 2 * GIVEN)
    return answer


# ---- clouds over most of a date


def without_overcast(sample: Sample, days: Array) -> Sample:
    """The sample without the clouds of dates that are mostly cloud (or haze, or snow that did not
    last): the brightest date first, since clouds must not tell how bright others are.
    """
    light = Light.of(sample, days)
    if light is None:
        return sample
    left = light.known
    while True:
        more = _brighter(light, left)
        t = int(np.argmax(more))
        if more[t] <= 2 * GIVEN:
            break
        around = np.concatenate(light.near(t, light.known))
        covered = _outshines(light.pixel_ratios(t, around), GIVEN)
        light = light.without(t, covered)
        left[t] = False
    return sample.without(sample.there & ~light.there.reshape(sample.there.shape))


def _brighter(light: Light, asked: Array) -> Array:
    """T: how much more light most bands of a date have than before it and than after it; 0 where one
    has less, and at the ends: seasons begin and end there.
    """
    answer = np.zeros(len(asked))
    for t in np.flatnonzero(asked).tolist():
        sides = light.near(t, light.known)
        if all(len(side) for side in sides):
            each = [np.median(light.ratios(t, side), axis=0) for side in sides]
            more = np.minimum(*each)
            if more.min() > TAKEN:
                answer[t] = np.quantile(more, 1 - MOST_BANDS, method="lower")
    return answer


def _outshines(more: Array, least: float) -> Array:
    """Whether most bands (the first axis) have so much more light, and none has less."""
    most = np.mean(more > least, axis=0) > MOST_BANDS
    return np.asarray(most & np.all(more > TAKEN, axis=0))

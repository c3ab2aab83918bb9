"""A screen by time, before anything is learned: what is far brighter than the dates around it say is
cloud, and what is far darker shadow, however much of its date it covers.

A fit by itself takes what most pixels of a date show for its ground. Here every date is explained by
what the *other* dates say of its pixels, in a few components, and by the explanation that leaves the
fewest pixels darker than it: clouds are brighter than the ground, and hardly anything is darker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .factors import Factored, Kinds, learned, without_itself
from .ground import FEW, MAD, Sample, smallest
from .light import TINY
from .mixed import IN_SHADOW, LEFT_BY_SHADOW

COMPONENTS = 3  # a mean, the seasons and a trend; with more, clouds would be components
DATES_EACH = 2  # dates, at least, that a component needs
ROUNDS = 3  # of learning, and leaving clouds out
LEARNING = 15  # rounds of learning in each: the components need not be exact
# Standard deviations: a cloud is far above the ground in one band and above it in half of them, and
# below it in none. Leaves are brighter in some bands and darker in others. But so is haze over leaves,
# which are brighter than it in the infrared: what is far above in one band, and above in most, may be cloud.
ONE_BAND, HALF_OF_BANDS, NO_BAND = 6.0, 3.0, -1.0
MANY = (
    1 / 3
)  # of what was seen of a date is cloud: a fit may break down, at one half it must
# Of what clouds left of a date lies in a shadow: with less, a robust fit does better by itself.
LARGE = 0.2
MOST = 0.5  # with more, the shadow may have been taken for ground
CLEAREST = 0.25  # of the dates tell how small the noise is
NEAR = 3  # dates from which a date may begin
LOOKED_AT = 800  # pixels that decide how a date is explained
BIWEIGHT = 4.0  # standard deviations beyond which a pixel has no weight
# The threshold of each later pass over a date, in that one.
NARROWER = (8.0, 4.0, 2.0, 1.0)
# A pixel that is darker than a ground counts so much against it: shadows are fewer than clouds. With
# more, large shadows would be the ground.
DARKER = 2.0
LEAST_FREEDOM = 1e-3  # of the mean variance: dates may differ a little in any direction
# Of a date lies below its ground, at least, if that is to tell its noise.
ENOUGH_BELOW = 0.02
LEAST_NOISE = 0.01  # of the usual one: what is below the ground may be next to nothing


class Seen(NamedTuple):
    """Values, where they were seen, and where they are believed."""

    Y: Array  # T x bands x n
    there: Array  # T x n
    believed: Array  # T x n


class Dated(NamedTuple):
    """What is to be explained of a date."""

    y: Array  # bands x n
    there: Array  # n
    L: Array  # bands x n x r: what the other dates say of the pixels


class Screened(NamedTuple):
    """What a screen says of a sample."""

    left: Sample  # without clouds, on dates with much of them
    # T x lines x width: what is far darker, on dates of which a part lies in a shadow
    shadow: Array
    maybe: Array  # T x lines x width: all that may be cloud


def components(dates: int) -> int:
    """The rank to screen so many dates with."""
    return min(COMPONENTS, max(1, (dates - 1) // DATES_EACH))


def screened(sample: Sample, days: Array, lenient: bool = False) -> Screened:
    """A sample without what is far brighter than its time; to a lenient screen, so is all that may be
    cloud.
    """
    T, bands = sample.Y.shape[:2]
    Y = sample.Y.reshape(T, bands, -1).astype(np.float64)
    there = sample.there.reshape(T, -1)
    known = there.mean(1) > FEW
    if not known.any():
        return Screened(sample, *np.zeros((2, *sample.there.shape), bool))
    rank = components(int(known.sum()))
    clouds = np.zeros(there.shape, bool)
    least = smallest(sample.Y)
    for _ in range(ROUNDS):
        believed = there & ~clouds
        model = learned(Y, believed, rank, least, rounds=LEARNING)
        usable = known & (believed.mean(1) > FEW)
        seen = Seen(Y, there, believed)
        ground = _explained(seen, model, days, usable)
        sure, maybe = _bright(seen, ground, least)
        clouds = maybe if lenient else sure
    # Only now: beside clouds that are still taken for ground, the ground is dark.
    shadow = _in_part(_shaded(seen, ground, least), there & ~clouds)
    shape = sample.there.shape
    clouds = _of_many(sample, clouds.reshape(shape))
    return Screened(sample.without(clouds), shadow.reshape(shape), maybe.reshape(shape))


def _explained(
    seen: Seen,
    model: Factored,
    days: Array,
    usable: Array,
) -> Array:
    """The ground of every date by the others, T x bands x n."""
    Y, there, believed = seen
    T, _, n = Y.shape
    L = without_itself(Y, Kinds.of(believed), model)
    some = slice(None, None, max(1, n // LOOKED_AT))
    noise = np.sqrt(np.quantile(model.variance[usable], CLEAREST, axis=0))[:, None]
    ground = np.empty(Y.shape)
    for t in range(T):
        others = np.flatnonzero(usable & (np.arange(T) != t))
        x = model.R[t]
        if there[t].any() and len(others):
            date = Dated(Y[t, :, some], there[t, some], L[t, :, some])
            x = _best(date, model, others, np.abs(days[others] - days[t]), x, noise)
        ground[t] = L[t] @ x
    return ground


def _best(
    date: Dated,
    model: Factored,
    others: Array,
    apart: Array,
    own: Array,
    noise: Array,
) -> Array:
    """The factors of a date: robust least squares from the mean of the others, from those near it,
    and from all of its own pixels; the one that explains it best.
    """
    R = model.R[others]
    weight = 1 / np.mean(model.variance[others] / noise[:, 0] ** 2, axis=1)
    weight /= weight.sum()
    mean = weight @ R
    covariance = ((R - mean) * weight[:, None]).T @ (R - mean)
    rank = len(mean)
    least = LEAST_FREEDOM * np.trace(covariance) / rank + 1e-30
    covariance += least * np.eye(rank)
    near = R[np.argsort(apart, kind="stable")[:NEAR]]
    tried = [_date(date, x, covariance, noise) for x in (mean, *near, own)]
    return max(tried, key=lambda x: _merit(date, x, noise))


def _merit(
    date: Dated,
    x: Array,
    noise: Array,
) -> float:
    """How many pixels this ground explains, less those that are darker: a cloud is brighter."""
    ground = date.L @ x
    away = (date.y - ground) / (BIWEIGHT * noise)
    explained = np.maximum(1 - np.max(np.abs(away), axis=0) ** 2, 0) ** 2
    darker = (away.min(0) < -1) & (np.median(away, axis=0) < 0)
    against = np.where(_as_shadow(date.y, ground), 1.0, DARKER)
    return float(np.sum((explained - against * darker)[date.there]))


def _as_shadow(y: Array, ground: Array) -> Array:
    """n: pixels that have lost as much of the light in the brightest band as in others, or more. The
    ground beside a cloud that is taken for it is darkest where ground is dark.
    """
    left = y / np.maximum(ground, TINY)
    brightest = int(np.argmax(np.median(ground, axis=1)))
    return np.asarray(np.all(left >= LEFT_BY_SHADOW * left[brightest], axis=0))


def _date(
    date: Dated,
    start: Array,
    covariance: Array,
    noise: Array,
) -> Array:
    """The factors of a date by Tukey's biweight, from a start that is believed this far."""
    y, there, L = date
    precision = np.linalg.inv(covariance)
    x = start
    for scale in _scales(L, covariance, noise):
        away = np.abs(y - L @ x) / (BIWEIGHT * scale)
        within = np.maximum(1 - away.max(0) ** 2, 0)
        w = np.where(there, within**2, 0)
        weighed = (L * (w / noise**2)[..., None]).reshape(-1, len(x)).T
        gram, right = weighed @ L.reshape(-1, len(x)), weighed @ y.ravel()
        x = np.linalg.solve(gram + precision, right + precision @ start)
    return x


def _scales(
    L: Array,
    covariance: Array,
    noise: Array,
) -> Iterator[Array]:
    """Of each pass: what is uncertain of the start, then down to the noise."""
    unsure = np.sqrt(noise**2 + np.sum((L @ covariance) * L, axis=-1))
    yield unsure
    for narrower in NARROWER:
        yield np.minimum(narrower * noise, unsure)


def _bright(seen: Seen, ground: Array, least: float) -> tuple[Array, Array]:
    """T x n: pixels of each date that are above the ground as clouds are; and as haze may be."""
    times = _times(seen, seen.Y - ground, least)
    far = np.any(times > ONE_BAND, axis=1) & seen.there
    above = np.mean(times > HALF_OF_BANDS, axis=1) >= 0.5
    nowhere_below = np.all(times > NO_BAND, axis=1)
    mostly = np.median(times, axis=1) > 0
    return far & above & nowhere_below, far & mostly


def _shaded(seen: Seen, ground: Array, least: float) -> Array:
    """T x n: pixels that are below the ground as shadows are, in the band in which it is brightest:
    haze, which adds light to a shadow, adds least there.
    """
    levels = [np.median(band[seen.believed]) for band in np.moveaxis(ground, 1, 0)]
    b = int(np.argmax(levels))
    light, below = ground[:, b], (ground - seen.Y)[:, b]
    far = _times(seen, below[:, None], least)[:, 0] > IN_SHADOW
    lost = (light > 0) & (below > (1 - LEFT_BY_SHADOW) * light)
    return np.asarray(far & lost & seen.there)


def _in_part(shaded: Array, left: Array) -> Array:
    """Shadows on dates that clouds left a part of in them, too large for a robust fit; but not most
    of it: whether a date lies in a shadow as a whole, `shades` tells.
    """
    shaded = shaded & left
    share = shaded.sum(1) / np.maximum(left.sum(1), 1)
    part = (share > LARGE) & (share < MOST)
    return shaded & part[:, None]


def _times(seen: Seen, away: Array, least: float) -> Array:
    """Distances on one side of the ground in standard deviations: what is on the other side tells
    these.
    """
    T, bands = away.shape[:2]
    enough = ENOUGH_BELOW * seen.there.shape[1]
    noise = np.empty((T, bands, 1))
    for b in range(bands):
        usual = MAD * float(np.median(np.abs(away[:, b][seen.believed])))
        noise[:, b, 0] = [
            _below(away[t, b][seen.there[t]], usual, enough) for t in range(T)
        ]
    return np.asarray(away / np.maximum(noise, least))


def _below(
    away: Array,
    usual: float,
    enough: float,
) -> float:
    """The noise of a date: clouds are above, so what is below the ground tells it; of shadows, turned
    around.
    """
    below = -away[away < 0]
    if len(below) < enough:
        return usual
    return max(min(usual, MAD * float(np.median(below))), LEAST_NOISE * usual)


def _of_many(sample: Sample, clouds: Array) -> Array:
    """The clouds of dates on which a robust fit could take them for ground. Elsewhere it does better
    with them: many outliers tell it how small the noise is, missing values do not.
    """
    left = sample.without(clouds).share
    most = left < (1 - MANY) * sample.share
    return clouds & most[:, None, None]

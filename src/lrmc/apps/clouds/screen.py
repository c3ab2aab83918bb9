"""A screen by time, before anything is learned: what is far brighter than the dates around it say is
cloud, however much of its date it covers.

A fit by itself takes what most pixels of a date show for its ground. Here every date begins at what
the others say about it, in a few components that no single date can have for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...linalg import Factors
from ...weights import Array
from .ground import FEW, Ground, Sample, fit_pixels, modeled, prior
from .seasons import Seasons, seasons

COMPONENTS = 3  # a mean, the seasons and a trend; with more, clouds would be components
DATES_EACH = 2  # dates, at least, that a component needs
ROUNDS = 2  # of dates and pixels in turn
# Standard deviations above the ground, in every band and in one: a cloud. Leaves and snow are
# brighter in some bands only, ground that changed in one.
EVERY_BAND, ONE_BAND = 3.0, 6.0
MANY = (
    1 / 3
)  # of what was seen of a date is cloud: a fit may break down, at one half it must
BIWEIGHT = 4.0  # standard deviations beyond which a pixel has no weight
# The threshold of each later pass over a date, in that one.
NARROWER = (8.0, 4.0, 2.0, 1.0)
LEAST_FREEDOM = 1e-3  # of the mean variance: dates may differ a little in any direction


def components(dates: int) -> int:
    """The rank to screen so many dates with."""
    return min(COMPONENTS, max(1, (dates - 1) // DATES_EACH))


def screened(
    sample: Sample, X: Factors, days: Array, threads: int | None = None
) -> Sample:
    """The sample without what is far brighter than its time; X is a fit of few components to it."""
    share = sample.share
    clouds = np.zeros(sample.there.shape, bool)
    for _ in range(ROUNDS):
        found = seasons(X.R, days, share, X.L.T @ X.L / len(X.L), FEW)
        ground = prior(sample, X.L, X.R, found, share <= FEW)
        ground = replace(ground, R=_dates(sample, X, ground))
        L = fit_pixels(sample.Y, sample.there, ground, threads).astype(np.float64)
        X = Factors(L, ground.R)
        ground = prior(sample, X.L, X.R, found, share <= FEW)
        clouds = _bright(sample, modeled(L, sample.Y.shape, ground), ground)
        share = sample.without(clouds).share
    return sample.without(_of_many(sample, clouds))


def _bright(sample: Sample, model: Array, ground: Ground) -> Array:
    """Pixels of each date that are above the ground in all bands."""
    above = (sample.Y - model) / ground.deviation[:, None, None]
    every = np.all(above > EVERY_BAND, axis=1)
    far = np.any(above > ONE_BAND, axis=1)
    return np.asarray(every & far & sample.there)


def _of_many(sample: Sample, clouds: Array) -> Array:
    """The clouds of dates on which a robust fit could take them for ground. Elsewhere it does better
    with them: many outliers tell it how small the noise is, missing values do not.
    """
    left = sample.without(clouds).share
    most = left < (1 - MANY) * sample.share
    return clouds & most[:, None, None]


def _dates(sample: Sample, X: Factors, ground: Ground) -> Array:
    """The factors of each date by robust least squares that begins at what the others say."""
    found = ground.seasons
    T, bands = sample.Y.shape[:2]
    Y = sample.Y.reshape(T, bands, -1).astype(np.float64)
    there = sample.there.reshape(T, -1)
    usual = _usual_error(X, found, ground.estimated)
    by_band = X.L.reshape(bands, -1, X.L.shape[1])
    R = found.expected.copy()
    for t in np.flatnonzero(there.any(1)):
        covariance = usual * found.spread[t] ** 2
        R[t] = _date(
            Y[t],
            there[t],
            by_band,
            found.expected[t],
            covariance,
            ground.deviation,
        )
    return R


def _usual_error(X: Factors, found: Seasons, estimated: Array) -> Array:
    """The covariance of what the others say about a date, r x r; dates that are far off count
    less.
    """
    errors = ((X.R - found.expected) / found.spread[:, None])[~estimated]
    squares = np.sum((errors @ X.L.T) ** 2, axis=1)
    w = 1 / (1 + squares / max(float(np.median(squares)), 1e-300))
    covariance = (errors * w[:, None]).T @ errors / w.sum()
    rank = len(covariance)
    least = LEAST_FREEDOM * np.trace(covariance) / rank + 1e-30
    return covariance + least * np.eye(rank)


def _date(
    y: Array,
    there: Array,
    L: Array,
    expected: Array,
    covariance: Array,
    sd: Array,
) -> Array:
    """The factors of a date, bands x pixels, from L, bands x pixels x r."""
    precision = np.linalg.inv(covariance)
    noise = sd[:, None]
    x = expected
    for scale in _scales(L, covariance, noise):
        away = np.abs(y - L @ x) / (BIWEIGHT * scale)
        within = np.maximum(1 - away.max(0) ** 2, 0)
        w = np.where(there, within**2, 0)
        weighed = L * (w / noise**2)[..., None]
        gram = np.einsum("bni,bnj->ij", weighed, L, optimize=True)
        right = np.einsum("bni,bn->i", weighed, y)
        x = np.linalg.solve(gram + precision, right + precision @ expected)
    return x


def _scales(L: Array, covariance: Array, noise: Array) -> Iterator[Array]:
    """Of each pass: what is uncertain of the expectation, then down to the noise."""
    unsure = np.sqrt(noise**2 + np.sum((L @ covariance) * L, axis=-1))
    yield unsure
    for narrower in NARROWER:
        yield np.minimum(narrower * noise, unsure)

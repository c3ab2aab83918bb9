"""Factors that belong to dates: what the dates around one say about it.

A date that nobody saw is known from the dates before and after it, and from the same season of
other years. How far each reaches is chosen by leaving out one date at a time, which costs nothing:
all is done on T x r numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...weights import Array

YEAR = 365.25  # days
SEASON = 0.6  # how alike days of the year are: about five weeks
FAR_OFF = (
    6.0  # times the usual distance from what the others say: beyond, no ground is shown
)
FEWEST = 4  # dates to learn from
LEAST_SEEN = 0.03  # a share of a date that is smaller counts as this
USUAL = 3.0  # times the usual distance: a date this far off counts half
ROUNDS = 3  # of leaving out dates that are far off


@dataclass(frozen=True, eq=False)
class Seasons:
    """What the other dates say about each one."""

    expected: Array  # T x r
    spread: (
        Array  # T: how uncertain that is, relative to other dates; more so at the ends
    )
    distance: (
        Array  # T: from it, in units of what is usual; NaN where a date was not seen
    )
    reach: float  # days; infinite: the mean of all dates is all that is known
    seasonal: float  # the share of what comes back every year
    days: Array  # T

    @property
    def far_off(self) -> Array:
        """Dates that show something else than the ground, or changed it."""
        return np.nan_to_num(self.distance) > FAR_OFF


def seasons(
    R: Array,
    days: Array,
    share: Array,
    metric: Array,
    least: float = 0.0,
) -> Seasons:
    """What to expect of each date from the others: interpolation with a covariance in time, for
    each column of R.

    `share` says how much of each date was seen: the less, the less it counts, and not at all up to
    `least`. `metric` is L'L / n: with it, distances are those of pictures. Dates that are far from
    what the others say count less, too.
    """
    known = share > least
    days = np.asarray(days, np.float64)
    R = R.astype(np.float64)
    ridge = 1e-9 * np.trace(metric) / len(metric) + 1e-300  # also where all is 0
    root = np.linalg.cholesky(metric + ridge * np.eye(len(metric)))
    seen = np.maximum(share, LEAST_SEEN)
    some = known.copy()
    doubt = 1 / seen**2
    best = _mean_of(R, days, some)
    # Dates that are far off are left out of what others are judged by.
    for _ in range(ROUNDS):
        if some.sum() < FEWEST:
            return best
        tried = [_mean_of(R, days, some)]
        tried += [
            _interpolated(R, days, some, doubt, *kind) for kind in _kinds(days[some])
        ]
        distances = [np.linalg.norm((R - one.expected) @ root, axis=1) for one in tried]
        at = int(np.argmin([np.median(distance[some]) for distance in distances]))
        relative = distances[at] / tried[at].spread
        usual = max(
            float(np.median(relative[some])), 1e-12 * float(np.linalg.norm(root))
        )
        best = replace(tried[at], distance=np.where(known, relative / usual, np.nan))
        some = known & ~best.far_off
        doubt = (1 + (np.nan_to_num(best.distance) / USUAL) ** 2) / seen**2
    return best


def _mean_of(R: Array, days: Array, some: Array) -> Seasons:
    mean = np.median(R[some], axis=0) if some.any() else np.zeros(R.shape[1])
    T = len(R)
    unknown = np.full(T, np.nan)
    return Seasons(
        np.tile(mean, (T, 1)), np.ones(T), unknown, np.inf, seasonal=0.0, days=days
    )


def _kinds(days: Array) -> Iterator[tuple[float, float, float]]:
    """Reach, share of the seasons, and share of noise to try."""
    gap = max(float(np.median(np.diff(np.sort(days)))), 1e-6)
    several = np.ptp(days) > 1.5 * YEAR
    for reach in (2 * gap, 6 * gap, 20 * gap):
        for seasonal in (0.0, 0.5, 0.9) if several else (0.0,):
            for noise in (0.03, 0.1, 0.3):
                yield reach, seasonal, noise


def _interpolated(
    R: Array,
    days: Array,
    some: Array,
    doubt: Array,
    reach: float,
    seasonal: float,
    noise: float,
) -> Seasons:
    between = days[:, None] - days[some]
    near = np.exp(-np.abs(between) / reach)
    yearly = np.exp(-2 * (np.sin(np.pi * between / YEAR) / SEASON) ** 2)
    K = (1 - noise) * ((1 - seasonal) * near + seasonal * yearly)
    mean = np.median(R[some], axis=0)
    inverse = np.linalg.inv(K[some] + np.diag(noise * doubt[some]))
    weighed = inverse @ (R[some] - mean)
    expected = mean + K @ weighed
    # Each without itself, in closed form.
    expected[some] = R[some] - weighed / np.diag(inverse)[:, None]
    variance = 1 - np.einsum("ti,ij,tj->t", K, inverse, K)
    variance[some] = 1 / np.diag(inverse)
    deviation = np.sqrt(np.maximum(variance, 1e-9))
    unknown = np.full(len(R), np.nan)
    return Seasons(expected, deviation, unknown, reach, seasonal, days)

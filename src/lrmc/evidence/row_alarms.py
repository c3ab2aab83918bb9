"""Which rows are anomalous: a limit for their distance from the model that good rows exceed with a
stated probability.

The distance of a row is the root mean square of its residuals in units of the noise, so its square
is a mean of k squares. The cube root of such a mean is nearly Gaussian (Wilson and Hilferty), with
a variance that falls as 1 / k. Center and spread are taken from the rows below the median alone:
anomalies are above it, however many (up to a half) and however far.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..weights import Array

POWER = 2 / 3  # of a distance: the cube root of its square
ONE_SIGMA = NormalDist().cdf(-1)  # of good rows lie below the center less one deviation


class RowLimit(NamedTuple):
    """The distances of good rows, to the power 2/3: where they center, and how they vary."""

    center: float
    spread: float  # of a row with one observation

    def at(self, observed: Array, rate: float) -> Array:
        """The distance that good rows with so many observations exceed with this probability."""
        deviations = NormalDist().inv_cdf(1 - rate)
        wide = self.spread / np.sqrt(np.maximum(observed, 1))
        return np.asarray((self.center + deviations * wide) ** (1 / POWER))


def row_limit(distance: Array, observed: Array) -> RowLimit:
    """From rows of which more than half are good; those without observations do not count."""
    seen = observed > 0
    if not seen.any():
        return RowLimit(1.0, 0.0)
    u, k = distance[seen] ** POWER, np.sqrt(observed[seen])
    center = float(np.median(u))
    # what lies below the center, in units of each row's own spread, is one half of a Gaussian
    low = np.quantile((u - center) * k, ONE_SIGMA)
    return RowLimit(center, max(-float(low), 0.0))

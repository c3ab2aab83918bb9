"""Thresholds of the closed loop: the common one falls with the residuals of a sample, and rows and
columns that fall behind have wider ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .._rows import equal
from ..linalg import Factors, quantiles
from ..observations.base import Sample
from ..weights import Array

# the quantile of |residual| that is taken for good entries, whatever the outliers ...
LOW = 0.3
# ... and in a second run, where they may be more than 0.7 of the entries
FEW_GOOD = 0.15
DEVIATION = 0.385  # that quantile for Gaussian residuals of standard deviation 1
# the threshold follows this multiple of it: 1.5 standard deviations for Gaussian errors
WIDEST = 4.0
# of the inliers: what is above may be outliers that are still counted among them
HIGH = 0.9
# times that quantile is as wide as a threshold need be; with Gram matrices, less
ABOVE_HIGH = {True: 8.0, False: 12.0}
FASTEST = 0.1  # a threshold falls at most to this part of the one before
ROUNDING = 64  # times the rounding of the data: residuals below are not looked at
FAR = 4.0  # a threshold widened by more than this marks a row or column as far behind
# of the rows: if more are far behind, it is the others that are odd, and all teach
FEW_BEHIND = 0.2
# per step: thresholds of rows left behind, and of those that have caught up
WIDEN, NARROW = 1.5, 2.0
# only where the median entry is outside: a row that really has many outliers is left alone ...
HALF = 0.5
BEHIND = 0.75  # ... and where far fewer entries are inside than typically
SLOWEST, DECAY = 0.8, 0.4  # how fast thresholds fall
# oversampling above which they fall fastest, with and without Gram matrices
NEEDED = {True: 25.0, False: 40.0}


@dataclass
class Side:
    """Thresholds of the columns, as multiples of the common one; of rows, what is to
    know of all of them.
    """

    observed: Array
    multiple: Array
    widest: float = 1.0  # of the multiples
    far: float = 0.0  # the fraction that is far behind

    @classmethod
    def of(cls, observed: Array) -> Side:
        """All alike."""
        return cls(observed, np.ones(len(observed)))

    def follow(self, inliers: Array, typical: float, shrink: float) -> None:
        """Widen where far fewer entries than typical are inliers; narrow the others
        again. Call once per step.
        """
        self.multiple = followed(self.observed, inliers, self.multiple, typical, shrink)
        self.widest = float(self.multiple.max(initial=1.0))
        self.far = float((self.multiple > FAR).mean())

    def thresholds(self, zeta: float) -> tuple[Array, Array]:
        """See `thresholds`."""
        return thresholds(self.multiple, zeta, self.widest)

    def teachers(self, F: Array) -> Array:
        """See `teachers`."""
        return teachers(F, self.multiple, self.widest, self.far)


def followed(
    observed: Array,
    inliers: Array,
    multiple: Array,
    typical: float,
    shrink: float,
) -> Array:
    """Multiples of the threshold: wider where far fewer entries than typical are inliers."""
    seen = np.maximum(observed, 1)
    spread = np.sqrt(typical * (1 - typical) / seen)
    behind = (inliers / seen < min(BEHIND * typical, HALF) - 2 * spread) & (
        observed > 0
    )
    return np.where(behind, multiple * WIDEN / shrink, np.maximum(1, multiple / NARROW))


def thresholds(multiple: Array, zeta: float, widest: float) -> tuple[Array, Array]:
    """The threshold of each row or column, and where it is widened."""
    if widest == 1:
        return equal(zeta, len(multiple)), equal(0.0, len(multiple))
    return zeta * multiple, multiple > 1


def teachers(F: Array, multiple: Array, widest: float, far: float) -> Array:
    """The factor without the rows far behind: they learn, but their clipped outliers
    must not teach the others.
    """
    if widest <= FAR or far >= FEW_BEHIND:
        return F
    return np.where(multiple[:, None] > FAR, F.dtype.type(0), F)


@dataclass
class Falling:
    """The threshold: it follows the residuals of a sample, and falls no faster than the
    entries allow.
    """

    some: Sample  # its rows are counted among those that have an entry in it
    good: float
    oversampling: float
    grams: bool
    rounding: float
    low: float = field(default=np.inf, init=False)

    def after(self, zeta: float, Ls: Array, R: Array, inliers: float) -> float:
        """The next threshold, where the rows of the sample are at Ls."""
        size = self.some.sizes(Factors(Ls, R))
        low, high = quantiles(size, (self.good, HIGH * inliers))
        self.low = low
        least = max(self.decay(inliers) * zeta, WIDEST * low)
        return max(
            min(least, ABOVE_HIGH[self.grams] * high), FASTEST * zeta, self.rounding
        )

    def decay(self, inliers: float) -> float:
        """How fast the threshold may fall: slower where samples are few for the rank."""
        needed = NEEDED[self.grams] / max(inliers, 0.1) ** (2 if self.grams else 1)
        return min(max(DECAY * math.sqrt(needed / self.oversampling), DECAY), SLOWEST)

"""What residuals are made of: good ones with tails as heavy as they like, and gross errors.

A good residual, in units of its scale, follows the generalized t distribution (McDonald and Newey,
1988), whose density is proportional to (1 + |x|^p / q)^-(q + 1 / p): p = 2 is Student's, a large q
the Gaussian (p = 2) and Laplace's (p = 1). A gross error is as likely to be large as to be small,
or more so: its density does not fall up to some width. That good ones fall and gross ones do not is
what tells the two apart. With Gaussian noise every heavy tail would be gross errors, and intervals
without them too short.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from .. import _kernels
from .._scipy import special
from ..weights import Array

POWERS = (1.0, 1.5, 2.0, 3.0)  # p: how sharp the peak is
WEIGHTS = (0.5, 0.8, 1.2, 1.8, 3.0, 6.0, 500.0)  # q: from Cauchy's tails to light ones
FEW, MANY = 2000, 10_000  # residuals that are looked at
BEST = 4  # shapes that are looked at again
FINE = (0.55, 0.75, 1.35, 1.8)  # times q: the best of them once more
EARNED = 10.0  # in logarithms of the likelihood of all that are looked at
FIRST_SHARE = 0.05  # of gross errors, where the search begins
MOST_SHARE = 0.6
BEGINS = (0.0, 1 / 3, 2 / 3)
# of the residuals are within the width that gross errors are uniform in
NEARLY_ALL = 0.999
# of gross errors are wider than that: a single huge one must not make the others improbable
BEYOND = 0.05
# of gross errors: fewer cannot be told from the tails of good ones, and are counted among these;
# intervals then hold at most so many more
TELLING = 0.02
# times the size that USUALLY good errors stay below: gross ones that do not reach so far cannot be
# told from the tails of good ones (3 and 4 give the same on 80 tables, and believe ratings at random)
APART, USUALLY = 2.0, 0.9
ROUNDS = 150
SETTLED = 1e-5
ROUGHLY = 1e-3  # the same, where all shapes are tried to find the few that are looked at again
TINY = 1e-300
LARGEST = 1e30  # a power, as single precision holds it


class Shape(NamedTuple):
    """Of the generalized t distribution."""

    p: float
    q: float

    def log_density(self, residual: Array, scale: Array) -> Array:
        """Of residuals with these scales."""
        ratio = np.abs(residual) / scale
        return self.log_constant - np.log(scale) + self.log_fall(ratio**self.p)

    @property
    def log_constant(self) -> float:
        """Of the density where the residual is 0 and the scale 1."""
        p, q = self
        return math.log(p / 2) - math.log(q) / p - float(special.betaln(1 / p, q))

    def log_fall(self, power: Array) -> Array:
        """By how much it falls from there to residuals whose p-th powers these are."""
        return np.asarray(-(self.q + 1 / self.p) * np.log(1 + power / self.q))

    def beyond(self, ratio: Array) -> Array:
        """How likely a residual is larger than so many scales, on either side."""
        power = ratio**self.p
        return np.asarray(
            1 - special.betainc(1 / self.p, self.q, power / (self.q + power))
        )


class Tails(NamedTuple):
    """A mixture of good residuals and gross errors."""

    shape: Shape
    unit: float  # what the scales of good residuals are multiplied by
    # shares of errors that are uniform from each of BEGINS times the width up to the width
    gross: tuple[float, ...]
    width: float
    relative: bool  # whether the width is in units of the scales, or of the data
    likelihood: float = -math.inf  # the mean of its logarithm

    @property
    def share(self) -> float:
        """Of gross errors."""
        return sum(self.gross)

    def outlying(self, residual: Array, scale: Array) -> Array:
        """How likely residuals of these scales are gross errors."""
        density = np.exp(self.shape.log_density(residual, self.unit * scale))
        densities = _gross_densities(residual, self._widths(scale))[: len(self.gross)]
        gross = np.asarray(self.gross) @ densities
        total = (1 - self.share) * density + gross
        return np.asarray(gross / np.maximum(total, TINY))

    def is_apart(self, residual: Array, scale: Array) -> bool:
        """Whether gross errors reach far beyond good ones, of residuals with these scales.

        Errors that are no larger than others are by chance (of numbers that no other tells, between
        two limits) were taken for gross where the density hardly falls, and intervals held 75 %."""
        ratio, good = np.abs(residual) / scale, 1 - self.outlying(residual, scale)
        order = np.argsort(ratio)
        below = np.cumsum(good[order])
        usual = ratio[order][np.searchsorted(below, USUALLY * below[-1])]
        return bool(
            self.width > APART * usual * (1 if self.relative else np.median(scale))
        )

    def good_beyond(self, threshold: Array, scale: Array) -> Array:
        """How likely entries of these scales are good, and farther off than their thresholds."""
        ratio = threshold / (self.unit * scale)
        return np.asarray((1 - self.share) * self.shape.beyond(ratio))

    def gross_within(self, threshold: Array, scale: Array) -> Array:
        """How likely entries of these scales are gross errors, and no farther off than their
        thresholds.
        """
        begins = np.array(BEGINS[: len(self.gross)])[:, None]
        ratio = threshold / self._widths(scale)
        within = np.clip(ratio - begins, 0, 1 - begins) / (1 - begins)
        return np.asarray((1 - BEYOND) * (np.asarray(self.gross) @ within))

    def gross_from(self, residual: Array, scale: Array, start: float) -> Array:
        """The density of gross errors beyond so many scales, in multiples of that, at these
        residuals; 0 where there are none.
        """
        if self.share == 0:
            return np.zeros(len(residual))
        densities = _gross_densities(residual, self._widths(scale))[: len(self.gross)]
        density = 2 * start * scale * (np.asarray(self.gross) @ densities)
        beyond = self.share - self.gross_within(start * scale, scale)
        return np.asarray(density / np.maximum(beyond, TINY))

    def _widths(self, scale: Array) -> Array:
        return self.width * (scale if self.relative else np.ones_like(scale))


def fit_tails(residual: Array, scale: Array) -> Tails:
    """The mixture under which residuals of these scales are most likely.

    All shapes are tried on a few residuals, and the best of them on many. Gross errors that are
    rarely small have to earn it: a hole in the middle of theirs can be filled with heavier tails of
    good ones, and the two are hardly told apart.
    """
    units = (False, True) if np.ptp(scale) > 0 else (False,)
    few, many = (
        {
            relative: Some.of(*thinned(residual, scale, most), relative)
            for relative in units
        }
        for most in (FEW, MANY)
    )
    best: list[Tails] = []
    for begins in (1, len(BEGINS)):
        first = [
            _fit(few[relative], Shape(p, q), begins, ROUGHLY)
            for relative, p, q in product(units, POWERS, WEIGHTS)
        ]
        for x in sorted(first, key=_likelihood)[-BEST:]:
            best.append(_fit(many[x.relative], x.shape, begins))
    count = len(many[False].ratio)
    found = max(best, key=lambda fit: _worth(fit, count))
    (p, q), some, begins = found.shape, many[found.relative], len(found.gross)
    finer = (_fit(some, Shape(p, x * q), begins) for x in FINE)
    return max((found, *finer), key=_likelihood)


def _worth(fit: Tails, count: int) -> float:
    """The likelihood of so many residuals, less what a hole costs."""
    return count * fit.likelihood - EARNED * (len(fit.gross) > 1)


def _likelihood(fit: Tails) -> float:
    return fit.likelihood


def thinned(residual: Array, scale: Array, most: int) -> tuple[Array, Array]:
    """At most so many of them, evenly."""
    step = -(-len(residual) // most)
    return tuple(np.asarray(x[::step], np.float64) for x in (residual, scale))  # type: ignore[return-value]


class Some(NamedTuple):
    """Residuals in units of their scales and of a typical one, and how likely gross errors of any
    begin are there.
    """

    ratio: Array
    densities: Array  # (len(BEGINS), n)
    typical: float
    width: float
    level: float  # the mean logarithm of the units
    relative: bool

    @classmethod
    def of(cls, residual: Array, scale: Array, relative: bool) -> Some:
        """Where gross errors are in units of the scales, or of the data."""
        ratio = np.abs(residual) / scale
        typical = float(np.median(ratio)) or float(np.mean(ratio)) or 1.0
        widths = scale if relative else np.ones_like(scale)
        width = float(np.quantile(np.abs(residual) / widths, NEARLY_ALL))
        unit = typical * scale
        densities = _gross_densities(residual, (width or 1.0) * widths) * unit
        return cls(
            ratio / typical,
            densities.astype(np.float32),
            typical,
            width,
            float(np.log(unit).mean()),
            relative,
        )


def _fit(some: Some, shape: Shape, begins: int, settled: float = SETTLED) -> Tails:
    """The same for good residuals of this shape, and gross errors of the first of BEGINS:
    expectation-maximisation.
    """
    if not some.ratio.any():
        return Tails(shape, 1.0, (0.0,) * begins, 1.0, some.relative, math.inf)
    p, q = shape
    # single precision: logarithms are a third of the time there
    power = np.minimum(some.ratio**p, LARGEST).astype(np.float32)
    gross = np.full(begins, FIRST_SHARE / begins)
    times, likelihood = _kernels.tails(
        power,
        some.densities[:begins],
        gross=gross,
        p=p,
        q=q,
        peak=math.exp(shape.log_constant),
        most_share=MOST_SHARE,
        settled=settled,
        rounds=ROUNDS,
    )
    return Tails(
        shape,
        some.typical * times,
        tuple(gross.tolist()),
        some.width,
        some.relative,
        likelihood - some.level,
    )


def _gross_densities(residual: Array, widths: Array) -> Array:
    """Uniform from each of BEGINS up to the width, and falling as a square beyond:
    (len(BEGINS), n).
    """
    ratio = np.abs(residual) / widths
    begins = np.array(BEGINS)[:, None]
    within = (1 - BEYOND) / (1 - begins) * (ratio >= begins)
    return np.asarray(
        np.where(ratio > 1, BEYOND / np.maximum(ratio, 1) ** 2, within) / (2 * widths)
    )

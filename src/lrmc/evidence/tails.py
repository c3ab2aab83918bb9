"""What residuals are made of: good ones with tails as heavy as they like, and gross errors.

A good residual, in units of its scale, follows Student's distribution, whose freedom says how heavy
the tails are. A gross error is as likely to be large as to be small, or more so: its density does
not fall up to some width. That good ones fall and gross ones do not is what tells the two apart.
With Gaussian noise every heavy tail would be gross errors, and intervals without them too short.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ..weights import Array

# freedoms that are tried first: from Cauchy's tails to Gaussian ones
COARSE = (1.0, 2.0, 4.0, 10.0, 1000.0)
FINE = (0.75, 0.9, 1.0, 1.15, 1.35)  # times the best of them, afterwards
FEW, MANY = 3000, 10_000  # entries that are looked at
FIRST_SHARE = 0.05  # of gross errors, where the search begins
MOST_SHARE = 0.6
BEGINS = (0.0, 1 / 3, 2 / 3)
# of the residuals are within the width that gross errors are uniform in
NEARLY_ALL = 0.999
# of gross errors are wider than that: a single huge one must not make the others improbable
BEYOND = 0.05
ROUNDS = 100
SETTLED = 1e-5
TINY = 1e-300


class Tails(NamedTuple):
    """A mixture of good residuals and gross errors."""

    freedom: float
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
        good = (1 - self.share) * np.exp(
            _log_density(residual, self.unit * scale, self.freedom)
        )
        widths = self.width * (scale if self.relative else np.ones_like(scale))
        gross = np.asarray(self.gross) @ _gross_densities(residual, widths)
        return np.asarray(gross / np.maximum(good + gross, TINY))


def fit_tails(residual: Array, scale: Array) -> Tails:
    """The mixture under which residuals of these scales are most likely."""
    few, many = (thinned(residual, scale, most) for most in (FEW, MANY))
    first = max(
        (fit_with(*few, COARSE, relative) for relative in (False, True)),
        key=lambda fit: fit.likelihood,
    )
    return fit_with(*many, tuple(x * first.freedom for x in FINE), first.relative)


def thinned(residual: Array, scale: Array, most: int) -> tuple[Array, Array]:
    """At most so many of them, evenly."""
    step = -(-len(residual) // most)
    return tuple(np.asarray(x[::step], np.float64) for x in (residual, scale))  # type: ignore[return-value]


def fit_with(
    residual: Array, scale: Array, freedoms: tuple[float, ...], relative: bool
) -> Tails:
    """The same among these freedoms, where gross errors are in units of the scales, or
    of the data.
    """
    ratio = np.abs(residual) / scale
    typical = float(np.median(ratio)) or float(np.mean(ratio))
    if typical == 0:
        return Tails(freedoms[-1], 1.0, (0.0,) * len(BEGINS), 1.0, relative, math.inf)
    widths = scale if relative else np.ones_like(scale)
    width = float(np.quantile(np.abs(residual) / widths, NEARLY_ALL))
    densities = _gross_densities(residual, width * widths)
    fits = []
    for freedom in freedoms:
        unit, gross, likelihood = _expectation_maximisation(
            residual, scale, freedom, typical, densities
        )
        fits.append(Tails(freedom, unit, gross, width, relative, likelihood))
    return max(fits, key=lambda fit: fit.likelihood)


def _expectation_maximisation(
    residual: Array, scale: Array, freedom: float, unit: float, densities: Array
) -> tuple[float, tuple[float, ...], float]:
    """The unit of good residuals, the shares of gross errors, and the mean logarithm of
    the likelihood.
    """
    ratio, least = (residual / scale) ** 2, 1e-9 * unit
    gross = np.full(len(BEGINS), FIRST_SHARE / len(BEGINS))
    for _ in range(ROUNDS):
        good = (1 - gross.sum()) * np.exp(_log_density(residual, unit * scale, freedom))
        total = np.maximum(good + gross @ densities, TINY)
        here = good / total
        weight = here * (freedom + 1) / (freedom + ratio / unit**2)
        before, share = unit, gross
        unit = max(
            math.sqrt(float((weight * ratio).sum()) / max(float(here.sum()), TINY)),
            least,
        )
        gross = gross * (densities @ (1 / total)) / len(total)
        gross *= min(1.0, MOST_SHARE / max(gross.sum(), TINY))
        if (
            abs(unit - before) < SETTLED * unit
            and np.abs(gross - share).max() < SETTLED
        ):
            break
    return unit, tuple(gross.tolist()), float(np.log(total).mean())


def _log_density(residual: Array, scale: Array, freedom: float) -> Array:
    """Of Student's distribution."""
    constant = (
        gammaln((freedom + 1) / 2)
        - gammaln(freedom / 2)
        - 0.5 * math.log(freedom * math.pi)
    )
    return np.asarray(
        constant
        - np.log(scale)
        - (freedom + 1) / 2 * np.log1p((residual / scale) ** 2 / freedom)
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

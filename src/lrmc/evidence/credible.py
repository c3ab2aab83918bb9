"""Which entries that stand out can be called outliers, with how many false alarms among them.

Tails of good residuals may be heavy, and rows and columns differ in noise: a limit of so many
standard deviations lists good entries too. Here each residual is divided by the noise of its row
and column, the residuals of the fit tell how good ones are spread (`tails`), and the list is cut
where its expected share of good entries would exceed the rate that is allowed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..weights import Array
from .scales import line_noise
from .tails import fit_tails

RATE = 0.05  # of a list: good entries that are expected in it, at most


class Credible(NamedTuple):
    """What is left of a list."""

    kept: Array  # True for entries that stay
    false_alarms: float  # good entries that are expected among these


def credible(
    obs: Observations, X: Factors, listed: Sample, rate: float = RATE
) -> Credible:
    """Of listed entries, whose values are residuals, those that are most likely gross errors."""
    if not len(listed.values):
        return Credible(np.zeros(0, bool), 0.0)
    row_noise, col_noise = line_noise(obs, X)
    sample = obs.sample
    tails = fit_tails(
        sample.residual(X), row_noise[sample.rows] * col_noise[sample.cols]
    )
    scale = row_noise[listed.rows] * col_noise[listed.cols]
    good = 1 - tails.outlying(np.asarray(listed.values, np.float64), scale)
    order = np.argsort(good, kind="stable")
    expected = np.cumsum(good[order])
    fine = np.flatnonzero(expected <= rate * np.arange(1, len(order) + 1))
    count = int(fine[-1]) + 1 if len(fine) else 0
    kept = np.zeros(len(order), bool)
    kept[order[:count]] = True
    return Credible(kept, float(expected[count - 1]) if count else 0.0)

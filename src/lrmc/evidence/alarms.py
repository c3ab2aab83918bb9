"""Outliers that are none: how many of a list are expected to be good entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations
from .calibration import Calibration


class Alarms(NamedTuple):
    """What lies beyond a threshold, and what lies below."""

    found: int  # entries beyond it
    false: float  # of these, expected to be good
    missed: float  # gross errors that are expected below it

    @property
    def rate(self) -> float:
        """The expected share of good entries among those found; 0 where nothing is."""
        return self.false / max(self.found, 1)


def alarms(
    obs: Observations, X: Factors, calibration: Calibration, threshold: float
) -> Alarms:
    """Of all observed entries, by how likely each is a gross error. One pass over the data."""
    found, false, missed = 0, 0.0, 0.0
    for some in obs.residuals(*X):
        beyond = np.abs(some.values) > threshold
        gross = calibration.outlying(some)
        found += int(beyond.sum())
        false += float((1 - gross[beyond]).sum())
        missed += float(gross[~beyond].sum())
    return Alarms(found, false, missed)

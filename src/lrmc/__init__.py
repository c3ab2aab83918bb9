"""Robust matrix completion: recover a low-rank matrix from data with missing entries and gross outliers."""

from __future__ import annotations

from . import observations, synthetic, weights
from .metrics import relative_error
from .observations import as_observations
from .result import Iterate, Result, Status
from .schedule import Schedule
from .solve import ConvergenceWarning, iterates, solve
from .training import train

__version__ = "0.1.0"
__all__ = [
    "ConvergenceWarning",
    "Iterate",
    "Result",
    "Schedule",
    "Status",
    "as_observations",
    "iterates",
    "observations",
    "relative_error",
    "solve",
    "synthetic",
    "train",
    "weights",
]

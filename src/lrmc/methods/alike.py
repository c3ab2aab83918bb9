"""Data that lie far from 0 beside how much they differ: what is told of their size says little of
their differences."""

from __future__ import annotations

import numpy as np

from ..linalg import Factors, median_of
from ..observations.base import Observations
from ..observations.heldout import can_hold_out
from ..observations.sample import in_order
from ..weights import Array
from .certificate import AGREES, agreement_border

SOME = 16  # lines of a fit that are looked at first
WIDE = 50.0  # times what agrees: a fit whose lines differ by more is of other data
ROUNDINGS = 4.0  # of entries of the usual size: smaller differences are none
# of the usual size: smaller differences are not told well of noisy data either (3 times the error at
# 2e-8, as without them at 2e-6)
LOST = 3e-7
UNSURE = 32.0  # units of rounding: nor are these, which is more in single precision


def usual_difference(obs: Observations, X: Factors, tol: float) -> float:
    """By how much two entries of a column, or of a row, typically differ, the less of these, where a
    fit has differences that near to what agrees with it. Infinite for other data, and for lines whose
    entries are the same.
    """
    if not all(isinstance(F, np.ndarray) for F in X):  # on a cluster
        return np.inf
    eps = float(np.finfo(obs.dtype).eps)
    some = [F[:: max(1, len(F) // SOME)] for F in X]
    fit = (some[0] @ some[1].T).astype(np.float64)
    wide = WIDE * AGREES * max(tol, ROUNDINGS * eps) * median_of(np.abs(fit))
    steps = (np.abs(np.diff(fit, axis=axis)) for axis in (0, 1))
    if all(step.size == 0 or median_of(step) > wide for step in steps):
        return np.inf
    rows, cols, values = obs.sample
    return min(
        _usual_step(lines, values, ROUNDINGS * eps * obs.scale)
        for lines in (rows, cols)
    )


def are_lost(obs: Observations, X: Factors, tol: float) -> bool:
    """Whether entries of a line differ by less than what agrees with an exact fit, so that all of them
    agree with one value, and hidden ones can be asked instead."""
    usual = usual_difference(obs, X, tol)
    return (
        np.isfinite(usual) and usual < agreement_border(obs, tol) and can_hold_out(obs)
    )


def _usual_step(lines: Array, values: Array, rounding: float) -> float:
    """The median of what two entries of a line differ by; infinite where most are the same."""
    order = in_order(lines)
    same = np.diff(lines[order]) == 0
    steps = np.abs(np.diff(values[order].astype(np.float64)))[same]
    usual = median_of(steps) if len(steps) else 0.0
    return usual if usual > rounding else np.inf

"""How far a recovered matrix is from the truth, without forming either."""

from __future__ import annotations

from typing import Any

import numpy as np

from .linalg import Factors, distance, norm


def relative_error(estimate: Any, truth: Any) -> float:
    """|L R' - X|_F / |X|_F. Each is a result, an iterate, a problem of `lrmc.synthetic`,
    or a pair of factors.
    """
    X = _factors(truth)
    return distance(_factors(estimate), X) / norm(
        Factors(*(np.asarray(F, np.float64) for F in X))
    )


def _factors(x: Any) -> Factors:
    if hasattr(x, "X_factors"):
        return Factors(*x.X_factors)
    return Factors(x.L, x.R) if hasattr(x, "L") else Factors(*x)

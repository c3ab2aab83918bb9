"""How far a recovered matrix is from the truth, without forming either."""

from __future__ import annotations

from typing import Any

import numpy as np

from .linalg import Factors, distance, norm


def relative_error(estimate: Any, truth: Any) -> float:
    """Relative error of a recovered matrix in the Frobenius norm, `|L R' - X| / |X|`.

    Neither matrix is formed.

    Parameters
    ----------
    estimate, truth : Result, Iterate, Problem or pair of arrays
        Anything with factors L and R, or a pair (L, R).

    Returns
    -------
    float

    Examples
    --------
    >>> import lrmc
    >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=0.8)
    >>> lrmc.relative_error(lrmc.solve(problem.Y), problem) < 1e-5
    True
    """
    X = _factors(truth)
    return distance(_factors(estimate), X) / norm(
        Factors(*(np.asarray(F, np.float64) for F in X))
    )


def _factors(x: Any) -> Factors:
    if hasattr(x, "X_factors"):
        return Factors(*x.X_factors)
    if hasattr(x, "L"):
        return Factors(
            np.asarray(x.L), np.asarray(x.R)
        )  # where Dask has rows, they come
    return Factors(*x)

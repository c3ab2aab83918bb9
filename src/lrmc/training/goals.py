"""What a schedule is trained for: a number that says how good factors are, with its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..linalg import Factors, norm
from ..observations.base import Observations
from ..weights import Cauchy


class Goal(Protocol):
    """The logarithm of an error of factors."""

    def error(self, X: Factors) -> float:
        """The logarithm of the error."""

    def error_and_gradient(self, X: Factors) -> tuple[float, Factors]:
        """The same, with its gradient with respect to both factors."""


@dataclass(frozen=True, eq=False)
class Truth:
    """The distance to the truth, |L R' - X|_F / |X|_F."""

    X: Factors

    def error(self, X: Factors) -> float:
        """See `Goal.error`."""
        return self.error_and_gradient(X)[0]

    def error_and_gradient(self, X: Factors) -> tuple[float, Factors]:
        """See `Goal.error_and_gradient`. By QR of the stacked factors: exact however
        small the error is.
        """
        (A, left), (B, right) = (
            np.linalg.qr(np.hstack(pair).astype(np.float64))
            for pair in ((X.L, self.X.L), (X.R, -self.X.R))
        )
        D = left @ right.T  # L R' - X = A D B'
        size = float(np.linalg.norm(D))
        if not 0 < size < math.inf:
            return (-math.inf if size == 0 else math.inf), Factors(
                np.zeros_like(X.L), np.zeros_like(X.R)
            )
        D /= size
        by_L = A @ (D @ (B.T @ X.R)) / size
        by_R = B @ (D.T @ (A.T @ X.L)) / size
        return math.log(size / norm(self.X)), Factors(by_L, by_R)


@dataclass(frozen=True, eq=False)
class Hidden:
    """Entries that were set aside: exp(mean log sqrt(s^2 + e^2)), where e are their residuals.

    For e beyond s that is their geometric mean: halving the errors of the good entries counts the
    same however large the outliers among them are. Below s, the size of the noise, nothing is to be
    gained."""

    held: Observations
    noise: float  # s

    def error(self, X: Factors) -> float:
        """See `Goal.error`."""
        parts = [
            np.hypot(part.values.astype(np.float64), self.noise)
            for part in self.held.residuals(X.L, X.R)
        ]
        return float(np.mean(np.log(np.concatenate(parts))))

    def error_and_gradient(self, X: Factors) -> tuple[float, Factors]:
        """See `Goal.error_and_gradient`. One pass over the hidden entries: the pull of
        the Cauchy loss is the slope.
        """
        rows, cols = self.held.shape
        loss = Cauchy(np.full(rows, self.noise), np.ones(cols))
        C = self.held.pull(X.L, X.R, loss)
        scale = -1 / (self.noise**2 * self.held.n_observed)
        return self.error(X), Factors(scale * C[0], scale * C[1])

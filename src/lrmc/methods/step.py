"""Where a method is: what all of them yield, and where they begin."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..linalg import Factors, gram, norm_of
from ..weights import Array


class Step(NamedTuple):
    """Where a method is after a pass, and what the pass saw."""

    L: Array
    R: Array
    zeta: float  # the threshold used
    inliers: float  # the fraction of observed entries within it
    # the size of a typical good residual before the pass, where the method looks at it
    residual: float = math.nan
    stage: str = "lrmc"
    # the widest threshold of a row or column that is far behind the others
    behind: float = 0.0
    moved: float = math.nan  # |X - X_before|_F / |X_before|_F; NaN at a start
    LL: Array | None = None  # L' L, where it is known
    # the largest ratio of a squared singular value to the next; NaN where it is not known
    gap: float = math.nan

    @property
    def X(self) -> Factors:
        """The factors."""
        return Factors(self.L, self.R)

    @property
    def norm(self) -> float:
        """|L R'|_F."""
        return norm_of(gram(self.L) if self.LL is None else self.LL, gram(self.R))


class Start(NamedTuple):
    """Where a method begins, and the threshold that led there."""

    X: Factors
    zeta: float

    @property
    def step(self) -> Step:
        """The first thing that a method yields."""
        return Step(*self.X, self.zeta, math.nan, stage="start")

"""Algorithm 1 of the paper: soft thresholding and scaled gradient steps, with learned numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..linalg import Factors, divide, gram
from ..schedule import Layer
from ..storage import Observations
from ..weights import Array


class Step(NamedTuple):
    """Where a method is after a pass, and what the pass saw."""

    L: Array
    R: Array
    zeta: float  # the threshold used
    inliers: float  # the fraction of observed entries within it
    residual: float = math.nan  # the size of a typical good residual before the pass, where the method looks at it
    stage: str = "lrmc"
    behind: float = 0.0  # the widest threshold of a row or column that is far behind the others


class Start(NamedTuple):
    """Where a method begins, and the threshold that led there."""

    X: Factors
    zeta: float


def lrmc(obs: Observations, start: Start, layers: Iterable[Layer], tangent: bool = False) -> Iterator[Step]:
    """S = soft(Y - L R', zeta), then a scaled gradient step on both factors. One pass over the data per step.

    S is never made: C = Y - L R' - S on the observed entries is the residual clipped to [-zeta, zeta].
    """
    L, R = start.X
    yield Step(L, R, start.zeta, math.nan, stage="start")
    mL, mR = 0 * L, 0 * R
    for zeta, eta, gamma in layers:
        CR, CtL = pull = obs.pull(L, R, zeta)
        dL, dR = divide(CR, gram(R)), divide(CtL, gram(L))  # C R (R'R)^-1, C' L (L'L)^-1
        if tangent:
            M = divide(gram(dL, L), gram(L)).T.astype(
                L.dtype
            )  # (L'L)^-1 L' dL: both steps move by L M R', so each gives up half
            dL, dR = dL - L @ M / 2, dR - R @ M.T / 2
        mL, mR = dL + gamma * mL, dR + gamma * mR
        L, R = L + eta * mL, R + eta * mR
        yield Step(L, R, zeta, pull.n_inliers / obs.n_observed)

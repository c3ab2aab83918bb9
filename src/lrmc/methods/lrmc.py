"""Algorithm 1 of the paper: soft thresholding and scaled gradient steps, with learned numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..linalg import Factors, divide, gram
from ..observations.base import Observations
from ..observations.tall import held
from ..schedule import Layer
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
    X, m = start.X, at_rest(start.X)
    yield Step(*X, start.zeta, math.nan, stage="start")
    for layer in layers:
        X, m, _, n_inliers = take(obs, X, m, layer, tangent)
        yield Step(*X, layer.zeta, n_inliers / obs.n_observed)


class Taken(NamedTuple):
    """One layer: where it led, and what it was made of."""

    X: Factors
    momentum: Factors
    scaled: Factors  # C R (R'R)^-1 and C' L (L'L)^-1
    n_inliers: int


def take(obs: Observations, X: Factors, momentum: Factors, layer: Layer, tangent: bool) -> Taken:
    """One layer of the paper, from the factors X. One pass over the data."""
    (L, R), (mL, mR), (zeta, eta, gamma) = X, momentum, layer
    CR, CtL = pull = obs.pull(L, R, zeta)
    dL, dR = scaled = Factors(divide(CR, gram(R)), divide(CtL, gram(L)))
    if tangent:
        M = shared(L, dL)
        dL, dR = dL - L @ M / 2, dR - R @ M.T / 2
    mL, mR = dL + gamma * mL, dR + gamma * mR
    L, R, mL, mR = held(L + eta * mL, R + eta * mR, mL, mR)
    return Taken(Factors(L, R), Factors(mL, mR), scaled, pull.n_inliers)


def at_rest(X: Factors) -> Factors:
    """The momentum before the first layer."""
    return Factors(np.zeros_like(X.L), np.zeros_like(X.R))


def shared(L: Array, dL: Array) -> Array:
    """M = (L'L)^-1 L' dL: both factors would move the product by L M R', so each gives up half."""
    return divide(gram(dL, L), gram(L)).T.astype(L.dtype)

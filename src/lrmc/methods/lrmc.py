"""Algorithm 1 of the paper: soft thresholding and scaled gradient steps, with learned numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._kernels import times
from .._rows import each, kept
from ..linalg import Factors, Move, change_of, divide, gram, inverse, move
from ..observations.base import Observations
from ..schedule import Layer
from ..weights import Array, DType
from .step import Start, Step


def lrmc(
    obs: Observations,
    start: Start,
    layers: Iterable[Layer],
    tangent: bool = False,
) -> Iterator[Step]:
    """S = soft(Y - L R', zeta), then a scaled gradient step on both factors. One pass over the data
    per step.

    S is never made: C = Y - L R' - S on the observed entries is the residual clipped to [-zeta,
    zeta]."""
    X, m = start.X, at_rest(start.X)
    yield start.step
    for layer in layers:
        before = X
        X, m, _, n_inliers, left = take(obs, X, m, layer, tangent)
        moved = change_of(left, move(before.R, X.R))
        yield Step(*X, layer.zeta, n_inliers / obs.n_observed, moved=moved)


class Taken(NamedTuple):
    """One layer: where it led, and what it was made of."""

    X: Factors
    momentum: Factors
    scaled: Factors  # C R (R'R)^-1 and C' L (L'L)^-1
    n_inliers: int
    left: Move  # how L moved


def take(
    obs: Observations,
    X: Factors,
    momentum: Factors,
    layer: Layer,
    tangent: bool,
) -> Taken:
    """One layer of the paper, from the factors X. One pass over the data."""
    (L, R), (mL, mR), (zeta, eta, gamma) = X, momentum, layer
    scale = inverse(gram(R), len(L), L.dtype)
    (dL,), (CtL, LL, LdL, n_inliers) = obs.round(_of_rows, (L,), (R, zeta, scale))
    dR = divide(CtL.astype(R.dtype, copy=False), LL)
    scaled, M = Factors(dL, dR), None
    if tangent:
        M = shared(LL, LdL, R.dtype)
        dR = dR - R @ M.T / 2
    mR = dR + gamma * mR
    (mL, L), left = each(_moved, (L, dL, mL), (M, eta, gamma))
    return Taken(
        Factors(L, R + eta * mR), Factors(mL, mR), scaled, int(n_inliers), Move(*left)
    )


def _of_rows(
    block: Observations,
    rows: tuple[Array],
    same: Any,
) -> tuple[tuple[Array], tuple[Any, ...]]:
    """C R (R'R)^-1 for some rows; C' L, L' L, L' dL and the number of inliers."""
    (L,), (R, zeta, scale) = rows, same
    CR, CtL = pull = block.pull(L, R, zeta)
    dL = times(CR, scale)
    return (dL,), (CtL, gram(L), gram(L, dL), pull.n_inliers)


def _moved(rows: tuple[Array, ...], same: Any) -> tuple[tuple[Array, Array], Move]:
    """The momentum and the factor after a layer."""
    (L, dL, mL), (M, eta, gamma) = rows, same
    if M is not None:
        dL = dL - times(L, M) / 2
    mL = dL + gamma * mL
    D = eta * mL
    return (mL, L + D), Move(gram(D), gram(D, L), gram(L))


def at_rest(X: Factors) -> Factors:
    """The momentum before the first layer."""
    return Factors(kept(_zeros, (X.L,)), np.zeros_like(X.R))


def _zeros(rows: tuple[Array], _: None) -> tuple[tuple[Array], tuple[()]]:
    return (np.zeros_like(rows[0]),), ()


def shared(LL: Array, LdL: Array, dtype: DType) -> Array:
    """M = (L'L)^-1 L' dL: both factors would move the product by L M R', so each gives up half."""
    return divide(LdL.T, LL).T.astype(dtype)

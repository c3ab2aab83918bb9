"""Algorithm 1 of the paper: soft thresholding and scaled gradient steps, with learned numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._kernels import layer_rows, most_layer_rank, ready, times
from .._rows import each, kept
from ..linalg import Factors, Move, change_of, divide, gram, inverse
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
        X, m, _, n_inliers, left, right = take(obs, X, m, layer, tangent)
        moved = change_of(left, right)
        inliers = n_inliers / obs.n_observed
        yield Step(*X, layer.zeta, inliers, moved=moved, LL=left.after)


class Taken(NamedTuple):
    """One layer: where it led, and what it was made of."""

    X: Factors
    momentum: Factors
    scaled: Factors  # C R (R'R)^-1 and C' L (L'L)^-1
    n_inliers: int
    left: Move  # how L moved
    right: Move


def take(
    obs: Observations,
    X: Factors,
    momentum: Factors,
    layer: Layer,
    tangent: bool,
) -> Taken:
    """One layer of the paper, from the factors X. One pass over the data."""
    (L, R), (mL, mR), (zeta, eta, gamma) = X, momentum, layer
    RR = gram(R)
    scale = inverse(RR, len(L), L.dtype)
    (CR,), (CtL, LL, LCR, n_inliers) = obs.round(_of_rows, (L,), (R, zeta, tangent))
    M = shared(LL, LCR @ scale, R.dtype) if tangent else None
    other = inverse(LL, len(R), R.dtype), None if M is None else M.T
    (dR, mR, R), (DDR, DR) = _moved((R, CtL, mR), (*other, eta, gamma))
    (dL, mL, L), (DDL, DL) = each(_moved, (L, CR, mL), (scale, M, eta, gamma))
    return Taken(
        Factors(L, R),
        Factors(mL, mR),
        Factors(dL, dR),
        int(n_inliers),
        Move(DDL, DL, LL),
        Move(DDR, DR, RR),
    )


def _of_rows(
    block: Observations,
    rows: tuple[Array],
    same: Any,
) -> tuple[tuple[Array], tuple[Any, ...]]:
    """C R for some rows; C' L, L' L, for the tangent correction L' C R, and the number of inliers."""
    (L,), (R, zeta, tangent) = rows, same
    CR, CtL = pull = block.pull(L, R, zeta)
    LCR = gram(L, CR) if tangent else None
    return (CR,), (CtL, gram(L), LCR, pull.n_inliers)


def _moved(
    rows: tuple[Array, ...], same: Any
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array]]:
    """C R (R'R)^-1, the momentum and the factor after a layer; D' D and D' L for the step D."""
    (L, CR, mL), (scale, M, eta, gamma) = rows, same
    if L.shape[1] <= most_layer_rank:
        return _moved_at_once(L, CR, mL, same)
    dL = times(CR.astype(L.dtype, copy=False), scale)
    mL = (dL if M is None else dL - times(L, M) / 2) + gamma * mL
    D = eta * mL
    return (dL, mL, L + D), (gram(D), gram(D, L))


def _moved_at_once(
    L: Array,
    CR: Array,
    mL: Array,
    same: Any,
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array]]:
    """The same by a kernel, in one sweep over the rows."""
    scale, M, eta, gamma = same
    L = ready(L, L.dtype)
    # a copy: what lies on a worker must stay as it is, in case this is done again
    dL = np.array(CR, L.dtype, order="C")
    after = np.empty_like(L)
    # without momentum and correction, the direction is C R (R'R)^-1 itself
    direction = dL if M is None and gamma == 0 else np.empty_like(L)
    rank = L.shape[1]
    DD, DL = np.zeros((rank, rank)), np.zeros((rank, rank))
    layer_rows(
        L,
        pull=dL,
        momentum=ready(mL, L.dtype) if gamma else None,
        scale=ready(scale, L.dtype),
        shared=None if M is None else ready(M / 2, L.dtype),
        after=after,
        direction=None if direction is dL else direction,
        DD=DD,
        DL=DL,
        eta=eta,
        gamma=gamma,
    )
    return (dL, direction, after), (DD, DL)


def at_rest(X: Factors) -> Factors:
    """The momentum before the first layer."""
    return Factors(kept(_zeros, (X.L,)), np.zeros_like(X.R))


def _zeros(rows: tuple[Array], _: None) -> tuple[tuple[Array], tuple[()]]:
    return (np.zeros_like(rows[0]),), ()


def shared(LL: Array, LdL: Array, dtype: DType) -> Array:
    """M = (L'L)^-1 L' dL: both factors would move the product by L M R', so each gives up half."""
    return divide(LdL.T, LL).T.astype(dtype)

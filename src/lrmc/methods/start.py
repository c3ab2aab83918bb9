"""Where the iterations start: a rank-r matrix near the clipped data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._rows import Lines, equal, turned
from ..linalg import Factors, gram, orthonormal, whitening
from ..observations.base import Observations
from ..weights import Array, Threshold, Weight, as_weight

MORE = 5  # directions than asked for: the randomised subspace is better by them


def spectral(
    obs: Observations, rank: int, zeta: float, gain: float, seed: int = 0
) -> Factors:
    """The best rank-r approximation of gain * clip(Y, -zeta, zeta), balanced: L = U S^(1/2), R = V
    S^(1/2).

    The paper's start has gain = 1/p. Randomised, 4 passes over the data, each with one product
    only."""
    return leading(obs, rank, zeta, gain, seed=seed)


class Looked(NamedTuple):
    """The matrix whose leading part is looked for: gain times the weighed residual of a
    model, with it or not.
    """

    rule: Weight
    gain: float
    R: Array | None  # of the model
    keep_model: bool


def leading(
    obs: Observations,
    rank: int,
    zeta: float | Weight,
    gain: float,
    *,
    model: Factors | None = None,
    keep_model: bool = False,
    reject: bool = False,
    seed: int = 0,
    rounds: int = 1,
    one_sided: bool = False,
) -> Factors:
    """The leading part of gain * clip(Y - model, -zeta, zeta), to which the model is added first if
    `keep_model`.

    With `reject`, residuals beyond zeta are left out instead of clipped. Instead of zeta a rule of
    `lrmc.weights` may say what becomes of them. Each of the `rounds` of power iteration is two
    passes: more of them, and weak components hang less on the random numbers. `one_sided` saves the
    last pass: the rows are as good as before, the columns are what they were made of."""
    rule = as_weight(zeta)
    if reject:
        rows, cols = (equal(zeta, n) for n in obs.shape)  # type: ignore[arg-type]
        rule = Threshold(rows, cols, equal(0.0, len(rows)), equal(0.0, len(cols)))
    L, R = model if model is not None else (None, None)
    looked = Looked(rule, gain, R, keep_model and model is not None)
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((obs.shape[1], min(rank + MORE, *obs.shape))).astype(
        obs.dtype
    )
    B, T = _times(obs, looked, L, Q)
    P, BtP = _transposed_times(obs, looked, L, B, T)
    for left in reversed(range(rounds)):
        Q = orthonormal(BtP)
        B, T = _times(obs, looked, L, Q)
        if one_sided and left == 0:
            return Factors(*_truncated(Q, B, rank)[::-1])
        P, BtP = _transposed_times(obs, looked, L, B, T)
    return _truncated(P, BtP, rank)


def _times(obs: Observations, looked: Looked, L: Any, Q: Array) -> tuple[Any, Array]:
    """B = (the matrix) Q, and T such that the columns of B T are orthonormal. One pass."""
    rows, rest = _split(looked)
    (B,), (G,) = obs.round(_rows_times, (L, *rows), (rest, Q))
    return B, whitening(G, obs.shape[0], obs.dtype)


def _rows_times(
    block: Observations, rows: Lines, same: Any
) -> tuple[tuple[Array], tuple[Array]]:
    (L, *thresholds), (looked, Q) = rows, same
    rule, R = looked.rule.joined(thresholds), looked.R
    B = block.dtype.type(looked.gain) * block.products(L, R, rule, Q=Q)[0]
    if looked.keep_model:
        B = B + L @ (R.T @ Q)
    return (B,), (gram(B),)


def _transposed_times(
    obs: Observations, looked: Looked, L: Any, B: Any, T: Array
) -> tuple[Any, Array]:
    """P = B T, and (the matrix)' P. One pass."""
    rows, rest = _split(looked)
    (P,), (C, LP) = obs.round(_rows_transposed_times, (L, B, *rows), (rest, T))
    C = C.astype(obs.dtype, copy=False)
    return P, C if LP is None else C + looked.R @ LP.astype(obs.dtype)


def _rows_transposed_times(
    block: Observations, rows: Lines, same: Any
) -> tuple[tuple[Array], tuple[Array, Array | None]]:
    (L, B, *thresholds), (looked, T) = rows, same
    P = B @ T
    rule = looked.rule.joined(thresholds)
    C = block.dtype.type(looked.gain) * block.products(L, looked.R, rule, P=P)[1]
    return (P,), (C, L.T @ P if looked.keep_model else None)


def _split(looked: Looked) -> tuple[tuple[Any, ...], Looked]:
    """The thresholds of rows, which stay with them, and the rest."""
    rows, rest = looked.rule.split()
    return rows, looked._replace(rule=rest)


def cur(
    obs: Observations, rank: int, zeta: float, gain: float, seed: int = 0
) -> Factors:
    """A start from a few rows and columns of gain * clip(Y, -zeta, zeta): the robust CUR step, for
    huge problems.

    It reads O(r log n) rows and columns: less than one pass. X = C U^+ R, where the r-dimensional
    pseudo-inverse of the intersection U is what keeps small outliers from being amplified. With
    many missing entries `spectral` is better."""
    rng = np.random.default_rng(seed)
    n1, n2 = obs.shape
    count = int(4 * rank * np.log(max(n1, n2))) + 1
    rows, cols = (
        np.sort(rng.choice(n, min(n, count), replace=False)) for n in (n1, n2)
    )
    C, W = (
        gain * np.clip(obs.block(*part), -zeta, zeta)
        for part in ((slice(None), cols), (rows, slice(None)))
    )
    U, s, Vt = np.linalg.svd(C[rows].astype(np.float64))
    keep = s[:rank] > s[0] * 1e-12 if s[0] > 0 else slice(0)
    left, right = Vt[:rank].T[:, keep] / s[:rank][keep], U[:, :rank][:, keep]
    # X = CL WR': n1 x r, n2 x r
    CL, WR = C @ left.astype(obs.dtype), W.T @ right.astype(obs.dtype)
    P = orthonormal(CL)
    return _truncated(P, WR @ (CL.T @ P), rank)


STARTS = {"spectral": spectral, "cur": cur}


def _truncated(P: Any, B: Array, rank: int) -> Factors:
    """The balanced factors of the best rank-r part of P B', where P has orthonormal columns."""
    values, V = np.linalg.eigh(gram(B))
    order = np.argsort(values)[::-1][:rank]
    s = np.sqrt(np.maximum(values[order], 0.0))  # singular values of P B'
    root = np.sqrt(s)
    V = V[:, order]
    left, right = V * root, V * np.divide(root, s, out=np.zeros_like(s), where=s > 0)
    missing = rank - len(order)  # fewer directions than asked for: the rest is zero
    if missing:
        left, right = (np.pad(T, ((0, 0), (0, missing))) for T in (left, right))
    return Factors(turned(P, left), turned(B, right))

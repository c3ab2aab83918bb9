"""Where the iterations start: a rank-r matrix near the clipped data."""

from __future__ import annotations

import numpy as np

from ..linalg import Factors, gram, orthonormal
from ..observations.base import Observations
from ..observations.tall import equal, held, product_of
from ..weights import Array, Threshold, Weight, as_weight


def spectral(obs: Observations, rank: int, zeta: float, gain: float, seed: int = 0) -> Factors:
    """The best rank-r approximation of gain * clip(Y, -zeta, zeta), balanced: L = U S^(1/2), R = V S^(1/2).

    The paper's start has gain = 1/p. Randomised, 4 passes over the data, each with one product only.
    """
    return leading(obs, rank, zeta, gain, seed=seed)


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
) -> Factors:
    """The leading part of gain * clip(Y - model, -zeta, zeta), to which the model is added first if `keep_model`.

    With `reject`, residuals beyond zeta are left out instead of clipped. Instead of zeta a rule of `lrmc.weights` may
    say what becomes of them.
    """
    rng = np.random.default_rng(seed)
    L, R = model if model is not None else (None, None)
    rule = as_weight(zeta)
    if reject:
        rows, cols = (equal(zeta, n) for n in obs.shape)  # type: ignore[arg-type]
        rule = Threshold(rows, cols, equal(0.0, len(rows)), equal(0.0, len(cols)))

    def times(Q: Array) -> Array:
        C = obs.dtype.type(gain) * obs.products(L, R, rule, Q=Q)[0]
        return C + model.L @ product_of(model.R, Q) if model is not None and keep_model else C

    def transposed_times(P: Array) -> Array:
        C = obs.dtype.type(gain) * obs.products(L, R, rule, P=P)[1]
        return C + model.R @ product_of(model.L, P) if model is not None and keep_model else C

    Q = rng.standard_normal((obs.shape[1], min(rank + 5, *obs.shape))).astype(obs.dtype)
    (P,) = held(orthonormal(times(Q)))
    (Q,) = held(orthonormal(transposed_times(P)))  # one power iteration
    (P,) = held(orthonormal(times(Q)))
    return _truncated(P, transposed_times(P), rank)


def cur(obs: Observations, rank: int, zeta: float, gain: float, seed: int = 0) -> Factors:
    """A start from a few rows and columns of gain * clip(Y, -zeta, zeta): the robust CUR step, for huge problems.

    It reads O(r log n) rows and columns: less than one pass. X = C U^+ R, where the r-dimensional pseudo-inverse of the
    intersection U is what keeps small outliers from being amplified. With many missing entries `spectral` is better.
    """
    rng = np.random.default_rng(seed)
    n1, n2 = obs.shape
    count = int(4 * rank * np.log(max(n1, n2))) + 1
    rows, cols = (np.sort(rng.choice(n, min(n, count), replace=False)) for n in (n1, n2))
    C, W = (gain * np.clip(obs.block(*part), -zeta, zeta) for part in ((slice(None), cols), (rows, slice(None))))
    U, s, Vt = np.linalg.svd(C[rows].astype(np.float64))
    keep = s[:rank] > s[0] * 1e-12 if s[0] > 0 else slice(0)
    left, right = Vt[:rank].T[:, keep] / s[:rank][keep], U[:, :rank][:, keep]
    CL, WR = C @ left.astype(obs.dtype), W.T @ right.astype(obs.dtype)  # X = CL WR': n1 x r, n2 x r
    P = orthonormal(CL)
    return _truncated(P, WR @ (CL.T @ P), rank)


STARTS = {"spectral": spectral, "cur": cur}


def _truncated(P: Array, B: Array, rank: int) -> Factors:
    """The balanced factors of the best rank-r part of P B', where P has orthonormal columns."""
    values, V = np.linalg.eigh(gram(B))
    order = np.argsort(values)[::-1][:rank]
    s = np.sqrt(np.maximum(values[order], 0.0))  # singular values of P B'
    root = np.sqrt(s)
    V = V[:, order]
    L = P @ (V * root).astype(P.dtype)
    R = B @ (V * np.divide(root, s, out=np.zeros_like(s), where=s > 0)).astype(B.dtype)
    missing = rank - L.shape[1]  # fewer directions than asked for: the rest is zero
    if missing:
        L, R = (np.pad(X, ((0, 0), (0, missing))) for X in (L, R))
    return Factors(L, R)

"""Where the iterations start: a rank-r matrix near the clipped data."""

from __future__ import annotations

import numpy as np

from .linalg import Factors, gram, orthonormal
from .observations import Observations
from .weights import Array


def spectral(obs: Observations, rank: int, zeta: float, gain: float, seed: int = 0) -> Factors:
    """The best rank-r approximation of gain * clip(Y, -zeta, zeta), balanced: L = U S^(1/2), R = V S^(1/2).

    The paper's start has gain = 1/p. Randomised, 4 passes over the data, each with one product only.
    """
    rng = np.random.default_rng(seed)
    width = min(rank + 5, *obs.shape)
    Q = rng.standard_normal((obs.shape[1], width)).astype(obs.dtype)
    P = orthonormal(_times(obs, Q, zeta))
    Q = orthonormal(_transposed_times(obs, P, zeta))  # one power iteration
    P = orthonormal(_times(obs, Q, zeta))
    return _truncated(P, _transposed_times(obs, P, zeta), rank, gain)


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
    return _truncated(P, WR @ (CL.T @ P), rank, 1.0)


STARTS = {"spectral": spectral, "cur": cur}


def _times(obs: Observations, Q: Array, zeta: float) -> Array:
    return np.asarray(obs.products(None, None, zeta, None, Q)[0])


def _transposed_times(obs: Observations, P: Array, zeta: float) -> Array:
    return np.asarray(obs.products(None, None, zeta, P, None)[1])


def _truncated(P: Array, B: Array, rank: int, gain: float) -> Factors:
    """The balanced factors of the best rank-r part of gain * P B', where P has orthonormal columns."""
    values, V = np.linalg.eigh(gram(B))
    order = np.argsort(values)[::-1][:rank]
    s = np.sqrt(np.maximum(values[order], 0.0))  # singular values of P B'
    root = np.sqrt(gain * s)
    V = V[:, order]
    L = P @ (V * root).astype(P.dtype)
    R = B @ (V * np.divide(root, s, out=np.zeros_like(s), where=s > 0)).astype(B.dtype)
    missing = rank - L.shape[1]  # fewer directions than asked for: the rest is zero
    if missing:
        L, R = (np.pad(X, ((0, 0), (0, missing))) for X in (L, R))
    return Factors(L, R)

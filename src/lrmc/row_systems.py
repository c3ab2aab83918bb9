"""One small least-squares problem per row of a factor."""

from __future__ import annotations

import numpy as np

from . import _kernels
from .weights import Array

# products that a thread must have to do, for starting it to pay
WORTH_A_THREAD = 1_000_000


def pairs(X: Array) -> Array:
    """The products of all pairs of columns: n x r(r+1)/2, the upper triangle of x x' for
    each row x.
    """
    a, b = np.triu_indices(X.shape[1])
    return X[:, a] * X[:, b]


def packed_trace(H: Array, rank: int) -> Array:
    """The trace of each packed symmetric matrix."""
    diagonal = np.cumsum([0, *range(rank, 1, -1)])
    return H[:, diagonal].sum(1)


def solve_rows(
    H: Array, B: Array, ridge: Array, used: Array, threads: int = 1
) -> Array:
    """(H_i + ridge)^-1 B_i for each row that is used, 0 for the others. H is packed as
    `pairs` gives it.
    """
    return _solve(H, B, ridge, used, None, threads)


def solve_rows_and_spread(
    H: Array, B: Array, ridge: Array, used: Array, threads: int = 1
) -> tuple[Array, Array]:
    """`solve_rows`, and the sum of (H_i + ridge)^-1 over the rows that are used."""
    mean = np.zeros((B.shape[1],) * 2)
    X = _solve(H, B, ridge, used, mean, threads)
    return X, mean * int(np.count_nonzero(used))


def _solve(
    H: Array, B: Array, ridge: Array, used: Array, mean: Array | None, threads: int
) -> Array:
    X = np.empty_like(B, order="C")
    work = len(B) * B.shape[1] ** 3
    _kernels.solve_rows(
        _kernels.ready(H, B.dtype),
        _kernels.ready(B, B.dtype),
        ridge=_kernels.ready(ridge, np.float64),
        used=np.ascontiguousarray(used).view(np.uint8),
        X=X,
        mean_inverse=mean,
        threads=max(1, min(threads, work // WORTH_A_THREAD)),
    )
    return X


def packed(M: Array) -> Array:
    """The upper triangles of symmetric matrices, in the order of `pairs`: (..., r, r) to
    (..., r(r+1)/2).
    """
    a, b = np.triu_indices(M.shape[-1])
    return np.asarray(M[..., a, b])


def unpacked(H: Array, rank: int) -> Array:
    """Symmetric matrices from their upper triangles: (..., r(r+1)/2) to (..., r, r)."""
    a, b = np.triu_indices(rank)
    full = np.empty((*H.shape[:-1], rank, rank), H.dtype)
    full[..., a, b] = full[..., b, a] = H
    return full


def doubled(H: Array, rank: int) -> Array:
    """What is off the diagonal counts twice: from the entries of symmetric matrices to
    those of their triangles.
    """
    a, b = np.triu_indices(rank)
    return H * np.where(a == b, 1, 2).astype(H.dtype)

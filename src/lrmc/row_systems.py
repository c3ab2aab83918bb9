"""One small least-squares problem per row of a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _kernels
from .observations.tall import by_row
from .weights import Array


def pairs(X: Any) -> Any:
    """The products of all pairs of columns: n x r(r+1)/2, the upper triangle of x x' for each row x."""
    a, b = np.triu_indices(X.shape[1])
    return X[:, a] * X[:, b]


def packed_trace(H: Array, rank: int) -> Array:
    """The trace of each packed symmetric matrix."""
    diagonal = np.cumsum([0, *range(rank, 1, -1)])
    return H[:, diagonal].sum(1)


def solve_rows(H: Array, B: Array, ridge: Array, used: Array, threads: int = 1) -> Array:
    """(H_i + ridge)^-1 B_i for each row that is used, 0 for the others. H is packed as `pairs` gives it."""
    (X,), _ = by_row(_solve, (H, B, used), (ridge, False, threads))
    return X


def solve_rows_and_spread(H: Array, B: Array, ridge: Array, used: Array, threads: int = 1) -> tuple[Array, Array]:
    """`solve_rows`, and the mean of (H_i + ridge)^-1 over the rows that are used."""
    (X,), (total, count) = by_row(_solve, (H, B, used), (ridge, True, threads))
    return X, total / max(int(count), 1)


def _solve(tall: tuple[Array, ...], same: tuple[Array, bool, int]) -> tuple[tuple[Array], tuple[Any, ...]]:
    """Some rows, the sum of their (H_i + ridge)^-1 if asked for, and how many are used."""
    (H, B, used), (ridge, spread, threads) = tall, same
    X, mean = np.empty_like(B, order="C"), np.zeros((B.shape[1],) * 2) if spread else None
    ridge = np.ascontiguousarray(ridge, np.float64)
    flags = np.ascontiguousarray(used).view(np.uint8)
    factors = (np.ascontiguousarray(H), np.ascontiguousarray(B))
    _kernels.run("solve_rows", B.dtype, *factors, ridge, flags, X, mean, threads)
    count = int(np.count_nonzero(used))
    return (X,), (None if mean is None else mean * count, count)

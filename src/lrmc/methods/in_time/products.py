"""Products of matrices in one thread."""

from __future__ import annotations

import math

import numpy as np

from ...weights import Array

# multiplications that OpenBLAS does in the thread that asks. For more, its threads wait for each
# other, busily: where windows are filled in side by side, or other programs run, a product took
# up to fifty times as long
ALONE = 2**18


def product(A: Array, B: Array) -> Array:
    """The sum over the last axis of A and the first of B, some rows or columns at a time."""
    n, inner, m = len(A), len(B), math.prod(B.shape[1:])
    Z = B.reshape(inner, m)
    out = np.empty((n, m), np.result_type(A, B))
    if n >= min(inner, m):
        for here in _parts(n, inner * m):
            np.matmul(A[here], Z, out=out[here])
    else:
        for here in _parts(m, inner * n):
            out[:, here] = A @ Z[:, here]
    return out.reshape(n, *B.shape[1:])


def _parts(n: int, each: int) -> list[slice]:
    """Of n rows that take so many multiplications each."""
    step = max(ALONE // max(each, 1), 1)
    return [slice(k, k + step) for k in range(0, n, step)]

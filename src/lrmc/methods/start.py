"""Where the iterations start: a rank-r matrix near the clipped data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels import times
from .._rows import Lines, equal, turned
from ..linalg import Factors, gram, orthonormal, whitening
from ..observations.base import Observations
from ..weights import Array, Huber, Threshold, Weight, as_weight

MORE = 5  # directions than asked for: the randomised subspace is better by them ...
# ... and enough of them, where so many directions fit the fastest passes
ENOUGH_MORE, FIT = 3, 8


def spectral(
    obs: Observations,
    rank: int,
    zeta: float,
    gain: float,
    seed: int = 0,
) -> Factors:
    """The best rank-r approximation of gain * clip(Y, -zeta, zeta), balanced: L = U S^(1/2), R = V
    S^(1/2).

    The paper's start has gain = 1/p. Randomised, 4 passes over the data, each with one product
    only."""
    return leading(obs, rank, zeta, gain, seed=seed)


def that_fit(rank: int) -> int:
    """How many directions more than the rank, where steps follow that mend what a start lacks: the
    closed loop. LRMC does not: with its thresholds given, it ended with half as much error again.
    """
    return FIT - rank if rank + ENOUGH_MORE <= FIT < rank + MORE else MORE


class Sizes(NamedTuple):
    """How large the entries are whose leading part was looked for, and which are met, by row and
    column.
    """

    rows: Any  # sums of squares
    row_inliers: Any
    cols: Array
    col_inliers: Array


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
    more: int = MORE,
) -> Factors:
    """The leading part of gain * clip(Y - model, -zeta, zeta), to which the model is added first if
    `keep_model`.

    With `reject`, residuals beyond zeta are left out instead of clipped. Instead of zeta a rule of
    `lrmc.weights` may say what becomes of them. Each of the `rounds` of power iteration is two
    passes: more of them, and weak components hang less on the random numbers. `one_sided` saves the
    last pass: the rows are as good as before, the columns are what they were made of. `more` directions
    than the rank are looked at."""
    rule = rejecting(obs, zeta) if reject else as_weight(zeta)  # type: ignore[arg-type]
    L, looked = _looked(model, rule, gain, keep_model)
    B, T, _ = _times(obs, looked, L, _directions(obs, rank + more, seed))
    return _iterated(
        obs, looked, L, (B, T), rank=rank, rounds=rounds, one_sided=one_sided
    )


def leading_of_whole(
    obs: Observations,
    rank: int,
    rule: Weight,
    gain: float,
    model: Factors | None = None,
) -> Factors:
    """What `leading` comes near to, by one pass and without random numbers: the weighed residual as
    a matrix, n1 x n2, and the eigenvectors of its Gram matrix. For data of few columns.
    """
    L, looked = _looked(model, rule, gain, False)
    rows, rest = _split(looked)
    every = np.eye(obs.shape[1], dtype=obs.dtype)
    (E, *_), (G, *_) = obs.round(_rows_times, (L, *rows), (rest, every))
    left, right, V = _roots(G, rank)
    return Factors(turned(E, V * right), (V * left).astype(obs.dtype))


def leading_and_sizes(
    obs: Observations,
    rank: int,
    zeta: float,
    gain: float,
    *,
    model: Factors | None,
    keep_model: bool = False,
    reject: bool = False,
    seed: int = 0,
    one_sided: bool = False,
) -> tuple[Factors, Sizes]:
    """`leading`, with what its first pass sees of the entries' sizes."""
    rule = rejecting(obs, zeta) if reject else as_weight(zeta)
    L, looked = _looked(model, rule, gain, keep_model)
    first = looked._replace(rule=measuring(obs, zeta, reject))
    B, T, sizes = _times(obs, first, L, _directions(obs, rank + MORE, seed))
    X = _iterated(obs, looked, L, (B, T), rank=rank, rounds=1, one_sided=one_sided)
    return X, sizes


def _iterated(
    obs: Observations,
    looked: Looked,
    L: Any,
    found: tuple[Any, Array],
    *,
    rank: int,
    rounds: int,
    one_sided: bool,
) -> Factors:
    """The leading part, after a first product with random directions."""
    P, BtP = _transposed_times(obs, looked, L, *found)
    for left in reversed(range(rounds)):
        Q = orthonormal(BtP)
        B, T, _ = _times(obs, looked, L, Q)
        if one_sided and left == 0:
            return Factors(*_truncated(Q, B, rank)[::-1])
        P, BtP = _transposed_times(obs, looked, L, B, T)
    return _truncated(P, BtP, rank)


def rejecting(obs: Observations, zeta: float, squares: bool = False) -> Threshold:
    """Residuals beyond zeta are left out."""
    n1, n2 = obs.shape
    none = equal(0.0, n1), equal(0.0, n2)
    return Threshold(equal(zeta, n1), equal(zeta, n2), *none, squares=squares)


def measuring(obs: Observations, zeta: float, reject: bool) -> Weight:
    """The same as clipping to zeta, or rejecting, with sums of squares by row and column."""
    if reject:
        return rejecting(obs, zeta, squares=True)
    n1, n2 = obs.shape
    return Huber(equal(zeta, n1), equal(1.0, n2), squares=True)


def _looked(
    model: Factors | None,
    rule: Weight,
    gain: float,
    keep_model: bool,
) -> tuple[Any, Looked]:
    """The rows of the model, and what is looked at."""
    L, R = model if model is not None else (None, None)
    return L, Looked(rule, gain, R, keep_model and model is not None)


def _directions(obs: Observations, count: int, seed: int) -> Array:
    """Random ones, to begin with."""
    shape = obs.shape[1], min(count, *obs.shape)
    return np.random.default_rng(seed).standard_normal(shape).astype(obs.dtype)


def _times(
    obs: Observations,
    looked: Looked,
    L: Any,
    Q: Array,
) -> tuple[Any, Array, Sizes]:
    """B = (the matrix) Q, T such that the columns of B T are orthonormal, and what was seen on the
    way. One pass.
    """
    rows, rest = _split(looked)
    (B, *of_rows), (G, *of_cols) = obs.round(_rows_times, (L, *rows), (rest, Q))
    return B, whitening(G, obs.shape[0], obs.dtype), Sizes(*of_rows, *of_cols)


def _rows_times(block: Observations, rows: Lines, same: Any) -> tuple[Lines, Lines]:
    (L, *thresholds), (looked, Q) = rows, same
    rule, R = looked.rule.joined(thresholds), looked.R
    pull = block.products(L, R, rule, Q=Q)
    B = block.dtype.type(looked.gain) * pull[0]
    if looked.keep_model:
        B = B + times(L, R.T @ Q)
    return (B, pull.row_weight, pull.row_inliers), (
        gram(B),
        pull.col_weight,
        pull.col_inliers,
    )


def _transposed_times(
    obs: Observations,
    looked: Looked,
    L: Any,
    B: Any,
    T: Array,
) -> tuple[Any, Array]:
    """P = B T, and (the matrix)' P. One pass."""
    rows, rest = _split(looked)
    (P,), (C, LP) = obs.round(_rows_transposed_times, (L, B, *rows), (rest, T))
    C = C.astype(obs.dtype, copy=False)
    return P, C if LP is None else C + looked.R @ LP.astype(obs.dtype)


def _rows_transposed_times(
    block: Observations,
    rows: Lines,
    same: Any,
) -> tuple[tuple[Array], tuple[Array, Array | None]]:
    (L, B, *thresholds), (looked, T) = rows, same
    P = times(B, T)
    rule = looked.rule.joined(thresholds)
    C = block.dtype.type(looked.gain) * block.products(L, looked.R, rule, P=P)[1]
    return (P,), (C, gram(L, P) if looked.keep_model else None)


def _split(looked: Looked) -> tuple[tuple[Any, ...], Looked]:
    """The thresholds of rows, which stay with them, and the rest."""
    rows, rest = looked.rule.split()
    return rows, looked._replace(rule=rest)


def cur(
    obs: Observations,
    rank: int,
    zeta: float,
    gain: float,
    seed: int = 0,
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
    left = Vt[:rank].T[:, keep] / s[:rank][keep]
    right = U[:, :rank][:, keep]
    # X = CL WR': n1 x r, n2 x r
    CL, WR = C @ left.astype(obs.dtype), W.T @ right.astype(obs.dtype)
    P = orthonormal(CL)
    return _truncated(P, WR @ (CL.T @ P), rank)


STARTS = {"spectral": spectral, "cur": cur}


def _truncated(P: Any, B: Array, rank: int) -> Factors:
    """The balanced factors of the best rank-r part of P B', where P has orthonormal columns."""
    left, right, V = _roots(gram(B), rank)
    return Factors(turned(P, V * left), turned(B, V * right))


def _roots(G: Array, rank: int) -> tuple[Array, Array, Array]:
    """Of a matrix with this Gram matrix: roots of its leading singular values, what makes these of
    them (0 where there are none), and the vectors. What is beyond its columns is 0.
    """
    values, V = np.linalg.eigh(G)
    order = np.argsort(values)[::-1][:rank]
    s = np.sqrt(np.maximum(values[order], 0.0))
    root = np.sqrt(s)
    inverse = np.divide(root, s, out=np.zeros_like(s), where=s > 0)
    missing = rank - len(order)
    if missing:
        root, inverse = (np.pad(x, (0, missing)) for x in (root, inverse))
    return root, inverse, np.pad(V[:, order], ((0, 0), (0, missing)))

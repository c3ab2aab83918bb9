"""Small dense algebra on factors: everything costs O(n r^2), nothing has n1 x n2 entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _kernels
from ._rows import each, is_here, take, told, turned
from .weights import Array, DType

# a cosine between columns of a factor above which their differences begin to be lost
PARALLEL = 0.9
UNBALANCED = 1e4  # times: columns whose squares differ by more are put in balance again
OUT_OF_RANGE = (
    "sums of products of the entries are not finite: entries differ too much in size;"
    " leave out or divide the largest"
)
# numbers that are put in order faster by counting than by NumPy
COUNTED = 2000
# an eigenvalue of a Gram matrix below this part of the largest is rounding
NEGLIGIBLE = 1e-12


class Factors(NamedTuple):
    """A low-rank matrix X = L R'."""

    L: Array
    R: Array


def entries_at(
    X: Factors,
    rows: Array,
    cols: Array,
    values: Array | None = None,
) -> Array:
    """L R' at some places: (rows[k], cols[k]). With values, |values - L R'| instead."""
    dtype = np.result_type(X.L.dtype, X.R.dtype)
    (L, rows), (R, cols) = (
        _lines(F, lines, dtype) for F, lines in zip(X, (rows, cols), strict=True)
    )
    out = np.empty(len(rows), dtype)
    _kernels.entries_at(L, R, rows=rows, cols=cols, out=out, values=values)
    return out


def _lines(F: Any, lines: Array, dtype: DType) -> tuple[Array, Array]:
    """A factor as the kernels take it, and which of its lines: only these are copied,
    where a copy is needed.
    """
    if isinstance(F, np.ndarray) and F.dtype == dtype and F.flags.carray:
        return F, _kernels.ready(lines, np.int64)
    return _kernels.ready(take(F, lines), dtype), np.arange(len(lines))


def quantiles(x: Array, shares: Sequence[float]) -> list[float]:
    """Quantiles as NumPy has them, in a tenth of the time of its own."""
    at = [share * (len(x) - 1) for share in shares]
    places = sorted({f(place) for place in at for f in (math.floor, math.ceil)})
    out = np.empty(len(places))
    _kernels.ordered(_kernels.ready(x, x.dtype), places=np.array(places), out=out)
    some = dict(zip(places, out.tolist(), strict=True))
    return [
        some[math.floor(place)]
        + place % 1 * (some[math.ceil(place)] - some[math.floor(place)])
        for place in at
    ]


def median_of(x: Array) -> float:
    """The median of some numbers, as NumPy has it: a fifth of its time."""
    n = x.size
    if not n:
        return math.nan
    above = n // 2
    below = n - 1 - above
    places = below, above, n - 1  # NaN come last
    if n < COUNTED or x.dtype.char not in "fd":
        some = np.partition(x, places, axis=None)[list(places)]
    else:
        some = np.empty(3)
        lines = _kernels.ready(x.ravel(), x.dtype)
        _kernels.ordered(lines, places=np.array(places), out=some)
    low, high, last = some.tolist()
    return last if math.isnan(last) else (low + high) / 2


def power_of_4(size: float) -> float:
    """The power of 4 near a size: data in such units are far from over- and underflow,
    and rounded as before.
    """
    return 4.0 ** round(math.log(size or 1.0, 4))


def gram(X: Array, Z: Array | None = None) -> Array:
    """X' Z (X' X if no Z is given), in double precision."""
    if is_here(X):
        return _kernels.cross(X, X if Z is None else Z)
    return told(_gram, (X, Z))


def _gram(rows: tuple[Array, Array | None], _: None) -> tuple[tuple[()], tuple[Array]]:
    X, Z = rows
    return (), (gram(X, Z),)


def divide(B: Array, G: Array) -> Array:
    """B G^+ for a Gram matrix G. Directions that G cannot tell from zero are left out."""
    return _kernels.times(B, inverse(G, len(B), B.dtype))


def inverse(G: Array, n: int, dtype: DType) -> Array:
    """G^+ for the Gram matrix of a factor with about n rows (or several, stacked), without
    directions that it cannot tell from zero.
    """
    if not np.isfinite(G).all():  # a run that blew up: the caller notices
        return np.full(G.shape, np.nan, dtype)
    values, vectors = np.linalg.eigh(G)
    least = negligible(n, dtype) * values.max(-1, keepdims=True, initial=0.0)
    parts = np.divide(1, values, out=np.zeros_like(values), where=values > least)
    whole = (vectors * parts[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray(whole.astype(dtype))


def orthonormal(X: Array) -> Array:
    """An orthonormal basis of the range of X, by its Gram matrix: two products instead
    of a QR of n rows.
    """
    return _kernels.times(X, whitening(gram(X), len(X), X.dtype))


def whitening(G: Array, n: int, dtype: DType) -> Array:
    """T such that the columns of X T are orthonormal, where X has n rows and the Gram matrix G."""
    if not np.isfinite(G).all():
        raise FloatingPointError(OUT_OF_RANGE)
    values, vectors = np.linalg.eigh(G)
    keep = values > negligible(n, dtype) * values.max(initial=0.0)
    return (vectors[:, keep] / np.sqrt(values[keep])).astype(dtype)


def negligible(n: int, dtype: DType) -> float:
    """Below this part of the largest, an eigenvalue of a Gram matrix of n rows is rounding."""
    eps = float(np.finfo(dtype).eps)
    return max(n * eps**2, 64 * float(np.finfo(np.float64).eps))


def norm(X: Factors) -> float:
    """|L R'|_F."""
    return norm_of(gram(X.L), gram(X.R))


def norm_of(GL: Array, GR: Array) -> float:
    """|L R'|_F from L' L and R' R."""
    return _root(float(np.vdot(GL, GR)))


def _root(square: float) -> float:
    """The root of a sum of squares that rounding may have made negative; NaN stays NaN."""
    return 0.0 if square <= 0 else math.sqrt(square)


class Move(NamedTuple):
    """How a factor F moved by D, in three Gram matrices: all that the size of the step needs."""

    DD: Array  # D' D
    DF: Array  # D' F, of the factor before
    FF: Array  # F' F, of the factor before

    @property
    def after(self) -> Array:
        """F' F, of the factor after the move."""
        return self.FF + self.DF + self.DF.T + self.DD


def move(before: Array, after: Array) -> Move:
    """What `change_of` needs of a factor."""
    return Move(*each(_move, (before, after))[1])


def _move(
    rows: tuple[Array, Array], _: None
) -> tuple[tuple[()], tuple[Array, Array, Array]]:
    before, after = rows
    D = after - before
    return (), (gram(D), gram(D, before), gram(before))


def change(old: Factors, new: Factors) -> float:
    """|X_new - X_old|_F / |X_old|_F."""
    return change_of(move(old.L, new.L), move(old.R, new.R))


def change_of(left: Move, right: Move) -> float:
    """|X_new - X_old|_F / |X_old|_F, from what both factors moved by.

    X_new - X_old = dL R_new' + L_old dR' with dL and dR taken first. Its Gram form has only terms
    of second order in the differences, so unlike |X_new|^2 - 2 <X_new, X_old> + |X_old|^2 it does
    not cancel below 1e-8."""
    dR_new = right.DF + right.DD  # dR' R_new
    square = (
        np.vdot(left.DD, right.after)
        + 2 * np.vdot(left.DF, dR_new.T)
        + np.vdot(left.FF, right.DD)
    )
    size, before = _root(float(square)), norm_of(left.FF, right.FF)
    return size / before if before > 0 else (0.0 if size == 0 else float("inf"))


def distance(A: Factors, B: Factors) -> float:
    """|A - B|_F for two low-rank matrices, to full precision, by QR of the stacked factors."""
    left, right = (
        np.linalg.qr(np.hstack(X).astype(np.float64))[1]
        for X in ((A.L, B.L), (A.R, -B.R))
    )
    return float(np.linalg.norm(left @ right.T))


def qr(X: Array) -> tuple[Array, Array]:
    """Orthonormal columns and a triangle; of an array that is elsewhere or in single precision, twice
    by Cholesky: X = Q2 (T2 T1).
    """
    if is_here(X):
        # threads of LAPACK wait for each other: of 569 x 29 numbers, a hundred times the work
        if X.dtype == np.float32 and len(X) >= X.shape[1]:
            Q, triangle = _qr_by_gram(X.astype(np.float64))
            return Q.astype(np.float32), triangle
        return np.linalg.qr(X)
    return _qr_by_gram(X)


def _qr_by_gram(X: Array) -> tuple[Array, Array]:
    triangle = np.eye(X.shape[1])
    for _ in range(2):
        G = gram(X)
        # what has no more than r - 1 directions stays finite
        shift = 1e-13 * float(np.trace(G)) + 1e-300
        T = np.linalg.cholesky(G + shift * np.eye(len(G))).T
        X, triangle = turned(X, np.linalg.inv(T)), T @ triangle
    return X, triangle


def balanced(L: Array, R: Array) -> Factors:
    """The same product with factors U S^(1/2) and V S^(1/2) of its singular value decomposition."""
    (QL, TL), (QR, TR) = qr(L), qr(R)
    U, s, Vt = np.linalg.svd(TL @ TR.T, full_matrices=False)
    return Factors(turned(QL, U * np.sqrt(s)), turned(QR, Vt.T * np.sqrt(s)))


def gauge(X: Factors) -> tuple[Array, Array] | None:
    """r x r matrices T and U' = T^-1 such that L T and R U are balanced; None if L and R nearly
    are.

    X is the same in every gauge, but rounding is not: alternating least squares can turn the
    columns of a factor nearly parallel and huge, until single precision no longer tells them apart.
    """
    GL, GR = gram(X.L), gram(X.R)
    sizes = np.concatenate([np.diag(GL), np.diag(GR)])
    if not np.isfinite(sizes).all() or sizes.min() <= 0:
        return None
    roots = np.sqrt(sizes)
    parallel = max(
        np.abs(np.tril(G / np.outer(d, d), -1)).max()
        for G, d in zip((GL, GR), np.split(roots, 2))
    )
    if parallel < PARALLEL and sizes.max() < UNBALANCED * sizes.min():
        return None
    values, vectors = np.linalg.eigh(GL)
    d = np.sqrt(np.maximum(values, NEGLIGIBLE * values[-1]))
    singular, V = np.linalg.eigh((d[:, None] * (vectors.T @ GR @ vectors)) * d)
    s = np.maximum(singular, NEGLIGIBLE * singular[-1]) ** 0.25
    return (vectors / d) @ (V * s), (vectors * d) @ (V / s)

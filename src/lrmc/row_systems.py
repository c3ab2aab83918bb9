"""One small least-squares problem per row of a factor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from . import _kernels
from ._kernels import ready, threads_for
from .weights import Array


@cache
def upper_triangle(rank: int) -> tuple[Array, Array]:
    """Rows and columns of the numbers of an upper triangle."""
    return np.triu_indices(rank)


def pairs(X: Array) -> Array:
    """The products of all pairs of columns: n x r(r+1)/2, the upper triangle of x x' for
    each row x.
    """
    a, b = upper_triangle(X.shape[1])
    lines = np.ascontiguousarray(X.T)  # whole lines: a fifth of the time of X[:, a]
    return np.ascontiguousarray((lines[a] * lines[b]).T)


def packed_trace(H: Array, rank: int) -> Array:
    """The trace of each packed symmetric matrix."""
    diagonal = np.cumsum([0, *range(rank, 1, -1)])
    return H[:, diagonal].sum(1)


def solve_rows(
    H: Array,
    B: Array,
    ridge: Array,
    used: Array,
    threads: int = 1,
) -> Array:
    """(H_i + ridge)^-1 B_i for each row that is used, 0 for the others. H is packed as
    `pairs` gives it.
    """
    return _solve(H, B, ridge, used, None, threads)


def inverse_rows(H: Array, ridge: Array, used: Array, threads: int = 1) -> Array:
    """(H_i + ridge)^-1 for each row that is used, 0 for the others, packed as H is."""
    out = np.empty_like(H, order="C")
    _kernels.invert_rows(
        ready(H, H.dtype),
        ridge=ready(ridge, np.float64),
        used=np.ascontiguousarray(used).view(np.uint8),
        inverses=out,
        threads=threads_for(len(H) * len(ridge) ** 3, threads),
    )
    return out


def times_rows(H: Array, B: Array, scale: Array) -> Array:
    """scale_i H_i B_i for packed symmetric matrices H_i."""
    X = np.empty_like(B, order="C")
    _kernels.times_rows(
        ready(H, B.dtype), ready(B, B.dtype), scale=ready(scale, np.float64), X=X
    )
    return X


def solve_rows_and_spread(
    H: Array,
    B: Array,
    ridge: Array,
    used: Array,
    threads: int = 1,
) -> tuple[Array, Array]:
    """`solve_rows`, and the sum of (H_i + ridge)^-1 over the rows that are used."""
    mean = np.zeros((B.shape[1],) * 2)
    X = _solve(H, B, ridge, used, mean, threads)
    return X, mean * int(np.count_nonzero(used))


def _solve(
    H: Array,
    B: Array,
    ridge: Array,
    used: Array,
    mean: Array | None,
    threads: int,
) -> Array:
    X = np.empty_like(B, order="C")
    _kernels.solve_rows(
        ready(H, B.dtype),
        ready(B, B.dtype),
        ridge=ready(ridge, np.float64),
        used=np.ascontiguousarray(used).view(np.uint8),
        X=X,
        mean_inverse=mean,
        threads=_threads_for(B, threads),
    )
    return X


def _threads_for(F: Array, threads: int) -> int:
    """For a system per row of F."""
    return threads_for(len(F) * F.shape[1] ** 3, threads)


@dataclass(frozen=True, eq=False)
class RowStep:
    """A damped Newton step for the rows f of a factor, each in units of its own noise:

        f <- f + eta H^-1 (precision pull - v coupling f - ridge (f - mean))

    with H = precision gram + ridge, and v = precision times the sum of weights. Rows that are not
    used become the mean.
    """

    F: Array  # n x r
    pull: Array  # n x r
    grams: Array  # n x (r(r+1)/2 + 1): packed, and the sum of weights
    used: Array  # n
    precision: Array  # n
    mean: Array  # r
    ridge: Array  # r x r
    coupling: Array  # r x r
    eta: float
    threads: int = 1

    def taken(self) -> tuple[Array, Array, Array]:
        """The rows after the step, H^-1 (...), and the sum of H^-1 over the rows that are used."""
        after, step = (np.empty_like(self.F, order="C") for _ in range(2))
        inverse = np.zeros_like(self.ridge)
        _kernels.step_rows(
            self._given(),
            after=after,
            step=step,
            inverse=inverse,
            threads=_threads_for(self.F, self.threads),
        )
        return after, step, inverse

    def slopes(self, step: Array, of_after: Array, of_inverse: Array) -> RowSlopes:
        """The reverse: from gradients with respect to the rows after the step and to the sum of
        H^-1, those of what it was made of. `step` is what `taken` gave.
        """
        square = self.ridge.shape
        out = RowSlopes(
            F=np.empty(self.F.shape),
            pull=np.empty_like(self.F, order="C"),
            grams=np.empty_like(self.grams, order="C"),
            mean=np.empty_like(self.mean),
            ridge=np.empty(square),
            coupling=np.empty(square),
        )
        _kernels.slope_rows(
            self._given(),
            step=ready(step, self.F.dtype),
            of_after=ready(of_after, np.float64),
            of_inverse=ready(of_inverse, np.float64),
            threads=_threads_for(self.F, self.threads),
            **out._asdict(),
        )
        ridge, coupling = (symmetric(M) for M in (out.ridge, out.coupling))
        return out._replace(ridge=ridge, coupling=coupling)

    def _given(self) -> _kernels.RowStep:
        dtype = self.F.dtype
        return _kernels.RowStep(
            F=ready(self.F, dtype),
            pull=ready(self.pull, dtype),
            grams=ready(self.grams, dtype),
            used=np.ascontiguousarray(self.used).view(np.uint8),
            precision=ready(self.precision, np.float64),
            mean=ready(self.mean, np.float64),
            ridge=ready(self.ridge, np.float64),
            coupling=ready(self.coupling, np.float64),
            eta=self.eta,
        )


class RowSlopes(NamedTuple):
    """Gradients with respect to what a `RowStep` is made of, in double precision but for `pull`
    and `grams`.
    """

    F: Array  # 0 where rows are not used
    pull: Array
    grams: Array  # of a triangle: what is off the diagonal stands for two
    mean: Array
    ridge: Array
    coupling: Array


def regressors(
    F: Array,
    coupling: Array,
    precision: Array,
    threads: int = 1,
) -> tuple[Array, Array]:
    """What the systems of the other side are made of: the rows f of a factor, and `pairs` of
    them + coupling with a 1 for the sum of weights; times the precision of each row.
    """
    n, rank = F.shape
    plain = np.empty_like(F, order="C")
    squares = np.empty((n, rank * (rank + 1) // 2 + 1), F.dtype)
    _kernels.regressors(
        ready(F, F.dtype),
        precision=ready(precision, np.float64),
        coupling=ready(coupling, np.float64),
        plain=plain,
        squares=squares,
        threads=threads_for(squares.size, threads),
    )
    return plain, squares


def regressor_slopes(
    F: Array,
    precision: Array,
    pull: Array,
    grams: Array,
    threads: int = 1,
) -> tuple[Array, Array]:
    """The reverse of `regressors`: from gradients with respect to both, those of the rows and of
    the coupling, in double precision.
    """
    rank = F.shape[1]
    of_F, coupling = np.empty(F.shape), np.empty((rank, rank))
    _kernels.regressor_slopes(
        ready(F, F.dtype),
        precision=ready(precision, np.float64),
        pull=ready(pull, F.dtype),
        grams=ready(grams, F.dtype),
        of_F=of_F,
        coupling=coupling,
        threads=threads_for(grams.size, threads),
    )
    return of_F, coupling


def symmetric(M: Array) -> Array:
    """The symmetric part of matrices."""
    return (M + np.swapaxes(M, -1, -2)) / 2


def packed(M: Array) -> Array:
    """The upper triangles of symmetric matrices, in the order of `pairs`: (..., r, r) to
    (..., r(r+1)/2).
    """
    a, b = upper_triangle(M.shape[-1])
    return np.asarray(M[..., a, b])


def unpacked(H: Array, rank: int) -> Array:
    """Symmetric matrices from their upper triangles: (..., r(r+1)/2) to (..., r, r)."""
    a, b = upper_triangle(rank)
    full = np.empty((*H.shape[:-1], rank, rank), H.dtype)
    full[..., a, b] = full[..., b, a] = H
    return full

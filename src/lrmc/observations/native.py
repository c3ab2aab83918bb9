"""Every call of a compiled kernel on data: arguments as the kernels take them, and room for their answers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .. import _kernels
from ..weights import Array, Clip, Mixture, Threshold, Weight
from .base import OWN, Adjoint, Counts, Pull, Regression, how_many


class Source(Protocol):
    """Data in memory, row after row, that the kernels read where they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the arithmetic."""

    @property
    def row_observed(self) -> Array:
        """How many entries of each row are observed."""

    @property
    def col_observed(self) -> Array:
        """How many entries of each column are observed."""

    @property
    def gain(self) -> float:
        """What the numbers are multiplied by."""

    @property
    def threads(self) -> int:
        """That share the work."""

    @property
    def kind(self) -> str:
        """Which kernels read the data: "dense" or "sparse"."""

    @property
    def data(self) -> tuple[Any, ...]:
        """As these kernels take them."""

    @property
    def weighed(self) -> tuple[Any, ...]:
        """The same for `products`, with what says how rows are weighed."""


def products(
    of: Source, L: Any, R: Any, weight: Weight, *, P: Any = None, Q: Any = None, Pw: Any = None, Qw: Any = None
) -> Pull:
    """See `Observations.products`. The kernels know the model's own factor by where it is in memory."""
    dtype, (n1, n2) = of.dtype, of.shape
    L, R = _ready(L, dtype), _ready(R, dtype)
    P = L if P is OWN else _ready(P, dtype)
    Q = R if Q is OWN else _ready(Q, dtype)
    Pw, Qw = _ready(Pw, dtype), _ready(Qw, dtype)
    CQ, CtP, WQ, WtP = (
        None if X is None else np.zeros((n, X.shape[1]), dtype) for X, n in ((Q, n1), (P, n2), (Qw, n1), (Pw, n2))
    )
    counts: dict[str, Any] = {"row_inliers": np.zeros(n1, np.int64)}
    energy = None
    if not isinstance(weight, Clip):
        energy = np.zeros(1)
        counts["col_inliers"] = np.zeros(n2, np.int64)
        counts["row_weight"] = np.zeros(n1, dtype)
        counts["col_weight"] = np.zeros(n2, dtype)
    room = [counts.get(name) for name in ("row_inliers", "col_inliers", "row_weight", "col_weight")]
    inputs = (*of.weighed, of.gain, L, R, P, Q, Pw, Qw, *_rule(weight, dtype))
    _kernels.run(of.kind, dtype, *inputs, CQ, CtP, WQ, WtP, energy, *room, of.threads)
    n_inliers = int(counts["row_inliers"].sum())
    if energy is None:
        return Pull(CQ, CtP, n_inliers=n_inliers)
    counts["energy"] = None if isinstance(weight, Threshold) else float(energy[0])
    return Pull(CQ, CtP, n_inliers=n_inliers, grams=(WQ, WtP), **counts)


def _ready(X: Any, dtype: np.dtype[Any]) -> Array | None:
    return None if X is None else np.ascontiguousarray(X, dtype)


def _rule(weight: Weight, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """A weight as the kernels take it."""
    if isinstance(weight, Clip):
        return weight.rule, weight.zeta, None, None, None, None, 1.0, 1.0, False
    sides = (weight.rows, weight.cols, weight.protect_rows, weight.protect_cols)
    odds = weight.odds if isinstance(weight, Mixture) else 0.0
    up, down = _directions(weight.outliers)
    return weight.rule, odds, *(_ready(x, dtype) for x in sides), up, down, weight.squares


def _directions(outliers: str) -> tuple[float, float]:
    """1 for a side of the residuals, above and below zero, where there can be outliers."""
    return float(outliers != "negative"), float(outliers != "positive")


def adjoint(of: Source, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
    """See `Observations.adjoint`."""
    L, R, Ab, Bb = (np.ascontiguousarray(X, of.dtype) for X in (L, R, Ab, Bb))
    GL, GR, zeta_bar = np.zeros_like(L), np.zeros_like(R), np.zeros(1)
    inputs = (*of.data, of.gain, L, R, float(zeta), Ab, Bb)
    _kernels.run(f"adjoint_{of.kind}", of.dtype, *inputs, GL, GR, zeta_bar, of.threads)
    return Adjoint(GL, GR, float(zeta_bar[0]))


def magnitudes(of: Source, L: Any, R: Any, share: float) -> tuple[Array, Array]:
    """See `Observations.magnitudes`."""
    L, R = _ready(L, of.dtype), _ready(R, of.dtype)
    counts = (how_many(share, of.row_observed), how_many(share, of.col_observed))
    rows, cols = (np.full(n, np.inf, of.dtype) for n in of.shape)  # of a matrix without rows, no column is visited
    _kernels.run(f"magnitudes_{of.kind}", of.dtype, *of.data, of.gain, L, R, *counts, rows, cols, of.threads)
    return rows, cols


def regress(of: Source, model: Regression) -> tuple[Array, Array, Array]:
    """See `Observations.regress`: each row, all of its iterations while it is in the cache (`_kernels/regress.hpp`)."""
    n, dtype = of.shape[0], of.dtype
    scores = np.empty((n, model.V.shape[1]), dtype)
    deviation, distance = np.empty(n, dtype), np.empty(n, dtype)
    settings = (
        *(np.ascontiguousarray(x, dtype) for x in (model.V, model.offset)),
        *(np.ascontiguousarray(x, np.float64) for x in (model.mean, model.prior)),
        *(model.widest, model.lowest, model.rule, model.odds, model.reach),
        *_directions(model.outliers),
    )
    data = of.data[:3]  # of sparse data not the number of columns, which V has
    _kernels.run(f"regress_{of.kind}", dtype, *data, of.gain, *settings, scores, deviation, distance, of.threads)
    return scores, deviation, distance


def residual(of: Source, L: Array, R: Array) -> Array:
    """Y - L R' at the stored entries of sparse data."""
    indptr, indices, values, _ = of.data
    out = np.empty(len(values), of.dtype)
    factors = (np.ascontiguousarray(X, of.dtype) for X in (L, R))
    _kernels.run("residual", of.dtype, indptr, indices, values, of.gain, *factors, out, of.threads)
    return out


def locate(indptr: Array, indices: Array, rows: Array, cols: Array) -> Array:
    """Where entries of sparse data are stored; -1 for those that are not."""
    where = np.empty(len(rows), np.int64)
    rows, cols = (np.ascontiguousarray(lines, np.int64) for lines in (rows, cols))
    _kernels.locate(indptr, indices, rows, cols, where)
    return where


def survey(Y: Array, mask: Array | None, threads: int) -> Counts:
    """What is observed of a dense matrix: no NaN, and not 0 in the mask."""
    rows, cols = (np.zeros(n, np.int64) for n in Y.shape)
    infinite = _kernels.survey(Y, mask, rows, cols, threads)
    return Counts(rows, cols, infinite)

"""Every call of a compiled kernel on data: arguments as the kernels take them, and room
for their answers.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .. import _kernels
from .._kernels import DenseData, Factors, Room, SparseData, threads_for
from ..weights import Array, Cauchy, Clip, Mixture, Power, Threshold, Weight
from .base import (
    OWN,
    Adjoint,
    Counts,
    Multipliers,
    PowerAdjoint,
    Pull,
    Regression,
    Sample,
    how_many,
)

Data = DenseData | SparseData


class Source(Protocol):
    """Data in memory, row after row, that the kernels read where they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the arithmetic."""

    @property
    def n_stored(self) -> int:
        """How many entries a pass reads."""

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
    def data(self) -> Data:
        """As the kernels take them."""

    @property
    def weighed(self) -> Data:
        """The same for `products`, with what says how rows are weighed."""


class Entries(Source, Protocol):
    """Of these, the observed entries by row."""

    @property
    def data(self) -> SparseData:
        """As the kernels take them."""


def dense_data(
    Y: Array,
    mask: Array | None = None,
    *,
    members: Array | None = None,
    modulus: bool = False,
    gain: float = 1.0,
) -> DenseData:
    """Rows one after another; `members` are groups of rows that are weighed together: by the worst
    of them, or by their modulus.
    """
    return DenseData(
        _kernels.aligned(Y), mask=mask, members=members, modulus=modulus, gain=gain
    )


def sparse_data(
    indptr: Array,
    indices: Array,
    values: Array,
    *,
    n2: int,
    gain: float,
) -> SparseData:
    """The observed entries by row."""
    return SparseData(
        indptr=_kernels.aligned(indptr),
        indices=_kernels.aligned(indices),
        values=_kernels.aligned(values),
        n2=n2,
        gain=gain,
    )


def products(
    of: Source,
    L: Any,
    R: Any,
    weight: Weight,
    by: Multipliers,
) -> Pull:
    """See `Observations.products`. The kernels know the model's own factor by where it
    is in memory.
    """
    dtype, (n1, n2) = of.dtype, of.shape
    L, R = _ready(L, dtype), _ready(R, dtype)
    P = L if by.P is OWN else _ready(by.P, dtype)
    Q = R if by.Q is OWN else _ready(by.Q, dtype)
    Pw, Qw = _ready(by.Pw, dtype), _ready(by.Qw, dtype)
    CQ, CtP, WQ, WtP = (
        None if X is None else np.zeros((n, X.shape[1]), dtype)
        for X, n in ((Q, n1), (P, n2), (Qw, n1), (Pw, n2))
    )
    counts: dict[str, Any] = {}
    if isinstance(weight, Clip):
        counts["inliers"] = np.zeros(1, np.int64)
    else:
        counts["row_inliers"] = np.zeros(n1, np.int64)
        counts["col_inliers"] = np.zeros(n2, np.int64)
        counts["row_weight"] = np.zeros(n1, dtype)
        counts["col_weight"] = np.zeros(n2, dtype)
    if isinstance(weight, Cauchy):
        counts["row_energy"], counts["col_energy"] = np.zeros(n1), np.zeros(n2)
    factors = Factors(L=L, R=R, P=P, Q=Q, Pw=Pw, Qw=Qw)
    room = Room(CQ=CQ, CtP=CtP, WQ=WQ, WtP=WtP, **counts)
    threads = _threads_for(of, L, Q if P is None else P, Qw if Pw is None else Pw)
    _kernels.products(
        of.weighed, factors, _weight(weight, dtype), room, threads=threads
    )
    if isinstance(weight, Clip):
        return Pull(CQ, CtP, n_inliers=int(counts["inliers"][0]))
    n_inliers = int(counts["row_inliers"].sum())
    if isinstance(weight, Cauchy):
        counts["energy"] = float(counts["row_energy"].sum())
    return Pull(CQ, CtP, n_inliers=n_inliers, grams=(WQ, WtP), **counts)


def _threads_for(of: Source, *factors: Array | None) -> int:
    """For a pass that multiplies every entry with a row of each of these factors."""
    width = sum(X.shape[1] for X in factors if X is not None)
    return threads_for(of.n_stored * width, of.threads)


def _ready(X: Any, dtype: np.dtype[Any]) -> Array | None:
    return None if X is None else _kernels.ready(X, dtype)


def _weight(weight: Weight, dtype: np.dtype[Any]) -> _kernels.Weight:
    """A weight as the kernels take it."""
    if isinstance(weight, Clip):
        return _kernels.Weight(weight.rule, z=weight.zeta)
    up, down = directions(weight.outliers)
    return _kernels.Weight(
        weight.rule,
        z=_number(weight),
        rows=_ready(weight.rows, dtype),
        cols=_ready(weight.cols, dtype),
        protect_rows=_ready(weight.protect_rows, dtype),
        protect_cols=_ready(weight.protect_cols, dtype),
        up=up,
        down=down,
        squares=weight.squares,
        rough=isinstance(weight, Threshold) and weight.rough,
    )


def _number(weight: Weight) -> float:
    """The one number that some rules have beside their thresholds."""
    if isinstance(weight, Power):
        return weight.shape
    return weight.odds if isinstance(weight, Mixture) else 0.0


def directions(outliers: str) -> tuple[float, float]:
    """1 for a side of the residuals, above and below zero, where there can be outliers."""
    return float(outliers != "negative"), float(outliers != "positive")


def adjoint(
    of: Source,
    L: Array,
    R: Array,
    zeta: float,
    Ab: Array,
    Bb: Array,
) -> Adjoint:
    """See `Observations.adjoint`."""
    L, R, Ab, Bb = (_kernels.ready(X, of.dtype) for X in (L, R, Ab, Bb))
    GL, GR, zeta_bar = np.zeros_like(L), np.zeros_like(R), np.zeros(1)
    factors = Factors(L=L, R=R, P=Ab, Q=Bb)
    room = Room(CQ=GL, CtP=GR, z_slope=zeta_bar)
    threads = _threads_for(of, L, L, Ab, Ab)
    _kernels.adjoint(of.data, factors, room, zeta=float(zeta), threads=threads)
    return Adjoint(GL, GR, float(zeta_bar[0]))


def power_adjoint(
    of: Entries,
    L: Array,
    R: Array,
    weight: Power,
    *,
    factors: tuple[Array, Array, Array, Array],
    side: int,
    energy: float,
    total: float,
) -> PowerAdjoint:
    """See `Sparse.power_adjoint`."""
    dtype = of.dtype
    L, R, P, Q, Pw, Qw = (_kernels.ready(X, dtype) for X in (L, R, *factors))
    n = of.shape[1 - side]
    pull, grams = (np.zeros((n, X.shape[1]), dtype) for X in (P, Pw))
    room = Room(CQ=pull, WQ=grams) if side else Room(CtP=pull, WtP=grams)
    GL, GR = np.zeros_like(L), np.zeros_like(R)
    rows, cols, shape = (np.zeros(k) for k in (*of.shape, 1))
    _kernels.slopes(
        of.data,
        Factors(L=L, R=R, P=P, Q=Q, Pw=Pw, Qw=Qw),
        _weight(weight, dtype),
        room,
        L=GL,
        R=GR,
        rows=rows,
        cols=cols,
        shape=shape,
        energy=energy,
        total=total,
        threads=_threads_for(of, L, P, Pw, Pw),
    )
    return PowerAdjoint(
        L=GL,
        R=GR,
        rows=rows,
        cols=cols,
        shape=float(shape[0]),
        pull=pull,
        grams=grams,
    )


def magnitudes(of: Source, L: Any, R: Any, share: float) -> tuple[Array, Array]:
    """See `Observations.magnitudes`."""
    # of a matrix without rows, no column is visited
    rows, cols = (np.full(n, np.inf, of.dtype) for n in of.shape)
    _kernels.magnitudes(
        of.data,
        Factors(L=_ready(L, of.dtype), R=_ready(R, of.dtype)),
        row_k=how_many(share, of.row_observed),
        col_k=how_many(share, of.col_observed),
        rows=rows,
        cols=cols,
        threads=of.threads,
    )
    return rows, cols


def regress(of: Source, model: Regression) -> tuple[Array, Array, Array]:
    """See `Observations.regress`: each row, all of its iterations while it is in the
    cache (`_kernels/regress.hpp`).
    """
    n, dtype = of.shape[0], of.dtype
    scores = np.empty((n, model.V.shape[1]), dtype)
    deviation, distance = np.empty(n, dtype), np.empty(n, dtype)
    up, down = directions(model.outliers)
    settings = _kernels.Regression(
        model.rule,
        V=_kernels.ready(model.V, dtype),
        offset=_kernels.ready(model.offset, dtype),
        mean=_kernels.ready(model.mean, np.float64),
        prior=_kernels.ready(model.prior, np.float64),
        widest=model.widest,
        lowest=model.lowest,
        odds=model.odds,
        reach=model.reach,
        up=up,
        down=down,
    )
    _kernels.regress(
        of.data,
        settings,
        scores=scores,
        deviation=deviation,
        distance=distance,
        threads=of.threads,
    )
    return scores, deviation, distance


def residual(
    data: SparseData,
    L: Array,
    R: Array,
    *,
    out: Array,
    threads: int,
) -> Array:
    """Y - L R' at the stored entries of sparse data, written into `out`."""
    factors = Factors(L=_kernels.ready(L, out.dtype), R=_kernels.ready(R, out.dtype))
    _kernels.residual(data, factors, out=out, threads=threads)
    return out


def observed_at(
    data: DenseData, rows: Array, cols: Array, dtype: np.dtype[Any]
) -> Sample:
    """Those of some places of dense data that are observed, in their order."""
    rows, cols = (_kernels.ready(lines, np.int64) for lines in (rows, cols))
    room = Sample(np.empty_like(rows), np.empty_like(cols), np.empty(len(rows), dtype))
    count = _kernels.observed_at(
        data,
        rows=rows,
        cols=cols,
        out_rows=room.rows,
        out_cols=room.cols,
        values=room.values,
    )
    return Sample(*(x[:count] for x in room))


def locate(indptr: Array, indices: Array, rows: Array, cols: Array) -> Array:
    """Where entries of sparse data are stored; -1 for those that are not."""
    where = np.empty(len(rows), np.int64)
    rows, cols = (_kernels.ready(lines, np.int64) for lines in (rows, cols))
    _kernels.locate(indptr=indptr, indices=indices, rows=rows, cols=cols, out=where)
    return where


def compress(
    data: DenseData,
    *,
    indptr: Array,
    indices: Array,
    values: Array,
    by_column: bool,
) -> None:
    """The observed entries of a dense matrix, by row or by column, into room for them."""
    _kernels.compress(
        data, indptr=indptr, indices=indices, values=values, by_column=by_column
    )


def survey_entries(indices: Array, values: Array, cols: Array) -> tuple[int, int]:
    """How many entries are NaN, and how many infinite; those of each column that are numbers are
    added to `cols`.
    """
    indices = _kernels.ready(indices, np.int32)
    values = _kernels.ready(values, values.dtype)
    return _kernels.survey_entries(indices, values, cols=cols)


def survey(Y: Array, mask: Array | None, threads: int) -> Counts:
    """What is observed of a dense matrix: no NaN, and not 0 in the mask."""
    rows, cols = (np.zeros(n, np.int64) for n in Y.shape)
    infinite = _kernels.survey(
        dense_data(Y, mask), rows=rows, cols=cols, threads=threads
    )
    return Counts(rows, cols, infinite)

"""How observed entries are stored, and the one operation that every method asks of them.

A new kind of storage is a new class with the methods of `Observations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import _kernels
from .._rows import Work, is_here, take
from ..linalg import Factors
from ..weights import Array, Clip, Mixture, Threshold, Weight, as_weight

DRAW_FROM_STORED_BELOW = 0.2  # random places would seldom be observed
ALL_UP_TO = 20_000  # matrices with no more entries than a sample has are their own sample
OFTEN = 0.05  # of all entries: a value that is found more often is left out of quantiles
DOMINANT = 0.85  # of all entries: a value that is found more often than this is the pattern, and others are outliers
FEWEST_TELLING = 30  # entries that must be left then
Form = Literal["dense", "masked", "sparse"]


class Pull(tuple[Any, Any]):
    """The pair (C @ Q, C.T @ P), with what the pass counted on its way as attributes.

    `n_inliers` counts the entries within the threshold. The rules with thresholds per row and column also count them by
    row and column, and give the sums of weights `row_weight` and `col_weight`, and `grams` = (W @ Qw, W.T @ Pw) if
    these were asked for; the smooth ones also the sum of w e^2 as `energy`. Otherwise these are None.
    """

    n_inliers: int
    row_inliers: Any = None
    col_inliers: Any = None
    row_weight: Any = None
    col_weight: Any = None
    energy: Any = None
    grams: Any = None

    def __new__(cls, CQ: Array | None, CtP: Array | None, **counts: Any) -> Pull:
        """Two matrices to unpack, the rest as attributes."""
        self = super().__new__(cls, (CQ, CtP))
        vars(self).update(counts)
        return self

    def minus(self, part: Pull) -> Pull:
        """The sums without those of a part of the entries."""

        def less(a: Any, b: Any) -> Any:
            return None if a is None else a - b

        names = ("n_inliers", "row_inliers", "col_inliers", "row_weight", "col_weight", "energy")
        counts = {name: less(getattr(self, name), getattr(part, name)) for name in names}
        if self.grams is not None and part.grams is not None:
            counts["grams"] = tuple(less(a, b) for a, b in zip(self.grams, part.grams, strict=True))
        return Pull(less(self[0], part[0]), less(self[1], part[1]), **counts)

    def flipped(self) -> Pull:
        """The pull of the transposed matrix."""
        return Pull(
            self[1],
            self[0],
            n_inliers=self.n_inliers,
            row_inliers=self.col_inliers,
            col_inliers=self.row_inliers,
            row_weight=self.col_weight,
            col_weight=self.row_weight,
            energy=self.energy,
            grams=self.grams and self.grams[::-1],
        )


class Adjoint(NamedTuple):
    """Gradients with respect to what a pass was given: both factors, and the threshold."""

    L: Array
    R: Array
    zeta: float

    def minus(self, part: Adjoint) -> Adjoint:
        """The gradients without those of a part of the entries."""
        return Adjoint(self.L - part.L, self.R - part.R, self.zeta - part.zeta)

    def flipped(self) -> Adjoint:
        """The gradients of the transposed matrix."""
        return Adjoint(self.R, self.L, self.zeta)


def most_frequent(values: Array) -> tuple[float, int]:
    """The most frequent value, and how often it stands there: data that are 0 in many places agree with X = 0 there."""
    distinct, counts = np.unique(values, return_counts=True)
    return (float(distinct[counts.argmax()]), int(counts.max())) if len(counts) else (0.0, 0)


class Sample(NamedTuple):
    """Some observed entries."""

    rows: Array
    cols: Array
    values: Array

    def residual(self, X: Factors) -> Array:
        """Y - L R' at these entries."""
        return self.values - np.einsum("ij,ij->i", take(X.L, self.rows), take(X.R, self.cols))

    def by_row(self) -> Sample:
        """The same entries in the order of their rows."""
        order = np.argsort(self.rows, kind="stable")
        return Sample(*(x[order] for x in self))

    def telling(self) -> Sample:
        """Without the value that stands in more than a twentieth of the places, if there is one and others are left.

        Zeros of a dark border, a saturated or a stuck sensor are met at once or never: quantiles of residuals that
        count them say nothing about the fit. (A value that stands nearly everywhere is what there is to fit.)
        """
        value, times = most_frequent(self.values)
        share = times / max(len(self.values), 1)
        if not OFTEN < share < DOMINANT or len(self.values) - times < FEWEST_TELLING:
            return self
        others = self.values != value
        return Sample(*(x[others] for x in self))


@dataclass(frozen=True, eq=False, kw_only=True)
class Observations:
    """A partly observed n1 x n2 matrix Y. What raises here is what a subclass has to do."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # of the arithmetic
    row_observed: Array  # how many entries of each row are observed
    col_observed: Array
    form: Form = "dense"  # of the input, for what is given back in that form
    gain: float = 1.0  # Y is read as gain times the data
    threads: int = 1
    AT_ONCE: ClassVar[int] = 4_000_000  # entries that `medians` looks at

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any, Pw: Any = None, Qw: Any = None) -> Pull:
        """C @ Q and C.T @ P, where C is the weighted residual of Y - L R' on the observed entries.

        One pass over the data. L and R may both be None (zero), and so may P or Q (that product is not made). With Pw
        or Qw also W @ Qw and W.T @ Pw of the weights W: not for the rule Clip, which keeps none.
        """
        raise NotImplementedError

    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        """The reverse of `pull(L, R, zeta)`: from gradients with respect to C @ R and C.T @ L, those of L, R and zeta.

        One pass over the data. With E = Y - L R' and Cb = Ab R' + L Bb' on the observed entries, and Eb = Cb where
        |E| <= zeta, else 0: C @ Bb - Eb @ R, C.T @ Ab - Eb.T @ L, and the sum of Cb sign(E) over |E| > zeta.
        """
        raise NotImplementedError

    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        """The k-th largest |Y - L R'| of each row and of each column, where k is `share` of what is observed there.

        k is rounded up; where it is 0 the answer is infinity. L and R may both be None (zero). Two passes over the data
        and some counting, exact. The scratch is a few columns of the matrix per thread (sparse: twice the entries).
        """
        raise NotImplementedError

    def lookup(self, rows: Array, cols: Array) -> Array:
        """The entries at these places, NaN where not observed."""
        raise NotImplementedError

    def block(self, rows: Any, cols: Any) -> Array:
        """The rows x cols part as a dense array, 0 where not observed."""
        raise NotImplementedError

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """Y - L R' where it is larger than the threshold, 0 elsewhere, in the form of the input."""
        raise NotImplementedError

    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        """Y - L R' at all observed entries, about a million places of the matrix (or stored entries) at a time."""
        raise NotImplementedError

    # ---- the same for all

    def round(self, work: Work, rows: tuple[Any, ...], shared: Any) -> tuple[Any, Any]:
        """One pass: `work(block, rows, shared)` on every block of rows. See `lrmc._rows`. In memory there is one."""
        return work(self, rows, shared)

    def grid(self, rows: Array, cols: Array) -> Array:
        """The entries of these rows and columns as a dense array, NaN where not observed."""
        places = np.repeat(rows, len(cols)), np.tile(cols, len(rows))
        return self.lookup(*places).reshape(len(rows), len(cols))

    def medians(self, axis: int, places: Array, subtract: Array, empty: float) -> Any:
        """The median of some entries of each row (axis 0) or column (axis 1), less what the others typically are.

        `places` are the columns (rows) that are looked at; `subtract` has a number for every column (row). A line
        without entries there gets `empty`.
        """
        n = self.shape[axis]
        less, out = take(subtract, places), np.full(n, empty)
        for at in np.array_split(np.arange(n), max(1, n * len(places) // self.AT_ONCE)):
            values = (self.grid(at, places) if axis == 0 else self.grid(places, at).T) - less
            values = np.sort(values, axis=1)  # NaN comes last; numpy's nanmedian is ten times slower on long lines
            count = values.shape[1] - np.isnan(values).sum(1)
            seen = np.flatnonzero(count)
            below, above = (values[seen, (count[seen] - k) // 2] for k in (1, 0))
            out[at[seen]] = (below + above) / 2
        return out

    def scaled(self, gain: float) -> Observations:
        """The same data, read as gain times what they were."""
        return replace(self, gain=self.gain * gain)

    def in_form(self, L: Any, R: Any) -> tuple[Any, Any]:
        """Factors as they are given back to the user."""
        return L, R

    @property
    def across(self) -> bool:
        """Whether rows lie across the workers of a cluster, so that only the columns' lines can stay at home."""
        return False

    def transposed(self) -> Observations:
        """The transposed matrix, stored as it is."""
        return transposed(self)

    def pull(self, L: Any, R: Any, weight: Weight | float) -> Pull:
        """C @ R and C.T @ L, where C is the weighted residual of Y - L R' on the observed entries.

        `weight` is the paper's threshold zeta (C is the residual clipped to it) or a rule of `lrmc.weights`.
        """
        return self.products(L, R, weight, L, R)

    @cached_property
    def n_observed(self) -> int:
        """How many entries are observed."""
        return int(self.row_observed.sum())

    @property
    def fraction(self) -> float:
        """The observed fraction p."""
        return self.n_observed / (self.shape[0] * self.shape[1])

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """About `size` observed entries: the same ones whatever the storage, if at least a fifth is observed."""
        rng = np.random.default_rng(seed)
        candidates = int(size / self.fraction) + 1
        rows, cols = (rng.integers(0, n, candidates) for n in self.shape)
        values = self.lookup(rows, cols)
        seen = ~np.isnan(values)
        return Sample(rows[seen], cols[seen], values[seen])

    @cached_property
    def sample(self) -> Sample:
        """The entries that thresholds are taken from, row by row: what `draw` gives, once; of a small matrix, all."""
        n1, n2 = self.shape
        if n1 * n2 > ALL_UP_TO:
            return self.draw().by_row()
        rows, cols = np.divmod(np.arange(n1 * n2), n2)
        values = self.lookup(rows, cols)
        seen = ~np.isnan(values)
        return Sample(rows[seen], cols[seen], values[seen])

    @cached_property
    def scale(self) -> float:
        """The median of |y| over a sample of the observed entries: the unit of relative thresholds. Never 0."""
        size = np.abs(self.sample.values)
        for typical in (np.median, np.mean):
            with np.errstate(over="ignore"):
                scale = float(typical(size)) if size.size else 0.0
            if scale > 0:
                return scale
        return float(np.max(size, initial=0.0)) or 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Observations):
    """Rows one after another in memory; missing entries are NaN, or 0 in the mask."""

    Y: Array
    mask: Array | None = None

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any, Pw: Any = None, Qw: Any = None) -> Pull:
        """See `Observations.products`."""
        return run("dense", self, (*self.data, None), (L, R, P, Q, Pw, Qw), as_weight(weight))

    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        """See `Observations.adjoint`."""
        return _run_adjoint("adjoint_dense", self, self.data, (L, R), zeta, (Ab, Bb))

    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        """See `Observations.magnitudes`."""
        return _run_magnitudes("magnitudes_dense", self, self.data, (L, R), share)

    @property
    def data(self) -> tuple[Any, ...]:
        """As the kernels take them."""
        return self.Y, self.mask

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        values = self.Y[rows, cols].astype(self.dtype) * self.dtype.type(self.gain)
        return values if self.mask is None else np.where(self.mask[rows, cols], values, np.nan)

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """See `Observations.draw`; where few entries are observed, drawn from those."""
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        first = np.concatenate([[0], np.cumsum(self.row_observed)])
        where = np.sort(np.random.default_rng(seed).integers(0, self.n_observed, size))
        rows, cols = np.searchsorted(first, where, side="right") - 1, np.empty(size, np.int64)
        for block in row_blocks(*self.shape):
            here = slice(*np.searchsorted(where, first[[block.start, block.stop]]))
            cols[here] = np.nonzero(self.observed(block))[1][where[here] - first[block.start]]
        return Sample(rows, cols, self.lookup(rows, cols))

    def observed(self, rows: slice) -> Array:
        """Which entries of some rows are observed."""
        seen = ~np.isnan(self.Y[rows])
        return seen if self.mask is None else seen & (self.mask[rows] != 0)

    def block(self, rows: Any, cols: Any) -> Array:
        """See `Observations.block`."""
        part = self.Y[rows][:, cols].astype(self.dtype) * self.dtype.type(self.gain)
        if self.mask is not None:
            part[self.mask[rows][:, cols] == 0] = 0
        return np.nan_to_num(part, copy=False, nan=0.0)

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """An array with NaN where nothing was observed (a masked array where one came)."""
        S = np.empty(self.shape, self.dtype)
        for rows in row_blocks(*self.shape):
            residual = self._residual(rows, L, R)
            S[rows] = np.where(np.abs(residual) <= threshold, 0, residual)
        return in_form(S, self.form)

    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        """See `Observations.residuals`."""
        for rows in row_blocks(*self.shape):
            residual = self._residual(rows, L, R)
            seen = ~np.isnan(residual)
            i, j = np.nonzero(seen)
            yield Sample(rows.start + i, j, residual[seen])

    def _residual(self, rows: slice, L: Array, R: Array) -> Array:
        """Some rows of Y - L R', NaN where not observed."""
        residual = self.Y[rows] * self.dtype.type(self.gain) - L[rows] @ R.T
        if self.mask is not None:
            residual[self.mask[rows] == 0] = np.nan
        return residual


@dataclass(frozen=True, eq=False, kw_only=True)
class Sparse(Observations):
    """The observed entries by row (CSR, columns sorted); a stored zero is an observation."""

    indptr: Array
    indices: Array
    values: Array

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any, Pw: Any = None, Qw: Any = None) -> Pull:
        """See `Observations.products`."""
        return run("sparse", self, self.data, (L, R, P, Q, Pw, Qw), as_weight(weight))

    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        """See `Observations.adjoint`."""
        return _run_adjoint("adjoint_sparse", self, self.data, (L, R), zeta, (Ab, Bb))

    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        """See `Observations.magnitudes`."""
        return _run_magnitudes("magnitudes_sparse", self, self.data, (L, R), share)

    @property
    def data(self) -> tuple[Any, ...]:
        """As the kernels take them."""
        return self.indptr, self.indices, self.values, self.shape[1]

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        where = np.empty(len(rows), np.int64)
        rows, cols = (np.ascontiguousarray(lines, np.int64) for lines in (rows, cols))
        _kernels.locate(self.indptr, self.indices, rows, cols, where)
        found = self.values[where].astype(self.dtype) * self.dtype.type(self.gain)
        return np.where(where < 0, self.dtype.type(np.nan), found)

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """See `Observations.draw`; where few entries are stored, drawn from those."""
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        where = np.sort(np.random.default_rng(seed).integers(0, self.n_observed, size))
        rows = np.searchsorted(self.indptr, where, side="right") - 1
        return Sample(
            rows,
            self.indices[where].astype(np.int64),
            self.values[where].astype(self.dtype) * self.dtype.type(self.gain),
        )

    def block(self, rows: Any, cols: Any) -> Array:
        """See `Observations.block`."""
        part = self._csr(self.values)[rows][:, cols].toarray()
        return part.astype(self.dtype) * self.dtype.type(self.gain)

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """A CSR matrix with the entries of the data (a stored 0 where nothing stands out)."""
        S = self._residual(L, R)
        S[np.abs(S) <= threshold] = 0
        if self.form == "sparse":
            return self._csr(S)
        dense = np.full(self.shape, np.nan, self.dtype)
        dense[np.repeat(np.arange(self.shape[0]), self.row_observed), self.indices] = S
        return in_form(dense, self.form)

    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        """See `Observations.residuals`."""
        residual = self._residual(L, R)
        for first in range(0, len(residual), 1 << 20):
            some = slice(first, min(first + (1 << 20), len(residual)))
            rows = np.searchsorted(self.indptr, np.arange(some.start, some.stop), side="right") - 1
            yield Sample(rows, self.indices[some].astype(np.int64), residual[some])

    def _residual(self, L: Array, R: Array) -> Array:
        """Y - L R' at the stored entries."""
        residual = np.empty(len(self.values), self.dtype)
        factors = (np.ascontiguousarray(X, self.dtype) for X in (L, R))
        data = (self.indptr, self.indices, self.values, self.gain)
        _kernels.run("residual", self.dtype, *data, *factors, residual, self.threads)
        return residual

    def by_columns(self) -> Any:
        """A copy of the entries by column: the transposed matrix in CSR form."""
        return self._csr(self.values).T.tocsr()

    def _csr(self, values: Array) -> Any:
        return sp.csr_array((values, self.indices, self.indptr), shape=self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class Transposed(Observations):
    """A matrix whose columns are stored one after another: the other matrix with the roles swapped."""

    of: Observations

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any, Pw: Any = None, Qw: Any = None) -> Pull:
        """See `Observations.products`."""
        return self.of.products(R, L, as_weight(weight).flipped(), Q, P, Qw, Pw).flipped()

    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        """See `Observations.adjoint`."""
        return self.of.adjoint(R, L, zeta, Bb, Ab).flipped()

    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        """See `Observations.magnitudes`."""
        return self.of.magnitudes(R, L, share)[::-1]

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        return self.of.lookup(cols, rows)

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """See `Observations.draw`."""
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        cols, rows, values = self.of.draw(size, seed)
        return Sample(rows, cols, values)

    def grid(self, rows: Array, cols: Array) -> Array:
        """See `Observations.grid`."""
        return self.of.grid(cols, rows).T

    def medians(self, axis: int, places: Array, subtract: Array, empty: float) -> Any:
        """See `Observations.medians`."""
        return self.of.medians(1 - axis, places, subtract, empty)

    def block(self, rows: Any, cols: Any) -> Array:
        """See `Observations.block`."""
        return self.of.block(cols, rows).T

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """See `Observations.outliers`."""
        return self.of.outliers(R, L, threshold).T

    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        """See `Observations.residuals`."""
        for cols, rows, values in self.of.residuals(R, L):
            yield Sample(rows, cols, values)

    def in_form(self, L: Any, R: Any) -> tuple[Any, Any]:
        """See `Observations.in_form`."""
        return self.of.in_form(R, L)[::-1]

    @property
    def across(self) -> bool:
        """See `Observations.across`."""
        return not is_here(self.of.row_observed)

    def transposed(self) -> Observations:
        """See `Observations.transposed`."""
        return self.of

    def scaled(self, gain: float) -> Transposed:
        """See `Observations.scaled`."""
        return transposed(self.of.scaled(gain))


def transposed(obs: Observations) -> Transposed:
    """The transposed matrix, stored as it is."""
    swapped = {"shape": obs.shape[::-1], "row_observed": obs.col_observed, "col_observed": obs.row_observed}
    return Transposed(**(common(obs) | swapped), of=obs)


def common(obs: Observations) -> dict[str, Any]:
    """What different forms of the same data share."""
    return {field.name: getattr(obs, field.name) for field in fields(Observations)}


def run(kernel: str, obs: Dense | Sparse, data: tuple[Any, ...], factors: tuple[Any, ...], weight: Weight) -> Pull:
    """Call a kernel with room for its answers. A factor that is given twice is passed twice: the kernels notice."""
    dtype, (n1, n2) = obs.dtype, obs.shape
    ready = {id(X): np.ascontiguousarray(X, dtype) for X in factors if X is not None}
    L, R, P, Q, Pw, Qw = (None if X is None else ready[id(X)] for X in factors)
    CQ, CtP, WQ, WtP = (
        None if X is None else np.zeros((n, X.shape[1]), dtype) for X, n in ((Q, n1), (P, n2), (Qw, n1), (Pw, n2))
    )
    counts: dict[str, Any] = {"row_inliers": np.zeros(n1, np.int64)}
    rule: tuple[Any, ...]
    if isinstance(weight, Clip):
        rule, energy, sums = (weight.rule, weight.zeta, None, None, None, None, 1.0, 1.0, False), None, {}
    else:
        sides = (weight.rows, weight.cols, weight.protect_rows, weight.protect_cols)
        up, down = float(weight.outliers != "negative"), float(weight.outliers != "positive")
        odds = weight.odds if isinstance(weight, Mixture) else 0.0
        rule, energy = (
            (weight.rule, odds, *(np.ascontiguousarray(x, dtype) for x in sides), up, down, weight.squares),
            np.zeros(1),
        )
        sums = {
            "col_inliers": np.zeros(n2, np.int64),
            "row_weight": np.zeros(n1, dtype),
            "col_weight": np.zeros(n2, dtype),
        }
    counts.update(sums)
    room = [counts.get(name) for name in ("row_inliers", "col_inliers", "row_weight", "col_weight")]
    inputs = (*data, obs.gain, L, R, P, Q, Pw, Qw, *rule)
    _kernels.run(kernel, dtype, *inputs, CQ, CtP, WQ, WtP, energy, *room, obs.threads)
    n_inliers = int(counts["row_inliers"].sum())
    if energy is None:
        return Pull(CQ, CtP, n_inliers=n_inliers)
    counts["energy"] = None if isinstance(weight, Threshold) else float(energy[0])
    return Pull(CQ, CtP, n_inliers=n_inliers, grams=(WQ, WtP), **counts)


def _run_adjoint(
    kernel: str,
    obs: Dense | Sparse,
    data: tuple[Any, ...],
    factors: tuple[Any, Any],
    zeta: float,
    seeds: tuple[Any, Any],
) -> Adjoint:
    """Call the adjoint of a kernel with room for its answers."""
    L, R, Ab, Bb = (np.ascontiguousarray(X, obs.dtype) for X in (*factors, *seeds))
    GL, GR, zeta_bar = np.zeros_like(L), np.zeros_like(R), np.zeros(1)
    _kernels.run(kernel, obs.dtype, *data, obs.gain, L, R, float(zeta), Ab, Bb, GL, GR, zeta_bar, obs.threads)
    return Adjoint(GL, GR, float(zeta_bar[0]))


def _run_magnitudes(
    kernel: str, obs: Dense | Sparse, data: tuple[Any, ...], factors: tuple[Any, Any], share: float
) -> tuple[Array, Array]:
    """Call a kernel that finds the k-th largest residuals."""
    L, R = (None if X is None else np.ascontiguousarray(X, obs.dtype) for X in factors)
    counts = (how_many(share, obs.row_observed), how_many(share, obs.col_observed))
    rows, cols = (np.full(n, np.inf, obs.dtype) for n in obs.shape)  # of a matrix without rows, no column is visited
    _kernels.run(kernel, obs.dtype, *data, obs.gain, L, R, *counts, rows, cols, obs.threads)
    return rows, cols


def how_many(share: float, observed: Array) -> Array:
    """A share of each number, rounded up: 0.3 of 10 is 3, though 0.3 * 10 may be a little more in floating point."""
    return np.minimum(np.ceil(share * observed * (1 - 1e-12)), observed).astype(np.int64)


def row_blocks(n1: int, n2: int, entries: int = 1 << 20) -> list[slice]:
    """Slices of rows that have about so many entries."""
    step = max(1, entries // max(1, n2))
    return [slice(i, min(n1, i + step)) for i in range(0, n1, step)]


def in_form(S: Array, form: Form) -> Any:
    """A dense result in the form of the input."""
    if form == "masked":
        return np.ma.masked_invalid(S)
    if form == "sparse":
        rows, cols = np.nonzero(~np.isnan(S))
        return sp.csr_array((S[rows, cols], (rows, cols)), shape=S.shape)
    return S

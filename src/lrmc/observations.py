"""What was observed, and the one operation that every method asks of it.

`as_observations` is the door: the only code that knows kinds of input, and the place where everything is checked once.
A new kind of input is a new class with the methods of `Observations`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import _kernels
from .weights import Array, Clip, Weight, as_weight

# Below this observed fraction a sparse matrix is the faster form, above the dense one (benchmarks/passes.py prints where
# they cross: 0.15 to 0.25 for ranks 1 to 10). A sparse matrix becomes dense only where that takes no more memory.
SPARSE_BELOW = 0.2
DENSE_ABOVE = 0.5

Form = Literal["dense", "masked", "sparse"]


class Pull(tuple[Any, Any]):
    """The pair (C @ Q, C.T @ P), with what the pass counted on its way as attributes.

    `row_inliers` counts the inliers of each row. The rules with thresholds per row and column also give
    `col_inliers` and the sums of weights `row_weight`, `col_weight`; for the paper's clip these are None.
    """

    row_inliers: Array
    col_inliers: Array | None
    row_weight: Array | None
    col_weight: Array | None

    def __new__(
        cls,
        CQ: Array | None,
        CtP: Array | None,
        row_inliers: Array,
        col_inliers: Array | None = None,
        row_weight: Array | None = None,
        col_weight: Array | None = None,
    ) -> Pull:
        """Two matrices to unpack, the counts as attributes."""
        self = super().__new__(cls, (CQ, CtP))
        self.row_inliers, self.col_inliers = row_inliers, col_inliers
        self.row_weight, self.col_weight = row_weight, col_weight
        return self

    @property
    def n_inliers(self) -> int:
        """How many observed entries were inliers."""
        return int(self.row_inliers.sum())

    def flipped(self) -> Pull:
        """The pull of the transposed matrix."""
        if self.col_inliers is None:  # clip counts by stored row only; the total is what is used
            return Pull(self[1], self[0], self.row_inliers)
        return Pull(self[1], self[0], self.col_inliers, self.row_inliers, self.col_weight, self.row_weight)


class Sample(NamedTuple):
    """Some observed entries."""

    rows: Array
    cols: Array
    values: Array


class Observations:
    """A partly observed n1 x n2 matrix Y.

    Subclasses have `shape`, `dtype` (the precision of the arithmetic), `gain` (Y is read as gain times the data),
    `row_observed` and `col_observed` (counts), and the methods below that raise here.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    gain: float
    form: Form
    row_observed: Array
    col_observed: Array

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any) -> Pull:
        """C @ Q and C.T @ P, where C is the weighted residual of Y - L R' on the observed entries.

        One pass over the data. L and R may both be None (zero), and so may P or Q (that product is not made).
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

    def scaled(self, gain: float) -> Observations:
        """The same data, read as gain times what they were."""
        raise NotImplementedError

    # ---- the same for all

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
        """About `size` observed entries, the same ones whatever the storage."""
        rng = np.random.default_rng(seed)
        candidates = int(size / self.fraction) + 1
        rows, cols = (rng.integers(0, n, candidates) for n in self.shape)
        values = self.lookup(rows, cols)
        seen = ~np.isnan(values)
        return Sample(rows[seen], cols[seen], values[seen])

    @cached_property
    def scale(self) -> float:
        """The median of |y| over a sample of the observed entries: the unit of relative thresholds. Never 0."""
        size = np.abs(self.draw().values)
        for typical in (np.median, np.mean):
            scale = float(typical(size)) if size.size else 0.0
            if scale > 0:
                return scale
        return float(np.max(size, initial=0.0)) or 1.0


@dataclass(frozen=True, eq=False)
class Dense(Observations):
    """Rows one after another in memory; missing entries are NaN, or 0 in the mask."""

    Y: Array
    mask: Array | None
    row_observed: Array
    col_observed: Array
    threads: int
    form: Form = "dense"
    gain: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Of the matrix."""
        return self.Y.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Of the arithmetic."""
        return precision(self.Y.dtype)

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any) -> Pull:
        """See `Observations.products`."""
        return _run("dense", self, (self.Y, self.mask), L, R, as_weight(weight), P, Q)

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        values = self.Y[rows, cols].astype(self.dtype) * self.dtype.type(self.gain)
        return values if self.mask is None else np.where(self.mask[rows, cols], values, np.nan)

    def block(self, rows: Any, cols: Any) -> Array:
        """See `Observations.block`."""
        part = self.Y[rows][:, cols].astype(self.dtype) * self.dtype.type(self.gain)
        seen = ~np.isnan(part) if self.mask is None else self.mask[rows][:, cols] != 0
        return np.where(seen, part, self.dtype.type(0))

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """An array with NaN where nothing was observed (a masked array where one came)."""
        S = np.empty(self.shape, self.dtype)
        for rows in row_blocks(*self.shape):
            residual = self.Y[rows] * self.dtype.type(self.gain) - L[rows] @ R.T
            if self.mask is not None:
                residual[self.mask[rows] == 0] = np.nan
            S[rows] = np.where(np.abs(residual) <= threshold, 0, residual)
        return _in_form(S, self.form)

    def scaled(self, gain: float) -> Dense:
        """See `Observations.scaled`."""
        return replace(self, gain=self.gain * gain)


@dataclass(frozen=True, eq=False)
class Sparse(Observations):
    """The observed entries by row (CSR, columns sorted); a stored zero is an observation."""

    indptr: Array
    indices: Array
    values: Array
    n_columns: int
    col_observed: Array
    threads: int
    form: Form = "sparse"
    gain: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Of the matrix."""
        return len(self.indptr) - 1, self.n_columns

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Of the arithmetic."""
        return precision(self.values.dtype)

    @cached_property
    def row_observed(self) -> Array:  # type: ignore[override]
        """Observed entries of each row."""
        return np.diff(self.indptr)

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any) -> Pull:
        """See `Observations.products`."""
        data = (self.indptr, self.indices, self.values, self.n_columns)
        return _run("sparse", self, data, L, R, as_weight(weight), P, Q)

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        where = np.empty(len(rows), np.int64)
        _kernels.locate(self.indptr, self.indices, rows, cols, where)
        found = self.values[where].astype(self.dtype) * self.dtype.type(self.gain)
        return np.where(where < 0, self.dtype.type(np.nan), found)

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """See `Observations.draw`; where few entries are stored, drawn from those."""
        if self.fraction >= SPARSE_BELOW:
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
        S = np.empty(len(self.values), self.dtype)
        factors = (np.ascontiguousarray(X, self.dtype) for X in (L, R))
        _kernels.run(
            "residual", self.dtype, self.indptr, self.indices, self.values, self.gain, *factors, S, self.threads
        )
        S[np.abs(S) <= threshold] = 0
        if self.form == "sparse":
            return self._csr(S)
        dense = np.full(self.shape, np.nan, self.dtype)
        dense[np.repeat(np.arange(self.shape[0]), self.row_observed), self.indices] = S
        return _in_form(dense, self.form)

    def scaled(self, gain: float) -> Sparse:
        """See `Observations.scaled`."""
        return replace(self, gain=self.gain * gain)

    def _csr(self, values: Array) -> Any:
        return sp.csr_array((values, self.indices, self.indptr), shape=self.shape)


@dataclass(frozen=True, eq=False)
class Transposed(Observations):
    """A matrix whose columns are stored one after another: the other matrix with the roles swapped."""

    of: Observations

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Of the matrix."""
        return self.of.shape[::-1]

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Of the arithmetic."""
        return self.of.dtype

    @property
    def gain(self) -> float:  # type: ignore[override]
        """What the data are multiplied with."""
        return self.of.gain

    @property
    def form(self) -> Form:  # type: ignore[override]
        """Of the input."""
        return self.of.form

    @property
    def row_observed(self) -> Array:  # type: ignore[override]
        """Observed entries of each row."""
        return self.of.col_observed

    @property
    def col_observed(self) -> Array:  # type: ignore[override]
        """Observed entries of each column."""
        return self.of.row_observed

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any) -> Pull:
        """See `Observations.products`."""
        return self.of.products(R, L, as_weight(weight).flipped(), Q, P).flipped()

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        return self.of.lookup(cols, rows)

    def block(self, rows: Any, cols: Any) -> Array:
        """See `Observations.block`."""
        return self.of.block(cols, rows).T

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """See `Observations.outliers`."""
        return self.of.outliers(R, L, threshold).T

    def scaled(self, gain: float) -> Transposed:
        """See `Observations.scaled`."""
        return Transposed(self.of.scaled(gain))


def _run(
    kernel: str, obs: Dense | Sparse, data: tuple[Any, ...], L: Any, R: Any, weight: Weight, P: Any, Q: Any
) -> Pull:
    """Call a kernel with room for its answers."""
    dtype, (n1, n2) = obs.dtype, obs.shape

    def factor(X: Any) -> Any:
        return None if X is None else np.ascontiguousarray(X, dtype)

    L_, R_ = factor(L), factor(R)
    P_, Q_ = L_ if P is L else factor(P), R_ if Q is R else factor(Q)
    CQ = None if Q is None else np.zeros((n1, Q_.shape[1]), dtype)
    CtP = None if P is None else np.zeros((n2, P_.shape[1]), dtype)
    row_inliers = np.zeros(n1, np.int64)
    if isinstance(weight, Clip):
        rule = (weight.rule, weight.zeta, None, None, None, None, 1.0, 1.0)
        sums: tuple[Any, ...] = (None, None, None)
    else:
        sides = (weight.rows, weight.cols, weight.protect_rows, weight.protect_cols)
        up, down = float(weight.outliers != "negative"), float(weight.outliers != "positive")
        rule = (weight.rule, 0.0, *(np.ascontiguousarray(x, dtype) for x in sides), up, down)  # type: ignore[assignment]
        sums = (np.zeros(n2, np.int64), np.zeros(n1, dtype), np.zeros(n2, dtype))
    _kernels.run(kernel, dtype, *data, obs.gain, L_, R_, P_, Q_, *rule, CQ, CtP, row_inliers, *sums, obs.threads)
    return Pull(CQ, CtP, row_inliers, *sums)


# ---- the door


def as_observations(Y: Any, mask: Any = None, *, threads: int | None = None) -> Observations:
    """Look at the input once, and say what was observed.

    Y: 2-D array (NaN is missing), masked array, scipy sparse matrix (stored entries are observed, also zeros), memmap,
    DataFrame, DataArray or anything else that numpy reads. `mask` is True where an entry is observed. float32, uint8,
    int16 and uint16 are read as they are and computed in float32, float64 in float64; other types are converted.
    """
    if isinstance(Y, Observations):
        if mask is not None:
            raise ValueError("mask= was given with observations that are already made; give it to as_observations")
        return Y
    threads = _check_threads(threads)
    if sp.issparse(Y):
        if mask is not None:
            raise ValueError("mask= was given with a sparse matrix, which says itself what is observed: what it stores")
        return _from_sparse(Y, threads)
    form: Form = "dense"
    if isinstance(Y, np.ma.MaskedArray):
        seen = ~np.ma.getmaskarray(Y)
        mask = seen if mask is None else seen & _as_mask(mask, Y.shape)
        Y, form = Y.data, "masked"
    Y = _as_array(Y)
    mask = None if mask is None else _as_mask(mask, Y.shape)
    if _by_columns(Y):
        return Transposed(_from_dense(Y.T, None if mask is None else mask.T, form, threads))
    return _from_dense(Y, mask, form, threads)


def precision(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In which precision data of this type are computed."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def row_blocks(n1: int, n2: int, entries: int = 1 << 20) -> list[slice]:
    """Slices of rows that have about so many entries."""
    step = max(1, entries // max(1, n2))
    return [slice(i, min(n1, i + step)) for i in range(0, n1, step)]


def _check_threads(threads: int | None) -> int:
    if threads is None:
        return _kernels.max_threads()
    if int(threads) != threads or threads < 1:
        raise ValueError(f"threads={threads!r}; a whole number of at least 1 is wanted, or None for all cores")
    return int(threads)


_AS_IS = (np.float32, np.float64, np.uint8, np.int16, np.uint16)
_CONVERTED = {"?": np.uint8, "b": np.int16, "e": np.float32}  # by dtype.char; other numbers become float64


def _storable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that the kernels read, nearest to this one."""
    if dtype.kind not in "fiub":
        what = {"O": "Python objects", "c": "complex numbers"}.get(dtype.kind, f"type {dtype}")
        hint = "choose the numeric columns" if dtype.kind in "OSU" else "give real numbers"
        raise ValueError(f"the matrix holds {what}; floats, integers or booleans are wanted: {hint}")
    native = dtype.newbyteorder("=")
    return native if native.type in _AS_IS else np.dtype(_CONVERTED.get(native.char, np.float64))


def _as_array(Y: Any) -> Array:
    if type(Y).__module__.partition(".")[0] == "torch":
        Y = Y.detach().cpu().numpy()
    if hasattr(Y, "to_numpy") and hasattr(Y, "columns"):  # a DataFrame: its own missing values become NaN
        try:
            Y = Y.to_numpy(dtype=None if all(t.kind in "fiub" for t in Y.dtypes) else float, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the table has columns that are not numbers; choose the numeric ones ({error})") from None
    try:
        array = np.asanyarray(Y)
    except ValueError as error:
        raise ValueError(f"a matrix was wanted, but this could not be read as one: {error}") from None
    if array.ndim != 2:
        raise ValueError(
            f"a 2-D matrix is wanted, but the input has {array.ndim} dimension(s), shape {array.shape}; reshape it"
        )
    if array.size == 0:
        raise ValueError(f"the matrix is empty: shape {array.shape}")
    array = array.astype(_storable(array.dtype), copy=False)
    return array if array.flags.aligned else array.copy()


def _as_mask(mask: Any, shape: tuple[int, ...]) -> Array:
    mask = mask.toarray() if sp.issparse(mask) else np.asarray(mask)
    if mask.shape != shape:
        hint = "; transpose one of them?" if mask.shape == shape[::-1] else ""
        raise ValueError(f"mask has shape {mask.shape}, the matrix {shape}{hint}")
    if mask.dtype.kind not in "biu":
        raise ValueError(f"mask has type {mask.dtype}; booleans are wanted, True where an entry is observed")
    return mask if mask.dtype == bool else mask != 0


def _by_columns(Y: Array) -> bool:
    """Whether columns, not rows, are contiguous."""
    size = Y.itemsize
    return Y.strides[1] != size and Y.strides[0] == size and Y.shape[1] > 1


def _rows_contiguous(X: Array) -> Array:
    return X if X.strides[1] == X.itemsize or X.shape[1] == 1 else np.ascontiguousarray(X)


def _from_dense(Y: Array, mask: Array | None, form: Form, threads: int) -> Observations:
    Y = _rows_contiguous(np.asarray(Y))
    seen = None if mask is None else _rows_contiguous(mask).view(np.uint8)
    n1, n2 = Y.shape
    rows, cols = np.zeros(n1, np.int64), np.zeros(n2, np.int64)
    infinite = _kernels.survey(Y, seen, rows, cols, threads)
    if infinite:
        raise ValueError(f"{infinite} observed entries are infinite; set them to NaN (missing) or to finite values")
    observed = int(rows.sum())
    _check_observed(observed, Y.shape)
    if observed < SPARSE_BELOW * Y.size:
        return _compressed(Y, seen, rows, cols, form, threads)
    return Dense(Y, seen if observed < Y.size else None, rows, cols, threads, form)


def _compressed(Y: Array, seen: Array | None, rows: Array, cols: Array, form: Form, threads: int) -> Sparse:
    """The sparse form of a dense matrix, made block by block."""
    indptr = np.concatenate([[0], np.cumsum(rows)])
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], Y.dtype)
    for block in row_blocks(*Y.shape):
        part = Y[block]
        here = ~np.isnan(part)
        if seen is not None:
            here &= seen[block] != 0
        at = slice(indptr[block.start], indptr[block.stop])
        indices[at] = np.nonzero(here)[1]
        values[at] = part[here]
    return Sparse(indptr, indices, values, Y.shape[1], cols, threads, form)


def _from_sparse(Y: Any, threads: int) -> Observations:
    if len(Y.shape) != 2:
        raise ValueError(f"a 2-D matrix is wanted, but the sparse input has shape {Y.shape}")
    if 0 in Y.shape:
        raise ValueError(f"the matrix is empty: shape {Y.shape}")
    if Y.format == "csc":  # its transpose is stored by rows
        return Transposed(_from_sparse(Y.T, threads))
    if max(Y.shape) > np.iinfo(np.int32).max:
        raise ValueError(f"shape {Y.shape}: sparse matrices have at most 2^31 - 1 rows and columns")
    csr = Y.tocsr()
    if not csr.has_canonical_format:  # duplicates are summed, as everywhere in scipy
        csr = csr.copy() if csr is Y else csr
        csr.sum_duplicates()
    indptr, indices = csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int32, copy=False)
    values = csr.data.astype(_storable(csr.data.dtype), copy=False)
    if values.dtype.kind == "f":
        _refuse_infinite(values)
        missing = np.isnan(values)
        if missing.any():
            indptr = np.concatenate([[0], np.cumsum(~missing)])[indptr]
            indices, values = indices[~missing], values[~missing]
    _check_observed(len(values), csr.shape)
    cols = np.bincount(indices, minlength=csr.shape[1])
    sparse = Sparse(indptr, indices, np.ascontiguousarray(values), csr.shape[1], cols, threads)
    return sparse if sparse.fraction < DENSE_ABOVE else _expanded(sparse)


def _expanded(sparse: Sparse) -> Dense:
    """The dense form of a sparse matrix with few gaps."""
    floats = sparse.values.dtype.kind == "f"
    Y = np.full(sparse.shape, np.nan if floats else 0, sparse.values.dtype)
    where = (np.repeat(np.arange(sparse.shape[0]), sparse.row_observed), sparse.indices)
    Y[where] = sparse.values
    mask = None
    if not floats and sparse.fraction < 1:
        mask = np.zeros(sparse.shape, np.uint8)
        mask[where] = 1
    return Dense(Y, mask, sparse.row_observed, sparse.col_observed, sparse.threads, "sparse")


def _refuse_infinite(values: Array) -> None:
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise ValueError(f"{infinite} stored entries are infinite; set them to NaN (missing) or to finite values")


def _check_observed(observed: int, shape: tuple[int, ...]) -> None:
    if observed == 0:
        raise ValueError(f"nothing is observed: all entries of the {shape[0]} x {shape[1]} matrix are missing")


def _in_form(S: Array, form: Form) -> Any:
    """A dense result in the form of the input."""
    if form == "masked":
        return np.ma.masked_invalid(S)
    if form == "sparse":
        rows, cols = np.nonzero(~np.isnan(S))
        return sp.csr_array((S[rows, cols], (rows, cols)), shape=S.shape)
    return S

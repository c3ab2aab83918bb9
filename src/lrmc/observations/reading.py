"""One block of rows, as it came, ready for the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._scipy import sparse as sp
from ..weights import Array, DType
from ._checks import seen_by
from .base import Observations
from .dense import Dense
from .sparse import Sparse
from .transposed import transposed

# in place of the counts of a block, which no pass needs
NOT_COUNTED = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Reading:
    """How blocks are read: what every block needs to know."""

    dtype: DType  # of the arithmetic
    stored: DType  # that the kernels read
    gain: float = 1.0
    threads: int = 1
    fill: Any = None  # the number that stands for missing

    def block(self, Y: Any, mask: Any = None) -> Observations:
        """Rows as they came, ready for the kernels."""
        if sp.issparse(Y):
            return self._sparse(Y)
        seen = None if mask is None else _as_seen(mask)
        if isinstance(Y, np.ma.MaskedArray):
            here = ~np.ma.getmaskarray(Y)
            Y, seen = Y.data, here if seen is None else seen & here
        Y = np.asarray(Y)
        if self.fill is not None:
            here = np.not_equal(Y, self.fill)
            seen = here if seen is None else seen & here
        Y = Y.astype(self.stored, copy=False)
        # columns are contiguous
        if Y.strides[1] != Y.itemsize and Y.strides[0] == Y.itemsize and Y.shape[1] > 1:
            return transposed(self._dense(Y.T, None if seen is None else seen.T))
        return self._dense(Y, seen)

    def _dense(self, Y: Array, seen: Array | None) -> Dense:
        return dense_block(Y, seen, self.dtype, self.gain, self.threads)

    def _sparse(self, Y: Any) -> Sparse:
        csr = Y.tocsr()
        csr = csr.copy() if csr is Y else csr
        csr.sum_duplicates()
        keep = ~np.isnan(csr.data)
        indptr = np.concatenate([[0], np.cumsum(keep)])[csr.indptr].astype(np.int64)
        return Sparse(
            shape=csr.shape,
            dtype=self.dtype,
            row_observed=np.diff(indptr),
            col_observed=NOT_COUNTED,
            gain=self.gain,
            threads=self.threads,
            indptr=indptr,
            indices=csr.indices[keep].astype(np.int32),
            values=np.ascontiguousarray(csr.data[keep].astype(self.stored)),
        )


def _as_seen(mask: Any) -> Array:
    return seen_by(mask.toarray() if sp.issparse(mask) else np.asarray(mask))


def _rows_contiguous(X: Array) -> Array:
    fit = X.strides[1] == X.itemsize and X.flags.aligned
    return X if fit else np.array(X, order="C")


def dense_block(
    Y: Array,
    seen: Array | None,
    dtype: DType,
    gain: float = 1.0,
    threads: int = 1,
) -> Dense:
    """Rows in memory, of which nothing was counted."""
    return Dense(
        shape=(Y.shape[0], Y.shape[1]),
        dtype=dtype,
        row_observed=NOT_COUNTED,
        col_observed=NOT_COUNTED,
        gain=gain,
        threads=threads,
        Y=_rows_contiguous(Y),
        mask=None if seen is None else _rows_contiguous(seen).view(np.uint8),
    )

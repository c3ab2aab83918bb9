"""The observed entries of a matrix, in memory, by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._kernels import SparseData
from .._scipy import sparse as sp
from .._typing import override
from ..weights import Array, Power, Weight
from . import native, native_layers
from .base import (
    DRAW_FROM_STORED_BELOW,
    EVERY,
    Adjoint,
    Counts,
    Levels,
    Multipliers,
    Observations,
    Part,
    PowerAdjoint,
    Pull,
    Refit,
    Refitted,
    Regression,
    Sample,
    Settle,
    Settled,
    in_form,
    typical_size,
)
from .places import spread_places, stored_places
from .sample import in_order


@dataclass(frozen=True, eq=False, kw_only=True)
class Sparse(Observations):
    """The observed entries by row (CSR, columns sorted); a stored zero is an observation."""

    indptr: Array
    indices: Array
    values: Array

    @override
    def multiply(self, L: Any, R: Any, weight: Weight, by: Multipliers) -> Pull:
        return native.products(self, L, R, weight, by)

    @override
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        return native.adjoint(self, L, R, zeta, Ab, Bb)

    def power_adjoint(
        self,
        L: Array,
        R: Array,
        weight: Power,
        *,
        factors: tuple[Array, Array, Array, Array],
        side: int,
        energy: float,
        total: float,
    ) -> PowerAdjoint:
        """The reverse of `products` for the rows (side 0) or the columns, in one pass.

        `factors` are P, Q, Pw and Qw: on the given side the gradients with respect to the products
        with C and with W, on the other the factors of these products. `energy` and `total` are
        the gradients with respect to the sums of w e^2 and of w. See `_kernels/slopes.hpp`."""
        return native.power_adjoint(
            self, L, R, weight, factors=factors, side=side, energy=energy, total=total
        )

    @override
    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        return native.magnitudes(self, L, R, share)

    @override
    def regress(self, model: Regression, axis: int = 0) -> tuple[Array, Array, Array]:
        """Columns are fitted on a copy of the entries, by column."""
        return native.regress(self.turned() if axis else self, model)

    @override
    def refit(self, given: Refit) -> Refitted | None:
        return native_layers.refit(self, given)

    @override
    def settle(self, given: Settle) -> Settled | None:
        return native_layers.settle(self, given)

    @override
    def levels(self, given: Levels) -> tuple[Array, Array] | None:
        return native_layers.levels(self, given)

    @override
    def survey(self) -> Counts:
        cols = np.bincount(self.indices, minlength=self.shape[1])
        return Counts(np.diff(self.indptr), cols, int(np.isinf(self.values).sum()))

    @property
    def data(self) -> SparseData:
        """As the kernels take them."""
        return native.sparse_data(
            self.indptr, self.indices, self.values, n2=self.shape[1], gain=self.gain
        )

    @property
    def n_stored(self) -> int:
        """How many entries a pass reads."""
        return len(self.values)

    @property
    def weighed(self) -> SparseData:
        """The same: each entry is weighed by itself."""
        return self.data

    @property
    @override
    def stored(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    @override
    def in_memory(self) -> bool:
        return True

    @override
    def part(self, rows: slice = EVERY, cols: slice = EVERY) -> Part:
        if rows != EVERY or cols != EVERY:
            return super().part(rows, cols)
        Y = np.full(self.shape, np.nan, self.dtype)
        at = np.repeat(np.arange(self.shape[0]), self.row_observed)
        Y[at, self.indices] = self.values
        return Part(Y, None, self.gain)

    @override
    def lookup(self, rows: Array, cols: Array) -> Array:
        # row by row: at random places of the data, searching waits for memory
        order, where = in_order(rows), np.empty(len(rows), np.int64)
        where[order] = native.locate(
            self.indptr, self.indices, rows[order], cols[order]
        )
        found = self.values[where].astype(self.dtype) * self.dtype.type(self.gain)
        return np.where(where < 0, self.dtype.type(np.nan), found)

    @override
    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """Where few entries are stored, drawn from those."""
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        where = stored_places(self.n_observed, size, seed)
        rows = np.searchsorted(self.indptr, where, side="right") - 1
        return Sample(
            rows,
            self.indices[where].astype(np.int64),
            self.values[where].astype(self.dtype) * self.dtype.type(self.gain),
        )

    @property
    @override
    def rough_scale(self) -> float:
        some = self.values[spread_places(len(self.values))].astype(self.dtype)
        return typical_size(some * self.dtype.type(self.gain)) or self.scale

    @override
    def block(self, rows: Any, cols: Any) -> Array:
        part = self._csr(self.values)[rows][:, cols].toarray()
        return part.astype(self.dtype) * self.dtype.type(self.gain)

    @override
    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """A CSR matrix with the entries of the data (a stored 0 where nothing stands out)."""
        S = self.residual(L, R)
        S[np.abs(S) <= threshold] = 0
        if self.form == "sparse":
            return self._csr(S)
        dense = np.full(self.shape, np.nan, self.dtype)
        dense[np.repeat(np.arange(self.shape[0]), self.row_observed), self.indices] = S
        return in_form(dense, self.form)

    @override
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        residual = self.residual(L, R)
        for first in range(0, len(residual), 1 << 20):
            some = slice(first, min(first + (1 << 20), len(residual)))
            rows = (
                np.searchsorted(
                    self.indptr, np.arange(some.start, some.stop), side="right"
                )
                - 1
            )
            yield Sample(rows, self.indices[some].astype(np.int64), residual[some])

    def residual(self, L: Array, R: Array) -> Array:
        """Y - L R' at the stored entries."""
        room = np.empty(len(self.values), self.dtype)
        return native.residual(self.data, L, R, out=room, threads=self.threads)

    def turned(self) -> Sparse:
        """A copy of the entries by column: the transposed matrix."""
        csr = self._csr(self.values).T.tocsr()
        return replace(
            self,
            shape=self.shape[::-1],
            row_observed=self.col_observed,
            col_observed=self.row_observed,
            indptr=csr.indptr.astype(np.int64),
            indices=csr.indices.astype(np.int32, copy=False),
            values=csr.data,
        )

    def _csr(self, values: Array) -> Any:
        return sp.csr_array((values, self.indices, self.indptr), shape=self.shape)

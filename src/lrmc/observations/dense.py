"""A dense matrix in memory, row after row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._kernels import DenseData
from .._typing import override
from ..weights import Array, Weight
from . import native, native_layers
from .base import (
    DRAW_FROM_STORED_BELOW,
    EVERY,
    SAMPLED,
    Adjoint,
    Counts,
    Levels,
    Multipliers,
    Observations,
    Part,
    Pull,
    Refit,
    Refitted,
    Regression,
    Sample,
    Settle,
    Settled,
    common,
    in_form,
    row_blocks,
    typical_size,
)
from .places import spread_places, stored_places
from .transposed import transposed


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Observations):
    """Rows one after another in memory; missing entries are NaN, or 0 in the mask."""

    Y: Array
    mask: Array | None = None
    rows_in_memory: ClassVar[bool] = True

    @override
    def multiply(self, L: Any, R: Any, weight: Weight, by: Multipliers) -> Pull:
        return native.products(self, L, R, weight, by)

    @override
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        return native.adjoint(self, L, R, zeta, Ab, Bb)

    @override
    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        return native.magnitudes(self, L, R, share)

    @override
    def regress(self, model: Regression, axis: int = 0) -> tuple[Array, Array, Array]:
        return (
            regress_by_parts(self, model, axis) if axis else native.regress(self, model)
        )

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
        return native.survey(self.Y, self.mask, self.threads)

    @property
    def data(self) -> DenseData:
        """As the kernels take them."""
        return native.dense_data(self.Y, self.mask, gain=self.gain)

    @property
    def n_stored(self) -> int:
        """How many entries a pass reads: missing ones too."""
        return self.shape[0] * self.shape[1]

    @property
    def weighed(self) -> DenseData:
        """The same with groups of rows, of which there are none."""
        return self.data

    @property
    @override
    def stored(self) -> np.dtype[Any]:
        return self.Y.dtype

    @property
    @override
    def in_memory(self) -> bool:
        return True

    @override
    def part(self, rows: slice = EVERY, cols: slice = EVERY) -> Part:
        return Part(
            self.Y[rows, cols],
            None if self.mask is None else self.mask[rows, cols],
            self.gain,
        )

    @override
    def grid(self, rows: Array, cols: Array) -> Array:
        return self.lookup(*np.ix_(rows, cols))

    @override
    def lookup(self, rows: Array, cols: Array) -> Array:
        values = self.Y[rows, cols].astype(self.dtype) * self.dtype.type(self.gain)
        return (
            values
            if self.mask is None
            else np.where(self.mask[rows, cols], values, np.nan)
        )

    @override
    def _observed_at(self, rows: Array, cols: Array) -> Sample:
        return native.observed_at(self.data, rows, cols, self.dtype)

    @override
    def draw(self, size: int = SAMPLED, seed: int = 0) -> Sample:
        """Where few entries are observed, drawn from those."""
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        first = np.concatenate([[0], np.cumsum(self.row_observed)])
        where = stored_places(self.n_observed, size, seed)
        rows, cols = (
            np.searchsorted(first, where, side="right") - 1,
            np.empty(len(where), np.int64),
        )
        for block in row_blocks(*self.shape):
            here = slice(*np.searchsorted(where, first[[block.start, block.stop]]))
            cols[here] = np.nonzero(self.observed(block))[1][
                where[here] - first[block.start]
            ]
        return Sample(rows, cols, self.lookup(rows, cols))

    @property
    @override
    def rough_scale(self) -> float:
        places = np.divmod(spread_places(self.Y.size), self.shape[1])
        return typical_size(self.lookup(*places)) or self.scale

    def observed(self, rows: slice) -> Array:
        """Which entries of some rows are observed."""
        seen = ~np.isnan(self.Y[rows])
        return seen if self.mask is None else seen & (self.mask[rows] != 0)

    @override
    def block(self, rows: Any, cols: Any) -> Array:
        part = self.Y[rows][:, cols].astype(self.dtype) * self.dtype.type(self.gain)
        if self.mask is not None:
            part[self.mask[rows][:, cols] == 0] = 0
        return np.nan_to_num(part, copy=False, nan=0.0)

    @override
    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """An array with NaN where nothing was observed (a masked array where one came)."""
        S = np.empty(self.shape, self.dtype)
        for rows in row_blocks(*self.shape):
            residual = self._residual(rows, L, R)
            S[rows] = np.where(np.abs(residual) <= threshold, 0, residual)
        return in_form(S, self.form)

    @override
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
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


# ---- for storage that the kernels do not read: copies of some rows that they do


def copied(obs: Observations, rows: slice = EVERY) -> Dense:
    """Some rows one after another in memory; without a copy, where that is how they are stored."""
    Y, mask, gain = obs.part(rows)
    about = common(obs) | {
        "shape": Y.shape,
        "gain": gain,
        "row_observed": obs.row_observed[rows],
    }
    if len(Y) < obs.shape[0]:
        # of these rows not known, and nobody asks
        about["col_observed"] = np.zeros(Y.shape[1], np.int64)
    return Dense(
        Y=rows_contiguous(Y),
        mask=None if mask is None else rows_contiguous(mask),
        **about,
    )


def rows_contiguous(X: Array) -> Array:
    """The same array, with the entries of a row side by side."""
    return (
        X if X.strides[1] == X.itemsize or X.shape[1] == 1 else np.ascontiguousarray(X)
    )


def part_data(part: Part) -> DenseData:
    """A dense part of a matrix as the kernels take it."""
    Y, mask, gain = part
    mask = None if mask is None else rows_contiguous(mask)
    return native.dense_data(rows_contiguous(Y), mask, gain=gain)


def regress_by_parts(
    obs: Observations,
    model: Regression,
    axis: int,
) -> tuple[Array, Array, Array]:
    """`Observations.regress` with copies of some lines at a time."""
    if axis:
        return regress_by_parts(transposed(obs), model, 0)
    n, rank = obs.shape[0], model.V.shape[1]
    answers = (
        np.empty((n, rank), obs.dtype),
        np.empty(n, obs.dtype),
        np.empty(n, obs.dtype),
    )
    for rows in row_blocks(*obs.shape):
        for room, found in zip(answers, copied(obs, rows).regress(model), strict=True):
            room[rows] = found
    return answers


def magnitudes_by_parts(
    obs: Observations,
    L: Any,
    R: Any,
    share: float,
) -> tuple[Array, Array]:
    """`Observations.magnitudes` with copies of some rows, and then of some columns, at a time."""
    return _row_magnitudes(obs, L, R, share), _row_magnitudes(
        transposed(obs), R, L, share
    )


def _row_magnitudes(obs: Observations, L: Any, R: Any, share: float) -> Array:
    out = np.full(obs.shape[0], np.inf, obs.dtype)
    for rows in row_blocks(*obs.shape):
        out[rows] = copied(obs, rows).magnitudes(
            None if L is None else L[rows], R, share
        )[0]
    return out

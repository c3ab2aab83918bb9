"""Columns in different units: what is taken away before a fit, and put back after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np

from ._arguments import one_of
from ._scipy import sparse as sp
from .formats.sparse import Matrix, sound
from .weights import Array, DType

Scale = Literal["auto", "columns", "none"]
UNLIKE = (
    3.0  # times: below, scaling costs a little; above, it helps (experiments/units.py)
)
# spreads: columns whose medians are typically farther from 0 are centred as well
FAR = 0.5
# spreads: a single column whose median is farther from 0 (a year, a latitude) is centred by itself,
# or it would rule the others; 3 to 100 give the same (docs/tables.md)
FARTHER = 10.0
# spreads: beyond, how the entries of a column differ is lost beside how far they are from 0
FARTHEST = 1e4
# standard errors of a spread's logarithm: by so many those of few entries differ by chance
CHANCE = 2.0


class Units(NamedTuple):
    """For each column, its middle and how widely its entries are spread around that."""

    centre: Array  # (n2,)
    spread: Array  # (n2,), positive

    def removed(self, Y: Matrix) -> Matrix:
        """A copy of the matrix in spreads from the middle, in the form in which it came (NaN array,
        masked, sparse).
        """
        if sp.issparse(Y):
            csr = sound(Y).tocsr().copy()
            csr.sum_duplicates()
            floats = csr.data.astype(float_type(csr.dtype))
            scaled = (
                (floats - self.centre[csr.indices]) / self.spread[csr.indices]
            ).astype(floats.dtype)
            return sp.csr_array((scaled, csr.indices, csr.indptr), shape=csr.shape)
        return ((Y - self.centre) / self.spread).astype(float_type(Y.dtype))

    def put_back(self, values: Array, cols: Array | slice = slice(None)) -> Array:
        """What `removed` took: for whole rows, or for entries in these columns."""
        return (values * self.spread[cols] + self.centre[cols]).astype(values.dtype)


def column_units(Y: Matrix) -> Units:
    """Robust: medians, and 1.4826 times the median distance from them (or the mean distance where
    that is 0).

    Medians are taken away only where columns are far from zero: it adds a component to a matrix of
    exact low rank.
    """
    return _units(*_typical(Y)[:2])


def chosen_units(Y: Matrix | None, scale: Scale, *, table: bool) -> Units | None:
    """Whether to scale columns. "auto": those of a table, if they look as if they had different
    units.

    That is, if both their spreads and their sizes differ by more than 3 times, or their sizes do and
    one of them is far from 0, or if most of them are 10,000 spreads from 0. Columns of like size and
    unlike spread (speeds on a quiet and on a busy road) have one unit, and scaling was measured to do
    them no good.
    """
    one_of("scale", scale, get_args(Scale))
    if scale == "none" or (scale == "auto" and not table):
        return None
    middles, spreads, sizes, counts = _typical(Y)
    units = _units(middles, spreads)
    far = bool(far_centre(middles, units.spread).any())
    other_spreads = _ratio(units.spread, counts) > UNLIKE
    other_sizes = _ratio(np.maximum(sizes, units.spread), counts) > UNLIKE
    unlike = other_sizes and (other_spreads or far)
    lost = bool(np.median(np.abs(middles) / units.spread) > FARTHEST)
    return units if scale == "columns" or unlike or lost else None


def _units(middles: Array, spreads: Array) -> Units:
    known = spreads > 0
    far = (
        known.any() and float(np.median(np.abs(middles[known]) / spreads[known])) > FAR
    )
    # For columns of nothing and of zeros.
    usual = float(np.median(spreads[known])) if known.any() else 1.0
    spreads = np.where(known, spreads, np.where(middles != 0, np.abs(middles), usual))
    return Units(middles if far else far_centre(middles, spreads), spreads)


def far_centre(middles: Array, spreads: Array) -> Array:
    """The middles of columns that are far from 0, and 0 for the others."""
    return np.where(np.abs(middles) > FARTHER * spreads, middles, 0.0)


def _ratio(x: Array, counts: Array) -> float:
    """How many times as large the largest is as the smallest, beyond chance: of Gaussian entries the
    logarithm of a median distance has a variance of 1.36 over their number.
    """
    logs, slack = np.log(x), CHANCE * np.sqrt(1.36 / np.maximum(counts, 1))
    return float(np.exp((logs - slack).max() - (logs + slack).min()))


def _typical(Y: Matrix) -> Array:
    """Of each column the median, the spread, the median size, and the number of entries: (4, n2).
    Zeros for a column of nothing.
    """
    return np.array([_typical_of(column) for column in _columns(Y)]).T


def _typical_of(column: Array) -> tuple[float, float, float, float]:
    if not len(column):
        return 0.0, 0.0, 0.0, 0.0
    middle = float(np.median(column))
    away = np.abs(column - middle)
    spread = 1.4826 * float(np.median(away)) or 1.2533 * float(np.mean(away))
    return middle, spread, float(np.median(np.abs(column))), len(column)


def _columns(Y: Matrix) -> Iterator[Array]:
    """The finite observed entries of each column: others are refused later, with a sentence."""
    if sp.issparse(Y):
        csc = sound(Y).tocsc().copy()
        csc.sum_duplicates()
        parts: Iterator[Array] = (
            csc.data[a:b] for a, b in zip(csc.indptr[:-1], csc.indptr[1:])
        )
    elif isinstance(Y, np.ma.MaskedArray):
        parts = (Y[:, j].compressed() for j in range(Y.shape[1]))
    else:
        parts = (Y[:, j] for j in range(Y.shape[1]))
    for part in parts:
        floats = part.astype(np.float64)
        yield floats[np.isfinite(floats)]


def float_type(dtype: DType) -> DType:
    """In which type numbers of this one are scaled."""
    return np.dtype(np.float32 if dtype in (np.float32, np.float16) else np.float64)

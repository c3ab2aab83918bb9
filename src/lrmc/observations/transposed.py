"""A matrix that is stored as its transpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import override
from ..weights import Array, Weight
from .base import (
    DRAW_FROM_STORED_BELOW,
    EVERY,
    Adjoint,
    Counts,
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
    Stripes,
    common,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Transposed(Observations):
    """A matrix whose columns are stored one after another: the other matrix with the
    roles swapped.
    """

    of: Observations

    @override
    def multiply(self, L: Any, R: Any, weight: Weight, by: Multipliers) -> Pull:
        return self.of.multiply(R, L, weight.flipped(), by.flipped()).flipped()

    @override
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        return self.of.adjoint(R, L, zeta, Bb, Ab).flipped()

    @override
    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        return self.of.magnitudes(R, L, share)[::-1]

    @override
    def regress(self, model: Regression, axis: int = 0) -> tuple[Any, Any, Any]:
        return self.of.regress(model, 1 - axis)

    @override
    def refit(self, given: Refit) -> Refitted | None:
        return self.of.refit(given.flipped())

    @override
    def settle(self, given: Settle) -> Settled | None:
        found = self.of.settle(given.flipped())
        return None if found is None else found.flipped()

    @override
    def survey(self) -> Counts:
        return self.of.survey().flipped()

    @override
    def with_counts(self, rows: Array, cols: Array) -> Transposed:
        return transposed(self.of.with_counts(cols, rows))

    @property
    @override
    def stored(self) -> np.dtype[Any]:
        return self.of.stored

    @property
    @override
    def in_blocks(self) -> bool:
        return self.of.in_blocks

    @property
    @override
    def entries_read(self) -> int:
        return self.of.entries_read

    @override
    def stripes(self) -> Stripes:
        """Of data in memory rows are given, although these are not stored together."""
        return self.of.stripes().flipped() if self.in_blocks else super().stripes()

    @override
    def check_unchanged(self, closely: bool = True) -> None:
        self.of.check_unchanged(closely)

    @property
    @override
    def in_memory(self) -> bool:
        return self.of.in_memory

    @override
    def part(self, rows: slice = EVERY, cols: slice = EVERY) -> Part:
        return self.of.part(cols, rows).flipped()

    @override
    def lookup(self, rows: Array, cols: Array) -> Array:
        return self.of.lookup(cols, rows)

    @override
    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        cols, rows, values = self.of.draw(size, seed)
        return Sample(rows, cols, values)

    @property
    @override
    def rough_scale(self) -> float:
        return self.of.rough_scale

    @override
    def grid(self, rows: Array, cols: Array) -> Array:
        return self.of.grid(cols, rows).T

    @override
    def medians(self, axis: int, places: Array, subtract: Array, empty: float) -> Any:
        return self.of.medians(1 - axis, places, subtract, empty)

    @override
    def block(self, rows: Any, cols: Any) -> Array:
        return self.of.block(cols, rows).T

    @override
    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        return self.of.outliers(R, L, threshold).T

    @override
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        for cols, rows, values in self.of.residuals(R, L):
            yield Sample(rows, cols, values)

    @property
    @override
    def across(self) -> Observations | None:
        return None if self.of.is_here else self.of

    @override
    def in_form(self, L: Any, R: Any) -> tuple[Any, Any]:
        return self.of.in_form(R, L)[::-1]

    @override
    def scaled(self, gain: float) -> Transposed:
        return self.with_sample_for(transposed(self.of.scaled(gain)), gain)


def transposed(obs: Observations) -> Transposed:
    """The transposed matrix, stored as it is."""
    swapped = {
        "shape": obs.shape[::-1],
        "row_observed": obs.col_observed,
        "col_observed": obs.row_observed,
    }
    return Transposed(**(common(obs) | swapped), of=obs)

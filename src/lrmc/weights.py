"""How a residual becomes a pull: plain data that says which rule the kernels apply, with its thresholds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Sides = Literal["both", "positive", "negative"]


@dataclass(frozen=True)
class Clip:
    """c = clip(e, -zeta, zeta): the residual minus its soft threshold, as in the paper."""

    zeta: float
    rule: ClassVar[int] = 0

    def flipped(self) -> Clip:
        """The same weight for the transposed matrix."""
        return self

    def scaled(self, gain: float) -> Clip:
        """The same weight for data multiplied by `gain`."""
        return Clip(self.zeta * gain)


@dataclass(frozen=True)
class Threshold:
    """c = e where |e| <= z_ij = max(rows_i, cols_j); outside 0, or clipped to z_ij in protected rows and columns.

    `outliers` says which residuals can be outliers: with "positive", a residual below zero is always an inlier.
    """

    rows: Array
    cols: Array
    protect_rows: Array
    protect_cols: Array
    outliers: Sides = "both"
    rule: ClassVar[int] = 1

    def flipped(self) -> Threshold:
        """The same weight for the transposed matrix."""
        return replace(
            self,
            rows=self.cols,
            cols=self.rows,
            protect_rows=self.protect_cols,
            protect_cols=self.protect_rows,
        )

    def scaled(self, gain: float) -> Threshold:
        """The same weight for data multiplied by `gain`."""
        return replace(self, rows=self.rows * gain, cols=self.cols * gain)


@dataclass(frozen=True)
class Cauchy:
    """c = e / (1 + (e / z_ij)^2), z_ij = max(rows_i, cols_j): every entry counts, large residuals hardly."""

    rows: Array
    cols: Array
    outliers: Sides = "both"
    rule: ClassVar[int] = 2
    protect_rows: Array = field(init=False, repr=False)
    protect_cols: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "protect_rows", np.zeros(len(self.rows)))
        object.__setattr__(self, "protect_cols", np.zeros(len(self.cols)))

    def flipped(self) -> Cauchy:
        """The same weight for the transposed matrix."""
        return Cauchy(self.cols, self.rows, self.outliers)

    def scaled(self, gain: float) -> Cauchy:
        """The same weight for data multiplied by `gain`."""
        return Cauchy(self.rows * gain, self.cols * gain, self.outliers)


Weight = Clip | Threshold | Cauchy


def as_weight(weight: Weight | float) -> Weight:
    """A plain number is the paper's threshold zeta."""
    return weight if isinstance(weight, Clip | Threshold | Cauchy) else Clip(float(weight))

"""What a pass over the data is given, and what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from .._kernels import Rule
from ..weights import Array, Sides
from .sample import Sample


class Own(Enum):
    """In place of a factor of a product: the model's."""

    OWN = "own"


OWN: Final = Own.OWN  # P=OWN is P = L, Q=OWN is Q = R; storage may then do less


class Multipliers(NamedTuple):
    """What a pass multiplies the weighted residual C with, C @ Q and C.T @ P, and the
    weights W, W @ Qw and W.T @ Pw. A product whose factor is None is not made.
    """

    P: Any = None
    Q: Any = None
    Pw: Any = None
    Qw: Any = None

    def flipped(self) -> Multipliers:
        """Those of the transposed matrix."""
        return Multipliers(self.Q, self.P, self.Qw, self.Pw)


class Pull(tuple[Any, Any]):
    """The pair (C @ Q, C.T @ P), with what the pass counted on its way as attributes.

    `n_inliers` counts the entries within the threshold. The rules with thresholds per row and
    column also count them by row and column, and give the sums of weights `row_weight` and
    `col_weight`, and `grams` = (W @ Qw, W.T @ Pw) if these were asked for; the smooth ones also the
    sums of w e^2 in double precision, `row_energy`, `col_energy` and `energy` of all. Otherwise
    these are None."""

    n_inliers: int
    row_inliers: Any = None
    col_inliers: Any = None
    row_weight: Any = None
    col_weight: Any = None
    row_energy: Any = None
    col_energy: Any = None
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

        names = (
            "n_inliers",
            "row_inliers",
            "col_inliers",
            "row_weight",
            "col_weight",
            "row_energy",
            "col_energy",
            "energy",
        )
        counts = {
            name: less(getattr(self, name), getattr(part, name)) for name in names
        }
        if self.grams is not None and part.grams is not None:
            counts["grams"] = tuple(
                less(a, b) for a, b in zip(self.grams, part.grams, strict=True)
            )
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
            row_energy=self.col_energy,
            col_energy=self.row_energy,
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


class PowerAdjoint(NamedTuple):
    """Gradients with respect to what a pass with the rule `Power` was given: both factors, the
    logarithms of its thresholds, and the exponent.

    With them the products that the pass's own regressors need: C.T @ P and W.T @ Pw, or C @ Q and W
    @ Qw."""

    L: Array
    R: Array
    rows: Array  # one number for each row, in double precision
    cols: Array
    shape: float
    pull: Array
    grams: Array


@dataclass(frozen=True, eq=False)
class Regression:
    """A model of rows, offset + V t + noise + outliers: the scores t of each row are
    fitted by a robust regression.
    """

    V: Array  # n2 x r
    offset: Array  # n2
    mean: Array  # r: of the scores
    prior: Array  # r x r: the inverse covariance of the scores
    widest: float  # the standard deviation of the noise that a fit begins with
    lowest: float  # and the least that it ends with
    rule: Rule  # of a smooth weight
    odds: float  # of that weight, where it has them
    reach: float  # its threshold in standard deviations, where it has one
    outliers: Sides = "both"


@dataclass(frozen=True, eq=False)
class Refit:
    """What half a layer on noisy data is given: see `lrmc.methods.noisy_layers`."""

    L: Any
    R: Any
    side: int  # 0: the rows are refitted, 1: the columns
    numbers: tuple[float, float, float, float, float]  # reach, shape, prior, kappa, eta
    unknown: tuple[Array, Array]  # mean covariances of the rows of L and of R
    noise: tuple[Any, Any]  # of rows and columns, relative
    outliers: Sides
    sample: Sample
    every: int  # every so many entries of the sample tell the unit of the threshold
    least: float  # that a unit can be
    tiny: float  # of the mean variance: keeps the prior invertible
    size: float = 0.0  # the unit; 0: to be measured
    relative: float = (
        0.0  # what makes the variance of the mean weighted square; 0: as well
    )

    def flipped(self) -> Refit:
        """The same of the transposed matrix."""
        return replace(
            self,
            L=self.R,
            R=self.L,
            side=1 - self.side,
            unknown=self.unknown[::-1],
            noise=self.noise[::-1],
            sample=self.sample.flipped(),
        )


class Refitted(NamedTuple):
    """What half a layer made, of the side that was refitted."""

    pull: Array
    grams: Array
    after: Array
    step: Array
    mean: Array  # of the prior
    covariance: Array
    ridge: Array
    unknown: Array  # the mean covariance of the rows afterwards
    size: float
    variance: float
    relative: float
    energy: float
    total: float  # of all weights
    n_inliers: int


@dataclass(frozen=True, eq=False)
class Settle:
    """What layers after each other are given: halves for one side and the other in turn."""

    first: Refit  # half
    numbers: Sequence[tuple[float, float, float, float, float]]  # of each half
    # the last layer is made again, up to so many times, while the variance falls below this part of
    # that of a layer ago
    most_again: int
    falling: float

    def flipped(self) -> Settle:
        """The same of the transposed matrix."""
        return replace(self, first=self.first.flipped())


class Settled(NamedTuple):
    """Where layers ended."""

    L: Array
    R: Array
    unknown: tuple[Array, Array]  # mean covariances of the rows of L and of R
    variance: float = 0.0  # of the noise, in the last half
    total: float = 0.0  # of all weights there

    def flipped(self) -> Settled:
        """The same of the transposed matrix."""
        return self._replace(L=self.R, R=self.L, unknown=self.unknown[::-1])


@dataclass(frozen=True, eq=False)
class Levels:
    """What is asked of rows and columns that add: see `lrmc.evidence.simple`."""

    sample: Sample
    middle: float  # which is added to both
    scale: float  # of the data: where residuals end that are all 0
    reach: float  # in medians of their sizes: residuals beyond count as that far
    rounds: int  # of the rows, and then of the columns


class Counts(NamedTuple):
    """What one look at the data tells."""

    rows: Array  # how many entries of each row are observed
    cols: Array
    infinite: int  # how many of them are infinite

    def flipped(self) -> Counts:
        """The counts of the transposed matrix."""
        return Counts(self.cols, self.rows, self.infinite)


class Part(NamedTuple):
    """Some rows and columns, times the gain: missing entries are NaN, or 0 in the mask."""

    Y: Array
    mask: Array | None
    gain: float

    def flipped(self) -> Part:
        """The same part of the transposed matrix."""
        return Part(self.Y.T, None if self.mask is None else self.mask.T, self.gain)


class Stripes(NamedTuple):
    """Rows, or columns, that are read together."""

    borders: Array  # the first line of each stripe, and the number of lines
    by_columns: bool

    def flipped(self) -> Stripes:
        """The stripes of the transposed matrix."""
        return Stripes(self.borders, not self.by_columns)

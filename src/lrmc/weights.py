"""How a residual becomes a pull: plain data that says which rule the kernels apply, with
its thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ._kernels import Rule

if TYPE_CHECKING:
    from typing_extensions import Self

DType = np.dtype[Any]
Array = np.ndarray[Any, DType]
Sides = Literal["both", "positive", "negative"]
Map = Callable[[Any], Any]


@dataclass(frozen=True)
class Clip:
    """The paper's rule: c = clip(e, -zeta, zeta), the residual minus its soft threshold.

    Parameters
    ----------
    zeta : float
        The threshold, in the units of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.weights import Clip, ratio, weights
    >>> rule = Clip(2.0)
    >>> w, inlier = weights(ratio(np.array([1.0, -8.0]), rule), rule)
    >>> w, inlier
    (array([1.  , 0.25]), array([ True, False]))
    """

    zeta: float
    rule: ClassVar[Rule] = Rule.clip

    def flipped(self) -> Clip:
        """The same weight for the transposed matrix."""
        return self

    def scaled(self, gain: float) -> Clip:
        """The same weight for data multiplied by `gain`."""
        return Clip(self.zeta * gain)

    def mapped(self, rows: Map | None = None, cols: Map | None = None) -> Clip:
        """The same weight with its numbers for rows and columns passed through
        functions: it has none.
        """
        return self

    def split(self) -> tuple[tuple[Any, ...], Clip]:
        """What belongs to rows, which stays with them, and the rest: nothing, and everything."""
        return (), self

    def joined(self, rows: Sequence[Any]) -> Clip:
        """The weight again, with what belongs to (some) rows."""
        return self


@dataclass(frozen=True)
class Threshold:
    """Rejection: c = e where `|e| <= z_ij = max(rows_i, cols_j)`, else 0, or clipped to z_ij in
    protected rows and columns.

    Parameters
    ----------
    rows, cols : arrays of shape (n1,) and (n2,)
        Thresholds of rows and columns.
    protect_rows, protect_cols : arrays of shape (n1,) and (n2,)
        Not 0 where residuals are clipped, not rejected.
    outliers : {"both", "positive", "negative"}, default "both"
        Which residuals can be outliers: with "positive", one below zero is always an inlier.
    squares : bool, default False
        Sum c^2 instead of the weights over rows and columns.
    rough : bool, default False
        Gram matrices may be made in single precision: they shape a step, and decide nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.weights import Threshold, ratio, weights
    >>> none = np.zeros(1), np.zeros(2)
    >>> rule = Threshold(np.ones(1), np.array([1.0, 3.0]), *none)
    >>> weights(ratio(np.array([[2.0, 2.0]]), rule), rule)[0]
    array([[0., 1.]])
    """

    rows: Array
    cols: Array
    protect_rows: Array
    protect_cols: Array
    outliers: Sides = "both"
    squares: bool = False  # sum c^2 instead of the weights over rows and columns
    rough: bool = False  # Gram matrices in single precision
    rule: ClassVar[Rule] = Rule.threshold

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

    def mapped(self, rows: Map | None = None, cols: Map | None = None) -> Threshold:
        """The same weight with its numbers for rows and columns passed through functions."""
        new: dict[str, Any] = {}
        if rows is not None:
            new |= {"rows": rows(self.rows), "protect_rows": rows(self.protect_rows)}
        if cols is not None:
            new |= {"cols": cols(self.cols), "protect_cols": cols(self.protect_cols)}
        return replace(self, **new)

    def split(self) -> tuple[tuple[Any, ...], Threshold]:
        """What belongs to rows, which stays with them, and the rest."""
        return (self.rows, self.protect_rows), self.joined((None, None))

    def joined(self, rows: Sequence[Any]) -> Threshold:
        """The weight again, with what belongs to (some) rows."""
        return replace(self, rows=rows[0], protect_rows=rows[1])


@dataclass(frozen=True)
class Cauchy:
    """Cauchy's rule: c = e / (1 + (e / z_ij)^2). Every entry counts, large residuals hardly.

    Parameters
    ----------
    rows, cols : arrays of shape (n1,) and (n2,)
        Their product is the scale z_ij of an entry.
    outliers : {"both", "positive", "negative"}, default "both"
        Which residuals can be outliers.
    squares : bool, default False
        Sum c^2 instead of the weights over rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.weights import Cauchy, ratio, weights
    >>> rule = Cauchy(np.ones(1), np.ones(2))
    >>> weights(ratio(np.array([[0.0, 2.0]]), rule), rule)[0].round(2)
    array([[1. , 0.2]])
    """

    rows: Array
    cols: Array
    outliers: Sides = "both"
    squares: bool = False  # as for Threshold
    rule: ClassVar[Rule] = Rule.cauchy

    @property
    def protect_rows(self) -> Array:
        """The rule has no use for it."""
        return np.zeros(len(self.rows))

    @property
    def protect_cols(self) -> Array:
        """The rule has no use for it."""
        return np.zeros(len(self.cols))

    def flipped(self) -> Self:
        """The same weight for the transposed matrix."""
        return replace(self, rows=self.cols, cols=self.rows)

    def scaled(self, gain: float) -> Self:
        """The same weight for data multiplied by `gain`."""
        return replace(self, rows=self.rows * gain)

    def mapped(self, rows: Map | None = None, cols: Map | None = None) -> Self:
        """The same weight with its numbers for rows and columns passed through functions."""
        new: dict[str, Any] = {} if rows is None else {"rows": rows(self.rows)}
        return replace(
            self, **(new if cols is None else new | {"cols": cols(self.cols)})
        )

    def split(self) -> tuple[tuple[Any, ...], Self]:
        """What belongs to rows, which stays with them, and the rest."""
        return (self.rows,), self.joined((None,))

    def joined(self, rows: Sequence[Any]) -> Self:
        """The weight again, with what belongs to (some) rows."""
        return replace(self, rows=rows[0])


@dataclass(frozen=True)
class Huber(Cauchy):
    """Huber's rule: `c = e min(1, z_ij / |e|)`, which is clipping, with a threshold per entry.

    Parameters
    ----------
    rows, cols : arrays of shape (n1,) and (n2,)
        Their product is the scale z_ij of an entry.
    outliers : {"both", "positive", "negative"}, default "both"
        Which residuals can be outliers.
    squares : bool, default False
        Sum c^2 instead of the weights over rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.weights import Huber, ratio, weights
    >>> rule = Huber(np.ones(1), np.ones(2))
    >>> weights(ratio(np.array([[0.0, 2.0]]), rule), rule)[0].round(2)
    array([[1. , 0.5]])
    """

    rule: ClassVar[Rule] = Rule.huber


@dataclass(frozen=True)
class Mixture(Cauchy):
    """Mixture of noise and outliers: c = w e, where w is the probability that e is noise rather
    than a uniform outlier.

    w = 1 / (1 + odds (1 + (e / sd)^2 / 32)^16): noise is nearly Gaussian, with a slightly heavier
    tail. An entry counts as an inlier where w >= 1/2.

    Parameters
    ----------
    rows, cols : arrays of shape (n1,) and (n2,)
        Their product is the standard deviation of the noise of an entry.
    outliers : {"both", "positive", "negative"}, default "both"
        Which residuals can be outliers.
    squares : bool, default False
        Sum c^2 instead of the weights over rows and columns.
    odds : float, default 0.0
        Odds of an outlier against noise at e = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.weights import Mixture, ratio, weights
    >>> rule = Mixture(np.ones(1), np.ones(2), odds=0.1)
    >>> weights(ratio(np.array([[0.0, 2.0]]), rule), rule)[0].round(2)
    array([[0.91, 0.6 ]])
    """

    odds: float = 0.0  # of an outlier against noise at e = 0
    rule: ClassVar[Rule] = Rule.mixture


@dataclass(frozen=True)
class Power(Cauchy):
    """A family of rules: c = e (1 + (e / z_ij)^2)^(-shape).

    Squares for shape 0, near the absolute value for 1/2, Cauchy for 1; the larger, the less large
    residuals count.

    Parameters
    ----------
    rows, cols : arrays of shape (n1,) and (n2,)
        Their product is the scale z_ij of an entry.
    outliers : {"both", "positive", "negative"}, default "both"
        Which residuals can be outliers.
    squares : bool, default False
        Sum c^2 instead of the weights over rows and columns.
    shape : float, default 1.0
        How fast large residuals lose their weight.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.weights import Power, ratio, weights
    >>> rule = Power(np.ones(1), np.ones(2), shape=2.0)
    >>> weights(ratio(np.array([[0.0, 2.0]]), rule), rule)[0].round(2)
    array([[1.  , 0.04]])
    """

    shape: float = 1.0
    rule: ClassVar[Rule] = Rule.power


Weight = Clip | Threshold | Cauchy


def as_weight(weight: Weight | float) -> Weight:
    """A plain number is the paper's threshold zeta."""
    return (
        weight if isinstance(weight, Clip | Threshold | Cauchy) else Clip(float(weight))
    )


# ---- the rules themselves, for storage that the kernels do not read. `xp` is numpy, or torch with
# tensors throughout.


def ratio(E: Any, rule: Weight, xp: Any = np) -> Any:
    """How far out residuals are: `|e|` over its threshold, 0 on a side that has no
    outliers, NaN where e is NaN.
    """
    tiny = float(xp.finfo(E.dtype).tiny)  # 0 / 0 would be NaN
    if isinstance(rule, Clip):
        return abs(E) / max(rule.zeta, tiny)
    rows, cols = rule.rows[:, None], rule.cols[None, :]
    z = xp.maximum(rows, cols) if isinstance(rule, Threshold) else rows * cols
    return sided(E, rule.outliers, xp) / xp.clip(z, tiny, None)


def sided(E: Any, outliers: Sides, xp: Any = np) -> Any:
    """The sizes of residuals: 0 on a side that has no outliers."""
    return (
        abs(E)
        if outliers == "both"
        else xp.clip(E if outliers == "positive" else -E, 0, None)
    )


def weights(q: Any, rule: Weight, xp: Any = np) -> tuple[Any, Any]:
    """The weight of an entry that is q thresholds out, and whether it is an inlier.
    Nothing is protected.
    """
    inlier = q <= 1
    if isinstance(rule, Threshold):
        return xp.where(inlier, 1.0, 0.0), inlier
    if isinstance(rule, Mixture):
        # not 0 times infinity
        odds = rule.odds * xp.clip(
            (1 + q * q / 32) ** 16, None, float(xp.finfo(q.dtype).max)
        )
        return 1 / (1 + odds), odds <= 1
    if isinstance(rule, Power):
        # not 0 times infinity
        capped = xp.clip(q * q, None, float(xp.finfo(q.dtype).max))
        return xp.exp(-rule.shape * xp.log1p(capped)), inlier
    if isinstance(rule, Clip | Huber):
        return 1 / xp.clip(q, 1.0, None), inlier
    return 1 / (1 + q * q), inlier

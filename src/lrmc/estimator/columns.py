"""Columns of a table as components know them: in units of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..observations.absurd import Reach, absurd
from ..units import far_centre
from ..weights import Array, DType
from .reading import spread_of


class Columns(NamedTuple):
    """What a table has in its columns: which hold anything, their units, and how far entries go."""

    seen: Array  # (n_features,) of bool
    scale: Array  # (n_features,)
    center: Array  # (n_features,): 0 but for columns that are far from it
    reach: Reach  # of those that hold anything, in their units

    @classmethod
    def of(cls, Y: Array, *, scaled: bool) -> Columns:
        """Of a table with NaN where nothing is observed, whose columns are to be scaled or not."""
        n, width = Y.shape
        seen = np.asarray(~np.isnan(Y).all(0))
        if not seen.any():
            raise ValueError(
                f"nothing is observed: all entries of the {n} x {width} X are NaN"
            )
        some = Y[:, seen]
        sound = np.where(absurd(some), np.nan, some)
        scale, center = np.ones(width), np.zeros(width)
        if scaled:
            scale[seen] = spread_of(sound)
            center[seen] = far_centre(np.nanmedian(sound, 0), scale[seen])
        reach = Reach.of((sound - center[seen]) / scale[seen])
        return cls(seen, scale, center, reach)

    def removed(self, Y: Array) -> Array:
        """The columns that hold anything, in their units."""
        scale, center = self._units(Y.dtype)
        return np.asarray((Y[:, self.seen] - center) / scale)

    def put_back(self, model: Array) -> Array:
        """What `removed` took."""
        scale, center = self._units(model.dtype)
        return np.asarray(model * scale + center)

    def entries(self, values: Array, cols: Array) -> Array:
        """The same for entries of these columns."""
        return np.asarray(values * self.scale[cols] + self.center[cols])

    def _units(self, dtype: DType) -> tuple[Array, Array]:
        both = self.scale, self.center
        scale, center = (x[self.seen].astype(dtype) for x in both)
        return scale, center

"""The longer lines of a small table, cleaned of outliers: what second opinions are made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations
from ..weights import Array
from .normal import ROUNDS, TO_SETTLE, Normal, normal_of, told_by_others

MOST_CELLS = 2_000_000  # of a table that is copied


class Told(NamedTuple):
    """What the entries of rows say of each other."""

    said: Array  # of every entry, samples x columns
    normal: Normal


@dataclass(frozen=True, eq=False)
class Lines:
    """The longer lines of a table, and their fit."""

    X: Factors  # whose L has them for rows
    values: Array  # the data; NaN where nothing was observed
    fit: Array
    transposed: bool  # whether the lines are columns of the matrix
    asked: Array | None = None  # the lines that are asked about; None: all
    # by where they are clipped: several opinions are asked of the same ones
    made: dict[float, Lines] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        obs: Observations,
        X: Factors,
        places: tuple[Array, Array] | None = None,
    ) -> Lines:
        """A copy of the data. Only what is at these places will be asked about, if they are named."""
        flip = obs.shape[1] > obs.shape[0]
        Y = obs.grid(*map(np.arange, obs.shape))
        if flip:
            Y, X = Y.T, Factors(X.R, X.L)
        X = Factors(*(np.asarray(F, np.float64) for F in X))
        # where a fit runs away in a row, its entries would be cleaned to what no column holds
        least, most = np.fmin.reduce(Y), np.fmax.reduce(Y)
        fit = np.fmax(np.fmin(X.L @ X.R.T, most), least)
        asked = None if places is None else np.unique(places[int(flip)])
        return cls(X, Y, fit, flip, asked)

    def cleaned(self, bend: float) -> Lines:
        """Where residuals beyond `bend` are clipped: the same ones where nothing more is."""
        bend = min(bend, self._largest)
        if bend not in self.made:
            values = self.fit + np.clip(self.values - self.fit, -bend, bend)
            self.made[bend] = replace(self, values=values, made={})
        return self.made[bend]

    @cached_property
    def told(self) -> Told:
        """What other columns say, with as many rows more as there are columns, in which these have
        nothing to do with each other; more than one opinion rests on it.
        """
        return self._told(alone=self.values.shape[1])

    @cached_property
    def plainly_told(self) -> Told:
        """The same without these rows."""
        return self._told(alone=0)

    @cached_property
    def told_at_last(self) -> Told:
        """The same after as many rounds as relations that hold nearly exactly take."""
        return self._told(alone=0, rounds=TO_SETTLE)

    def _told(self, alone: int, rounds: int = ROUNDS) -> Told:
        normal = normal_of(self.values, self.fit, alone, rounds)
        return Told(told_by_others(self.values, normal), normal)

    @cached_property
    def _largest(self) -> float:
        off = np.abs(self.values - self.fit)
        return float(np.fmax.reduce(off, axis=None, initial=0.0))

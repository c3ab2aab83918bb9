"""What a run says of every entry: a low-rank matrix, and what lies beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .linalg import Factors
from .observations.base import Observations, Sample
from .weights import Array


class Part(Protocol):
    """What a fit says of entries beyond low rank: time, neighbors, a regression, or lines between."""

    @property
    def name(self) -> str:
        """What it is, in a word or two."""

    def at(self, rows: Array, cols: Array) -> Array:
        """Its values at these places: two arrays of indices of the same length."""


@runtime_checkable
class Filling(Part, Protocol):
    """A part that has a value for every entry, also in lines without one, and for lines to come."""

    @property
    def values(self) -> Array:
        """The estimates of every entry, n1 x n2."""

    @property
    def fills(self) -> str:
        """ "rows" or "columns": lines that are determined without an entry of their own."""

    def forecast(self, obs: Observations, steps: int, level: float) -> Any:
        """The lines after the last."""


class Fit(NamedTuple):
    """The low-rank part, and the others, which are added to it."""

    X: Factors
    beyond: tuple[Part, ...] = ()

    def at(self, rows: Array, cols: Array) -> Array:
        """The estimate at these places: two arrays of indices of the same length."""
        low_rank = np.einsum("ij,ij->i", self.X.L[rows], self.X.R[cols])
        return sum((part.at(rows, cols) for part in self.beyond), start=low_rank)

    def residual(self, some: Sample) -> Array:
        """What these entries have that the fit does not."""
        rest = some.residual(self.X)
        if not self.beyond:
            return rest
        return rest - sum(part.at(some.rows, some.cols) for part in self.beyond)

    def residuals(self, block: Observations, first: int = 0) -> Iterator[Sample]:
        """What all entries of a block of rows have that the fit does not, some at a time; `first`
        is its first row.
        """
        for some in block.residuals(*self.X):
            values = some.values
            for part in self.beyond:
                values = values - part.at(some.rows + first, some.cols)
            yield some._replace(values=values)

    def part(self, rows: Array, cols: Array) -> Fit:
        """Of the rows and columns with these indices."""
        X = Factors(self.X.L[rows], self.X.R[cols])
        return Fit(X, tuple(Of(part, rows, cols) for part in self.beyond))

    def flipped(self) -> Fit:
        """Of the transposed matrix."""
        return Fit(Factors(*self.X[::-1]), tuple(map(Flipped, self.beyond)))


class Of(NamedTuple):
    """A part of some rows and columns of the matrix."""

    of: Part
    rows: Array
    cols: Array

    @property
    def name(self) -> str:
        """What it is, in a word or two."""
        return self.of.name

    def at(self, rows: Array, cols: Array) -> Array:
        """Its values at these places."""
        return self.of.at(self.rows[rows], self.cols[cols])


class Moved(NamedTuple):
    """A part whose values are known."""

    values: Array  # n1 x n2
    name: str = "known"

    def at(self, rows: Array, cols: Array) -> Array:
        """Its values at these places."""
        return np.asarray(self.values[rows, cols])


class Flipped(NamedTuple):
    """A part of the transposed matrix."""

    of: Part

    @property
    def name(self) -> str:
        """What it is, in a word or two."""
        return self.of.name

    def at(self, rows: Array, cols: Array) -> Array:
        """Its values at these places."""
        return self.of.at(cols, rows)


NO_MODEL = "this result was loaded from a file, which does not hold its model of time; solve again"


@dataclass(frozen=True, eq=False)
class Kept:
    """What a file holds of a fit in time: every entry, less what is of low rank."""

    X: Factors
    values: Array  # n1 x n2
    fills: str

    name = "time"

    def at(self, rows: Array, cols: Array) -> Array:
        """What is to be added to low rank at these places."""
        low_rank = np.einsum("ij,ij->i", self.X.L[rows], self.X.R[cols])
        return np.asarray(self.values[rows, cols] - low_rank)

    def forecast(self, obs: Observations, steps: int, level: float) -> Any:
        """Refused: a file does not hold the model."""
        raise ValueError(NO_MODEL)


def block_of(parts: tuple[Part, ...], rows: Array, cols: Array) -> Any:
    """The sum of these parts where rows and columns cross; 0 without any."""
    if not parts:
        return 0.0
    at = [x.ravel() for x in np.broadcast_arrays(rows[:, None], cols)]
    total = np.zeros(len(at[0]))
    for part in parts:
        total += part.at(*at)
    return total.reshape(len(rows), len(cols))

"""What a run says of every entry: a low-rank matrix, and what lies beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .linalg import Factors, entries_at
from .observations.base import Observations, Sample
from .weights import Array


class Forecast(NamedTuple):
    """Values and intervals of the steps after the end of a table."""

    values: Array
    lower: Array
    upper: Array


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
    def others(self) -> Array | None:
        """The same, of entries that were seen as the others tell them."""

    @property
    def fills(self) -> str:
        """ "rows" or "columns": lines that are determined without an entry of their own."""

    def forecast(self, obs: Observations, steps: int, level: float) -> Forecast:
        """The lines after the last."""


@runtime_checkable
class Swayed(Part, Protocol):
    """A part that an entry itself has a say in; all others tell of each what the others do."""

    def left_out(self) -> Part:
        """Of entries that were seen, as the others tell them."""


def _left_out(part: Part) -> Part:
    return part.left_out() if isinstance(part, Swayed) else part


class Fit(NamedTuple):
    """The low-rank part, and the others, which are added to it."""

    X: Factors
    beyond: tuple[Part, ...] = ()

    def at(self, rows: Array, cols: Array) -> Array:
        """The estimate at these places: two arrays of indices of the same length."""
        low_rank = entries_at(self.X, rows, cols)
        return sum((part.at(rows, cols) for part in self.beyond), start=low_rank)

    @property
    def left_out(self) -> Fit:
        """The same, but of each entry that was seen as the others tell it: what a line through an
        entry says of that entry does not show whether it is wrong.
        """
        return Fit(self.X, tuple(map(_left_out, self.beyond)))

    def residual(self, some: Sample) -> Array:
        """What these entries, which were seen, have that the others do not tell."""
        rest = some.residual(self.X)
        if not self.beyond:
            return rest
        parts = self.left_out.beyond
        return rest - sum(part.at(some.rows, some.cols) for part in parts)

    def residuals(self, block: Observations, first: int = 0) -> Iterator[Sample]:
        """The same of all entries of a block of rows, some at a time; `first` is its first row."""
        parts = self.left_out.beyond
        for some in block.residuals(*self.X):
            values = some.values
            for part in parts:
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

    def left_out(self) -> Of:
        """Of entries that were seen, as the others tell them."""
        return self._replace(of=_left_out(self.of))


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

    def left_out(self) -> Flipped:
        """Of entries that were seen, as the others tell them."""
        return Flipped(_left_out(self.of))


NO_MODEL = "this result was loaded from a file, which does not hold its model of time; solve again"


@dataclass(frozen=True, eq=False)
class Kept:
    """What a file holds of a fit in time: every entry, less what is of low rank."""

    X: Factors
    values: Array  # n1 x n2
    fills: str
    others: Array | None = None  # older files do not hold it

    name = "time"

    def at(self, rows: Array, cols: Array) -> Array:
        """What is to be added to low rank at these places."""
        low_rank = entries_at(self.X, rows, cols)
        return np.asarray(self.values[rows, cols] - low_rank)

    def left_out(self) -> Kept:
        """Of entries that were seen, as the others tell them."""
        return Kept(
            self.X, self.values if self.others is None else self.others, self.fills
        )

    def forecast(self, obs: Observations, steps: int, level: float) -> Forecast:
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

"""What has a line per row of the data stays where the rows are.

Data may lie in blocks of rows: on disk, in Dask's threads, on the workers of a cluster. So a step
of a method is `of_rows`, done on every block with the lines of that block, and `of_all`, done once
with what these told:

    rows, told = obs.round(of_rows, rows, shared)      one pass over the data; work(block, rows,
    shared) rows, told = each(of_rows, rows, shared)           the same without the data; work(rows,
    shared)

`rows` is a tuple of arrays with a line per row; `shared` is the same for all of them, and small. A
work gives a tuple of the same kind, which stays where it is, and a tuple of what is added up over
the blocks. In memory there is one block. Only on a cluster are lines `Elsewhere`: they can be given
to `each`, `take` and `scaled`, and that is all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _kernels
from .weights import Array, DType

# arrays with a line per row (or `Some` of their numbers), or what was told of them
Lines = tuple[Any, ...]
Answer = tuple[Lines, Lines]  # what is kept for the rows, and what is told of them
Work = Callable[..., Answer]


class Elsewhere(ABC):
    """An array with a line per row of the data, on the workers of a cluster."""

    shape: tuple[int, ...]
    dtype: DType

    @abstractmethod
    def each(self, work: Work, rows: Lines, shared: Any) -> Answer:
        """See `each`."""

    @abstractmethod
    def scaled(self, factor: float) -> Elsewhere:
        """The same in other units: nothing is computed before it is needed."""

    @property
    def ndim(self) -> int:
        """As of an array."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return take(self, np.arange(len(self))).astype(dtype or self.dtype, copy=False)


def is_here(X: Any) -> bool:
    """Whether an array is in this process."""
    return not isinstance(X, Elsewhere)


def each(work: Work, rows: Lines, shared: Any = None) -> Answer:
    """`work(rows, shared)` where the rows are: what it keeps for them, and the sums of
    what it tells.
    """
    for X in rows:
        if isinstance(X, Elsewhere):
            return X.each(work, rows, shared)
    return work(rows, shared)


def told(work: Work, rows: Lines, shared: Any = None) -> Any:
    """The one thing that `work` tells, where it keeps nothing."""
    return each(work, rows, shared)[1][0]


def kept(work: Work, rows: Lines, shared: Any = None) -> Any:
    """The one array that `work` keeps, where it tells nothing."""
    return each(work, rows, shared)[0][0]


# ---- what is told is added up, in one of three ways: as a sum of numbers or arrays, or as one of
# these


class Largest(float):
    """A number of which the largest is told."""

    def __add__(self, other: float) -> Largest:
        return Largest(max(self, other))


@dataclass(frozen=True)
class Joined:
    """Lines that are put one after another, in the order of the rows."""

    parts: tuple[Array, ...]

    @classmethod
    def of(cls, X: Array, some: Some | None = None) -> Joined:
        """An array, or some of its lines."""
        return cls((X if some is None else X.take(some.lines, 0),))

    def __add__(self, other: Joined) -> Joined:
        return Joined(self.parts + other.parts)

    @property
    def lines(self) -> Array:
        """All of them."""
        return np.concatenate(self.parts) if len(self.parts) > 1 else self.parts[0]


# ---- lines


@dataclass(frozen=True)
class Some:
    """The numbers of some rows, in order: a block gets its own, counted from its first row."""

    lines: Array
    first: int = 0  # the row of the block that is number 0

    def cut(self, first: int, last: int) -> Some:
        """Those in a block."""
        i, j = np.searchsorted(self.lines, (first, last))
        return Some(self.lines[i:j] - first, first)


def every(n: int) -> Some:
    """All rows: so that each knows its number."""
    return Some(np.arange(n))


def take(X: Any, lines: Array) -> Array:
    """Some lines of an array, here."""
    if isinstance(X, np.ndarray):
        return X.take(lines, 0)  # four times as fast as X[lines]
    if is_here(X):  # an array of Dask, as results have it
        chosen, back = np.unique(lines, return_inverse=True)
        return np.asarray(X[chosen])[back]
    order = np.argsort(lines, kind="stable")
    found = told(_taken, (X, Some(lines[order]))).lines
    out = np.empty_like(found)
    out[order] = found
    return out


def _taken(rows: tuple[Array, Some], _: Any) -> tuple[tuple[()], tuple[Joined]]:
    return (), (Joined.of(*rows),)


def where(flags: Callable[..., Array], rows: Lines, shared: Any = None) -> Array:
    """The numbers of the rows for which `flags(rows, shared)` is true."""
    n = next(len(X) for X in rows if hasattr(X, "shape"))
    return told(_flagged, (every(n), *rows), (flags, shared)).lines


def _flagged(rows: Lines, shared: tuple[Any, Any]) -> tuple[tuple[()], tuple[Joined]]:
    numbers, *others = rows
    flags, same = shared
    return (), (Joined.of(numbers.first + np.flatnonzero(flags(tuple(others), same))),)


def beside(*parts: Any) -> Any:
    """Lines or matrices with the same number of rows, as the columns of one."""
    return kept(_beside, parts)


def _beside(rows: Sequence[Array], _: Any) -> tuple[tuple[Array], tuple[()]]:
    return (np.hstack([x[:, None] if x.ndim == 1 else x for x in rows]),), ()


def scaled(X: Any, factor: float) -> Any:
    """The same in other units."""
    return X * X.dtype.type(factor) if is_here(X) else X.scaled(factor)


def turned(X: Any, T: Array) -> Any:
    """X T, with a small T: other columns of the same rows."""
    return kept(_turned, (X,), T)


def _turned(rows: tuple[Array], T: Array) -> tuple[tuple[Array], tuple[()]]:
    (X,) = rows
    return (_kernels.times(X, T.astype(X.dtype, copy=False)),), ()


# ---- the same number for every row takes no memory: an array without strides


def equal(value: float, n: int) -> Array:
    """So many equal numbers."""
    # np.broadcast_to takes ten times as long
    return np.ndarray((n,), np.float64, np.float64(value), strides=(0,))


def is_equal(x: Any) -> bool:
    """Whether all lines of an array are the same one."""
    return isinstance(x, np.ndarray) and x.ndim > 0 and x.strides[0] == 0 and len(x) > 0


def times(factor: float, x: Array) -> Array:
    """A multiple."""
    return np.broadcast_to(factor * x[0], x.shape) if is_equal(x) else factor * x


def column(x: Array) -> Array:
    """To multiply the rows of a matrix with."""
    return x[:1] if is_equal(x) else x[:, None]


def median(x: Array) -> float:
    """The middle one."""
    return float(x[0] if is_equal(x) else np.median(x))


# ---- blocks


def cut(rows: Lines, first: int, last: int) -> Any:
    """The lines of a block."""
    return like(rows, [_piece(X, first, last) for X in rows])


def _piece(X: Any, first: int, last: int) -> Any:
    if isinstance(X, Some):
        return X.cut(first, last)
    return X[first:last] if isinstance(X, np.ndarray) else X


def like(rows: Lines, parts: Sequence[Any]) -> Any:
    """Other parts in the same kind of tuple."""
    return rows._make(parts) if hasattr(rows, "_make") else tuple(parts)


def wide(x: Any) -> Any:
    """Sums over many blocks are made in double precision."""
    return (
        x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
    )


def added(one: Sequence[Any], other: Sequence[Any]) -> Lines:
    """What two blocks told, together."""
    return tuple(a if a is None else a + b for a, b in zip(one, other, strict=True))

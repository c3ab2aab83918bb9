"""Arrays with a line per row of the data that stay on the workers of a cluster, block by block.

NumPy's functions on them are only written down, and done when a pass, a product or a sum asks for it: in one task per
block, with all that was written down since. Nothing of n1 lines is sent anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..weights import Array


@dataclass(frozen=True, eq=False)
class Bundle:
    """What a task left on the workers for its rows: several arrays, block by block."""

    keys: list[Any]
    there: dict[Any, Any]  # key -> the promise of it


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array of a bundle."""

    bundle: Bundle
    number: int


@dataclass(frozen=True, eq=False)
class Call:
    """A function of arrays and of what is the same for all rows."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class Spread(NDArrayOperatorsMixin):
    """An array whose rows are spread over blocks."""

    def __init__(self, chunks: tuple[int, ...], node: Leaf | Call, like: Array) -> None:
        """`like` has no rows, but the type and width of the array."""
        self.chunks, self.node, self.like = chunks, node, like
        self.dtype, self.ndim = like.dtype, like.ndim
        self.shape = (sum(chunks), *like.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Spread(shape {self.shape}, {self.dtype}, in {len(self.chunks)} blocks)"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return called(ufunc, inputs, options) if method == "__call__" and "out" not in options else NotImplemented

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function in _BY_ROW:
            return called(function, arguments, options)
        if function in _OTHERS:
            return _OTHERS[function](*arguments, **options)
        return NotImplemented

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        from .dask import gathered

        return np.asarray(gathered(self), dtype)

    def __getitem__(self, at: Any) -> Spread:
        first = at[0] if isinstance(at, tuple) else at
        if first != slice(None):
            raise IndexError("rows are not chosen here: lrmc.tall.take brings some of them")
        return called(getitem, (self, at), {})

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> Spread:
        """As for an array."""
        return self if dtype == self.dtype else called(_astype, (self, np.dtype(dtype)), {})

    def sum(self, axis: int | None = None, dtype: Any = None) -> Any:
        """Over all rows, or over everything: here."""
        return _summed(np.sum, self, axis, dtype)

    def mean(self) -> float:
        """Of everything."""
        return float(self.sum(dtype=np.float64)) / float(np.prod(self.shape))

    def var(self) -> float:
        """Of everything."""
        return float(((self - self.mean()) ** 2).mean())

    def max(self) -> float:
        """Of everything."""
        return float(_summed(_largest, self, None, None))

    def all(self) -> bool:
        """Whether everything is true."""
        return int((~self).sum()) == 0


def called(function: Any, arguments: Iterable[Any], options: dict[str, Any]) -> Spread:
    """A function of some rows, written down."""
    arguments = tuple(_one(x) for x in arguments)
    first = next(x for x in _flat(arguments) if isinstance(x, Spread))
    like = function(*(_like(x, first, function) for x in arguments), **options)
    return Spread(first.chunks, Call(function, arguments, options), like)


def _one(x: Any) -> Any:
    """Equal lines become one, which serves every block."""
    return x[:1] if isinstance(x, np.ndarray) and x.ndim and x.strides[0] == 0 and len(x) > 1 else x


def _like(x: Any, first: Spread, function: Any) -> Any:
    """Without rows."""
    if isinstance(x, list | tuple):
        return type(x)(_like(y, first, function) for y in x)
    if isinstance(x, Spread):
        return x.like
    return x[:0] if _is_tall(x, len(first)) and function is not np.matmul else x


def _is_tall(x: Any, n: int) -> bool:
    """Whether an array of numpy has a line per row."""
    return isinstance(x, np.ndarray) and x.ndim > 0 and len(x) == n > 1


def _flat(x: Any) -> Iterable[Any]:
    if isinstance(x, list | tuple):
        for y in x:
            yield from _flat(y)
    else:
        yield x


def _astype(x: Array, dtype: Any) -> Array:
    return x.astype(dtype)


def _largest(x: Array, axis: None = None, dtype: None = None) -> Any:
    from .tall import Largest

    return Largest(x.max())


def _summed(function: Any, x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    from .dask import summed

    if axis not in (None, 0):
        return called(function, (x, axis, dtype), {})
    return summed(function, (x,), axis, dtype)


def _norm(x: Spread, axis: int | None = None) -> Any:
    return np.sqrt((x * x).sum(axis, np.float64))


def _flagged(x: Spread) -> Array:
    from .dask import numbered

    return numbered(x)


_BY_ROW = {np.where, np.hstack, np.ones_like, np.zeros_like, np.full_like, np.pad}
_OTHERS: dict[Any, Any] = {np.sum: Spread.sum, np.linalg.norm: _norm, np.flatnonzero: _flagged}


# ---- what was written down, as a list of steps that a task can do


@dataclass(frozen=True)
class Equal:
    """A line that is the same for every row."""

    value: Any

    def lines(self, n: int) -> Array:
        """So many of them."""
        return np.broadcast_to(self.value, (n, *np.shape(self.value)))


@dataclass(frozen=True)
class Step:
    """A function of earlier values."""

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class Value:
    """The value of a step."""

    step: int


@dataclass(frozen=True)
class Part:
    """An array of a bundle; or, without a number, a piece that comes as it is."""

    piece: int
    number: int | None = None


class Program:
    """How some arrays are made from pieces that a block has. Arrays of numpy and of Dask are such pieces."""

    def __init__(self, arrays: Iterable[Any]) -> None:
        self.steps: list[Step] = []
        self.pieces: list[Any] = []  # bundles, arrays of numpy and of Dask
        self._seen: dict[int, Any] = {}
        self.outputs = [self._entered(x) for x in arrays]

    def packed(self) -> tuple[Any, ...]:
        """What a task needs."""
        return self.steps, self.outputs

    def _entered(self, x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(self._entered(y) for y in x)
        tall = isinstance(x, Spread) or (hasattr(x, "shape") and len(x.shape) > 0)
        if not tall:
            return x
        key = id(x.node) if isinstance(x, Spread) else id(x)
        if key not in self._seen:
            self._seen[key] = (self._new(x), x)  # x is kept: the address of what is gone may be used again
        return self._seen[key][0]

    def _new(self, x: Any) -> Any:
        if not isinstance(x, Spread):
            if isinstance(x, np.ndarray) and len(x) > 0 and x.strides[0] == 0:
                return Equal(x[0])
            self.pieces.append(x)
            return Part(len(self.pieces) - 1)
        if isinstance(x.node, Leaf):
            return Part(self._bundle(x.node.bundle), x.node.number)
        n = 0 if x.node.function is np.matmul else len(x)
        arguments = tuple(self._argument(y, n) for y in x.node.arguments)
        self.steps.append(Step(x.node.function, arguments, x.node.options))
        return Value(len(self.steps) - 1)

    def _argument(self, x: Any, n: int) -> Any:
        """Arrays that have a line per row are pieces; others are the same for all blocks."""
        if isinstance(x, list | tuple):
            return type(x)(self._argument(y, n) for y in x)
        return self._entered(x) if isinstance(x, Spread) or _is_tall(x, n) else x

    def _bundle(self, bundle: Bundle) -> int:
        for i, piece in enumerate(self.pieces):
            if piece is bundle:
                return i
        self.pieces.append(bundle)
        return len(self.pieces) - 1


def run(packed: tuple[Any, ...], pieces: list[Any], n: int) -> list[Any]:
    """The arrays of a program, for a block of n rows."""
    steps, outputs = packed
    values: list[Any] = []

    def found(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(found(y) for y in x)
        if isinstance(x, Value):
            return values[x.step]
        if isinstance(x, Part):
            return pieces[x.piece] if x.number is None else pieces[x.piece].rows[x.number]
        return x.lines(n) if isinstance(x, Equal) else x

    for step in steps:
        values.append(step.function(*map(found, step.arguments), **step.options))
    return [found(x) for x in outputs]

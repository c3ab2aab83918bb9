"""Arrays with a line per row of the data, which may lie on the workers of a cluster as the data do: `spread.Spread`.

Methods are written for NumPy, whose functions work on both. Here are the few places where it matters: what is brought
here (little), what is computed now, and what is the same for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..weights import Array


def is_here(X: Any) -> bool:
    """Whether an array is one of NumPy's, in this process."""
    return isinstance(X, np.ndarray)


def held(*arrays: Any) -> tuple[Any, ...]:
    """The same arrays, computed now and kept where they are: what is derived from them is not derived again."""
    if all(map(is_here, arrays)):
        return arrays
    from .dask import persisted

    return persisted(arrays)


def take(X: Any, lines: Array) -> Array:
    """Some lines of an array, here."""
    if is_here(X):
        return X.take(lines, 0)  # four times as fast as X[lines]
    from .dask import fetched

    return fetched(X, lines)


def beside(*parts: Any) -> Any:
    """Lines or matrices with the same number of rows, as the columns of one."""
    return np.hstack([x[:, None] if x.ndim == 1 else x for x in parts])


def product_of(X: Any, Z: Any) -> Array:
    """X' Z, which is small, here."""
    if is_here(X) and is_here(Z):
        return X.T @ Z
    from .dask import summed

    return summed(_product_of, (X, Z))


def _product_of(X: Array, Z: Array | None = None) -> Array:
    return X.T @ (X if Z is None else Z)


class Largest(float):
    """A number of which, where others are added up, the largest is kept."""

    def __add__(self, other: float) -> Largest:
        return Largest(max(self, other))


def where(flags: Any) -> Array:
    """The numbers of the lines that are flagged, here."""
    return np.asarray(np.flatnonzero(flags))


def by_row(work: Callable[..., Any], tall: tuple[Any, ...], same: Any) -> tuple[Any, Any]:
    """What `work(pieces of tall, same)` gives for its rows, and what it gives to be summed over pieces."""
    if all(map(is_here, tall)):
        return work(tall, same)
    from .dask import swept

    return swept(work, tall, same)


# ---- the same number for every row takes no memory: an array without strides


def equal(value: float, n: int) -> Array:
    """So many equal numbers."""
    return np.broadcast_to(np.float64(value), (n,))


def is_equal(x: Any) -> bool:
    """Whether all lines of an array are the same one."""
    return is_here(x) and x.ndim > 0 and x.strides[0] == 0 and len(x) > 0


def times(factor: float, x: Any) -> Any:
    """A multiple."""
    return np.broadcast_to(factor * x[0], x.shape) if is_equal(x) else factor * x


def column(x: Any) -> Any:
    """To multiply the rows of a matrix with."""
    return x[:1] if is_equal(x) else x[:, None]


def median(x: Any) -> float:
    """The middle one."""
    return float(x[0] if is_equal(x) else np.median(x))

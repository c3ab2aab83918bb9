"""Places of a matrix, and of its stored entries, that are drawn."""

from __future__ import annotations

import numpy as np

from ..weights import Array

FEW = 1000  # entries that tell an order of magnitude


def spread_places(n: int) -> Array:
    """Some of n places, evenly, and in step with no period: multiples of the golden ratio."""
    return (np.arange(FEW) * ((5**0.5 - 1) / 2) % 1 * n).astype(np.int64)


def stored_places(stored: int, size: int, seed: int) -> Array:
    """Which of the stored entries are drawn, in their order, with replacement; all of them, where
    there are no more.
    """
    if stored <= size:
        return np.arange(stored)
    return np.sort(np.random.default_rng(seed).integers(0, stored, size))


def random_places(
    shape: tuple[int, int],
    count: int,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Rows and columns of so many places of a matrix, drawn with replacement."""
    rng = np.random.default_rng(seed)
    rows, cols = (rng.integers(0, n, count) for n in shape)
    return rows, cols

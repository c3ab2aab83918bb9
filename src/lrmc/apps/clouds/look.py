"""Series of scenes, looked at a block of lines at a time: values, and what of them was observed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...observations.stores import readable
from ...weights import Array

BLOCK = 1 << 23  # numbers of the stack that are worked on at a time


class Readable(Protocol):
    """Anything that numpy reads by slices: an array, a memmap, a zarr array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all of it."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its numbers."""

    def __getitem__(self, some: Any) -> Any: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Look:
    """Reads blocks of lines: values, and what of them was observed."""

    data: Readable  # T x bands x height x width
    seen: Readable | None  # T x height x width; None: all may be believed
    nodata: float | None
    sample: float
    seed: int
    source: Path | None = None  # the file to name, should it be damaged

    def block(self, lines: slice, step: int = 1) -> tuple[Array, Array]:
        """Values, T x bands x lines x width, and T x lines x width: True where all bands were
        observed.
        """
        every = (slice(lines.start, lines.stop, step), slice(None, None, step))
        with nullcontext() if self.source is None else readable(self.source):
            Y = np.asarray(self.data[(slice(None), slice(None), *every)])
        there = np.ones((len(Y), *Y.shape[2:]), bool)
        for b in range(Y.shape[1]):
            if Y.dtype.kind == "f":
                there &= np.isfinite(Y[:, b])
            if self.nodata is not None and not np.isnan(self.nodata):
                there &= Y[:, b] != self.nodata
        if self.seen is not None:
            there &= np.asarray(self.seen[(slice(None), *every)]) != 0
        return Y, there

    def chosen(self, lines: slice) -> Array:
        """A random share of pixels and dates."""
        rng = np.random.default_rng([self.seed, lines.start])
        T, _, _, width = self.data.shape
        return (
            rng.random((T, lines.stop - lines.start, width), np.float32) < self.sample
        )


def blocks(shape: Sequence[int]) -> Iterator[slice]:
    """Lines of the picture, some millions of numbers at a time."""
    T, bands, height, width = shape
    step = max(1, BLOCK // (T * bands * width))
    return (slice(i, min(i + step, height)) for i in range(0, height, step))


def as_matrix(Y: Array) -> Array:
    """Rows: pixels of the first band, of the second, and so on; columns: dates. A copy, row by row
    in memory.
    """
    return np.ascontiguousarray(Y.reshape(len(Y), -1).T)

"""Medians of each pixel."""

from __future__ import annotations

import numpy as np

from ... import _kernels
from ..._scipy import sparse as sp
from ...formats.sparse import Matrix, Sparse
from ...weights import Array

FRAMES = 101  # that a median is taken of, about: a byte counts them


def medians(seen: Matrix) -> Array:
    """The lower median of each pixel in about `FRAMES` frames that show it; the median of all where
    none does. Frames x pixels, bytes.
    """
    if sp.issparse(seen):
        return _of_sparse(seen)
    return of_bytes(seen, max(1, len(seen) // FRAMES))


def of_bytes(rows: Array, step: int = 1, middle: Array | None = None) -> Array:
    """The lower median of each column of every so many rows, fewer than 256; or the value with as many
    before it as `middle` says.
    """
    flat = _kernels.ready(rows, np.uint8).reshape(len(rows), -1)
    if middle is None:
        middle = np.full(flat.shape[1], (-(-len(rows) // step) - 1) // 2)
    found = np.empty(flat.shape[1], np.uint8)
    before = _kernels.ready(middle, np.uint8).ravel()
    _kernels.byte_medians(flat, step=step, before=before, out=found)
    return found.reshape(rows.shape[1:])


def of_few(rows: Array) -> Array:
    """The median of each column of a few rows, by swapping neighbours until the middle is known."""
    order = list(rows)
    half = len(order) // 2
    for known in range(half + 1):
        for k in range(len(order) - 1, known, -1):
            above, below = order[k - 1], order[k]
            order[k - 1] = np.minimum(above, below)
            order[k] = np.maximum(above, below)
    if len(order) % 2:
        return np.asarray(order[half])
    return np.asarray((order[half - 1] + order[half]) / 2)


def _of_sparse(seen: Sparse) -> Array:
    pixels = seen.shape[1]
    shown = seen.nnz / pixels  # frames that show a pixel, on average
    some = seen[:: max(1, int(shown / FRAMES))].tocsr()
    # By pixel, then by value.
    keys = np.sort(some.indices.astype(np.int64) * 256 + some.data)
    ends = np.searchsorted(keys, 256 * np.arange(pixels + 1))
    count = np.diff(ends)
    at = ends[:-1] + np.maximum(count - 1, 0) // 2
    middle = keys[np.minimum(at, len(keys) - 1)] % 256
    return np.where(count > 0, middle, np.median(some.data)).astype(np.uint8)

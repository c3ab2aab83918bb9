"""Stacks of frames, dates or images as a matrix, and back: a column is one of them, a row one place
in all of them.

Nothing is copied: the matrix is a view of the stack, stored by columns, and integers stay integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from .._scipy import sparse as sp
from ..formats.sparse import Sparse
from ..weights import Array

GAPS_AT_ONCE = 1 << 17  # random numbers drawn at a time: what a cache holds


@dataclass(frozen=True)
class Stack:
    """Frames one after another, each of any shape: height x width, with colours last, or bands
    first.
    """

    frames: Array  # first axis: time
    seen: Array | None = (
        # the same shape, or without what all frames have in common; True where observed
        None
    )

    def __post_init__(self) -> None:
        if self.frames.ndim < 2 or self.frames.size == 0:
            raise ValueError(
                "a stack of frames is wanted, but the array has shape"
                f" {self.frames.shape}"
            )

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Of one frame."""
        return self.frames.shape[1:]

    @property
    def matrix(self) -> Array:
        """Places x frames."""
        return self.frames.reshape(len(self.frames), -1).T

    @property
    def mask(self) -> Array | None:
        """What of the matrix was observed; None if all."""
        if self.seen is None:
            return None
        seen = np.broadcast_to(self.seen, self.frames.shape)
        return seen.reshape(len(self.frames), -1).T

    def sampled(self, share: float, seed: int = 0) -> Sparse:
        """The matrix with only a random share of its observed entries, sparse."""
        check_share(share)
        flat = self.frames.reshape(-1)
        seen = (
            None
            if self.seen is None
            else np.broadcast_to(self.seen, self.frames.shape).reshape(-1)
        )
        width = flat.size // len(self.frames)
        begins = np.arange(0, flat.size + 1, width)
        indptr, cols, values = np.zeros(len(begins), np.int64), [], []
        for places in chosen(flat.size, share, seed):
            kept = places if seen is None else places[seen[places]]
            indptr += np.searchsorted(kept, begins)
            values.append(flat[kept])
            cols.append((kept % width).astype(np.int32))
        shape = (len(self.frames), width)
        frames = sp.csr_array(
            (np.concatenate(values), np.concatenate(cols), indptr), shape=shape
        )
        frames.has_canonical_format = True
        return frames.T


def chosen(size: int, share: float, seed: int) -> Iterator[Array]:
    """Each of the places 0 .. size - 1 with probability `share`, in order, some at a time.

    The gaps between them are drawn, so that the work is that of the places chosen and not of all:
    exponential numbers rounded up, which is the geometric distribution.
    """
    rng = np.random.default_rng(seed)
    scale = 0.0 if share == 1 else -1 / math.log1p(-share)
    at = -1
    while at < size - 1:
        gaps = rng.standard_exponential(
            min(GAPS_AT_ONCE, int(size * share) + 100), np.float32
        )
        gaps *= np.float32(scale)
        whole = gaps.astype(np.int64)
        whole += 1
        whole[0] += at
        places = np.cumsum(whole, out=whole)
        at = int(places[-1])
        yield places if at < size else places[: np.searchsorted(places, size)]


def is_whole(x: object) -> TypeGuard[int]:
    """Whether this is a whole number."""
    return isinstance(x, Integral) and not isinstance(x, bool)


def check_rank(rank: object, frames: int, word: str) -> None:
    """A rank that so many frames (or dates, or pictures: the word for them) can carry, or none."""
    if rank is None:
        return
    if not is_whole(rank) or not 1 <= rank < frames:
        raise ValueError(
            f"rank={rank!r} for {frames} {word}; a whole number from 1 to {frames - 1}"
            " is wanted"
        )


def check_share(share: object) -> None:
    """A share of the pixels."""
    if not isinstance(share, Real) or not 0 < float(share) <= 1:
        raise ValueError(
            f"a share of {share!r} of the pixels; more than 0 and at most 1 is wanted"
        )


def check_seed(seed: object) -> None:
    """What random numbers begin from."""
    if not is_whole(seed) or seed < 0:
        raise ValueError(f"seed={seed!r}; a whole number of at least 0 is wanted")


def as_type(values: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers as the stack stores them: integers are rounded, and stay in their range; NaN becomes
    0 there.
    """
    if dtype.kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(np.nan_to_num(values)), limits.min, limits.max).astype(dtype)


def band_groups(bands: int, pixels: int) -> Array:
    """A label per row of a stack with bands first: the bands of a pixel share theirs."""
    return np.tile(np.arange(pixels), bands)

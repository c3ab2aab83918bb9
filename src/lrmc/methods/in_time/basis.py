"""The orthonormal basis of time: days by how alike they are, slots by frequency."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..._scipy import fft
from ...weights import Array

# slots, up to which a product with all cosines takes less time than a fast transform: a quarter of
# it at 18, .4 at 48; as long at 126
SHORT = 64


@cache
def cosines(n: int, dtype: Any) -> Array:
    """The orthonormal cosines of n slots, one in each line."""
    found = fft.dct(np.eye(n), norm="ortho", axis=0).astype(dtype)
    found.setflags(write=False)
    return found


def _all_cosines(x: Array) -> Array:
    """Those of the slots of x (sensors x days x slots)."""
    return cosines(x.shape[2], x.dtype)


class Basis(NamedTuple):
    """Products of eigenvectors of days and cosines of slots."""

    days: Array  # (D, D), orthonormal columns

    def coefficients(self, x: Array) -> Array:
        """Of sensors x days x slots: sensors x modes of days x frequencies."""
        few = x.shape[2] <= SHORT
        x = x @ _all_cosines(x).T if few else fft.dct(x, norm="ortho", axis=2)
        return x if len(self.days) == 1 else np.matmul(self.days.T, x)

    def values(self, c: Array) -> Array:
        """What has these coefficients."""
        if len(self.days) > 1:
            c = np.matmul(self.days, c)
        if c.shape[2] <= SHORT:
            return np.asarray(c @ _all_cosines(c))
        return np.asarray(fft.idct(c, norm="ortho", axis=2))


def by_likeness(C: Array, samples: float) -> Basis:
    """Days in the eigenvectors of their covariance C, known from so many samples.

    Where samples are fewer than days, the mean of C by distance in days counts more: it has one
    number for each distance, not for each pair."""
    trust = samples / (samples + len(C))
    C = trust * C + (1 - trust) * by_distance(C)
    return Basis(np.linalg.eigh(C)[1][:, ::-1])


def by_distance(C: Array) -> Array:
    """The mean of a symmetric matrix along its diagonals, as a matrix."""
    n = len(C)
    means = np.array([np.trace(C, k) / (n - k) for k in range(n)])
    return means[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]

"""The orthonormal basis of time: days by how alike they are, slots by frequency."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._scipy import fft
from ...weights import Array


class Basis(NamedTuple):
    """Products of eigenvectors of days and cosines of slots."""

    days: Array  # (D, D), orthonormal columns

    def coefficients(self, x: Array) -> Array:
        """Of sensors x days x slots: sensors x modes of days x frequencies."""
        x = fft.dct(x, norm="ortho", axis=2)
        return x if len(self.days) == 1 else np.matmul(self.days.T, x)

    def values(self, c: Array) -> Array:
        """What has these coefficients."""
        if len(self.days) > 1:
            c = np.matmul(self.days, c)
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

"""Problems that lrmc.synthetic does not make."""

from typing import NamedTuple

import numpy as np


class Made(NamedTuple):
    """Data with NaN where nothing is observed, and the factors of the truth."""

    Y: np.ndarray
    L: np.ndarray
    R: np.ndarray

    @property
    def typical(self):
        """E|X|, the unit of outliers and noise."""
        return np.abs(self.L @ self.R.T).mean()


def made(
    shape=(800, 800), rank=5, *, p=0.3, rate=0.1, size=1.0, low=-1.0, noise=0.0, seed=0
):
    """Outliers uniform in [low, 1] * size * E|X| at a rate that may differ from row to
    row; noise in units of E|X|.
    """
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((n, rank)) / np.sqrt(n) for n in shape)
    X = L @ R.T
    unit = np.abs(X).mean()
    bad = rng.random(shape) < np.reshape(rate, (-1, 1))
    Y = (
        X
        + bad * rng.uniform(low, 1, shape) * size * unit
        + noise * unit * rng.standard_normal(shape)
    )
    return Made(np.where(rng.random(shape) < p, Y, np.nan), L, R)


def concentrated(size=1.0, low=-1.0, seed=0, n=800):
    """A tenth of the rows has 45 % outliers, the others 2 %."""
    rate = np.where(np.random.default_rng(seed).random(n) < 0.1, 0.45, 0.02)
    return made((n, n), rate=rate, size=size, low=low, seed=seed)

"""Whether the observed entries hold together: blocks that share no row and no column cannot be related."""

from __future__ import annotations

import numpy as np

from ..observations.base import Observations
from ..observations.tall import equal, where
from ..weights import Array, Cauchy

MOST_ROUNDS = 50


def unconnected(obs: Observations) -> tuple[int, int]:
    """How many rows and columns with observations are not connected with the largest column, by any chain of entries.

    Two thin passes per round; random gaps need one or two rounds, and none where a column is full.
    """
    if obs.col_observed.max() == obs.shape[0]:
        return 0, 0
    obs = obs.scaled(0.0)  # whatever the values, every observed entry has weight 1
    everything = Cauchy(equal(1.0, obs.shape[0]), equal(1.0, obs.shape[1]))
    cols = np.arange(obs.shape[1]) == where(obs.col_observed == obs.col_observed.max())[0]
    for _ in range(MOST_ROUNDS):
        rows = _reached(obs.products(None, None, everything, Qw=_column(cols, obs)).grams[0])
        after = _reached(obs.products(None, None, everything, Pw=_column(rows, obs)).grams[1])
        if bool((after == cols).all()):
            break
        cols = after
    return int(((obs.row_observed > 0) & ~rows).sum()), int(((obs.col_observed > 0) & ~cols).sum())


def _column(flags: Array, obs: Observations) -> Array:
    return flags[:, None].astype(obs.dtype)


def _reached(weights: Array) -> Array:
    return weights[:, 0] > 0.5

"""Whether the observed entries hold together: blocks that share no row and no column
cannot be related.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rows import equal, told
from ..observations.base import Observations
from ..weights import Array, Cauchy

MOST_ROUNDS = 50


def unconnected(obs: Observations) -> tuple[int, int]:
    """How many rows and columns with observations are not connected with the largest column, by any
    chain of entries.

    One thin round per step of the chain; random gaps need one or two, and none where a column is
    full."""
    if obs.col_observed.max() == obs.shape[0]:
        return 0, 0
    obs = obs.scaled(0.0)  # whatever the values, every observed entry has weight 1
    cols = np.arange(obs.shape[1]) == np.argmax(obs.col_observed)
    for _ in range(MOST_ROUNDS):
        (rows,), (after,) = obs.round(_reached_from, (), cols)
        after = after > 0.5
        if bool((after >= (obs.col_observed > 0)).all()):
            return 0, 0  # a row with an entry shares it with one of them
        if bool((after == cols).all()):
            break
        cols = after
    left_out = told(_left_out, (obs.row_observed, rows))
    return int(left_out), int(((obs.col_observed > 0) & ~cols).sum())


def _reached_from(
    block: Observations, rows: tuple[()], cols: Array
) -> tuple[tuple[Array], tuple[Array]]:
    """The rows that share an entry with some columns, and the columns that share one with these."""
    n1, n2 = block.shape
    everything = Cauchy(equal(1.0, n1), equal(1.0, n2))
    flags = cols[:, None].astype(block.dtype)
    reached = block.products(None, None, everything, Qw=flags).grams[0][:, 0] > 0.5
    flags = reached[:, None].astype(block.dtype)
    again = block.products(None, None, everything, Pw=flags).grams[1][:, 0]
    return (reached,), (again,)


def _left_out(rows: tuple[Array, Array], _: Any) -> tuple[tuple[()], tuple[int]]:
    observed, reached = rows
    return (), (int(((observed > 0) & ~reached).sum()),)

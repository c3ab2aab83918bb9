"""Whether the observed entries hold together: blocks that share no row and no column
cannot be related.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rows import told
from ..observations.base import Observations
from ..weights import Array

MOST_ROUNDS = 50


def unconnected(obs: Observations) -> tuple[int, int]:
    """How many rows and columns with observations are not connected with the largest column, by any
    chain of entries.

    One thin round per step of the chain; random gaps need one or two, and none where a column is
    full."""
    if obs.col_observed.max() == obs.shape[0]:
        return 0, 0
    obs = obs.scaled(0.0)  # whatever the values, an observed entry is 0
    cols = np.arange(obs.shape[1]) == np.argmax(obs.col_observed)
    for _ in range(MOST_ROUNDS):
        (rows,), (after,) = obs.round(_reached_from, (), cols)
        after = after > 0.5
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
    # of data that are 0, the residual of a model -x y' is x y' where an entry is observed: passes
    # by the paper's rule count what they meet, and are the fastest
    ones, flags = np.ones((n1, 1), block.dtype), cols[:, None].astype(block.dtype)
    reached = block.pull(-ones, flags, 1.0)[0][:, 0] > 0.5
    ones, flags = np.ones((n2, 1), block.dtype), reached[:, None].astype(block.dtype)
    again = -block.pull(-flags, ones, 1.0)[1][:, 0]
    return (reached,), (again,)


def _left_out(rows: tuple[Array, Array], _: Any) -> tuple[tuple[()], tuple[int]]:
    observed, reached = rows
    return (), (int(((observed > 0) & ~reached).sum()),)

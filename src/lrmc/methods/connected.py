"""Whether the observed entries hold together: blocks that share no row and no column
cannot be related.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._rows import told
from ..observations.base import Observations
from ..weights import Array

MOST_ROUNDS = 50
MOST_STEPS = 30  # along chains of the sample
# observed entries that are looked for in a line which the sample says nothing of ...
LOOKED_FOR = 6
# ... as long as these places are few beside the entries: then a pass costs less
FEW_PLACES = 0.02


class Entries(NamedTuple):
    """What a matrix has entries of, and what it lacks."""

    observed: int
    empty_rows: int
    empty_cols: int
    apart_rows: int  # with entries, but connected with most others by no chain of them
    apart_cols: int

    def determine(self, rank: int, lines: int) -> bool:
        """Whether a model of this rank is determined, of a matrix of so many rows and columns."""
        return not any(self[1:]) and self.observed >= rank * lines


def unconnected(obs: Observations) -> tuple[int, int]:
    """How many rows and columns with observations are not connected with the largest column, by any
    chain of entries.

    The sample connects most lines. Where it does not connect all columns, one thin round per step
    of the chain; random gaps seldom need one."""
    if obs.col_observed.max() == obs.shape[0]:
        return 0, 0
    cols = _reached_in_sample(obs)
    if cols is None:
        return 0, 0
    obs = obs.scaled(0.0)  # whatever the values, an observed entry is 0
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


def _reached_in_sample(obs: Observations) -> Array | None:
    """The columns that chains of the sample connect with the largest one; None where
    everything is connected.
    """
    some = obs.sample
    rows, cols = (np.zeros(n, bool) for n in obs.shape)
    cols[np.argmax(obs.col_observed)] = True
    for _ in range(MOST_STEPS):
        before = np.count_nonzero(cols)
        rows[some.rows[cols[some.cols]]] = True
        cols[some.cols[rows[some.rows]]] = True
        if np.count_nonzero(cols) == before:
            break
    # Where all lines of one side are connected, each line of the other meets one of them.
    axis = int(obs.shape[0] >= obs.shape[1])
    reached, others = (rows, cols) if axis == 0 else (cols, rows)
    observed = (obs.row_observed, obs.col_observed)[axis]
    if not obs.is_here:
        return cols
    left = np.flatnonzero((observed > 0) & ~reached)
    return None if _all_meet(obs, left, np.flatnonzero(others), axis) else cols


def _all_meet(obs: Observations, lines: Array, others: Array, axis: int) -> bool:
    """Whether each of some rows (axis 0; columns for 1) is seen to have an entry in one of the
    others; not all of these are looked at.
    """
    if len(lines) == 0:
        return True
    count = min(len(others), int(LOOKED_FOR / obs.fraction) + 1)
    if not obs.in_memory or count * len(lines) > FEW_PLACES * obs.n_observed:
        return False
    at = np.linspace(0, len(others), count, endpoint=False).astype(np.int64)
    places = np.repeat(lines, count), np.tile(others[at], len(lines))
    values = obs.lookup(*places) if axis == 0 else obs.lookup(*places[::-1])
    missing = np.isnan(values.reshape(-1, max(count, 1)))
    return not missing.all(1).any()


def _reached_from(
    block: Observations,
    rows: tuple[()],
    cols: Array,
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

"""How unlike missing places are to those that were set aside in their stead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..weights import Array
from .scales import Lines
from .simple import Fitted

PLACES = 20_000  # missing ones, that held-out ones are compared with
UNLIKE = (
    0.25  # of the missing places: that many may be unlike those that were set aside
)
FARTHEST = 0.99  # of the leverages that were set aside: what is beyond is unlike them
# times: by how much more entries within whole gaps may be missed than single ones. Tables with
# structured gaps whose intervals hold reach 1.5 (Birmingham), NGSIM's cars 2.7 to 3.9
HARDER = 1.7


class Gaps(NamedTuple):
    """How unlike missing places are to those that were set aside."""

    # the share of missing places of which less is known than of any that was set aside; with time,
    # of kinds of which hardly anything was set aside, if that is more
    unlike: float = 0.0
    # by how many times entries within whole gaps are missed by more than single ones
    harder: float = 1.0

    def why_not(self) -> str:
        """Why nothing tells how far off missing entries are; empty where something does."""
        if self.unlike > UNLIKE:
            return (
                "the gaps are unlike anything that was observed: at least"
                f" {100 * self.unlike:.0f} % of the missing places have no like among those"
                " that could be set aside in their stead (by what is known of their rows, columns"
                " and times). Nothing tells how far off they are: no interval is given"
            )
        if self.harder > HARDER:
            return (
                "the gaps are unlike anything that was observed: entries within gaps of their"
                f" shape are missed by {self.harder:.1f} times as much as single ones. Nothing"
                " tells how far off those in the middle are: no interval is given"
            )
        return ""


def unlike(sets: Sequence[Fitted], known: Sequence[Lines]) -> float:
    """The share of missing places of which less is known than of nearly all that were set aside, by
    the same fits; moved gaps are alike.

    Between these, errors follow a law that they were learned by: that more is missing where less is
    known does no harm."""
    if all(some.moved_gaps for some in sets):
        return 0.0
    missing, held = [], []
    for k, (some, lines) in enumerate(zip(sets, known, strict=True)):
        missing.append(lines.leverage.at(*_missing(some, PLACES // len(sets), k)))
        held.append(lines.leverage.at(some.judged.rows, some.judged.cols))
    border = np.quantile(np.concatenate(held), FARTHEST)
    there = np.concatenate(missing)
    return float(np.mean(there > border)) if len(there) else 0.0


def _missing(some: Fitted, count: int, seed: int) -> tuple[Array, Array]:
    """Places that are missing in rows and columns with entries, and not because they were set
    aside.
    """
    obs, judged, rng = some.rest, some.judged, np.random.default_rng(seed)
    rows, cols = (rng.integers(0, n, 4 * count) for n in obs.shape)
    numbers = rows * obs.shape[1] + cols
    held = np.isin(numbers, judged.rows * obs.shape[1] + judged.cols)
    seen = (np.asarray(obs.row_observed)[rows] > 0) & (
        np.asarray(obs.col_observed)[cols] > 0
    )
    gap = np.flatnonzero(np.isnan(obs.lookup(rows, cols)) & seen & ~held)[:count]
    return rows[gap], cols[gap]


def harder(sets: Sequence[Fitted]) -> float:
    """How many times more entries within whole gaps are missed by than single ones."""
    whole, single = (
        [
            np.abs(some.fit.residual(some.judged))
            for some in sets
            if some.whole_gaps is x
        ]
        for x in (True, False)
    )
    if not whole:
        return 1.0
    low = float(np.median(np.concatenate(single)))
    return float(np.median(np.concatenate(whole))) / low if low > 0 else 1.0

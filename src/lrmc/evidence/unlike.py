"""How unlike missing places are to those that were set aside in their stead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..weights import Array
from .scales import Lines
from .simple import Fitted

PLACES = 20_000  # missing ones, that held-out ones are compared with
# the largest distance (Kolmogorov's) between what is known of missing places and of held-out ones
UNLIKE = 0.25
# times: by how much more entries within whole gaps may be missed than single ones. Tables with
# structured gaps whose intervals hold reach 1.5 (Birmingham), NGSIM's cars 2.7 to 3.9
HARDER = 1.7


class Gaps(NamedTuple):
    """How unlike missing places are to those that were set aside."""

    # between the leverages of both, Kolmogorov's: from 0 to 1; with time, the share of missing
    # places of kinds of which hardly anything was set aside, if that is more
    distance: float = 0.0
    # by how many times entries within whole gaps are missed by more than single ones
    harder: float = 1.0

    def why_not(self) -> str:
        """Why nothing tells how far off missing entries are; empty where something does."""
        if self.distance > UNLIKE:
            return (
                "the gaps are unlike anything that was observed: at least"
                f" {100 * self.distance:.0f} % of the missing places have no like among those"
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
    """How unlike missing places are to those that were set aside; moved gaps are alike."""
    return 0.0 if all(some.moved_gaps for some in sets) else _distance(sets, known)


def _distance(sets: Sequence[Fitted], known: Sequence[Lines]) -> float:
    """Kolmogorov's distance between the leverages of missing places and of those that were set
    aside, both by the same fits.

    It is a lower bound of the share of missing places that are unlike any that was set aside, and
    so of what the intervals' promise can be off by."""
    missing, held = [], []
    for k, (some, lines) in enumerate(zip(sets, known, strict=True)):
        missing.append(lines.leverage.at(*_missing(some, PLACES // len(sets), k)))
        held.append(lines.leverage.at(some.judged.rows, some.judged.cols))
    there, here = np.sort(np.concatenate(missing)), np.sort(np.concatenate(held))
    if not len(there):
        return 0.0
    both = np.concatenate([there, here])
    shares = (np.searchsorted(x, both, side="right") / len(x) for x in (there, here))
    return float(np.abs(next(shares) - next(shares)).max())


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

"""Entries set aside as entries of other samples are missing: several of one sample at once, where
gaps are such."""

from __future__ import annotations

import numpy as np

from ..weights import Array
from .base import Observations, Sample
from .heldout import without

# times the variance by chance of what samples lack, from which on entries are missing together: of
# 30 samples, chance alone makes 1.8 of it in one of a thousand tables
TOGETHER = 2.0
BLOCKS = (
    20  # of samples beside each other, which take the gaps of others beside each other
)


def missing_together(obs: Observations) -> bool:
    """Whether some samples (lines of the longer side) lack far more entries than others do.

    What a sample lacks is told by the others of its entries: one that is set aside by itself has them
    all, and is missed by less than those that are missing together with what tells them."""
    seen, other = obs.row_observed, 1
    if obs.shape[0] < obs.shape[1]:
        seen, other = obs.col_observed, 0
    across, missing = obs.shape[other], 1 - obs.fraction
    if missing == 0 or obs.groups is not None:
        return False
    by_chance = missing * (1 - missing) / across
    return float(np.var(np.asarray(seen) / across)) > TOGETHER * by_chance


def aside_together(
    obs: Observations,
    share: float,
    seed: int = 0,
) -> tuple[Observations, Sample]:
    """The data without about this share of their entries, and these: blocks of samples lack what
    others lack as well. None loses all of its entries."""
    rng = np.random.default_rng(seed)
    Y = obs.grid(*map(np.arange, obs.shape))
    tall = Y.shape[0] >= Y.shape[1]
    seen = ~np.isnan(Y if tall else Y.T)
    held = _gaps_of_others(seen, share * obs.n_observed, rng)
    rows, cols = np.nonzero(held if tall else held.T)
    some = Sample(rows, cols, Y[rows, cols])
    return without(obs, some), some


def _gaps_of_others(
    seen: Array,
    wanted: float,
    rng: np.random.Generator,
) -> Array:
    """About so many of the seen entries (samples x columns), which are missing in other samples."""
    n = len(seen)
    held = np.zeros_like(seen)
    blocks = np.array_split(np.arange(n), min(BLOCKS, n))
    for k in rng.permutation(len(blocks)):
        block = blocks[k]
        others = (block + rng.integers(1, n)) % n
        here = seen[block] & ~seen[others]
        here &= (seen[block] & ~here).any(1, keepdims=True)
        held[block] = here
        if held.sum() >= wanted:
            break
    return held

"""Entries set aside to judge a fit by, without copying the data."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .observations import as_observations
from .storage import Observations, Pull, Sample, Sparse
from .weights import Array, Weight, as_weight

MOST = 20_000  # entries that a fit is judged by
SHARE = 0.1  # of the observed entries that are set aside at most
ENOUGH_CELLS = 4_000_000  # of a matrix to choose by
UNEVEN = 4.0  # gaps are structured where their share varies so many times more than by chance


@dataclass(frozen=True, eq=False, kw_only=True)
class Without(Observations):
    """The data without some entries: their part of every sum is taken away again."""

    of: Observations
    held: Sparse

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any, Pw: Any = None, Qw: Any = None) -> Pull:
        """See `Observations.products`."""
        rule = as_weight(weight)
        whole, part = (obs.products(L, R, rule, P, Q, Pw, Qw) for obs in (self.of, self.held))
        return whole.minus(part)

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        held = ~np.isnan(self.held.lookup(rows, cols))
        return np.where(held, np.nan, self.of.lookup(rows, cols)).astype(self.dtype)

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """See `Observations.draw`."""
        some = self.of.draw(size, seed)
        kept = np.isnan(self.held.lookup(some.rows, some.cols))
        return Sample(*(x[kept] for x in some))

    def scaled(self, gain: float) -> Without:
        """See `Observations.scaled`."""
        of, held = self.of.scaled(gain), self.held.scaled(gain)
        return replace(self, of=of, held=held, gain=of.gain)  # type: ignore[arg-type]


def hold_out(obs: Observations, seed: int = 0) -> tuple[Without, Sample]:
    """The data without a tenth of their entries, and (at most 20,000 of) these.

    What is set aside looks like what is missing: where gaps are uneven, as with clouds or broken sensors, the gaps of
    one column (or row) are laid over another. Random entries would be too easy there, and favour too high a rank.
    """
    rng = np.random.default_rng(seed)
    axis = _uneven_axis(obs)
    rows, cols = _random_places(obs, rng) if axis is None else _gaps_elsewhere(obs, axis, rng)
    values = obs.lookup(rows, cols)
    seen = ~np.isnan(values)
    held = _as_sparse(obs, Sample(rows[seen], cols[seen], values[seen]))
    common = {field.name: getattr(obs, field.name) for field in fields(Observations)}
    common["row_observed"] = obs.row_observed - held.row_observed
    common["col_observed"] = obs.col_observed - held.col_observed
    judged = held.draw(MOST, seed) if held.n_observed > MOST else Sample(rows[seen], cols[seen], values[seen])
    return Without(of=obs, held=held, **common), judged


def part_of(obs: Observations, seed: int = 0) -> Observations:
    """Some rows (or columns, if there are more of these) of a large matrix: enough to choose by."""
    n1, n2 = obs.shape
    if n1 * n2 <= 2 * ENOUGH_CELLS:
        return obs
    axis = 0 if n1 >= n2 else 1
    count = max(ENOUGH_CELLS // obs.shape[1 - axis], 1000)
    if count >= obs.shape[axis]:
        return obs
    chosen = np.sort(np.random.default_rng(seed).choice(obs.shape[axis], count, replace=False))
    rows, cols = (chosen, np.arange(n2)) if axis == 0 else (np.arange(n1), chosen)
    grid = np.repeat(rows, len(cols)), np.tile(cols, len(rows))
    values = obs.lookup(*grid).reshape(len(rows), len(cols))
    return as_observations(values.astype(obs.dtype), threads=obs.threads)


def _uneven_axis(obs: Observations) -> int | None:
    """Along which axis the share of missing entries varies far more than by chance: 0 for columns, 1 for rows."""
    missing = 1 - obs.fraction
    if missing == 0:
        return None
    ratios = []
    for seen, n in ((obs.col_observed, obs.shape[0]), (obs.row_observed, obs.shape[1])):
        ratios.append(float(np.var(1 - seen / n)) / (missing * (1 - missing) / n))
    best = int(np.argmax(ratios))
    return best if ratios[best] > UNEVEN and obs.shape[1 - best] > 3 else None


def _random_places(obs: Observations, rng: np.random.Generator) -> tuple[Array, Array]:
    wanted = min(MOST, int(SHARE * obs.n_observed))
    some = obs.draw(wanted, int(rng.integers(1 << 31)))
    places = np.unique(some.rows * obs.shape[1] + some.cols)
    return places // obs.shape[1], places % obs.shape[1]


def _gaps_elsewhere(obs: Observations, axis: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Places in some columns (axis 0) that are missing in another column; rows for axis 1."""
    n, lines = obs.shape[axis], obs.shape[1 - axis]
    along = np.arange(n)
    seen = obs.col_observed if axis == 0 else obs.row_observed
    usable = np.flatnonzero(seen > 0.3 * n * obs.fraction)
    left, ones, others = SHARE * obs.n_observed, [], []
    for line in rng.permutation(usable)[: max(3, lines // 3)]:
        donor = int(rng.choice(np.delete(np.arange(lines), line)))
        where = (along, np.full(n, donor)) if axis == 0 else (np.full(n, donor), along)
        gap = along[np.isnan(obs.lookup(*where))]
        if 0 < len(gap) < 0.9 * n:
            ones.append(gap)
            others.append(np.full(len(gap), line))
            left -= len(gap) * seen[line] / n
        if left <= 0:
            break
    if not ones:
        return _random_places(obs, rng)
    one, other = np.concatenate(ones), np.concatenate(others)
    return (one, other) if axis == 0 else (other, one)


def _as_sparse(obs: Observations, some: Sample) -> Sparse:
    """These entries as a sparse matrix in the precision of the data."""
    matrix = sp.csr_array((some.values.astype(obs.dtype), (some.rows, some.cols)), shape=obs.shape)
    held = as_observations(matrix, threads=obs.threads)
    assert isinstance(held, Sparse)
    return held

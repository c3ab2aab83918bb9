"""Kinds of missing places: single entries, long gaps, beginnings. Each has errors of its own size and
shape, so that widths learned from all of them together would be too wide for some and too narrow
for others."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..fit import Filling, Fit
from ..observations.base import Observations, Sample
from ..weights import Array

ENOUGH = (
    200  # errors of a kind that tell its quantiles; else those of all, in its units
)
USUAL = 20  # errors of the usual size that every kind is taken to have
# of the errors that a kind would have by its share of the missing places: with fewer, such gaps could
# not be set aside. (By a quarter, random gaps of small tables would be among them, too.)
RARE = 0.1
MANY = 64  # kinds, at most
TINY = 1e-300


@runtime_checkable
class KnowsKinds(Protocol):
    """A part of a fit that knows what kinds of places there are in data."""

    def kinds(self, obs: Observations) -> Array:
        """The kind of every place, n1 x n2: small whole numbers."""

    def gaps(self, some: Sample) -> Array:
        """A number for the gap that each of these entries is in."""


class Kinds(NamedTuple):
    """Of every place, and the size of errors of each kind beside the usual one."""

    places: Array  # n1 x n2
    sizes: Array

    def at(self, rows: Array, cols: Array) -> Array:
        """The sizes at these places."""
        return np.asarray(self.sizes[self.places[rows, cols]])


def kinds_of(obs: Observations, fit: Fit) -> Array | None:
    """The kind of every place of these data, if the fit knows of any."""
    for part in fit.beyond:
        if isinstance(part, KnowsKinds):
            return part.kinds(obs)
    return None


def unheard_of(obs: Observations, fit: Fit, places: Array, kinds: Array) -> float:
    """Of the missing places that are filled in, how many are of a kind of which hardly any error is
    known. `places` has the kind of each, `kinds` those of the errors.

    Gaps that recur with the period cannot be moved by it: what is set aside then is other gaps, or
    single entries, and says nothing of them."""
    filled = {part.fills for part in fit.beyond if isinstance(part, Filling)}
    missing = np.isnan(obs.grid(*map(np.arange, obs.shape)))
    if "rows" not in filled:
        missing &= (np.asarray(obs.row_observed) > 0)[:, None]
    if "columns" not in filled:
        missing &= np.asarray(obs.col_observed) > 0
    known = np.bincount(kinds, minlength=MANY)
    wanted = np.bincount(places[missing], minlength=MANY)
    share = wanted / max(int(wanted.sum()), 1)
    return float(share[known < np.minimum(USUAL, RARE * len(kinds) * share)].sum())


def sizes_of(ratio: Array, kinds: Array) -> Array:
    """How large errors of each kind are beside all of them; few are drawn to the usual size."""
    size = np.abs(ratio)
    usual = float(np.median(size))
    found = np.ones(MANY)
    if not usual > 0:
        return found
    for k in np.unique(kinds):
        here = size[kinds == k]
        own = math.log(max(float(np.median(here)) / usual, TINY))
        found[k] = math.exp(max(own, -USUAL) * len(here) / (len(here) + USUAL))
    return found


def quantile_of(
    size: Array,
    weight: Array,
    level: float,
    gaps: Array,
) -> float:
    """What a new error stays below with this probability, from weighted sizes of others; infinite
    where these are too few. Errors of one gap (they share a number) come together, and so do new
    ones.
    """
    order = np.argsort(size)
    below = np.cumsum(weight[order])
    wanted = level * (below[-1] + together(gaps))  # the new ones are some of them
    if wanted > below[-1]:
        return math.inf
    return float(size[order][np.searchsorted(below, wanted)])


def together(gaps: Array) -> float:
    """How many errors of one gap there are, in the mean."""
    return len(gaps) / max(len(np.unique(gaps)), 1)


def quantiles_by_kind(
    size: Array,
    weight: Array,
    kinds: Array,
    level: float,
    gaps: Array,
) -> Array:
    """The same for each kind, by its number; that of all errors where it has few."""
    found = np.full(MANY, quantile_of(size, weight, level, gaps))
    for k in np.unique(kinds):
        here = kinds == k
        if weight[here].sum() >= ENOUGH:
            own = quantile_of(size[here], weight[here], level, gaps[here])
            found[k] = own if math.isfinite(own) else found[k]
    return found

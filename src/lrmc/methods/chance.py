"""How many entries agree with a fit by chance, how many prove a line, and which disagree by noise."""

from __future__ import annotations

import numpy as np

from ..observations.base import Observations, Sample
from ..weights import Array

MOST_FITS = 1e4  # to subsets of a line that are tried
SELDOM = 1e-3  # how often a wrong line may be vouched for
PRIOR = 1000  # entries that what is expected of errors counts as
# times the border: where residuals tell how many of a wrong fit are within it
FARTHEST = 5.0
LOOKED_AT = 500  # entries, by which it is told whether values are few ...
DIFFERENT = 0.9  # ... which they are if less of these differ
# of the entries that agree: where fewer are a step off, noise hardly moves what is most frequent
BESIDE = 1 / 3
# times those that are two steps off: outliers of any size are about as many there
FALLING = 1.5
# of those that are a step off on one side: so many are on the other, where noise has no sides
BALANCED = 1 / 3


def by_chance(obs: Observations, size: Array, border: float) -> float:
    """The share of the entries of a wrong fit that are within the border, from the residuals of a
    sample: what is seen beyond, where there is enough of it, and what errors as large as the data
    would give."""
    off, near = size > border, (size > border) & (size <= FARTHEST * border)
    seen = int(near.sum()) / (FARTHEST - 1)
    return (PRIOR * border / obs.scale + seen) / (PRIOR + int(off.sum()))


def by_few_values(
    some: Sample,
    residual: Array,
    axis: int,
    border: float,
    but: float = np.inf,
) -> float:
    """The share of the entries of a sample that agree with what a fit has there for another row (axis
    0; column for 1), where that is another value: of votes and marks, any fit meets many. Entries
    that are `but` do not count."""
    if not _are_few(some.values):
        return 0.0
    lines = (some.cols, some.rows)[axis]
    along = np.random.default_rng(0).permutation(len(lines))
    along = along[np.argsort(lines[along], kind="stable")]
    values = some.values[along]
    model = values - residual[along]
    other = np.abs(model[1:] - model[:-1]) > 2 * border
    other &= np.diff(lines[along]) == 0
    met = other & (np.abs(model[1:] - values[:-1]) <= border)
    met &= np.abs(values[:-1] - but) > border
    return int(met.sum()) / max(int(other.sum()), 1)


def is_rounded_noise(some: Sample, residual: Array, border: float) -> bool:
    """Whether what disagrees does so by noise of values that were rounded: grey levels, tenths of a
    degree. The most frequent value of a line then agrees exactly, and looks like an exact fit.

    Much lies one step beside the fit, on both sides of one value, and less at two steps. Outliers,
    and values that were changed, lie anywhere, or on one side."""
    off = np.abs(residual) > border
    step = _most_crowded(np.abs(residual[off]), 2 * border)
    agree = int((~off).sum())
    up, down = (np.abs(residual - k * step) <= 2 * border for k in (1, -1))
    beyond = np.abs(np.abs(residual) - 2 * step) <= 3 * border
    beside = int(up.sum() + down.sum())
    if beside <= BESIDE * agree or beside < FALLING * int(beyond.sum()):
        return False
    # flips of 0 and 1 are a step up from the one and down from the other
    model, place = np.unique(
        np.round((some.values - residual) / step), return_inverse=True
    )
    sides = np.stack([np.bincount(place[x], minlength=len(model)) for x in (up, down)])
    return int(sides.min(0).sum()) > BALANCED * int(sides.max(0).sum())


def _most_crowded(sizes: Array, width: float) -> float:
    """Where most of these lie within so much of each other."""
    ordered = np.sort(sizes)
    if not len(ordered):
        return np.inf
    ends = np.searchsorted(ordered, ordered + width, "right")
    first = int((ends - np.arange(len(ordered))).argmax())
    return float(np.median(ordered[first : ends[first]]))


def _are_few(values: Array) -> bool:
    """Whether values come again: of some, too many are the same."""
    some = values[:: max(1, len(values) // LOOKED_AT)]
    return len(np.unique(some)) < DIFFERENT * len(some)


def proving(observed: Array, rank: int, chance: float) -> Array:
    """How many entries of a line must agree to vouch for it.

    At least two more than the rank, which any fit meets; and more than the best of many fits to
    subsets of the entries meets by chance: long lines have many subsets, and many entries that may
    agree."""
    expected = observed * chance
    fits = np.ones_like(expected)
    for k in range(rank):
        fits = np.minimum(fits * np.maximum(observed - k, 1) / (k + 1), MOST_FITS)
    extra = np.full_like(expected, 2.0)
    odds = fits * expected * np.exp(-expected)
    most = float(expected.max(initial=0.0))
    for k in range(2, 40):  # Poisson's law: so many agree by chance
        odds = odds * expected / k
        likely = odds > SELDOM
        if k > most and not likely.any():  # they only fall from here on
            break
        extra = np.where(likely, k + 1.0, extra)
    extra = np.where(expected > 10, expected + 8 * np.sqrt(expected) + 16, extra)
    return rank + extra

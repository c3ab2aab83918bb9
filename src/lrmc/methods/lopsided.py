"""Outliers that pull to one side: one value in many places, or all of them above (or below) the
truth.

Random outliers cancel where they are many; these add up to a pattern of their own, and the closed
loop comes to rest between it and the truth. A value that is read in many places is seen at once,
and can be taken for missing. Outliers on one side shift the level of everything: a fit by least
squares with one component more follows that level, what is good lies beside it, all at one
distance, and can be moved there. Only what is certified counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._rows import beside, equal, kept
from ..linalg import Factors, balanced
from ..observations.base import DOMINANT, OFTEN, Observations, Sample
from ..observations.heldout import without
from ..weights import Array
from .consensus import on_what_agrees
from .rank import columns, first_guess
from .start import leading
from .thresholds import LOW

MOST_ENTRIES = 4_000_000  # that are taken for missing: they are copied
DISAGREE = 0.5  # of the entries of a value, at least: a value that is met is data
# more, or larger, residuals on one side than on the other: seldom by chance
ONE_SIDED = 0.3
TAIL = 0.05  # of the residuals: the largest of one side
LARGER = 2.0  # times what good residuals are
WIDE = 30.0  # times the scale of the data: what is farther off takes no part
MOVED = 0.5  # of the width of what is good: a level that is less far off is none
ABOVE_WIDTH = 3.0  # times: a threshold above the errors of a start


class Repeated(NamedTuple):
    """A value that stands in far more places than chance would have it."""

    value: float
    share: float  # of the entries

    def times(self, unit: float) -> Repeated:
        """The same for data that are so many times larger."""
        return self._replace(value=unit * self.value)


def repeated(
    obs: Observations,
    X: Factors | None = None,
    border: float = 0.0,
) -> tuple[Repeated, ...]:
    """The values that stand in many places; given X, only those most of which it misses by more
    than the border.

    Of data that are made of a few values there is nothing to leave out.
    """
    values = obs.sample.values
    distinct, counts = np.unique(values, return_counts=True)
    often = counts > OFTEN * len(values)
    if not often.any() or counts[often].sum() > DOMINANT * len(values):
        return ()
    missed = (
        np.ones(len(values), bool)
        if X is None
        else np.abs(obs.sample.residual(X)) > border
    )
    places = [(float(value), values == value) for value in distinct[often]]
    return tuple(
        Repeated(value, float(at.mean()))
        for value, at in places
        if missed[at].mean() > DISAGREE
    )


def without_values(
    obs: Observations, values: tuple[Repeated, ...]
) -> Observations | None:
    """The data without the entries that have one of these values; None where these are
    too many to be copied.
    """
    share = sum(value.share for value in values)
    if (
        share * obs.n_observed > MOST_ENTRIES
        or not obs.is_here
        or obs.groups is not None
    ):
        return None
    return without(obs, _with_values(obs, np.array([value.value for value in values])))


def _with_values(obs: Observations, wanted: Array) -> Sample:
    """All entries with one of these values. One pass."""
    nothing = Factors(*(np.zeros((n, 1), obs.dtype) for n in obs.shape))
    parts = []
    for some in obs.residuals(*nothing):
        here = np.isin(some.values, wanted)
        parts.append(Sample(*(x[here] for x in some)))
    return Sample(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def is_one_sided(obs: Observations, X: Factors) -> bool:
    """Whether the larger residuals are mostly on one side, or the largest are larger on
    one side.
    """
    residual = obs.sample.residual(X)
    size = np.abs(residual)
    larger = residual[size > LARGER * float(np.quantile(size, LOW))]
    if not len(larger):
        return False
    low, middle, high = np.quantile(residual, [TAIL, 0.5, 1 - TAIL])
    leaning = (low + high - 2 * middle) / max(high - low, 1e-300)  # Kelly's skewness
    return max(abs(float(np.sign(larger).mean())), abs(float(leaning))) > ONE_SIDED


def moved_start(
    obs: Observations,
    rank: int | None,
    most: int,
    seed: int,
) -> tuple[Factors, float] | None:
    """A start at the level of most entries, and a threshold above its errors; None if all are at
    one level.

    Rows that lie on the workers of a cluster are left as they are.
    """
    if not obs.is_here:
        return None
    wide = WIDE * obs.scale
    if rank is None:
        X, _ = first_guess(obs, wide, None, most, seed)
    else:
        X = leading(obs, rank + 1, wide, 1 / obs.fraction, seed=seed)
    for step in on_what_agrees(obs, X, wide, wide):
        X = step.X
    level, width = _densest(obs.sample.residual(X))
    if abs(level) < MOVED * width or X.L.shape[1] < 2:
        return None
    constant = (
        kept(_constant, (F,), value) for F, value in zip(X, (level, 1.0), strict=True)
    )
    both = Factors(*(beside(F, line) for F, line in zip(X, constant, strict=True)))
    moved = columns(balanced(*both), slice(X.L.shape[1] - 1))
    return moved, ABOVE_WIDTH * _densest(obs.sample.residual(moved))[1]


def _constant(rows: tuple[Array], value: float) -> tuple[tuple[Array], tuple[()]]:
    (F,) = rows
    return (np.array(equal(value, len(F)), F.dtype),), ()


def _densest(residual: Array) -> tuple[float, float]:
    """The middle and the width of the narrowest interval with as many residuals as are
    surely good.
    """
    ordered = np.sort(residual.astype(np.float64))
    inside = max(1, int(LOW * len(ordered)))
    widths = ordered[inside:] - ordered[:-inside]
    at = int(widths.argmin())
    return float(ordered[at] + ordered[at + inside]) / 2, float(widths[at])

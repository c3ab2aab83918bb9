"""Several estimates in one: weights that do best on entries set aside, by what is known around an
entry: how far the nearest one of the same sensor is, whether there are some on both sides, and
whether other sensors are there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._scipy import optimize
from ...linalg import median_of
from ...weights import Array
from ..lessons import loss_of, unit_of
from ..plan import BENDS, Score
from .gaps import beyond_ends, runs
from .robust import BELIEVED, fitted_mixture

# Distances in time to the nearest entry, from which on other weights hold: next to it lines are
# hard to beat, far from it periods are.
DISTANCES = (2, 4, 12)
ALONE = (
    0.5  # of the usual number of sensors at a time: with fewer, low rank knows little
)
LENT = 200  # held-out entries that those of more classes count as where a class learns
ENOUGH = 100  # entries that tell how large errors of a class are; else those of all
TINY = 1e-30
SAME = 1e-12  # of all products of errors: what rounding leaves of a difference
ROUNDS = 15  # of reweighted least squares, at most
SETTLED = 1e-3  # by which weights still change
GROSS = 4.0  # median errors: larger ones count by their size, not by its square
APART = 3.0  # deviations; 2 to 6 make no difference of 2 % in RMSE
MARGIN = 0.1  # of the range of a sensor's entries, that estimates may lie beyond it
ENOUGH_OF_RANGE = 50  # entries that tell the range of a sensor; else that of all
SMALLEST = 0.05  # weight: what is below is left out, and need not be computed
N_DISTANCES = len(DISTANCES) + 1
N_GROUPS = 4  # with others there or not, between entries or beyond all of them
N_CLASSES = N_GROUPS * N_DISTANCES


def class_of(seen: Array) -> Array:
    """The class of each entry (sensors x times); of one that was seen, as if it were missing.

    Classes of distance come first, then those of times with few sensors, then both of entries before
    the first or after the last of a sensor."""
    n = seen.shape[1]
    near = np.full(seen.shape, n, np.int32)
    at = np.arange(n, dtype=np.int32)
    for step in (1, -1):
        along = seen[:, ::step]
        last = np.maximum.accumulate(np.where(along, at, -n), axis=1)
        # the entry itself does not count
        before = np.pad(last[:, :-1], ((0, 0), (1, 0)), constant_values=-n)
        near = np.minimum(near, (at - before)[:, ::step])
    distance = np.searchsorted(DISTANCES, near, side="right").astype(np.int8)
    others = seen.sum(0) - seen
    usual = np.median(others[:, seen.any(0)]) if seen.any() else 0.0
    group = (others < ALONE * usual) + np.int8(2) * beyond_ends(seen)
    return distance + np.int8(N_DISTANCES) * group


def kind_of(seen: Array) -> Array:
    """The class of each entry, together with the length of its gap: the ends of a long gap are not
    filled in as well as single entries are."""
    length = np.ones(seen.shape, np.int32)
    rows, starts, lengths = runs(~seen)
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    places = places + np.arange(len(places))
    length[np.repeat(rows, lengths), places] = np.repeat(lengths, lengths)
    longer = np.searchsorted(DISTANCES, length, side="right").astype(np.int8)
    return class_of(seen) + np.int8(N_CLASSES) * longer


def beside_class(errors: Array, classes: Array) -> Array:
    """The same errors (entries x estimates) in units of their classes: what the best estimate there
    is mostly off by. Else gaps that are hard would decide for those that are not."""
    size = np.abs(errors)
    units = np.full(N_CLASSES, _typical(size))
    for k in range(N_CLASSES):
        here = size[classes == k]
        if len(here) >= ENOUGH:
            units[k] = _typical(here)
    return np.asarray(errors / units[classes][:, None])


def good_ones(errors: Array) -> Array:
    """Which held-out entries are no gross errors: some estimate is near them. All estimates miss
    the others alike, and by so much that what processes are worth would not be seen."""
    nearest = np.abs(errors).min(1)
    return fitted_mixture(nearest).good(nearest) > BELIEVED


def _typical(size: Array) -> float:
    """The least of the estimates' median errors."""
    return float(np.median(size, axis=0).min()) + TINY


def learned_weights(errors: Array, classes: Array) -> Array:
    """For each class, the convex weights of estimates whose sum has the least errors.

    `errors` has a line for each entry that was set aside and a column for each estimate. A class
    with few entries has about the weights of its group, and a group with few those of all."""
    _, usual = convex_weights(errors)
    rows = []
    for group in range(N_GROUPS):
        here = classes // N_DISTANCES == group
        _, lent = convex_weights(errors[here], LENT * usual)
        rows += [
            convex_weights(errors[here & (classes % N_DISTANCES == k)], LENT * lent)[0]
            for k in range(N_DISTANCES)
        ]
    weights = np.stack(rows)
    weights[weights < SMALLEST] = 0
    return weights / weights.sum(1, keepdims=True)


class Weights(NamedTuple):
    """Convex weights, and the products of errors that they were found from, of one entry."""

    weights: Array
    products: Array


def convex_weights(E: Array, lent: Array | None = None) -> Weights:
    """Weights that are not negative and sum to 1, by Huber's loss: some of the entries may be
    outliers, which no estimate should meet. Products of errors of `LENT` other entries may be
    added."""
    m, n = E.shape
    E = E.astype(np.float64)
    others = 0 if lent is None else LENT
    lent = np.zeros((n, n)) if lent is None else lent
    reach = GROSS * float(np.median(np.abs(E), axis=0).min()) + 1e-30 if m else 1.0
    w = np.full(n, 1 / n)
    for _ in range(ROUNDS):
        weight = np.minimum(1, reach / np.maximum(np.abs(E @ w), 1e-30))
        products = E.T @ (weight[:, None] * E) + lent
        # as E, with n lines; estimates may be the same
        root = np.linalg.cholesky(products + SAME * products.trace() * np.eye(n)).T
        # a line that is worth more than all others holds the sum at 1
        one = 1e3 * float(np.linalg.norm(root)) + 1e-30
        before = w
        lines = np.vstack([root, np.full(n, one)])
        target = np.append(np.zeros(n), one)
        w = optimize.nnls(lines, target)[0]
        w /= w.sum()
        if np.abs(w - before).max() < SETTLED:
            break
    return Weights(w, products / (m + others))


def blended(
    estimates: list[Array],
    weights: Array,
    classes: Array,
    deviation: Array,
) -> Array:
    """The sum of estimates (sensors x times), each with its weight in the class of the entry.

    None counts as farther from their weighted median than some deviations: one of them may run
    away where the others do not."""
    total = np.empty_like(estimates[0])
    for s in range(len(total)):
        Z = np.stack([z[s] for z in estimates])
        w = weights[classes[s]].T.astype(Z.dtype)
        middle, reach = weighted_median(Z, w), APART * deviation[s]
        total[s] = (w * np.clip(Z, middle - reach, middle + reach)).sum(0)
    return total


def weighted_median(Z: Array, w: Array) -> Array:
    """Of each column, the least of its numbers that holds half of the weight with those below."""
    heaviest = w.argmax(0)
    everywhere = np.arange(Z.shape[1])
    found = Z[heaviest, everywhere]
    # what has more than half of the weight needs no order
    open_ = np.flatnonzero(2 * w[heaviest, everywhere] <= w.sum(0))
    order = np.argsort(Z[:, open_], axis=0)
    below = np.cumsum(np.take_along_axis(w[:, open_], order, 0), axis=0)
    first = np.argmax(below >= below[-1] / 2, axis=0)
    found[open_] = Z[order[first, np.arange(len(open_))], open_]
    return found


def plausible(values: Array, Y: Array, good: Array) -> Array:
    """Values in the range of the good entries of each sensor; not below 0 where no good entry is."""
    there = good > BELIEVED
    low, high = range_of(Y, there)
    if not (there & (Y < 0)).any():
        low = np.maximum(low, 0)
    return np.clip(values, low[:, None], high[:, None])


def range_of(Y: Array, there: Array) -> tuple[Array, Array]:
    """From where to where these entries of each sensor reach, and a little beyond."""
    low = np.where(there, Y, np.inf).min(1)
    high = np.where(there, Y, -np.inf).max(1)
    few = there.sum(1) < ENOUGH_OF_RANGE
    low[few], high[few] = low.min(), high.max()
    margin = MARGIN * (high - low)
    return low - margin, high + margin


def gain_in_loss(errors: Array, others: Array, score: Score) -> float:
    """Over the best of others (entries x estimates), as a part of its loss."""
    first = others[:, np.abs(others).mean(0).argmin()]
    bend = BENDS[score] * unit_of([first])
    least = min(loss_of(x, bend) for x in others.T)
    return 1 - loss_of(errors, bend) / max(least, TINY)


def gain_of_typical(errors: Array, others: Array) -> float:
    """What the median size of errors is less than that of others, as a part of it."""
    return 1 - median_of(np.abs(errors)) / max(median_of(np.abs(others)), TINY)

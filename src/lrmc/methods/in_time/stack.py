"""Several estimates in one: weights that do best on entries set aside, by how far the nearest
entry of the same sensor is."""

from __future__ import annotations

import numpy as np

from ...weights import Array

# Distances in time to the nearest entry, from which on other weights hold: next to it lines are
# hard to beat, far from it periods are.
CLASSES = (2, 4, 12)
FEWEST = (
    200  # held-out entries that weights of a class are learned from; else those of all
)
ROUNDS = 15  # of reweighted least squares
GROSS = 4.0  # median errors: larger ones count by their size, not by its square
SMALLEST = 0.05  # weight: what is below is left out, and need not be computed


def distance_class(seen: Array) -> Array:
    """The class of each entry (sensors x times); of one that was seen, as if it were missing."""
    n = seen.shape[1]
    near = np.full(seen.shape, n, np.int32)
    at = np.arange(n, dtype=np.int32)
    for step in (1, -1):
        along = seen[:, ::step]
        last = np.maximum.accumulate(np.where(along, at, -n), axis=1)
        # the entry itself does not count
        before = np.pad(last[:, :-1], ((0, 0), (1, 0)), constant_values=-n)
        near = np.minimum(near, (at - before)[:, ::step])
    return np.searchsorted(CLASSES, near, side="right").astype(np.int8)


def learned_weights(errors: Array, classes: Array) -> Array:
    """For each class, the convex weights of estimates whose sum has the least errors.

    `errors` has a line for each entry that was set aside and a column for each estimate."""
    overall = convex_weights(errors)
    own = [
        convex_weights(errors[classes == k])
        if (classes == k).sum() >= FEWEST
        else overall
        for k in range(len(CLASSES) + 1)
    ]
    weights = np.stack(own)
    weights[weights < SMALLEST] = 0
    return weights / weights.sum(1, keepdims=True)


def convex_weights(E: Array) -> Array:
    """Weights that are not negative and sum to 1, by Huber's loss: some of the entries may be
    outliers, which no estimate should meet."""
    n = E.shape[1]
    reach = GROSS * float(np.median(np.abs(E), axis=0).min()) + 1e-30
    from scipy.optimize import nnls  # as heavy as all of lrmc

    # a line that is worth more than all others holds the sum at 1
    one = np.full((1, n), 1e3 * np.linalg.norm(E) + 1e-30)
    target = np.append(np.zeros(len(E)), one[0, 0])
    w = np.full(n, 1 / n)
    for _ in range(ROUNDS):
        root = np.sqrt(np.minimum(1, reach / np.maximum(np.abs(E @ w), 1e-30)))
        w = nnls(np.vstack([E * root[:, None], one]), target)[0]
        w /= w.sum()
    return w


def blended(estimates: list[Array], weights: Array, classes: Array) -> Array:
    """The sum of estimates (sensors x times), each with its weight in the class of the entry."""
    total = np.zeros_like(estimates[0])
    for estimate, w in zip(estimates, weights.T.astype(total.dtype), strict=True):
        total += w[classes] * estimate
    return total

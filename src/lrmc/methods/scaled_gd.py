"""ScaledGD (Tong, Ma and Chi, 2021), with 1/p for entries that are not observed: the
baseline of the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._kernels import times
from .._rows import each, equal, kept
from ..linalg import Move, change_of, divide, gram, inverse, move
from ..observations.base import Observations
from ..schedule import Tuning
from ..weights import Array, Threshold
from .start import leading
from .step import Start, Step


def scaled_gd(
    obs: Observations,
    rank: int,
    tuning: Tuning,
    seed: int = 0,
) -> Iterator[Step]:
    """S = T(Y - L R'), then a scaled gradient step on both factors. Three passes over the data per
    step.

    T keeps what is among the largest of both its row and its column: see `sparsify`. S is never
    made."""
    eta, p = tuning.eta, obs.fraction
    begin = start(obs, rank, tuning, seed)
    L, R = begin.X
    yield begin.step
    while True:
        CR, CtL = pull = obs.pull(L, R, rule := sparsify(obs, L, R, tuning.share))
        scale = eta / p * inverse(gram(R), len(L), R.dtype)
        after = R + eta / p * divide(CtL, gram(L))
        L, left = moved_by(L, CR, scale, None)
        moved = change_of(left, move(R, after))
        R = after
        yield Step(
            L,
            R,
            typical(rule),
            pull.n_inliers / obs.n_observed,
            stage="scaled_gd",
            moved=moved,
        )


def moved_by(L: Array, CR: Array, scale: Array, D: Array | None) -> tuple[Array, Move]:
    """L + C R scale - L D, and how far that is."""
    (L,), left = each(_moved, (L, CR), (scale, D))
    return L, Move(*left)


def _moved(rows: tuple[Array, Array], same: Any) -> tuple[tuple[Array], Move]:
    (L, CR), (scale, D) = rows, same
    step = times(CR, scale.astype(L.dtype))
    if D is not None:
        step = step - times(L, D.astype(L.dtype))
    return (L + step,), Move(gram(step), gram(step, L), gram(L))


def start(obs: Observations, rank: int, tuning: Tuning, seed: int = 0) -> Start:
    """The leading part of (Y - T(Y)) / p, balanced: L = U S^(1/2), R = V S^(1/2)."""
    rule = sparsify(obs, None, None, tuning.alpha)
    return Start(leading(obs, rank, rule, 1 / obs.fraction, seed=seed), typical(rule))


def sparsify(obs: Observations, L: Any, R: Any, share: float) -> Threshold:
    """The rule whose pull C is E - T(E), where E = Y - L R' on the observed entries.

    T(E) is E where |e| is among the largest of its row and among the largest of its column, `share`
    of what is observed in each, and 0 elsewhere. So an entry stays in C if |e| is below the larger
    of two thresholds."""
    rows, cols = (kept(_just_below, (z,)) for z in obs.magnitudes(L, R, share))
    return Threshold(rows, cols, equal(0.0, len(rows)), equal(0.0, len(cols)))


def _just_below(rows: tuple[Array], _: None) -> tuple[tuple[Array], tuple[()]]:
    (z,) = rows
    return (np.nextafter(z, -z.dtype.type(np.inf)),), ()


def typical(rule: Threshold) -> float:
    """One number for the thresholds of a step."""
    return float(np.median(np.asarray(rule.rows)))

"""ScaledGD (Tong, Ma and Chi, 2021), with 1/p for entries that are not observed: the baseline of the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..linalg import divide, gram
from ..observations.base import Observations
from ..observations.tall import equal, held
from ..schedule import Tuning
from ..weights import Threshold
from .lrmc import Start, Step
from .start import leading


def scaled_gd(obs: Observations, rank: int, tuning: Tuning, seed: int = 0) -> Iterator[Step]:
    """S = T(Y - L R'), then a scaled gradient step on both factors. Three passes over the data per step.

    T keeps what is among the largest of both its row and its column: see `sparsify`. S is never made.
    """
    eta, p = tuning.eta, obs.fraction
    (L, R), zeta = start(obs, rank, tuning, seed)
    yield Step(L, R, zeta, math.nan, stage="start")
    while True:
        CR, CtL = pull = obs.pull(L, R, rule := sparsify(obs, L, R, tuning.share))
        L, R = held(L + eta / p * divide(CR, gram(R)), R + eta / p * divide(CtL, gram(L)))
        yield Step(L, R, typical(rule), pull.n_inliers / obs.n_observed, stage="scaled_gd")


def start(obs: Observations, rank: int, tuning: Tuning, seed: int = 0) -> Start:
    """The leading part of (Y - T(Y)) / p, balanced: L = U S^(1/2), R = V S^(1/2)."""
    rule = sparsify(obs, None, None, tuning.alpha)
    return Start(leading(obs, rank, rule, 1 / obs.fraction, seed=seed), typical(rule))


def sparsify(obs: Observations, L: object, R: object, share: float) -> Threshold:
    """The rule whose pull C is E - T(E), where E = Y - L R' on the observed entries.

    T(E) is E where |e| is among the largest of its row and among the largest of its column, `share` of what is observed
    in each, and 0 elsewhere. So an entry stays in C if |e| is below the larger of two thresholds.
    """
    rows, cols = (np.nextafter(z, -z.dtype.type(np.inf)) for z in obs.magnitudes(L, R, share))  # below, not at them
    return Threshold(rows, cols, equal(0.0, len(rows)), equal(0.0, len(cols)))


def typical(rule: Threshold) -> float:
    """One number for the thresholds of a step."""
    return float(np.median(np.asarray(rule.rows)))

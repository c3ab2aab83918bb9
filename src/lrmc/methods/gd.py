"""Gradient descent for robust PCA (Yi, Park, Chen and Caramanis, 2016): what ScaledGD scales."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..linalg import gram
from ..observations.base import Observations
from ..observations.tall import held
from ..schedule import Tuning
from .lrmc import Step
from .scaled_gd import sparsify, start, typical


def gd(obs: Observations, rank: int, tuning: Tuning, seed: int = 0) -> Iterator[Step]:
    """S = T(Y - L R'), then a gradient step on both factors, with a term that keeps them balanced.

    The step is eta / sigma_1 of the start, and T that of `scaled_gd`. The authors also project rows of the factors onto
    a ball of the size that incoherence allows. Their own code leaves that out unless it is asked for, and so does this.
    """
    p = obs.fraction
    (L, R), zeta = start(obs, rank, tuning, seed)
    eta = tuning.eta / float(np.linalg.eigvalsh(gram(L))[-1] or 1.0)  # balanced: L'L holds the singular values
    yield Step(L, R, zeta, math.nan, stage="start")
    while True:
        CR, CtL = pull = obs.pull(L, R, rule := sparsify(obs, L, R, tuning.share))
        D = (gram(L) - gram(R)).astype(L.dtype) / 2  # the gradient of |L'L - R'R|^2 / 8 is L D and -R D
        L, R = held(L + eta * (CR / p - L @ D), R + eta * (CtL / p + R @ D))
        yield Step(L, R, typical(rule), pull.n_inliers / obs.n_observed, stage="gd")

"""Gradient descent for robust PCA (Yi, Park, Chen and Caramanis, 2016): what ScaledGD scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..linalg import change_of, gram, move
from ..observations.base import Observations
from ..schedule import Tuning
from .scaled_gd import moved_by, sparsify, start, typical
from .step import Step


def gd(obs: Observations, rank: int, tuning: Tuning, seed: int = 0) -> Iterator[Step]:
    """S = T(Y - L R'), then a gradient step on both factors, with a term that keeps them balanced.

    The step is eta / sigma_1 of the start, and T that of `scaled_gd`. The authors also project rows
    of the factors onto a ball of the size that incoherence allows. Their own code leaves that out
    unless it is asked for, and so does this."""
    p = obs.fraction
    begin = start(obs, rank, tuning, seed)
    L, R = begin.X
    # balanced: L'L holds the singular values
    eta = tuning.eta / float(np.linalg.eigvalsh(gram(L))[-1] or 1.0)
    yield begin.step
    while True:
        CR, CtL = pull = obs.pull(L, R, rule := sparsify(obs, L, R, tuning.share))
        # the gradient of |L'L - R'R|^2 / 8 is L D and -R D
        D = eta * (gram(L) - gram(R)) / 2
        after = R + (eta / p * CtL + R @ D).astype(R.dtype)
        L, left = moved_by(L, CR, eta / p * np.eye(rank), D)
        moved = change_of(left, move(R, after))
        R = after
        yield Step(
            L,
            R,
            typical(rule),
            pull.n_inliers / obs.n_observed,
            stage="gd",
            moved=moved,
        )

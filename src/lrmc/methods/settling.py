"""Where layers on noisy data end, and what is left of the components there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._rows import turned
from ..linalg import Factors, balanced, gram
from ..observations.base import Observations, Settle
from .noisy import Noise
from .noisy_layers import (
    FALLING,
    MOST_MORE,
    Half,
    Layers,
    State,
    given_to,
    passes,
    settled,
)

# of the largest singular value of noise alone: what is below did not survive; and what is below
# where no hidden entries have said how many components there are
DEAD, DYING = 0.1, 0.5
TOLD = 1e-6  # of the largest singular value: below, Gram matrices do not tell it


class End(NamedTuple):
    """Where layers ended."""

    after: State
    variance: float  # of the noise
    total: float  # of all weights


def settle(
    obs: Observations,
    state: State,
    layers: Layers,
    noise: Noise,
    *,
    most_again: int = MOST_MORE,
) -> End:
    """The last of what `settled` gives, with the last layer made again up to so many times: at once
    where a kernel reaches all rows.
    """
    halves = [layers.of(k, turn) for k in range(len(layers)) for turn in (0, 1)]
    longer = int(obs.shape[1] > obs.shape[0])
    relative = noise.even_square
    first = given_to(obs, state, longer, noise, numbers=halves[0], relative=relative)
    made = obs.settle(Settle(first, halves, most_again, FALLING))
    if made is not None:
        after = State(Factors(made.L, made.R), made.unknown)
        return End(after, made.variance, made.total)
    steps = settled if most_again else passes
    *_, half = steps(obs, state, layers, noise)
    return End(half.after, half.variance, half.total)


def without_dead(obs: Observations, end: Half | End) -> State:
    """The state after layers, with what is left of the components, or soon will be."""
    return State.known(trimmed(obs, end, DYING))


def alive(obs: Observations, end: Half | End, least: float = DEAD) -> Factors:
    """What is left of the components, as `trimmed` has it; where that is all of them, in the gauge
    that they are in.
    """
    GL, GR = map(gram, end.after.X)
    if np.isfinite([GL.sum(), GR.sum()]).all():
        # of small tables, a decomposition of all rows takes as long as a layer
        squares = np.linalg.eigvals(GL @ GR).real
        border = max(least * _of_noise(obs, end), TOLD * np.sqrt(abs(squares.max())))
        if squares.min() < border**2:
            return trimmed(obs, end, least)
    return end.after.X


def trimmed(obs: Observations, end: Half | End, least: float = DEAD) -> Factors:
    """What is left of the components: those far below what noise alone would have are not. Factors
    that are not finite are left as they are.
    """
    if not np.isfinite([gram(F).sum() for F in end.after.X]).all():
        return end.after.X
    X = balanced(*end.after.X)
    sizes = np.diag(gram(X.R))
    kept = max(1, int(np.sum(sizes > least * _of_noise(obs, end))))
    some = np.eye(len(sizes))[:, :kept]  # they come in the order of their sizes
    return Factors(*(turned(F, some) for F in X))


def _of_noise(obs: Observations, end: Half | End) -> float:
    """The largest singular value that noise alone would have."""
    weight = end.total / obs.n_observed
    deviation = np.sqrt(end.variance / max(weight * obs.fraction, 1e-300))
    return float(deviation * np.sqrt(obs.shape).sum())

"""A schedule as a network: its numbers as one vector, and the gradient of a loss with
respect to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..linalg import Factors
from ..methods.lrmc import lrmc
from ..methods.step import Start
from ..schedule import Schedule
from ..weights import Array
from .adjoint import backward, forward
from .examples import Example

LOST = 10.0  # the logarithm of an error that is as bad as any


@dataclass(frozen=True)
class Shape:
    """Which numbers of a schedule are learned: thresholds and steps of K layers, and the
    momentum if there is one.
    """

    layers: int
    momentum: bool

    def packed(self, schedule: Schedule) -> Array:
        """log zeta_1 .. log zeta_K, log eta_1 .. log eta_K, gamma_1 .. gamma_K."""
        numbers = [np.log(schedule.zeta[1:]), np.log(schedule.eta)]
        return np.concatenate(
            numbers + ([np.array(schedule.momentum)] if self.momentum else [])
        )

    def unpacked(self, theta: Array, schedule: Schedule) -> Schedule:
        """The schedule with these numbers."""
        K = self.layers
        numbers = np.exp(np.clip(theta[: 2 * K], -60, 60))
        zeta, eta = numbers.reshape(2, K).tolist()
        gamma = np.clip(theta[2 * K :], 0, 0.99).tolist()
        return replace(
            schedule,
            zeta=(schedule.zeta[0], *zeta),
            eta=tuple(eta),
            momentum=tuple(gamma),
        )


def errors(schedule: Schedule, example: Example, at: Sequence[int]) -> Array:
    """The logarithms of the errors after some of the layers (1 is the first), at most
    LOST. Iterates are not kept.
    """
    start, layers = (
        Start(example.start(schedule), math.nan),
        example.layers(schedule, max(at)),
    )
    # what overflows is noticed by its error
    with np.errstate(over="ignore", invalid="ignore"):
        steps = enumerate(lrmc(example.obs, start, layers, schedule.tangent))
        found = {
            k: _bounded(example.goal.error(Factors(step.L, step.R)))
            for k, step in steps
            if k in at
        }
    return np.array([found[k] for k in at])


def loss_and_gradient(
    schedule: Schedule,
    shape: Shape,
    weights: dict[int, float],
    example: Example,
    *,
    first: int = 1,
) -> tuple[float, Array, float]:
    """The weighted sum of log errors after some layers, its gradient, and the log error after layer
    K.

    Layers beyond K are those of the tail: what they say of the last threshold and step counts for
    layer K. Numbers of layers before the `first` get 0, and cost no way back."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _loss_and_gradient(schedule, shape, weights, example, first)


def _loss_and_gradient(
    schedule: Schedule,
    shape: Shape,
    weights: dict[int, float],
    example: Example,
    first: int,
) -> tuple[float, Array, float]:
    K, layers = shape.layers, example.layers(schedule, max(weights))
    tape = forward(example.obs, example.start(schedule), layers, schedule.tangent)
    seeds: list[Factors | None] = [None] * max(weights)
    total, last = 0.0, LOST
    for k, weight in weights.items():
        error, gradient = example.goal.error_and_gradient(tape.iterates[k - 1])
        if not _bounded(error) < LOST:
            return LOST, np.zeros((2 + shape.momentum) * K), LOST
        seeds[k - 1] = Factors(weight * gradient.L, weight * gradient.R)
        total, last = total + weight * error, error if k == K else last
    found = backward(example.obs, tape, seeds, first=first - 1)
    parts = [
        _folded(found.zeta * [layer.zeta for layer in layers], K),
        _folded(found.eta * [layer.eta for layer in layers], K),
    ]
    if shape.momentum:
        parts.append(_folded(found.momentum, K))
    return total, np.concatenate(parts), last


def _folded(gradient: Array, K: int) -> Array:
    """What belongs to the tail counts for layer K: its numbers are multiples of those."""
    return np.append(gradient[: K - 1], gradient[K - 1 :].sum())


def _bounded(error: float) -> float:
    return min(error, LOST) if math.isfinite(error) or error < 0 else LOST

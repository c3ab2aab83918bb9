"""A schedule as a network: its numbers as one vector, and the gradient of a loss with respect to that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..linalg import Factors
from ..schedule import Schedule
from ..weights import Array
from .adjoint import Tape, backward, forward
from .examples import Example

LOST = 10.0  # the logarithm of an error that is as bad as any


@dataclass(frozen=True)
class Shape:
    """Which numbers of a schedule are learned: thresholds and steps of K layers, and the momentum if there is one."""

    layers: int
    momentum: bool

    def packed(self, schedule: Schedule) -> Array:
        """log zeta_1 .. log zeta_K, log eta_1 .. log eta_K, gamma_1 .. gamma_K."""
        numbers = [np.log(schedule.zeta[1:]), np.log(schedule.eta)]
        return np.concatenate(numbers + ([np.array(schedule.momentum)] if self.momentum else []))

    def unpacked(self, theta: Array, schedule: Schedule) -> Schedule:
        """The schedule with these numbers."""
        K = self.layers
        zeta, eta = np.exp(np.clip(theta[: 2 * K], -60, 60)).reshape(2, K).tolist()
        gamma = np.clip(theta[2 * K :], 0, 0.99).tolist()
        return replace(schedule, zeta=(schedule.zeta[0], *zeta), eta=tuple(eta), momentum=tuple(gamma))


def errors(schedule: Schedule, example: Example, at: Sequence[int]) -> Array:
    """The logarithms of the errors after some of the layers (1 is the first), at most LOST."""
    iterates = _run(schedule, example, max(at)).iterates
    return np.array([_bounded(example.goal.error(iterates[k - 1])) for k in at])


def loss_and_gradient(
    schedule: Schedule, shape: Shape, weights: dict[int, float], example: Example
) -> tuple[float, Array, float]:
    """The weighted sum of log errors after some layers, its gradient, and the log error after layer K.

    Layers beyond K are those of the tail: what they say of the last threshold and step counts for layer K.
    """
    K, tape = shape.layers, _run(schedule, example, max(weights))
    seeds: list[Factors | None] = [None] * max(weights)
    total, last = 0.0, LOST
    for k, weight in weights.items():
        error, gradient = example.goal.error_and_gradient(tape.iterates[k - 1])
        if not _bounded(error) < LOST:
            return LOST, np.zeros((2 + shape.momentum) * K), LOST
        seeds[k - 1] = Factors(weight * gradient.L, weight * gradient.R)
        total, last = total + weight * error, error if k == K else last
    found = backward(example.obs, tape, seeds)
    layers = tape.layers
    parts = [
        _folded(found.zeta * [layer.zeta for layer in layers], K),
        _folded(found.eta * [layer.eta for layer in layers], K),
    ]
    if shape.momentum:
        parts.append(_folded(found.momentum, K))
    return total, np.concatenate(parts), last


def _run(schedule: Schedule, example: Example, layers: int) -> Tape:
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is noticed by its error
        return forward(example.obs, example.start(schedule), example.layers(schedule, layers), schedule.tangent)


def _folded(gradient: Array, K: int) -> Array:
    """What belongs to the tail counts for layer K: its numbers are multiples of those."""
    return np.append(gradient[: K - 1], gradient[K - 1 :].sum())


def _bounded(error: float) -> float:
    return min(error, LOST) if math.isfinite(error) or error < 0 else LOST

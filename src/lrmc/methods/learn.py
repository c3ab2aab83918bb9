"""The numbers of the layers, learned on the data themselves: what is known is hidden, and is to be
found again.

Gradients of the error at hidden entries say how the numbers should change. Other hidden entries,
which are never learned from, say when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..weights import Array
from .growing import GROWING_IN_GROUPS
from .lessons import SAME, Tried, is_better, mean_gain
from .noisy_layers import Layers

STEPS = 24  # of the learning, at most
ROUNDS = 4  # times that every lesson is learned from, where there are more of them
EVERY = 2  # steps the judges are asked, or half a round
PATIENCE = 1  # times that the judges may see no gain: a second seldom changes that
RATE = 0.12  # by which the logarithm of a number changes in a step, about
FADING, FADING_SQUARES = 0.8, 0.95  # of gradients, and their squares, from step to step
BORDERS = np.log(
    [[0.3, 0.01, 0.02, 0.02, 0.01, 0.05], [20.0, 4.0, 20.0, 20.0, 20.0, 1.5]]
)[:, :, None]

# Learned together on a week of traffic, ratings of jokes, one face under many lights, a medical
# table with and without outliers, and synthetic data of ranks 5 and 20; smooth from layer to layer.
SHIPPED = Layers(
    reach=(4.81, 6.08, 3.62),
    shape=(1.37, 1.3, 0.782),
    longer=(0.997, 0.979, 1.3),
    shorter=(0.974, 1.47, 1.65),
    kappa=(0.204, 0.403, 1.12),
    eta=(1.5, 1.5, 1.32),
)

# What covers whole groups lies in patches, which steps that go too far would make components of.
IN_GROUPS = Layers.same(GROWING_IN_GROUPS, len(SHIPPED))


# told of a stage, how much of it is done, and of how much
Told = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """For those who do not ask."""


class Trial(NamedTuple):
    """What the judges said after so many steps."""

    step: int
    loss: float  # relative to that at the beginning


@dataclass(frozen=True)
class Learned:
    """Numbers, and how the judges saw them change."""

    layers: Layers
    trials: tuple[Trial, ...]


def learned(
    tried: Tried,
    bend: float,
    layers: Layers = SHIPPED,
    shape: float | None = None,
    told: Told = silent,
    *,
    final: bool = False,
) -> Learned:
    """Numbers for the data of these lessons, beginning with `layers`, by which they were fitted. A
    shape that is given stays.

    Where the judges have the last word (`final`), a gain that is not clear to them and becomes
    smaller is left.
    """
    judges = tried.judges()
    pupils = [lesson for lesson in tried.lessons if not lesson.judge]
    every = max(EVERY, len(pupils) // 2)
    least = first = judges.losses(bend)
    trials, found, waited, gain = [Trial(0, 1.0)], layers, 0, 0.0
    descent = Descent(np.log(layers.array()))
    most = max(STEPS, ROUNDS * len(pupils)) if pupils else 0
    for step in range(1, most + 1):
        told("learning", step, most)
        loss, slope = pupils[step % len(pupils)].slope(descent.layers, bend)
        if not (np.isfinite(loss) and np.isfinite(slope).all()):
            break
        if shape is not None:
            slope[1] = 0.0
        descent = descent.moved(slope)
        if step % every:
            continue
        now = Tried.of(judges.lessons, descent.layers).losses(bend)
        trials.append(Trial(step, now.mean() / max(first.mean(), 1e-300)))
        before, gain = gain, mean_gain(first, now)
        if final and gain < before and not is_better(first, now):
            break
        if now.mean() < (1 - SAME) * least.mean():
            found, least, waited = descent.layers, now, 0
        elif (waited := waited + 1) == PATIENCE:
            break
    return Learned(found, tuple(trials))


@dataclass(frozen=True, eq=False)
class Descent:
    """Steps of about the same size for each number, against its gradient: Adam."""

    logs: Array  # of the numbers
    slope: Array | float = 0.0  # the mean of gradients, the last ones most
    square: Array | float = 0.0  # and of their squares
    count: int = 0

    @property
    def layers(self) -> Layers:
        """Where it is."""
        return Layers(*np.exp(self.logs))

    def moved(self, gradient: Array) -> Descent:
        """One step further."""
        count = self.count + 1
        slope = FADING * self.slope + (1 - FADING) * gradient
        square = FADING_SQUARES * self.square + (1 - FADING_SQUARES) * gradient**2
        mean, spread = (
            slope / (1 - FADING**count),
            np.sqrt(square / (1 - FADING_SQUARES**count)),
        )
        logs = self.logs - RATE * mean / (spread + 1e-300)
        return Descent(np.clip(logs, *BORDERS), slope, square, count)

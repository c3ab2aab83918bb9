"""How far rows and columns have noise of their own: decided on hidden entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..weights import Array
from .lessons import Tried, is_better, is_typically_better
from .noisy_layers import Layers
from .plan import Plan

HALF = 0.5  # the power of the noise of lines that has to prove itself
EVEN = 0.1  # in logarithms: lines whose noise differs by less have the same


def own_noise(
    tried: Tried,
    layers: Layers,
    bend: float,
) -> tuple[tuple[float, float], Tried]:
    """Powers of the noise that rows and columns show, and the lessons with it: one side after the
    other, if typical entries clearly gain by half of it: it is their noise. All of it is then the
    usual case, and taken unless it is clearly worse.
    """
    lines = tried.line_noise()
    powers, best = (0.0, 0.0), tried
    for side in (1, 0):
        if np.std(np.log(lines[0][side])) < EVEN:
            continue
        half = _scaled(best, lines, _with(powers, side, HALF), layers)
        gained = half.losses(bend)
        if not is_typically_better(best.losses(bend), gained):
            continue
        full = _with(powers, side, 1.0)
        whole = _scaled(best, lines, full, layers)
        if is_better(whole.losses(bend), gained):
            powers, best = _with(powers, side, HALF), half
        else:
            powers, best = full, whole
    return powers, best


def _with(powers: tuple[float, float], side: int, power: float) -> tuple[float, float]:
    return (power, powers[1]) if side == 0 else (powers[0], power)


def _scaled(
    tried: Tried,
    lines: Sequence[tuple[Array, Array]],
    powers: tuple[float, float],
    layers: Layers,
) -> Tried:
    """The same lessons with powers of the noise of lines."""
    pairs = zip(tried.lessons, lines, strict=True)
    return Tried.of([x.scaled(n, powers) for x, n in pairs], layers)


def scaled_as(tried: Tried, plan: Plan) -> Tried:
    """The lessons with the noise that their fits show, as planned."""
    if not any(plan.powers):
        return tried
    pairs = zip(tried.lessons, tried.line_noise(), strict=True)
    return tried._replace(lessons=[x.scaled(lines, plan.powers) for x, lines in pairs])

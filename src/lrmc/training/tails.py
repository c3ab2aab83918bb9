"""The recurrent tail of a schedule: zeta_k = phi zeta_{k-1}, eta_k = beta eta_{k-1}
beyond the learned layers.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..schedule import Schedule
from .examples import Example
from .network import errors

HORIZON = 60  # layers by which a tail is judged
FLOOR = math.log(1e-13)  # errors below are as good as none


def best_tail(
    schedule: Schedule,
    some: list[Example],
    tails: tuple[tuple[float, float], ...],
    *,
    horizon: int,
) -> Schedule:
    """The schedule with the tail (phi, beta) whose errors over so many further layers are lowest on
    average, at worst.

    On average, not at the end: a tail that falls fast and then stalls, because its steps are
    summable or its thresholds fell below the error, loses to one that goes on. With horizon = 4
    this is nearly the paper's search."""
    K = len(schedule)
    at = sorted({K + max(1, horizon * k // 8) for k in range(1, 9)})

    def height(tail: tuple[float, float]) -> float:
        tried = replace(schedule, tail=tail)
        return max(
            float(np.maximum(errors(tried, example, at), FLOOR).mean())
            for example in some
        )

    return replace(schedule, tail=min(tails, key=height))

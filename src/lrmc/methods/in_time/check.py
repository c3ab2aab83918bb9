"""Whether a plan holds in a window of a long table that it was not learned in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...weights import Array
from .gaps import gaps_elsewhere
from .plan import WORTH, Plan, carried_out, mean_and_error
from .simple import ALL_DAYS, every_day, simple_fits
from .stack import N_DISTANCES, class_of
from .windows import middle_window, windows

FEWEST = 200  # entries far from others that are looked at by themselves
CLEARLY = 2.0  # standard errors by which something simple must be ahead


class Check(NamedTuple):
    """Mean absolute errors on entries set aside there, those far from others if there are some."""

    errors: dict[str, float]  # of the answer ("lrmc") and of simple ways
    best: str  # of these
    worse: float  # how much more the answer is off than the best
    worse_error: float
    far: bool

    @property
    def warning(self) -> str:
        """Empty where there is no reason for one."""
        ours, other = self.errors["lrmc"], self.errors[self.best]
        if self.worse <= max(CLEARLY * self.worse_error, WORTH * other):
            return ""
        where = "in long gaps" if self.far else "in gaps"
        return (
            f"time: entries set aside {where} are missed by {ours:.3g} on average, and by"
            f" {other:.3g} by something simple ({self.best}), which may be better for this table"
        )

    def plain(self) -> dict[str, Any]:
        """For `Result.evidence`."""
        return {"held_out": self.errors, "in_long_gaps": self.far}


def checked(Y: Array, plan: Plan, width: int, seed: int) -> Check | None:
    """The plan of a table (sensors x times) in another window; None if it has one only."""
    T = Y.shape[1]
    learned = middle_window(T, width, plan.period)
    others = [
        slice(begin, end)
        for begin, end in windows(T, width, plan.period)
        if end - begin == width and begin != learned.start
    ]
    if not others:
        return None
    window = Y[:, others[len(others) // 4]]
    held = gaps_elsewhere(~np.isnan(window), seed + 1, plan.period)
    rest = np.where(held, np.nan, window).astype(Y.dtype)
    classes = class_of(~np.isnan(rest))
    far = held & (classes % N_DISTANCES == N_DISTANCES - 1)
    at = far if far.sum() >= FEWEST else held
    found = simple_fits(rest, plan.period, plan.nights)
    if plan.all_days is not None:
        found[ALL_DAYS] = every_day(plan.all_days, width)
    off = {name: np.abs(z - window)[at] for name, z in found.items()}
    best = min(off, key=lambda name: float(off[name].mean()))
    off["lrmc"] = np.abs(carried_out(rest, plan, None, moved=True).values - window)[at]
    worse, error = mean_and_error(off["lrmc"] - off[best], [at])
    errors = {name: float(e.mean()) for name, e in off.items()}
    return Check(errors, best, worse, error, at is far)

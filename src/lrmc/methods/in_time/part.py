"""What a model of time says beyond low rank, in the orientation of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ..._typing import override
from ...evidence.alarms import listing
from ...fit import Fit, Forecast, Kept, Part, block_of
from ...observations.base import Observations, Sample
from ...weights import Array
from .clock import Clock
from .forecast import forecast
from .gaps import gaps_of
from .plan import Estimate, Plan
from .stack import kind_of
from .trials import WITHOUT_TIME
from .windows import in_windows

Axis = Literal["columns", "rows"]


def lying(x: Array, axis: Axis) -> Array:
    """A table whose times are on this axis as sensors x times, or back."""
    return x if axis == "columns" else x.T


class Timing(NamedTuple):
    """Where time is in a table, and how the table is filled in."""

    axis: Axis
    clock: Clock
    plan: Plan
    width: int  # of windows, in cells
    faulty: Array | None = None  # entries that are no data, in the orientation of these

    def sensors(self, x: Array) -> Array:
        """As sensors x times, or back."""
        return lying(x, self.axis)

    def grid_of(self, obs: Observations) -> Array:
        """The data as sensors x cells of time."""
        Y = whole(obs)
        if self.faulty is not None:
            Y = np.where(self.faulty, np.nan, Y).astype(Y.dtype)
        return self.clock.on_grid(self.sensors(Y))


@dataclass(frozen=True, eq=False, kw_only=True)
class InTime(Kept):
    """Estimates of all entries, and the model that made them."""

    timing: Timing
    # what the fit without time has beyond low rank: lines that come without their time need it
    without_time: tuple[Part, ...] = ()

    def kinds(self, obs: Observations) -> Array:
        """Of places: how far the nearest entry is, and how long the gap."""
        timing = self.timing
        found = kind_of(~np.isnan(timing.grid_of(obs)))
        return timing.sensors(timing.clock.off_grid(found))

    def gaps(self, some: Sample) -> Array:
        """The gap that each of these entries is in: a run in time of a sensor, or of several at the
        same times."""
        timing = self.timing
        held = np.zeros(self.values.shape, bool)
        held[some.rows, some.cols] = True
        found = np.zeros(held.shape, np.int64)
        timing.sensors(found)[timing.sensors(held)] = gaps_of(timing.sensors(held))
        return found[some.rows, some.cols]

    @override
    def forecast(self, obs: Observations, steps: int, level: float) -> Forecast:
        timing = self.timing
        found = forecast(timing.grid_of(obs), timing.plan, timing.width, steps, level)
        return Forecast(*(timing.sensors(x) for x in found))


class Cleaned(NamedTuple):
    """A part in time that gives no gross errors back, and what its residuals say of the data."""

    part: InTime
    noise: float  # the standard deviation of good entries around what the others tell of them
    gross: float  # the share of gross errors


def without_gross(part: InTime, obs: Observations) -> Cleaned:
    """The same; entries that were seen are estimated as the others tell them, as far as they may be
    gross errors."""
    fit = Fit(part.X, (part,))
    listed, values = listing(obs, fit), part.values.copy()
    others = estimates_of(part).others
    good = squares = 0.0
    for some in fit.residuals(obs):
        gross = np.nan_to_num(listed.outlying(some))
        at = some.rows, some.cols
        values[at] += gross.astype(values.dtype) * (others[at] - values[at])
        good += float((1 - gross).sum())
        squares += float(((1 - gross) * some.values.astype(np.float64) ** 2).sum())
    return Cleaned(
        replace(part, values=values),
        noise=float(np.sqrt(squares / max(good, 1.0))),
        gross=1 - good / max(obs.n_observed, 1),
    )


def estimates_of(part: InTime) -> Estimate:
    """In the orientation of the data."""
    assert part.others is not None  # files alone may lack it
    return Estimate(part.values, part.others)


def whole(obs: Observations) -> Array:
    """All entries in single precision, NaN where nothing was seen."""
    return obs.grid(*map(np.arange, obs.shape)).astype(np.float32, copy=False)


def filled(obs: Observations, fit: Fit, timing: Timing) -> InTime:
    """The part in time of a fit to these data, which was made without time."""
    other = None
    if WITHOUT_TIME in timing.plan.used:
        X = fit.X.L @ fit.X.R.T + block_of(fit.beyond, *map(np.arange, obs.shape))
        other = timing.clock.on_grid(timing.sensors(X.astype(np.float32)))
    found = in_windows(timing.grid_of(obs), timing.plan, other, timing.width)
    values, others = (timing.sensors(timing.clock.off_grid(x)) for x in found)
    return InTime(
        fit.X,
        values,
        timing.axis,
        others,
        timing=timing,
        without_time=fit.beyond,
    )

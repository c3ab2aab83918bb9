"""The end of a table in time: new steps are filled in by the plan that was learned, without learning
again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...linalg import Factors
from ...observations.base import Observations
from ...weights import Array
from .part import InTime, estimates_of
from .plan import Estimate, Plan, carried_out, for_all_sensors


class Stream(NamedTuple):
    """A window of the last steps, sensors x steps; its first one begins a period."""

    plan: Plan
    width: int  # steps that the plan's models have room for
    seen: Array  # NaN where missing
    without_time: Array  # what a fit without time says of these steps
    estimate: Estimate

    def followed(self, new: Array, without_time: Array) -> tuple[Stream, Estimate]:
        """With new steps after the last, and the estimates of these. The oldest periods are
        forgotten; what they taught is in the plan."""
        stream, found = self, []
        for part in self._parts(new.shape[1]):
            stream = stream._moved(new[:, part], without_time[:, part])
            new_ones = slice(part.start - part.stop, None)
            found.append([x[:, new_ones] for x in stream.estimate])
        return stream, Estimate(*map(np.hstack, zip(*found, strict=True)))

    def _parts(self, n: int) -> Iterator[slice]:
        """New steps, no more at a time than half a window has."""
        most = max(self.width // 2, 1)
        for k in range(0, n, most):
            yield slice(k, min(k + most, n))

    def _moved(self, new: Array, without_time: Array) -> Stream:
        seen = np.hstack([self.seen, new.astype(self.seen.dtype)])
        other = np.hstack([self.without_time, without_time.astype(self.seen.dtype)])
        gone = _whole_periods(seen.shape[1] - self.width, self.plan.period)
        seen, other = seen[:, gone:], other[:, gone:]
        n = seen.shape[1]
        room = (0, 0), (0, self.width - n)
        found = carried_out(
            np.pad(seen, room, constant_values=np.nan),
            self.plan,
            np.pad(other, room, mode="edge"),
            moved=True,
        )
        found = Estimate(*(x[:, :n] for x in found))
        return Stream(self.plan, self.width, seen, other, found)


def _whole_periods(steps: int, period: int | None) -> int:
    """The least number of whole periods that has so many steps; 0 for none."""
    P = period or 1
    return max(-(-steps // P), 0) * P


def stream_of(part: InTime, obs: Observations, X: Factors) -> Stream | None:
    """The end of a table that was solved; None if its times are not even steps."""
    timing = part.timing
    if not timing.clock.is_plain:
        return None
    gone = _whole_periods(timing.clock.n - timing.width, timing.plan.period)
    end = slice(gone, None)
    Y = timing.grid_of(obs)
    return Stream(
        for_all_sensors(timing.plan, Y),
        timing.width,
        Y[:, end],
        timing.sensors(X.L @ X.R.T)[:, end].astype(np.float32),
        Estimate(*(timing.sensors(x)[:, end] for x in estimates_of(part))),
    )

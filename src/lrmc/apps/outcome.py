"""Whether the fit inside an application can be believed. Every application fits through here.

A fit that diverged is an error, so that nothing is written of it. What else was wrong is warned
about, and kept in an `Outcome` for the report and for the exit code. Values that the sensor could
not have shown are clipped and counted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._loop import blown_up
from .._progress import FitFailed, Progress, Tell, silent
from .._work import SOUND, Outcome
from ..formats.sparse import Matrix
from ..linalg import Factors, norm, power_of_4
from ..methods.decide import decide
from ..methods.default import FITS, Wishes, noisy
from ..methods.noisy import Noise
from ..methods.step import Step
from ..observations.base import Observations
from ..result import Result, Status
from ..solve import ConvergenceWarning, solve
from ..weights import Array

WIDENED = 0.5  # of the observed range: what may lie beyond it, on either side
# of the largest value: of data that hardly vary, a rounded model is not far off
LEAST_SPAN = 0.01
FAR = 10.0  # times the observed range: farther off is no picture
FEW_FAR = 1e-3  # the share of values that may be so: some pixels, but not a fit
LEFT_OUT = "it was left out, and everything decided on these data alone"
# The warning about rows and columns that applications fill in themselves.
UNSEEN = ".*no observation.*"


class Told:
    """What every answer of an application has: how its fit ended."""

    outcome: Outcome

    @property
    def status(self) -> Status:
        """How the fit ended."""
        return self.outcome.status

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with it, a sentence each."""
        return self.outcome.warnings


def solved(
    Y: Matrix,
    rank: int | None,
    *,
    what: str,
    usual: str | None = None,
    **options: Any,
) -> tuple[Result, Outcome]:
    """`lrmc.solve`, and how it ended; `what` names the data in an error. A schedule that the data
    show not to fit is left out: with a warning, unless it is the `usual` one of an application, which
    tells it by `schedule_used`.

    Warnings about rows and columns without an observation are left to the caller, who knows what
    these are.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", message=UNSEEN)
        asked = options if usual is None else {**options, "schedule": usual}
        result = solve(Y, rank, time=None, **asked)
    if not result.evidence.get(FITS, True):
        plain = {name: x for name, x in options.items() if name != "schedule"}
        again, outcome = solved(Y, rank, what=what, **plain)
        if usual is not None:
            return again, outcome
        why = result.warnings[0].partition(";")[0]
        return again, outcome.warned(f"{what}: {why}; {LEFT_OUT}")
    if result.status is Status.DIVERGED:
        raise diverged(what)
    outcome = Outcome(status=result.status)
    for one in caught:
        outcome = outcome.warned(
            f"{what}: {one.message}",
            result.status if _about_status(one.category) else None,
        )
    return result, outcome


def schedule_used(result: Result) -> bool:
    """Whether a schedule that was learned on other data was, and fits."""
    return bool(result.evidence.get(FITS, False))


def _about_status(category: type[Warning]) -> bool:
    return issubclass(category, ConvergenceWarning)


def run_to_end(
    obs: Observations,
    steps: Iterator[Step],
    what: str,
    *,
    counted: bool = True,
) -> tuple[Factors, Outcome]:
    """The last factors of a method, and how it ended; `what` as for `solved`. It diverges as
    `solve` understands it, and is undetermined with more unknowns than values, if they are counted.
    """
    first, last, doubts = math.inf, None, list[str]()
    # Numbers that overflow are noticed here.
    with np.errstate(over="ignore", invalid="ignore"):
        for step in _and_doubts(steps, doubts):
            size = norm(Factors(step.L, step.R))
            first = min(first, size) if last is None else first
            if blown_up(size, first):
                raise diverged(what)
            last = step
    if last is None:
        raise diverged(what)
    rank = last.L.shape[1]
    lines = sum(
        int(np.count_nonzero(seen)) for seen in (obs.row_observed, obs.col_observed)
    )
    outcome, unknowns = SOUND, rank * (lines - rank)
    if counted and obs.n_observed < unknowns:
        text = (
            f"{what}: {obs.n_observed} values are observed, and rank {rank} has"
            f" {unknowns} unknowns: not determined"
        )
        outcome = outcome.warned(
            f"{text}; give a smaller rank, or more data", Status.UNDETERMINED
        )
    for text in doubts:
        outcome = outcome.warned(f"{what}: {text}")
    return Factors(last.L, last.R), outcome


def _and_doubts(steps: Iterator[Step], doubts: list[str]) -> Iterator[Step]:
    """The steps of a method; what it has to say at its end is added to `doubts`."""
    found = yield from steps  # type: ignore[func-returns-value]
    doubts.extend(getattr(found, "doubts", ()))


def told(steps: Iterator[Step], tell: Tell, stage: str) -> Iterator[Step]:
    """The same steps, and a word about each of them."""
    done = 0
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        done += 1
        tell(Progress(stage, done, unit="steps"))
        yield step


def noisy_fit(
    obs: Observations,
    rank: int | None,
    noise: Noise,
    seed: int,
    what: str,
    tell: Tell = silent,
) -> tuple[Factors, Outcome]:
    """The low rank of data that a sensor gave: they have noise, and a fit that meets them exactly
    interpolates it.
    """
    unit = power_of_4(obs.scale)
    scaled = obs.scaled(1 / unit)
    decided = decide(
        scaled, rank, noise=noise, loss=noise.loss, neighbors=False, seed=seed
    )
    # Low rank alone: means of rows and columns, blended in, would follow what covers most of one.
    wishes = Wishes(plan=replace(decided.plan, blends=()))
    steps = noisy(scaled, rank, noise, wishes, seed)
    watched = told(steps, tell, f"learning {what}")
    # A rank that was found is one that predicts entries set aside.
    X, outcome = run_to_end(obs, watched, what, counted=rank is not None)
    root = obs.dtype.type(math.sqrt(unit))
    return Factors(X.L * root, X.R * root), outcome


def diverged(what: str) -> FitFailed:
    """What is raised then; `what` as for `solved`."""
    return FitFailed(
        f"{what}: the fit diverged, so there is nothing to write; a smaller rank may"
        " help, or data with fewer gaps"
    )


@dataclass(frozen=True, eq=False)
class Limits:
    """What the sensor could have shown: the range that was observed, and half as much on either
    side.
    """

    # Of what was observed: a number, or one for each band in the shape that fits the model.
    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array) -> Limits:
        """The range of all values that are not NaN."""
        return cls(
            np.nanmin(values).astype(np.float64), np.nanmax(values).astype(np.float64)
        )

    def held(self, model: Array, what: str) -> tuple[Array, int]:
        """The model within the limits, and how many of its values were not."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        span = np.maximum(self.high - self.low, LEAST_SPAN * size)
        least, most = self.low - WIDENED * span, self.high + WIDENED * span
        within = model.size and model.min() >= least.max() and model.max() <= most.min()
        if within:
            return model, 0  # as mostly, without room of the model's size
        outside = ~((model >= least) & (model <= most))  # NaN is outside, too
        count = int(np.count_nonzero(outside))
        if not count:
            return model, 0
        far = ~((model >= self.low - FAR * span) & (model <= self.high + FAR * span))
        if not np.isfinite(model).all() or np.mean(far) > FEW_FAR:
            raise FitFailed(
                f"{what}: the fit lies far outside what was observed, {_range(self)},"
                " so there is nothing to write;"
                " a smaller rank may help"
            )
        return np.clip(model, least, most).astype(model.dtype, copy=False), count


def shown(model: Array, low: float, high: float = math.inf) -> tuple[Array, int]:
    """The model within what a sensor can show, in place, and how many values were not: far outside
    is something else. NaN stays.
    """
    if np.nanmin(model) >= low and np.nanmax(model) <= high:
        return model, 0
    outside = int(np.count_nonzero((model < low) | (model > high)))
    return np.clip(model, low, high, out=model), outside


def share_clipped(clipped: int, total: int) -> str:
    """How many values of a model were not shown as they were, in words."""
    return f"{clipped} values ({clipped / max(total, 1):.2%}) that no sensor shows"


def _range(limits: Limits) -> str:
    return f"{np.min(limits.low):.6g} to {np.max(limits.high):.6g}"


def after_clipping(
    outcome: Outcome,
    clipped: int,
    total: int,
    limits: Limits,
) -> Outcome:
    """The outcome, with a word about values that were clipped."""
    if not clipped:
        return outcome
    text = (
        f"{clipped} values of the model ({clipped / max(total, 1):.2%}) lay far outside"
        " what was observed"
    )
    return outcome.warned(f"{text}, {_range(limits)}, and were clipped")

"""A result without what sensors said while they failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ...fit import Fit, block_of
from ...observations._door import as_observations
from ...observations.base import Observations
from ...observations.heldout import Submatrix
from ...result import Result
from ...weights import Array
from .clock import Clock
from .faults import faulty
from .gaps import runs
from .part import Axis, lying

MANY = 0.01  # of the entries: so many faulty ones are worth a warning


class Sound(NamedTuple):
    """The result of a table without faulty stretches, and the table."""

    result: Result
    Y: Array  # sensors x cells of time
    faulty: Array | None = (
        None  # which entries these are, n1 x n2; None where there are none
    )


def without_faults(
    result: Result,
    Y: Array,
    clock: Clock,
    axis: Axis,
    seed: int,
    *,
    again: bool,
) -> Sound:
    """The fit without time of what is no fault of a sensor (Y: sensors x cells of time); made `again`,
    or, of a long table, as it is."""
    fits: list[tuple[Fit, int]] = []  # and how many entries were suspected

    def asked_again(rest: Array) -> Array:
        suspected = lying(clock.off_grid(np.isnan(rest) & ~np.isnan(Y)), axis)
        obs = left_without(result.observations, suspected)
        assert result.refit is not None
        fit = result.refit(Submatrix(obs, *map(np.arange, obs.shape)), seed)
        fits.append((fit, int(suspected.sum())))
        return clock.on_grid(lying(whole_fit(fit), axis).astype(Y.dtype))

    low_rank = partial(_of_sensor, result, clock, axis)
    found = faulty(Y, low_rank, asked_again if again else None)
    if found is None:
        return Sound(result, Y)
    wrong = lying(clock.off_grid(found), axis)
    obs = left_without(result.observations, wrong)
    result = replace(result, observations=obs)
    # of a few that are faulty, low rank knows by itself; the others would be missed
    for fit in (fit for fit, suspected in fits if 2 * wrong.sum() > suspected):
        result = replace(result, L=fit.X.L, R=fit.X.R, beyond=fit.beyond)
    return Sound(result, np.where(found, np.nan, Y).astype(Y.dtype), wrong)


def _of_sensor(result: Result, clock: Clock, axis: Axis, s: int) -> Array:
    """What low rank says of a sensor, by cells of time."""
    L, R = result.factors()
    x = R @ L[s] if axis == "columns" else L @ R[s]
    return clock.on_grid(x[None])[0]


def whole_fit(fit: Fit) -> Array:
    """What a fit says of every entry."""
    shape = len(fit.X.L), len(fit.X.R)
    return np.asarray(
        fit.X.L @ fit.X.R.T + block_of(fit.beyond, *map(np.arange, shape))
    )


def left_without(obs: Observations | None, wrong: Array | None) -> Observations:
    """Data without these entries."""
    assert obs is not None  # a run has its data
    if wrong is None:
        return obs
    Y = obs.grid(*map(np.arange, obs.shape))
    return as_observations(np.where(wrong, np.nan, Y), threads=obs.threads)


def many_faults(wrong: Array | None, axis: Axis, n_observed: int) -> Iterator[str]:
    """A word where many entries are left out."""
    if wrong is None or wrong.sum() <= MANY * n_observed:
        return
    sensors, _, lengths = runs(lying(wrong, axis))
    yield (
        f"time: {lengths.sum()} entries of {len(np.unique(sensors))} sensors, in stretches that are stuck"
        " at a value or off as a whole from what other sensors say, are taken for faults and left out;"
        " the list of outliers has them"
    )

"""How sure cleaned pictures are: which pixels were guessed, and how far off each may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...evidence.calibration import NotCalibrated, calibrate, fitted_again
from ...fit import Fit
from ...linalg import Factors
from ...observations._door import as_observations
from ...observations.base import Observations, row_blocks
from ...result import Result
from ...weights import Array

# of pixels x pictures, without some of which the fit is made again, five times
CELLS = 60_000
# standard deviations: what differs from the other pictures by more is not noise (one in 370 is)
BEYOND = 3.0
# Pixels of which one tells the noise, along a line of a picture, and the fewest for that: a pixel's
# own noise is known from as many values as there are pictures, no better than its neighbour's (14 %).
EVERY, FEW = 6, 10_000
HALF_STEP = 0.5  # of whole numbers: what is closer was rounded
# Of errors that are set aside, what deviations are made for; and so many of them, as of Gaussian
# ones. Errors have long tails: bands from their middle (68 %) would hold 77 to 82 % instead of 90.
LEVEL, NORMAL = 0.9, 1.645
TINY = 1e-300  # pictures may be exact
MIDDLE = 0.6826895  # of errors that are not gross, within one standard deviation of the noise


class Doubt(NamedTuple):
    """Of pixels x pictures."""

    # whether a value comes from other pictures alone: its own is missing, or was not believed
    guessed: Array
    deviation: (
        Array | None
    )  # around the fit, of what would be seen there; None: not known
    why: str = ""  # it is not known


def doubt_of(result: Result, model: Array, values: Array, seen: Array) -> Doubt:
    """How sure a fit to these values is, where they are seen."""
    size = np.abs(np.where(seen, values - model, np.inf))
    least = HALF_STEP if values.dtype.kind in "iu" else 0.0
    try:
        deviation, noise = _deviation(result)
    except NotCalibrated as reason:
        noise = max(float(np.nan_to_num(result.noise_level)), least)
        return Doubt(size > BEYOND * noise, None, str(reason))
    deviation = np.maximum(deviation, np.float32(least))
    return Doubt(size > BEYOND * np.maximum(noise * deviation, least), deviation)


def _deviation(result: Result) -> tuple[Array, float]:
    """The standard deviation of all entries, from fits to some of the pixels: there are thousands
    of one kind. Every so many pixels tell for those after them, too. And what part of it is noise:
    what is gross left out.
    """
    obs, refit = result.observations, result.refit
    assert obs is not None
    assert refit is not None  # they were fitted just now
    sets = fitted_again(obs, refit, result.rank, cells=CELLS)
    plain = obs.groups is None and not result.fit.beyond
    step = EVERY if plain and obs.shape[0] > FEW else 1
    some = np.arange(0, obs.shape[0], step)
    part, fit = _part(obs, result.fit, some)
    known = calibrate(part, fit, sets)
    level = known.quantile(LEVEL, "observation") * max(known.gaps.harder, 1.0) / NORMAL
    deviation = np.empty(part.shape, np.float32)
    for rows in row_blocks(*part.shape):
        block = np.meshgrid(
            np.arange(rows.start, rows.stop),
            np.arange(obs.shape[1]),
            indexing="ij",
        )
        deviation[rows] = level * known.scales.at(*block)
    whole = deviation.repeat(step, axis=0)[: obs.shape[0]]
    return whole, known.quantile(MIDDLE) / max(level, TINY)


def simple_deviation(values: Array, seen: Array) -> float:
    """That of the median picture, as bright as each picture is: what low rank must do better than;
    at least half of one of 256 grey levels. Of pixels x pictures, from every so many pixels.
    """
    known = np.where(seen[::EVERY], values[::EVERY].astype(np.float64), np.nan)
    known = known[np.isfinite(known).any(axis=1)]
    usual = np.nanmedian(known, axis=1, keepdims=True)
    here = np.where(np.isfinite(known), usual, 0.0)
    levels = np.nansum(known * here, axis=0) / np.maximum(np.sum(here**2, axis=0), TINY)
    off = np.abs(known - levels * usual)
    rounded = float(np.nanmax(known) - np.nanmin(known)) * HALF_STEP / 256
    return max(float(np.nanquantile(off, LEVEL)) / NORMAL, rounded)


def _part(obs: Observations, fit: Fit, rows: Array) -> tuple[Observations, Fit]:
    """Some rows of data and of a fit to them, which is nothing but low rank unless all are asked
    for.
    """
    if len(rows) == obs.shape[0]:
        return obs, fit
    cols = np.arange(obs.shape[1])
    values = obs.lookup(*(x.ravel() for x in np.meshgrid(rows, cols, indexing="ij")))
    part = as_observations(values.reshape(len(rows), -1))
    return part, Fit(Factors(fit.X.L[rows], fit.X.R))

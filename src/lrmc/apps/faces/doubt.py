"""How sure cleaned pictures are: which pixels were guessed, and how far off each may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...evidence.calibration import NotCalibrated, calibrate, fitted_again
from ...observations.base import row_blocks
from ...result import Result
from ...weights import Array

# of pixels x pictures, without some of which the fit is made again, five times
CELLS = 60_000
# standard deviations: what differs from the other pictures by more is not noise (one in 370 is)
BEYOND = 3.0
HALF_STEP = 0.5  # of whole numbers: what is closer was rounded


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
        deviation = _deviation(result)
    except NotCalibrated as reason:
        noise = max(float(np.nan_to_num(result.noise_level)), least)
        return Doubt(size > BEYOND * noise, None, str(reason))
    deviation = np.maximum(deviation, np.float32(least))
    return Doubt(size > BEYOND * deviation, deviation)


def _deviation(result: Result) -> Array:
    """As `Result.standard_error` of all entries, from fits to some of the pixels: there are
    thousands of one kind.
    """
    obs, refit = result.observations, result.refit
    assert obs is not None
    assert refit is not None  # they were fitted just now
    sets = fitted_again(obs, refit, result.rank, cells=CELLS)
    known = calibrate(obs, result.fit, sets)
    deviation = np.empty(obs.shape, np.float32)
    for rows in row_blocks(*obs.shape):
        block = np.meshgrid(
            np.arange(rows.start, rows.stop),
            np.arange(obs.shape[1]),
            indexing="ij",
        )
        deviation[rows] = known.deviation(*block)
    return deviation

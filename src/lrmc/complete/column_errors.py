"""How well the columns of a table are filled in: errors on known entries that are hidden from one
more fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..evidence.calibration import part_for
from ..observations.base import Sample
from ..observations.heldout import can_hold_out, set_aside
from ..observations.medians import medians_of_lines
from ..result import Result
from ..units import Units
from ..weights import Array

HIDDEN = 0.1  # of the entries: the fit to the rest is nearly as good as one to all


class ColumnErrors(NamedTuple):
    """Mean absolute errors of each column, in its units; NaN where nothing was hidden."""

    n_hidden: int
    model: Array
    median: Array


def column_errors(result: Result, units: Units | None) -> ColumnErrors | None:
    """Errors on a tenth of the entries, without those that are listed as outliers; None where there
    are too few entries to hide some, or the run did not converge.
    """
    obs, refit = result.observations, result.refit
    if obs is None or refit is None or not result.converged or not can_hold_out(obs):
        return None
    part = part_for(refit, obs)
    rest, hidden = set_aside(part.obs, HIDDEN)
    fit = refit(part._replace(obs=rest), 0)
    rows, cols = part.rows[hidden.rows], part.cols[hidden.cols]
    residual = hidden.values - result.fit.at(rows, cols)
    good = ~result.listing().beyond(Sample(rows, cols, residual))
    medians = medians_of_lines(rest, 1)[hidden.cols]
    models = fit.at(hidden.rows, hidden.cols), medians
    spread = np.ones(obs.shape[1]) if units is None else units.spread
    errors = (np.abs(hidden.values - x)[good] for x in models)
    means = (spread * _means(x, cols[good], obs.shape[1]) for x in errors)
    return ColumnErrors(int(good.sum()), *means)


def _means(errors: Array, cols: Array, n: int) -> Array:
    """Of each column; NaN without any."""
    sums = np.bincount(cols, errors, minlength=n)
    counts = np.bincount(cols, minlength=n)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

"""One pass over the observed entries of a result: where they are, which stand out, and which stand
out most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..evidence.alarms import Alarms, Listing
from ..fit import Fit
from ..observations.base import Observations
from ..weights import Array

CELLS = 400  # rows and columns of a map, at most


Entries = tuple[Array, Array, Array]  # rows, columns, and how far off they are


class Survey(NamedTuple):
    """Shares per cell of the map, and the entries that are farthest from the model, the worst
    first.
    """

    step: tuple[int, int]  # rows and columns of a cell; the last ones may have fewer
    observed: Array  # (height, width): of all places of a cell
    outliers: Array  # (height, width): of its observed entries; 0 where there is none
    threshold: float  # typically: it follows the noise of rows and columns
    n_outliers: int
    alarms: Alarms  # how many of them are expected to be none
    rows: Array
    cols: Array
    differences: Array  # observed - expected


def survey(obs: Observations, fit: Fit, listed: Listing, worst: int = 100) -> Survey:
    """Look at every observed entry once, in blocks. Nothing of the size of the matrix is made."""
    down, across = (-(-n // CELLS) for n in obs.shape)
    step = (down, across)
    height, width = (-(-n // size) for n, size in zip(obs.shape, step))
    seen = np.zeros(height * width, np.int64)
    beyond = np.zeros(height * width, np.int64)
    top = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    for some in fit.residuals(obs):
        rows, cols, residual = some
        cell = (rows // down) * width + cols // across
        large = np.flatnonzero(listed.beyond(some))
        seen += np.bincount(cell, minlength=len(seen))
        beyond += np.bincount(cell[large], minlength=len(seen))
        found = (rows[large], cols[large], residual[large].astype(np.float64))
        top = _worst(top, found, worst)
    n1, n2 = obs.shape
    places = np.outer(
        np.bincount(np.arange(n1) // down), np.bincount(np.arange(n2) // across)
    )
    rows, cols, differences = top
    return Survey(
        step,
        observed=seen.reshape(height, width) / places,
        outliers=(beyond / np.maximum(seen, 1)).reshape(height, width),
        threshold=listed.threshold * float(np.median(listed.typical)),
        n_outliers=int(beyond.sum()),
        alarms=listed.alarms(int(beyond.sum()), obs.n_observed),
        rows=rows,
        cols=cols,
        differences=differences,
    )


def _worst(old: Entries, new: Entries, wanted: int) -> Entries:
    """The largest of both, the largest first; of equals, the one that came first."""
    rows, cols, residual = (np.concatenate(pair) for pair in zip(old, new))
    size = np.abs(residual)
    if len(size) > wanted:  # not all need sorting
        border = (
            np.partition(size, len(size) - wanted)[len(size) - wanted]
            if wanted
            else np.inf
        )
        near = np.flatnonzero(size >= border)
        rows, cols, residual, size = rows[near], cols[near], residual[near], size[near]
    order = np.argsort(-size, kind="stable")[:wanted]
    return rows[order], cols[order], residual[order]

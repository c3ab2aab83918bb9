"""Outliers that are none: from where on entries are listed, and how many of the list are expected
to be good.

Good residuals and gross errors are told apart by their sizes alone (`tails`), from a sample of the
observed entries: it takes no pass over the data, and no other fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..weights import Array
from .tails import Tails, fit_tails

FALSE = 0.03  # of a list may be good entries, by expectation
HALF = 0.5  # an entry: so much is allowed of any list, also of one of none
STEPS = 400  # thresholds that are tried, evenly in their logarithms
TALLER = 1e6  # times the largest residual of a sample: the highest of them


class Alarms(NamedTuple):
    """What lies beyond a threshold, and what lies below."""

    found: int  # entries beyond it
    false: float  # of these, expected to be good
    missed: float  # gross errors that are expected below it

    @property
    def rate(self) -> float:
        """The expected share of good entries among those found; 0 where nothing is."""
        return self.false / max(self.found, 1)


class Listing(NamedTuple):
    """From where on entries are listed as outliers."""

    threshold: float
    tails: Tails | None = None  # None for exact data: nothing good is listed

    def alarms(self, found: int, n_observed: int, threshold: float) -> Alarms:
        """What is to be expected of so many entries beyond a threshold."""
        if self.tails is None:
            return Alarms(found, 0.0, 0.0)
        false = min(float(found), n_observed * _good(self.tails, threshold))
        return Alarms(found, false, n_observed * self.tails.gross_within(threshold))


def listing(residual: Array, n_observed: int) -> Listing:
    """Where a list of outliers begins that has few good entries, from the residuals of a sample.

    The lowest threshold beyond which no more than FALSE of what is found is expected to be good, or
    half an entry of all data.
    """
    size = np.sort(np.abs(residual).astype(np.float64))
    if not len(size) or size[-1] == 0:
        return Listing(0.0)
    tails = fit_tails(np.random.default_rng(0).permutation(size), np.ones(len(size)))
    low = max(float(np.median(size)), 1e-9 * float(size[-1]))
    found_from = np.geomspace(low, TALLER * size[-1], STEPS)
    share = 1 - np.searchsorted(size, found_from, side="right") / len(size)
    false = n_observed * np.array([_good(tails, t) for t in found_from])
    few = false <= np.maximum(FALSE * n_observed * share, HALF)
    return Listing(float(found_from[np.argmax(few)] if few.any() else np.inf), tails)


def _good(tails: Tails, threshold: float) -> float:
    """The share of entries that are good, and beyond the threshold."""
    return float(tails.good_beyond(threshold, np.ones(1))[0])

"""Outliers that are none: from where on observed entries are listed, and how many of the list are
expected to be good.

Good residuals and gross errors are told apart by their sizes in units of the noise of their rows
and columns (`tails`, and `reach` for those far out), in a sample of the observed entries: no other
fit is needed. How far good ones go on falling is an extrapolation, and of few entries a poor one
(from a tenth to ten times what is there, on small tables). So the number comes with another that
assumes hardly anything: beyond a threshold are no more good residuals than within the last step
before it, unless they fall more slowly than those with a variance do.

Residuals of a fit that has seen the entries say too little where it can meet most of them, as in
narrow tables: errors at entries that were hidden say how far off good ones may be, and nothing is
listed that is no farther off than these.

In a line where one value stands in most places, what is rare may be an event as well as an error:
nothing is listed there."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._scipy import sparse as sp
from ..fit import Fit, block_of
from ..observations.base import DOMINANT, Observations, Sample
from ..weights import Array
from .reach import good_beyond
from .scales import line_noise
from .tails import TELLING, Tails, fit_tails

FALSE = 0.03  # of a list may be good entries, by expectation
# of it where less cannot be had, and times the least that can
AT_WORST, NEARLY = 0.4, 1.25
SOME = 20  # entries: a share of fewer says little
A_TENTH = 0.1  # of an entry: so much is allowed of any list, also of one of none
STEPS = 400  # thresholds that are tried, evenly in their logarithms
EVERYTHING = -1.0  # as a threshold: all residuals are larger
MOST = 0.5  # of the entries of a line: a value that stands in more of them says all there is to say
FEWEST = 8  # entries of a line that tell so
MET = 1e-9  # of the scale of the data: what is missed by less is met
STEP = 1.6  # times: a threshold over the one before it
# of a list are expected to be good: one that FALSE was too strict for, to be looked at and not to be
# put right unseen (on clean tables of four columns all of it was good where half was expected)
DOUBTFUL = 0.2
DEVIATIONS = 2.0  # of a count, by which it may be larger than expected
TALLER = 1e3  # times the largest residual of a sample: the highest of them


LEFT = "many of the entries that stand out may be good ones: they are listed, and none is replaced"


class Alarms(NamedTuple):
    """What lies beyond a threshold, and what lies below."""

    found: int  # entries beyond it
    false: float  # of these, expected to be good
    missed: float  # gross errors that are expected below it
    most: float = 0.0  # of those found, that may be good at most

    @property
    def rate(self) -> float:
        """The expected share of good entries among those found; 0 where nothing is."""
        return self.false / max(self.found, 1)


class Reach(NamedTuple):
    """How many good entries lie beyond borders, in units of the noise."""

    borders: Array
    good: Array  # the share of those that are judged
    found: Array  # the share of all that are beyond
    judged: float = 1.0  # the share of entries that can be listed at all

    def found_beyond(self, border: Array) -> Array:
        """The share of those that are judged which is beyond these borders."""
        return self._at(border, self.found)

    def good_beyond(self, border: Array) -> Array:
        """The share of good entries beyond these borders."""
        return self._at(border, self.good)

    def just_before(self, border: Array) -> Array:
        """The share of entries within the last step before these borders."""
        border = np.asarray(border)
        return self._at(border / STEP, self.found) - self._at(border, self.found)

    def _at(self, border: Array, share: Array) -> Array:
        """Beyond the border 0 are all."""
        at, share = (
            np.concatenate(([first], x))
            for first, x in ((0.0, self.borders), (1.0, share))
        )
        return np.asarray(np.interp(border, at, share))


class Listing(NamedTuple):
    """From where on entries are listed as outliers: beyond threshold rows[i] cols[j]."""

    threshold: float
    rows: Array  # relative noise; infinite where nothing can be listed
    cols: Array
    typical: Array  # scales of some entries
    tails: Tails | None = None  # None for exact data: nothing good is listed
    reach: Reach | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether much of what is listed may be good: then it is told, and nothing is replaced."""
        if self.reach is None or not np.isfinite(self.threshold):
            return False
        border = np.full(1, self.threshold)
        good, found = self.reach.good_beyond(border), self.reach.found_beyond(border)
        return bool(good > DOUBTFUL * found) and bool(found > 0)

    def to_replace(self) -> Listing:
        """What of the list the model may take the place of: all of it, or nothing."""
        return self._replace(threshold=np.inf) if self.is_doubtful else self

    @classmethod
    def even(cls, threshold: float, shape: tuple[int, int]) -> Listing:
        """The same threshold everywhere, beyond which there is nothing good."""
        rows, cols = (np.ones(n) for n in shape)
        return cls(threshold, rows, cols, np.ones(1))

    def scale(self, some: Sample) -> Array:
        """The noise of these entries, beside that of others."""
        return np.asarray(self.rows[some.rows] * self.cols[some.cols])

    def beyond(self, some: Sample, threshold: float | None = None) -> Array:
        """Which residuals are listed; with a threshold, those that are larger."""
        border = self.threshold * self.scale(some) if threshold is None else threshold
        return np.asarray(np.abs(some.values) > border)

    def outlying(self, some: Sample) -> Array:
        """How likely residuals are gross errors; NaN where they are."""
        if self.tails is None:
            listed = self.beyond(some).astype(np.float64)
            return np.where(np.isnan(some.values), np.nan, listed)
        scale = self.scale(some)
        known = np.isfinite(scale)
        chance = self.tails.outlying(some.values, np.where(known, scale, 1.0))
        return np.where(known, chance, np.nan)

    def alarms(
        self,
        found: int,
        n_observed: int,
        threshold: float | None = None,
    ) -> Alarms:
        """What is to be expected of so many entries that were found beyond a threshold."""
        if self.tails is None or self.reach is None:
            return Alarms(found, 0.0, 0.0)
        scale = self.typical
        border = self.threshold * scale if threshold is None else threshold + 0 * scale
        n_judged = self.reach.judged * n_observed
        good = n_judged * float(self.reach.good_beyond(border / scale).mean())
        missed = n_judged * float(self.tails.gross_within(border, scale).mean())
        before = n_judged * float(self.reach.just_before(border / scale).mean())
        many = max(good, before)
        most = many + DEVIATIONS * float(np.sqrt(many + 1))
        return Alarms(found, min(found, good), missed, min(found, most))


def listing(obs: Observations, fit: Fit, missed: Sample | None = None) -> Listing:
    """Where a list of outliers begins that has few good entries. A few passes; `missed` are errors
    at entries that were hidden.
    """
    rows, cols = line_noise(obs, fit)
    some = obs.sample
    for noise, lines in ((rows, some.rows), (cols, some.cols)):
        noise[dominated(lines, some.values, len(noise))] = np.inf
    n_sampled, some = len(some.values), _told_by(obs, fit)
    scale = rows[some.rows] * cols[some.cols]
    judged = np.isfinite(scale)
    if not judged.any():
        return Listing(np.inf, rows, cols, np.ones(1))
    share = float(judged.sum()) / n_sampled
    residual, scale = fit.residual(some)[judged], scale[judged]
    n_judged = round(share * obs.n_observed)
    border = border_of(residual, scale, n_judged)
    if missed is not None and obs.groups is None and np.isfinite(border.threshold):
        first = Listing(border.threshold, rows, cols, scale)
        border = raised(border, good_errors(obs, fit, missed, first), n_judged)
    reach = border.reach and border.reach._replace(judged=share)
    return Listing(border.threshold, rows, cols, scale, border.tails, reach)


def _told_by(obs: Observations, fit: Fit) -> Sample:
    """The entries that say how large good residuals are: all of them, where nearly all are met."""
    near = np.quantile(np.abs(fit.residual(obs.sample)), DOMINANT)
    return obs.sample if near < MET * obs.scale else obs.telling


def good_errors(
    obs: Observations,
    fit: Fit,
    missed: Sample,
    first: Listing,
) -> Array:
    """The sizes of errors at hidden entries, in units of the noise, without those that a first list
    has, and without those that share a short line with one: gross errors among the few others of a
    line make hidden entries of it look worse than entries that were seen.
    """
    around = _around(obs, missed)
    listed = first.beyond(around._replace(values=fit.residual(around)))
    short = 0 if obs.shape[0] >= obs.shape[1] else 1
    beside = np.bincount(around[short][listed], minlength=obs.shape[short])
    scale = first.scale(missed)
    good = (beside[missed[short]] == 0) & np.isfinite(scale)
    return np.abs(missed.values[good] / scale[good])


def _around(obs: Observations, missed: Sample) -> Sample:
    """All observed entries in the rows and columns that hidden ones are in."""
    rows, cols = np.unique(missed.rows), np.unique(missed.cols)
    Y = obs.grid(rows, cols)
    at, to = np.nonzero(~np.isnan(Y))
    return Sample(rows[at], cols[to], Y[at, to])


def raised(border: Border, errors: Array, n_observed: int) -> Border:
    """A threshold beyond which hidden entries, too, are hardly missed by their size: in narrow
    tables a fit nearly meets most entries of a row, and leaves what does not fit to one of them.
    """
    if border.reach is None or border.tails is None or len(errors) < SOME:
        return border
    # some of them are gross errors that no list has, or beside such: a single one must not decide
    kept = np.sort(errors)[: len(errors) - math.ceil(FALSE * len(errors))]
    far = np.searchsorted(kept, border.reach.borders, side="right")
    hidden = 1 - far / len(kept)
    reach = border.reach._replace(good=np.maximum(border.reach.good, hidden))
    return Border(lowest(reach, border.tails, n_observed), border.tails, reach)


def dominated(lines: Array, values: Array, count: int) -> Array:
    """In which of so many lines one value stands in most of the places: lines of entries, and
    their values.
    """
    order = np.lexsort((values, lines))
    lines, values = lines[order], values[order]
    new = np.ones(len(lines), bool)
    new[1:] = (np.diff(lines) != 0) | (np.diff(values) != 0)
    runs = np.diff(np.append(np.flatnonzero(new), len(lines)))
    most = np.zeros(count, np.int64)
    np.maximum.at(most, lines[new], runs)
    seen = np.bincount(lines, minlength=count)
    return np.asarray((seen >= FEWEST) & (most > MOST * seen))


class Border(NamedTuple):
    """A threshold, in units of the scales, and what tells it."""

    threshold: float
    tails: Tails | None = None
    reach: Reach | None = None


def border_of(residual: Array, scale: Array, n_observed: int) -> Border:
    """The lowest threshold, in units of the scales, that residuals allow; and what tells so."""
    size = np.sort(np.abs(residual).astype(np.float64) / scale)
    if not len(size) or size[-1] == 0:
        return Border(0.0)
    order = np.random.default_rng(0).permutation(len(size))
    tails = fit_tails(residual[order], scale[order])
    low = max(float(np.median(size)), 1e-9 * float(size[-1]))
    found_from = np.geomspace(low, TALLER * size[-1], STEPS)
    found = 1 - np.searchsorted(size, found_from, side="right") / len(size)
    usual = tails.good_beyond(found_from, np.ones(STEPS))
    good = good_beyond(residual, scale, tails, found_from, usual)
    reach = Reach(found_from, good, found)
    return Border(lowest(reach, tails, n_observed), tails, reach)


def lowest(reach: Reach, tails: Tails, n_observed: int) -> float:
    """The lowest threshold, in units of the scales, beyond which no more than FALSE of what is
    found is expected to be good, or a tenth of an entry of all data.

    Where good entries have tails too heavy for that, it is the lowest with nearly the smallest
    share of good ones, if that is not above AT_WORST and there are gross errors for certain.
    """
    found, false = n_observed * reach.found, n_observed * reach.good
    few = false <= np.maximum(FALSE * found, A_TENTH)
    if not np.any(few & (found >= 1)) and tails.share > TELLING:
        share = np.where(found >= SOME, false / np.maximum(found, 1), np.inf)
        least = float(share.min())
        few |= share <= (NEARLY * least if least <= AT_WORST else 0.0)
    return float(reach.borders[np.argmax(few)] if few.any() else np.inf)


def standing_out(obs: Observations, fit: Fit, listed: Listing) -> Any:
    """The residuals that are listed, 0 elsewhere on the observed entries, in the form of the data."""
    rows, cols = listed.rows, listed.cols
    if not fit.beyond and np.ptp(rows) == 0 and np.ptp(cols) == 0:
        return obs.outliers(*fit.X, listed.threshold * float(rows[0] * cols[0]))
    least = listed.threshold * float(rows.min()) * float(cols.min())
    # what lies beyond low rank is taken away before sizes are looked at
    S = obs.outliers(*fit.X, EVERYTHING if fit.beyond else least)
    if sp.issparse(S):
        at = S.tocoo()
        some = Sample(at.row, at.col, at.data)
        for part in fit.left_out.beyond:
            some = some._replace(values=some.values - part.at(some.rows, some.cols))
        kept = np.where(listed.beyond(some), some.values, 0).astype(at.data.dtype)
        return sp.csr_array((kept, (at.row, at.col)), shape=S.shape)
    if fit.beyond:
        every = (np.arange(n) for n in obs.shape)
        S = S - block_of(fit.left_out.beyond, *every).astype(obs.dtype)
    if hasattr(S, "new_tensor"):  # of torch
        rows, cols = S.new_tensor(rows), S.new_tensor(cols)
    # a product, not a choice: NaN stay, masks too, and arrays of Dask are not computed
    return S * (abs(S) / rows[:, None] / cols > listed.threshold)

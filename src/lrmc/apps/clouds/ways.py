"""Ways to say what a pixel shows on a date from what the other dates show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .factors import (
    Factored,
    Kinds,
    fitted,
    learned,
    learned_again,
    learned_with,
    left_out,
)
from .seasons import YEAR, Seasons, seasons

RANKS = (1, 2, 3, 5, 8, 12)  # that are tried, as long as errors fall
SPARE = 2  # dates that a rank leaves over
KEPT = 3  # models, at most: the best and those before it
LINE, MEDIAN, HARMONIC, IN_TIME = range(4)
OF_UNSEEN = 4  # ways that can tell of a date that shows no ground: the first ones
SOON = 1e-6  # days, so that two scenes of a day have a line between them


class Ways(NamedTuple):
    """All that is needed to predict the pixels of a block: the line between the clear dates before
    and after, the median, a year's harmonic, the last factor model with an interpolation in time, and
    the factor models. (The nearest clear date, tried as well, hardly ever counted.)
    """

    days: Array  # T
    usual: Array  # bands: what is said where nothing is known
    harmonic: Factored
    models: tuple[Factored, ...]
    seasons: Seasons  # of the last model
    hidden: Array  # T: dates that show no ground

    def __len__(self) -> int:
        return OF_UNSEEN + len(self.models)

    def predictions(self, Y: Array, clear: Array, k: int) -> Array:
        """What way k says of T x bands x n values, each from the others that are clear."""
        only = np.zeros((*Y.shape[:2], len(self)))
        only[..., k] = 1.0
        return self.blended(Y, clear, only)

    def blended(
        self,
        Y: Array,
        clear: Array,
        weights: Array,
        own: bool = False,
    ) -> Array:
        """All ways together, by the T x bands x ways weights they have. With `own`, factor models count
        a clear value itself as well.
        """
        answer = np.zeros(Y.shape)
        for k, way in ((LINE, self._line), (MEDIAN, self._median)):
            if weights[..., k].any():
                answer += weights[..., k, None] * way(Y, clear)
        one, kinds = fitted if own else left_out, Kinds.of(clear)
        for model, R in self._weighed(np.moveaxis(weights, 1, 0)):
            answer += one(Y, kinds, model, R)
        return answer

    def _line(self, Y: Array, clear: Array) -> Array:
        return self._known(line(Y, clear, self.days), clear)

    def _median(self, Y: Array, clear: Array) -> Array:
        return self._known(median_of_others(Y, clear), clear)

    def _known(self, said: Array, clear: Array) -> Array:
        """What is said, and the usual where no other date is clear."""
        alone = clear.sum(0) - clear == 0
        return np.where(alone[:, None], self.usual[:, None], said)

    def _weighed(self, weights: Array) -> Iterator[tuple[Factored, Array]]:
        """The factor models that count, each once, by bands x T x ways weights: what it says is linear in
        the time factors, so that weights of dates, and of two ways that share a model, go into these.
        """
        last = len(self.models) - 1
        if weights[..., HARMONIC].any():
            yield self.harmonic, weights[..., HARMONIC, None] * self.harmonic.R
        for k, model in enumerate(self.models):
            R = weights[..., OF_UNSEEN + k, None] * model.R
            if k == last:
                R = R + weights[..., IN_TIME, None] * self.seasons.expected
            if R.any():
                yield model, R

    def gaps(self, clear: Array) -> Array:
        """T x ways that can tell of unseen dates: how the variance of their errors grows, where
        it hangs on how far other dates are.
        """
        answer = np.ones((len(clear), OF_UNSEEN))
        answer[:, LINE] = bridged(clear, self.days)
        answer[:, IN_TIME] = self.seasons.spread**2
        return answer


class Sought(NamedTuple):
    """Which factor models to learn."""

    ranks: tuple[int, ...]
    least: float  # the smallest noise, a standard deviation
    before: Ways | None = None  # of nearly the same values

    def model(self, Y: Array, clear: Array, rank: int) -> Factored:
        """The one of this rank."""
        for known in () if self.before is None else self.before.models:
            if known.rank == rank:
                return learned_again(Y, clear, known, self.least)
        return learned(Y, clear, rank, self.least)

    def harmonic(self, Y: Array, clear: Array, days: Array) -> Factored:
        """One period a year."""
        if self.before is not None:
            return learned_again(Y, clear, self.before.harmonic, self.least, fixed=True)
        angle = 2 * np.pi * (days - days.min()) / YEAR
        year = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=1)
        return learned_with(Y, clear, year, self.least)


def sought(rank: int | None, least: float, before: Ways | None) -> Sought:
    """Models of all ranks, or of one; of those that were found before, if there are some, and
    larger ones.
    """
    ranks = RANKS if rank is None else (rank,)
    if before is None:
        return Sought(ranks, least)
    lowest = before.models[0].rank
    return Sought(tuple(r for r in ranks if r >= lowest), least, before)


def learned_ways(
    Y: Array,
    clear: Array,
    days: Array,
    hidden: Array,
    sought: Sought,
) -> Ways:
    """The ways of T x bands x n values, T x n of which are clear."""
    bands = np.moveaxis(Y, 1, 0)
    usual = np.array([np.median(one[clear]) if clear.any() else 0.0 for one in bands])
    harmonic = sought.harmonic(Y, clear, days)
    models = _models(Y, clear, sought)
    last = models[-1]
    metric = np.mean(
        last.covariance + last.mean[:, :, None] * last.mean[:, None, :], axis=0
    )
    found = seasons(last.R, days, clear.mean(1), metric, 0.0)
    return Ways(days, usual, harmonic, models, found, hidden)


def _models(Y: Array, clear: Array, sought: Sought) -> tuple[Factored, ...]:
    """Factor models of a rank that still gains, and of those below it."""
    dates = int(np.count_nonzero(clear.any(1)))
    models: list[Factored] = []
    kinds = Kinds.of(clear)
    best = np.inf
    for rank in sought.ranks:
        if models and rank > dates - SPARE:
            break
        model = sought.model(Y, clear, rank)
        error = _relative(left_out(Y, kinds, model, model.R) - Y, clear)
        models.append(model)
        if error > best:
            break
        best = error
    return tuple(models[-KEPT:])


def _relative(error: Array, clear: Array) -> float:
    """The typical error of a date, all of which count alike."""
    sizes = [
        np.log(np.median(np.abs(error[t][:, clear[t]])) + 1e-30)
        for t in np.flatnonzero(clear.any(1))
    ]
    return float(np.mean(sizes))


# ---- simple ways: T x bands x n values, T x n of which are clear; each is left out of its own


def line(Y: Array, clear: Array, days: Array) -> Array:
    """Between the clear dates before and after; the one where there is no other, 0 where there is
    none.
    """
    order = np.argsort(days, kind="stable")
    before, since = _last(Y, clear, days, order)
    after, until = _last(Y, clear, days, order[::-1])
    gap = np.maximum(until - since, SOON)
    share = ((days[:, None] - since) / gap)[:, None]
    between = (1 - share) * before + share * after
    one = np.where(np.isnan(before), after, before)
    return np.nan_to_num(np.where(np.isnan(between), one, between), copy=False)


def bridged(clear: Array, days: Array) -> Array:
    """T: the days that a line has to bridge, of a typical pixel: in proportion to them, what
    wanders moves away from the line between its ends.
    """
    order = np.argsort(days, kind="stable")
    nothing = np.zeros((len(clear), 0, clear.shape[1]))
    since = days[:, None] - _last(nothing, clear, days, order)[1]
    until = _last(nothing, clear, days, order[::-1])[1] - days[:, None]
    between = since * until / np.maximum(since + until, SOON)
    one = np.where(np.isnan(since), until, since)
    far = np.where(np.isnan(between), one, between)
    far = np.where(np.isnan(far), np.ptp(days), far)  # never seen
    return np.median(far, axis=1)


def _last(
    Y: Array,
    clear: Array,
    days: Array,
    order: Array,
) -> tuple[Array, Array]:
    """The last clear value before each date in this order, T x bands x n, and its day, T x n; NaN
    before the first.
    """
    answer, when = np.full(Y.shape, np.nan), np.full(clear.shape, np.nan)
    value, day = answer[order[0]].copy(), when[order[0]].copy()
    for t in order:
        answer[t], when[t] = value, day
        value = np.where(clear[t], Y[t], value)
        day = np.where(clear[t], days[t], day)
    return answer, when


def median_of_others(Y: Array, clear: Array) -> Array:
    """The median of each pixel over its clear dates, itself left out; 0 where there is none."""
    values = np.where(clear[:, None], Y, np.inf)
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, 0)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(len(Y))[:, None, None], 0)
    left = (clear.sum(0) - clear)[:, None]  # dates but this one
    place = np.where(clear[:, None], place, len(Y))
    middle = np.zeros(values.shape)
    for at in ((left - 1) // 2, left // 2):
        skipping = np.clip(at + (at >= place), 0, len(Y) - 1)
        middle += 0.5 * np.take_along_axis(ordered, skipping, 0)
    return np.where(left > 0, middle, 0.0)

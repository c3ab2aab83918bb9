"""What is under a cloud, by the ways that predict known pixels best.

Every way says what a pixel shows on a date from what the other dates show: a line between the clear
dates before and after, the median, a year's harmonic, factor models of several ranks, and one whose
date is itself interpolated in time. Each clear value is left out in turn; the errors decide, for each
date, how much each way counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...weights import Array
from .factors import (
    SURE,
    Factored,
    learned,
    learned_with,
    pixels,
    spread,
    without_itself,
)
from .residuals import line
from .seasons import YEAR, Seasons, seasons

RANKS = (1, 2, 3, 5, 8, 12)  # that are tried, as long as errors fall
SPARE = 2  # dates that a rank leaves over
KEPT = 3  # models, at most: the best and those before it
# Errors of all dates count as so many pixels of a date.
AS_PIXELS = 50
OUTLYING = 0.9  # of the pixels count fully; a cloud that was not found must not decide
LEAST_WEIGHT = 0.02  # less is not worth its time
STEPS = 500  # of projected gradients; a few weights settle in fewer
DOUBTFUL = 4.0  # times the typical error of a date
PIECE = 1 << 14  # pixels that are predicted at a time
WITHIN = 0.6827  # of a Gaussian is within one standard deviation
FEW = 0.02  # of a date, at least, that is clear, or it is as good as hidden


class Ways(NamedTuple):
    """All that is needed to predict the pixels of a block."""

    days: Array  # T
    usual: Array  # bands: what is said where nothing is known
    harmonic: Factored
    models: tuple[Factored, ...]
    seasons: Seasons  # of the last model
    hidden: Array  # T: dates that show no ground

    def __len__(self) -> int:
        return 4 + len(self.models)

    def predictions(
        self,
        Y: Array,
        clear: Array,
        k: int,
        seen: bool = False,
    ) -> Array:
        """What way k says of T x bands x n values, each from the others that are clear. With `seen`,
        values that are clear may count for themselves, which takes less time and memory.
        """
        if k == 0:
            return self._or_usual(_between(Y, clear, self.days), clear)
        if k == 1:
            return self._or_usual(median_of_others(Y, clear), clear)
        if k == 2:
            model, R = self.harmonic, self.harmonic.R
        elif k == 3:
            model, R = self.models[-1], self.seasons.expected
        else:
            model = self.models[k - 4]
            R = model.R
        return (_with_all if seen else _by_factors)(Y, clear, model, R)

    def _or_usual(self, said: Array, clear: Array) -> Array:
        alone = clear.sum(0) - clear == 0
        return np.where(alone[:, None], self.usual[:, None], said)


class Filling(NamedTuple):
    """Which ways say what is under a cloud."""

    ways: Ways
    weights: Array  # T x ways
    # T x bands: the typical error on known pixels that were left out
    error: Array
    surprise: Array  # T x bands: errors, in units of what the model expects of them

    @property
    def doubtful(self) -> Array:
        """T: dates on which clear pixels are predicted far worse than on others."""
        some = ~self.ways.hidden
        if not some.any():
            return some
        usual = np.median(self.error[some], axis=0)
        size = np.mean(self.error / np.maximum(usual, 1e-30), axis=1)
        return some & (size > DOUBTFUL)

    def predicted(self, Y: Array, clear: Array) -> Array:
        """T x bands x n: what the ground is where it is not clear, by the ways that count."""
        answer = np.empty(Y.shape, np.float32)
        clear = clear & ~self.ways.hidden[:, None]
        for some in _pieces(Y.shape[2]):
            y = Y[..., some].astype(np.float64)
            answer[..., some] = self._blend(y, clear[:, some])
        return answer

    def _blend(self, y: Array, clear: Array) -> Array:
        answer = np.zeros(y.shape)
        for k in np.flatnonzero(self.weights.any(0)):
            weight = self.weights[:, k, None, None]
            answer += weight * self.ways.predictions(y, clear, int(k), seen=True)
        return answer

    def deviations(
        self,
        Y: Array,
        clear: Array,
        noise: Array,
    ) -> Array:
        """T x bands x n: the standard deviation of what is predicted; of pixels with a noise of so
        much in each band, which is none of it.
        """
        answer = np.empty(Y.shape, np.float32)
        clear = clear & ~self.ways.hidden[:, None]
        for some in _pieces(Y.shape[2]):
            y = Y[..., some].astype(np.float64)
            expected, known = _expected(y, clear[:, some], self.ways)
            more = self.surprise[:, :, None] ** 2
            less = more * expected - noise[:, None] ** 2
            answer[..., some] = np.sqrt(np.maximum(less, more * (expected - known)))
        return answer


def contested(
    Y: Array,
    clear: Array,
    days: Array,
    hidden: Array,
    *,
    least: float,
    rank: int | None = None,
) -> Filling:
    """The ways and their weights, by T x bands x n values, T x n of which are clear; dates that are
    hidden are not believed, whatever they show. `least` is the smallest noise, `rank` that of the
    models if it is not to be found.
    """
    hidden = hidden | (clear.mean(1) <= FEW)
    clear = clear & ~hidden[:, None]
    ranks = RANKS if rank is None else (rank,)
    models = _models(Y, clear, ranks, least)
    ways = _ways(Y, clear, days, hidden, models, least)
    errors = np.stack([ways.predictions(Y, clear, k) - Y for k in range(len(ways))])
    scale = np.array([_typical(errors[:, :, b], clear) for b in range(Y.shape[1])])
    grams, counts = _grams(errors / np.maximum(scale, least)[:, None], clear)
    known = counts > 0
    pooled = np.mean(grams[known], axis=0)
    weights = np.zeros((len(Y), len(ways)))
    for t in range(len(Y)):
        usable = np.arange(len(ways)) < 4 if hidden[t] else np.ones(len(ways), bool)
        gram = AS_PIXELS * pooled + counts[t] * grams[t]
        weights[t, usable] = _weights(gram[np.ix_(usable, usable)])
    weights = _without_small(weights)
    left = np.einsum("tk,ktbn->tbn", weights, errors, optimize=True)
    surprise = _surprise(left, _expected(Y, clear, ways)[0], clear)
    if hidden.any() and not hidden.all():
        unseen = np.einsum("k,ktbn->tbn", weights[hidden][0], errors, optimize=True)
        surprise[hidden] = _sizes(unseen, clear).mean(0)
    return Filling(ways, weights, _sizes(left, clear), surprise)


# ---- ways


def _ways(
    Y: Array,
    clear: Array,
    days: Array,
    hidden: Array,
    models: tuple[Factored, ...],
    least: float,
) -> Ways:
    bands = np.moveaxis(Y, 1, 0)
    usual = np.array([np.median(one[clear]) if clear.any() else 0.0 for one in bands])
    angle = 2 * np.pi * (days - days.min()) / YEAR
    year = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=1)
    harmonic = learned_with(Y, clear, year, least)
    last = models[-1]
    metric = np.mean(
        last.covariance + last.mean[:, :, None] * last.mean[:, None, :], axis=0
    )
    share = clear.mean(1)
    found = seasons(last.R, days, share, metric, 0.0)
    return Ways(days, usual, harmonic, models, found, hidden)


def _models(
    Y: Array,
    clear: Array,
    ranks: tuple[int, ...],
    least: float,
) -> tuple[Factored, ...]:
    """Factor models of a rank that still gains, and of those below it."""
    dates = int(np.count_nonzero(clear.any(1)))
    models: list[Factored] = []
    best = np.inf
    for rank in ranks:
        if models and rank > dates - SPARE:
            break
        model = learned(Y, clear, rank, least)
        error = _relative(_by_factors(Y, clear, model, model.R) - Y, clear)
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


def _by_factors(
    Y: Array,
    clear: Array,
    model: Factored,
    R: Array,
) -> Array:
    """R l with the factors l that the other dates give a pixel."""
    answer = np.empty(Y.shape)
    for b in range(Y.shape[1]):
        L, _ = without_itself(Y, clear, model, b)
        answer[:, b] = np.einsum("tni,ti->tn", L, R)
    return answer


def _with_all(
    Y: Array,
    clear: Array,
    model: Factored,
    R: Array,
) -> Array:
    """The same with the factors that all clear dates give it."""
    found = [pixels(Y, clear, model, b).mean for b in range(Y.shape[1])]
    return np.stack([R @ L.T for L in found], axis=1)


def _between(
    Y: Array,
    clear: Array,
    days: Array,
) -> Array:
    values = np.where(clear[:, None], Y, 0)[:, :, None].astype(np.float32)
    return line(values, clear[:, None], days)[:, :, 0].astype(np.float64)


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


# ---- evidence


def _typical(errors: Array, clear: Array) -> float:
    """Of a band: the size of the smallest error of a pixel."""
    return float(np.median(np.min(np.abs(errors), axis=0)[clear]))


def _grams(errors: Array, clear: Array) -> tuple[Array, Array]:
    """T x ways x ways: products of errors on each date, in units of the best way's; and how many
    pixels they are of.
    """
    ways, T = errors.shape[:2]
    grams, counts = np.zeros((T, ways, ways)), np.zeros(T)
    for t in np.flatnonzero(clear.any(1)):
        e = errors[:, t][:, :, clear[t]]
        size = np.median(np.max(np.abs(e), axis=1), axis=0)
        limit = np.quantile(size, OUTLYING) + 1e-30
        w = np.minimum(1, limit / np.maximum(size, 1e-30)) ** 2
        gram = np.einsum("kbn,lbn,n->kl", e, e, w, optimize=True) + 1e-30 * np.eye(ways)
        grams[t] = gram / np.min(np.diag(gram))
        counts[t] = e.shape[2]
    return grams, counts


def _weights(gram: Array) -> Array:
    """Weights of at least 0 that add up to 1, with the smallest error."""
    n = len(gram)
    step = 1 / np.linalg.norm(gram, 2)
    w = np.full(n, 1 / n)
    for _ in range(STEPS):
        w = _on_simplex(w - step * (gram @ w))
    return w


def _on_simplex(x: Array) -> Array:
    """The nearest weights of at least 0 that add up to 1."""
    falling = np.sort(x)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(x) + 1)
    return np.maximum(x - excess[np.flatnonzero(falling > excess)[-1]], 0)


def _without_small(weights: Array) -> Array:
    """Ways that count for nothing much on any date are left out."""
    kept = np.where(weights.max(0) >= LEAST_WEIGHT, weights, 0)
    return np.asarray(kept / kept.sum(1, keepdims=True))


def _sizes(left: Array, clear: Array) -> Array:
    """T x bands: the root mean square of most errors of each date; of all, where none is known."""
    T, bands = left.shape[:2]
    sizes = np.full((T, bands), np.nan)
    for t in np.flatnonzero(clear.any(1)):
        squares = left[t][:, clear[t]] ** 2
        limit = np.quantile(squares, OUTLYING, axis=1)[:, None]
        sizes[t] = np.sqrt(np.mean(np.minimum(squares, limit), axis=1))
    known = np.any(clear, axis=1)
    usual = sizes[known].mean(0) if known.any() else np.zeros(bands)
    return np.where(known[:, None], sizes, usual)


# ---- how far off it may be


def _expected(
    Y: Array,
    clear: Array,
    ways: Ways,
) -> tuple[Array, Array]:
    """T x bands x n: the variance of values by the last model, their noise included; and T x bands x
    1: the noise. Of a hidden date nothing is known, and all of it is 1.
    """
    model = ways.models[-1]
    noise = np.where(ways.hidden[:, None], 0.0, model.variance)[:, :, None]
    answer = np.empty(Y.shape)
    for b in range(Y.shape[1]):
        W = clear / model.variance[:, b, None]
        unsure = spread(model.R, pixels(Y, clear, model, b))
        left_out = unsure / np.maximum(1 - W * unsure, SURE)
        answer[:, b] = left_out + noise[:, b]
    answer[ways.hidden] = 1.0
    return answer, noise


def _surprise(
    left: Array,
    expected: Array,
    clear: Array,
) -> Array:
    """T x bands: what two thirds of the errors of a date stay below, as one deviation of a Gaussian,
    in units of what was expected; with few pixels, rather that of all dates.
    """
    ratios = np.abs(left) / np.sqrt(expected)
    T, bands = left.shape[:2]
    every = np.array([_within(ratios[:, b][clear]) for b in range(bands)])
    answer = np.tile(every, (T, 1))
    for t in np.flatnonzero(clear.any(1)):
        own = [_within(ratios[t, b][clear[t]]) for b in range(bands)]
        n = np.count_nonzero(clear[t])
        answer[t] = (n * np.array(own) + AS_PIXELS * every) / (n + AS_PIXELS)
    return answer


def _within(ratios: Array) -> float:
    return float(np.quantile(ratios, WITHIN)) if ratios.size else 1.0


def _pieces(n: int) -> Iterator[slice]:
    return (slice(i, min(i + PIECE, n)) for i in range(0, n, PIECE))

"""What is under a cloud, by the ways that predict known pixels best.

Each clear value is left out in turn; the errors decide, for each date, how much each way counts. What
is then far from what the other dates say of it, measured by the same errors, is a cloud.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._scipy import optimize
from ...weights import Array
from .factors import Kinds, others
from .ways import IN_TIME, LINE, OF_UNSEEN, Ways, learned_ways, sought

# Errors of all dates count as so many pixels of a date.
AS_PIXELS = 50
OUTLYING = 0.9  # of the pixels count fully; a cloud that was not found must not decide
LEAST_WEIGHT = 0.02  # less is not worth its time
# Of all errors: ways that differ by less count alike, and two may say the same.
RIDGE = 1e-3
DOUBTFUL = 4.0  # times the error of the date that is told best
PIECE = 1 << 16  # pixels, of all bands, that are predicted at a time
WITHIN = 0.6827  # of a Gaussian is within one standard deviation
FEW = 0.02  # of a date, at least, that is clear, or it is as good as hidden


class Filling(NamedTuple):
    """Which ways say what is under a cloud."""

    ways: Ways
    weights: Array  # T x bands x ways
    # T x bands: the typical error on known pixels that were left out
    error: Array
    surprise: Array  # T x bands: errors, in units of what the model expects of them
    least: float  # standard deviation that a value has

    @property
    def doubtful(self) -> Array:
        """T: dates on which clear pixels are predicted far worse than on the best one: most may have
        clouds that were not found.
        """
        some = ~self.ways.hidden
        if not some.any():
            return some
        least = np.min(self.error[some], axis=0)
        size = np.mean(self.error / np.maximum(least, self.least), axis=1)
        return some & (size > DOUBTFUL)

    def predicted(
        self,
        Y: Array,
        clear: Array,
        own: bool = False,
    ) -> Array:
        """T x bands x n: what the ground is by the ways that count, from the other dates; with `own`,
        what is clear itself counts as well.
        """
        answer = np.empty(Y.shape, np.float32)
        for some, y, seen in self._pieces(Y, clear):
            answer[..., some] = self.ways.blended(y, seen, self.weights, own)
        return answer

    def away(self, Y: Array, clear: Array) -> tuple[Array, Array]:
        """T x bands x n: how far values are from what the other dates say of them, in standard
        deviations; and these.
        """
        answer = Y - self.predicted(Y, clear)
        deviation = np.empty_like(answer)
        for some, y, seen in self._pieces(Y, clear):
            expected, _ = _expected(y, seen, self.ways)
            own = self.surprise[:, :, None] * np.sqrt(expected)
            deviation[..., some] = np.maximum(own, self.least)
        return answer / deviation, deviation

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
        for some, y, seen in self._pieces(Y, clear):
            expected, known = _expected(y, seen, self.ways)
            more = self.surprise[:, :, None] ** 2
            less = more * expected - noise[:, None] ** 2
            answer[..., some] = np.sqrt(np.maximum(less, more * (expected - known)))
        return answer

    def _pieces(self, Y: Array, clear: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Some pixels at a time: values, and what of them is believed."""
        clear = clear & ~self.ways.hidden[:, None]
        bands, n = Y.shape[1:]
        step = max(PIECE // bands, 1)
        for i in range(0, n, step):
            some = slice(i, min(i + step, n))
            yield some, Y[..., some].astype(np.float64), clear[:, some]


def contested(
    Y: Array,
    clear: Array,
    days: Array,
    hidden: Array,
    *,
    least: float,
    rank: int | None = None,
    before: Filling | None = None,
) -> Filling:
    """The ways and their weights, by T x bands x n values, T x n of which are clear; dates that are
    hidden are not believed, whatever they show. `least` is the smallest noise, `rank` that of the
    models if it is not to be found, `before` what was learned when a little less was known of clouds.
    """
    hidden = hidden | (clear.mean(1) <= FEW)
    clear = clear & ~hidden[:, None]
    models = sought(rank, least, None if before is None else before.ways)
    ways = learned_ways(Y, clear, days, hidden, models)
    errors = np.stack([ways.predictions(Y, clear, k) - Y for k in range(len(ways))])
    gaps = ways.gaps(clear)
    bands = range(Y.shape[1])
    weights = _without_small(
        np.stack(
            [_of_band(errors[:, :, b], clear, hidden, gaps) for b in bands], axis=1
        )
    )
    left = np.einsum("tbk,ktbn->tbn", weights, errors, optimize=True)
    surprise = _surprise(left, _expected(Y, clear, ways)[0], clear)
    if not hidden.all():
        for t in np.flatnonzero(hidden):
            unseen = np.einsum("bk,ktbn->tbn", weights[t], errors, optimize=True)
            surprise[t] = _sizes(unseen, clear).mean(0)
    return Filling(ways, weights, _sizes(left, clear), surprise, least)


# ---- evidence


def _of_band(
    errors: Array,
    clear: Array,
    hidden: Array,
    gaps: Array,
) -> Array:
    """T x ways: the weights in a band, in which ways x T x n errors were made."""
    grams, counts, best = _grams(errors, clear)
    pooled = np.mean(grams[counts > 0], axis=0)
    weights = np.zeros((len(clear), len(errors)))
    totals = AS_PIXELS * pooled + counts[:, None, None] * grams
    weights[~hidden] = _weights(totals[~hidden])
    unseen = _of_unseen(grams, best, hidden, gaps)
    weights[hidden, :OF_UNSEEN] = _weights(unseen)
    return weights


def _grams(errors: Array, clear: Array) -> tuple[Array, Array, Array]:
    """T x ways x ways: products of errors on each date, in units of the best way's; how many
    pixels they are of; and the mean square of the best way's.
    """
    ways, T = errors.shape[:2]
    grams, counts, best = np.zeros((T, ways, ways)), np.zeros(T), np.zeros(T)
    for t in np.flatnonzero(clear.any(1)):
        e = errors[:, t, clear[t]]
        size = np.median(np.abs(e), axis=0)
        limit = np.quantile(size, OUTLYING) + 1e-30
        w = np.minimum(1, limit / np.maximum(size, 1e-30)) ** 2
        gram = (w * e) @ e.T + 1e-30 * np.eye(ways)
        least = np.min(np.diag(gram))
        grams[t] = gram / least
        counts[t] = e.shape[1]
        best[t] = least / counts[t]
    return grams, counts, best


def _of_unseen(
    grams: Array,
    best: Array,
    hidden: Array,
    gaps: Array,
) -> Array:
    """hidden x ways x ways: products of errors to expect on dates that show no ground: those of known
    dates, as if these were as far from the others in time.
    """
    known = best > 0
    few = grams[known, :OF_UNSEEN, :OF_UNSEEN]
    squares = np.einsum("tkk->tk", few) * best[known, None]
    variance = np.ones(gaps.shape)
    for k in (LINE, IN_TIME):
        variance[:, k] = _growing(gaps[:, k], known, squares[:, k])
    answer = np.empty((np.count_nonzero(hidden), OF_UNSEEN, OF_UNSEEN))
    for i, t in enumerate(np.flatnonzero(hidden)):
        more = np.sqrt(variance[t] / variance[known])
        answer[i] = np.mean(more[:, :, None] * few * more[:, None, :], axis=0)
    return answer


def _growing(gap: Array, known: Array, squares: Array) -> Array:
    """T: the variance of errors, a noise and what grows with the gap, by those of known dates."""
    A = np.stack([np.ones_like(gap), gap], axis=1)
    relative = A[known] / np.maximum(squares, 1e-30)[:, None]
    found, _ = optimize.nnls(relative, np.ones(len(relative)))
    return np.asarray(A @ found)


def _weights(grams: Array) -> Array:
    """For each of some matrices, weights of at least 0 that add up to 1, with the smallest error: in
    proportion to x of at least 0 with the smallest x'Gx / 2 - sum(x).
    """
    n = grams.shape[-1]
    weights = np.empty((len(grams), n))
    for k, gram in enumerate(grams):
        C = np.linalg.cholesky(gram + RIDGE * np.trace(gram) * np.eye(n))
        weights[k], _ = optimize.nnls(C.T, np.linalg.solve(C, np.ones(n)))
    return weights / weights.sum(1, keepdims=True)


def _without_small(weights: Array) -> Array:
    """Ways that count for nothing much on any date are left out."""
    kept = np.where(weights.max((0, 1)) >= LEAST_WEIGHT, weights, 0)
    return np.asarray(kept / kept.sum(-1, keepdims=True))


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
    unsure = others(Y, Kinds.of(clear), model).variance
    answer = np.moveaxis(unsure, 1, 0) + noise
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

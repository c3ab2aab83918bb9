"""Real scenes to judge the removal of clouds by, and the simple methods beside it.

A case is a series in which clouds of one date were moved onto a clear one: the clear date is known.
The simple methods are told where these clouds are; ours is not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tasks import PAIRS, Array

YEAR = 365.25  # days
# Codes of the scene classification.
CLEAR, CLOUDY, SHADOW, SNOW = (4, 5, 7), (8, 9, 10), 3, 11
PEAK = 3000.0  # of the PSNR, reflectance times 10 000: that of the data folder's README
ALIKE = 0.7  # the correlation of two clear dates
# In the series of 28 dates: what is added to the blue of clear dates is a cloud.
BRIGHTER = 400
STRENGTHS = (0.1, 10.0, 1e3, 1e5)  # of the penalty of the smoother
LIGHT = (0.25, 0.6)  # that a shadow leaves
HAZE = 200.0  # that is added in a shadow, at most
WINDOW = 200  # days before and after a date from which a short series is drawn


class Case(NamedTuple):
    """A series of scenes with a date whose ground is known."""

    data: Array  # T x bands x height x width
    seen: Array  # T x height x width: what is given as observed
    dates: Array  # T, datetime64
    at: int  # the date to judge
    covered: Array  # height x width: where its ground was hidden
    cloud: Array  # height x width: where it shows a cloud instead
    truth: Array  # bands x height x width

    def score(self, X: Array) -> float:
        """The mean squared error of the ground of the date, bands x height x width."""
        off = X[:, self.covered] - self.truth[:, self.covered].astype(np.float64)
        return float(np.mean(off**2))

    def told(self) -> Array:
        """T x bands x pixels, with NaN where a method that knows all masks sees nothing."""
        seen = self.seen.copy()
        seen[self.at] &= ~self.covered
        T, bands = self.data.shape[:2]
        values = np.where(seen[:, None], self.data, np.float32(np.nan))
        return values.reshape(T, bands, -1).astype(np.float64)

    def shaded(self, seed: int) -> Case:
        """The same with a shadow over all that the clouds leave of the date: nothing is known of it."""
        rng = np.random.default_rng(seed)
        left = ~self.cloud & self.seen[self.at]
        data = self.data.copy()
        light = rng.uniform(*LIGHT) * data[self.at][:, left]
        data[self.at][:, left] = np.round(light + rng.uniform(0, HAZE))
        known = np.all(self.truth > 0, axis=0)
        return self._replace(data=data, covered=known, cloud=known)

    @property
    def days(self) -> Array:
        """Since the first."""
        return (self.dates - self.dates.min()).astype(np.float64)


def psnr(squares: float) -> float:
    """In dB."""
    return 10 * np.log10(PEAK**2 / squares)


# ---- series


class Rondonia(NamedTuple):
    """Sentinel-2, 29 dates; detected clouds are missing."""

    data: Array
    valid: Array  # T x height x width
    dates: Array

    @classmethod
    def read(cls, folder: Path, thin: int) -> Rondonia:
        """Every which pixel in x and y."""
        content = np.load(folder / "satellite/sentinel2_rondonia_20LKP_256.npz")
        data = content["data"][..., ::thin, ::thin]
        valid = (data != content["nodata"]).all(1)
        return cls(data, valid, content["dates"].astype("datetime64[D]"))

    def case(self, clear: int, cloudy: int, others: Sequence[int]) -> Case:
        """Clouds of one date on a clear one, in a series of that and other dates."""
        blue = np.where(self.valid, self.data[:, 0], np.float32(np.nan))
        usual = np.nanmedian(blue[[one for one, _ in PAIRS]], axis=0)
        missing = ~self.valid[cloudy]
        bright = ~missing & (blue[cloudy] > usual + BRIGHTER)
        data, seen = self.data.copy(), self.valid.copy()
        data[clear][:, bright] = self.data[cloudy][:, bright]
        seen[clear] &= ~missing
        some = np.sort([clear, *others])
        covered = (missing | bright) & self.valid[clear]
        return Case(
            data[some],
            seen[some],
            self.dates[some],
            int(np.flatnonzero(some == clear)[0]),
            covered,
            bright & covered,
            self.data[clear],
        )

    def pairs(self) -> Iterator[Case]:
        """Task A of the data folder: all dates but the cloudy one."""
        for clear, cloudy in PAIRS:
            kept = set(range(len(self.data))) - {clear, cloudy}
            yield self.case(clear, cloudy, sorted(kept))

    def drawn(self, n: int, seed: int) -> Case:
        """A series of n dates, a clear one among them, with the clouds of another one."""
        rng = np.random.default_rng([n, seed])
        clear = int(rng.choice([one for one, _ in PAIRS]))
        cloudy = int(rng.choice([one for _, one in PAIRS]))
        some = np.flatnonzero(self.valid.mean((1, 2)) > 0)
        others = rng.choice(np.setdiff1d(some, [clear, cloudy]), n - 1, replace=False)
        return self.case(clear, cloudy, others.tolist())


class Romania(NamedTuple):
    """Sentinel-2, five years, with clouds, snow, and the classes of the pixels."""

    data: Array  # T x bands x height x width
    classes: Array  # T x height x width
    dates: Array

    @classmethod
    def read(cls, folder: Path, thin: int, first: str, last: str) -> Romania:
        """The scenes of some years, every which pixel in x and y."""
        content = np.load(folder / "satellite/sentinel2_romania_10m.npz")
        dates = content["dates"].astype("datetime64[D]")
        some = (dates >= np.datetime64(first)) & (dates <= np.datetime64(last))
        data, classes = (content[name][some] for name in ("data", "scl"))
        return cls(data[..., ::thin, ::thin], classes[..., ::thin, ::thin], dates[some])

    @property
    def cloudy(self) -> Array:
        """T x height x width: clouds and their shadows, by the classes."""
        return np.isin(self.classes, (*CLOUDY, SHADOW))

    @property
    def called_clear(self) -> Array:
        """Dates without clouds by their classes, which miss shadows."""
        return np.flatnonzero(np.isin(self.classes, CLEAR).mean((1, 2)) > 0.98)

    @property
    def clear(self) -> Array:
        """Those of them that look like the one before or after: fit to be judged by."""
        some = self.called_clear
        infrared = [self.data[t, -1].ravel() for t in some]
        alike = [float(np.corrcoef(x, y)[0, 1]) for x, y in pairwise(infrared)]
        best = np.maximum([*alike, 0.0], [0.0, *alike])
        return some[best > ALIKE]

    @property
    def donors(self) -> Array:
        """Dates with clouds over a part of the scene. In winter, half of the scene is called shadow
        without a cloud: that is dark forest.
        """
        cloud = np.isin(self.classes, CLOUDY).mean((1, 2))
        share = self.cloudy.mean((1, 2))
        real = (cloud > 0.15) & (2 * cloud > share)
        return np.flatnonzero(real & (share < 0.85))

    def case(
        self, clear: int, donor: int | None, others: Sequence[int], masks: bool
    ) -> Case:
        """As of Rondonia; without a donor, the whole date is hidden."""
        some = np.sort([clear, *others])
        covered = np.ones(self.classes.shape[1:], bool)
        data, seen = self.data.copy(), np.ones(self.classes.shape, bool)
        if masks:
            seen = ~self.cloudy
        seen[clear] = donor is not None
        if donor is not None:
            covered = self.cloudy[donor]
            data[clear][:, covered] = self.data[donor][:, covered]
        return Case(
            data[some],
            seen[some],
            self.dates[some],
            int(np.flatnonzero(some == clear)[0]),
            covered,
            covered & (donor is not None),
            self.data[clear],
        )

    def moved(self, masks: bool, count: int = 4, seed: int = 0) -> Iterator[Case]:
        """Some clear dates under clouds of others, in a series of all dates."""
        rng = np.random.default_rng(seed)
        for at in rng.permutation(self.clear)[:count]:
            donor = int(rng.choice(self.donors))
            others = np.setdiff1d(np.arange(len(self.data)), [at, donor])
            yield self.case(int(at), donor, others.tolist(), masks)

    def hidden(self) -> Iterator[Case]:
        """Clear dates, each hidden as a whole; the classes of the others are known."""
        for at in self.clear:
            others = np.setdiff1d(np.arange(len(self.data)), at)
            yield self.case(int(at), None, others.tolist(), masks=True)

    def drawn(self, n: int, seed: int, masks: bool) -> Case:
        """A series of n dates within a year and a month."""
        rng = np.random.default_rng([n, seed])
        at, donor = int(rng.choice(self.clear)), int(rng.choice(self.donors))
        apart = np.abs((self.dates - self.dates[at]).astype(int))
        near = np.setdiff1d(np.flatnonzero(apart <= WINDOW), [at, donor])
        others = rng.choice(near, min(n - 1, len(near)), replace=False)
        return self.case(at, donor, others.tolist(), masks)


# ---- simple methods: T x bands x pixels with NaN, days and a date; bands x pixels


def nearest(X: Array, days: Array, at: int) -> Array:
    """The nearest date on which a pixel was seen."""
    order = np.argsort(np.abs(days - days[at]), kind="stable")
    return _first(X[order])


def _first(X: Array) -> Array:
    """The first of the values along the first axis that is there."""
    there = ~np.isnan(X)
    return np.take_along_axis(X, there.argmax(0)[None], 0)[0]


def line(X: Array, days: Array, at: int) -> Array:
    """Between the dates before and after on which a pixel was seen; one of them at the ends."""
    order = np.argsort(days, kind="stable")
    here = int(np.flatnonzero(order == at)[0])
    before, after = order[:here][::-1], order[here + 1 :]
    when = np.where(np.isnan(X), np.nan, days[:, None, None])
    ends = []
    for some in (before, after):
        if len(some):
            ends.append((_first(X[some]), _first(when[some])))
        else:
            nothing = np.full(X.shape[1:], np.nan)
            ends.append((nothing, nothing))
    (x, s), (y, t) = ends
    share = (days[at] - s) / np.where(t > s, t - s, 1.0)
    between = (1 - share) * x + share * y
    return np.where(np.isnan(x), y, np.where(np.isnan(y), x, between))


def median(X: Array, days: Array, at: int) -> Array:
    """Of all other dates."""
    return np.nanmedian(np.delete(X, at, 0), axis=0)


def geomedian(X: Array, days: Array, at: int, rounds: int = 30) -> Array:
    """The geometric median over the other dates, all bands together."""
    X = np.delete(X, at, 0)
    seen = ~np.isnan(X).any(1)
    middle = np.nanmedian(X, axis=0)
    filled = np.where(seen[:, None], X, 0)
    for _ in range(rounds):
        distance = np.sqrt(((filled - middle) ** 2).sum(1)) + 1.0
        w = np.where(seen, 1 / distance, 0)
        total = np.maximum(w.sum(0), 1e-12)
        mean = (w[:, None] * filled).sum(0) / total
        middle = np.where(seen.any(0), mean, middle)
    return middle


def harmonic(X: Array, days: Array, at: int, rounds: int = 10) -> Array:
    """One period a year for each pixel and band, by Tukey's biweight: told nothing more than the
    others, it would find outliers itself.
    """
    angle = 2 * np.pi * days / YEAR
    A = np.stack([np.ones_like(days), np.cos(angle), np.sin(angle)], axis=1)
    T = len(X)
    Y = X.reshape(T, -1)
    there = ~np.isnan(Y)
    y = np.where(there, Y, 0)
    middle = np.nanmedian(Y, axis=0)
    residual = y - middle
    ridge = 1e-3 * np.diag([0.0, 1.0, 1.0])
    for _ in range(rounds):
        deviation = 1.4826 * np.nanmedian(np.where(there, np.abs(residual), np.nan), 0)
        u = residual / (4.685 * np.maximum(deviation, 1.0))
        w = np.where(there, np.clip(1 - u**2, 0, None) ** 2, 0)
        gram = np.einsum("ti,tn,tj->nij", A, w, A) + ridge
        right = np.einsum("ti,tn->ni", A, w * y)
        x = np.linalg.solve(gram + 1e-9 * np.eye(3), right[..., None])[..., 0]
        residual = y - A @ x.T
    return (A[at] @ x.T).reshape(X.shape[1:])


def whittaker(X: Array, days: Array, at: int) -> Array:
    """Second differences in time are penalized, by the weight that predicts dates left out."""
    order = np.argsort(days, kind="stable")
    when, Y = days[order], X[order]
    there = ~np.isnan(Y).any(1)  # T x pixels: all bands or none
    y = np.where(there[:, None], Y, 0)
    D = _second_differences(when)
    best, answer = np.inf, np.empty(0)
    for strength in STRENGTHS:
        smoothing = strength * D.T @ D
        system = there.T[:, :, None] * np.eye(len(when)) + smoothing
        least = 1e-9 * (1 + np.max(smoothing))  # of pixels that were never seen
        inverse = np.linalg.inv(system + least * np.eye(len(when)))
        smooth = np.einsum("nst,tbn->sbn", inverse, y, optimize=True)
        leverage = np.einsum("ntt->tn", inverse)[:, None]
        left_out = (y - smooth) / np.maximum(1 - leverage, 1e-6)
        error = float(np.median(np.abs(np.moveaxis(left_out, 1, -1)[there])))
        if error < best:
            best, answer = error, smooth
    return answer[np.flatnonzero(order == at)[0]]


def _second_differences(when: Array) -> Array:
    """On an uneven grid, in units of its mean step."""
    step = np.maximum(np.diff(when), 0.5)
    step = step / step.mean()
    D = np.zeros((len(when) - 2, len(when)))
    for k in range(len(D)):
        h, g = step[k], step[k + 1]
        D[k, k : k + 3] = 2 / (h * (h + g)), -2 / (h * g), 2 / (g * (h + g))
    return D


def dineof(X: Array, days: Array, at: int, rounds: int = 60) -> Array:
    """Empirical orthogonal functions, filled in turn; as many as predict 3 % of the values best."""
    T = len(X)
    Y = X.reshape(T, -1)
    there = ~np.isnan(Y)
    kept = there & (np.random.default_rng(0).random(Y.shape) > 0.03)
    test = there & ~kept
    mean = np.nanmean(Y)
    best, rank = np.inf, 1
    for tried in range(1, min(T, 9)):
        filled = _eofs(np.where(kept, Y - mean, 0), kept, tried, rounds)
        error = float(np.mean((filled - (Y - mean))[test] ** 2))
        if error < best:
            best, rank = error, tried
    filled = _eofs(np.where(there, Y - mean, 0), there, rank, 3 * rounds)
    return (filled[at] + mean).reshape(X.shape[1:])


def _eofs(y: Array, there: Array, rank: int, rounds: int) -> Array:
    filled = y
    for _ in range(rounds):
        _, vectors = np.linalg.eigh(filled @ filled.T)
        U = vectors[:, -rank:]
        low = U @ (U.T @ filled)
        filled = np.where(there, y, low)
    return low


Simple = Callable[[Array, Array, int], Array]
SIMPLE: dict[str, Simple] = {
    "median": median,
    "geomedian": geomedian,
    "nearest date": nearest,
    "line": line,
    "Whittaker": whittaker,
    "harmonic": harmonic,
    "DINEOF": dineof,
}


def simple_answers(case: Case) -> dict[str, Array]:
    """The ground of the date by each of the simple methods; the median where one has nothing to
    say.
    """
    X, days = case.told(), case.days
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # pixels that were never seen
        answers = {name: method(X, days, case.at) for name, method in SIMPLE.items()}
    return {
        name: np.where(np.isnan(Y), _usual(X), Y).reshape(case.truth.shape)
        for name, Y in answers.items()
    }


def _usual(X: Array) -> Array:
    """The median of each band."""
    return np.nanmedian(X, axis=(0, 2))[:, None]

"""Clouds out of a series of satellite scenes: what the ground looks like on every date, and where it was covered.

Pixels of all bands x dates are a matrix of low rank, with gaps (nodata, masks) and outliers (clouds, shadows, haze).
Its time factors R (T x r) are learned from a few thousand pixels; then every pixel is fitted to them by itself, block
by block, so that what a stack takes is little more than the stack and its answer. All bands of a pixel and date share
one weight: a cloud covers all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..._rows import equal
from ...methods.closed_loop import DEVIATION
from ...methods.noise import unlike_members
from ...methods.noisy import REACH, Noise
from ...observations._door import as_observations
from ...observations.base import OWN
from ...observations.grouped import grouped
from ...row_systems import pairs, solve_rows
from ...weights import Array, Cauchy
from ..outcome import SOUND, Limits, Outcome, Told, after_clipping, noisy_fit
from ..stack import as_type, band_groups, check_rank, check_seed, check_share
from .seasons import Seasons, seasons

Fill = Literal["clouds", "all"]
FILLS = ("clouds", "all")
CLEAR, CLOUD, MISSING = 0, 1, 2  # in a mask
LEARN_FROM = 2500  # pixels, evenly spread
BLOCK = 1 << 23  # numbers of the stack that are worked on at a time
WIDER = (16.0, 4.0, 2.0, 1.0, 1.0, 1.0)  # the threshold of each pass over a block, in that threshold
STANDS_OUT = 5.0  # standard deviations: beyond is cloud, shadow or snow
FAR_BRIGHTER = 8.0  # times as far from the usual brightness as dates below it are: an overcast date
BRIGHT = 3.0  # standard deviations that an overcast date is brighter in every band
FEW = 0.02  # a date of which less is seen is taken from its neighbours
Progress = Callable[[int, int], None]  # pixels done, and all


@dataclass(frozen=True, eq=False)
class Ground:
    """What was learned: a pixel of band b is R l + noise, with l drawn around mean[b]."""

    R: Array  # T x r
    mean: Array  # bands x r
    ridge: Array  # bands x r x r: the prior of l, in units of the noise
    deviation: Array  # bands: the standard deviation of the noise
    seasons: Seasons
    seen: Array  # T: the share of the pixels that was observed
    estimated: Array  # T: whether a date was taken from its neighbours, because too little or no ground is seen
    limits: Limits | None = None  # bands x 1 x 1: the range of what was observed
    outcome: Outcome = SOUND  # of the fit

    @property
    def rank(self) -> int:
        """The number of components."""
        return int(self.R.shape[1])


@dataclass(frozen=True, eq=False)
class Cleared(Told):
    """A series of scenes without clouds."""

    scenes: Array  # T x bands x height x width, in the type of the data
    mask: Array  # T x height x width: 0 clear, 1 cloud (or shadow, haze, snow), 2 nothing was observed
    ground: Ground
    outcome: Outcome = SOUND  # of the fit, and of what was made of it
    clipped: int = 0  # values of the ground that were far outside what was observed


def remove_clouds(
    stack: Any,
    seen: Any = None,
    *,
    nodata: float | None = None,
    dates: Any = None,
    rank: int | None = None,
    fill: Fill = "clouds",
    sample: float = 1.0,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Cleared:
    """The scenes with the ground where clouds were, and a mask of these.

    `stack` is T x bands x height x width (T x height x width is one band): anything that numpy reads by slices, such as
    an array, a memmap or a zarr array. NaN and `nodata` are missing; `seen` (T x height x width) is True where a pixel
    may be believed. A pixel is missing if one of its bands is.

    `dates` (days, or anything numpy reads as dates) tell how far apart scenes are; without them they are taken as
    evenly spaced. A date with nothing to see, or nothing but clouds, is estimated from those around it and from the
    same season of other years.

    fill="clouds" keeps the pixels that look clear as they are; "all" gives the model everywhere, which also takes away
    thin haze and noise. With `sample`, only that random share of pixels and dates is looked at.

    A fit that diverges is an error, `lrmc.apps.outcome.FitFailed`; `status` and `warnings` of the answer tell the rest.
    """
    data = _checked(stack, seen, fill, sample)
    check_rank(rank, len(data), "dates")
    check_seed(seed)
    look = _Look(data, seen, nodata, sample, seed)
    ground = learn_ground(look, as_days(dates, len(data)), rank, seed, threads)
    T, _, height, width = data.shape
    scenes, mask = np.empty(data.shape, data.dtype), np.empty((T, height, width), np.uint8)
    clipped = 0
    for lines in blocks(data.shape):
        Y, there = look.block(lines)
        L = fit_pixels(Y, there if sample == 1 else there & look.chosen(lines), ground, threads)
        model, outside = _model(L, ground, Y.shape)
        scenes[:, :, lines], mask[:, lines] = _cleared(Y, there, model, ground, fill, nodata)
        clipped += outside
        if progress is not None:
            progress(lines.stop * width, height * width)
    outcome = ground.outcome
    if ground.limits is not None:
        outcome = after_clipping(outcome, clipped, scenes.size, ground.limits)
    return Cleared(scenes, mask, ground, outcome, clipped)


# ---- the data, a block at a time


@dataclass(frozen=True, eq=False)
class _Look:
    """Reads blocks of lines: values, and what of them was observed."""

    data: Any
    seen: Any
    nodata: float | None
    sample: float
    seed: int

    def block(self, lines: slice, step: int = 1) -> tuple[Array, Array]:
        """Values, T x bands x lines x width, and T x lines x width: True where all bands were observed."""
        every = slice(lines.start, lines.stop, step), slice(None, None, step)
        Y = np.asarray(self.data[(slice(None), slice(None), *every)])
        there = np.ones((len(Y), *Y.shape[2:]), bool)
        for b in range(Y.shape[1]):
            if Y.dtype.kind == "f":
                there &= np.isfinite(Y[:, b])
            if self.nodata is not None and not np.isnan(self.nodata):
                there &= Y[:, b] != self.nodata
        if self.seen is not None:
            there &= np.asarray(self.seen[(slice(None), *every)]) != 0
        return Y, there

    def chosen(self, lines: slice) -> Array:
        """A random share of pixels and dates."""
        rng = np.random.default_rng([self.seed, lines.start])
        T, _, _, width = self.data.shape
        return rng.random((T, lines.stop - lines.start, width), np.float32) < self.sample


def _checked(stack: Any, seen: Any, fill: str, sample: float) -> Any:
    data = stack if hasattr(stack, "shape") and hasattr(stack, "dtype") else np.asarray(stack)
    if len(data.shape) == 3:
        data = np.asarray(data)[:, None]
    if len(data.shape) != 4 or 0 in data.shape:
        raise ValueError(f"the stack has shape {tuple(data.shape)}; time x bands x height x width is wanted")
    if np.dtype(data.dtype).kind not in "iuf":
        raise ValueError(f"the stack holds {data.dtype}; integers or floats are wanted")
    if len(data) < 3:
        raise ValueError(f"{len(data)} scene(s); at least 3 dates of the same place are wanted")
    wanted = (data.shape[0], *data.shape[2:])
    if seen is not None and tuple(np.shape(seen)) != wanted:
        raise ValueError(f"seen has shape {np.shape(seen)}; {wanted} is wanted, True where a pixel may be believed")
    if fill not in FILLS:
        raise ValueError(f"fill={fill!r}; one of {', '.join(FILLS)} is wanted")
    check_share(sample)
    return data


def blocks(shape: Sequence[int]) -> Iterator[slice]:
    """Lines of the picture, some millions of numbers at a time."""
    T, bands, height, width = shape
    step = max(1, BLOCK // (T * bands * width))
    return (slice(i, min(i + step, height)) for i in range(0, height, step))


def as_days(dates: Any, n: int) -> Array:
    """Dates as days since the first; evenly spaced if there are none."""
    if dates is None:
        return np.arange(n, dtype=np.float64)
    if len(dates) != n:
        raise ValueError(f"{len(dates)} dates for {n} scenes; one for each is wanted")
    given = np.asarray(dates)
    if given.dtype.kind in "iuf":
        return given.astype(np.float64)
    try:
        return (given.astype("datetime64[s]") - given.astype("datetime64[s]").min()) / np.timedelta64(1, "D")
    except (TypeError, ValueError):
        raise ValueError(f"dates such as {given.flat[0]!r} cannot be read; 2021-06-30 is wanted") from None


def _matrix(Y: Array) -> Array:
    """Rows: pixels of the first band, of the second, and so on; columns: dates. A copy, row by row in memory."""
    return np.ascontiguousarray(Y.reshape(len(Y), -1).T)


# ---- learning


def learn_ground(look: _Look, days: Array, rank: int | None, seed: int, threads: int | None) -> Ground:
    """Time factors, noise and priors from a few thousand pixels."""
    T, bands, height, width = look.data.shape
    step = max(1, int(np.sqrt(height * width / LEARN_FROM)))
    Y, there = look.block(slice(0, height), step)
    if look.sample < 1:
        there &= np.random.default_rng(look.seed).random(there.shape, np.float32) < look.sample
    limits = _observed_range(Y, there)
    there &= ~_overcast(Y, there)
    share = there.reshape(T, -1).mean(1)
    if not share.any():
        raise ValueError("no pixel of the scenes is observed: all are nodata or masked")
    pixels = there[0].size
    rows, mask = _matrix(Y), np.tile(_matrix(there), (bands, 1))
    obs = grouped(as_observations(rows, mask, threads=threads), band_groups(bands, pixels))
    # Clouds come in patches: Cauchy was always chosen when all losses were tried, which takes three times longer.
    noise = Noise(unlike_members(obs), equal(1.0, T), "cauchy")
    X, outcome = noisy_fit(obs, rank, noise, seed, "the ground")
    L, R = (F.astype(np.float64) for F in X)
    scale = np.sqrt(np.linalg.norm(L, axis=0) / np.maximum(np.linalg.norm(R, axis=0), 1e-300))
    scale[scale == 0] = 1.0  # scenes of nothing but 0
    L, R = L / scale, R * scale
    found = seasons(R, days, share, L.T @ L / len(L), FEW)
    few = share <= FEW
    ground = _prior(rows, mask, L, R, bands, found, share, few)
    overcast = found.far_off & ~few & _brighter(L, R - found.expected, ground.deviation)
    R = np.where((few | overcast)[:, None], found.expected, R)
    ground = _prior(rows, mask, L, R, bands, found, share, few | overcast)
    if overcast.any():  # what was learned with clouds for ground is learned again
        L = fit_pixels(Y, there & ~overcast[:, None, None], ground, threads).astype(np.float64)
        ground = _prior(rows, mask, L, R, bands, found, share, few | overcast)
    return replace(ground, limits=limits, outcome=outcome)


def _observed_range(Y: Array, there: Array) -> Limits | None:
    """Of each band; None if nothing was observed."""
    if not there.any():
        return None
    seen = [band[there].astype(np.float64) for band in np.moveaxis(Y, 1, 0)]
    low, high = (np.array([edge(band) for band in seen])[:, None, None] for edge in (np.min, np.max))
    return Limits(low, high)


def _overcast(Y: Array, there: Array) -> Array:
    """Pixels of mostly cloudy dates that are brighter than usual in every band, and in one far more than dates differ.

    They are left out of what is learned: with many such dates, clouds would be components.
    """
    T, bands = Y.shape[:2]
    values = np.where(there[:, None], Y, np.float32(np.nan)).reshape(T, bands, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # pixels and dates of nothing
        away = values - np.nanmedian(values, axis=0)
        excess = np.nanmedian(away, axis=2)  # T x bands
        middle = np.nanmedian(excess, axis=0)
        below = np.where(excess <= middle, middle - excess, np.nan)  # clouds are above: what is below tells the spread
        usual = np.maximum(1.4826 * np.nanmedian(below, axis=0), _smallest(Y))
    dates = _bright(np.nan_to_num(excess - middle) / usual)
    if dates.sum() > T // 2:  # then they are the usual
        return np.zeros(there.shape, bool)
    pixels = _bright(np.nan_to_num(away - middle[:, None]) / usual[:, None])
    return (dates[:, None] & pixels).reshape(there.shape)


def _bright(times: Array) -> Array:
    """By the second axis, the bands. Snow is bright, but not in the infrared."""
    return np.all(times > 0, axis=1) & np.any(times > FAR_BRIGHTER, axis=1)


def _brighter(L: Array, change: Array, deviation: Array) -> Array:
    """Whether most pixels of a date are brighter than expected in all bands: leaves change them unevenly."""
    by_band = L.reshape(len(deviation), -1, L.shape[1])
    middle = np.array([np.median(own @ change.T, axis=0) for own in by_band])  # bands x T
    return np.all(middle > BRIGHT * deviation[:, None], axis=0)


def _prior(
    rows: Array, mask: Array, L: Array, R: Array, bands: int, found: Seasons, share: Array, estimated: Array
) -> Ground:
    n, rank = len(L) // bands, L.shape[1]
    mean, ridge, deviation = np.empty((bands, rank)), np.empty((bands, rank, rank)), np.empty(bands)
    used = mask[:n].any(1)
    for b in range(bands):
        here = slice(b * n, (b + 1) * n)
        own = L[here][used]
        good = mask[here][:, ~estimated]
        residual = (rows[here].astype(np.float64) - L[here] @ R.T)[:, ~estimated][good]
        deviation[b] = max(1.4826 * float(np.median(np.abs(residual))), _smallest(rows[here]))
        covariance = np.cov(own.T, bias=True).reshape(rank, rank)
        covariance += (1e-6 * np.trace(covariance) / rank + 1e-30) * np.eye(rank)
        mean[b], ridge[b] = own.mean(0), deviation[b] ** 2 * np.linalg.inv(covariance)
    return Ground(R, mean, ridge, deviation, found, share, estimated)


def _smallest(values: Array) -> float:
    """Noise that cannot be told from rounding."""
    if values.dtype.kind in "iu":
        return 0.5
    size = np.abs(values[np.isfinite(values)])
    return 1e-4 * float(np.median(size)) if size.size else 1e-30


# ---- every pixel


def fit_pixels(Y: Array, there: Array, ground: Ground, threads: int | None = None) -> Array:
    """The factors of all pixels of a block, (bands * pixels) x r: robust least squares with R fixed.

    Six passes over the block, with a threshold that falls to the noise.
    """
    T, bands = Y.shape[:2]
    pixels = there[0].size
    mask = np.tile(_matrix(there), (bands, 1))
    L = np.repeat(ground.mean, pixels, axis=0).astype(np.float32)
    if not mask.any():
        return L
    values = _matrix(Y)
    values = values if values.dtype in (np.uint8, np.int16, np.uint16, np.float32) else values.astype(np.float32)
    obs = grouped(as_observations(values, mask, threads=threads), band_groups(bands, pixels))
    R = ground.R.astype(np.float32)
    squares, deviation = pairs(R), np.repeat(ground.deviation, pixels)
    reach = DEVIATION * REACH["cauchy"]  # a threshold in standard deviations of the noise
    ridges = ground.ridge.astype(np.float32)
    mean = ground.mean.astype(np.float32)
    for wider in WIDER:
        pull = obs.products(L, R, Cauchy(wider * reach * deviation, np.ones(T)), Q=OWN, Qw=squares)
        for b in range(bands):
            here = slice(b * pixels, (b + 1) * pixels)
            pulled = pull[0][here] - (L[here] - mean[b]) @ ridges[b]
            used = obs.row_observed[here] > 0
            L[here] += solve_rows(pull.grams[0][here], pulled, ground.ridge[b], used, obs.threads)
    return L


def _model(L: Array, ground: Ground, shape: tuple[int, ...]) -> tuple[Array, int]:
    """The ground of a block, T x bands x lines x width, and how many of its values had to be clipped."""
    model = (ground.R.astype(np.float32) @ L.T).reshape(shape)
    return (model, 0) if ground.limits is None else ground.limits.held(model, "the ground")


def _cleared(
    Y: Array, there: Array, model: Array, ground: Ground, fill: str, nodata: float | None
) -> tuple[Array, Array]:
    """A block of the answer, and its mask."""
    worst = np.zeros(there.shape, np.float32)
    for b in range(Y.shape[1]):
        away = np.abs(Y[:, b] - model[:, b]) / np.float32(ground.deviation[b])
        np.maximum(worst, away, out=worst, where=there)
    mask = np.where(there, np.where(worst > STANDS_OUT, CLOUD, CLEAR), MISSING).astype(np.uint8)
    replaced = np.ones_like(there) if fill == "all" else mask != CLEAR
    return np.where(replaced[:, None], _stored(model, Y.dtype, nodata), Y), mask


def _stored(model: Array, dtype: np.dtype[Any], nodata: float | None) -> Array:
    """In the type of the data, and never what stands for nothing."""
    values = as_type(model, dtype)
    if nodata is not None and dtype.kind in "iu":
        beside = nodata + 1 if nodata < np.iinfo(dtype).max else nodata - 1
        values[values == nodata] = beside
    return values

"""What the ground looks like on every date: learned from a few thousand pixels, then fitted to
each.

The time factors R (T x r) belong to all pixels. A pixel of a band is R l + noise, with l drawn
around the mean of its band; all bands of a pixel and date share one weight, as a cloud covers all
of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._work import SOUND, Outcome
from ...methods.noisy import REACH
from ...methods.thresholds import DEVIATION
from ...observations._door import as_observations
from ...observations.base import OWN, Pull
from ...observations.grouped import Grouped, grouped
from ...row_systems import pairs, solve_rows
from ...weights import Array, Cauchy
from ..outcome import Limits
from ..stack import band_groups
from .bright import outshines
from .colours import Palettes, familiar
from .contest import Filling
from .look import Look, as_matrix
from .mixed import Clouds
from .seasons import Seasons

LEARN_FROM = 2500  # pixels, evenly spread
# The threshold of each pass over a block, in that threshold.
WIDER = (16.0, 4.0, 2.0, 1.0, 1.0, 1.0)
FEW = 0.02  # a date of which less is seen is taken from its neighbours
MAD = 1.4826  # median absolute deviations in a standard deviation, of Gaussian noise
CLEAR, CLOUD, MISSING = 0, 1, 2  # in a mask
STANDS_OUT = 5.0  # standard deviations: beyond is cloud, shadow or snow
# Of the distance from the ground, that the dates before and after may differ by if it lasts.
LASTING = 0.5
BRIGHTEST = 0.99  # of the clear pixels of a date are not brighter
ROUNDING = 0.5  # the noise of whole numbers that cannot be told from rounding
RELATIVE_ROUNDING = 1e-4  # the same of floats, in parts of a typical one
RIDGE = 1e-6  # of the mean variance: factors that hardly vary keep a little freedom
# The kernels read these as they are.
STORED = (np.uint8, np.int16, np.uint16, np.float32)


@dataclass(frozen=True, eq=False)
class Ground:
    """What was learned: a pixel of band b is R l + noise, with l drawn around mean[b]."""

    R: Array  # T x r
    mean: Array  # bands x r
    ridge: Array  # bands x r x r: the prior of l, in units of the noise
    deviation: Array  # bands: the standard deviation of the noise
    seasons: Seasons
    seen: Array  # T: the share of the pixels that was observed
    estimated: Array  # T: whether too little ground was seen: taken from its neighbours
    limits: Limits | None = None  # bands x 1 x 1: the range of what was observed
    outcome: Outcome = SOUND  # of the fit
    # T x bands: what is brighter is no ground that was seen anywhere on that date
    brightest: Array | None = None
    colours: Palettes | None = None  # that the ground of each date has
    clouds: Clouds | None = None  # the colours that clouds have
    filling: Filling | None = None  # what is under clouds
    shaded: Array | None = None  # T: dates that are nothing but shadow
    bright: Array | None = (
        None  # T: what has more light in all bands is no ground at first
    )

    @property
    def rank(self) -> int:
        """The number of components."""
        return int(self.R.shape[1])

    @property
    def guessed(self) -> Array:
        """T: dates that show no ground, or hardly any by what was learned since: all is said by others."""
        if self.filling is None:
            return self.estimated
        return np.asarray(self.estimated | self.filling.ways.hidden)

    @property
    def shadow(self) -> Array:
        """T x 1 x 1: the dates that are nothing but shadow."""
        none = np.zeros(len(self.R), bool)
        dates = none if self.shaded is None else self.shaded
        return dates[:, None, None]


@dataclass(frozen=True, eq=False)
class Sample:
    """The pixels that the ground is learned from."""

    Y: Array  # T x bands x lines x width
    there: Array  # T x lines x width: what was observed, and is believed
    limits: Limits | None  # the range of what was observed

    @property
    def bands(self) -> int:
        """Their number."""
        return int(self.Y.shape[1])

    @property
    def share(self) -> Array:
        """T: how much of each date is there."""
        return self.there.reshape(len(self.there), -1).mean(1)

    @property
    def rows(self) -> Array:
        """(bands * pixels) x T."""
        return as_matrix(self.Y)

    @property
    def mask(self) -> Array:
        """Pixels x T: the same for all bands."""
        return as_matrix(self.there)

    def without(self, clouds: Array) -> Sample:
        """The same, less what is not to be believed."""
        return replace(self, there=self.there & ~clouds)


def sampled(look: Look) -> Sample:
    """Pixels evenly spread over the scenes."""
    height, width = look.data.shape[2:]
    step = max(1, int(np.sqrt(height * width / LEARN_FROM)))
    Y, there = look.block(slice(0, height), step)
    if look.sample < 1:
        rng = np.random.default_rng(look.seed)
        there &= rng.random(there.shape, np.float32) < look.sample
    limits = _observed_range(Y, there)
    return Sample(Y, there, limits)


def observed(
    Y: Array,
    there: Array,
    threads: int | None,
) -> Grouped:
    """(bands * pixels) x T; the bands of a pixel share their weight."""
    bands = Y.shape[1]
    mask = np.tile(as_matrix(there), (bands, 1))
    obs = as_observations(as_matrix(Y), mask, threads=threads)
    return grouped(obs, band_groups(bands, there[0].size))


def _observed_range(Y: Array, there: Array) -> Limits | None:
    """Of each band; None if nothing was observed."""
    if not there.any():
        return None
    bands = [band[there].astype(np.float64) for band in np.moveaxis(Y, 1, 0)]
    low = np.array([np.min(band) for band in bands])
    high = np.array([np.max(band) for band in bands])
    return Limits(low[:, None, None], high[:, None, None])


def prior(
    sample: Sample,
    L: Array,
    R: Array,
    found: Seasons,
    estimated: Array,
) -> Ground:
    """The noise of each band, and around what and how widely its factors lie; estimated dates do
    not tell.
    """
    bands, rank = sample.bands, L.shape[1]
    mean = np.empty((bands, rank))
    ridge = np.empty((bands, rank, rank))
    deviation = np.empty(bands)
    mask = sample.mask
    used = mask.any(1)
    told = mask[:, ~estimated]
    pixels = len(mask)
    values = sample.rows
    for b in range(bands):
        here = slice(b * pixels, (b + 1) * pixels)
        own = L[here][used]
        residual = values[here].astype(np.float64) - L[here] @ R.T
        typical = MAD * float(np.median(np.abs(residual[:, ~estimated][told])))
        deviation[b] = max(typical, smallest(values[here]))
        mean[b] = own.mean(0)
        ridge[b] = deviation[b] ** 2 * np.linalg.inv(_covariance(own))
    return Ground(R, mean, ridge, deviation, found, sample.share, estimated=estimated)


def _covariance(factors: Array) -> Array:
    """Of the factors of some pixels, with a little more than nothing in every direction."""
    rank = factors.shape[1]
    covariance = np.cov(factors.T, bias=True).reshape(rank, rank)
    return covariance + (RIDGE * np.trace(covariance) / rank + 1e-30) * np.eye(rank)


def smallest(values: Array) -> float:
    """Noise that cannot be told from rounding."""
    if values.dtype.kind in "iu":
        return ROUNDING
    size = np.abs(values[np.isfinite(values)])
    return RELATIVE_ROUNDING * float(np.median(size)) if size.size else 1e-30


# ---- every pixel


def cloud_mask(
    Y: Array,
    there: Array,
    away: Array,
    ground: Ground,
    deviation: Array | None = None,
) -> Array:
    """Of a block: what stands out of the ground in any band is a cloud, unless it lasts, has a colour that no
    cloud has over this ground, or looks like other ground of its date. How far away it is, T x bands x
    lines x width, is in standard deviations.
    """
    off, away = away, np.where(there[:, None], away, np.float32(np.nan))
    out = np.max(np.abs(away), axis=1, initial=0, where=there[:, None]) > STANDS_OUT
    if ground.brightest is not None:
        limit = ground.brightest[..., None, None]
        bright = np.any(limit < Y, axis=1)
        no_ground = bright | ground.shadow
        away[np.broadcast_to(no_ground[:, None], away.shape)] = np.nan
        out &= ~_lasting(away, ground.seasons.days)
    if ground.clouds is not None and deviation is not None:
        t, i, j = np.nonzero(out & there)
        y, far, sd = (one[t, :, i, j].T for one in (Y, off, deviation))
        out[t, i, j] = ground.clouds.possible(y, far, sd, t)
    if ground.colours is not None:
        out &= ~familiar(Y, out & there, ground.colours)
    if ground.clouds is not None and deviation is not None:
        out |= ground.clouds.shadows(Y, off, deviation)
    found = np.where(out | ground.shadow, CLOUD, CLEAR)
    return np.where(there, found, MISSING).astype(np.uint8)


def first_mask(
    Y: Array,
    there: Array,
    looked_at: Array,
    ground: Ground,
    threads: int | None,
) -> Array:
    """The clouds of a block by robust least squares: good enough to learn how to find them. Dates
    that are nothing but shadow do not tell, nor what is bright where that was found to be cloud.
    """
    no_ground = np.broadcast_to(ground.shadow, there.shape)
    if ground.bright is not None:
        no_ground = no_ground | outshines(Y, ground.bright)
    L = fit_pixels(Y, looked_at & ~no_ground, ground, threads)
    model = (ground.R.astype(np.float32) @ L.T).reshape(Y.shape)
    deviation = ground.deviation.astype(np.float32)[:, None, None]
    found = cloud_mask(Y, there, (Y - model) / deviation, ground)
    return np.where(there & no_ground, np.uint8(CLOUD), found)


def second_mask(
    Y: Array,
    first: Array,
    used: Array,
    ground: Ground,
) -> Array:
    """The clouds of a block by what predicts clear pixels best, each date with errors of its own. Of
    dates that show no ground, what was found before is no ground either; of those that are clear,
    some pixels are used.
    """
    if ground.filling is None:
        return first
    away, deviation = away_from_others(Y, used, ground.filling)
    # Where no other date is known, water is as far below what is usual as a shadow.
    unknown = (used.sum(0) - used == 0) & (np.median(away, axis=1) < 0)
    away = np.where(unknown[:, None], np.float32(0), away)
    found = cloud_mask(Y, first != MISSING, away, ground, deviation)
    hidden = ground.filling.ways.hidden[:, None, None]
    return np.where(hidden, np.maximum(first, found), found)


def away_from_others(Y: Array, used: Array, filling: Filling) -> tuple[Array, Array]:
    """Of a block: how far it is from what the other dates say, and the standard deviations."""
    T, bands = Y.shape[:2]
    away, deviation = filling.away(Y.reshape(T, bands, -1), used.reshape(T, -1))
    return away.reshape(Y.shape), deviation.reshape(Y.shape)


def _lasting(away: Array, days: Array) -> Array:
    """T x lines x width: pixels that are as far off on the date before or after. A field that was
    mown or a forest that was felled stays so; no cloud does.
    """
    order = np.argsort(days, kind="stable")
    alike = LASTING * np.linalg.norm(away, axis=1)
    answer = np.zeros(alike.shape, bool)
    for way in (order, order[::-1]):
        last = np.full(away.shape[1:], np.nan, np.float32)
        for t in way:
            answer[t] |= np.linalg.norm(away[t] - last, axis=0) < alike[t]
            last = np.where(np.isnan(away[t]), last, away[t])
    return answer


def brightest(Y: Array, clear: Array) -> Array:
    """T x bands: what hardly any clear pixel of a date is brighter than; below all others where
    little is clear.
    """
    T, bands = Y.shape[:2]
    answer = np.full((T, bands), -np.inf)
    for t in np.flatnonzero(clear.mean((1, 2)) > FEW):
        answer[t] = np.quantile(Y[t][:, clear[t]], BRIGHTEST, axis=1)
    return answer


def fit_pixels(
    Y: Array,
    there: Array,
    ground: Ground,
    threads: int | None = None,
) -> Array:
    """The factors of all pixels of a block, (bands * pixels) x r: robust least squares with R
    fixed.

    Six passes over the block, with a threshold that falls to the noise.
    """
    bands = Y.shape[1]
    pixels = there[0].size
    L = np.repeat(ground.mean, pixels, axis=0).astype(np.float32)
    if not there.any():
        return L
    obs = observed(_stored(Y), there, threads)
    for wider in WIDER:
        pull = _weighed(obs, L, ground, wider)
        for b in range(bands):
            here = slice(b * pixels, (b + 1) * pixels)
            ridge = ground.ridge[b].astype(np.float32)
            away = L[here] - ground.mean[b].astype(np.float32)
            pulled = pull[0][here] - away @ ridge
            used = obs.row_observed[here] > 0
            L[here] += solve_rows(
                pull.grams[0][here], pulled, ground.ridge[b], used, obs.threads
            )
    return L


def _weighed(
    obs: Grouped,
    L: Array,
    ground: Ground,
    wider: float,
) -> Pull:
    """A pass over a block: what pulls at each row of L, and its Gram matrices. Thresholds are in
    standard deviations of the noise.
    """
    R = ground.R.astype(np.float32)
    pixels = len(L) // len(ground.deviation)
    reach = wider * DEVIATION * REACH["cauchy"]
    rule = Cauchy(reach * np.repeat(ground.deviation, pixels), np.ones(len(R)))
    return obs.products(L, R, rule, Q=OWN, Qw=pairs(R))


def _stored(Y: Array) -> Array:
    return Y if Y.dtype in STORED else Y.astype(np.float32)

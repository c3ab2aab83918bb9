"""The ground of a series of scenes, learned from a few thousand pixels: a screen by time, the time
factors, the dates that show no ground, and how far off it all may be.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..._rows import equal
from ..._work import Outcome, Progress, Tell, silent
from ...linalg import Factors
from ...methods.noise import unlike_members
from ...methods.noisy import Noise
from ...weights import Array
from ..outcome import noisy_fit
from .ground import (
    CLEAR,
    FEW,
    Ground,
    Sample,
    cloud_mask,
    deviations,
    fit_pixels,
    modeled,
    moved,
    observed,
    prior,
    sampled,
)
from .look import Look
from .residuals import best_part, line
from .screen import components, screened
from .seasons import seasons

BRIGHT = 3.0  # standard deviations that an overcast date is brighter in every band
ANY = 0.1  # of the pixels are hidden where clouds do not say which
DATES_EACH = 3  # dates to each component: a smaller rank is put to the test
# Dates: of series of 8 with many clouds, simple methods that are told the clouds do better
# (docs/clouds.md).
ENOUGH = 10
WITHIN = 0.6827  # of a Gaussian is within one standard deviation


class Fits(NamedTuple):
    """What all fits have in common."""

    seed: int
    threads: int | None
    tell: Tell


def learn_ground(
    look: Look,
    days: Array,
    rank: int | None,
    seed: int,
    threads: int | None,
    tell: Tell = silent,
    *,
    uncertainty: bool = False,
) -> Ground:
    """Time factors, noise and priors from a few thousand pixels."""
    tell(Progress("reading"))
    sample = sampled(look)
    if not sample.there.any():
        raise ValueError("no pixel of the scenes is observed: all are nodata or masked")
    fits = Fits(seed, threads, tell)
    sample = _without_clouds(sample, days, rank, fits)
    ground, outcome = _best_ground(sample, days, rank, fits)
    hidden = _hidden(sample, ground, seed, threads)
    ground = replace(ground, own=_own_part(sample, ground, hidden))
    surprise = _surprise(sample, ground, hidden, threads) if uncertainty else None
    outcome = _warned_of_few_dates(outcome, ground)
    return replace(ground, limits=sample.limits, outcome=outcome, surprise=surprise)


def _warned_of_few_dates(outcome: Outcome, ground: Ground) -> Outcome:
    usable = int(np.count_nonzero(~ground.estimated))
    if usable >= ENOUGH:
        return outcome
    return outcome.warned(
        f"only {usable} dates show ground: with fewer than {ENOUGH}, clouds over most"
        " of a date may be taken for it; give more dates, or masks of the clouds"
    )


def _best_ground(
    sample: Sample, days: Array, rank: int | None, fits: Fits
) -> tuple[Ground, Outcome]:
    """The ground of the rank that was found; where that is small for so many dates, it is compared
    with a larger one at hidden pixels.
    """
    X, outcome = _fitted(sample, rank, "the ground", fits)
    ground = _of_all_dates(sample, X, days, fits.threads)
    more = int(np.count_nonzero(sample.share > FEW)) // DATES_EACH
    if rank is not None or ground.rank >= more:
        return ground, outcome
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is chosen only if it is sound
        X, other = _fitted(sample, more, "the ground", fits)
    larger = _of_all_dates(sample, X, days, fits.threads)
    if other.sound and _is_better(larger, ground, sample, fits):
        return larger, other
    return ground, outcome


def _is_better(one: Ground, other: Ground, sample: Sample, fits: Fits) -> bool:
    """By the errors at pixels that both call clear."""
    tests = [
        _hidden(sample, ground, fits.seed, fits.threads) for ground in (one, other)
    ]
    both = tests[0].pixels & tests[1].pixels
    errors = [_relative(sample.Y - test.model, both, other.deviation) for test in tests]
    mine, theirs = (float(np.sum(error**2)) for error in errors)
    return mine < theirs


def _without_clouds(
    sample: Sample, days: Array, rank: int | None, fits: Fits
) -> Sample:
    """The sample without clouds that stand out in time."""
    few = components(int(np.count_nonzero(sample.share > FEW)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit that follows is judged
        X, _ = _fitted(sample, min(few, rank or few), "clouds", fits)
    return screened(sample, X, days, fits.threads)


def _fitted(
    sample: Sample, rank: int | None, what: str, fits: Fits
) -> tuple[Factors, Outcome]:
    obs = observed(sample.Y, sample.there, fits.threads)
    # Clouds come in patches: Cauchy was always chosen when all losses were tried, which takes
    # three times longer.
    noise = Noise(unlike_members(obs), equal(1.0, len(sample.Y)), "cauchy")
    X, outcome = noisy_fit(obs, rank, noise, fits.seed, what, fits.tell)
    return _balanced(X), outcome


def _of_all_dates(
    sample: Sample, X: Factors, days: Array, threads: int | None
) -> Ground:
    """The ground, with dates of which too little was seen taken from their neighbours."""
    L, R = X
    found = seasons(R, days, sample.share, L.T @ L / len(L), FEW)
    few = sample.share <= FEW
    ground = prior(sample, L, R, found, few)
    overcast = found.far_off & ~few & _brighter(L, R - found.expected, ground.deviation)
    R = np.where((few | overcast)[:, None], found.expected, R)
    ground = prior(sample, L, R, found, few | overcast)
    if not overcast.any():
        return ground
    # What was learned with clouds for ground is learned again.
    clear = sample.there & ~overcast[:, None, None]
    L = fit_pixels(sample.Y, clear, ground, threads).astype(np.float64)
    return prior(sample, L, R, found, few | overcast)


def _balanced(X: Factors) -> Factors:
    """In double precision, with columns of one size on both sides."""
    L, R = (F.astype(np.float64) for F in X)
    sizes = np.maximum(np.linalg.norm(R, axis=0), 1e-300)
    scale = np.sqrt(np.linalg.norm(L, axis=0) / sizes)
    scale[scale == 0] = 1.0  # scenes of nothing but 0
    return Factors(L / scale, R * scale)


def _brighter(L: Array, change: Array, deviation: Array) -> Array:
    """Whether most pixels of a date are brighter than expected in all bands: leaves change them
    unevenly.
    """
    by_band = L.reshape(len(deviation), -1, L.shape[1])
    # Bands x T.
    middle = np.array([np.median(own @ change.T, axis=0) for own in by_band])
    return np.all(middle > BRIGHT * deviation[:, None], axis=0)


# ---- what hidden pixels tell


class Hidden(NamedTuple):
    """Pixels that are clear, and were hidden where other dates have clouds."""

    pixels: Array  # T x lines x width
    rest: Array  # T x lines x width: what was left to see
    clear: Array  # of the rest
    L: Array  # factors from the rest
    model: Array  # T x bands x lines x width, from the rest


def _hidden(sample: Sample, ground: Ground, seed: int, threads: int | None) -> Hidden:
    rng = np.random.default_rng(seed)
    L = fit_pixels(sample.Y, sample.there, ground, threads)
    model = modeled(L, sample.Y.shape, ground)
    clear = cloud_mask(sample.Y, sample.there, model, ground) == CLEAR
    covered = ~clear[rng.permutation(len(clear))]
    if covered[~ground.estimated].mean() < FEW:  # nearly nothing is: any pixels, then
        covered = rng.random(clear.shape) < ANY
    rest = sample.there & ~covered
    known = clear & ~ground.estimated[:, None, None]
    L = fit_pixels(sample.Y, rest, ground, threads)
    model = modeled(L, sample.Y.shape, ground)
    return Hidden(known & covered, rest, known & ~covered, L, model)


def _relative(X: Array, pixels: Array, deviation: Array) -> Array:
    """Values at some pixels, n x bands, in units of these deviations."""
    return np.asarray(np.moveaxis(X, 1, -1)[pixels] / deviation)


def _own_part(sample: Sample, ground: Ground, hidden: Hidden) -> float:
    """How much of the residuals before and after a cloud to add."""
    residual = sample.Y - hidden.model
    lines = line(residual, hidden.clear, ground.seasons.days)
    return best_part(
        *(_relative(X, hidden.pixels, ground.deviation) for X in (residual, lines))
    )


def _surprise(
    sample: Sample, ground: Ground, hidden: Hidden, threads: int | None
) -> Array:
    """Errors at hidden pixels, in units of what the model expects of them: for each band, what two
    thirds stay below, as one deviation of a Gaussian.
    """
    if not hidden.pixels.any():
        return np.ones(sample.bands)
    model = moved(sample.Y, hidden.model, hidden.clear, ground)
    unknown = deviations(sample.Y, hidden.rest, hidden.L, ground, threads)
    error, expected = (
        np.moveaxis(X, 1, -1)[hidden.pixels] for X in (sample.Y - model, unknown)
    )
    # what is left of the noise of these pixels themselves is no error of the ground
    ratios = np.abs(error) / np.hypot(expected, ground.deviation)
    return np.asarray(np.quantile(ratios, WITHIN, axis=0))

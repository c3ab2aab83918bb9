"""The ground of a series of scenes, learned from a few thousand pixels: a screen by time, dates in a
shadow, the time factors, the dates that show no ground, and what is to be put under clouds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..._progress import FitFailed, Progress, Tell, silent
from ..._rows import equal
from ..._work import Outcome
from ...linalg import Factors
from ...methods.noise import unlike_members
from ...methods.noisy import Noise
from ...result import Status
from ...weights import Array
from ..outcome import noisy_fit
from .believe import harmful, helpful
from .bright import (
    Judged,
    agreed,
    bright_limit,
    convincing,
    gaining,
    gains,
    outshines,
)
from .colours import palettes
from .contest import Filling, contested
from .ground import (
    CLEAR,
    CLOUD,
    FEW,
    Ground,
    Sample,
    away_from_others,
    brightest,
    cloud_mask,
    first_mask,
    fit_pixels,
    observed,
    prior,
    sampled,
    second_mask,
    smallest,
)
from .look import Look
from .mixed import Clouds, learned_clouds
from .screen import MANY, Screened, screened
from .seasons import seasons
from .shades import Shades, shades, without_overcast

BRIGHT = 3.0  # standard deviations that an overcast date is brighter in every band
JUDGED = 1250  # pixels that the ways to fill are learned from and judged by
SCREENS = 4  # at most, that are looked at for dates that are mostly cloud
ROUNDS = 3  # of weighing, and finding clouds
TRIED = 2  # times, without what is bright: on all dates, and on those that gain by it
# Nats for a value, that all dates gain on average by leaving haze out: errors are 2 % smaller. What is
# tried is judged once more; a smaller number costs time.
WORTH_A_TRY = 0.02
FEWEST = 5  # dates that show ground: with fewer, nobody can tell one from a cloud
HARDLY = 0.85  # of the error of one value for all pixels is left: the other dates tell hardly more
WHOLE = 0.95  # of what was seen of a date is called clear: no cloud was found on it
MUCH = 0.2  # of the picture, on a date, is likely ground
LARGE = 0.5  # of a date was seen: if less was given, masks have taken its clouds


class Fits(NamedTuple):
    """What all fits have in common."""

    days: Array  # T
    rank: int | None
    seed: int
    threads: int | None
    tell: Tell


class Learned(NamedTuple):
    """The ground, and how it came about."""

    ground: Ground
    dark: Shades
    judged: Judged
    undecided: Array  # T: dates of which what is bright may be cloud
    likely: Array  # T x lines x width: ground, even by a lenient screen
    lenient: bool  # whether all else was taken for cloud


def learn_ground(
    look: Look,
    days: Array,
    rank: int | None,
    seed: int,
    threads: int | None,
    tell: Tell = silent,
) -> Ground:
    """Time factors, noise and priors from a few thousand pixels."""
    tell(Progress("reading"))
    sample = sampled(look)
    if not sample.there.any():
        raise ValueError("no pixel of the scenes is observed: all are nodata or masked")
    fits = Fits(days, rank, seed, threads, tell)
    learned = _without_haze(sample, _learned(sample, fits), fits)
    learned = _without_bright(sample, learned, fits)
    masked = look.seen is not None and not sample.there.all()
    outcome = _warned(learned, sample, masked)
    outcome = _named(outcome, look, sample)
    return replace(learned.ground, limits=sample.limits, outcome=outcome)


def _named(outcome: Outcome, look: Look, sample: Sample) -> Outcome:
    """With a word about what may stand for nothing, where no value was named that does."""
    if look.nodata is not None or not np.isfinite(sample.Y).all():
        return outcome
    least = sample.Y.min()
    empty = np.all(least == sample.Y, axis=1) & sample.there
    dates = np.flatnonzero(empty.mean((1, 2)) > FEW)
    if not len(dates) or empty.sum() == sample.there.sum():
        return outcome
    numbers = ", ".join(str(t + 1) for t in dates)
    return outcome.warned(
        f"scenes {numbers}: many pixels are {least:g} in all bands, and no nodata value"
        " is given; if nothing was observed there, name that value, or mask them"
    )


def _learned(
    sample: Sample,
    fits: Fits,
    limit: Array | None = None,
    lenient: bool = False,
) -> Learned:
    """The ground of a sample, without what outshines a limit, if there is one, by a screen that may be
    lenient.
    """
    fits.tell(Progress("finding clouds"))
    given, seen = sample.share, sample.there
    if limit is not None:
        sample = sample.without(outshines(sample.Y, limit))
    found, dark, covered = _shown(sample, fits.days, given, lenient)
    sample = found.left.without(covered[:, None, None])
    X, outcome = _fitted(sample, "the ground", fits)
    ground = _of_all_dates(sample, X, fits.days, fits.threads)
    ground = replace(ground, shaded=covered, bright=limit, outcome=outcome)
    fits.tell(Progress("weighing ways to fill"))
    ground, judged = _with_filling(sample, ground, fits, seen)
    undecided = np.zeros(len(given), bool)
    likely = sample.there & ~found.maybe
    return Learned(ground, dark, judged, undecided, likely, lenient)


def _shown(
    sample: Sample,
    days: Array,
    given: Array,
    lenient: bool,
) -> tuple[Screened, Shades, Array]:
    """What the screen says of a sample, how dark and bright is what it leaves, and T: dates that show nothing
    but shadow or cloud.
    """
    found = _without_clouds(sample, days, lenient)
    ground = found.left.without(found.shadow)
    dark = shades(ground, days, given)
    covered = dark.sure
    if covered.any():
        # Beside a shadow that was taken for the ground, ground is as bright as a cloud: once more.
        sample = sample.without(ground.there & covered[:, None, None])
        found = _without_clouds(sample, days, lenient)
        ground = found.left.without(found.shadow)
        dark = shades(ground, days, given)
        covered = dark.sure | (covered & (ground.share <= FEW))
    # What is left of a date that is mostly cloud is cloud as well, if it is as bright.
    overcast = found.left.share < (1 - MANY) * given
    return found._replace(left=ground), dark, covered | (dark.bright & overcast)


def _without_haze(sample: Sample, first: Learned, fits: Fits) -> Learned:
    """What is learned by a lenient screen, if it tells more of what was seen."""
    Y, there, before = sample.Y, sample.there, first.judged
    left = before.clear & first.likely
    if np.array_equal(left, before.clear):
        return first
    if np.mean(_gains_without(sample, first, left, fits)) < WORTH_A_TRY:
        return first
    try:
        later = _learned(sample, fits, lenient=True)
    except FitFailed:
        return first
    gain = np.mean(gains(Y, there, before, later.judged))
    better = gain > 0 and agreed(Y, before, later.judged) > 1
    return later if better else first


def _gains_without(sample: Sample, first: Learned, left: Array, fits: Fits) -> Array:
    """T: by how much shorter dates would be if only so much were clear: only what is put under clouds is
    learned again.
    """
    filling = _filling(sample, left, first.ground, fits.rank)
    return gains(sample.Y, sample.there, first.judged, Judged(filling, left))


def _without_bright(sample: Sample, first: Learned, fits: Fits) -> Learned:
    """What is learned without the bright pixels of all dates, or of those that gain by it, if it tells
    more of what was seen.
    """
    Y, there, before = sample.Y, sample.there, first.judged
    limit = np.full(len(Y), bright_limit(Y, there, smallest(Y)))
    left = before.clear & ~outshines(Y, limit)
    if not FEW < left.sum() / max(before.clear.sum(), 1) < 1 - FEW:
        return first
    if not gaining(_gains_without(sample, first, left, fits)).any():
        return first
    for _ in range(TRIED):
        try:
            later = _learned(sample, fits, limit, first.lenient)
        except FitFailed:
            break
        gain = gains(Y, there, before, later.judged)
        if convincing(gain, agreed(Y, before, later.judged)):
            return later
        limit = np.where(gaining(gain), limit, np.inf)
        if np.isinf(limit).all():
            break
    return first._replace(undecided=gaining(gain))


def _without_clouds(sample: Sample, days: Array, lenient: bool) -> Screened:
    """By the screen; and again without dates that it took clouds for the ground of, as long as there
    are such: each may have hidden another one.
    """
    found = screened(sample, days, lenient)
    for _ in range(SCREENS):
        left = without_overcast(found.left, days)
        taken = found.left.there & ~left.there
        if not taken.any():
            break
        sample = sample.without(taken)
        found = screened(sample, days, lenient)
    return found


def _with_filling(
    sample: Sample,
    ground: Ground,
    fits: Fits,
    seen: Array,
) -> tuple[Ground, Judged]:
    """With what is put under clouds: learned from what robust least squares leave as clear, and again
    from what is clear then; and what is, by it.
    """
    Y, there, threads = sample.Y, sample.there, fits.threads
    clear = first_mask(Y, there, there, ground, threads) == CLEAR
    ground = replace(ground, brightest=brightest(Y, clear))
    mask = first_mask(Y, there, there, ground, threads)
    for _ in range(ROUNDS):
        clear = mask == CLEAR
        filling = _filling(sample, clear, ground, fits.rank)
        ground = replace(ground, filling=filling, colours=None, clouds=None)
        unlike = second_mask(Y, mask, clear, ground)
        clouds = _clouds(Y, seen, clear, ground, filling)
        if clouds is not None:
            found = second_mask(Y, mask, clear, replace(ground, clouds=clouds))
            harm = harmful(Y, unlike, found, filling)
            clouds = clouds._replace(clouded=clouds.clouded | harm)
            ground = replace(ground, clouds=clouds)
            unlike = second_mask(Y, mask, clear, ground) if harm.any() else found
        # Colours of what does not stand out: else they would reach, step by step, to a cloud.
        colours = palettes(Y, unlike == CLEAR, smallest(Y))
        ground = replace(ground, colours=helpful(Y, unlike, colours, filling))
        mask = second_mask(Y, mask, clear, ground)
    return ground, Judged(filling, mask == CLEAR)


def _clouds(
    Y: Array,
    seen: Array,
    clear: Array,
    ground: Ground,
    filling: Filling,
) -> Clouds | None:
    """The colours of clouds, those among them that the screen has found."""
    T, bands = Y.shape[:2]
    away, deviation = away_from_others(Y, clear, filling)
    out = cloud_mask(Y, seen, away, ground) == CLOUD
    known = seen & ~filling.ways.hidden[:, None, None]
    y, far, sd = (one.reshape(T, bands, -1) for one in (Y, away, deviation))
    return learned_clouds(y, known.reshape(T, -1), far, sd, out.reshape(T, -1))


def _filling(
    sample: Sample,
    clear: Array,
    ground: Ground,
    rank: int | None,
) -> Filling:
    """What is put under clouds, by what predicts the pixels that are clear; from the one that the
    ground has, if any.
    """
    T, bands = sample.Y.shape[:2]
    n = clear[0].size
    some = slice(None, None, max(1, n // JUDGED))
    return contested(
        sample.Y.reshape(T, bands, n)[..., some].astype(np.float64),
        clear.reshape(T, n)[:, some],
        ground.seasons.days,
        ground.estimated,
        least=smallest(sample.Y),
        rank=rank,
        before=ground.filling,
    )


def _warned(learned: Learned, sample: Sample, masked: bool) -> Outcome:
    """With a word about what is not known, and would be by masks."""
    ground, dark, judged = learned.ground, learned.dark, learned.judged
    Y, share = sample.Y, sample.share
    outcome, filling = ground.outcome, judged.filling
    clear = judged.clear.mean((1, 2))
    whole = (share > LARGE) & (clear > WHOLE * share)
    untold = judged.untold(Y)
    some = ~filling.ways.hidden
    usable = int(np.count_nonzero(some))
    if usable < FEWEST:
        outcome = outcome.warned(
            f"only {usable} dates show ground: with fewer than {FEWEST}, clouds over"
            " most of a date may be taken for it; give more dates, or masks of the"
            " clouds",
            Status.UNDETERMINED,
        )
    if ground.bright is not None and not masked:
        outcome = outcome.warned(
            "what is bright in all bands was taken for cloud, since the dates tell more"
            " of each other without it; snow may be among it, and masks of the clouds"
            " would be surer"
        )
    found = {
        "what is clear there is far from what the other dates say; snow, haze or clouds"
        " may have been taken for ground": learned.undecided
        | (whole & filling.doubtful & (untold > HARDLY)),
        "darker than the dates around, where the ground is brightest; haze and shadow"
        " may have been taken for ground": some
        & (dark.unsure | (dark.scarce & (untold >= 1))),
        "a part looks like ground, but differs so much from the other dates that all was"
        " taken for cloud, and is estimated": ~some
        & ~ground.estimated
        & (learned.likely.mean((1, 2)) > MUCH),
    }
    for text, dates in found.items():
        if dates.any():
            numbers = ", ".join(str(t + 1) for t in np.flatnonzero(dates))
            outcome = outcome.warned(f"scenes {numbers}: {text}")
    return outcome


def _fitted(
    sample: Sample,
    what: str,
    fits: Fits,
) -> tuple[Factors, Outcome]:
    obs = observed(sample.Y, sample.there, fits.threads)
    # Clouds come in patches: Cauchy was always chosen when all losses were tried, which takes
    # three times longer.
    noise = Noise(unlike_members(obs), equal(1.0, len(sample.Y)), "cauchy")
    X, outcome = noisy_fit(obs, fits.rank, noise, fits.seed, what, fits.tell)
    return _balanced(X), outcome


def _of_all_dates(
    sample: Sample,
    X: Factors,
    days: Array,
    threads: int | None,
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


def _brighter(
    L: Array,
    change: Array,
    deviation: Array,
) -> Array:
    """Whether most pixels of a date are brighter than expected in all bands: leaves change them
    unevenly.
    """
    by_band = L.reshape(len(deviation), -1, L.shape[1])
    # Bands x T.
    middle = np.array([np.median(own @ change.T, axis=0) for own in by_band])
    return np.all(middle > BRIGHT * deviation[:, None], axis=0)

"""A mixture of noise and outliers at the end of a fit, if hidden entries speak for it: what a robust
loss leaves open, and components that are there for outliers alone, it tells better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations
from .lessons import FAR, Losses, Tried, is_better, mean_gain
from .noisy import Noise, is_gaussian, sweeps
from .plan import Plan
from .planned import POLISH
from .rested import polished, start
from .uneven import scaled_as

# one of so many lessons, and so many sweeps, tell whether the mixture is worth a trial
FEW_OF, FIRST_SWEEPS = 4, 2
# of the loss: components that all together gain less may be there for outliers alone
FOR_OUTLIERS = 0.05


def fewest(ladder: Sequence[Tried], chosen: Tried, bend: float) -> Tried | None:
    """Of lessons with lower and lower ranks, those with the lowest that loses little beside the
    chosen one; None if there is none.
    """
    best = chosen.losses(bend)
    rank = chosen.lessons[0].rank
    lower = [some for some in ladder if some.lessons[0].rank < rank]
    near = [some for some in lower if mean_gain(some.losses(bend), best) < FOR_OUTLIERS]
    return near[-1] if near else None


class Ways(NamedTuple):
    """To fit with a mixture of noise and outliers, beside the layers that are planned."""

    rested: int | None = (
        None  # where the closed loop came to rest, if residuals are Gaussian
    )
    fewer: Tried | None = (
        None  # components may be there for outliers alone: without these
    )
    asked: bool = False


USUAL = Ways()


def with_mixture(
    plan: Plan,
    tried: Tried,
    bend: float,
    ways: Ways = USUAL,
) -> tuple[Plan, Tried]:
    """The plan with a mixture of noise and outliers at the end: after the layers, after layers with
    fewer components, or after the closed loop at the rank where it came to rest.

    It is right for Gaussian noise, and taken then unless it is clearly worse; else only if it is
    clearly better, or asked for."""
    plain = tried.losses(bend)
    tried = scaled_as(tried, plan)  # residuals of a fit with scales tell them better
    uneven = not tried.lessons[0].noise.is_even
    gaussian = ways.rested is not None or (uneven and evenly_gaussian(tried))
    sound = [
        way
        for way in _mixtures(plan, tried, bend, ways, gaussian)
        if np.isfinite(way[1].errors).all()
    ]
    if not sound:
        return plan, tried
    best = min(sound, key=lambda way: _loss_found(way[1].losses(bend), plain))
    mixture = best[1].losses(bend)
    usual = gaussian and not is_better(mixture, plain)
    # of two that are as near, the one with fewer components
    simpler = best[0].rank < plan.rank and mean_gain(plain, mixture) > 0
    taken = ways.asked or usual or simpler or is_better(plain, mixture)
    return best if taken else (plan, tried)


def _mixtures(
    plan: Plan, tried: Tried, bend: float, ways: Ways, gaussian: bool
) -> Iterator[tuple[Plan, Tried]]:
    """Plans with a mixture, and lessons fitted so."""
    rested, fewer = ways.rested, ways.fewer
    whole = ways.asked or rested is not None
    after = all_mixed(tried) if whole else mixed_if_good(tried, bend, gaussian)
    mixed_plan = replace(plan, polish=True)
    if after is not None:
        yield mixed_plan, after
        again = None if rested is None else all_rested(after, rested, bend)
        if rested is not None and again is not None:
            yield replace(mixed_plan, rank=rested, closed_loop=True), again
    if fewer is not None:
        lower = Tried.of(scaled_as(fewer, plan).lessons, plan.layers)
        found = mixed_if_nearer(lower, tried, bend)
        if found is not None:
            yield replace(mixed_plan, rank=lower.lessons[0].rank), found


def evenly_gaussian(tried: Tried) -> bool:
    """Whether residuals are those of Gaussian noise and outliers, in units of the noise of their
    row and column.
    """
    pairs = zip(tried.lessons, tried.fits, strict=True)
    samples = [(x.rest.telling, x.noise, X) for x, X in pairs]
    found = [some.residual(X) / noise.at(some) for some, noise, X in samples]
    return is_gaussian(np.abs(np.concatenate(found)))


def promises(tried: Tried, bend: float) -> bool:
    """Whether the first sweeps with the mixture gain anything in a few of the lessons: else more
    are not clearly better in all of them.
    """
    some = _few_of(tried)
    after = all_mixed(some, FIRST_SWEEPS)
    return mean_gain(some.losses(bend), after.losses(bend)) > 0


def mixed_if_good(tried: Tried, bend: float, usual: bool) -> Tried | None:
    """As `all_mixed`; None where a few of the lessons gain nothing: or, where the mixture is usual,
    lose clearly."""
    if not (usual or promises(tried, bend)):
        return None
    some = _few_of(tried)
    first, before = all_mixed(some), some.losses(bend)
    after = first.losses(bend)
    worse = is_better(after, before) if usual else mean_gain(before, after) <= 0
    return None if worse else _completed(first, tried)


def mixed_if_nearer(lower: Tried, than: Tried, bend: float) -> Tried | None:
    """As `all_mixed`; None where a few of the lessons are no nearer so than others are."""
    first = all_mixed(_few_of(lower))
    gain = mean_gain(_few_of(than).losses(bend), first.losses(bend))
    return None if gain <= 0 else _completed(first, lower)


def _completed(first: Tried, tried: Tried) -> Tried:
    """Of these lessons the first are fitted with the mixture: and so are the others."""
    count = len(first.lessons)
    return first.beside(all_mixed(Tried(tried.lessons[count:], tried.fits[count:])))


def all_mixed(tried: Tried, most: int = POLISH) -> Tried:
    """The same lessons, with fits after so many sweeps with the mixture."""
    pairs = zip(tried.lessons, tried.fits, strict=True)
    return tried._replace(fits=[mixed(x.rest, X, x.noise, most) for x, X in pairs])


def all_rested(tried: Tried, rank: int, bend: float) -> Tried | None:
    """The same lessons, with fits of the closed loop at this rank, and the mixture; None where a few
    of them say already that it is worse.
    """
    some = _few_of(tried)
    count, usual = len(some.lessons), some.losses(bend)
    fits = [rested_at(x.rest, rank, x.noise) for x in some.lessons]
    if is_better(some._replace(fits=fits).losses(bend), usual):
        return None
    fits += [rested_at(x.rest, rank, x.noise) for x in tried.lessons[count:]]
    return tried._replace(fits=fits)


def _few_of(tried: Tried) -> Tried:
    """Enough of the lessons to see whether more is worth a trial."""
    few = -(-len(tried.lessons) // FEW_OF)
    return Tried(tried.lessons[:few], tried.fits[:few])


def _loss_found(losses: Losses, others: Losses) -> float:
    """The mean where not both miss by far."""
    found = np.minimum(losses.each, others.each) < FAR * others.usual
    return float(losses.each[found].mean()) if found.any() else np.inf


def mixed(obs: Observations, X: Factors, noise: Noise, most: int = POLISH) -> Factors:
    """X after sweeps with the mixture of noise and outliers."""
    for step in sweeps(obs, X, replace(noise, loss="mixture"), most):
        X = step.X
    return X


def rested_at(obs: Observations, rank: int, noise: Noise) -> Factors:
    """Where the closed loop comes to rest at this rank, and then the mixture."""
    begin = start(obs, rank, 0)
    *_, last = polished(obs, begin, replace(noise, loss="mixture"), POLISH)
    return last.X

"""Data that may be exact: the closed loop, and other ways where that has no certificate.

What is found counts as exact only with a certificate; without one it is where a noisy fit begins to
decide."""

from __future__ import annotations

import math
from collections.abc import Generator
from itertools import islice
from typing import TypeVar

import numpy as np

from .._rows import is_here
from ..linalg import Factors, balanced, gram
from ..observations.base import Observations
from ..observations.heldout import part_of
from ..weights import Array, Sides
from .centre import centre
from .certificate import (
    NEARLY,
    ON_THEIR_WAY,
    OVERSAMPLED,
    Certificate,
    agreement_border,
    certify,
)
from .closed_loop import closed_loop
from .consensus import WIDE, finished, on_what_agrees, promising, repaired
from .few_samples import few_sampled, likely_rank, rank_to_look_for, wants_newton
from .lessons import part_at
from .lopsided import is_one_sided, moved_start, repeated, without_values
from .rank import Found, Test, beyond, columns, find_rank, first_guess, settled
from .rested import first_threshold, start
from .start import that_fit
from .step import Step
from .thresholds import FEW_GOOD, HIGH, LOW

MOST_RANK = 15  # that is looked for at first ...
CROWDED = 0.6  # ... and if more than this part of it stands out at once, more
HIGHEST_RANK = 150
TOO_LOW = (
    "components beyond rank {} stand out: rank {} leaves residuals that are"
    " {:.2g} times smaller; is the rank too low?"
)
STANDS_OUT = 1.1  # times what unrelated entries could have: a component is there
FAR_BETTER = 0.1  # times the residuals: a rank that leaves no more is meant by the data
MORE_STEPS = 8  # where more than ON_THEIR_WAY of the entries still come nearer
# of the scale of the data: typical residuals below this may be those of exact data
SMALL = 1e-3
# steps of the closed loop, where entries are few: what it does not solve by then, others may
AT_FIRST = 60
NEARLY_THERE = 30  # more of them, where many entries nearly agree by then
# inliers at rest: of Gaussian noise, 0.87 are within the threshold
MANY_OUTLIERS = 0.78
# entries: with more, other ways to exact data are tried only where the noisy fit is poor
FEW_TO_TRY = 50_000
# lines of the longer side, for each of the shorter one: enough to tell a rank by
LINES_EACH = 10
# times: components that are so much smaller than the one before may be too many
GAP = 20.0


Ending = TypeVar("Ending")


def exactly(
    obs: Observations,
    rank: int | None,
    outliers: Sides,
    tol: float,
    seed: int,
    begin: tuple[Factors, float] | None,
    *,
    thorough: bool = True,
) -> Generator[Step, None, tuple[Found, Certificate | None]]:
    """What is found if the data are taken for exact, with its certificate if it has one: by the
    closed loop, and in other ways if thorough."""
    run = exact(obs, rank, outliers, tol, seed, begin)
    few = rank is not None and wants_newton(obs, rank)
    found, ended = (
        (yield from first_steps(run, AT_FIRST)) if few else ((yield from run), True)
    )
    if not ended and promising(obs, found.X, tol):
        found, ended = yield from first_steps(run, NEARLY_THERE)
    found, certificate = yield from proven(obs, found, outliers, tol)
    if certificate is None or not certificate.holds:
        if thorough and obs.n_observed <= FEW_TO_TRY:
            fit = yield from other_ways(obs, rank, found, outliers, tol, seed)
            if fit is not None:
                return fit
        if not ended:
            found, certificate = yield from proven(obs, (yield from run), outliers, tol)
    return found, certificate


def exact(
    obs: Observations,
    rank: int | None,
    outliers: Sides,
    tol: float,
    seed: int,
    begin: tuple[Factors, float] | None = None,
    *,
    good: float = LOW,
) -> Generator[Step, None, Found]:
    """The closed loop, with the rank given or found. `good` as there."""
    if begin is not None and rank is None:
        X, zeta = begin
        yield Step(X.L, X.R, zeta, math.nan, stage="start")
        test, most = Test(0, (), math.nan, X.L.shape[1]), min(MOST_RANK, *obs.shape)
        return (
            yield from find_rank(
                obs, X, zeta, test, most=most, tol=tol, outliers=outliers, good=good
            )
        )
    if rank is not None:
        origin = (
            begin
            if begin is not None and begin[0].L.shape[1] == rank
            else start(obs, rank, seed, more=that_fit(rank))
        )
        yield Step(*origin[0], origin[1], math.nan, stage="start")
        found = yield from settled(
            obs, *origin, tol=tol, outliers=outliers, good=good, drop=True
        )
        if found.settled or found.X.L.shape[1] == rank:
            return found
        return (yield from settled(obs, *origin, tol=tol, outliers=outliers, good=good))
    middle = centre(obs)
    zeta = first_threshold(obs, middle)
    most = min(MOST_RANK, *obs.shape)
    X, first = first_guess(obs, zeta, middle, most, seed)
    highest = highest_rank(obs)
    while first.added > CROWDED * most and most < highest:
        most = min(3 * most, highest)
        X, first = first_guess(obs, zeta, middle, most, seed)
    most = max(most, highest) if most > MOST_RANK else most
    yield Step(X.L, X.R, zeta, math.nan, stage="start")
    return (
        yield from find_rank(
            obs, X, zeta, first, most=most, tol=tol, outliers=outliers, good=good
        )
    )


def proven(
    obs: Observations,
    found: Found,
    outliers: Sides,
    tol: float,
) -> Generator[Step, None, tuple[Found, Certificate | None]]:
    """What was found with its certificate, if residuals are small or much of it agrees. Open lines
    are fitted anew.

    Where that does not hold, components beyond a wide gap are dropped first: too many of them end
    as outliers that are explained. What is not mended by it is left as it was."""
    small = found.settled or found.residual <= SMALL * obs.scale
    if not small and not promising(obs, found.X, tol):
        return found, None
    certificate = certify(obs, found.X, tol)
    if (
        certificate.on_their_way > ON_THEIR_WAY
        and certificate.oversampling >= OVERSAMPLED
    ):
        X = found.X
        for step in islice(
            closed_loop(obs, X, certificate.border, outliers=outliers), MORE_STEPS
        ):
            yield step
            X = Factors(step.L, step.R)
        nearer = certify(obs, X, tol)
        if nearer.holds:
            found, certificate = found._replace(X=X), nearer
        elif certificate.holds:
            # the last step is where a run ends
            yield step._replace(L=found.X.L, R=found.X.R)
    X, better = yield from repaired(obs, found.X, certificate, tol)
    if better.holds:
        if not found.settled:
            X, better = yield from finished(obs, X, better, tol)
        return found._replace(X=X), better
    keep = before_gap(found.X)
    if keep is None:
        return found, certificate
    size = np.abs(obs.sample.residual(keep))
    zeta = 6 * float(np.quantile(size, 0.9 * certificate.agreeing))
    again = yield from settled(obs, keep, zeta, tol=tol, outliers=outliers)
    X, better = yield from repaired(obs, again.X, certify(obs, again.X, tol), tol)
    if not better.holds:
        return found, certificate
    rank = found.X.L.shape[1]
    dropped = Test(rank, (), math.nan, keep.L.shape[1] - rank)
    return again._replace(X=X, tests=(*found.tests, dropped)), better


def before_gap(X: Factors) -> Factors | None:
    """X up to the widest gap between its singular values; None if there is no wide one."""
    Z = balanced(*X)
    values = np.diag(gram(Z.L))
    ratios = values[:-1] / np.maximum(values[1:], 1e-300)
    if not np.any(ratios > GAP):
        return None
    keep = int(ratios.argmax()) + 1
    return columns(Z, slice(keep))


def other_ways(
    obs: Observations,
    rank: int | None,
    found: Found,
    outliers: Sides,
    tol: float,
    seed: int,
) -> Generator[Step, None, tuple[Found, Certificate] | None]:
    """What is found, and proven, where the closed loop has no certificate; None if nothing is.

    Of a tall matrix some lines are tried first: where nothing is proven of them, nothing is of all.
    """
    places = fewer_lines(obs, seed)
    if places is not None:
        part = part_at(obs, *places, dtype=obs.dtype)
        X = Factors(*(F[some] for F, some in zip(found.X, places, strict=True)))
        few = other_ways(part, rank, found._replace(X=X), outliers, tol, seed)
        if ended(few) is None:
            return None
    for way in (lopsided, otherwise):
        fit = yield from way(obs, rank, found, outliers, tol, seed)
        if fit is not None:
            return fit
    return None


def otherwise(
    obs: Observations,
    rank: int | None,
    found: Found,
    outliers: Sides,
    tol: float,
    seed: int,
) -> Generator[Step, None, tuple[Found, Certificate] | None]:
    """What is found in other ways where the closed loop has no certificate; None if nothing is.

    The steps are bounded, and not counted.
    """
    if found.inliers < MANY_OUTLIERS:
        run = exact(obs, rank, outliers, tol, seed, good=FEW_GOOD)
        second, _ = yield from first_steps(run, AT_FIRST, "again")
        second, certificate = yield from proven(obs, second, outliers, tol)
        if certificate is not None and certificate.holds:
            return second, certificate
    most = rank_to_look_for(obs)
    if rank is None and wants_newton(obs, most):
        part = _enough_to_tell(obs, seed)
        rank = likely_rank(part, start(part, most, seed)[0])
    if rank is not None and wants_newton(obs, rank):
        fit = yield from few_sampled(obs, start(obs, rank, seed)[0], tol)
        if fit is not None:
            return Found(fit[0], True, 0.0, found.tests), fit[1]
    return None


def _enough_to_tell(obs: Observations, seed: int) -> Observations:
    """As many lines of the longer side as tell a rank."""
    places = fewer_lines(obs, seed, far_more=1)
    return obs if places is None else part_at(obs, *places, dtype=obs.dtype)


def lopsided(
    obs: Observations,
    rank: int | None,
    found: Found,
    outliers: Sides,
    tol: float,
    seed: int,
) -> Generator[Step, None, tuple[Found, Certificate] | None]:
    """What is found if frequent values, or all that lies on one side, are outliers; None if nothing
    is.

    As in `otherwise` steps are bounded, and not counted. What is left out must disagree in the end.
    """
    values = repeated(obs)
    rest = without_values(obs, values) if values else None
    if rest is not None:
        second, _ = yield from first_steps(
            exact(rest, rank, outliers, tol, seed), AT_FIRST, "again"
        )
        second, certificate = yield from proven(rest, second, outliers, tol)
        if certificate is not None and certificate.holds:
            certificate = certify(obs, second.X, tol)
            if certificate.holds:
                return second._replace(
                    missing=repeated(obs, second.X, certificate.border)
                ), certificate
    begin = (
        moved_start(obs, rank, MOST_RANK, seed) if is_one_sided(obs, found.X) else None
    )
    if begin is not None:
        run = exact(obs, rank, outliers, tol, seed, begin)
        second, _ = yield from first_steps(run, AT_FIRST, "again")
        second, certificate = yield from proven(obs, second, outliers, tol)
        if certificate is not None and certificate.holds:
            return second, certificate
    return None


def exact_after_all(
    obs: Observations,
    step: Step,
    tol: float,
) -> Generator[Step, None, Certificate | None]:
    """Least squares on what a fit meets that a prior holds: where residuals then fall far below,
    data may be exact.

    Two sweeps tell; what is not proven is left, and the last step is where the fit was.
    """
    X = step.X
    if X.L.shape[1] > determined_rank(obs) or not is_here(X.L):
        return None
    size, border = sizes_of(obs, X), agreement_border(obs, tol)
    # a start, where it is the last step, has counted none
    inliers = 1.0 if math.isnan(step.inliers) else step.inliers
    before, near = np.quantile(size, [LOW, HIGH * inliers])
    wide = max(WIDE * float(near), NEARLY * border)
    for k, nearer in enumerate(on_what_agrees(obs, X, wide, border)):
        yield nearer._replace(stage="again")
        X = nearer.X
        typical = float(np.quantile(sizes_of(obs, X), LOW))
        if k == 1 and typical > max(FAR_BETTER * before, border):
            break
    else:
        X, certificate = yield from repaired(obs, X, certify(obs, X, tol), tol)
        if certificate.holds:
            return certificate
    yield step
    return None


def one_more(
    obs: Observations,
    last: Step,
    outliers: Sides,
    tol: float,
    seed: int,
) -> Generator[Step, None, Certificate | None]:
    """A certificate for one component more than a noisy fit has; None if there is none. Where one value
    stands in many places, components stand out too little to be looked for.

    As in `otherwise` steps are bounded, and not counted."""
    run = exact(obs, last.L.shape[1] + 1, outliers, tol, seed)
    found, _ = yield from first_steps(run, AT_FIRST, "again")
    _, certificate = yield from proven(obs, found, outliers, tol)
    return certificate if certificate is not None and certificate.holds else None


def too_low(
    obs: Observations,
    rank: int,
    X: Factors,
    outliers: Sides,
    tol: float,
    seed: int,
) -> tuple[str, ...]:
    """A sentence if a higher rank leaves far smaller residuals than X has; of large
    data, a part is looked at.
    """
    part = part_of(obs, seed)
    if part is not obs:
        *_, last = settled(part, *start(part, rank, seed), tol=tol, outliers=outliers)
        X = last.X
    before = float(np.quantile(sizes_of(part, X), LOW))
    if before < SMALL * part.scale or beyond(part, X) < STANDS_OUT:
        return ()
    *_, last = islice(exact(part, None, outliers, tol, seed), AT_FIRST)
    more, after = last.L.shape[1], float(np.quantile(sizes_of(part, last.X), LOW))
    if not rank < more <= determined_rank(part) or after > FAR_BETTER * before:
        return ()
    return (TOO_LOW.format(rank, more, before / max(after, 1e-300)),)


def first_steps(
    run: Generator[Step, None, Found],
    most: int,
    stage: str | None = None,
) -> Generator[Step, None, tuple[Found, bool]]:
    """So many steps of a run, where it is then, and whether it ended; otherwise it can
    be gone on with.
    """
    for _ in range(most):
        try:
            step = next(run)
        except StopIteration as end:
            return end.value, True
        yield step if stage is None else step._replace(stage=stage)
    return Found(Factors(step.L, step.R), False, step.residual, (), step.inliers), False


def ended(steps: Generator[Step, None, Ending]) -> Ending:
    """What a run found, at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def determined_rank(obs: Observations) -> int:
    """The highest with at least twice as many entries as free numbers."""
    return obs.n_observed // (2 * sum(obs.shape))


def highest_rank(obs: Observations) -> int:
    """That is looked for where many components stand out."""
    return max(1, min(determined_rank(obs), min(obs.shape) // 2, HIGHEST_RANK))


def fewer_lines(
    obs: Observations, seed: int, far_more: int = 2
) -> tuple[Array, Array] | None:
    """The rows and columns of so many lines of the longer side as tell a rank; None where there
    are not so many times more.
    """
    n, across = max(obs.shape), min(obs.shape)
    count = LINES_EACH * across
    if obs.groups is not None or far_more * count >= n or not obs.is_here:
        return None
    lines = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    return places_of(obs, lines)


def places_of(obs: Observations, lines: Array) -> tuple[Array, Array]:
    """The rows and columns of these lines of the longer side."""
    rows, cols = map(np.arange, obs.shape)
    return (lines, cols) if len(rows) >= len(cols) else (rows, lines)


def sizes_of(obs: Observations, X: Factors) -> Array:
    """How large the residuals of some entries are."""
    return np.abs(obs.sample.residual(X))

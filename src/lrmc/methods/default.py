"""The default: notice which kind of data this is, and do what is right for it.

Exact data (low rank plus outliers) are recovered to any accuracy by rejection: the closed loop. On
noisy data it comes to rest at the noise; then layers of robust least squares take over, whose
numbers are learned, and whatever else is to be decided is decided, on hidden entries. Of data with
many long lines, some of these lines tell which kind it is."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._rows import is_here
from ..linalg import Factors, balanced, gram
from ..observations.base import Observations
from ..observations.heldout import can_hold_out, part_of
from ..result import Status
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
from .closed_loop import FEW_GOOD, HIGH, LOW, closed_loop
from .consensus import WIDE, finished, on_what_agrees, promising, repaired
from .decide import decide
from .family import caught
from .few_samples import few_sampled, likely_rank, rank_to_look_for, wants_newton
from .lessons import PART, Lesson, part_at
from .lopsided import is_one_sided, moved_start, repeated, without_values
from .noisy import Loss, Noise, is_gaussian
from .noisy_layers import rank_for
from .plan import Aim, Decided, Plan, Score
from .planned import Fitted, carried, fit, grown_in
from .rank import Found, Test, beyond, columns, find_rank, first_guess, settled
from .rested import first_threshold, start
from .step import Step

MOST_RANK = 15  # that is looked for at first ...
CROWDED = 0.6  # ... and if more than this part of it stands out at once, more
HIGHEST_RANK = 150
TOO_LOW = (
    "components beyond rank {} stand out: rank {} leaves residuals that are"
    " {:.2g} times smaller; is the rank too low?"
)
STANDS_OUT = 1.1  # times what unrelated entries could have: a component is there
FAR_BETTER = 0.1  # times the residuals: a rank that leaves no more is meant by the data
LOWEST = 0.15  # a quantile of the residuals that most outliers do not reach
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
POOR = 0.3  # of the error of simple models: a fit that misses hidden entries by more
# lines of the longer side, for each of the shorter one, and entries: enough to tell by
LINES_EACH, TOLD_BY = 10, 200_000
FAR_MORE = 4  # times as many lines: else all of them are looked at
# times: components that are so much smaller than the one before may be too many
GAP = 20.0
FITS = "schedule_fits"  # in the evidence: whether one does that was learned elsewhere


Ending = TypeVar("Ending")


class HeldOut(NamedTuple):
    """By how much entries that were set aside are missed."""

    typical: float  # a quarter of them by less: what outliers do not reach
    error: float  # in the mean
    simple: float  # in the mean, by medians of rows, or columns

    def times(self, unit: float) -> HeldOut:
        """The same for data that are so many times larger."""
        return HeldOut(*(unit * x for x in self))


@dataclass(frozen=True)
class Findings:
    """What a run found out."""

    status: Status
    regime: str  # "exact" or "noisy"
    evidence: dict[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None  # of exact data
    doubts: tuple[str, ...] = ()  # sentences: why the answer may be wrong
    held_out: HeldOut | None = None  # of noisy data
    plan: Plan | None = None  # of noisy data: what was decided
    fitted: Fitted | None = None  # of noisy data: where the layers ended

    def flipped(self) -> Findings:
        """The same for the transposed matrix."""
        proof = self.certificate
        return (
            self
            if proof is None
            else replace(
                self, certificate=replace(proof, rows=proof.cols, cols=proof.rows)
            )
        )

    def times(self, unit: float) -> Findings:
        """The same for data that are so many times larger."""
        records = {
            name: self.evidence[name]
            for name in ("rank_tests", "table", "taken_as_missing")
            if name in self.evidence
        }
        larger = {
            name: tuple(record.times(unit) for record in some)
            for name, some in records.items()
        }
        held_out = None if self.held_out is None else self.held_out.times(unit)
        return replace(self, evidence=self.evidence | larger, held_out=held_out)


@dataclass(frozen=True)
class Wishes:
    """What was said of noisy data."""

    loss: Loss | None = None  # None: learned
    score: Score = "auto"  # what decisions minimise
    aim: Aim | None = None  # None: to fill gaps where there are any
    plan: Plan | None = None  # what was decided before
    foreign: bool = False  # whether that was for other data
    neighbors: bool = True  # whether all lines can be compared with each other
    noisy: bool = False  # whether it is known that there is noise

    def aim_for(self, obs: Observations) -> Aim:
        """What was asked for, or what makes sense: without gaps there is nothing to fill."""
        if self.aim is not None:
            return self.aim
        return "separate" if obs.fraction == 1 else "fill"


def default(
    obs: Observations,
    rank: int | None,
    *,
    noise: Noise,
    tol: float,
    wishes: Wishes | None = None,
    seed: int = 0,
    begin: tuple[Factors, float] | None = None,
) -> Generator[Step, None, Findings]:
    """Steps until the data are fitted as well as they can be. Without a rank, that is found as
    well.

    `begin` is where an earlier run was, and its threshold.
    """
    wishes = wishes or Wishes()
    if wishes.noisy:
        return (yield from noisy(obs, rank, noise, wishes, seed))
    lines = long_lines(obs, seed) if begin is None else None
    if lines is not None:
        part, here = part_of_lines(obs, lines, noise)
        mine = replace(wishes, neighbors=False, aim=wishes.aim_for(obs))
        done = ended(default(part, rank, noise=here, tol=tol, wishes=mine, seed=seed))
        if done.plan is not None and done.fitted is not None:
            yield from carried(obs, done.plan, done.fitted, noise=noise)
            return replace(done, fitted=None)
    found, certificate = yield from exactly(obs, rank, noise.outliers, tol, seed, begin)
    evidence: dict[str, Any] = {"rank_tests": found.tests}
    if found.missing:
        evidence["taken_as_missing"] = found.missing
    if certificate is not None:
        evidence["certificate"] = certificate.plain()
        if certificate.holds:
            return Findings(Status.CONVERGED, "exact", evidence, certificate)
    if not can_hold_out(obs):
        return Findings(Status.UNDETERMINED, "unknown", evidence)
    doubts = (
        () if rank is None else too_low(obs, rank, found.X, noise.outliers, tol, seed)
    )
    rested = found.X.L.shape[1] if is_gaussian(_sizes(obs, found.X)) else None
    last: list[Step] = []
    steps = noisy(obs, rank, noise, wishes, seed, rested)
    done = yield from remembered(steps, last)
    proof = yield from proven_after_all(
        obs, rank, found, done, last[-1], tol=tol, outliers=noise.outliers, seed=seed
    )
    evidence |= done.evidence
    if proof is not None:
        evidence["certificate"] = proof.plain()
        return Findings(Status.CONVERGED, "exact", evidence, proof)
    return replace(done, evidence=evidence, doubts=(*done.doubts, *doubts))


def proven_after_all(
    obs: Observations,
    rank: int | None,
    found: Found,
    done: Findings,
    last: Step,
    *,
    tol: float,
    outliers: Sides,
    seed: int,
) -> Generator[Step, None, Certificate | None]:
    """A certificate that is found after a noisy fit: near it, or in other ways where it is poor.

    Without one the last step is where that fit was."""
    proof = yield from exact_after_all(obs, last, tol)
    if proof is not None or not is_poor(obs, done):
        return proof
    fit = yield from other_ways(obs, rank, found, outliers, tol, seed)
    if fit is not None:
        return fit[1]
    yield last
    return None


def ended(steps: Generator[Step, None, Ending]) -> Ending:
    """What a run found, at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def long_lines(obs: Observations, seed: int) -> Array | None:
    """Some lines of the longer side, where there are far more than are needed to tell what kind of
    data this is; None where there are not.

    Of a tall matrix each row has the entries that it has, and columns have more than enough."""
    n, across = max(obs.shape), min(obs.shape)
    count = max(LINES_EACH * across, int(TOLD_BY / (obs.fraction * across)))
    if FAR_MORE * count > n:
        return None
    rng = np.random.default_rng(seed)
    if obs.groups is None:
        return np.sort(rng.choice(n, count, replace=False))
    if obs.shape[0] < n:
        return None
    groups = max(1, count // obs.groups.shape[1])
    chosen = rng.choice(len(obs.groups), groups, replace=False)
    return np.asarray(obs.groups[np.sort(chosen)].ravel())


def fewer_lines(obs: Observations, seed: int) -> tuple[Array, Array] | None:
    """The rows and columns of so many lines of the longer side as tell a rank; None where that is
    most of them.
    """
    n, across = max(obs.shape), min(obs.shape)
    count = LINES_EACH * across
    if obs.groups is not None or 2 * count > n or not obs.is_here:
        return None
    lines = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    return _places(obs, lines)


def part_of_lines(
    obs: Observations,
    lines: Array,
    noise: Noise,
) -> tuple[Observations, Noise]:
    """These lines of the longer side, and what is known of their noise."""
    places = _places(obs, lines)
    rows, cols = noise.rows[places[0]], noise.cols[places[1]]
    part = part_at(obs, *places, dtype=obs.dtype)
    return part, replace(noise, rows=rows, cols=cols)


def _places(obs: Observations, lines: Array) -> tuple[Array, Array]:
    """The rows and columns of these lines of the longer side."""
    rows, cols = map(np.arange, obs.shape)
    return (lines, cols) if len(rows) >= len(cols) else (rows, lines)


def is_poor(obs: Observations, done: Findings) -> bool:
    """Whether a noisy fit to many entries says so little that data may be exact all the same."""
    missed = done.held_out
    if missed is None or obs.n_observed <= FEW_TO_TRY:  # it was tried before
        return False
    return missed.error > POOR * missed.simple


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
    size, border = _sizes(obs, X), agreement_border(obs, tol)
    before, near = np.quantile(size, [LOW, HIGH * step.inliers])
    wide = max(WIDE * float(near), NEARLY * border)
    for k, nearer in enumerate(on_what_agrees(obs, X, wide, border)):
        yield nearer._replace(stage="again")
        X = nearer.X
        typical = float(np.quantile(_sizes(obs, X), LOW))
        if k == 1 and typical > max(FAR_BETTER * before, border):
            break
    else:
        X, certificate = yield from repaired(obs, X, certify(obs, X, tol), tol)
        if certificate.holds:
            return certificate
    yield step
    return None


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
    before = float(np.quantile(_sizes(part, X), LOW))
    if before < SMALL * part.scale or beyond(part, X) < STANDS_OUT:
        return ()
    *_, last = islice(exact(part, None, outliers, tol, seed), AT_FIRST)
    more, after = last.L.shape[1], float(np.quantile(_sizes(part, last.X), LOW))
    if not rank < more <= determined_rank(part) or after > FAR_BETTER * before:
        return ()
    return (TOO_LOW.format(rank, more, before / max(after, 1e-300)),)


def remembered(
    steps: Generator[Step, None, Findings], last: list[Step]
) -> Generator[Step, None, Findings]:
    """The same steps; the newest is in `last`."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        last[:] = [step]
        yield step


def exactly(
    obs: Observations,
    rank: int | None,
    outliers: Sides,
    tol: float,
    seed: int,
    begin: tuple[Factors, float] | None,
) -> Generator[Step, None, tuple[Found, Certificate | None]]:
    """What is found if the data are taken for exact, with its certificate if it has one."""
    run = exact(obs, rank, outliers, tol, seed, begin)
    few = rank is not None and wants_newton(obs, rank)
    found, ended = (
        (yield from first_steps(run, AT_FIRST)) if few else ((yield from run), True)
    )
    if not ended and promising(obs, found.X, tol):
        found, ended = yield from first_steps(run, NEARLY_THERE)
    found, certificate = yield from proven(obs, found, outliers, tol)
    if certificate is None or not certificate.holds:
        if obs.n_observed <= FEW_TO_TRY:
            fit = yield from other_ways(obs, rank, found, outliers, tol, seed)
            if fit is not None:
                return fit
        if not ended:
            found, certificate = yield from proven(obs, (yield from run), outliers, tol)
    return found, certificate


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
        rank = likely_rank(obs, start(obs, most, seed)[0])
    if rank is not None and wants_newton(obs, rank):
        fit = yield from few_sampled(obs, start(obs, rank, seed)[0], tol)
        if fit is not None:
            return Found(fit[0], True, 0.0, found.tests), fit[1]
    return None


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


def noisy(
    obs: Observations,
    rank: int | None,
    noise: Noise,
    wishes: Wishes,
    seed: int = 0,
    rested: int | None = None,
    lesson: Lesson | None = None,
) -> Generator[Step, None, Findings]:
    """Steps for data with noise of any kind, as planned, or as hidden entries decide.

    `rested` as for `decide`. Components that were grown for a lesson in these data are not grown
    again."""
    if wishes.plan is not None:
        decided = Decided(wishes.plan)
    else:
        decided = decide(
            obs,
            rank,
            noise=noise,
            loss=wishes.loss,
            score=wishes.score,
            aim=wishes.aim_for(obs),
            rested=rested,
            neighbors=wishes.neighbors,
            seed=seed,
        )
    plan, begun = decided.plan, None
    if lesson is not None and not plan.closed_loop:
        begun = grown_in(lesson, obs, plan, noise)
    fitted = yield from fit(obs, plan, noise=noise, seed=seed, begun=begun)
    return findings(decided, wishes, fitted)


def as_planned(
    obs: Observations,
    wishes: Wishes,
    noise: Noise,
    seed: int = 0,
) -> Generator[Step, None, Findings]:
    """Steps for noisy data of which everything was decided before. What was decided for other
    data is looked at first.
    """
    plan = wishes.plan
    assert plan is not None
    if wishes.aim is not None:
        plan = replace(plan, aim=wishes.aim)
    if not plan.fixed:
        plan = replace(plan, rank=min(plan.rank, rank_for(obs)))
    if obs.n_observed <= PART:
        plan = replace(plan, times=2)  # of few entries, what is slower costs little
    net = lesson = None
    if wishes.foreign and can_hold_out(obs):
        net = caught(obs, plan, noise, seed)
        plan, lesson = net.decided.plan, net.lesson
    wishes = replace(wishes, plan=plan)
    # the closed loop leaves no layers that all lines could be carried on from
    lines = None if plan.closed_loop else long_lines(obs, seed)
    if lines is None:
        done = yield from noisy(obs, plan.rank, noise, wishes, seed, lesson=lesson)
    else:
        part, here = part_of_lines(obs, lines, noise)
        # in a part, components that are added one after the other cost little
        slowly = replace(wishes, plan=replace(plan, times=2))
        done = ended(noisy(part, plan.rank, here, slowly, seed))
        assert done.fitted is not None
        yield from carried(obs, plan, done.fitted, noise=noise)
        done = replace(done, fitted=None)
    if net is None:
        return done
    seen = findings(net.decided, wishes, None)
    doubts = (net.worse,) if net.worse else ()
    evidence = seen.evidence | {FITS: not net.worse}
    return replace(done, evidence=evidence, held_out=seen.held_out, doubts=doubts)


def findings(decided: Decided, wishes: Wishes, fitted: Fitted | None) -> Findings:
    """What was decided, as evidence."""
    plan = decided.plan
    evidence = {
        "loss": wishes.loss or "cauchy",  # what new rows are weighed by
        "why": "as planned" if wishes.plan else "learned on hidden entries",
        "aim": plan.aim,
        "plan": plan.plain(),
        "lessons": decided.trials,
        "table": decided.table,
    }
    missed = (
        HeldOut(decided.typical, decided.error, decided.simple)
        if decided.table
        else None
    )
    return Findings(
        Status.CONVERGED,
        "noisy",
        evidence,
        held_out=missed,
        plan=plan,
        fitted=fitted,
    )


def determined_rank(obs: Observations) -> int:
    """The highest with at least twice as many entries as free numbers."""
    return obs.n_observed // (2 * sum(obs.shape))


def highest_rank(obs: Observations) -> int:
    """That is looked for where many components stand out."""
    return max(1, min(determined_rank(obs), min(obs.shape) // 2, HIGHEST_RANK))


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
            else start(obs, rank, seed)
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


def _sizes(obs: Observations, X: Factors) -> Array:
    some = obs.sample
    return np.abs(some.residual(X))

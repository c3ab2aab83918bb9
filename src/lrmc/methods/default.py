"""The default: notice which kind of data this is, and do what is right for it.

Exact data (low rank plus outliers) are recovered to any accuracy by rejection: the closed loop. On
noisy data it comes to rest at the noise; then layers of robust least squares take over, whose
numbers are learned, and whatever else is to be decided is decided, on hidden entries. Of data with
many long lines, some of these lines tell which kind it is."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..observations.heldout import can_hold_out
from ..result import Status
from ..weights import Array, Sides
from .alike import are_lost
from .blends import Standing
from .certificate import Certificate
from .decide import decide
from .exactly import (
    FEW_TO_TRY,
    LINES_EACH,
    ended,
    exact_after_all,
    exactly,
    one_more,
    other_ways,
    places_of,
    too_low,
)
from .growing import rank_for
from .lessons import PART, Lesson, part_at
from .noisy import Loss, Noise, is_gaussian
from .plan import Aim, Decided, Plan, Score
from .planned import Fitted, carried, fit, grown_in
from .rank import Found
from .safety_net import caught
from .step import Step

POOR = 0.3  # of the error of simple models: a fit that misses hidden entries by more
TOLD_BY = (
    200_000  # entries of the longer lines: enough to tell what kind of data this is
)
FAR_MORE = 4  # times as many lines: else all of them are looked at
# of root mean square errors: where entries other than the most frequent value are DOMINANT's rest
# and all alike, their mean has sqrt(DOMINANT) = 0.92 times the error of that value
PATTERN = 0.9
FITS = "schedule_fits"  # in the evidence: whether one does that was learned elsewhere


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
    missed: Sample | None = None  # errors at entries that were set aside
    plan: Plan | None = None  # of noisy data: what was decided
    fitted: Fitted | None = None  # of noisy data: where the layers ended

    def flipped(self) -> Findings:
        """The same for the transposed matrix."""
        proof, missed = self.certificate, self.missed
        if proof is not None:
            proof = replace(proof, rows=proof.cols, cols=proof.rows)
        missed = None if missed is None else missed.flipped()
        return replace(self, certificate=proof, missed=missed)

    def times(self, unit: float) -> Findings:
        """The same for data that are so many times larger."""
        records = {
            name: self.evidence[name]
            for name in ("rank_tests", "table", "opinions", "taken_as_missing")
            if name in self.evidence
        }
        larger = {
            name: tuple(record.times(unit) for record in some)
            for name, some in records.items()
        }
        held_out = None if self.held_out is None else self.held_out.times(unit)
        missed = self.missed
        if missed is not None:
            missed = missed._replace(values=unit * missed.values)
        evidence = self.evidence | larger
        return replace(self, evidence=evidence, held_out=held_out, missed=missed)


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
    in_time: bool = False  # whether one side is times: such data are hardly ever exact

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
    thorough = not wishes.in_time
    found, certificate = yield from exactly(
        obs, rank, noise.outliers, tol, seed, begin, thorough=thorough
    )
    evidence: dict[str, Any] = {"rank_tests": found.tests}
    if found.missing:
        evidence["taken_as_missing"] = found.missing
    if certificate is not None:
        evidence["certificate"] = certificate.plain()
        if are_lost(obs, found.X, tol):
            return (yield from noisy(obs, rank, noise, wishes, seed))
        if is_enough(certificate, obs):
            return Findings(Status.CONVERGED, "exact", evidence, certificate)
    if not can_hold_out(obs):
        return Findings(Status.UNDETERMINED, "unknown", evidence)
    doubts = (
        () if rank is None else too_low(obs, rank, found.X, noise.outliers, tol, seed)
    )
    last: list[Step] = []
    steps = noisy(obs, rank, noise, wishes, seed, rested_rank(obs, found.X))
    done = yield from remembered(steps, last)
    again = proven_after_all(
        obs,
        rank,
        found,
        last[-1],
        tol=tol,
        outliers=noise.outliers,
        seed=seed,
        thorough=thorough and is_poor(obs, done),
    )
    proof = yield from believed(done, found, certificate, last[-1], again)
    evidence |= done.evidence
    if proof is not None:
        evidence["certificate"] = proof.plain()
        return Findings(Status.CONVERGED, "exact", evidence, proof)
    return replace(done, evidence=evidence, doubts=(*done.doubts, *doubts))


def is_enough(certificate: Certificate, obs: Observations) -> bool:
    """Whether it proves a fit by itself. Of one value and what seem to be outliers, hidden entries
    are asked, where there are gaps to fill."""
    fills = obs.fraction < 1 and can_hold_out(obs)
    return certificate.holds and not (certificate.doubt and fills)


def rested_rank(obs: Observations, X: Factors) -> int | None:
    """The rank at which the closed loop came to rest, where it left Gaussian noise and outliers."""
    left = np.abs(obs.telling.residual(X))
    return int(X.L.shape[1]) if is_gaussian(left) else None


def believed(
    done: Findings,
    found: Found,
    certificate: Certificate | None,
    last: Step,
    again: Generator[Step, None, Certificate | None],
) -> Generator[Step, None, Certificate | None]:
    """The certificate that was found, or is found again after a noisy fit, whose last step this is.
    One of a single value is not believed where that fit foretells the others.
    """
    follows = follows_pattern(done.evidence["table"])
    if certificate is not None and certificate.holds and not follows:
        yield last._replace(L=found.X.L, R=found.X.R, stage="again")
        return certificate
    proof = yield from again
    if proof is None or not (proof.doubt and follows):
        return proof
    yield last
    return None


def follows_pattern(table: Sequence[Standing]) -> bool:
    """Whether entries that are not the value which nearly all have can be foretold: hidden ones are
    missed by less than by any constant.
    """
    chosen = min(line.rmse for line in table if line.chosen)
    return chosen < PATTERN * min(line.rmse for line in table if not line.chosen)


def proven_after_all(
    obs: Observations,
    rank: int | None,
    found: Found,
    last: Step,
    *,
    tol: float,
    outliers: Sides,
    seed: int,
    thorough: bool,
) -> Generator[Step, None, Certificate | None]:
    """A certificate that is found after a noisy fit: near it, or, if thorough, in other ways.

    Without one the last step is where that fit was."""
    proof = yield from exact_after_all(obs, last, tol)
    if proof is not None:
        return proof
    if rank is None and len(obs.telling.values) < len(obs.sample.values):
        proof = yield from one_more(obs, last, outliers, tol, seed)
    if proof is None and thorough:
        fit = yield from other_ways(obs, rank, found, outliers, tol, seed)
        proof = None if fit is None else fit[1]
    if proof is None:
        yield last
    return proof


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


def part_of_lines(
    obs: Observations,
    lines: Array,
    noise: Noise,
) -> tuple[Observations, Noise]:
    """These lines of the longer side, and what is known of their noise."""
    places = places_of(obs, lines)
    rows, cols = noise.rows[places[0]], noise.cols[places[1]]
    part = part_at(obs, *places, dtype=obs.dtype)
    return part, replace(noise, rows=rows, cols=cols)


def is_poor(obs: Observations, done: Findings) -> bool:
    """Whether a noisy fit to many entries says so little that data may be exact all the same."""
    missed = done.held_out
    if missed is None or obs.n_observed <= FEW_TO_TRY:  # it was tried before
        return False
    return missed.error > POOR * missed.simple


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
            # they would gain less than time does, and take longer than all of its model
            learns=not wishes.in_time,
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
        plan = replace(plan, rank=rank_for(obs, plan.rank))
    if obs.n_observed <= PART:
        plan = replace(plan, times=2)  # of few entries, what is slower costs little
    net = lesson = None
    if wishes.foreign and can_hold_out(obs):
        aim, score = wishes.aim_for(obs), wishes.score
        net = caught(obs, plan, noise, seed, usual_aim=aim, score=score)
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
        "opinions": decided.opinions,
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
        missed=decided.missed,
        plan=plan,
        fitted=fitted,
    )

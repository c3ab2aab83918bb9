"""The loop: a job's iterates, one after the other, until they end."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from time import perf_counter

import numpy as np

from ._job import BASELINES, Job
from ._rows import scaled
from .linalg import Factors, change, gram, norm_of, power_of_4
from .methods import step as at
from .methods.alike import are_lost
from .methods.certificate import NEARLY
from .methods.default import Findings, as_planned, default
from .methods.lrmc import lrmc
from .methods.rank import Test, noise_level
from .methods.rested import ABOVE
from .methods.small import Solved, is_small, solve_small
from .methods.start import STARTS
from .methods.step import Step
from .observations.base import Observations
from .result import Iterate, Record, Status
from .schedule import Schedule, Tuning

# an iterate this many times larger than the start and than the data is lost
BLOWN_UP = 1e3
FEW_INLIERS = 0.25  # fewer than this within the threshold: it fell below the residual
# stages whose passes max_iter limits; the others are bounded
COUNTED = ("exact", "lrmc", *BASELINES)
NOT_FINITE = "the start is not finite; are there values near the limits of the floating-point range?"
Progress = Callable[[Iterate], None]


@dataclass(frozen=True)
class Ended:
    """How a run ended: the last sound iterate, and what was found out on the way."""

    last: Iterate
    status: Status
    history: tuple[Record, ...]
    found: Findings = field(
        default_factory=lambda: Findings(Status.MAX_ITER, "unknown")
    )


def at_once(job: Job, max_iter: int) -> Ended | None:
    """A small matrix without noise, by one call of a kernel; None where that proves nothing."""
    if not (is_small(job.obs) and _as_usual(job)):
        return None
    unit = power_of_4(job.obs.rough_scale)
    (solved,) = solve_small(
        [job.obs.scaled(1 / unit).part()],
        job.rank,
        dtype=job.obs.dtype,
        tol=job.tol,
        most=max_iter,
        seed=job.seed,
    )
    if solved is None:
        return None
    done = ended_at_once(job, solved, unit)
    X = Factors(done.last.L, done.last.R)
    return None if are_lost(job.obs, X, job.tol) else done


def _as_usual(job: Job) -> bool:
    """Whether nothing was asked for that needs more than the plain closed loop."""
    plain = job.method == "closed_loop" and job.wishes.plan is None
    plain &= job.at_once
    return plain and job.start == "spectral" and job.noise.outliers == "both"


def ended_at_once(job: Job, solved: Solved, unit: float = 1.0) -> Ended:
    """How a run of the kernel for small matrices ended, on data in this unit."""
    found = solved.X
    X = Factors(*(scaled(F, math.sqrt(unit)) for F in found))
    proof = solved.certificate
    proof = replace(proof, border=unit * proof.border, noise=unit * proof.noise)
    start = Record(0, math.nan, math.nan, math.nan, 0.0)
    lines = (solved.trace * (1, unit, 1, 1)).tolist()
    # the proof looks within this: what agrees is no outlier
    lines[-1][1] = max(lines[-1][1], proof.border / NEARLY)
    history = (start, *(Record(k, *line) for k, line in enumerate(lines, 1)))
    last = history[-1]
    it = Iterate(
        last.k,
        *X,
        last.change,
        last.zeta,
        last.inliers,
        stage="exact",
        norm=norm_of(gram(X.L), gram(X.R)),
    )
    evidence = {
        "rank_tests": _looked_at(job, solved, found, unit),
        "certificate": proof.plain(),
    }
    findings = Findings(Status.CONVERGED, "exact", evidence, proof)
    return Ended(it, Status.CONVERGED, history, findings)


def _looked_at(
    job: Job,
    solved: Solved,
    X: Factors,
    unit: float,
) -> tuple[Test, ...]:
    """Where the rank was not given: what was found, beside what unrelated entries could have."""
    if job.rank is not None:
        return ()
    obs = job.obs.scaled(1 / unit)
    # the kernel has looked at some entries: a sample of its own took a third of the solve
    noise = noise_level(obs, None, ABOVE * solved.scale, obs.fraction, reject=False)
    values = np.sort(np.diag(gram(X.L)))[::-1]
    return (Test(0, tuple(values.tolist()), noise, solved.rank).times(unit),)


def run(
    job: Job,
    max_iter: int,
    progress: Progress | None,
    before: tuple[Record, ...] = (),
) -> Ended:
    """Run a job until it ends; what was done before it is part of its history."""
    began = perf_counter() - (before[-1].seconds if before else 0.0)
    history = list(before)
    last: Iterate | None = None
    first_norm = math.inf
    steps = iterates_of(job, len(before))
    counted = 0
    while counted < max_iter:
        try:
            # numbers that overflow are noticed below
            with np.errstate(over="ignore", invalid="ignore"):
                it = next(steps)
        except StopIteration as end:
            assert last is not None
            return Ended(last, end.value.status, tuple(history), end.value)
        first_norm = it.norm if last is None else first_norm
        if blown_up(it.norm, first_norm) and blown_up(it.norm, _norm_of_data(job.obs)):
            if last is None:
                break
            return Ended(last, Status.DIVERGED, tuple(history))
        last = it
        counted += it.stage in COUNTED
        history.append(
            Record(it.k, it.change, it.zeta, it.inliers, perf_counter() - began)
        )
        if progress is not None:
            progress(it)
        if job.method != "closed_loop" and it.change < job.tol:
            status = Status.CONVERGED if it.inliers >= FEW_INLIERS else Status.STALLED
            return Ended(it, status, tuple(history))
    if last is None:
        raise FloatingPointError(NOT_FINITE)
    return Ended(last, Status.MAX_ITER, tuple(history))


def _norm_of_data(obs: Observations) -> float:
    """About what a matrix has whose entries are like those observed: a start may know nothing of a
    column that is far larger than the others."""
    squares = np.square(obs.sample.values.astype(np.float64))
    return math.sqrt(float(squares.mean()) * math.prod(obs.shape))


def blown_up(size: float, first: float) -> bool:
    """Whether an iterate of this norm is lost, where the first had that one."""
    return not math.isfinite(size) or size > BLOWN_UP * first


def iterates_of(job: Job, first: int = 0) -> Generator[Iterate, None, Findings]:
    """The iterates of a job from number `first` on, in the units of the data; at the end, what was
    found out.
    """
    unit = power_of_4(job.obs.scale)
    root = math.sqrt(unit)
    flip = job.obs.across is not None  # the transposed problem is solved
    steps = _steps(flipped(job) if flip else job, unit)
    before: Factors | None = None
    for k in count(first):
        try:
            step = next(steps)
        except StopIteration as end:
            found = end.value or Findings(Status.SCHEDULE_ENDED, "exact")
            return (found.flipped() if flip else found).times(unit)
        moved = (
            step.moved
            if before is None or math.isfinite(step.moved)
            else _change(before, step.X)
        )
        L, R = (scaled(F, root) for F in (step.X[::-1] if flip else step.X))
        zeta, norm = step.zeta * unit, step.norm * unit
        yield Iterate(k, L, R, moved, zeta, step.inliers, stage=step.stage, norm=norm)
        before = step.X
    raise AssertionError("unreachable")


def _change(before: Factors | None, after: Factors) -> float:
    """How far a step went that does not say so itself; infinitely, if the rank is another."""
    if before is None or before.L.shape != after.L.shape:
        return math.inf
    return change(before, after)


def _steps(job: Job, unit: float) -> Iterator[Step]:
    """The steps of a job on data in this unit."""
    root = math.sqrt(unit)
    obs, rank = job.obs.scaled(1 / unit), job.rank or 1
    if isinstance(job.schedule, Tuning):
        return BASELINES[job.method](obs, rank, job.schedule, job.seed)
    if isinstance(job.schedule, Schedule):
        scale, p = job.obs.scale, obs.fraction
        zeta, gain = job.schedule.start(scale, p)
        layers = (
            layer._replace(zeta=layer.zeta / unit)
            for layer in job.schedule.layers(scale, p)
        )
        X = STARTS[str(job.start)](obs, rank, zeta / unit, gain, job.seed)
        return lrmc(obs, at.Start(X, zeta / unit), layers, job.schedule.tangent)
    if job.wishes.plan is not None:
        return as_planned(obs, job.wishes, job.noise, job.seed)
    begin = None
    if isinstance(job.start, Iterate):
        X = Factors(*(scaled(F, 1 / root) for F in (job.start.L, job.start.R)))
        begin = X, job.start.zeta / unit
    return default(
        obs,
        job.rank,
        noise=job.noise,
        wishes=job.wishes,
        tol=job.tol,
        seed=job.seed,
        begin=begin,
    )


def flipped(job: Job) -> Job:
    """The same for the transposed matrix."""
    assert job.obs.across is not None
    start = job.start
    if isinstance(start, Iterate):
        start = replace(start, L=start.R, R=start.L)
    return replace(job, obs=job.obs.across, noise=job.noise.flipped(), start=start)

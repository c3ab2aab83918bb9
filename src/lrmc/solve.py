"""Consume the steps of a method: stopping, status, warnings, progress."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from ._arguments import function_or_none
from ._job import (
    BASELINES,
    Asked,
    AskedAim,
    Job,
    Method,
    Start,
    checked_job,
    checked_max_iter,
    checked_tol,
)
from ._rows import scaled, where
from .fit import Fit, Part
from .linalg import Factors, change, power_of_4
from .methods import step as at
from .methods.certificate import Certificate
from .methods.connected import unconnected
from .methods.default import Findings, as_planned, default
from .methods.lrmc import lrmc
from .methods.nearest_schedule import misfit
from .methods.noisy import AskedLoss, noise_and_share
from .methods.plan import TYPICAL, Plan, Score, parts_of
from .methods.start import STARTS
from .methods.step import Step
from .observations.base import Observations
from .observations.heldout import Submatrix
from .result import Iterate, Record, Result, Status
from .schedule import Schedule, Tuning
from .weights import Array, Sides

BLOWN_UP = 1e3  # an iterate this many times larger than the start is lost
MOST_OUTLIERS = 0.5  # beyond, the majority speaks against the fit
SURPRISE = 6.0  # times: by how much more entries may be missed that a fit has not seen
# good entries for every free number of the fit: with fewer, it follows the noise
FEW_PER_UNKNOWN = 1.5
NOTHING = 1e-9  # of the scale of the data
FEW_INLIERS = 0.25  # fewer than this within the threshold: it fell below the residual
# stages whose passes max_iter limits; the others are bounded
COUNTED = ("exact", "lrmc", *BASELINES)
NOT_FINITE = "the start is not finite; are there values near the limits of the floating-point range?"
Progress = Callable[[Iterate], None]


class ConvergenceWarning(UserWarning):
    """A run ended otherwise than by coming to rest."""


class DoubtWarning(UserWarning):
    """A run ended well, and yet there is a reason not to believe the answer, or a part of it."""


def solve(
    Y: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    method: Method = "auto",
    schedule: Schedule | Tuning | str | None = None,
    loss: AskedLoss = "auto",
    score: Score = "auto",
    aim: AskedAim = "auto",
    outliers: Sides = "both",
    groups: Any = None,
    row_noise: Any = None,
    col_noise: Any = None,
    start: Start = "spectral",
    tol: float = 1e-6,
    max_iter: int = 100,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Recover the low-rank matrix X from partly observed, grossly corrupted Y = X + S.

    Y and `mask` are explained at `lrmc.observations.as_observations`. The default method is the
    closed loop, which needs nothing else, not even the rank. One that is given may be too high: of
    data without noise, components that are not needed are dropped, and `rank` of the result says
    how many are left. With a `schedule` (a `Schedule`, the name of one, or "nearest": the one that
    was trained on problems most like these data) the method is the paper's LRMC, as long as the
    schedule fits the data. A run stops when |X_k - X_{k-1}|_F < tol |X_{k-1}|_F, when it has come
    to rest at the noise, or after max_iter passes (sweeps over noisy data are not counted: their
    number is bounded). `progress` is called with each iterate.

    The methods "scaled_gd" and "gd" are the paper's baselines. They need the rank and the share of
    outliers: `schedule` is a `Tuning`, such as Tuning(alpha=0.1).

    For the closed loop on noisy data: `loss` is how residuals are weighed; `score` what decisions
    minimise on hidden entries ("mae", "rmse", or "auto", between the two); `aim` says whether gaps
    are to be filled ("fill"), or what moves is to be told from a background ("separate"; "auto" does
    so where nothing is missing); `outliers` says whether
    they lie on both sides of the truth, or only above ("positive") or below ("negative"); `groups`
    has a label for each row, and rows with the same label share one weight in each column (the
    bands of a pixel: a cloud covers all); `row_noise` and `col_noise` are known relative noise
    levels of rows and columns. `start` may also be an iterate of an earlier run of the closed loop,
    which goes on from there."""
    max_iter = checked_max_iter(max_iter)
    function_or_none("progress", progress)
    asked = Asked(
        rank=rank,
        mask=mask,
        method=method,
        schedule=schedule,
        loss=loss,
        score=score,
        aim=aim,
        outliers=outliers,
        groups=groups,
        row_noise=row_noise,
        col_noise=col_noise,
        start=start,
        seed=seed,
        threads=threads,
        tol=checked_tol(tol),
    )
    job = checked_job(Y, asked)
    if method == "auto" and job.method == "lrmc":
        result = _with_safety_net(job, max_iter, progress)
    else:
        result = _ran(job, max_iter, progress)
    _warn(result)
    return result


def iterates(
    Y: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    method: Method = "auto",
    schedule: Schedule | Tuning | str | None = None,
    loss: AskedLoss = "auto",
    score: Score = "auto",
    aim: AskedAim = "auto",
    outliers: Sides = "both",
    groups: Any = None,
    row_noise: Any = None,
    col_noise: Any = None,
    start: Start = "spectral",
    seed: int = 0,
    threads: int | None = None,
) -> Iterator[Iterate]:
    """The iterates of a method, the start first (k = 0): stop when you like. Arguments
    as for `solve`.
    """
    asked = Asked(
        rank=rank,
        mask=mask,
        method=method,
        schedule=schedule,
        loss=loss,
        score=score,
        aim=aim,
        outliers=outliers,
        groups=groups,
        row_noise=row_noise,
        col_noise=col_noise,
        start=start,
        seed=seed,
        threads=threads,
    )
    return _iterates(checked_job(Y, asked))


def _with_safety_net(job: Job, max_iter: int, progress: Progress | None) -> Result:
    """The schedule while it fits the data, and otherwise the closed loop."""
    assert isinstance(job.schedule, Schedule)
    why = misfit(job.schedule, job.obs, job.rank or 1)
    if why is None:
        result = _ran(job, max_iter, progress)
        if result.status not in (Status.DIVERGED, Status.STALLED):
            return result
        why = result.status.meaning
    text = f"the schedule does not fit these data ({why}); the closed loop was used instead"
    warnings.warn(text, ConvergenceWarning, stacklevel=3)
    job = replace(job, method="closed_loop", schedule=None)
    return _ran(job, max_iter, progress)


def _ran(job: Job, max_iter: int, progress: Progress | None) -> Result:
    """A job's result, which can be had again without some of the entries."""
    ended = _run(job, max_iter, progress)
    return replace(
        _result(job, ended), refit=partial(_again, _told(job, ended), max_iter)
    )


def _told(job: Job, ended: Ended) -> Job:
    """The same job with what a run found: it need not be looked for again."""
    # an earlier run has seen all entries
    start = "spectral" if isinstance(job.start, Iterate) else job.start
    plan = ended.found.plan
    if plan is not None:
        return replace(job, start=start, wishes=replace(job.wishes, plan=plan))
    return replace(job, rank=ended.last.L.shape[1], start=start)


def _again(job: Job, max_iter: int, part: Submatrix, seed: int) -> Fit:
    """The same run with what it found, on a part of the data without some entries."""
    noise = job.noise.of(part.rows, part.cols)
    job = replace(job, obs=part.obs, noise=noise, seed=job.seed + seed + 1)
    last = _run(job, max_iter, None).last
    X = Factors(last.L, last.R)
    return Fit(X, _beyond(job.wishes.plan, part.obs, X))


def _beyond(plan: Plan | None, obs: Observations, X: Factors) -> tuple[Part, ...]:
    """What lies beyond low rank."""
    return () if plan is None else parts_of(plan, obs, X)


# ---- the loop


@dataclass(frozen=True)
class Ended:
    """How a run ended: the last sound iterate, and what was found out on the way."""

    last: Iterate
    status: Status
    history: tuple[Record, ...]
    found: Findings = field(
        default_factory=lambda: Findings(Status.MAX_ITER, "unknown")
    )


def _run(job: Job, max_iter: int, progress: Progress | None) -> Ended:
    """Run a job until it ends."""
    began = time.perf_counter()
    history: list[Record] = []
    last: Iterate | None = None
    first_norm = math.inf
    run = _iterates(job)
    counted = 0
    while counted < max_iter:
        try:
            # numbers that overflow are noticed below
            with np.errstate(over="ignore", invalid="ignore"):
                it = next(run)
        except StopIteration as end:
            assert last is not None
            return Ended(last, end.value.status, tuple(history), end.value)
        first_norm = it.norm if it.k == 0 else first_norm
        if blown_up(it.norm, first_norm):
            if last is None:
                break
            return Ended(last, Status.DIVERGED, tuple(history))
        last = it
        counted += it.stage in COUNTED
        history.append(
            Record(it.k, it.change, it.zeta, it.inliers, time.perf_counter() - began)
        )
        if progress is not None:
            progress(it)
        if job.method != "closed_loop" and it.change < job.tol:
            status = Status.CONVERGED if it.inliers >= FEW_INLIERS else Status.STALLED
            return Ended(it, status, tuple(history))
    if last is None:
        raise FloatingPointError(NOT_FINITE)
    return Ended(last, Status.MAX_ITER, tuple(history))


def blown_up(size: float, first: float) -> bool:
    """Whether an iterate of this norm is lost, where the first had that one."""
    return not math.isfinite(size) or size > BLOWN_UP * first


def _iterates(job: Job) -> Generator[Iterate, None, Findings]:
    """The iterates of a job, in the units of the data; at the end, what was found out."""
    unit = power_of_4(job.obs.scale)
    root = math.sqrt(unit)
    flip = job.obs.across is not None  # the transposed problem is solved
    steps = _steps(flipped(job) if flip else job, unit)
    before: Factors | None = None
    for k in count():
        try:
            step = next(steps)
        except StopIteration as end:
            found = end.value or Findings(Status.SCHEDULE_ENDED, "exact")
            return (found.flipped() if flip else found).times(unit)
        moved = (
            step.moved
            if k == 0 or math.isfinite(step.moved)
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
        return as_planned(obs, job.wishes.plan, job.noise, job.seed)
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


# ---- the result


def _result(job: Job, ended: Ended) -> Result:
    """What a run gives, with what speaks against it."""
    last, found, status = ended.last, ended.found, ended.status
    X = Factors(last.L, last.R)
    # a prior holds a rank that was not given: hidden entries say whether it follows the noise
    shrunk = found.plan is not None and not found.plan.fixed
    few = job.method == "closed_loop" and not shrunk and _too_few(job.obs, last)
    if status is Status.CONVERGED and few:
        status = Status.UNDETERMINED
    open_rows, open_cols = without_entries(job.obs)
    proof, doubts = found.certificate, list(found.doubts)
    noise, share = noise_and_share(job.obs, X)
    if proof is not None:
        share = 1 - proof.agreeing
        open_rows, open_cols = (
            np.union1d(open_rows, proof.rows),
            np.union1d(open_cols, proof.cols),
        )
        doubts += _not_vouched_for(proof, job.obs.is_here)
    elif job.method == "closed_loop":
        doubts += _not_believed(job.obs, X, share, found)
    beyond = _beyond(found.plan, job.obs, X)
    L, R = job.obs.in_form(last.L, last.R)
    return Result(
        L,
        R,
        status=status,
        history=ended.history,
        method=job.method,
        tol=job.tol,
        undetermined_rows=open_rows,
        undetermined_cols=open_cols,
        noise_level=noise,
        outlier_fraction=share,
        regime=found.regime,
        evidence=found.evidence | _held_out(found),
        observations=job.obs,
        beyond=beyond,
        certificate=None if proof is None else proof.plain(),
        warnings=(*doubts, *_shortcomings(job.obs, last.L.shape[1])),
    )


def _held_out(found: Findings) -> dict[str, dict[str, float]]:
    """By how much entries that were set aside are missed, by the fit and by what is simple."""
    missed = found.held_out
    return (
        {}
        if missed is None
        else {"held_out": {"error": missed.error, "medians": missed.simple}}
    )


def without_entries(obs: Observations) -> tuple[Array, Array]:
    """The rows and the columns without an observation."""
    return where(_empty, (obs.row_observed,)), where(_empty, (obs.col_observed,))


def _empty(rows: tuple[Array], _: None) -> Array:
    return rows[0] == 0


def _not_believed(
    obs: Observations, X: Factors, share: float, found: Findings
) -> Iterator[str]:
    """Why a fit to noisy data may be wrong, in sentences."""
    if share > MOST_OUTLIERS:
        yield f"{100 * share:.0f} % of the entries are far from this fit: it may be the fit that is wrong"
    rank = X.L.shape[1]
    good, free = round((1 - share) * obs.n_observed), rank * (sum(obs.shape) - rank)
    # else that is said of all entries
    few = good < FEW_PER_UNKNOWN * free and obs.n_observed >= rank * sum(obs.shape)
    if few and (found.plan is None or found.plan.fixed):
        yield f"{good} good entries are few for the {free} free numbers of rank {rank}: the fit may follow the noise"
    if found.held_out is None:
        return
    typical, error, simple = found.held_out
    shown = float(np.quantile(np.abs(obs.sample.residual(X)), TYPICAL))
    if max(typical, shown) < NOTHING * obs.scale:
        yield "the fit meets most entries exactly, but that does not prove it: see evidence['certificate']"
        return
    if typical > SURPRISE * shown:
        yield (
            f"a quarter of the entries that were set aside is missed by less than {typical:.2g}, of those fitted by"
            f" {shown:.2g}: the data do not determine this matrix, or it was not found"
        )
    if error > simple:
        yield (
            f"entries that were set aside are missed by {error:.2g} in the mean, and by {simple:.2g} if each is taken"
            " for the median of its row or column: low rank is no good model here"
        )


def _not_vouched_for(proof: Certificate, here: bool) -> list[str]:
    if proof.doubt:
        return [proof.doubt]
    lines = ((len(proof.rows), "row(s)"), (len(proof.cols), "column(s)"))
    counts = " and ".join(f"{n} {name}" for n, name in lines if n)
    if not counts:
        return []
    text = (
        f"of {counts} too few entries agree with the fit to vouch for it: NaN in the"
        " completion, unless they are kept"
    )
    if not here:
        text += (
            "; on a cluster such lines are not fitted anew, as they are in one process"
        )
    return [text]


def _too_few(obs: Observations, it: Iterate) -> bool:
    """Whether inliers cannot determine a matrix of this rank: it has rank (n1 + n2 -
    rank) free numbers.
    """
    rank = it.L.shape[1]
    return it.inliers * obs.n_observed < rank * (sum(obs.shape) - rank)


def _shortcomings(obs: Observations, rank: int) -> Iterator[str]:
    """What the entries themselves cannot determine, in sentences."""
    counts = (
        (len(lines), name)
        for lines, name in zip(
            without_entries(obs), ("row(s)", "column(s)"), strict=True
        )
    )
    empty = [f"{n} {name}" for n, name in counts if n]
    if empty:
        yield f"{' and '.join(empty)} have no observation: their values are not determined, and NaN in the completion"
    rows, cols = (
        unconnected(obs) if obs.across is None else unconnected(obs.across)[::-1]
    )
    if rows or cols:
        text = f"{rows} row(s) and {cols} column(s) share no entry with the others, not even through a chain of entries"
        yield f"{text}: how large they are beside each other is not determined"
    unknowns = rank * sum(obs.shape)
    if obs.n_observed < unknowns:
        yield f"{obs.n_observed} entries are observed, and rank {rank} has {unknowns} unknowns: not determined"


def _warn(result: Result) -> None:
    for text in result.warnings:
        _say(DoubtWarning, text)
    if not result.converged:
        _say(
            ConvergenceWarning,
            f"after {result.n_iter} iterations: {result.status.meaning}",
        )


def _say(category: type[Warning], text: str) -> None:
    warnings.warn(text, category, stacklevel=4)

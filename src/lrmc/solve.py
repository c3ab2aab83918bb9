"""Consume the steps of a method: stopping, status, warnings, progress."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ._arguments import function_or_none
from ._job import (
    BASELINES,
    Asked,
    AskedAim,
    Job,
    Method,
    Start,
    checked_complex_job,
    checked_job,
    checked_max_iter,
    checked_tol,
    in_complex,
    not_in_time,
)
from ._log import followed, log_end
from ._rows import scaled, where
from .complex_result import ComplexResult
from .fit import Fit, Part
from .frames import labels_of
from .linalg import Factors, change, gram, norm_of, power_of_4
from .methods import step as at
from .methods.blends import WORTH
from .methods.certificate import NEARLY, Certificate, may_be_exact
from .methods.connected import unconnected
from .methods.decide import TYPICAL
from .methods.default import Findings, as_planned, default
from .methods.in_time.doors import told_by
from .methods.in_time.improve import Asked as AskedOfTime
from .methods.in_time.improve import AskedTime, checked_time, with_time
from .methods.lrmc import lrmc
from .methods.nearest_schedule import misfit
from .methods.noisy import AskedLoss, noise_and_share
from .methods.plan import Plan, Score
from .methods.planned import parts_of
from .methods.rank import Test, noise_level
from .methods.rested import ABOVE
from .methods.small import Solved, is_small, solve_small
from .methods.start import STARTS
from .methods.step import Step
from .observations.base import Observations
from .observations.complex_parts import RealParts, holds_complex, in_real_parts
from .observations.heldout import Submatrix, can_hold_out
from .result import Iterate, Record, Result, Status
from .schedule import Schedule, Tuning
from .weights import Array, Sides

BLOWN_UP = 1e3  # an iterate this many times larger than the start is lost
MOST_OUTLIERS = 0.5  # beyond, the majority speaks against the fit
SURPRISE = 6.0  # times: by how much more entries may be missed that a fit has not seen
# good entries for every free number of the fit: with fewer, it follows the noise
FEW_PER_UNKNOWN = 1.5
NOTHING = 1e-9  # of the scale of the data
# passes: what the closed loop does not settle within a limit of at least so many has noise
ENOUGH = 60
FEW_INLIERS = 0.25  # fewer than this within the threshold: it fell below the residual
# stages whose passes max_iter limits; the others are bounded
COUNTED = ("exact", "lrmc", *BASELINES)
NOT_FINITE = "the start is not finite; are there values near the limits of the floating-point range?"
Progress = Callable[[Iterate], None]


class ConvergenceWarning(UserWarning):
    """A run did not converge: see `Result.status`.

    Examples
    --------
    >>> import lrmc, warnings
    >>> Y = lrmc.synthetic.problem(n=100, rank=2, p=0.8).Y
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = lrmc.solve(Y, rank=2, max_iter=2)
    >>> any(w.category is lrmc.ConvergenceWarning for w in caught), str(result.status)
    (True, 'max_iter')
    """


class DoubtWarning(UserWarning):
    """A run converged, but there is a reason not to believe the answer, or a part of it.

    Examples
    --------
    >>> import lrmc, warnings
    >>> Y = lrmc.synthetic.problem(n=100, rank=4, p=0.8).Y
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = lrmc.solve(Y, rank=2)
    >>> any(w.category is lrmc.DoubtWarning for w in caught), result.warnings[0][:36]
    (True, 'components beyond rank 2 stand out: ')
    """


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
    time: AskedTime | None = "auto",
    period: int | Literal["auto"] | None = "auto",
    times: Any = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
    verbose: bool = False,
) -> Result:
    """Recover a low-rank matrix from data with missing entries and gross outliers.

    The data are Y = X + S on the observed entries, possibly with noise: X is low-rank, S is sparse.
    The default method, the closed loop, needs nothing else, not even the rank.

    Parameters
    ----------
    Y : 2-D array, DataFrame, sparse matrix, memmap, DataArray, tensor, zarr, HDF5 or Dask array
        The data. NaN, masked and not stored entries are missing; see
        `lrmc.observations.as_observations`. Complex numbers, in memory, are weighed by their
        modulus; the result is a `ComplexResult`.
    rank : int, optional
        Rank of X; found if not given. On data without noise it may be too high: components that
        are not needed are dropped.
    mask : array of bool, optional
        True where an entry is observed.
    method : {"auto", "closed_loop", "lrmc", "scaled_gd", "gd"}, default "auto"
        "auto" is the closed loop, or the paper's LRMC where a `schedule` is given and fits the
        data. "scaled_gd" and "gd" are the paper's baselines.
    schedule : Schedule, Tuning or str, optional
        Thresholds and step sizes for LRMC: a `Schedule`, the name of one, or "nearest" for the one
        that was trained on problems most like these data. `result.schedule` of an earlier run has
        what was learned and decided for noisy data (a plan): more data of the same kind are then
        solved without learning it again. For the baselines a `Tuning`, such as
        `Tuning(alpha=0.1)`.
    loss : {"auto", "mixture", "cauchy", "huber", "squares"}, default "auto"
        How residuals are weighed on noisy data; chosen by entries that are set aside if "auto".
    score : {"auto", "mae", "rmse"}, default "auto"
        What decisions on noisy data minimize on hidden entries; "auto" is between the two.
    aim : {"auto", "fill", "separate"}, default "auto"
        Whether gaps are to be filled, or what moves is to be told from a background; "auto"
        separates where nothing is missing.
    outliers : {"both", "positive", "negative"}, default "both"
        Whether outliers lie on both sides of X, only above, or only below.
    groups : array of labels, optional
        One label per row. Rows with the same label share one weight in each column, as the bands
        of a pixel do: a cloud covers all of them.
    row_noise, col_noise : array of float, optional
        Known noise levels of rows and columns, relative to each other.
    start : {"spectral", "cur"} or Iterate, default "spectral"
        Where iterations begin; an iterate of an earlier run of the closed loop goes on from there.
    time : {"auto", "columns", "rows"}, optional
        Which side of the table is time: then `completed` adds each sensor's own process in time
        to the low-rank part, where entries that are set aside speak for it, and
        `result.evidence["time"]` has what they say. "auto" finds out whether columns are times;
        None forbids it. DataFrames with dates (index, columns, or one column) and DataArrays with
        a dimension "time" say it by themselves; a 3-D array is sensors x days x slots.
    period : int or "auto", optional
        Steps in a period (a day, say); "auto" reads it from the calendar or the data.
    times : array of numbers or dates, optional
        One for each step in time, if they are not even.
    tol : float, default 1e-6
        Stop when X changes by less than this fraction of its norm. Noisy data stop at the noise
        level.
    max_iter : int, default 100
        Maximum number of iterations of the first stage; the later ones for noisy data are bounded
        anyway.
    seed : int, default 0
        Seed of all that is random.
    threads : int, optional
        Number of threads; all cores if not given.
    progress : callable, optional
        Called with each `Iterate`. Without it small matrices, of up to 131,072 entries, are first
        given to a kernel that solves those without noise at once.
    verbose : bool, default False
        Print a line per second with the time left. The logger "lrmc" gets the same at level INFO.

    Returns
    -------
    Result
        Factors, status, outliers, evidence.

    Raises
    ------
    ValueError
        If an argument makes no sense, or nothing is observed.

    Warns
    -----
    ConvergenceWarning
        If the run did not converge.
    DoubtWarning
        If it converged, but there is a reason not to believe the answer or a part of it.

    Examples
    --------
    >>> import lrmc
    >>> problem = lrmc.synthetic.problem(n=200, rank=3, alpha=0.1, p=0.5)
    >>> result = lrmc.solve(problem.Y)
    >>> result.rank, str(result.status), result.regime
    (3, 'converged', 'exact')
    """
    asked_time = checked_time(time, period, times)
    max_iter = checked_max_iter(max_iter)
    function_or_none("progress", progress)
    parts = None
    if holds_complex(Y):
        asked_time = not_in_time(asked_time)
        parts = in_real_parts(Y, mask, threads=threads)
        if progress is not None:
            progress = partial(_told_in_complex, progress, parts.turn)
    follow = followed(progress, verbose, checked_tol(tol))
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
        at_once=progress is None,
    )
    result = answered(Y, asked, asked_time, max_iter, follow, parts)
    _warn(result)
    log_end(result, verbose)
    return result


def answered(
    Y: Any,
    asked: Asked,
    asked_time: AskedOfTime,
    max_iter: int,
    progress: Progress | None = None,
    parts: RealParts | None = None,
) -> Result:
    """What a run gives; what speaks against it is in `Result.warnings`, and not said aloud."""
    Y, asked_time, mask = told_by(Y, asked.mask, asked_time)
    asked = replace(asked, mask=mask)
    job = (
        checked_job(Y, asked)
        if parts is None
        else checked_complex_job(parts.obs, asked)
    )
    if asked.method == "auto" and job.method == "lrmc":
        result = _with_safety_net(job, max_iter, progress)
    else:
        result = _ran(job, max_iter, progress)
    # what is proven needs no model of time
    if result.regime == "noisy" or (asked_time.is_given and result.regime != "exact"):
        result = with_time(result, asked_time, asked.seed)
    result = replace(result, labels=labels_of(Y))
    return result if parts is None else ComplexResult.of(result, parts.turn)


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
    """Iterate a method step by step; stop when you like.

    Parameters
    ----------
    Y, rank, mask, method, schedule, loss, score, aim, outliers, groups, row_noise, col_noise, start, seed, threads
        As for `solve`.

    Yields
    ------
    Iterate
        The start first (k = 0).

    Examples
    --------
    >>> import lrmc
    >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=0.8)
    >>> for it in lrmc.iterates(problem.Y, rank=2):
    ...     if it.change < 1e-3:
    ...         break
    >>> it.k < 20
    True
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
    if holds_complex(Y):
        obs, turn = in_real_parts(Y, mask, threads=threads)
        steps = _iterates(checked_complex_job(obs, asked))
        return (in_complex(it, turn) for it in steps)
    return _iterates(checked_job(Y, asked))


def _told_in_complex(progress: Progress, turn: complex, it: Iterate) -> None:
    progress(in_complex(it, turn))


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
    warnings.warn(text, ConvergenceWarning, stacklevel=4)
    job = replace(job, method="closed_loop", schedule=None)
    return _ran(job, max_iter, progress)


def _ran(job: Job, max_iter: int, progress: Progress | None) -> Result:
    """A job's result, which can be had again without some of the entries."""
    ended = _at_once(job, max_iter)
    if ended is not None and progress is not None:
        progress(ended.last)
    if ended is None:
        ended = _run(job, max_iter, progress)
        if max_iter >= ENOUGH and _is_lost(job, ended):
            ended = _as_noisy(job, ended, max_iter, progress)
    return finished(job, ended, max_iter)


def _is_lost(job: Job, ended: Ended) -> bool:
    """Whether the closed loop wandered or ran away where nothing speaks for exact data.

    What it leaves then is no estimate: no prior holds it."""
    usual = job.method == "closed_loop" and job.wishes.plan is None
    if not (usual and can_hold_out(job.obs)):
        return False
    if ended.status is Status.MAX_ITER:
        last = Factors(ended.last.L, ended.last.R)
        return not may_be_exact(job.obs, last, job.tol)
    return ended.status is Status.DIVERGED


def _as_noisy(job: Job, lost: Ended, max_iter: int, progress: Progress | None) -> Ended:
    """The run goes on with the model for noisy data."""
    job = replace(job, wishes=replace(job.wishes, noisy=True))
    ended = _run(job, max_iter, progress, lost.history)
    return ended if ended.found.plan is not None else lost


def finished(job: Job, ended: Ended, max_iter: int) -> Result:
    """The result of a run that ended so."""
    refit = partial(_again, _told(job, ended), max_iter)
    return replace(_result(job, ended), refit=refit)


def _told(job: Job, ended: Ended) -> Job:
    """The same job with what a run found: it need not be looked for again."""
    # an earlier run has seen all entries
    start = "spectral" if isinstance(job.start, Iterate) else job.start
    plan = ended.found.plan
    if plan is not None:
        wishes = replace(job.wishes, plan=plan, foreign=False)
        return replace(job, start=start, wishes=wishes)
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


def _at_once(job: Job, max_iter: int) -> Ended | None:
    """A small matrix without noise, by one call of a kernel; None where that proves nothing."""
    if not (is_small(job.obs) and _as_usual(job)):
        return None
    unit = power_of_4(job.obs.scale)
    (solved,) = solve_small(
        [job.obs.scaled(1 / unit).part()],
        job.rank,
        dtype=job.obs.dtype,
        tol=job.tol,
        most=max_iter,
        seed=job.seed,
    )
    return None if solved is None else ended_at_once(job, solved, unit)


def _as_usual(job: Job) -> bool:
    """Whether nothing was asked for that needs more than the plain closed loop."""
    plain = job.method == "closed_loop" and job.wishes.plan is None
    plain &= job.at_once
    return plain and job.start == "spectral" and job.noise.outliers == "both"


def ended_at_once(job: Job, solved: Solved, unit: float = 1.0) -> Ended:
    """How a run of the kernel for small matrices ended, on data in this unit."""
    X = Factors(*(scaled(F, math.sqrt(unit)) for F in solved.X))
    proof = replace(solved.certificate, border=unit * solved.certificate.border)
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
        "rank_tests": _looked_at(job, solved, unit),
        "certificate": proof.plain(),
    }
    found = Findings(Status.CONVERGED, "exact", evidence, proof)
    return Ended(it, Status.CONVERGED, history, found)


def _looked_at(job: Job, solved: Solved, unit: float) -> tuple[Test, ...]:
    """Where the rank was not given: what was found, beside what unrelated entries could have."""
    if job.rank is not None:
        return ()
    obs, zeta = job.obs.scaled(1 / unit), ABOVE * job.obs.scale / unit
    noise = noise_level(obs, None, zeta, obs.fraction, reject=False)
    values = np.sort(np.diag(gram(solved.X.L)))[::-1]
    return (Test(0, tuple(values.tolist()), noise, solved.rank).times(unit),)


def _run(
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
    run = _iterates(job, len(before))
    counted = 0
    while counted < max_iter:
        try:
            # numbers that overflow are noticed below
            with np.errstate(over="ignore", invalid="ignore"):
                it = next(run)
        except StopIteration as end:
            assert last is not None
            return Ended(last, end.value.status, tuple(history), end.value)
        first_norm = it.norm if last is None else first_norm
        if blown_up(it.norm, first_norm):
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


def blown_up(size: float, first: float) -> bool:
    """Whether an iterate of this norm is lost, where the first had that one."""
    return not math.isfinite(size) or size > BLOWN_UP * first


def _iterates(job: Job, first: int = 0) -> Generator[Iterate, None, Findings]:
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
    open_rows, open_cols = empty = without_entries(job.obs)
    proof, doubts = found.certificate, list(found.doubts)
    beyond = _beyond(found.plan, job.obs, X)
    if proof is None:
        noise, share = noise_and_share(job.obs, X)
        if job.method == "closed_loop":
            doubts += _not_believed(job.obs, Fit(X, beyond), share, found)
    else:
        noise, share = _disagreement(job.obs, X, proof)
        open_rows, open_cols = (
            np.union1d(open_rows, proof.rows),
            np.union1d(open_cols, proof.cols),
        )
        doubts += _not_vouched_for(proof, job.obs.is_here)
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
        warnings=(*doubts, *_shortcomings(job.obs, last.L.shape[1], empty, shrunk)),
    )


def _disagreement(
    obs: Observations,
    X: Factors,
    proof: Certificate,
) -> tuple[float, float]:
    """The root mean square of residuals that agree with what is proven, and the share of others."""
    size = np.abs(obs.sample.residual(X)).astype(np.float64)
    good = size[size <= proof.border]
    # no product of BLAS, which wakes threads for 10,000 numbers
    noise = math.sqrt(float(np.square(good).mean())) if len(good) else 0.0
    return noise, 1 - proof.agreeing


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
    obs: Observations,
    fit: Fit,
    share: float,
    found: Findings,
) -> Iterator[str]:
    """Why a fit to noisy data may be wrong, in sentences."""
    if share > MOST_OUTLIERS:
        yield f"{100 * share:.0f} % of the entries are far from this fit: it may be the fit that is wrong"
    rank = fit.X.L.shape[1]
    good, free = round((1 - share) * obs.n_observed), rank * (sum(obs.shape) - rank)
    # else that is said of all entries
    few = good < FEW_PER_UNKNOWN * free and obs.n_observed >= rank * sum(obs.shape)
    if few and (found.plan is None or found.plan.fixed):
        yield f"{good} good entries are few for the {free} free numbers of rank {rank}: the fit may follow the noise"
    if found.held_out is None:
        return
    typical, error, simple = found.held_out
    shown = float(np.quantile(np.abs(fit.residual(obs.sample)), TYPICAL))
    if max(typical, shown) < NOTHING * obs.scale:
        yield "the fit meets most entries exactly, but that does not prove it: see evidence['certificate']"
        return
    if typical > SURPRISE * shown:
        yield (
            f"a quarter of the entries that were set aside is missed by less than {typical:.2g}, of those fitted by"
            f" {shown:.2g}: the data do not determine this matrix, or it was not found"
        )
    # by less a blend would not be worth its while: the two are as good
    if error > (1 + WORTH) * simple:
        yield (
            f"the mean absolute error on entries that were set aside is {error:.2g}, and {simple:.2g} if each is taken"
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


def _shortcomings(
    obs: Observations,
    rank: int,
    empty: tuple[Array, Array],
    shrunk: bool,
) -> Iterator[str]:
    """What the entries themselves cannot determine, in sentences. `empty` rows and columns have
    none.
    """
    sides = zip(empty, ("row(s)", "column(s)"), strict=True)
    without = [f"{len(lines)} {name}" for lines, name in sides if len(lines)]
    if without:
        yield f"{' and '.join(without)} have no observation: their values are not determined, and NaN in the completion"
    rows, cols = (
        unconnected(obs) if obs.across is None else unconnected(obs.across)[::-1]
    )
    if rows or cols:
        text = f"{rows} row(s) and {cols} column(s) share no entry with the others, not even through a chain of entries"
        yield f"{text}: how large they are beside each other is not determined"
    unknowns = rank * sum(obs.shape)
    if obs.n_observed < unknowns and not shrunk:
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

"""Consume the steps of a method: stopping, status, warnings, progress."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ._answer import answer, beyond_low_rank
from ._arguments import function_or_none
from ._job import (
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
from ._loop import Ended, Progress, at_once, iterates_of, run
from .complex_result import ComplexResult
from .fit import Fit
from .frames import labels_of
from .linalg import Factors
from .methods.certificate import is_of_one_value, may_be_exact
from .methods.in_time.doors import told_by
from .methods.in_time.improve import Asked as AskedOfTime
from .methods.in_time.improve import AskedTime, checked_time, with_time
from .methods.lessons import Losses, is_better
from .methods.nearest_schedule import misfit
from .methods.noisy import AskedLoss
from .methods.plan import Score
from .observations.absurd import without_absurd
from .observations.base import Observations
from .observations.complex_parts import RealParts, holds_complex, in_real_parts
from .observations.heldout import Submatrix, can_hold_out, hold_out, part_in_memory
from .result import Iterate, Result, Status
from .schedule import Schedule, Tuning
from .weights import Sides

# passes: what the closed loop does not settle within a limit of at least so many has noise
ENOUGH = 60


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
        Rank of X; found if not given. Too high does no harm without noise: components that are
        not needed are dropped. On noisy data `result.rank` may be up to 2 higher: offsets of rows
        and columns are added as components where hidden entries ask for them.
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
        What decisions on noisy data minimize on hidden entries; "auto" is between mean absolute and
        root mean square error. Up to 40 columns, second opinions count in deviations of columns.
    aim : {"auto", "fill", "separate"}, default "auto"
        Fill gaps, or separate what moves from a background, as "auto" does without gaps.
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
        `result.evidence["time"]` has what they say. "auto" finds out whether columns or rows are
        times; None forbids it. DataFrames with dates or periods (index, columns, or one column) and
        DataArrays with a dimension "time" say it by themselves; a 3-D array is sensors x days x
        slots.
    period : int or "auto", optional
        Steps in a period (a day, say); "auto" reads it from the calendar or the data.
    times : array of numbers or dates, optional
        One for each step in time, if they are not even.
    tol : float, default 1e-6
        Stop when X changes by less than this fraction of its norm. Noisy data stop at the noise
        level.
    max_iter : int, default 100
        Maximum number of iterations of the first stage; later ones have limits of their own.
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
    table, asked_time, mask = told_by(Y, asked.mask, asked_time)
    asked = replace(asked, mask=mask)
    job = (
        checked_job(table, asked)
        if parts is None
        else checked_complex_job(parts.obs, asked)
    )
    if asked_time.is_given:
        job = replace(job, wishes=replace(job.wishes, in_time=True))
    if asked.method == "auto" and job.method == "lrmc":
        result = _with_safety_net(job, max_iter, progress)
    else:
        result = _ran(job, max_iter, progress)
    # what is proven needs no model of time; one usual value proves little of switches
    proven = result.regime == "exact" and not is_of_one_value(result.warnings)
    if result.regime == "noisy" or (asked_time.is_given and not proven):
        sided = asked.outliers != "both"
        asked_time = asked_time._replace(score=asked.score, one_sided=sided)
        result = with_time(result, asked_time, asked.seed)
    result = replace(_of_all(result, job.obs), labels=labels_of(table, Y))
    return result if parts is None else ComplexResult.of(result, parts.turn)


def _of_all(result: Result, obs: Observations) -> Result:
    """The same with all data, where some entries were taken for missing."""
    seen = result.observations
    if seen is None or seen is obs:
        return result
    count = obs.n_observed - seen.n_observed
    evidence = {**result.evidence, "beyond_reason": count}
    return replace(result, observations=obs, evidence=evidence)


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
        steps = iterates_of(checked_complex_job(obs, asked))
        return (in_complex(it, turn) for it in steps)
    return iterates_of(checked_job(Y, asked))


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
    ended = at_once(job, max_iter)
    if ended is not None and progress is not None:
        progress(ended.last)
    if ended is None:
        job = replace(job, obs=_sound(job, job.obs))
        ended = run(job, max_iter, progress)
        if max_iter >= ENOUGH and _may_be_lost(job, ended):
            ended = _or_noisy(job, ended, max_iter, progress)
    return finished(job, ended, max_iter)


def _sound(job: Job, obs: Observations) -> Observations:
    """What a method is given: the default leaves out what is beyond all reason, the paper's clip it."""
    return without_absurd(obs) if job.method == "closed_loop" else obs


def _may_be_lost(job: Job, ended: Ended) -> bool:
    """Whether the closed loop wandered or ran away: what it leaves then may be no estimate, since no
    prior holds it."""
    usual = job.method == "closed_loop" and job.wishes.plan is None
    unsound = ended.status in (Status.MAX_ITER, Status.DIVERGED)
    return usual and unsound and can_hold_out(job.obs)


def _or_noisy(job: Job, lost: Ended, max_iter: int, progress: Progress | None) -> Ended:
    """The run goes on with the model for noisy data.

    Steps that may be on their way to an exact fit stay, unless entries set aside are clearly nearer
    to that model: of data with noise some entries may be exact, such as totals."""
    other = replace(job, wishes=replace(job.wishes, noisy=True))
    noisy = run(other, max_iter, progress, lost.history)
    if noisy.found.plan is None:
        return lost
    last = Factors(lost.last.L, lost.last.R)
    on_its_way = lost.status is Status.MAX_ITER and may_be_exact(job.obs, last, job.tol)
    if on_its_way and not _is_nearer(_told(other, noisy), _told(job, lost), max_iter):
        return lost
    return noisy


def _is_nearer(job: Job, than: Job, max_iter: int) -> bool:
    """Whether one run is clearly nearer than another to entries that neither knows."""
    part = part_in_memory(job.obs, job.seed)
    rest, held = hold_out(part.obs, job.seed)
    fits = (_again(x, max_iter, part._replace(obs=rest), 0) for x in (than, job))
    missed = [np.abs(held.values - fit.at(held.rows, held.cols)) for fit in fits]
    before, after = (Losses(size, held.tells()) for size in missed)
    return is_better(before, after)


def finished(job: Job, ended: Ended, max_iter: int) -> Result:
    """The result of a run that ended so."""
    refit = partial(_again, _told(job, ended), max_iter)
    return replace(answer(job, ended), refit=refit)


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
    obs = _sound(job, part.obs)
    job = replace(job, obs=obs, noise=noise, seed=job.seed + seed + 1)
    last = run(job, max_iter, None).last
    X = Factors(last.L, last.R)
    return Fit(X, beyond_low_rank(job.wishes.plan, obs, X))


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

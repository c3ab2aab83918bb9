"""Consume the iterates of a method: stopping, status, warnings, progress."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal, get_args

import numpy as np

from ._arguments import checked_rank, function_or_none, one_of, real_number, shown, whole_number
from .linalg import Factors, change, norm, power_of_4
from .methods.certificate import Certificate
from .methods.choose import TYPICAL
from .methods.connected import unconnected
from .methods.default import Findings, HeldOut, default
from .methods.gd import gd
from .methods.lrmc import Start, Step, lrmc
from .methods.nearest_schedule import misfit, nearest
from .methods.noise import unlike_members
from .methods.noisy import AskedLoss, Noise, noise_and_share
from .methods.scaled_gd import scaled_gd
from .methods.start import STARTS
from .observations._door import as_observations
from .observations.base import Observations
from .observations.grouped import grouped
from .observations.tall import equal, where
from .result import Iterate, Record, Result, Status
from .schedule import Schedule, Tuning
from .weights import Sides

Method = Literal["auto", "closed_loop", "lrmc", "scaled_gd", "gd"]
METHODS = ("auto", "closed_loop", "lrmc", "scaled_gd", "gd")
BASELINES = {"scaled_gd": scaled_gd, "gd": gd}
DEFAULT_SCHEDULE = "geometric"
BLOWN_UP = 1e3  # an iterate this many times larger than the start is lost
MOST_OUTLIERS = 0.5  # beyond, the majority speaks against the fit
SURPRISE = 6.0  # times: by how much more entries may be missed that a fit has not seen
MOST_PASSES = 10**9  # a larger max_iter is a mistake
FEW_PER_UNKNOWN = 1.5  # good entries for every free number of the fit: with fewer, it follows the noise
NOTHING = 1e-9  # of the scale of the data
ROOM = 1e3  # times: how far typical entries must be from the largest and the smallest number there is
FEW_INLIERS = 0.25  # fewer than this within the threshold: it fell below the residual


class ConvergenceWarning(UserWarning):
    """A run ended otherwise than by coming to rest."""


class DoubtWarning(UserWarning):
    """A run ended well, and yet there is a reason not to believe the answer, or a part of it."""


@dataclass(frozen=True)
class Job:
    """Everything that a run needs to know."""

    obs: Observations
    rank: int | None
    method: str
    schedule: Schedule | Tuning
    start: str | Iterate
    noise: Noise
    loss: Any
    tol: float
    seed: int


def solve(
    Y: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    method: Method = "auto",
    schedule: Schedule | Tuning | str | None = None,
    loss: AskedLoss = "auto",
    outliers: Sides = "both",
    groups: Any = None,
    row_noise: Any = None,
    col_noise: Any = None,
    start: Literal["spectral", "cur"] | Iterate = "spectral",
    tol: float = 1e-6,
    max_iter: int = 100,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Iterate], None] | None = None,
) -> Result:
    """Recover the low-rank matrix X from partly observed, grossly corrupted Y = X + S.

    Y and `mask` are explained at `lrmc.observations.as_observations`. The default method is the closed loop, which
    needs nothing else, not even the rank. One that is given may be too high: of data without noise, components that
    are not needed are dropped, and `rank` of the result says how many are left. With a `schedule` (a `Schedule`, the
    name of one, or "nearest": the one that was trained on problems most like these data) the method is the paper's
    LRMC, as long as the schedule fits the data. A run stops when |X_k - X_{k-1}|_F < tol |X_{k-1}|_F, when it has come
    to rest at the noise, or after max_iter passes (sweeps over noisy data are not counted: their number is bounded).
    `progress` is called with each iterate.

    The methods "scaled_gd" and "gd" are the paper's baselines. They need the rank and the share of outliers: `schedule`
    is a `Tuning`, such as Tuning(alpha=0.1).

    For the closed loop on noisy data: `loss` is how residuals are weighed; `outliers` says whether they lie on both
    sides of the truth, or only above ("positive") or below ("negative"); `groups` has a label for each row, and rows
    with the same label share one weight in each column (the bands of a pixel: a cloud covers all); `row_noise` and
    `col_noise` are known relative noise levels of rows and columns. `start` may also be an iterate of an earlier run of
    the closed loop, which goes on from there.
    """
    tol = checked_tol(tol)
    max_iter = checked_max_iter(max_iter)
    function_or_none("progress", progress)
    sides = (outliers, groups, row_noise, col_noise)
    job = _job(Y, rank, mask, method, schedule, loss, sides, start, tol, seed, threads)
    if method == "auto" and job.method == "lrmc":
        result = _with_safety_net(job, max_iter, progress)
    else:
        result = _solve(job, max_iter, progress)
    _warn(result)
    return result


def _with_safety_net(job: Job, max_iter: int, progress: Callable[[Iterate], None] | None) -> Result:
    """The schedule while it fits the data, and otherwise the closed loop."""
    assert isinstance(job.schedule, Schedule)
    why = misfit(job.schedule, job.obs, job.rank or 1)
    if why is None:
        result = _solve(job, max_iter, progress)
        if result.status not in (Status.DIVERGED, Status.STALLED):
            return result
        why = result.status.meaning
    text = f"the schedule does not fit these data ({why}); the closed loop was used instead"
    warnings.warn(text, ConvergenceWarning, stacklevel=3)
    return _solve(replace(job, method="closed_loop"), max_iter, progress)


def _solve(job: Job, max_iter: int, progress: Callable[[Iterate], None] | None) -> Result:
    """Run a job until it ends."""
    began = time.perf_counter()
    history: list[Record] = []
    last, status, found = None, Status.MAX_ITER, Findings(Status.MAX_ITER, "unknown")
    first_norm = math.inf
    run = _iterates(job)
    counted = 0
    while counted < max_iter:
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # numbers that overflow are noticed below
                it = next(run)
                size = norm(Factors(it.L, it.R))
        except StopIteration as end:
            found = end.value
            status = found.status
            break
        first_norm = size if it.k == 0 else first_norm
        if blown_up(size, first_norm):
            status = Status.DIVERGED
            break
        last = it
        counted += it.stage in ("exact", "lrmc", *BASELINES)
        history.append(Record(it.k, it.change, it.zeta, it.inliers, time.perf_counter() - began))
        if progress is not None:
            progress(it)
        if job.method != "closed_loop" and it.change < job.tol:
            status = Status.CONVERGED if it.inliers >= FEW_INLIERS else Status.STALLED
            break
    if last is None:
        raise FloatingPointError(
            "the start is not finite; are there values near the limits of the floating-point range?"
        )
    if job.method == "closed_loop" and status is Status.CONVERGED and _too_few(job.obs, last):
        status = Status.UNDETERMINED
    open_rows, open_cols = (where(n == 0) for n in (job.obs.row_observed, job.obs.col_observed))
    proof, doubts = found.certificate, list(found.doubts)
    noise, share = noise_and_share(job.obs, Factors(last.L, last.R))
    if proof is not None:
        share = 1 - proof.agreeing
        open_rows, open_cols = np.union1d(open_rows, proof.rows), np.union1d(open_cols, proof.cols)
        doubts += _not_vouched_for(proof)
    elif job.method == "closed_loop":
        doubts += _not_believed(job.obs, Factors(last.L, last.R), share, found.held_out)
    return Result(
        *job.obs.in_form(last.L, last.R),
        status,
        tuple(history),
        job.method,
        job.tol,
        open_rows,
        open_cols,
        noise,
        share,
        found.regime,
        found.evidence,
        job.obs,
        None if proof is None else proof.plain(),
        (*doubts, *_shortcomings(job.obs, last.L.shape[1])),
    )


def _not_believed(obs: Observations, X: Factors, share: float, held_out: HeldOut | None) -> Iterator[str]:
    """Why a fit to noisy data may be wrong, in sentences."""
    if share > MOST_OUTLIERS:
        yield f"{100 * share:.0f} % of the entries are far from this fit: it may be the fit that is wrong"
    rank = X.L.shape[1]
    good, free = round((1 - share) * obs.n_observed), rank * (sum(obs.shape) - rank)
    if good < FEW_PER_UNKNOWN * free and obs.n_observed >= rank * sum(obs.shape):  # else that is said of all entries
        yield f"{good} good entries are few for the {free} free numbers of rank {rank}: the fit may follow the noise"
    if held_out is None:
        return
    typical, error, simple = held_out
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


def _not_vouched_for(proof: Certificate) -> list[str]:
    if proof.doubt:
        return [proof.doubt]
    lines = ((len(proof.rows), "row(s)"), (len(proof.cols), "column(s)"))
    counts = " and ".join(f"{n} {name}" for n, name in lines if n)
    if not counts:
        return []
    return [f"of {counts} too few entries agree with the fit to vouch for it: NaN in the completion"]


def blown_up(size: float, first: float) -> bool:
    """Whether an iterate of this norm is lost, where the first had that one."""
    return not math.isfinite(size) or size > BLOWN_UP * first


def iterates(
    Y: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    method: Method = "auto",
    schedule: Schedule | Tuning | str | None = None,
    loss: AskedLoss = "auto",
    outliers: Sides = "both",
    groups: Any = None,
    row_noise: Any = None,
    col_noise: Any = None,
    start: Literal["spectral", "cur"] | Iterate = "spectral",
    seed: int = 0,
    threads: int | None = None,
) -> Iterator[Iterate]:
    """The iterates of a method, the start first (k = 0): stop when you like. Arguments as for `solve`."""
    sides = (outliers, groups, row_noise, col_noise)
    return _iterates(_job(Y, rank, mask, method, schedule, loss, sides, start, 0.0, seed, threads))


def _job(
    Y: Any,
    rank: int | None,
    mask: Any,
    method: str,
    schedule: Any,
    loss: str,
    sides: tuple[str, Any, Any, Any],
    start: Any,
    tol: float,
    seed: int,
    threads: int | None,
) -> Job:
    """Check what was asked for."""
    one_of("method", method, METHODS)
    if not isinstance(start, Iterate):
        one_of("start", start, tuple(STARTS))
    one_of("loss", loss, get_args(AskedLoss))
    one_of("outliers", sides[0], get_args(Sides))
    seed = whole_number("seed", seed, 0)
    if method == "auto":
        method = "closed_loop" if schedule is None else "lrmc"
    if method == "closed_loop" and schedule is not None:
        raise ValueError("schedule= was given with method='closed_loop', which needs none; leave one of them out")
    plan = None if _is_nearest(schedule) else _as_schedule(schedule, method)
    if method in BASELINES and (start != "spectral" or sides[0] != "both" or any(x is not None for x in sides[1:])):
        raise ValueError(f"start, outliers, groups and noise levels are not for method={method!r}; leave them out")
    if isinstance(start, Iterate) and method != "closed_loop":
        raise ValueError("start= is an iterate of an earlier run: only the closed loop, without a schedule, goes on")
    obs = as_observations(Y, mask, threads=threads)
    if isinstance(start, Iterate) and (len(start.L), len(start.R)) != obs.shape:
        raise ValueError(
            f"start= is an iterate for a {len(start.L)} x {len(start.R)} matrix; these data are {obs.shape}"
        )
    if rank is None and method != "closed_loop":
        name = "LRMC" if method == "lrmc" else method
        raise ValueError(f"rank=None: {name} needs the rank; give one, or leave method and schedule out: it is found")
    _check_scale(obs)
    rank = None if rank is None else checked_rank(rank, obs.shape)
    if sides[1] is not None:
        obs = grouped(obs, sides[1])
    rows, cols = (_noise_of(x, n, name) for x, n, name in zip(sides[2:], obs.shape, ("row_noise", "col_noise")))
    if obs.groups is not None and sides[2] is None:
        rows = unlike_members(obs)
    noise = Noise(rows, cols, outliers=sides[0])  # type: ignore[arg-type]
    if plan is None:
        plan = Schedule.named(nearest(obs, rank or 1, seed)[0])
    return Job(obs, rank, method, plan, start, noise, None if loss == "auto" else loss, tol, seed)


def _check_scale(obs: Observations) -> None:
    """Refuse data whose typical size leaves no room for products and differences."""
    limits = np.finfo(obs.dtype)
    if not ROOM * float(limits.tiny) < obs.scale < float(limits.max) / ROOM:
        raise ValueError(
            f"the entries are typically of size {min(obs.scale, float(limits.max)):.2g}, at the limits of {obs.dtype}:"
            " multiply them by a number that brings them nearer to 1"
        )


def _is_nearest(schedule: Any) -> bool:
    return isinstance(schedule, str) and schedule == "nearest"


def _noise_of(given: Any, n: int, name: str) -> Any:
    """Relative noise levels, one per row or column."""
    if given is None:
        return equal(1.0, n)
    levels = _real_array(given)
    if levels is None:
        raise ValueError(f"{name}={shown(given)}; {n} positive numbers are wanted")
    if levels.shape != (n,):
        raise ValueError(f"{name} has shape {levels.shape}; {n} positive numbers are wanted")
    wrong = np.flatnonzero(~(np.isfinite(levels) & (levels > 0)))
    if len(wrong):
        raise ValueError(f"{name} holds {levels[wrong[0]]} at {wrong[0]}; {n} positive numbers are wanted")
    return levels / np.median(levels)


def _real_array(given: Any) -> Any:
    """As floats; None if it holds something else than real numbers."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of unlike lengths
        return None
    return array.astype(np.float64) if array.dtype.kind in "fiu" else None


def _iterates(job: Job) -> Generator[Iterate, None, Findings]:
    """The iterates of a job, in the units of the data; at the end, what was found out."""
    unit = power_of_4(job.obs.scale)
    root = job.obs.dtype.type(math.sqrt(unit))
    obs = job.obs.scaled(1 / unit)
    steps: Iterator[Step]
    if isinstance(job.schedule, Tuning):
        steps = BASELINES[job.method](obs, job.rank or 1, job.schedule, job.seed)
    elif job.method == "lrmc":
        scale, p = job.obs.scale, obs.fraction
        zeta, gain = job.schedule.start(scale, p)
        layers = (layer._replace(zeta=layer.zeta / unit) for layer in job.schedule.layers(scale, p))
        X = STARTS[str(job.start)](obs, job.rank or 1, zeta / unit, gain, job.seed)
        steps = lrmc(obs, Start(X, zeta / unit), layers, job.schedule.tangent)
    else:
        begin = None
        if isinstance(job.start, Iterate):
            begin = Factors(job.start.L / root, job.start.R / root), job.start.zeta / unit
        steps = default(obs, job.rank, noise=job.noise, loss=job.loss, tol=job.tol, seed=job.seed, begin=begin)
    before: Factors | None = None
    for k in count():
        try:
            step = next(steps)
        except StopIteration as end:
            return (end.value or Findings(Status.SCHEDULE_ENDED, "exact")).times(unit)
        X = Factors(step.L, step.R)
        moved = math.inf if k else math.nan
        if before is not None and before.L.shape == X.L.shape:
            moved = change(before, X)
        yield Iterate(k, X.L * root, X.R * root, moved, step.zeta * unit, step.inliers, step.stage)
        before = X
    raise AssertionError("unreachable")


def _too_few(obs: Observations, it: Iterate) -> bool:
    """Whether inliers cannot determine a matrix of this rank: it has rank (n1 + n2 - rank) free numbers."""
    rank = it.L.shape[1]
    return it.inliers * obs.n_observed < rank * (sum(obs.shape) - rank)


def _as_schedule(schedule: Any, method: str) -> Schedule | Tuning:
    if (method in BASELINES) != isinstance(schedule, Tuning):
        wants = "the share of outliers has to be known" if method in BASELINES else "a Tuning is for the baselines"
        raise ValueError(f"{wants}: give method='scaled_gd' or 'gd' together with schedule=Tuning(alpha=...)")
    if schedule is None:
        return Schedule.named(DEFAULT_SCHEDULE)
    if isinstance(schedule, str):
        return Schedule.named(schedule)
    if not isinstance(schedule, Schedule | Tuning):
        raise ValueError(f"schedule is a {type(schedule).__name__}; a Schedule or the name of one is wanted")
    return schedule


def checked_tol(tol: Any) -> float:
    """Where a run stops: a positive number."""
    return real_number("tol", tol, lambda x: x > 0, "a positive, finite number")


def checked_max_iter(max_iter: Any) -> int:
    """How many passes, at most."""
    return whole_number("max_iter", max_iter, 1, MOST_PASSES)


def _shortcomings(obs: Observations, rank: int) -> Iterator[str]:
    """What the entries themselves cannot determine, in sentences."""
    empty = [
        f"{n} {name}"
        for n, name in (
            (len(where(x == 0)), y) for x, y in ((obs.row_observed, "row(s)"), (obs.col_observed, "column(s)"))
        )
        if n
    ]
    if empty:
        yield f"{' and '.join(empty)} have no observation: their values are not determined, and NaN in the completion"
    rows, cols = unconnected(obs)
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
        _say(ConvergenceWarning, f"after {result.n_iter} iterations: {result.status.meaning}")


def _say(category: type[Warning], text: str) -> None:
    warnings.warn(text, category, stacklevel=4)

"""What was asked of a run, checked at the door: one record that `solve` and `iterates` share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from ._arguments import checked_rank, one_of, real_number, shown, whole_number
from ._rows import equal
from .methods.default import Wishes
from .methods.gd import gd
from .methods.in_time.improve import Asked as AskedInTime
from .methods.nearest_schedule import nearest_of_all
from .methods.noise import unlike_members
from .methods.noisy import AskedLoss, Noise
from .methods.plan import Aim, Plan, Score
from .methods.scaled_gd import scaled_gd
from .methods.start import STARTS
from .observations import as_observations
from .observations.base import Observations
from .observations.complex_parts import complex_factors
from .observations.grouped import grouped
from .result import Iterate
from .schedule import Schedule, Tuning
from .weights import Array, Sides

Method = Literal["auto", "closed_loop", "lrmc", "scaled_gd", "gd"]
Start = Literal["spectral", "cur"] | Iterate
AskedAim = Literal["auto", Aim]  # what a user may say
METHODS = get_args(Method)
LOSSES = get_args(AskedLoss)
SIDES = get_args(Sides)
SCORES = get_args(Score)
AIMS = ("auto", *get_args(Aim))
BASELINES = {"scaled_gd": scaled_gd, "gd": gd}
DEFAULT_SCHEDULE = "geometric"
NEAREST = "nearest"  # the name of whichever fits the data best
MOST_PASSES = 10**9  # a larger max_iter is a mistake
# times: how far typical entries must be from the largest and the smallest number there is
ROOM = 1e3


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The arguments of a run, as they came. They are explained at `lrmc.solve`."""

    rank: int | None = None
    mask: Any = None
    method: Method = "auto"
    schedule: Schedule | Tuning | str | None = None
    loss: AskedLoss = "auto"
    score: Score = "auto"
    aim: AskedAim = "auto"
    outliers: Sides = "both"
    groups: Any = None
    row_noise: Any = None
    col_noise: Any = None
    start: Start = "spectral"
    seed: int = 0
    threads: int | None = None
    tol: float = 0.0
    at_once: bool = True  # whether nobody looks at single iterates


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that a run needs to know."""

    obs: Observations
    rank: int | None
    method: str  # "closed_loop", "lrmc", or a baseline
    schedule: Schedule | Tuning | None  # None for the closed loop, which needs none
    start: Start
    noise: Noise
    tol: float
    seed: int
    at_once: bool = True  # as asked
    wishes: Wishes = field(default_factory=Wishes)  # for noisy data


def checked_job(Y: Any, asked: Asked) -> Job:
    """Check what was asked for."""
    one_of("method", asked.method, METHODS)
    one_of("loss", asked.loss, LOSSES)
    one_of("outliers", asked.outliers, SIDES)
    one_of("score", asked.score, SCORES)
    one_of("aim", asked.aim, AIMS)
    seed = whole_number("seed", asked.seed, 0)
    if isinstance(asked.schedule, str) and asked.schedule != NEAREST:
        asked = replace(asked, schedule=Schedule.named(asked.schedule))
    obs = as_observations(Y, asked.mask, threads=asked.threads)
    obs = obs if asked.groups is None else grouped(obs, asked.groups)
    noise = _noise(asked, obs)
    if asked.schedule == NEAREST:
        rank = None if asked.rank is None else checked_rank(asked.rank, obs.shape)
        asked = replace(asked, schedule=nearest_of_all(obs, rank, noise, seed))
    method, planned = asked.method, _planned(asked)
    asked = asked if planned is None else replace(asked, schedule=None)
    if method == "auto":
        method = "closed_loop" if asked.schedule is None else "lrmc"
    _check_start(asked, method)
    plan = _as_schedule(asked.schedule, method)
    _check_fits(asked, method, obs)
    rank = None if asked.rank is None else checked_rank(asked.rank, obs.shape)
    return Job(
        obs=obs,
        rank=rank,
        method=method,
        schedule=plan,
        start=asked.start,
        noise=noise,
        tol=asked.tol,
        seed=seed,
        at_once=asked.at_once,
        wishes=Wishes(
            loss=None if asked.loss == "auto" else asked.loss,
            score=asked.score,
            aim=None if asked.aim == "auto" else asked.aim,
            plan=planned,
            foreign=planned is not None,
        ),
    )


def checked_complex_job(obs: Observations, asked: Asked) -> Job:
    """The same for complex data in real numbers, which have twice the rank."""
    one_of("outliers of complex data", asked.outliers, ("both",))
    one_of("method for complex data", asked.method, ("auto", "closed_loop", "lrmc"))
    if asked.groups is not None:
        raise ValueError(
            "groups= was given with complex data, whose real and imaginary parts are groups already; leave it out"
        )
    if isinstance(asked.start, Iterate):
        raise ValueError("start= is an iterate, which complex data cannot go on from")
    shape = obs.shape[0] // 2, obs.shape[1] // 2
    rank = None if asked.rank is None else 2 * checked_rank(asked.rank, shape)
    levels = [
        None if given is None else np.repeat(_noise_of(given, n, name), 2)
        for given, n, name in zip(
            (asked.row_noise, asked.col_noise), shape, ("row_noise", "col_noise")
        )
    ]
    rows, cols = levels
    rows = np.ones(obs.shape[0]) if rows is None else rows  # parts are alike
    return checked_job(
        obs, replace(asked, mask=None, rank=rank, row_noise=rows, col_noise=cols)
    )


def in_complex(it: Iterate, turn: complex) -> Iterate:
    """An iterate in real numbers, times `turn`, as one in complex ones."""
    L, R = complex_factors(it.L, it.R, turn)
    return replace(it, L=L, R=R, norm=it.norm / 2**0.5)


def not_in_time(asked: AskedInTime) -> AskedInTime:
    """For complex data, of which there is no model in time."""
    if asked.is_given:
        raise ValueError("time= is for real data; leave it out for complex ones")
    return asked._replace(time=None)


def _planned(asked: Asked) -> Plan | None:
    """What a schedule for noisy data says; None without one."""
    schedule = asked.schedule
    if not isinstance(schedule, Schedule) or schedule.plan is None:
        return None
    if asked.method not in ("auto", "closed_loop"):
        raise ValueError(
            f"this schedule is for noisy data, and method={asked.method!r} is not; leave method out"
        )
    try:
        plan = Plan.from_plain(schedule.plan)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the plan of this schedule cannot be used: {error}") from None
    return plan if asked.rank is None else replace(plan, rank=asked.rank, fixed=True)


def _check_start(asked: Asked, method: str) -> None:
    """Refuse what does not go together, before the data are looked at."""
    start = asked.start
    if not isinstance(start, Iterate):
        one_of("start", start, tuple(STARTS))
    elif method != "closed_loop":
        raise ValueError(
            "start= is an iterate of an earlier run: only the closed loop, without a schedule, goes on"
        )
    if method == "closed_loop" and asked.schedule is not None:
        raise ValueError(
            "schedule= was given with method='closed_loop', which needs none; leave one of them out"
        )
    known = (asked.groups, asked.row_noise, asked.col_noise)
    plain = (
        start == "spectral"
        and asked.outliers == "both"
        and all(x is None for x in known)
    )
    if method in BASELINES and not plain:
        raise ValueError(
            f"start, outliers, groups and noise levels are not for method={method!r}; leave them out"
        )


def _as_schedule(schedule: Any, method: str) -> Schedule | Tuning | None:
    """The plan of a method that has one."""
    if (method in BASELINES) != isinstance(schedule, Tuning):
        wants = (
            "the share of outliers has to be known"
            if method in BASELINES
            else "a Tuning is for the baselines"
        )
        raise ValueError(
            f"{wants}: give method='scaled_gd' or 'gd' together with schedule=Tuning(alpha=...)"
        )
    if method == "closed_loop" or isinstance(schedule, Schedule | Tuning):
        return schedule
    if schedule is None:
        return Schedule.named(DEFAULT_SCHEDULE)
    raise ValueError(
        f"schedule is a {type(schedule).__name__}; a Schedule or the name of one is wanted"
    )


def _check_fits(asked: Asked, method: str, obs: Observations) -> None:
    """Refuse what these data do not allow."""
    start = asked.start
    if isinstance(start, Iterate) and (len(start.L), len(start.R)) != obs.shape:
        came = f"{len(start.L)} x {len(start.R)}"
        raise ValueError(
            f"start= is an iterate for a {came} matrix; these data are {obs.shape}"
        )
    if asked.rank is None and method != "closed_loop":
        name = "LRMC" if method == "lrmc" else method
        raise ValueError(
            f"rank=None: {name} needs the rank; give one, or leave method and schedule out: it is found"
        )
    limits = np.finfo(obs.dtype)
    size = obs.rough_scale
    if not ROOM * float(limits.tiny) < size < float(limits.max) / ROOM:
        raise ValueError(
            f"the entries are typically of size {min(size, float(limits.max)):.2g}, at the limits of {obs.dtype}:"
            " multiply them by a number that brings them nearer to 1"
        )


def _noise(asked: Asked, obs: Observations) -> Noise:
    """What was said of the noise, and what rows in groups tell of it."""
    rows = _noise_of(asked.row_noise, obs.shape[0], "row_noise")
    cols = _noise_of(asked.col_noise, obs.shape[1], "col_noise")
    if obs.groups is not None and asked.row_noise is None:
        rows = unlike_members(obs)
    return Noise(rows, cols, outliers=asked.outliers)


def _noise_of(given: Any, n: int, name: str) -> Array:
    """Relative noise levels, one per row or column."""
    if given is None:
        return equal(1.0, n)
    levels = _real_array(given)
    if levels is None:
        raise ValueError(f"{name}={shown(given)}; {n} positive numbers are wanted")
    if levels.shape != (n,):
        raise ValueError(
            f"{name} has shape {levels.shape}; {n} positive numbers are wanted"
        )
    wrong = np.flatnonzero(~(np.isfinite(levels) & (levels > 0)))
    if len(wrong):
        raise ValueError(
            f"{name} holds {levels[wrong[0]]} at {wrong[0]}; {n} positive numbers are wanted"
        )
    return levels / np.median(levels)


def _real_array(given: Any) -> Array | None:
    """As floats; None if it holds something else than real numbers."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of unlike lengths
        return None
    return array.astype(np.float64) if array.dtype.kind in "fiu" else None


def checked_tol(tol: Any) -> float:
    """Where a run stops: a positive number."""
    return real_number("tol", tol, lambda x: x > 0, "a positive, finite number")


def checked_max_iter(max_iter: Any) -> int:
    """How many passes, at most."""
    return whole_number("max_iter", max_iter, 1, MOST_PASSES)

"""Consume the iterates of a method: stopping, status, warnings, progress."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from .linalg import Factors, change, norm
from .methods import lrmc
from .observations import Observations, as_observations
from .result import Iterate, Record, Result, Status
from .schedule import Schedule
from .start import STARTS

Method = Literal["auto", "lrmc"]
METHODS = ("auto", "lrmc")
DEFAULT_SCHEDULE = "geometric"
BLOWN_UP = 1e3  # an iterate this many times larger than the start is lost
FEW_INLIERS = 0.25  # fewer than this within the threshold: it fell below the residual


class ConvergenceWarning(UserWarning):
    """A run ended otherwise than by coming to rest."""


def solve(
    Y: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    method: Method = "auto",
    schedule: Schedule | str | None = None,
    start: Literal["spectral", "cur"] = "spectral",
    tol: float = 1e-6,
    max_iter: int = 100,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Iterate], None] | None = None,
) -> Result:
    """Recover the low-rank matrix X from partly observed, grossly corrupted Y = X + S.

    Y and `mask` are explained at `lrmc.observations.as_observations`. `schedule` is a `Schedule` or the name of one.
    The run stops when |X_k - X_{k-1}|_F < tol |X_{k-1}|_F, or after max_iter passes. `progress` is called with each iterate.
    """
    if not (isinstance(tol, int | float) and tol > 0 and math.isfinite(tol)):
        raise ValueError(f"tol={tol!r}; a positive number is wanted")
    if int(max_iter) != max_iter or max_iter < 1:
        raise ValueError(f"max_iter={max_iter!r}; a whole number of at least 1 is wanted")
    obs = as_observations(Y, mask, threads=threads)
    began = time.perf_counter()
    run = iterates(obs, rank, method=method, schedule=schedule, start=start, seed=seed)
    history: list[Record] = []
    last, status = None, Status.SCHEDULE_ENDED
    first_norm = math.inf
    for it in run:
        size = norm(Factors(it.L, it.R))
        if it.k == 0:
            first_norm = size
        if not math.isfinite(size) or size > BLOWN_UP * first_norm:
            status = Status.DIVERGED
            break
        last = it
        history.append(Record(it.k, it.change, it.zeta, it.inliers, time.perf_counter() - began))
        if progress is not None:
            progress(it)
        if it.change < tol:
            status = Status.CONVERGED if it.inliers >= FEW_INLIERS else Status.STALLED
            break
        if it.k == max_iter:
            status = Status.MAX_ITER
            break
    if last is None:
        raise FloatingPointError(
            "the start is not finite; are there values near the limits of the floating-point range?"
        )
    empty_rows, empty_cols = (np.flatnonzero(n == 0) for n in (obs.row_observed, obs.col_observed))
    result = Result(
        last.L, last.R, status, tuple(history), _method_name(method), float(tol), empty_rows, empty_cols, obs
    )
    _warn(result, obs)
    return result


def iterates(
    Y: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    method: Method = "auto",
    schedule: Schedule | str | None = None,
    start: Literal["spectral", "cur"] = "spectral",
    seed: int = 0,
    threads: int | None = None,
) -> Iterator[Iterate]:
    """The iterates of a method, the start first (k = 0): stop when you like. Arguments as for `solve`."""
    if method not in METHODS:
        raise ValueError(f"method={method!r}; one of {', '.join(METHODS)} is wanted")
    if start not in STARTS:
        raise ValueError(f"start={start!r}; one of {', '.join(STARTS)} is wanted")
    obs = as_observations(Y, mask, threads=threads)
    rank = _check_rank(rank, obs.shape)
    return _iterates(obs, rank, _as_schedule(schedule), start, seed)


def _iterates(obs: Observations, rank: int, schedule: Schedule, start: str, seed: int) -> Iterator[Iterate]:
    # Data are read as multiples of a power of 4 near their scale: exact, and far from over- and underflow.
    unit = 4.0 ** round(math.log(obs.scale, 4))
    root = obs.dtype.type(math.sqrt(unit))
    obs, scale, p = obs.scaled(1 / unit), obs.scale, obs.fraction
    zeta_0, gain = schedule.start(scale, p)
    layers = (layer._replace(zeta=layer.zeta / unit) for layer in schedule.layers(scale, p))
    X = STARTS[start](obs, rank, zeta_0 / unit, gain, seed)
    yield Iterate(0, X.L * root, X.R * root, math.nan, zeta_0, math.nan)
    for k, (L, R, zeta, inliers) in enumerate(lrmc(obs, X, layers, schedule.tangent), 1):
        before, X = X, Factors(L, R)
        yield Iterate(k, L * root, R * root, change(before, X), zeta * unit, inliers)


def _as_schedule(schedule: Schedule | str | None) -> Schedule:
    if schedule is None:
        return Schedule.named(DEFAULT_SCHEDULE)
    if isinstance(schedule, str):
        return Schedule.named(schedule)
    if not isinstance(schedule, Schedule):
        raise ValueError(f"schedule is a {type(schedule).__name__}; a Schedule or the name of one is wanted")
    return schedule


def _check_rank(rank: int | None, shape: tuple[int, int]) -> int:
    if rank is None:
        raise ValueError("rank=None: this version needs the rank; start with a small one, such as rank=5")
    if isinstance(rank, bool) or int(rank) != rank or not 1 <= rank <= min(shape):
        raise ValueError(f"rank={rank!r} for a {shape[0]} x {shape[1]} matrix; 1 to {min(shape)} is wanted")
    return int(rank)


def _method_name(method: Method) -> str:
    return "lrmc" if method == "auto" else method


def _warn(result: Result, obs: Observations) -> None:
    empty = [
        f"{len(x)} {name}"
        for x, name in ((result.undetermined_rows, "row(s)"), (result.undetermined_cols, "column(s)"))
        if len(x)
    ]
    if empty:
        _say(
            UserWarning,
            f"{' and '.join(empty)} have no observation: their values are not determined, and NaN in the completion",
        )
    unknowns = result.rank * sum(obs.shape)
    if obs.n_observed < unknowns:
        _say(
            UserWarning,
            f"{obs.n_observed} entries are observed, and rank {result.rank} has {unknowns} unknowns: not determined",
        )
    if not result.converged:
        _say(ConvergenceWarning, f"after {result.n_iter} iterations: {result.status.meaning}")


def _say(category: type[Warning], text: str) -> None:
    warnings.warn(text, category, stacklevel=4)

"""What a schedule is trained on: problems like the user's, pairs of data and truth, or the data alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..heldout import as_sparse, hold_out, part_of
from ..linalg import Factors
from ..observations import as_observations
from ..schedule import Layer, Schedule
from ..solve import solve
from ..start import spectral
from ..storage import Observations
from ..synthetic import Problems
from .goals import Goal, Hidden, Truth

SMALL = 500  # rows of a synthetic problem to train on; larger ones have more entries of the same kind
SPLITS = 8  # ways to hide some entries of data without truth
ROUNDING = 1e-7  # of the scale of the data: residuals below are as good as none


@dataclass(frozen=True, eq=False)
class Example:
    """Data and what is to be reached."""

    obs: Observations
    goal: Goal
    rank: int
    seed: int = 0
    starts: dict[tuple[float, float], Factors] = field(default_factory=dict, repr=False)

    @cached_property
    def units(self) -> tuple[float, float]:
        """What thresholds and steps are multiples of: the scale of the data, and their observed fraction."""
        return self.obs.scale, self.obs.fraction

    def start(self, schedule: Schedule) -> Factors:
        """Where the layers begin. Kept: a start costs several passes."""
        zeta, gain = schedule.start(*self.units)
        if (zeta, gain) not in self.starts:
            self.starts[zeta, gain] = spectral(self.obs, self.rank, zeta, gain, self.seed)
        return self.starts[zeta, gain]

    def layers(self, schedule: Schedule, count: int) -> list[Layer]:
        """The first layers, in the units of the data."""
        return [layer for layer, _ in zip(schedule.layers(*self.units), range(count))]


Examples = Callable[[int], Example]  # the example number ...; the same number gives the same example


def as_examples(data: Any, rank: int, mask: Any = None, threads: int | None = None) -> Examples:
    """What `train` was given, as a series of examples without end."""
    if isinstance(data, Problems):
        if mask is not None:
            raise ValueError("mask= belongs to data; problems have the observed fraction p")
        return lambda number: synthetic(data, rank, number)
    if isinstance(data, Sequence) and not isinstance(data, str) and all(_is_pair(x) for x in data) and data:
        pairs = [_pair(Y, X, rank, threads) for Y, X in data]
        return lambda number: replace(pairs[number % len(pairs)], seed=number)
    obs = as_observations(data, mask, threads=threads)
    if not 1 <= rank <= min(obs.shape):
        raise ValueError(f"rank={rank} for a {obs.shape[0]} x {obs.shape[1]} matrix; 1 to {min(obs.shape)} is wanted")
    return _itself(part_of(obs), rank)


def synthetic(problems: Problems, rank: int, number: int) -> Example:
    """A small problem of the kind: with as many observed per hidden entry in a row as the large ones have."""
    small = problems.shrunk(SMALL)
    problem = small.draw(rank, number, form="dense")
    return Example(as_observations(problem.Y, threads=1), Truth(problem.X_factors), rank, number)


def _itself(obs: Observations, rank: int) -> Examples:
    """The data without some of their entries, which are the goal. The default method tells the noise of the data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        noise = max(solve(obs, rank).noise_level / obs.scale, ROUNDING)

    unit = obs.scaled(1 / obs.scale)

    @lru_cache(SPLITS)
    def split(number: int) -> Example:
        rest, judged = hold_out(unit, number)
        return Example(rest, Hidden(as_sparse(unit, judged), noise), rank, number)

    return lambda number: split(number % SPLITS)


def _is_pair(x: Any) -> bool:
    return isinstance(x, tuple | list) and len(x) == 2 and np.ndim(getattr(x[0], "shape", (0,))) == 1


def _pair(Y: Any, X: Any, rank: int, threads: int | None) -> Example:
    """The user's own Y, and the X that it was made from: a matrix, or its two factors."""
    obs = as_observations(Y, threads=threads)
    if isinstance(X, tuple):
        factors = Factors(*(np.asarray(F, np.float64) for F in X))
    else:
        factors = _factors(np.asarray(X, np.float64), rank)
    shape = (len(factors.L), len(factors.R))
    if shape != obs.shape:
        raise ValueError(f"the truth has shape {shape}, its data {obs.shape}")
    unit = obs.scaled(1 / obs.scale)
    return Example(unit, Truth(Factors(factors.L / obs.scale, factors.R)), rank)


def _factors(X: np.ndarray[Any, Any], rank: int) -> Factors:
    if X.ndim != 2:
        raise ValueError(f"the truth has {X.ndim} dimensions; a matrix is wanted, or its factors (L, R)")
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    return Factors(U[:, :rank] * s[:rank], Vt[:rank].T)

"""What a schedule is trained on: problems like the user's, pairs of data and truth, or
the data alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .._arguments import checked_rank
from ..linalg import Factors, norm
from ..methods.start import spectral
from ..observations._door import as_observations
from ..observations.base import Observations
from ..observations.heldout import as_sparse, hold_out, part_of
from ..schedule import Layer, Schedule
from ..solve import solve
from ..synthetic import Problems
from .goals import Goal, Hidden, Truth

# rows of a synthetic problem to train on; larger ones have more entries of the same kind
SMALL = 500
SPLITS = 8  # ways to hide some entries of data without truth
ENOUGH = 50  # observed entries
ROUNDING = 1e-7  # of the scale of the data: residuals below are as good as none


@dataclass(frozen=True, eq=False)
class Example:
    """Data and what is to be reached."""

    obs: Observations
    goal: Goal
    rank: int
    seed: int = 0
    latest: dict[tuple[float, float], Factors] = field(default_factory=dict, repr=False)

    @cached_property
    def units(self) -> tuple[float, float]:
        """What thresholds and steps are multiples of: the scale of the data, and their
        observed fraction.
        """
        return self.obs.scale, self.obs.fraction

    def start(self, schedule: Schedule) -> Factors:
        """Where the layers begin. The latest is kept: a start costs several passes."""
        units = schedule.start(*self.units)  # zeta_0 and the gain
        start = self.latest.get(units)
        if start is None:
            start = spectral(self.obs, self.rank, *units, self.seed)
            self.latest.clear()
            self.latest[units] = start
        return start

    def layers(self, schedule: Schedule, count: int) -> list[Layer]:
        """The first layers, in the units of the data."""
        return [layer for layer, _ in zip(schedule.layers(*self.units), range(count))]


# the example number ...; the same number gives the same example
Examples = Callable[[int], Example]


@dataclass(frozen=True)
class Series:
    """Examples without end, and what a card says of what they were made from."""

    draw: Examples
    about: dict[str, Any]

    def __call__(self, number: int) -> Example:
        """Example number ..."""
        return self.draw(number)


def as_examples(
    data: Any,
    rank: int,
    mask: Any = None,
    threads: int | None = None,
) -> Series:
    """What `train` was given, as examples."""
    if mask is not None and (isinstance(data, Problems) or are_pairs(data)):
        raise ValueError(
            "mask= belongs to one matrix; problems have the observed fraction p, and pairs NaN in Y"
        )
    if isinstance(data, Problems):
        synthetic(data, rank, 0)  # refuses now what cannot be drawn
        return Series(
            lambda number: synthetic(data, rank, number), {"problems": asdict(data)}
        )
    if are_pairs(data):
        pairs = [_pair(Y, X, rank, threads) for Y, X in data]
        about = {"pairs": len(pairs)} | _told([pair.obs for pair in pairs])
        return Series(lambda number: pairs[number % len(pairs)], about)
    obs = _checked(data, mask, rank, threads)
    about = {
        "data": "hidden entries of the data themselves",
        "shape": [int(n) for n in obs.shape],
    }
    return Series(_itself(part_of(obs), rank), about | _told([obs]))


def _told(every: list[Observations]) -> dict[str, Any]:
    """What tells these data from others."""
    return {
        "observed": sum(obs.n_observed for obs in every),
        "scale": float(np.mean([_scale(obs) for obs in every])),
    }


def _scale(obs: Observations) -> float:
    """In the units of the user's data."""
    return obs.scale / obs.gain


def _checked(Y: Any, mask: Any, rank: int, threads: int | None) -> Observations:
    obs = as_observations(Y, mask, threads=threads)
    checked_rank(rank, obs.shape)
    return obs


def synthetic(problems: Problems, rank: int, number: int) -> Example:
    """A small problem of the kind: with as many observed per hidden entry in a row as
    the large ones have.
    """
    small = problems.shrunk(SMALL)
    problem = small.draw(rank, number, form="dense")
    return Example(
        as_observations(problem.Y, threads=1), Truth(problem.X_factors), rank, number
    )


def _itself(obs: Observations, rank: int) -> Examples:
    """The data without some of their entries, which are the goal. The default method
    tells the noise of the data.
    """
    if obs.n_observed < ENOUGH:
        raise ValueError(
            f"{obs.n_observed} entries are observed, and at least {ENOUGH} are wanted to hide some of them"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        noise = max(solve(obs, rank, time=None).noise_level / obs.scale, ROUNDING)

    unit = obs.scaled(1 / obs.scale)

    @lru_cache(SPLITS)
    def split(number: int) -> Example:
        rest, judged = hold_out(unit, number)
        return Example(rest, Hidden(as_sparse(unit, judged), noise), rank, number)

    return lambda number: split(number % SPLITS)


def are_pairs(data: Any) -> bool:
    """A matrix may come as nested lists, but the Y of a pair is an array: it has a shape."""
    return isinstance(data, list | tuple) and bool(data) and all(map(_is_pair, data))


def _is_pair(x: Any) -> bool:
    return isinstance(x, list | tuple) and len(x) == 2 and hasattr(x[0], "shape")


def _pair(Y: Any, X: Any, rank: int, threads: int | None) -> Example:
    """The user's own Y, and the X that it was made from: a matrix, or its two factors."""
    obs = _checked(Y, None, rank, threads)
    factors = _as_factors(X, rank)
    shape = (len(factors.L), len(factors.R))
    if shape != obs.shape:
        raise ValueError(
            f"the truth has shape {shape}, its data {obs.shape}; a pair is (Y, X)"
        )
    if not 0 < norm(factors) < np.inf:
        raise ValueError(
            "the truth is zero or not finite; a known low-rank matrix is wanted, without gaps"
        )
    unit = obs.scaled(1 / obs.scale)
    return Example(unit, Truth(Factors(factors.L / obs.scale, factors.R)), rank)


def _as_factors(X: Any, rank: int) -> Factors:
    if isinstance(X, tuple):
        shapes = [np.shape(F) for F in X]
        if (
            len(X) != 2
            or {len(shape) for shape in shapes} != {2}
            or shapes[0][1] != shapes[1][1]
        ):
            raise ValueError(
                f"the truth has factors of shapes {shapes}; (n1, r) and (n2, r) are wanted"
            )
        return Factors(*(np.asarray(F, np.float64) for F in X))
    X = np.asarray(X, np.float64)
    if X.ndim != 2:
        raise ValueError(
            f"the truth has {X.ndim} dimensions; a matrix is wanted, or its factors (L, R)"
        )
    if not np.isfinite(X).all():
        raise ValueError(
            "the truth is not finite; a known low-rank matrix is wanted, without gaps"
        )
    return spectral(
        as_observations(X), min(rank, *X.shape), float(np.abs(X).max(initial=0.0)), 1.0
    )

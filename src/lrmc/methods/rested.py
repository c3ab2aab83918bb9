"""Where the closed loop comes to rest at the noise, and a robust loss that goes on from there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..linalg import Factors, median_of
from ..observations.base import Observations
from .centre import centre
from .closed_loop import has_plenty
from .noisy import Noise, sweeps
from .rank import settled
from .start import MORE, leading
from .step import Step

ABOVE = 6.0  # times the typical residual: a threshold that good entries do not reach


def start(
    obs: Observations,
    rank: int,
    seed: int,
    more: int = MORE,
) -> tuple[Factors, float]:
    """A spectral start around the typical rows and columns, and a threshold above its errors. `more`
    as for `leading`.
    """
    middle = centre(obs)
    zeta = first_threshold(obs, middle)
    return leading(
        obs,
        rank,
        zeta,
        1 / obs.fraction,
        model=middle,
        keep_model=middle is not None,
        seed=seed,
        one_sided=has_plenty(obs, rank),
        more=more,
    ), zeta


def first_threshold(obs: Observations, middle: Factors | None) -> float:
    """Above the errors of a start around the middle."""
    some = obs.sample
    size = np.abs(some.values if middle is None else some.residual(middle))
    return ABOVE * median_of(size) or ABOVE * obs.scale


def polished(
    obs: Observations,
    begin: tuple[Factors, float],
    noise: Noise,
    most: int = 6,
) -> Iterator[Step]:
    """The closed loop until it rests at the noise, then sweeps."""
    X, zeta = begin
    found = yield from settled(obs, X, zeta, tol=0.0, outliers=noise.outliers)
    yield from sweeps(obs, found.X, noise, most)

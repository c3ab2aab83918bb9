"""How bright frames are: some of their pixels tell, down and to the right every so many."""

from __future__ import annotations

import math

import numpy as np

from ..._scipy import sparse as sp
from ...formats.sparse import Matrix, Sparse
from ...linalg import Factors
from ...methods.noisy import Noise, sweeps
from ...methods.start import leading
from ...observations.base import Observations
from ...weights import Array
from ..outcome import run_to_end

GRID = 5000  # values of a frame, at least, that tell how bright it is: to a hundredth of the noise
SWEEPS = 4  # over the grid, at most


def grid_of(shape: tuple[int, ...], observed: float) -> Array:
    """Places in a frame of every so many pixels, of which `GRID` values are observed."""
    places = np.arange(math.prod(shape)).reshape(shape)
    step = max(1, math.isqrt(int(observed * places.size) // GRID))
    return places[::step, ::step].ravel()


def lit(seen: Matrix) -> Matrix:
    """Frames x pixels in which nothing is quite black."""
    if not sp.issparse(seen):
        return np.maximum(seen, 1)
    brighter: Sparse = seen.copy()
    brighter.data = np.maximum(brighter.data, 1)
    return brighter


def brightness(obs: Observations, picture: Array, rank: int, seed: int) -> Array:
    """How bright frames are, frames x rank, by pixels with these medians."""
    middle = Factors(np.ones((obs.shape[0], 1), np.float32), picture[:, None])
    zeta = 6 * float(np.median(np.abs(obs.sample.residual(middle)))) or 1.0
    X = leading(
        obs, rank, zeta, 1 / obs.fraction, model=middle, keep_model=True, seed=seed
    )
    steps = sweeps(obs, X, Noise.even(obs, "huber"), SWEEPS)
    return np.asarray(run_to_end(obs, steps, "the background")[0].L)

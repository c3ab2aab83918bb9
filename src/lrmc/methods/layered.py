"""The paper's LRMC with a given schedule on many small matrices, by one call of a kernel.

The same numbers as `methods/lrmc.py` from the start of `methods/start.py`, to rounding: what is
between the passes there takes longer than the passes of a small matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from .. import _kernels
from ..linalg import Factors
from ..observations import as_observations
from ..observations.base import ALL_UP_TO, SAMPLED, Part
from ..observations.dense import part_data
from ..observations.places import random_places
from ..result import Status
from ..schedule import Schedule
from ..weights import Array, DType
from .connected import Entries
from .small import MOST_RANK
from .start import MORE

MOST_LAYERS = 1000  # in a kernel: each has room in the history of each matrix
# by the numbers of `LayersReport`
STATUS = (
    None,
    Status.CONVERGED,
    Status.STALLED,
    Status.DIVERGED,
    Status.MAX_ITER,
    Status.SCHEDULE_ENDED,
)
REPORTED = 7  # numbers of `LayersReport`


class Layered(NamedTuple):
    """A matrix after all of its layers."""

    X: Factors
    status: Status
    entries: Entries
    trace: Array  # layers x (how far X moved, threshold, share of inliers, seconds)

    @property
    def rank(self) -> int:
        """The rank of the model."""
        return self.X.L.shape[1]

    @property
    def determined(self) -> bool:
        """Whether entries are enough, in each row and column, and hang together."""
        return self.entries.determine(self.rank, sum(map(len, self.X)))

    def completed(self) -> Array:
        """L R'."""
        return self.X.L @ self.X.R.T


class Ends(NamedTuple):
    """When a run ends, and how."""

    tol: float
    max_iter: int
    blown_up: float  # times the first norm: lost
    few_inliers: float  # a run that comes to rest with fewer has stalled


def run_layers(
    parts: Sequence[Part],
    rank: int,
    schedule: Schedule,
    ends: Ends,
    *,
    dtype: DType,
    seed: int = 0,
    threads: int = 1,
) -> list[Layered | None]:
    """What becomes of each of some matrices of one shape and precision; None where that is left to
    the method itself.
    """
    layers = list(islice(schedule.layers(1.0, 1.0), min(ends.max_iter, MOST_LAYERS)))
    goes_on = len(layers) == ends.max_iter
    if rank > MOST_RANK or (len(layers) == MOST_LAYERS and not goes_on):
        return [None] * len(parts)
    gain = schedule.start_gain
    zeta, eta, momentum = np.array(layers).reshape(-1, 3).T.copy()
    steps = _kernels.Steps(
        zeta=zeta,
        eta=eta,
        momentum=momentum,
        goes_on=goes_on,
        relative=schedule.units == "relative",
        tangent=schedule.tangent,
        zeta_0=schedule.zeta[0],
        start_gain=-1.0 if gain is None else gain,
    )
    job = _Job(
        steps=steps,
        n_layers=len(layers),
        rank=rank,
        ends=ends,
        dtype=dtype,
        seed=seed,
        threads=threads,
    )
    found = job.run(parts, np.zeros(len(parts)))
    left = [i for i, one in enumerate(found) if one is None]
    if left and parts[0].Y.size > ALL_UP_TO:
        # with gaps and more entries than a sample has, each has a sample of its own
        some = [parts[i] for i in left]
        again = job.run(some, np.array([_scale(part) for part in some]))
        for i, one in zip(left, again, strict=True):
            found[i] = one
    return found


def _scale(part: Part) -> float:
    """The unit of thresholds; 0 where the data are not sound, which the method itself says."""
    try:
        return as_observations(part.Y, part.mask, threads=1).scale
    except ValueError:
        return 0.0


class _Job(NamedTuple):
    """What all matrices have in common."""

    steps: _kernels.Steps
    n_layers: int
    rank: int
    ends: Ends
    dtype: DType
    seed: int
    threads: int

    def run(self, parts: Sequence[Part], scales: Array) -> list[Layered | None]:
        """Matrices with these scales; where they are 0, from a sample."""
        count, (n1, n2) = len(parts), parts[0].Y.shape
        L = list(np.empty((count, n1, self.rank), self.dtype))
        R = list(np.empty((count, n2, self.rank), self.dtype))
        report = np.zeros((count, REPORTED))
        trace = np.empty((count, self.n_layers, 4))
        width = min(self.rank + MORE, n1, n2)
        _kernels.layers(
            [part_data(part) for part in parts],
            self.steps,
            L=L,
            R=R,
            random=_directions(n2, width, self.seed, self.dtype.char),
            places=_places(n1, n2),
            all_up_to=ALL_UP_TO,
            scales=scales,
            report=report,
            trace=trace,
            tol=self.ends.tol,
            blown_up=self.ends.blown_up,
            few_inliers=self.ends.few_inliers,
            threads=self.threads,
        )
        return [
            _layered(*one) for one in zip(L, R, report.tolist(), trace, strict=True)
        ]


def _layered(L: Array, R: Array, report: list[float], trace: Array) -> Layered | None:
    number, layers, *entries = map(int, report)
    status = STATUS[number]
    if status is None:
        return None
    return Layered(Factors(L, R), status, Entries(*entries), trace[:layers])


@lru_cache(maxsize=8)
def _directions(n: int, width: int, seed: int, kind: str) -> Array:
    """The random ones of `spectral`."""
    drawn = np.random.default_rng(seed).standard_normal((n, width))
    return drawn.astype(kind).astype(np.float64)


@lru_cache(maxsize=8)
def _places(n1: int, n2: int) -> Array | None:
    """Where `Observations.draw` looks in a matrix without gaps, by row; None for all places."""
    if n1 * n2 <= ALL_UP_TO:
        return None
    rows, cols = random_places((n1, n2), SAMPLED + 1)
    order = np.argsort(rows, kind="stable")
    return np.column_stack([rows[order], cols[order]])

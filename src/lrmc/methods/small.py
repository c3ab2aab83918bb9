"""Small matrices without noise: solved, and proven, by one call of a kernel.

Of a small matrix a pass takes microseconds, and each step of a method in Python far longer. The
kernel (`_kernels/small.cpp`) makes robust sweeps while the matrix is in the cache, and then asks
what the certificate asks. It says nothing of what it cannot prove: other methods look at that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .. import _kernels
from ..linalg import Factors, balanced, power_of_4
from ..observations.base import OFTEN, Observations, Part
from ..observations.dense import part_data
from ..result import Status
from ..weights import Array, DType
from . import certificate as proof
from . import chance, thresholds
from .certificate import Certificate
from .rested import ABOVE

# of the matrix: with more, passes take longer than what is between them
PLACES = 2**17
MOST_RANK = _kernels.most_small_rank
MOST_SWEEPS = 40
# per sweep, at most: least squares for one side after the other comes nearer than a step of the
# closed loop, so that thresholds may fall faster where entries are few
DECAY = 0.5
RIDGE = 1e-9  # of the mean Gram matrix: systems without an entry stay solvable
# times tol: how little a sweep more would move, so that good residuals are those of rounding: what is
# beyond would be listed as outliers
SETTLED = 1e-5
# residuals that fall by less per sweep, after so many sweeps, are not those of exact data ...
RESTING, PATIENCE = 0.8, 5
SMALL = 1e-4  # ... unless they are below this, times the scale of the data
# times: a component so much smaller than the one before may be one too many, as for `rank`
GAP = 5.0
REPORTED = 11  # numbers of `SmallReport`
NONE = np.empty(0, np.int64)


class Solved(NamedTuple):
    """A matrix that was recovered, and what proves it."""

    factors: Factors  # in double precision, of any gauge
    dtype: DType  # of the data
    scale: float  # of the data
    certificate: Certificate
    trace: Array  # sweeps x (how far X moved, threshold, share of inliers, seconds)

    @property
    def status(self) -> Status:
        """How the run ended: what is proven has converged."""
        return Status.CONVERGED

    @property
    def determined(self) -> bool:
        """Whether all entries are: the proof asks for it."""
        return True

    @property
    def X(self) -> Factors:
        """Balanced factors, in the precision of the data."""
        L, R = self.factors
        unit = power_of_4(self.scale)  # of the data: both factors get a root of it
        found = balanced(L / unit, R)
        return Factors(*((math.sqrt(unit) * F).astype(self.dtype) for F in found))

    @property
    def rank(self) -> int:
        """The rank of the model."""
        return self.factors.L.shape[1]

    def completed(self) -> Array:
        """L R'."""
        L, R = self.factors
        return (L @ R.T).astype(self.dtype)


def is_small(obs: Observations) -> bool:
    """Whether the kernel takes these data."""
    fits = obs.shape[0] * obs.shape[1] <= PLACES
    return fits and obs.in_memory and obs.groups is None


def solve_small(
    parts: Sequence[Part],
    rank: int | None,
    *,
    dtype: DType,
    tol: float,
    most: int = MOST_SWEEPS,
    seed: int = 0,
    threads: int = 1,
) -> list[Solved | None]:
    """What is proven of each of some matrices of this precision; None where nothing is.

    Without a rank the lowest that can be proven is taken. `most` sweeps are made at most."""
    if not parts or (rank is not None and rank > MOST_RANK):
        return [None] * len(parts)
    lowest, highest = (1, MOST_RANK) if rank is None else (rank, rank)
    L, R = (
        [np.empty((n, highest)) for n in (part.Y.shape[side] for part in parts)]
        for side in (0, 1)
    )
    longest = max(part.Y.shape[1] for part in parts)
    report = np.zeros((len(parts), REPORTED))
    trace = np.empty((len(parts), min(most, MOST_SWEEPS), 4))
    eps = float(np.finfo(dtype).eps)
    _kernels.small(
        [part_data(part) for part in parts],
        L=L,
        R=R,
        random=_directions(longest, highest, seed),
        report=report,
        trace=trace,
        lowest=lowest,
        tol=max(tol, 4 * eps),
        pace=_pace(eps),
        proof=_proof(),
        threads=threads,
    )
    return [_solved(*one, dtype) for one in zip(L, R, report, trace, strict=True)]


def _solved(
    L: Array,
    R: Array,
    report: Array,
    trace: Array,
    dtype: DType,
) -> Solved | None:
    """What the kernel found; None where nothing is proven."""
    proven, rank, sweeps, _, scale, *numbers = report.tolist()
    if not proven:
        return None
    # written one line after another, without the room for higher ranks
    X = (F.ravel()[: len(F) * int(rank)].reshape(len(F), -1) for F in (L, R))
    border, agreeing, oversampling, between, on_their_way, noise = numbers
    found = Certificate(
        agreeing,
        oversampling=oversampling,
        between=between,
        rows=NONE,
        cols=NONE,
        border=border,
        on_their_way=on_their_way,
        noise=noise,
        connected=True,
    )
    return Solved(Factors(*X), dtype, scale, found, trace[: int(sweeps)])


@lru_cache(maxsize=8)
def _directions(n: int, rank: int, seed: int) -> Array:
    """Where power iterations begin."""
    return np.random.default_rng(seed).standard_normal((n, rank))


@lru_cache(maxsize=2)
def _pace(eps: float) -> dict[str, float]:
    """The constants of the closed loop, and of the end of sweeps."""
    return {
        "above": ABOVE,
        "good": thresholds.LOW,
        "widest": thresholds.WIDEST,
        "high": thresholds.HIGH,
        "above_high": thresholds.ABOVE_HIGH[True],
        "fastest": thresholds.FASTEST,
        "rounding": thresholds.ROUNDING * eps,
        "decay": DECAY,
        "far": thresholds.FAR,
        "few_behind": thresholds.FEW_BEHIND,
        "widen": thresholds.WIDEN,
        "narrow": thresholds.NARROW,
        "half": thresholds.HALF,
        "behind": thresholds.BEHIND,
        "ridge": RIDGE,
        "settled": SETTLED,
        "resting": RESTING,
        "patience": PATIENCE,
        "small": SMALL,
    }


@lru_cache(maxsize=1)
def _proof() -> dict[str, float]:
    """The constants of the certificate."""
    return {
        "agrees": proof.AGREES,
        "nearly": proof.NEARLY,
        "far_off": proof.FAR_OFF,
        "between": proof.BETWEEN,
        "on_their_way": proof.ON_THEIR_WAY,
        "oversampled": proof.OVERSAMPLED,
        "often": OFTEN,
        "prior": chance.PRIOR,
        "nothing_else": proof.NOTHING_ELSE,
        "lone": proof.LONE,
        "plenty": proof.PLENTY,
        "most_agree": proof.MOST_AGREE,
        "alone": proof.ALONE,
        "untold": proof.UNTOLD,
        "most_fits": chance.MOST_FITS,
        "seldom": chance.SELDOM,
        "gap": GAP,
    }

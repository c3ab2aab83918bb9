"""How a run ended, and what is known of it on its way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..weights import Array


class Status(str, Enum):
    """How a run ended; `status.meaning` says it in words.

    Attributes
    ----------
    CONVERGED
        The iterates changed by less than `tol`, or stopped at the noise level.
    MAX_ITER
        They were still changing after `max_iter` iterations.
    SCHEDULE_ENDED
        A schedule without a tail ran out of layers.
    STALLED
        The thresholds fell below the residual.
    DIVERGED
        The iterates grew without bound; the last sound one is kept.
    UNDETERMINED
        There are fewer good entries than unknowns.

    Examples
    --------
    >>> import lrmc
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=100, rank=2, p=0.8).Y)
    >>> result.status is lrmc.Status.CONVERGED
    True
    >>> str(result.status)
    'converged'
    """

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    SCHEDULE_ENDED = "schedule_ended"
    STALLED = "stalled"
    DIVERGED = "diverged"
    UNDETERMINED = "undetermined"

    def __str__(self) -> str:
        return self.value

    @property
    def meaning(self) -> str:
        """The status in words."""
        return _MEANINGS[self]


_MEANINGS = {
    Status.CONVERGED: "the iterates changed by less than tol, or stopped at the noise level",
    Status.MAX_ITER: "max_iter iterations were made, and the iterates still changed by more than tol",
    Status.SCHEDULE_ENDED: "the schedule has no more layers and no tail; the iterates still changed by more than tol",
    Status.STALLED: "the thresholds fell below the residual, so the steps became small although the fit is not there:"
    " noise, or a schedule made for other data",
    Status.DIVERGED: "the iterates grew without bound, and the last sound one is kept: a schedule made for other data",
    Status.UNDETERMINED: "fewer good entries than unknowns are left: another matrix of this rank may fit them as well",
}


@dataclass(frozen=True)
class Iterate:
    """The factors after k passes over the data, in the units of the data; k = 0 is the start.

    Attributes
    ----------
    k : int
        Number of passes.
    L, R : arrays of shape (n1, rank) and (n2, rank)
        The factors.
    change : float
        `|X_k - X_{k-1}|_F / |X_{k-1}|_F`; NaN at the start.
    zeta : float
        The threshold of this pass.
    inliers : float
        Fraction of the observed entries within it; NaN at the start.
    stage : str
        What the method is doing.
    norm : float
        `|X_k|_F`.

    Examples
    --------
    >>> import lrmc
    >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=0.8)
    >>> first, *_, last = lrmc.iterates(problem.Y, rank=2)
    >>> first.k, last.L.shape
    (0, (100, 2))
    """

    k: int
    L: Array = field(repr=False)
    R: Array = field(repr=False)
    change: float  # |X_k - X_{k-1}|_F / |X_{k-1}|_F; NaN at the start
    zeta: float  # the threshold of this pass
    inliers: float  # the fraction of observed entries within it; NaN at the start
    stage: str = "start"
    norm: float = math.nan  # |X_k|_F


class Record(NamedTuple):
    """One line of `Result.history`."""

    k: int
    change: float
    zeta: float
    inliers: float
    seconds: float  # since the run began

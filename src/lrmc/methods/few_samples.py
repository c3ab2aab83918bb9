"""Exact data of which few entries are seen: Gauss-Newton on both factors at once.

Where entries are few for the rank, the closed loop comes to rest far from the answer: each row is
moved as if the columns were known, and the threshold falls faster than the fit gets better. Here
rows and columns move together, large residuals lose their weight gradually (Geman and McClure), and
a ridge that fades keeps the factors small on the way: that is what leads to the matrix of low rank
rather than to one that merely meets the entries. Many passes, so it is for problems that are small,
and that nothing else solves; what it finds counts only with a certificate."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from .. import _kernels
from .._rows import is_here
from ..linalg import Factors, balanced, entries_at, median_of
from ..observations.base import Observations
from ..weights import Array
from .certificate import OVERSAMPLED as PROVEN
from .certificate import Certificate, certify, free_numbers
from .consensus import Entries, gathered, repaired, sharpened
from .step import Step

ENOUGH = 6.0  # entries for each free number: with more, the closed loop gets there
MOST_ENTRIES = 4_000_000
WIDEST = 6.0  # times the median residual: the first scale
LOW = 0.15  # the quantile of |residual| that is taken for good entries ...
NARROWEST = 4.0  # ... and the scale stays above this multiple of it
RIDGE = 0.3  # times what noise would have for singular values: the first ridge
FADED = 1e-4  # times the first ridge: below, there is none
INNER, INNER_TOL = 60, 3e-2  # conjugate gradients: iterations, and how far they go
OUTER = 100
EXACT = 1e-10  # good residuals in units of the data: there is nothing left to fit ...
TOLD_APART = 1e-3  # ... once the scale is below this, or steps are below
STILL = 1e-8
RESTING = 10  # steps without progress after the ridge has faded


HIGHEST = 20  # rank, where it has to be found
# steps, when the ridge has taken from noise more than from what is there
LOOK_AFTER = 7
STANDS_OUT = 2.5  # times as large as the next


class Pace(NamedTuple):
    """How fast scale and ridge fall, per step."""

    scale: float
    ridge: float


TRIES = (Pace(0.85, 0.7), Pace(0.9, 0.8))


def wants_newton(obs: Observations, rank: int) -> bool:
    """Whether entries are few for the rank, few enough to go through them often, and all here."""
    free = free_numbers(obs, rank)
    few = free < obs.n_observed < ENOUGH * free
    return few and obs.n_observed <= MOST_ENTRIES and is_here(obs.row_observed)


def few_sampled(
    obs: Observations,
    start: Factors,
    tol: float,
) -> Generator[Step, None, tuple[Factors, Certificate] | None]:
    """A fit that proves itself, with its certificate; None if there is none. Open rows
    and columns are fitted anew.

    A fit that comes near fewer entries than prove one merely interpolates. The scale falls from step
    to step, so that no more of them come near, and slower steps end there too.
    """
    entries = all_entries(obs, start)
    proving = PROVEN * free_numbers(obs, start.L.shape[1]) / obs.n_observed
    for pace in TRIES:
        for step in gauss_newton(obs, entries, start, pace):
            yield step
            if step.inliers < proving:
                return None
        X = Factors(step.L, step.R)
        certificate = certify(obs, X, tol)
        if certificate.oversampling >= PROVEN:
            X, certificate = yield from repaired(obs, X, certificate, tol)
        if certificate.holds:
            return (yield from sharpened(obs, X, certificate, tol))
    return None


def rank_to_look_for(obs: Observations) -> int:
    """Higher than any rank that so few entries could determine."""
    return int(
        max(1, min(HIGHEST, obs.n_observed // sum(obs.shape), min(obs.shape) - 1))
    )


def likely_rank(obs: Observations, start: Factors) -> int | None:
    """How many components of a fit of higher rank stand out, after some steps with a
    ridge; None if there is no gap.
    """
    entries = all_entries(obs, start)
    for step in islice(gauss_newton(obs, entries, start, TRIES[0]), LOOK_AFTER):
        # in balance: the singular values
        values = np.linalg.norm(step.L.astype(np.float64), axis=0) ** 2
    ratios = values[:-1] / np.maximum(values[1:], 1e-300)
    return (
        int(ratios.argmax()) + 1 if len(ratios) and ratios.max() > STANDS_OUT else None
    )


def all_entries(obs: Observations, X: Factors) -> Entries:
    """The observed entries by row, in double precision."""
    n1, n2 = obs.shape
    return gathered(obs, X, 0, np.arange(n1), np.ones(n2, bool))


def gauss_newton(
    obs: Observations,
    entries: Entries,
    start: Factors,
    pace: Pace,
) -> Iterator[Step]:
    """Steps from a start; each takes up to 60 passes over the entries."""
    problem = Problem(entries, obs.scale)
    U, V = balanced(*(F.astype(np.float64) / np.sqrt(obs.scale) for F in start))
    e = problem.residual(U, V)
    z = max(WIDEST * median_of(np.abs(e)), 1e-13)
    # entries of size 1, were they noise
    first = RIDGE * np.sqrt(len(e) / np.sqrt(len(U) * len(V)))
    ridge, lowest, idle, root = first, np.inf, 0, np.sqrt(obs.scale)
    for _ in range(OUTER):
        size = np.abs(e)
        low, high = np.quantile(size, [LOW, 0.9])
        dU, dV = problem.step(U, V, e, z, ridge)
        U, V, e = problem.searched((U, V), (dU, dV), e, z, ridge)
        moved = np.sqrt(_square(dU, dV) / max(_square(U, V), 1e-300))
        L, R = ((root * F).astype(obs.dtype) for F in (U, V))
        yield Step(
            L,
            R,
            obs.scale * float(z),
            float(np.mean(size <= z)),
            obs.scale * float(low),
            "newton",
        )
        idle = 0 if low < 0.9 * lowest else idle + 1
        lowest = min(lowest, low)
        done = low < EXACT and (z < TOLD_APART or moved < STILL)
        if done or not np.isfinite(moved) or (ridge == 0 and idle > RESTING):
            return
        ridge = pace.ridge * ridge if ridge > FADED * first else 0.0
        z = max(min(pace.scale * z, 8 * high), NARROWEST * low, 1e-13)


class Problem:
    """Weighted least squares for the entries of a matrix, in units of a typical one."""

    def __init__(self, entries: Entries, unit: float) -> None:
        self.indptr, self.cols = entries.indptr, entries.places
        self.rows = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        self.values = entries.values / unit

    def residual(self, U: Array, V: Array) -> Array:
        """Y - U V' at the entries."""
        return self.values - entries_at(Factors(U, V), self.rows, self.cols)

    def step(
        self,
        U: Array,
        V: Array,
        e: Array,
        z: float,
        ridge: float,
    ) -> tuple[Array, Array]:
        """The Gauss-Newton step of both factors."""
        step = np.empty((len(U) + len(V), U.shape[1]))
        weights = 1 / (1 + (e / z) ** 2) ** 2
        _kernels.newton(
            indptr=self.indptr,
            indices=self.cols,
            errors=e,
            weights=weights,
            U=U,
            V=V,
            step=step,
            ridge=ridge,
            tol=INNER_TOL,
            most=INNER,
        )
        return step[: len(U)], step[len(U) :]

    def searched(
        self,
        X: tuple[Array, Array],
        D: tuple[Array, Array],
        e: Array,
        z: float,
        ridge: float,
    ) -> tuple[Array, Array, Array]:
        """X after as much of the step as makes it better, in balance, with its residual."""
        now, far = _cost(X, e, z, ridge), 1.0
        while True:
            U, V = (F + far * d for F, d in zip(X, D, strict=True))
            after = self.residual(U, V)
            if far <= 0.05 or _cost((U, V), after, z, ridge) <= now:
                return *(np.ascontiguousarray(F) for F in balanced(U, V)), after  # type: ignore[return-value]
            far /= 2


def _cost(X: tuple[Array, Array], e: Array, z: float, ridge: float) -> float:
    square = e * e
    return float((square / (1 + square / z**2)).sum()) + ridge * _square(*X)


def _square(*factors: Array) -> float:
    # for so few numbers BLAS would wake its threads
    return sum(float(np.einsum("ij,ij->", F, F)) for F in factors)

"""The closed loop: thresholds from the residual itself. No training, no outlier rate.

Differs from Algorithm 1 in four ways. Residuals beyond the threshold are rejected, not clipped, so that outliers leave
no trace once they are told apart. Rows and columns that fall behind get wider thresholds. The part of the step that
both factors would make is made once. And a heavy ball helps where samples are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from ..linalg import Factors, divide, gram
from ..observations.base import ALL_UP_TO, OWN, Observations, Pull
from ..observations.tall import Largest, beside, by_row, equal, held, take
from ..row_systems import packed_trace, pairs, solve_rows
from ..weights import Array, Sides, Threshold
from .lrmc import Step

LOW = 0.3  # the quantile of |residual| that is taken for good entries, whatever the outliers ...
FEW_GOOD = 0.15  # ... and in a second run, where they may be more than 0.7 of the entries
DEVIATION = 0.385  # that quantile for Gaussian residuals of standard deviation 1
WIDEST = 4.0  # the threshold follows this multiple of it: 1.5 standard deviations for Gaussian errors
FAR = 4.0  # a threshold widened by more than this marks a row or column as far behind
FEWEST_RANKS = 6  # the oversampling ratio counts at least so many ranks
LOW_RANK = 3  # up to which every row wants a least-squares problem of its own


@dataclass
class Side:
    """Thresholds of the rows (or columns), as multiples of the common one: more than 1 protects those left behind."""

    observed: Array
    multiple: Array = field(init=False)
    widest: float = 1.0  # of the multiples

    def __post_init__(self) -> None:
        self.multiple = np.ones_like(self.observed, np.float64)

    def follow(self, inliers: Array, typical: float, shrink: float) -> None:
        """Widen where far fewer entries than typical are inliers; narrow the others again. Call once per step."""
        (self.multiple,), (widest,) = by_row(_followed, (self.observed, inliers, self.multiple), (typical, shrink))
        self.widest = float(widest)

    @property
    def protected(self) -> Array:
        """Where thresholds are widened."""
        return self.multiple > 1

    def thresholds(self, zeta: float) -> tuple[Array, Array]:
        """The threshold of each, and where it is widened."""
        if self.widest == 1:
            return equal(zeta, len(self.observed)), equal(0.0, len(self.observed))
        return zeta * self.multiple, self.protected

    def teachers(self, F: Array) -> Array:
        """The factor without the rows far behind: they learn, but their clipped outliers must not teach the others."""
        if self.widest <= FAR:
            return F
        behind = self.multiple > FAR
        return np.where(behind[:, None], F.dtype.type(0), F) if float(behind.mean()) < 0.2 else F


def _followed(tall: tuple[Array, ...], same: tuple[float, float]) -> tuple[tuple[Array], tuple[Largest]]:
    (observed, inliers, multiple), (typical, shrink) = tall, same
    seen = np.maximum(observed, 1)
    spread = np.sqrt(typical * (1 - typical) / seen)
    # Only where the median entry is outside: a row that really has many outliers is left alone.
    behind = (inliers / seen < min(0.75 * typical, 0.5) - 2 * spread) & (observed > 0)
    multiple = np.where(behind, multiple * 1.5 / shrink, np.maximum(1, multiple / 2))
    return (multiple,), (Largest(multiple.max(initial=1.0)),)


@dataclass
class GramStep:
    """Directions by one least-squares problem per row; the Gram matrices are kept while they are good enough."""

    threads: int
    H: tuple[Array, Array] | None = None
    weight: tuple[Array, Array] | None = None
    ridge: tuple[float, ...] = ()
    inliers: float = 9.0

    def wants_refresh(self, change: float, inliers: float, protected: bool) -> bool:
        """Whether the kept Gram matrices no longer fit."""
        return self.H is None or change > 0.1 or abs(inliers - self.inliers) > 0.05 or protected

    def directions(self, X: Factors, pull: Pull, inliers: float, observed: tuple[Array, Array]) -> tuple[Array, Array]:
        """H_i^-1 (C R)_i for the rows, and the same for the columns."""
        sums = (pull.row_weight, pull.col_weight)
        if pull.grams and pull.grams[0] is not None:
            self.H, self.inliers = pull.grams, inliers
            self.weight = held(*(np.maximum(w, 1e-3 * n) for w, n in zip(sums, observed, strict=True)))
            rank = X.L.shape[1]
            self.ridge = tuple(1e-3 * float(packed_trace(H, rank).mean()) / rank for H in pull.grams)
        assert self.H is not None
        assert self.weight is not None
        out: list[Array] = []
        for H, ridge, kept, now, C, seen in zip(self.H, self.ridge, self.weight, sums, pull, observed):
            step = solve_rows(H, C, ridge * np.eye(C.shape[1]), seen > 0, self.threads)
            out += held(step * np.minimum(kept / np.maximum(now, 1e-9), 5)[:, None].astype(step.dtype))
        return out[0], out[1]


def scalar_directions(X: Factors, pull: Pull, floor: float) -> tuple[Array, Array]:
    """C R (R'R)^-1 over the part of each row that counts, and the same for the columns."""
    n1, n2 = len(X.L), len(X.R)
    rows, cols = np.maximum(pull.row_weight / n2, floor), np.maximum(pull.col_weight / n1, floor)
    W, V = divide(pull[0], gram(X.R)), divide(pull[1], gram(X.L))
    W, V = held(W / rows[:, None].astype(W.dtype), V / cols[:, None].astype(V.dtype))
    return W, V


def wants_grams(obs: Observations, X: Factors) -> bool:
    """Whether a least-squares problem per row pays: not where rows have far more entries than needed and X is well
    conditioned (then R'R serves all rows), nor where the Gram matrices would be large beside the data.

    With a low rank the inliers of a row with large errors are where the columns are near zero, and R'R serves no row.
    """
    rank = X.L.shape[1]
    values = np.diag(gram(X.L.astype(np.float64)))
    enough = max(40 * rank, min(200 * max(rank, FEWEST_RANKS), 2000))  # Gram matrices cost the square of the rank
    plenty = rank > LOW_RANK and obs.fraction * min(obs.shape) >= enough and values.max() < 3 * values.min()
    size = sum(obs.shape) * rank * (rank + 1) // 2
    return not plenty and size <= max(2**24, obs.n_observed)


def closed_loop(
    obs: Observations,
    start: Factors,
    zeta: float,
    *,
    grams: bool | None = None,
    outliers: Sides = "both",
    good: float = LOW,
) -> Iterator[Step]:
    """Steps from a start whose error is below zeta (which is not given again). One pass over the data each.

    `good` is the share of entries that are taken for good ones, at least.
    """
    L, R = X = start
    grams = wants_grams(obs, X) if grams is None else grams
    rank, p, (n1, n2) = L.shape[1], obs.fraction, obs.shape
    oversampling = obs.n_observed / (max(rank, FEWEST_RANKS) * (n1 + n2))
    rows, cols = Side(obs.row_observed), Side(obs.col_observed)
    some = obs.sample.telling()
    stepper = GramStep(obs.threads)
    rounding = 64 * float(np.finfo(obs.dtype).eps) * obs.scale  # residuals below this are not looked at
    few = p * min(n1, n2) < 20 * rank
    mL, mR = 0 * L, 0 * R
    seen = take(obs.row_observed, some.rows)
    inliers, change, pull = 1.0, 1.0, None
    for k in count():
        size = np.abs(some.residual(X))
        low, high = np.quantile(size, [good, 0.9 * inliers])
        phi = _decay(oversampling, inliers, grams)
        after = max(min(max(phi * zeta, WIDEST * low), (8 if grams else 12) * high), 0.1 * zeta, rounding)
        if pull is not None:
            typical = _typical_share(pull.row_inliers, obs, seen)
            rows.follow(pull.row_inliers, typical, after / zeta)
            cols.follow(pull.col_inliers, typical, after / zeta)
        zeta = after
        (row_z, row_protect), (col_z, col_protect) = rows.thresholds(zeta), cols.thresholds(zeta)
        weight = Threshold(row_z, col_z, row_protect, col_protect, outliers)
        protected = max(rows.widest, cols.widest) > 1
        refresh = grams and (few or stepper.wants_refresh(change, inliers, protected))
        P, Q = rows.teachers(L), cols.teachers(R)
        taught = {"P": OWN if P is L else P, "Q": OWN if Q is R else Q}
        weighed = {"Pw": pairs(P), "Qw": pairs(Q)} if refresh else {}
        pull = obs.products(L, R, weight, **taught, **weighed)
        inliers = pull.n_inliers / obs.n_observed
        if grams:
            W, V = stepper.directions(X, pull, inliers, (obs.row_observed, obs.col_observed))
        else:
            W, V = scalar_directions(X, pull, 0.05 * inliers * p)
        (WL, GL), (VR, GR) = (np.split(gram(beside(step, F), F), 2) for step, F in ((W, L), (V, R)))  # r x r each
        M = (divide(WL, GL).T + divide(VR, GR)) / 2  # what both steps would move: each gives up half
        dL, dR = held(W - L @ (M / 2).astype(L.dtype), V - R @ (M.T / 2).astype(R.dtype))
        change = max(np.sqrt(abs(np.trace(divide(gram(d), G))) / rank) for d, G in ((dL, GL), (dR, GR)))
        momentum = min(0.15, 1.5 * (1 - p * inliers) / (oversampling * max(inliers, 0.01))) if k else 0.0
        mL, mR = dL + L.dtype.type(momentum) * mL, dR + R.dtype.type(momentum) * mR
        L, R, mL, mR = held(L + mL, R + mR, mL, mR)
        X = Factors(L, R)
        widest = max(rows.widest, cols.widest)
        behind = zeta * widest if widest > FAR else 0.0
        yield Step(L, R, zeta, inliers, float(low), "exact", behind)


def _typical_share(inliers: Any, obs: Observations, of_sample: Array) -> float:
    """The median over rows of the share of inliers; over the rows of the sample where there are many."""
    if obs.shape[0] > ALL_UP_TO:
        return float(np.median(take(inliers, obs.sample.rows) / of_sample))
    inliers, seen = np.asarray(inliers), np.asarray(obs.row_observed)
    return float(np.median(inliers[seen > 0] / seen[seen > 0]))


def _decay(oversampling: float, inliers: float, grams: bool) -> float:
    """How fast the threshold may fall: slower where samples are few for the rank."""
    needed = 25 / max(inliers, 0.1) ** 2 if grams else 40 / max(inliers, 0.1)
    return float(np.clip(0.4 * np.sqrt(needed / oversampling), 0.4, 0.8))

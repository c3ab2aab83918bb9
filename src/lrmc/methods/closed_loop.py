"""The closed loop: thresholds from the residual itself. No training, no outlier rate.

Differs from Algorithm 1 in four ways. Residuals beyond the threshold are rejected, not clipped, so
that outliers leave no trace once they are told apart. Rows and columns that fall behind get wider
thresholds. The part of the step that both factors would make is made once. And a heavy ball helps
where samples are few.

A step is two rounds (`rounds`), and then thresholds fall (`thresholds`)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .._rows import Some, each, every, take
from ..linalg import Factors, Move, change_of, divide, gram, inverse, quantiles
from ..observations.base import ALL_UP_TO, Observations
from ..weights import Array, Sides
from .rounds import (
    RIDGE,
    Columns,
    Known,
    Pass,
    Rows,
    Seen,
    Told,
    after_all,
    of_rows,
    stepped,
)
from .step import Step
from .thresholds import FAR, LOW, ROUNDING, Falling

FEWEST_RANKS = 6  # the oversampling ratio counts at least so many ranks
LOW_RANK = 3  # up to which every row wants a least-squares problem of its own
FEW_ENTRIES = 20  # per row and rank: Gram matrices are made anew in every step
LEAST = 0.05  # of the typical weight: a row with less moves as if it had so much
MOVES = 0.1  # a step that changes a factor by more makes Gram matrices old
FEWER = 0.12  # a share of inliers that differs by more does so too
HEAVY, MOST_HEAVY = 1.5, 0.15  # the heavy ball: times 1 / oversampling, and at most


class Motion:
    """How a factor moves, in r x r matrices: all but D'D follows from what is known already."""

    def __init__(self, FF: Array) -> None:
        self.FF = FF  # F' F
        self.before = np.zeros_like(FF)  # D' F of the last D and the factor after it

    def by(self, DD: Array, WF: Array, M: Array, momentum: float) -> Move:
        """A step D = W - F M / 2 + momentum D_before, where W'F is WF."""
        DF = WF - M.T @ self.FF / 2 + momentum * self.before
        gone = Move(DD, DF, self.FF)
        self.FF = self.FF + DF + DF.T + DD
        self.before = DF + DD
        return gone


def wants_grams(obs: Observations, X: Factors) -> bool:
    """Whether a least-squares problem per row pays: not where rows have far more entries than
    needed and X is well conditioned (then R'R serves all rows), nor where the Gram matrices would
    be large beside the data.

    With a low rank the inliers of a row with large errors are where the columns are near zero, and
    R'R serves no row."""
    rank = X.L.shape[1]
    values = np.diag(gram(X.L))
    needless = has_plenty(obs, rank) and values.max() < 3 * values.min()
    size = sum(obs.shape) * rank * (rank + 1) // 2
    return not needless and size <= max(2**24, obs.n_observed)


def has_plenty(obs: Observations, rank: int) -> bool:
    """Whether rows have far more entries than they need: then a step is good without Gram matrices,
    and from a rougher start.
    """
    # Gram matrices cost the square of the rank
    enough = max(40 * rank, min(200 * max(rank, FEWEST_RANKS), 2000))
    return rank > LOW_RANK and obs.fraction * min(obs.shape) >= enough


def _relative(DD: Array, inverse_FF: Array) -> float:
    """The size of a step D of a factor F beside it, in every direction: sqrt(tr (F'F)^-1
    D'D / rank).
    """
    return math.sqrt(abs(float(np.vdot(inverse_FF, DD))) / len(DD))


def closed_loop(
    obs: Observations,
    start: Factors,
    zeta: float,
    *,
    grams: bool | None = None,
    outliers: Sides = "both",
    good: float = LOW,
) -> Iterator[Step]:
    """Steps from a start whose error is below zeta (which is not given again). One pass over the
    data each.

    `good` is the share of entries that are taken for good ones, at least.
    """
    grams = wants_grams(obs, start) if grams is None else grams
    loop = Loop(obs, start, grams, outliers, good)
    loop.begin(zeta)
    while True:
        yield loop.step()


class Loop:
    """Where the closed loop is: what belongs to columns and to the whole, and the rows
    where they are.
    """

    def __init__(
        self,
        obs: Observations,
        start: Factors,
        grams: bool,
        outliers: Sides,
        good: float,
    ) -> None:
        L, R = start
        (n1, n2), rank = obs.shape, L.shape[1]
        self.obs, self.grams, self.outliers, self.rank = obs, grams, outliers, rank
        self.oversampling = obs.n_observed / (max(rank, FEWEST_RANKS) * (n1 + n2))
        some = obs.sample.telling()
        judged = every(n1) if n1 <= ALL_UP_TO else Some(obs.sample.rows)
        sampled, numbers = np.unique(some.rows, return_inverse=True)
        self.known = Known(obs.row_observed, Some(sampled), judged)
        self.judged_observed = take(obs.row_observed, judged.lines)
        rounding = ROUNDING * float(np.finfo(obs.dtype).eps) * obs.scale
        some = some._replace(rows=numbers)
        self.falling = Falling(some, good, self.oversampling, grams, rounding)
        self.few = obs.fraction * min(n1, n2) < FEW_ENTRIES * rank
        self.rows = Rows(L, *each(_nothing_yet, (L,))[0])
        self.cols = Columns.at(R, obs.col_observed)
        self.left, self.right = Motion(gram(L)), Motion(gram(R))
        self.sampled = take(L, sampled)
        self.sampled_momentum = np.zeros_like(self.sampled)
        # multiple of the threshold of a row; the fraction of rows far behind
        self.widest, self.far = 1.0, 0.0
        self.k, self.zeta, self.ridge = 0, math.inf, 0.0
        self.inliers, self.refreshed_at, self.change = 1.0, math.inf, 1.0

    def begin(self, zeta: float) -> None:
        """The first threshold, where the error of the start is below zeta."""
        self.zeta = self.falling.after(zeta, self.sampled, self.cols.R, self.inliers)

    def step(self) -> Step:
        """One pass over the data, and what follows from it."""
        zeta, low = self.zeta, self.falling.low
        widest = max(self.widest, self.cols.side.widest)
        behind = zeta * widest if widest > FAR else 0.0
        now = self._pass()
        kept, told = self.obs.round(of_rows, (*self.known, *self.rows), now)
        rows, seen = Rows(*kept), Seen(*told)
        self.cols.weight, self.inliers = (
            seen.col_weight,
            int(seen.n_inliers) / self.obs.n_observed,
        )
        self.refreshed_at = self.inliers if now.refresh else self.refreshed_at
        moved = self._of_all(rows, seen)
        self.k += 1
        R = self.cols.R
        return Step(
            self.rows.L,
            R,
            zeta,
            self.inliers,
            low,
            stage="exact",
            behind=behind,
            moved=moved,
            LL=self.left.FF,
        )

    def _pass(self) -> Pass:
        """What all rows need to know."""
        cols, zeta = self.cols, self.zeta
        widest = max(self.widest, cols.side.widest)
        old = (
            self.change > MOVES
            or abs(self.inliers - self.refreshed_at) > FEWER
            or widest > 1
        )
        refresh = self.grams and (self.few or old)
        Q = cols.side.teachers(cols.R)
        n1 = self.obs.shape[0]
        # of the mean Gram matrix of a row, were the weights those of the last pass
        if refresh:
            self.ridge = (
                RIDGE
                * float(cols.weight @ np.einsum("ij,ij->i", Q, Q))
                / n1
                / self.rank
            )
        return Pass(
            R=cols.R,
            Q=None if Q is cols.R else Q,
            zeta=zeta,
            cols=cols.side.thresholds(zeta),
            outliers=self.outliers,
            widest=self.widest,
            far=self.far,
            refresh=refresh,
            ridge=self.ridge,
            scale=None if self.grams else inverse(self.right.FF, n1, Q.dtype),
            floor=LEAST * self.inliers * self.obs.fraction,
        )

    def _of_all(self, rows: Rows, seen: Seen) -> float:
        """Both factors as far as they go together, and the next thresholds; how far X moved."""
        cols, zeta = self.cols, self.zeta
        V = (
            cols.directions(seen, self.obs.threads)
            if self.grams
            else self._scalar_directions(seen)
        )
        # (L'L)^-1 and (R'R)^-1 before the step
        both = np.stack([self.left.FF, self.right.FF])
        LL, RR = inverse(both, self.rank, both.dtype)
        VR = gram(V, cols.R)
        shared = LL @ seen.LW + VR @ RR
        # what both steps would move: each gives up half
        M, heavy = shared / 2, self._momentum()
        right = self.right.by(cols.moved(V, M, heavy), VR, M.T, heavy)
        self.sampled_momentum, self.sampled = stepped(
            self.sampled, seen.step.lines, self.sampled_momentum, M, heavy
        )
        self.zeta = self.falling.after(zeta, self.sampled, cols.R, self.inliers)
        typical = _typical(seen.inliers.lines, self.judged_observed)
        shrink = self.zeta / zeta
        cols.side.follow(seen.col_inliers, typical, shrink)
        lines = (self.known.observed, *rows)
        after, told = each(after_all, lines, (M, heavy, typical, shrink))
        self.rows, found = Rows(*after), Told(*told)
        left = self.left.by(found.DD, seen.LW.T, M, heavy)
        self.widest, self.far = float(found.widest), int(found.far) / self.obs.shape[0]
        self.change = max(_relative(left.DD, LL), _relative(right.DD, RR))
        return change_of(left, right)

    def _scalar_directions(self, seen: Seen) -> Array:
        """C' L (L'L)^-1 over the part of each column that counts."""
        V = divide(seen.CtP.astype(self.cols.R.dtype, copy=False), self.left.FF)
        floor = LEAST * self.inliers * self.obs.fraction
        return V / np.maximum(seen.col_weight / self.obs.shape[0], floor)[
            :, None
        ].astype(V.dtype)

    def _momentum(self) -> float:
        """The heavy ball: none in the first step, more where samples are few."""
        if self.k == 0:
            return 0.0
        missing = 1 - self.obs.fraction * self.inliers
        return min(
            MOST_HEAVY, HEAVY * missing / (self.oversampling * max(self.inliers, 0.01))
        )


def _nothing_yet(rows: tuple[Array], _: None) -> tuple[tuple[Array, Array], tuple[()]]:
    (L,) = rows
    return (np.zeros_like(L), np.ones(len(L))), ()


def _typical(inliers: Array, observed: Array) -> float:
    """The median over rows of the share of inliers."""
    shares = inliers / np.maximum(observed, 1)
    return quantiles(shares if observed.all() else shares[observed > 0], (0.5,))[0]

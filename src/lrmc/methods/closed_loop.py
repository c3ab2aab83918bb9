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

from .._kernels import (
    LoopLines,
    LoopPass,
    LoopRules,
    LoopSample,
    loop_step,
    most_loop_rank,
    ready,
    threads_for,
)
from .._rows import Some, each, every, take
from .._typing import override
from ..linalg import Factors, Move, change_of, divide, gram, inverse, quantiles
from ..observations.base import ALL_UP_TO, Observations
from ..weights import Array, Sides
from .rounds import (
    LONGEST,
    RIDGE,
    Columns,
    Known,
    Pass,
    Rows,
    Seen,
    Told,
    after_all,
    of_rows,
    passed,
    ridge_of,
    stepped,
)
from .step import Step
from .thresholds import (
    ABOVE_HIGH,
    BEHIND,
    FAR,
    FASTEST,
    HALF,
    HIGH,
    LOW,
    NARROW,
    ROUNDING,
    WIDEN,
    WIDEST,
    Falling,
)

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
    at_once = obs.in_memory and start.L.shape[1] <= most_loop_rank
    loop = (AtOnce if at_once else Loop)(obs, start, grams, outliers, good)
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
        sampled, numbers = self._sampled(some.rows)
        self.known = Known(obs.row_observed, Some(sampled), judged)
        self.judged_observed = take(obs.row_observed, judged.lines)
        rounding = ROUNDING * float(np.finfo(obs.dtype).eps) * obs.scale
        self.some, some = some, some._replace(rows=numbers)
        self.falling = Falling(some, good, self.oversampling, grams, rounding)
        self.few = obs.fraction * min(n1, n2) < FEW_ENTRIES * rank
        self.rows = Rows(L, *each(_nothing_yet, (L,))[0])
        self.cols = Columns.at(R, obs.col_observed)
        self.left, self.right = Motion(gram(L)), Motion(gram(R))
        self.sampled = take(L, sampled)
        self.sampled_momentum = np.zeros_like(self.sampled)
        # multiple of the threshold of a row; the fraction of rows far behind
        self.widest, self.far = 1.0, 0.0
        self.k, self.zeta, self.ridge, self.gap = 0, math.inf, 0.0, math.nan
        self.inliers, self.refreshed_at, self.change = 1.0, math.inf, 1.0

    def _sampled(self, rows: Array) -> tuple[Array, Array]:
        """The rows that have an entry in the sample, and the number of each entry's among them."""
        return np.unique(rows, return_inverse=True)

    def begin(self, zeta: float) -> None:
        """The first threshold, where the error of the start is below zeta."""
        self.zeta = self.falling.after(zeta, self.sampled, self.cols.R, self.inliers)

    def step(self) -> Step:
        """One pass over the data, and what follows from it."""
        zeta, low = self.zeta, self.falling.low
        widest = max(self.widest, self.cols.side.widest)
        behind = zeta * widest if widest > FAR else 0.0
        moved = self._round(self._pass())
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
            LL=self.left.FF.copy(),
            gap=self.gap,
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
            scale=self._scale(),
            floor=self._floor(),
        )

    def _round(self, now: Pass) -> float:
        """A pass, and what follows from it, wherever the rows are; how far X moved."""
        kept, told = self.obs.round(of_rows, (*self.known, *self.rows), now)
        seen = Seen(*told)
        self._count(now, seen.col_weight, int(seen.n_inliers))
        return self._of_all(Rows(*kept), seen)

    def _count(self, now: Pass, col_weight: Array, n_inliers: int) -> None:
        """What a pass saw, for the next one."""
        self.cols.weight, self.inliers = col_weight, n_inliers / self.obs.n_observed
        self.refreshed_at = self.inliers if now.refresh else self.refreshed_at

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
        floor = self._floor()
        return V / np.maximum(seen.col_weight / self.obs.shape[0], floor)[
            :, None
        ].astype(V.dtype)

    def _scale(self) -> Array | None:
        """(R'R)^-1, where it serves all rows."""
        if self.grams:
            return None
        return inverse(self.right.FF, self.obs.shape[0], self.obs.dtype)

    def _floor(self) -> float:
        """The least weight of a line, beside its length, that its step is divided by."""
        return LEAST * self.inliers * self.obs.fraction

    def _momentum(self) -> float:
        """The heavy ball: none in the first step, more where samples are few."""
        if self.k == 0:
            return 0.0
        missing = 1 - self.obs.fraction * self.inliers
        return min(
            MOST_HEAVY, HEAVY * missing / (self.oversampling * max(self.inliers, 0.01))
        )


class AtOnce(Loop):
    """The same where all rows are in memory: what follows a pass is one call of a kernel, of which
    the classes above are the plain form. On some thousand rows and entries of the sample, their
    NumPy takes as long as a pass.
    """

    def __init__(
        self,
        obs: Observations,
        start: Factors,
        grams: bool,
        outliers: Sides,
        good: float,
    ) -> None:
        super().__init__(obs, start, grams, outliers, good)
        some, judged = self.some, self.known.judged.lines
        self.sample = LoopSample(
            rows=ready(some.rows, np.int64),
            cols=ready(some.cols, np.int64),
            values=ready(some.values, obs.dtype),
            judged=None if obs.shape[0] <= ALL_UP_TO else ready(judged, np.int64),
        )
        self.rules = LoopRules(
            good=good,
            high=HIGH,
            widest=WIDEST,
            above=ABOVE_HIGH[grams],
            fastest=FASTEST,
            least=self.falling.rounding,
            longest=LONGEST,
            behind=BEHIND,
            half=HALF,
            widen=WIDEN,
            narrow=NARROW,
            far=FAR,
        )
        self.lines = (
            self._lines(self.left, self.rows.momentum, self.rows.multiple, 0),
            self._lines(self.right, self.cols.momentum, self.cols.side.multiple, 1),
        )

    def _lines(
        self, motion: Motion, momentum: Array, multiple: Array, axis: int
    ) -> LoopLines:
        """What stays with the rows, or the columns: the kernel writes it in place."""
        n, packed = len(multiple), self.rank * (self.rank + 1) // 2
        observed = (self.obs.row_observed, self.obs.col_observed)[axis]
        return LoopLines(
            momentum=momentum,
            observed=ready(observed, np.int64),
            multiple=multiple,
            FF=motion.FF,
            before=motion.before,
            H=np.empty((n, packed), self.obs.dtype) if self.grams else None,
            full=np.empty(n) if self.grams else None,
        )

    @override
    def _sampled(self, rows: Array) -> tuple[Array, Array]:
        return np.arange(self.obs.shape[0]), rows

    @override
    def _scale(self) -> None:
        return None  # the kernel has its own

    @override
    def _round(self, now: Pass) -> float:
        rows, cols = self.rows, self.cols
        pull = passed(self.obs, rows, now)
        self._count(now, pull.col_weight, pull.n_inliers)
        WQ, WtP = pull.grams if now.refresh else (None, None)
        L, R = np.empty_like(rows.L), np.empty_like(cols.R)
        of_rows = LoopPass(
            F=ready(rows.L, L.dtype),
            pull=pull[0],
            after=L,
            weight=pull.row_weight,
            inliers=pull.row_inliers,
            grams=WQ,
            ridge=now.ridge,
            floor=now.floor,
        )
        of_cols = LoopPass(
            F=ready(cols.R, R.dtype),
            pull=pull[1],
            after=R,
            weight=pull.col_weight,
            inliers=pull.col_inliers,
            grams=WtP,
            ridge=0.0 if WtP is None else ridge_of(WtP, self.rank),
            floor=self._floor(),
        )
        told = loop_step(
            *self.lines,
            of_rows,
            of_cols,
            self.sample,
            self.rules,
            zeta=self.zeta,
            decay=self.falling.decay(self.inliers),
            inliers=self.inliers,
            momentum=self._momentum(),
            threads=threads_for(max(self.obs.shape) * self.rank**3, self.obs.threads),
        )
        self.rows, cols.R = rows._replace(L=L), R
        self.zeta, self.falling.low, self.change = told.zeta, told.low, told.change
        self.widest, self.far, self.gap = told.row_widest, told.row_far, told.gap
        cols.side.widest, cols.side.far = told.col_widest, told.col_far
        return told.moved


def _nothing_yet(rows: tuple[Array], _: None) -> tuple[tuple[Array, Array], tuple[()]]:
    (L,) = rows
    return (np.zeros_like(L), np.ones(len(L))), ()


def _typical(inliers: Array, observed: Array) -> float:
    """The median over rows of the share of inliers."""
    shares = inliers / np.maximum(observed, 1)
    return quantiles(shares if observed.all() else shares[observed > 0], (0.5,))[0]

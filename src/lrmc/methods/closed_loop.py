"""The closed loop: thresholds from the residual itself. No training, no outlier rate.

Differs from Algorithm 1 in four ways. Residuals beyond the threshold are rejected, not clipped, so
that outliers leave no trace once they are told apart. Rows and columns that fall behind get wider
thresholds. The part of the step that both factors would make is made once. And a heavy ball helps
where samples are few.

A step is two rounds: `of_rows` with the data, where every row finds its direction, and `after_all`
without, where it goes as far as all rows and columns together allow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._rows import Joined, Largest, Lines, Some, each, equal, every, take
from ..linalg import Factors, Move, change_of, divide, gram, inverse, quantiles
from ..observations.base import ALL_UP_TO, OWN, Observations, Pull, Sample
from ..row_systems import packed_trace, pairs, solve_rows
from ..weights import Array, Sides, Threshold
from .step import Step

# the quantile of |residual| that is taken for good entries, whatever the outliers ...
LOW = 0.3
# ... and in a second run, where they may be more than 0.7 of the entries
FEW_GOOD = 0.15
DEVIATION = 0.385  # that quantile for Gaussian residuals of standard deviation 1
# the threshold follows this multiple of it: 1.5 standard deviations for Gaussian errors
WIDEST = 4.0
# of the inliers: what is above may be outliers that are still counted among them
HIGH = 0.9
# times that quantile is as wide as a threshold need be; with Gram matrices, less
ABOVE_HIGH = {True: 8.0, False: 12.0}
FASTEST = 0.1  # a threshold falls at most to this part of the one before
ROUNDING = 64  # times the rounding of the data: residuals below are not looked at
FAR = 4.0  # a threshold widened by more than this marks a row or column as far behind
# of the rows: if more are far behind, it is the others that are odd, and all teach
FEW_BEHIND = 0.2
# per step: thresholds of rows left behind, and of those that have caught up
WIDEN, NARROW = 1.5, 2.0
# only where the median entry is outside: a row that really has many outliers is left alone ...
HALF = 0.5
BEHIND = 0.75  # ... and where far fewer entries are inside than typically
FEWEST_RANKS = 6  # the oversampling ratio counts at least so many ranks
LOW_RANK = 3  # up to which every row wants a least-squares problem of its own
FEW_ENTRIES = 20  # per row and rank: Gram matrices are made anew in every step
RIDGE = 1e-3  # of the mean Gram matrix: rows with hardly an inlier stay bounded
# times: how much a step is lengthened for weights lost since the Gram matrix was made
LONGEST = 5.0
LEAST = 0.05  # of the typical weight: a row with less moves as if it had so much
MOVES = 0.1  # a step that changes a factor by more makes Gram matrices old
FEWER = 0.12  # a share of inliers that differs by more does so too
HEAVY, MOST_HEAVY = 1.5, 0.15  # the heavy ball: times 1 / oversampling, and at most
SLOWEST, DECAY = 0.8, 0.4  # how fast thresholds fall
# oversampling above which they fall fastest, with and without Gram matrices
NEEDED = {True: 25.0, False: 40.0}


class Rows(NamedTuple):
    """What belongs to the rows, and stays with them."""

    L: Any
    momentum: Any
    multiple: Any  # of the common threshold: more than 1 protects those left behind
    step: Any = None  # the direction of this step
    inliers: Any = None  # how many of its entries are within the threshold
    H: Any = None  # its Gram matrix, packed
    weight: Any = None  # the sum of its weights when that was made


@dataclass
class Side:
    """Thresholds of the columns, as multiples of the common one; of rows, what is to
    know of all of them.
    """

    observed: Array
    multiple: Array
    widest: float = 1.0  # of the multiples
    far: float = 0.0  # the fraction that is far behind

    @classmethod
    def of(cls, observed: Array) -> Side:
        """All alike."""
        return cls(observed, np.ones(len(observed)))

    def follow(self, inliers: Array, typical: float, shrink: float) -> None:
        """Widen where far fewer entries than typical are inliers; narrow the others
        again. Call once per step.
        """
        self.multiple = followed(self.observed, inliers, self.multiple, typical, shrink)
        self.widest = float(self.multiple.max(initial=1.0))
        self.far = float((self.multiple > FAR).mean())

    def thresholds(self, zeta: float) -> tuple[Array, Array]:
        """See `thresholds`."""
        return thresholds(self.multiple, zeta, self.widest)

    def teachers(self, F: Array) -> Array:
        """See `teachers`."""
        return teachers(F, self.multiple, self.widest, self.far)


def followed(
    observed: Array,
    inliers: Array,
    multiple: Array,
    typical: float,
    shrink: float,
) -> Array:
    """Multiples of the threshold: wider where far fewer entries than typical are inliers."""
    seen = np.maximum(observed, 1)
    spread = np.sqrt(typical * (1 - typical) / seen)
    behind = (inliers / seen < min(BEHIND * typical, HALF) - 2 * spread) & (
        observed > 0
    )
    return np.where(behind, multiple * WIDEN / shrink, np.maximum(1, multiple / NARROW))


def thresholds(multiple: Array, zeta: float, widest: float) -> tuple[Array, Array]:
    """The threshold of each row or column, and where it is widened."""
    if widest == 1:
        return equal(zeta, len(multiple)), equal(0.0, len(multiple))
    return zeta * multiple, multiple > 1


def teachers(F: Array, multiple: Array, widest: float, far: float) -> Array:
    """The factor without the rows far behind: they learn, but their clipped outliers
    must not teach the others.
    """
    if widest <= FAR or far >= FEW_BEHIND:
        return F
    return np.where(multiple[:, None] > FAR, F.dtype.type(0), F)


class Pass(NamedTuple):
    """What all rows need to know for a pass."""

    R: Array
    Q: Array | None  # R without columns far behind; None where that is R
    zeta: float
    cols: tuple[Array, Array]  # thresholds of the columns, and where they are widened
    outliers: Sides
    widest: float  # multiple of a row
    far: float  # the fraction of rows that is far behind
    refresh: bool  # make Gram matrices anew
    ridge: float
    scale: Array | None  # (R'R)^-1, where one serves all rows ...
    floor: float  # ... divided by at least so many entries per column


class Known(NamedTuple):
    """What is known of the rows, and stays as it is."""

    observed: Any  # how many entries of each are seen
    sampled: Some  # the rows that have an entry in the sample
    judged: Some  # the rows that tell how many entries of a row are typically inliers


class Seen(NamedTuple):
    """What a pass tells of all rows together."""

    CtP: Array
    WtP: Array | None
    col_inliers: Array
    col_weight: Array
    n_inliers: int
    LW: Array  # L' step
    step: Joined  # of the rows that have an entry in the sample
    inliers: Joined  # of the rows that are judged by


def of_rows(block: Observations, lines: Lines, now: Pass) -> tuple[Rows, Seen]:
    """One pass over some rows: the direction of each."""
    known, rows = Known(*lines[:3]), Rows(*lines[3:])
    z, protect = thresholds(rows.multiple, now.zeta, now.widest)
    rule = Threshold(z, now.cols[0], protect, now.cols[1], now.outliers)
    P = teachers(rows.L, rows.multiple, now.widest, now.far)
    Pw, Qw = (
        (pairs(P), pairs(now.R if now.Q is None else now.Q))
        if now.refresh
        else (None, None)
    )
    left, right = OWN if P is rows.L else P, OWN if now.Q is None else now.Q
    pull = block.products(rows.L, now.R, rule, P=left, Q=right, Pw=Pw, Qw=Qw)
    WQ, WtP = pull.grams or (None, None)
    if now.refresh:
        rows = rows._replace(H=WQ, weight=full_weight(pull.row_weight, known.observed))
    if now.scale is None:
        step = row_directions(rows, pull, now.ridge, known.observed > 0, block.threads)
    else:
        step = pull[0] @ now.scale
        step /= np.maximum(pull.row_weight / block.shape[1], now.floor)[:, None].astype(
            step.dtype
        )
    rows = rows._replace(step=step, inliers=pull.row_inliers)
    told = (
        gram(rows.L, step),
        Joined.of(step, known.sampled),
        Joined.of(pull.row_inliers, known.judged),
    )
    return rows, Seen(
        pull[1], WtP, pull.col_inliers, pull.col_weight, pull.n_inliers, *told
    )


def full_weight(weight: Array, observed: Array) -> Array:
    """The weights that a Gram matrix was made with: never quite 0."""
    return np.maximum(weight, 1e-3 * observed)


def row_directions(
    rows: Rows,
    pull: Pull,
    ridge: float,
    used: Array,
    threads: int,
) -> Array:
    """H_i^-1 (C R)_i, longer where weights were lost since H was made."""
    step = solve_rows(rows.H, pull[0], ridge * np.eye(rows.L.shape[1]), used, threads)
    step *= np.minimum(rows.weight / np.maximum(pull.row_weight, 1e-9), LONGEST)[
        :, None
    ].astype(step.dtype)
    return step


class Told(NamedTuple):
    """How far all rows together went, and how far behind they are."""

    DD: Array  # D' D of the step, as in `Move`
    widest: Largest
    far: int


def after_all(lines: Lines, same: Any) -> tuple[Rows, Told]:
    """The step of some rows as all together allow, and their next multiples of the threshold."""
    observed, rows = lines[0], Rows(*lines[1:])
    M, momentum, typical, shrink = same
    D, after = _stepped(rows.L, rows.step, rows.momentum, M, momentum)
    multiple = followed(observed, rows.inliers, rows.multiple, typical, shrink)
    told = Told(
        gram(D), Largest(multiple.max(initial=1.0)), int((multiple > FAR).sum())
    )
    return rows._replace(
        L=after, momentum=D, multiple=multiple, step=None, inliers=None
    ), told


def _stepped(
    F: Array,
    step: Array,
    before: Array,
    M: Array,
    momentum: float,
) -> tuple[Array, Array]:
    """A direction without what the other factor moves and with momentum, and the factor
    after it.
    """
    D = F @ (M / -2).astype(F.dtype)
    D += step
    if momentum:
        D += F.dtype.type(momentum) * before
    return D, F + D


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


@dataclass
class Columns:
    """The columns' half of a step: as the rows', with all of them here."""

    side: Side
    R: Array
    momentum: Array
    weight: Array  # the sum of weights of each column in the last pass
    H: Array | None = None  # Gram matrices, packed
    full: Array | None = None  # the sum of weights when these were made
    ridge: float = 0.0

    @classmethod
    def at(cls, R: Array, observed: Array) -> Columns:
        """Before the first step."""
        return cls(Side.of(observed), R, np.zeros_like(R), observed)

    def directions(self, seen: Seen, threads: int) -> Array:
        """H_j^-1 (C' L)_j, longer where weights were lost since H was made."""
        rank = self.R.shape[1]
        if seen.WtP is not None:
            self.H = seen.WtP.astype(self.R.dtype, copy=False)
            self.full = full_weight(seen.col_weight, self.side.observed)
            self.ridge = RIDGE * float(packed_trace(self.H, rank).mean()) / rank
        assert self.H is not None
        assert self.full is not None
        C = seen.CtP.astype(self.R.dtype, copy=False)
        step = solve_rows(
            self.H, C, self.ridge * np.eye(rank), self.side.observed > 0, threads
        )
        longer = np.minimum(self.full / np.maximum(seen.col_weight, 1e-9), LONGEST)
        return step * longer[:, None].astype(step.dtype)

    def moved(self, V: Array, M: Array, heavy: float) -> Array:
        """Go as far as rows and columns together allow: D'D of the step."""
        self.momentum, self.R = _stepped(self.R, V, self.momentum, M.T, heavy)
        return gram(self.momentum)


def _relative(DD: Array, inverse_FF: Array) -> float:
    """The size of a step D of a factor F beside it, in every direction: sqrt(tr (F'F)^-1
    D'D / rank).
    """
    return math.sqrt(abs(float(np.vdot(inverse_FF, DD))) / len(DD))


@dataclass
class Falling:
    """The threshold: it follows the residuals of a sample, and falls no faster than the
    entries allow.
    """

    some: Sample  # its rows are counted among those that have an entry in it
    good: float
    oversampling: float
    grams: bool
    rounding: float
    low: float = field(default=np.inf, init=False)

    def after(self, zeta: float, Ls: Array, R: Array, inliers: float) -> float:
        """The next threshold, where the rows of the sample are at Ls."""
        size = np.abs(self.some.residual(Factors(Ls, R)))
        low, high = quantiles(size, (self.good, HIGH * inliers))
        self.low = low
        least = max(self._decay(inliers) * zeta, WIDEST * low)
        return max(
            min(least, ABOVE_HIGH[self.grams] * high), FASTEST * zeta, self.rounding
        )

    def _decay(self, inliers: float) -> float:
        """How fast the threshold may fall: slower where samples are few for the rank."""
        needed = NEEDED[self.grams] / max(inliers, 0.1) ** (2 if self.grams else 1)
        return float(
            np.clip(DECAY * np.sqrt(needed / self.oversampling), DECAY, SLOWEST)
        )


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
        self.sampled_momentum, self.sampled = _stepped(
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

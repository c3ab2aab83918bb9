"""The two rounds of a step of the closed loop: `of_rows` with the data, where every row finds its
direction, and `after_all` without, where it goes as far as all rows and columns together allow.
Columns do the same, where all of them are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._rows import Joined, Largest, Lines, Some
from ..linalg import gram
from ..observations.base import OWN, Observations, Pull
from ..row_systems import inverse_rows, packed_trace, pairs, times_rows
from ..weights import Array, Sides, Threshold
from .thresholds import FAR, Side, followed, teachers, thresholds

RIDGE = 1e-3  # of the mean Gram matrix: rows with hardly an inlier stay bounded
# times: how much a step is lengthened for weights lost since the Gram matrix was made
LONGEST = 5.0


class Rows(NamedTuple):
    """What belongs to the rows, and stays with them."""

    L: Any
    momentum: Any
    multiple: Any  # of the common threshold: more than 1 protects those left behind
    step: Any = None  # the direction of this step
    inliers: Any = None  # how many of its entries are within the threshold
    H: Any = None  # the inverse of its Gram matrix, packed
    weight: Any = None  # the sum of its weights when that was made


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


def passed(block: Observations, rows: Rows, now: Pass) -> Pull:
    """One pass over some rows, with the products that their steps are made of."""
    z, protect = thresholds(rows.multiple, now.zeta, now.widest)
    rule = Threshold(z, now.cols[0], protect, now.cols[1], now.outliers, rough=True)
    P = teachers(rows.L, rows.multiple, now.widest, now.far)
    Pw, Qw = (
        (pairs(P), pairs(now.R if now.Q is None else now.Q))
        if now.refresh
        else (None, None)
    )
    left, right = OWN if P is rows.L else P, OWN if now.Q is None else now.Q
    return block.products(rows.L, now.R, rule, P=left, Q=right, Pw=Pw, Qw=Qw)


def of_rows(block: Observations, lines: Lines, now: Pass) -> tuple[Rows, Seen]:
    """One pass over some rows: the direction of each."""
    known, rows = Known(*lines[:3]), Rows(*lines[3:])
    pull = passed(block, rows, now)
    WtP = None
    if now.refresh:
        (WQ, WtP), ridge = pull.grams, now.ridge * np.eye(rows.L.shape[1])
        rows = rows._replace(
            H=inverse_rows(WQ, ridge, known.observed > 0, block.threads),
            weight=full_weight(pull.row_weight, known.observed),
        )
    if now.scale is None:
        step = times_rows(rows.H, pull[0], longer(rows.weight, pull.row_weight))
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


def ridge_of(grams: Array, rank: int) -> float:
    """A small part of the mean Gram matrix."""
    return RIDGE * float(packed_trace(grams, rank).mean()) / rank


def full_weight(weight: Array, observed: Array) -> Array:
    """The weights that a Gram matrix was made with: never quite 0."""
    return np.maximum(weight, 1e-3 * observed)


def longer(full: Array, weight: Array) -> Array:
    """Times which a step goes where weights were lost since its Gram matrix was made."""
    return np.minimum(full / np.maximum(weight, 1e-9), LONGEST)


class Told(NamedTuple):
    """How far all rows together went, and how far behind they are."""

    DD: Array  # D' D of the step, as in `Move`
    widest: Largest
    far: int


def after_all(lines: Lines, same: Any) -> tuple[Rows, Told]:
    """The step of some rows as all together allow, and their next multiples of the threshold."""
    observed, rows = lines[0], Rows(*lines[1:])
    M, momentum, typical, shrink = same
    D, after = stepped(rows.L, rows.step, rows.momentum, M, momentum)
    multiple = followed(observed, rows.inliers, rows.multiple, typical, shrink)
    told = Told(
        gram(D), Largest(multiple.max(initial=1.0)), int((multiple > FAR).sum())
    )
    return rows._replace(
        L=after, momentum=D, multiple=multiple, step=None, inliers=None
    ), told


def stepped(
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


@dataclass
class Columns:
    """The columns' half of a step: as the rows', with all of them here."""

    side: Side
    R: Array
    momentum: Array
    weight: Array  # the sum of weights of each column in the last pass
    H: Array | None = None  # inverses of Gram matrices, packed
    full: Array | None = None  # the sum of weights when these were made

    @classmethod
    def at(cls, R: Array, observed: Array) -> Columns:
        """Before the first step."""
        return cls(Side.of(observed), R, np.zeros_like(R), observed)

    def directions(self, seen: Seen, threads: int) -> Array:
        """H_j^-1 (C' L)_j, longer where weights were lost since H was made."""
        rank = self.R.shape[1]
        if seen.WtP is not None:
            H = seen.WtP.astype(self.R.dtype, copy=False)
            ridge = ridge_of(H, rank) * np.eye(rank)
            self.H = inverse_rows(H, ridge, self.side.observed > 0, threads)
            self.full = full_weight(seen.col_weight, self.side.observed)
        assert self.H is not None
        assert self.full is not None
        C = seen.CtP.astype(self.R.dtype, copy=False)
        return times_rows(self.H, C, longer(self.full, seen.col_weight))

    def moved(self, V: Array, M: Array, heavy: float) -> Array:
        """Go as far as rows and columns together allow: D'D of the step."""
        self.momentum, self.R = stepped(self.R, V, self.momentum, M.T, heavy)
        return gram(self.momentum)

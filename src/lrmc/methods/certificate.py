"""Whether an exact fit proves itself.

A matrix of rank r has r (n1 + n2 - r) free numbers, so any data can be made to agree with one in
about so many entries. "Exact" is believed where far more agree: more over all, more in each row and
column, and not only because one value stands in many places. What a fit does not prove is said: it
goes on as noisy data, or rows and columns are listed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._rows import Largest, equal, take, told, where
from ..linalg import Factors, entries_at, gram, inverse
from ..observations.base import DOMINANT, OFTEN, Observations, Pull, most_frequent
from ..observations.sample import MOST
from ..weights import Array, Threshold
from .chance import by_chance, by_few_values, is_rounded_noise, proving

# times tol and the scale of the data: where steps have converged, good residuals are below
AGREES = 20.0
# times that: what counts as agreeing; a row that was far behind may still be on its way
NEARLY = 10.0
# times that: an outlier is beyond; residuals in between are noise, or the fit has not got there
FAR_OFF = 50.0
# of the entries may lie there: outliers of all sizes have a few that are small
BETWEEN = 0.005
# of the entries still come nearer, beyond those that are small outliers: they are waited for
ON_THEIR_WAY = 1e-3
OVERSAMPLED = 1.2  # 0.99 to 1.01 was measured where a fit merely interpolates
UNPROVEN = 0.5  # of the rows or columns may be left open; beyond, nothing is proven
# of the entries disagree: there are no outliers, and a row need not prove itself
NOTHING_ELSE = 1e-3
# times rank + 2 entries that agree: a row with more is not looked at closely
PLENTY = 4
ALONE = 0.99  # the leverage of an entry that no other can confirm
# of the entries of a line: with fewer, it is looked at closely too, in a small matrix
MOST_AGREE = 0.75
SMALL_MATRIX = 1_000_000  # places
UNTOLD = 1e-12  # an eigenvalue of a Gram matrix below this part of the largest is 0
# of the scale of the data: an entry that residuals which agree could move by more is not told
MOVED = 0.1
CLOSE_LOOK = 50_000_000  # places that are looked at closely, at most
AT_ONCE = 1_000_000  # entries
GRID = 300  # rows and columns in which the pattern of what agrees is looked at
LONE = 1e-6  # what others add to a component that is one line's own
MOST_DISAGREE = (
    "of the entries that are not the most frequent value, most disagree with the fit"
)
ONE_VALUE = "nearly all entries have one value, and the others follow no pattern: they are called outliers"
ONE_VALUE_A_LINE = (
    "most entries have the one value that is usual in their row or column: the others are called"
    " outliers"
)
# times the largest singular value that chance gives: what agrees does so in blocks
PATTERN = 2.0


@dataclass(frozen=True, eq=False)
class Certificate:
    """What agrees with a fit, and whether that proves it."""

    agreeing: float  # the share of the observed entries that agree
    # entries that agree, over free numbers: about 1 where a fit interpolates
    oversampling: float
    between: float  # the share of entries that neither agree nor are far off
    # that are not vouched for: hardly more entries agree than any fit could meet
    rows: Array
    cols: Array
    border: float  # residuals up to this agree
    on_their_way: float = 0.0  # the part of `between` that is more than small outliers
    why_not: str = ""  # why it proves nothing; empty if it holds
    doubt: str = ""  # what to know about it, if it holds
    # where these were looked at on the way: the root mean square of the residuals that agree ...
    noise: float = math.nan
    connected: bool = False  # ... and that all lines hang together by chains of entries

    @property
    def holds(self) -> bool:
        """Whether the fit is proven, apart from the rows and columns that are listed."""
        return not self.why_not

    def plain(self) -> dict[str, float | str]:
        """The numbers, for `Result.evidence`."""
        names = ("agreeing", "oversampling", "between", "why_not")
        return {name: getattr(self, name) for name in names}


def agreement_border(obs: Observations, tol: float) -> float:
    """Where steps have converged, good residuals are below."""
    return AGREES * max(tol, 4 * float(np.finfo(obs.dtype).eps)) * obs.scale


def certify(obs: Observations, X: Factors, tol: float) -> Certificate:
    """Look at which entries agree with X. One pass over the data."""
    found = _counted(obs, X, agreement_border(obs, tol))
    if found.holds:
        found = replace(found, why_not=_why_not(obs, X, found))
    return found


def is_of_one_value(warnings: tuple[str, ...]) -> bool:
    """Whether a fit is called exact since most entries have one value, by what was said of it."""
    return ONE_VALUE in warnings or ONE_VALUE_A_LINE in warnings


def may_be_exact(obs: Observations, X: Factors, tol: float) -> bool:
    """Whether more entries come near X than any fit of its rank could meet, those of the most
    frequent value left out, and as many as agree by chance where values are few: steps that have
    not converged may be on their way to an exact fit."""
    some, rank = obs.sample, X.L.shape[1]
    residual = some.residual(X)
    border = FAR_OFF * agreement_border(obs, tol)
    near = np.abs(residual) <= border
    _, times = most_frequent(some.values[near])
    share = float(near.mean()) - times / len(near)
    share -= max(by_few_values(some, residual, axis, border) for axis in (0, 1))
    return share * obs.n_observed > OVERSAMPLED * free_numbers(obs, rank)


def free_numbers(obs: Observations, rank: int) -> int:
    """Of a matrix of this shape and rank."""
    return rank * (sum(obs.shape) - rank)


def _counted(obs: Observations, X: Factors, border: float) -> Certificate:
    """How much agrees, and which rows and columns are not vouched for."""
    rank, near = X.L.shape[1], NEARLY * border
    met = met_within(obs, X, near)
    agreeing = met.n_inliers / obs.n_observed
    others = 1 - agreeing
    residual, values = obs.sample.residual(X), obs.sample.values
    size = np.abs(residual)
    often, times = most_frequent(values[size <= near])
    one_value = times > DOMINANT * len(values)
    telling = met.row_inliers, met.col_inliers
    if times > OFTEN * len(values) and not one_value:
        telling = _met_without(obs, X, near, often)
    without = agreeing - times / max(len(values), 1)
    counted = agreeing if one_value or others < NOTHING_ELSE else without
    chance = by_chance(obs, size, near)
    sides = (
        (obs.row_observed, met.row_inliers, telling[0]),
        (obs.col_observed, met.col_inliers, telling[1]),
    )
    chances = (
        max(chance, by_few_values(obs.sample, residual, axis, near, often))
        for axis in (0, 1)
    )
    rows, cols = (
        _not_vouched_for(obs, X, axis, side, Line(rank, others, one, border))
        for axis, (side, one) in enumerate(zip(sides, chances, strict=True))
    )
    between = float(np.mean((size > border) & (size <= FAR_OFF * border)))
    # outliers, as many as below
    small = float(np.mean((size > FAR_OFF * border) & (size <= 2 * FAR_OFF * border)))
    return Certificate(
        agreeing,
        oversampling=counted * obs.n_observed / free_numbers(obs, rank),
        between=between,
        rows=rows,
        cols=cols,
        border=near,
        on_their_way=between - 2 * small,
        why_not=MOST_DISAGREE
        if counted == without < others and times > OFTEN * len(values)
        else "",
        doubt="" if others < NOTHING_ELSE else _doubt(obs, size <= near, one_value),
    )


def _doubt(obs: Observations, agree: Array, one_value: bool) -> str:
    """What to know where what agrees is one value, or, beside gaps, one in each line."""
    if one_value:
        return ONE_VALUE
    usual = obs.fraction < 1 and np.mean(obs.sample.usual() & agree) > MOST
    return ONE_VALUE_A_LINE if usual else ""


def met_within(obs: Observations, X: Factors, border: float) -> Pull:
    """The entries within the border, counted by row and column."""
    n1, n2 = obs.shape
    rule = Threshold(
        equal(border, n1), equal(border, n2), equal(0.0, n1), equal(0.0, n2)
    )
    return obs.products(X.L, X.R, rule, Q=np.zeros((n2, 1), obs.dtype))


def _met_without(
    obs: Observations,
    X: Factors,
    border: float,
    value: float,
) -> tuple[Array, Array]:
    """The entries within the border that are not this value, counted by row and column."""
    counts = tuple(np.zeros(n, np.int64) for n in obs.shape)
    for rows, cols, residual in obs.residuals(*obs.in_form(*X)):
        model = entries_at(X, rows, cols)
        told = (np.abs(residual) <= border) & (
            np.abs(model + residual - value) > border
        )
        for count, lines in zip(counts, (rows, cols), strict=True):
            count += np.bincount(lines[told], minlength=len(count))
    return counts[0], counts[1]


class Line(NamedTuple):
    """What every row or column is judged by."""

    rank: int
    others: float  # the share of entries that disagree
    chance: float  # the share of the entries of a wrong fit that agree
    border: float


def _not_vouched_for(
    obs: Observations,
    X: Factors,
    axis: int,
    side: tuple[Array, Array, Array],
    about: Line,
) -> Array:
    """The rows (axis 0; columns for 1) that hardly more entries agree with than any fit could meet.

    Of all of them those that are open; of those with few entries that agree, those that hang on a
    single one."""
    F, G = X[axis], X[1 - axis]
    largest = float(told(_largest_norm, (G,)))
    squares = told(_double_gram, (F,))
    scale = inverse(squares, len(F), np.dtype(np.float64))
    found = where(_open, (*side, F), (about, largest, scale))
    small = obs.shape[0] * obs.shape[1] <= SMALL_MATRIX
    doubtful = where(_doubtful, side, (about.rank, small))
    found = np.union1d(found, _hanging(obs, X, NEARLY * about.border, axis, doubtful))
    if not small:
        return found
    few = where(_few_of_many, side, (about.rank, obs.shape[1 - axis]))
    spread = np.asarray(squares) / obs.shape[axis]
    untold = _untold(obs, X, axis, few, (NEARLY * about.border, spread))
    return np.union1d(found, untold)


def _open(rows: tuple[Array, ...], same: tuple[Line, float, Array]) -> Array:
    """Lines that are not vouched for, by what agrees there.

    Too few entries agree, unless all do and (one is to spare, or there are no outliers); or the
    line has a component of the fit to itself, which meets whatever stands there. Where the line of
    X is 0, as most of its entries are, there is nothing else to tell of it."""
    (observed, inliers, telling, F), (about, largest, scale) = rows, same
    F, rank = F.astype(np.float64), about.rank
    all_agree = (inliers == observed) & (
        (inliers > rank) | ((inliers == rank) & (about.others < NOTHING_ELSE))
    )
    few = (
        (observed > 0) & (telling < proving(observed, rank, about.chance)) & ~all_agree
    )
    zero = (np.sqrt((F**2).sum(1)) * largest <= about.border) & (2 * inliers > observed)
    alone = (((F @ scale) * F).sum(1) > 1 - LONE) & (about.others >= NOTHING_ELSE)
    return (few & ~zero) | alone


def _doubtful(rows: tuple[Array, ...], same: tuple[int, bool]) -> Array:
    """Lines that disagree in some entries and are looked at closely: where few agree, in
    a small matrix not most.
    """
    (observed, inliers, telling), (rank, small) = rows, same
    doubtful = telling < PLENTY * (rank + 2)
    if small:
        doubtful = doubtful | (inliers < MOST_AGREE * observed)
    return (inliers < observed) & (inliers > rank + 1) & doubtful


def _few_of_many(rows: tuple[Array, ...], same: tuple[int, int]) -> Array:
    """Lines with gaps whose entries all agree, but are few."""
    (observed, inliers, _), (rank, length) = rows, same
    few = (observed > 0) & (observed < min(PLENTY * (rank + 2), length))
    return few & (inliers == observed)


def _double_gram(rows: tuple[Array], _: None) -> tuple[tuple[()], tuple[Array]]:
    return (), (gram(rows[0].astype(np.float64)),)


def _largest_norm(rows: tuple[Array], _: None) -> tuple[tuple[()], tuple[Largest]]:
    (G,) = rows
    squares = (G.astype(np.float64) ** 2).sum(1)
    return (), (Largest(np.sqrt(squares.max(initial=0.0))),)


def _all_of(F: Array, count: int) -> Array:
    """The rows of a factor, in double precision, wherever they are."""
    return np.asarray(take(F, np.arange(count)).astype(np.float64))


def _values_of(
    obs: Observations, axis: int, lines: Array
) -> Iterator[tuple[Array, Array]]:
    """Some of these rows (axis 0; columns for 1) at a time, and their entries, a line each; NaN
    where nothing was observed.
    """
    along = np.arange(obs.shape[1 - axis])
    for some in np.array_split(lines, max(1, len(lines) * len(along) // AT_ONCE)):
        yield (
            some,
            obs.grid(some, along) if axis == 0 else obs.grid(along, some).T,
        )


def _hanging(
    obs: Observations,
    X: Factors,
    border: float,
    axis: int,
    lines: Array,
) -> Array:
    """Those of some rows (axis 0; columns for 1) that hang on a single entry, or none, in some
    direction.

    Ten columns that are all alike tell one number of a row, however many of its entries agree
    there. An entry that alone tells another would agree whatever it is."""
    if not 0 < len(lines) * obs.shape[1 - axis] <= CLOSE_LOOK:
        return np.empty(0, np.int64)
    F, hanging = X[axis], []
    other = _all_of(X[1 - axis], obs.shape[1 - axis])
    for some, values in _values_of(obs, axis, lines):
        # lines x along; False where nothing was observed
        agrees = np.abs(values - take(F, some) @ other.T) <= border
        grams = np.einsum("ij,jk,jl->ikl", agrees, other, other, optimize=True)
        inverse = np.linalg.pinv(grams, hermitian=True)
        leverage = np.einsum("jk,ikl,jl->ij", other, inverse, other, optimize=True)
        values = np.linalg.eigvalsh(grams)
        # a direction that no entry tells
        unknown = values[:, 0] <= UNTOLD * values[:, -1]
        hanging.append(some[unknown | (agrees & (leverage > ALONE)).any(1)])
    return np.concatenate(hanging)


def _untold(
    obs: Observations,
    X: Factors,
    axis: int,
    lines: Array,
    about: tuple[float, Array],
) -> Array:
    """Those of some rows (axis 0; columns for 1) of which missing entries are not told by the others:
    residuals that agree, up to a border, would move them by a good part of the data.

    Where columns come in pairs of equals, one of each pair tells the other; if both are missing,
    nothing does, however well the rest agrees. A direction in which lines hardly differ, by their
    mean squares, moves nothing."""
    if len(lines) == 0:
        return lines
    border, spread = about
    untold, other = [], _all_of(X[1 - axis], obs.shape[1 - axis])
    for some, values in _values_of(obs, axis, lines):
        seen = ~np.isnan(values)
        grams = np.einsum("ij,jk,jl->ikl", seen, other, other, optimize=True)
        size, directions = np.linalg.eigh(grams)
        usual = np.einsum("ikd,kl,ild->id", directions, spread, directions)
        told = border**2 / np.maximum(size, np.finfo(np.float64).tiny)
        free = np.minimum(told, usual)  # lines x rank
        moved = np.einsum("ijd,id->ij", np.square(other @ directions), free)
        farthest = np.sqrt(np.where(seen, 0.0, moved).max(1))
        untold.append(some[farthest > MOVED * obs.scale])
    return np.concatenate(untold)


def _why_not(obs: Observations, X: Factors, found: Certificate) -> str:
    """Why a certificate does not hold, in words; empty if it does."""
    if found.oversampling < OVERSAMPLED:
        return "no more entries agree with the fit than could be made to agree with any of its rank"
    if found.between > BETWEEN:
        return (
            "many residuals are neither as small as rounding nor as large as outliers"
        )
    for lines, n, name in (
        (found.rows, obs.shape[0], "rows"),
        (found.cols, obs.shape[1], "columns"),
    ):
        if len(lines) > UNPROVEN * n:
            return (
                f"in {len(lines)} of {n} {name} hardly more entries agree than the rank"
            )
    if is_rounded_noise(obs.sample, obs.sample.residual(X), found.border):
        return "most of what disagrees is one step of the values off: they were rounded, and have noise"
    if found.agreeing <= 0.5 and _in_blocks(obs, X, found.border / NEARLY):
        return "less than half of the entries agree, and they lie in blocks: another fit may meet the others"
    return ""


def _in_blocks(obs: Observations, X: Factors, border: float) -> bool:
    """Whether what agrees has a pattern beyond rows and columns that agree more than others.

    A fit can meet some rows in some columns and other rows in others, with the wrong sign in
    between."""
    rng = np.random.default_rng(0)
    rows, cols = (
        np.sort(rng.choice(n, min(n, GRID), replace=False)) for n in obs.shape
    )
    values = obs.grid(rows, cols)
    seen = ~np.isnan(values)
    agrees = np.abs(values - take(X.L, rows) @ take(X.R, cols).T) <= border
    share = float(agrees.sum()) / max(int(seen.sum()), 1)
    pattern = np.where(seen, agrees - share, 0.0)
    pattern = pattern - pattern.mean(0) - pattern.mean(1)[:, None] + pattern.mean()
    chance = np.sqrt(share * (1 - share) * seen.mean()) * (
        np.sqrt(len(rows)) + np.sqrt(len(cols))
    )
    return bool(np.linalg.norm(pattern, 2) > PATTERN * chance)

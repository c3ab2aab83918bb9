"""The rank of exact data: components are added while the residual has any, and dropped
when they are not needed.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._rows import Largest, beside, each, kept, told
from ..linalg import Factors, balanced, gram, median_of
from ..observations.base import Observations, Sample
from ..weights import Array, Sides
from .closed_loop import closed_loop, has_plenty
from .start import Sizes, leading_and_sizes, measuring
from .step import Step
from .thresholds import LOW, WIDEST

MOST_AT_ONCE = 5
MANY = 15  # components
FEW_ROWS = 0.15  # a component this narrow may be made of outliers
# times: squared singular values that are less apart need no closer look
APART = 25
# steps after which a component that made no difference was too many; a small one may need them to
# show
IDLE = 3
# times the median residual: larger ones count as so much, where a component is looked for
CLIPPED = 3.0
# steps after which residuals must have fallen twentyfold: exact data are far below that by then
HOPELESS, HOPED = 25, 0.05
# rounds without room for another component, in which residuals have to fall to this part: data
# that are exact at the highest rank come nearer all the time, others wander
PATIENT, FALLEN = 5, 0.3


class Test(NamedTuple):
    """A look at what is left: the singular values of the residual, against what noise
    alone would give.
    """

    rank: int  # of the model so far
    singular_values: tuple[float, ...]
    noise: float
    added: int

    def times(self, unit: float) -> Test:
        """The same for data that are so many times larger."""
        return self._replace(
            singular_values=tuple(unit * s for s in self.singular_values),
            noise=unit * self.noise,
        )


class Found(NamedTuple):
    """Where the search ended."""

    X: Factors
    settled: bool  # converged, rather than at rest at the noise
    residual: float
    tests: tuple[Test, ...]
    inliers: float = 1.0  # the share of entries within the last threshold
    missing: tuple[Any, ...] = ()  # values that were taken for missing


class Pace:
    """Whether steps have converged, or come to rest at the noise."""

    FALLING = 0.97  # residuals that were not 3 % lower than ever before ...
    PATIENCE = 8  # ... in so many steps have come to rest

    def __init__(self, obs: Observations, tol: float) -> None:
        eps = float(np.finfo(obs.dtype).eps)
        self.tol = max(tol, eps)
        # where steps have converged, a larger residual is noise
        self.small = 1e3 * self.tol * obs.scale
        self.rounding = 100 * eps * obs.scale
        self.scale = obs.scale
        self.moved, self.residuals, self.exact = math.inf, [math.inf], False

    def ended(self, step: Step) -> bool:
        """Take note of a step; True if it was the last one needed."""
        residual, moved = step.residual, step.moved
        rate = min(moved / self.moved, 0.95) if self.moved > 0 else 0.0
        self.moved = moved
        self.residuals.append(residual)
        recent, before = (
            self.residuals[-self.PATIENCE :],
            self.residuals[: -self.PATIENCE],
        )
        # also where both are 0
        resting = len(before) > 1 and min(recent) >= self.FALLING * min(before)
        # also what is still to come
        converged = max(moved, moved * rate / (1 - rate)) < self.tol
        converged &= step.behind < 100 * self.tol * self.scale
        # All typical residuals are 0: X is 0 too, and its change compared with itself never small.
        vanished = (
            residual < 1e-3 * self.tol * self.scale
            and len(self.residuals) > 2 * self.PATIENCE
        )
        self.exact = vanished or residual < (self.small if converged else self.rounding)
        # Small steps under a threshold that is still far above the residual say little: it has yet
        # to come down.
        converged &= self.exact or step.zeta <= 1.1 * WIDEST * residual
        return converged or resting or vanished or not math.isfinite(moved)


def noise_level(
    obs: Observations,
    X: Factors | None,
    zeta: float,
    share: float,
    reject: bool,
) -> float:
    """See `noise_of`. One pass over the data."""
    L, R = X if X is not None else (None, None)
    none = np.zeros((obs.shape[1], 1))
    pull = obs.products(L, R, measuring(obs, zeta, reject), Q=none)
    seen = (pull.row_weight, pull.row_inliers, pull.col_weight, pull.col_inliers)
    return noise_of(Sizes(*seen), share)


def noise_of(sizes: Sizes, share: float) -> float:
    """The largest singular value that unrelated entries of this size could have.

    That is the largest norm of a row plus the largest of a column of the clipped (or rejected)
    residual."""
    largest = float(told(_largest, (sizes.rows,))), float(sizes.cols.max())
    return sum(map(math.sqrt, largest)) / max(share, 1e-12)


def _largest(rows: tuple[Array], _: None) -> tuple[tuple[()], tuple[Largest]]:
    return (), (Largest(rows[0].max(initial=0.0)),)


def first_guess(
    obs: Observations,
    zeta: float,
    middle: Factors | None,
    most: int,
    seed: int,
) -> tuple[Factors, Test]:
    """The leading components of the clipped data that stand out of the noise."""
    p = obs.fraction
    X, sizes = leading_and_sizes(
        obs,
        most,
        zeta,
        1 / p,
        model=middle,
        keep_model=middle is not None,
        seed=seed,
        one_sided=has_plenty(obs, most),
    )
    values = np.diag(gram(X.L))
    noise = noise_of(sizes, p)
    wanted = (values > noise) & ~_of_outliers(X, sizes, obs, 1.0)
    wanted[0] |= not wanted.any()
    return columns(X, wanted), Test(0, tuple(values.tolist()), noise, int(wanted.sum()))


def columns(X: Factors, wanted: Array | slice) -> Factors:
    """Some components."""
    return Factors(*(kept(_chosen, (F,), wanted) for F in X))


def _chosen(
    rows: tuple[Array], wanted: Array | slice
) -> tuple[tuple[Array], tuple[()]]:
    return (np.ascontiguousarray(rows[0][:, wanted]),), ()


def settled(
    obs: Observations,
    X: Factors,
    zeta: float,
    *,
    tol: float,
    outliers: Sides = "both",
    drop: bool = False,
    good: float = LOW,
) -> Generator[Step, None, Found]:
    """The closed loop with the rank of X until it converges, or comes to rest at the noise.

    With `drop` only until it turns out that the data need less: a component too many would slow the
    others down, and end as a row or column whose outliers it explains. `good` as for the closed
    loop."""
    pace, most, idle = Pace(obs, tol), X.L.shape[1], 0
    for rounds, step in enumerate(
        closed_loop(obs, X, zeta, outliers=outliers, good=good), 1
    ):
        yield step
        X = step.X
        ended = pace.ended(step)
        smaller = _pruned(obs, step) if drop and rounds > 2 else None
        idle = 0 if smaller is None else idle + 1
        if smaller is not None and (ended or idle == IDLE):
            dropped = Test(most, (), math.nan, smaller.L.shape[1] - most)
            go_on = find_rank(
                obs,
                smaller,
                step.zeta,
                dropped,
                most=most,
                tol=tol,
                outliers=outliers,
                good=good,
            )
            return (yield from go_on)
        if ended:
            break
    return Found(X, pace.exact, step.residual, (), step.inliers)


def find_rank(
    obs: Observations,
    X: Factors,
    zeta: float,
    first: Test,
    *,
    most: int,
    tol: float,
    outliers: Sides = "both",
    good: float = LOW,
) -> Generator[Step, None, Found]:
    """The closed loop, with components added and dropped on its way."""
    tests, steps, first_residual = [first], 0, math.inf
    # high ranks come in larger portions, each with its own patience
    many = most > MANY
    full: list[float] = []  # residuals each time that there was no room for more
    step = Step(X.L, X.R, zeta, 1.0, math.inf)
    while steps < HOPELESS or step.residual < HOPED * first_residual:
        loop = closed_loop(obs, X, zeta, outliers=outliers, good=good)
        stop = yield from _until_rest(obs, loop, Pace(obs, tol))
        step, X, zeta = stop.step, stop.step.X, stop.step.zeta
        first_residual = stop.first if steps == 0 else first_residual
        steps += stop.rounds
        if stop.exact:
            return Found(X, True, step.residual, tuple(tests), step.inliers)
        if stop.smaller is not None:
            X = stop.smaller
            continue
        rank = X.L.shape[1]
        room = min(max(MOST_AT_ONCE, rank // 3 if many else 0), most - rank)
        grown, test = _grown(obs, step, room, 10 * tol)
        tests.append(test)
        full += [step.residual] * (room <= 0)
        stuck = len(full) > PATIENT and full[-1] > FALLEN * full[-PATIENT - 1]
        if not test.added and (stop.ended or stuck):
            break
        if test.added:
            steps = 1 if many else steps
            X, zeta = grown, _widened(obs, grown, zeta, step.inliers)
    return Found(X, False, step.residual, tuple(tests), step.inliers)


class _Stop(NamedTuple):
    """Where the closed loop was left, and why."""

    step: Step
    first: float  # residual, after one step
    rounds: int
    ended: bool  # converged, or at rest at the noise
    exact: bool  # of these, the former
    smaller: Factors | None  # the fit without components that it does not need


def _until_rest(
    obs: Observations,
    loop: Iterator[Step],
    pace: Pace,
) -> Generator[Step, None, _Stop]:
    """Steps of the closed loop until they end, a component proves superfluous, or so
    little changes that it is time to look for another one.
    """
    first = math.inf
    for rounds, step in enumerate(loop, 1):
        yield step
        first = step.residual if rounds == 1 else first
        ended = pace.ended(step)
        exact = ended and pace.exact
        smaller = _pruned(obs, step) if rounds > 2 and not exact else None
        slow = rounds > 4 and pace.moved < 0.1 and _resting(pace.residuals)
        if ended or smaller is not None or slow:
            break
    return _Stop(step, first, rounds, ended, exact, smaller)


def _widened(obs: Observations, X: Factors, zeta: float, inliers: float) -> float:
    """The threshold for a fit that has new components: most good entries are within."""
    size = np.abs(obs.sample.residual(X))
    return max(zeta, 6 * float(np.quantile(size, 0.9 * inliers)))


def _resting(residuals: list[float]) -> bool:
    a, b, c = residuals[-3:]
    return c > 0.8 * b and c > 0.64 * a


def _pruned(obs: Observations, step: Step) -> Factors | None:
    """X without trailing components that the fit does not need, or None if it needs all."""
    X, inliers = step.X, step.inliers
    rank = X.L.shape[1]
    if step.gap <= APART:
        return None
    GL = gram(X.L) if step.LL is None else step.LL
    # of the singular values, roughly
    squares = np.sort(np.abs(np.linalg.eigvals(GL @ gram(X.R))))[::-1]
    if not np.any(squares[:-1] > APART * squares[1:]):
        return None
    Z = balanced(*X)
    values = np.diag(gram(Z.L))
    some, best, now = obs.sample, None, None
    for keep in range(rank - 1, 0, -1):
        if values[keep - 1] <= 5 * values[keep]:
            continue
        if now is None:
            now = _typical(some, X, inliers)
        candidate = columns(Z, slice(keep))
        if _typical(some, candidate, inliers) > 1.3 * now:
            break
        best = candidate
    return best


def _typical(some: Sample, X: Factors, inliers: float) -> float:
    size = np.abs(some.residual(X))
    return float(np.quantile(size, 0.5 * inliers))


def _grown(
    obs: Observations,
    step: Step,
    room: int,
    least: float,
) -> tuple[Factors, Test]:
    """X with the components of the rejected residual that stand out of the noise, and
    are not too small to matter.
    """
    X, zeta, inliers = step.X, step.zeta, step.inliers
    rank, share = X.L.shape[1], max(obs.fraction * inliers, 1e-12)
    if room <= 0:
        return X, Test(rank, (), noise_level(obs, X, zeta, share, reject=True), 0)
    new, sizes = leading_and_sizes(obs, room, zeta, 1 / share, model=X, reject=True)
    noise = noise_of(sizes, share)
    values = np.diag(gram(new.L))
    wanted = values > max(noise, values[0] / 2, least * step.norm / math.sqrt(rank))
    wanted &= ~_of_outliers(new, sizes, obs, inliers)
    grown = Factors(*(beside(F, G) for F, G in zip(X, columns(new, wanted))))
    return grown, Test(rank, tuple(values.tolist()), noise, int(wanted.sum()))


def beyond(obs: Observations, X: Factors) -> float:
    """How far a component of what X leaves over stands out, in multiples of what unrelated entries
    could have.

    Four passes. Of noise it is about 0.8. One that is made of outliers is none.
    """
    size = np.abs(obs.sample.residual(X))
    zeta = CLIPPED * median_of(size)
    if zeta == 0:
        return 0.0
    new, sizes = leading_and_sizes(obs, 1, zeta, 1 / obs.fraction, model=X)
    if _of_outliers(new, sizes, obs, float((size <= zeta).mean()))[0]:
        return 0.0
    return float(gram(new.L)[0, 0]) / max(noise_of(sizes, obs.fraction), 1e-300)


def _of_outliers(X: Factors, sizes: Sizes, obs: Observations, typical: float) -> Array:
    """Which components live in few rows (or columns), most of whose entries are met
    without them: made of outliers.
    """
    found = np.zeros(X.L.shape[1], bool)
    good = sizes.row_inliers, sizes.col_inliers
    for F, inliers, observed in zip(X, good, (obs.row_observed, obs.col_observed)):
        squares, fourth, met = each(_moments, (F, inliers, observed))[1]
        total = np.maximum(squares, 1e-300)
        # 1/3 for Gaussian columns
        spread = total**2 / (len(F) * np.maximum(fourth, 1e-300))
        found |= np.asarray((spread < FEW_ROWS) & (met / total > 0.5 * typical))
    return found


def _moments(
    rows: tuple[Array, ...], _: None
) -> tuple[tuple[()], tuple[Array, Array, Array]]:
    """Sums of squares and of fourth powers of components, and of squares times the share
    of entries that are met.
    """
    F, inliers, observed = rows
    squares = F.astype(np.float64) ** 2
    met = squares * (inliers / np.maximum(observed, 1))[:, None]
    return (), (squares.sum(0), (squares**2).sum(0), met.sum(0))

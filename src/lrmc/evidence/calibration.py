"""How far completed entries are from the truth: learned from entries that were set aside, where
entries are missing.

The run is made again without them, several times, so that nothing of them is in the fit they are
compared with. Their errors, each in units of its own scale, give the widths: conformal quantiles,
which hold whatever the errors are like, as long as what is missing is like what was set aside.
Where it is not, no interval is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..fit import Fit
from ..observations.base import Observations, Sample
from ..observations.heldout import (
    Submatrix,
    can_hold_out,
    hold_out,
    in_one_piece,
    part_in_memory,
    set_aside,
)
from ..weights import Array
from .scales import Leverage, Lines, Scales, learned_powers, lines_of
from .simple import Fitted
from .tails import TELLING, Shape, Tails, fit_tails, thinned

Target = Literal["value", "observation"]
TARGETS = ("value", "observation")
# data without some entries, and these
SetAside = tuple[Observations, Sample]
# a part of the data without some entries, a seed -> the fit to them
Refit = Callable[[Submatrix, int], Fit]


@runtime_checkable
class KnowsGaps(Protocol):
    """A refit that knows better than rows and columns tell what gaps are like: runs in time."""

    def part(self, obs: Observations) -> Submatrix | None:
        """A part of large data in which they are whole; None where any part is as good."""

    def set_aside(self, part: Submatrix, seed: int) -> SetAside | None:
        """Data without gaps like theirs, and what was there; None where it cannot tell."""


SETS = 5  # of entries that are set aside
# errors in all: the share below a 95 % quantile is then known to 0.3 %
ENOUGH = 6000
MOST = 0.1  # of the entries that are set aside at once
# free numbers for each entry: beyond, a fit gets worse with every entry that it lacks, and half as
# many are set aside
TIGHT = 0.5
PLACES = 20_000  # missing ones, that held-out ones are compared with
KEPT = 10_000  # errors
LEVELS = (0.9, 0.95)  # whose coverage is measured
# the largest distance (Kolmogorov's) between what is known of missing places and of held-out ones
UNLIKE = 0.25
# times: by how much more entries within whole gaps may be missed than single ones. Tables with
# structured gaps whose intervals hold reach 1.5 (Birmingham), NGSIM's cars 2.7 to 3.9
HARDER = 1.7


class NotCalibrated(ValueError):
    """There is no interval that could be vouched for; the message says why.

    Examples
    --------
    >>> import lrmc
    >>> from lrmc.evidence import NotCalibrated
    >>> lrmc.solve(lrmc.synthetic.problem(n=60, rank=2, p=0.8).Y).save("run.npz")
    >>> try:
    ...     lrmc.Result.load("run.npz").interval(0, 0)
    ... except NotCalibrated as reason:
    ...     print(str(reason)[:34])
    this result was loaded from a file
    """


class Coverage(NamedTuple):
    """What intervals held, of entries that were set aside and not used to make them."""

    level: float
    value: float  # of those that are no gross errors
    observation: float  # of all


class Gaps(NamedTuple):
    """How unlike missing places are to those that were set aside."""

    # between the leverages of both, Kolmogorov's: from 0 to 1
    distance: float = 0.0
    # by how many times entries within whole gaps are missed by more than single ones
    harder: float = 1.0

    def why_not(self) -> str:
        """Why nothing tells how far off missing entries are; empty where something does."""
        if self.distance > UNLIKE:
            return (
                "the gaps are unlike anything that was observed: at least"
                f" {100 * self.distance:.0f} % of the missing places have no like among those"
                " that could be set aside in their stead (by what the fit knows of their rows and"
                " columns). Nothing tells how far off they are: no interval is given"
            )
        if self.harder > HARDER:
            return (
                "the gaps are unlike anything that was observed: entries within gaps of their"
                f" shape are missed by {self.harder:.1f} times as much as single ones. Nothing"
                " tells how far off those in the middle are: no interval is given"
            )
        return ""


@dataclass(frozen=True, eq=False)
class Calibration:
    """All that intervals are made of: a few numbers per row and column, and errors of
    entries that were set aside.
    """

    scales: Scales
    tails: Tails
    errors: Array  # in units of their scales
    good: Array  # how likely each is no gross error
    gaps: Gaps
    coverage: tuple[Coverage, ...]  # measured, at LEVELS

    def half_width(
        self,
        rows: Array,
        cols: Array,
        level: float,
        of: Target = "value",
    ) -> Array:
        """Half the width of the intervals at these places."""
        return self.quantile(level, of) * self.scales.at(rows, cols)

    def quantile(self, level: float, of: Target = "value") -> float:
        """What the size of an error, in units of its scale, stays below with this probability."""
        self.check()
        weight = self.good if of == "value" else np.ones(len(self.errors))
        found = quantile_of(np.abs(self.errors), weight, level)
        if not math.isfinite(found):
            enough = math.ceil(level / (1 - level))
            raise NotCalibrated(
                f"level={level:g}: {weight.sum():.0f} good entries could be set aside, and"
                f" {enough} are needed; lower it"
            )
        return found

    def deviation(self, rows: Array, cols: Array) -> Array:
        """The standard deviation that errors at these places would have if they were
        Gaussian with these quantiles.
        """
        return self.quantile(0.6826895) * self.scales.at(rows, cols)

    def drawn(
        self,
        rows: Array,
        cols: Array,
        n: int,
        rng: np.random.Generator,
    ) -> Array:
        """n errors for each of these places (n x places), none of them gross, each
        independent of the others.
        """
        self.check()
        chance = self.good / self.good.sum()
        chosen = rng.choice(self.errors, (n, *rows.shape), p=chance)
        return np.asarray(
            chosen
            * np.where(rng.random(chosen.shape) < 0.5, -1, 1)
            * self.scales.at(rows, cols)
        )

    def check(self) -> None:
        """Refuse where intervals could not be vouched for."""
        why = self.gaps.why_not()
        if why:
            raise NotCalibrated(why)

    def plain(self) -> dict[str, Array]:
        """As arrays, for a file."""
        lines, unit, powers = self.scales
        shape, *rest = self.tails
        width, relative = rest[2:4]
        numbers = (*shape, rest[0], width, relative, unit, *self.gaps, *powers)
        return {
            "row_noise": lines.row_noise,
            "col_noise": lines.col_noise,
            **lines.leverage._asdict(),
            "numbers": np.array(numbers, np.float64),
            "gross": np.array(self.tails.gross, np.float64),
            "coverage": np.array(self.coverage, np.float64).reshape(-1, 3),
            "errors": self.errors,
            "good": self.good,
        }

    @classmethod
    def from_plain(
        cls, arrays: Mapping[str, Any], shape: tuple[int, int]
    ) -> Calibration:
        """What `plain` gave, looked at before it is believed."""
        names = (("row_noise", "rows", "row_lean"), ("col_noise", "cols", "col_lean"))
        for side, n in zip(names, shape, strict=True):
            for name in side:
                _check_numbers(name, arrays[name], (n,))
        _check_numbers("good", arrays["good"], arrays["errors"].shape)
        _check_numbers("numbers", arrays["numbers"], (11,))
        _check_numbers("coverage", arrays["coverage"], (len(arrays["coverage"]), 3))
        leverage = Leverage(*(arrays[name] for name in Leverage._fields))
        lines = Lines(arrays["row_noise"], arrays["col_noise"], leverage)
        p, q, of_good, width, relative, unit, distance, harder, *powers = (
            float(x) for x in arrays["numbers"]
        )
        gross = tuple(float(x) for x in arrays["gross"])
        return cls(
            Scales(lines, unit, np.array(powers)),
            Tails(Shape(p, q), of_good, gross, width, bool(relative)),
            arrays["errors"],
            arrays["good"],
            Gaps(distance, harder),
            tuple(Coverage(*map(float, line)) for line in arrays["coverage"]),
        )


def _check_numbers(name: str, x: Any, shape: tuple[int, ...]) -> None:
    if x.dtype.kind != "f" or x.shape != shape or not np.isfinite(x).all():
        raise ValueError(
            f"its {name} of intervals have shape {x.shape} and type {x.dtype}, or are not finite"
        )


def quantile_of(size: Array, weight: Array, level: float) -> float:
    """What a new error stays below with this probability, from weighted sizes of others; infinite
    where these are too few.
    """
    order = np.argsort(size)
    below = np.cumsum(weight[order])
    wanted = level * (below[-1] + 1)  # the new error is one of them
    if wanted > below[-1]:
        return math.inf
    return float(size[order][np.searchsorted(below, wanted)])


# ---- fits without some entries


def fitted_again(
    obs: Observations,
    refit: Refit,
    rank: int,
    seed: int = 0,
    cells: int | None = None,
) -> tuple[Fitted, ...]:
    """Fits to the data without some entries, several times: `refit` makes the run again, with this
    rank.

    Where data are large or not in memory, of some of their rows (or columns) with so many `cells`. Where gaps are
    structured, a last one is without whole gaps: see `Gaps`.
    """
    if not can_hold_out(obs):
        raise NotCalibrated(
            f"{obs.n_observed} entries are observed: too few to set some aside and learn errors from"
        )
    part = part_for(refit, obs, seed, cells)
    share = _share(part.obs, rank)
    moved = [_in_gaps(refit, part, seed + k) for k in range(SETS)]
    sets = [
        some or set_aside(part.obs, share, seed + k) for k, some in enumerate(moved)
    ]
    if in_one_piece(part.obs):
        sets.append(hold_out(part.obs, seed + SETS))
    fits = []
    for k, (rest, judged) in enumerate(sets):
        fit = refit(part._replace(obs=rest), seed + k)
        in_gaps = k < SETS and moved[k] is not None
        fits.append(Fitted(rest, judged, fit, k >= SETS, in_gaps))
    return tuple(fits)


def part_for(
    refit: Refit,
    obs: Observations,
    seed: int = 0,
    cells: int | None = None,
) -> Submatrix:
    """What a run is made again with: all of data that are not large."""
    knows = _knows_gaps(refit)
    own = None if knows is None else knows.part(obs)
    return part_in_memory(obs, seed, cells) if own is None else own


def _in_gaps(refit: Refit, part: Submatrix, seed: int) -> SetAside | None:
    knows = _knows_gaps(refit)
    return None if knows is None else knows.set_aside(part, seed)


def _knows_gaps(refit: object) -> KnowsGaps | None:
    return refit if isinstance(refit, KnowsGaps) else None


def _share(obs: Observations, rank: int) -> float:
    """How much is set aside at once."""
    free = rank * (sum(obs.shape) - rank)
    share = min(MOST, ENOUGH / (SETS * obs.n_observed))
    return share / 2 if free > TIGHT * obs.n_observed else share


# ---- what they tell


class Errors(NamedTuple):
    """Errors of entries that were set aside, in a random order."""

    residual: Array
    logs: Array  # what their scales are made of: n x 3
    number: Array  # of the set


def calibrate(obs: Observations, fit: Fit, sets: Sequence[Fitted]) -> Calibration:
    """Intervals for a fit to these data, from fits to the data without some entries."""
    single = [some for some in sets if not some.whole_gaps]
    known = [lines_of(some.rest, some.fit) for some in single]
    errors = _errors(single, known)
    unit, powers, tails = _scaled(obs, errors)
    scale = unit * np.exp(errors.logs @ powers)
    outlying = tails.outlying(errors.residual, scale)
    good = 1 - outlying if tails.share > TELLING else np.ones(len(scale))
    ratio = errors.residual / scale
    return Calibration(
        Scales(lines_of(obs, fit), unit, powers),
        tails,
        *thinned(ratio, good, KEPT),
        Gaps(_unlike(single, known), _harder(sets)),
        tuple(_coverage(np.abs(ratio), good, errors.number, x) for x in LEVELS),
    )


def _errors(sets: Sequence[Fitted], known: Sequence[Lines]) -> Errors:
    """Of all sets."""
    found = []
    for k, (some, lines) in enumerate(zip(sets, known, strict=True)):
        judged = some.judged
        logs = lines.logs(judged.rows, judged.cols)
        found.append((some.fit.residual(judged), logs, np.full(len(logs), k)))
    residual, logs, number = (np.concatenate(x) for x in zip(*found, strict=True))
    # any part of them is then a fair one
    order = np.random.default_rng(0).permutation(len(residual))
    return Errors(residual[order].astype(np.float64), logs[order], number[order])


def _scaled(obs: Observations, errors: Errors) -> tuple[float, Array, Tails]:
    """The unit and powers of scales, and the tails beyond them. What is gross is told by the first
    scales, and does not speak for the second.
    """
    floor = 16 * float(np.finfo(obs.dtype).eps) * obs.scale  # of exact data
    weight = np.ones(len(errors.residual))
    for _ in range(2):
        unit, powers = learned_powers(errors.residual, errors.logs, weight)
        unit = max(unit, floor * float(np.exp(-np.median(errors.logs @ powers))))
        scale = unit * np.exp(errors.logs @ powers)
        tails = fit_tails(errors.residual, scale)
        weight = np.maximum(1 - tails.outlying(errors.residual, scale), 1e-6)
    return unit, powers, tails


def _coverage(size: Array, good: Array, number: Array, level: float) -> Coverage:
    """Each set is held against the quantile of the others."""
    inside = np.zeros((2, 2))  # of good ones and of all: within, and in all
    for k in np.unique(number):
        own = number == k
        for side, weight in enumerate((good, np.ones(len(good)))):
            border = quantile_of(size[~own], weight[~own], level)
            within = weight[own] * (size[own] <= border)
            inside[side] += (within.sum(), weight[own].sum())
    value, observation = inside[:, 0] / np.maximum(inside[:, 1], 1e-300)
    return Coverage(level, float(value), float(observation))


def _unlike(sets: Sequence[Fitted], known: Sequence[Lines]) -> float:
    """How unlike missing places are to those that were set aside; moved gaps are alike."""
    return 0.0 if all(some.moved_gaps for some in sets) else _distance(sets, known)


def _distance(sets: Sequence[Fitted], known: Sequence[Lines]) -> float:
    """Kolmogorov's distance between the leverages of missing places and of those that were set
    aside, both by the same fits.

    It is a lower bound of the share of missing places that are unlike any that was set aside, and
    so of what the intervals' promise can be off by."""
    missing, held = [], []
    for k, (some, lines) in enumerate(zip(sets, known, strict=True)):
        missing.append(lines.leverage.at(*_missing(some, PLACES // len(sets), k)))
        held.append(lines.leverage.at(some.judged.rows, some.judged.cols))
    there, here = np.sort(np.concatenate(missing)), np.sort(np.concatenate(held))
    if not len(there):
        return 0.0
    both = np.concatenate([there, here])
    shares = (np.searchsorted(x, both, side="right") / len(x) for x in (there, here))
    return float(np.abs(next(shares) - next(shares)).max())


def _missing(some: Fitted, count: int, seed: int) -> tuple[Array, Array]:
    """Places that are missing in rows and columns with entries, and not because they were set
    aside.
    """
    obs, judged, rng = some.rest, some.judged, np.random.default_rng(seed)
    rows, cols = (rng.integers(0, n, 4 * count) for n in obs.shape)
    numbers = rows * obs.shape[1] + cols
    held = np.isin(numbers, judged.rows * obs.shape[1] + judged.cols)
    seen = (np.asarray(obs.row_observed)[rows] > 0) & (
        np.asarray(obs.col_observed)[cols] > 0
    )
    gap = np.flatnonzero(np.isnan(obs.lookup(rows, cols)) & seen & ~held)[:count]
    return rows[gap], cols[gap]


def _harder(sets: Sequence[Fitted]) -> float:
    """How many times more entries within whole gaps are missed by than single ones."""
    whole, single = (
        [
            np.abs(some.fit.residual(some.judged))
            for some in sets
            if some.whole_gaps is x
        ]
        for x in (True, False)
    )
    if not whole:
        return 1.0
    low = float(np.median(np.concatenate(single)))
    return float(np.median(np.concatenate(whole))) / low if low > 0 else 1.0

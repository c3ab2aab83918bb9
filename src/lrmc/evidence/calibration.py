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
    has_enough,
    hold_out,
    in_one_piece,
    part_in_memory,
    set_aside,
)
from ..observations.together import aside_together, missing_together
from ..weights import Array
from .by_line import axis_of, lines_differ, named_alike, quantiles_by_line
from .errors import Errors, errors_of, scaled
from .kinds import (
    MANY,
    Kinds,
    kinds_of,
    quantile_of,
    quantiles_by_kind,
    together,
    unheard_of,
)
from .own_sizes import OwnSizes
from .scales import Law, Leverage, Lines, Scales, lines_of
from .simple import Fitted
from .tails import TELLING, Shape, Tails, thinned
from .unlike import Gaps, harder, unlike

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
SINGLE = (
    2  # sets of single entries, where entries are missing together; 3 hold the same
)
# errors in all: the share below a 95 % quantile is then known to 0.3 %
ENOUGH = 6000
MOST = 0.1  # of the entries that are set aside at once
# free numbers for each entry: beyond, a fit gets worse with every entry that it lacks, and half as
# many are set aside
TIGHT = 0.5
KEPT = 10_000  # errors
ONE_DEVIATION = 0.6826895  # of Gaussian errors are within it
LEVELS = (0.9, 0.95)  # whose coverage is measured


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
    kinds: Array  # of the places of errors
    gaps_of: Array  # those that errors are in, by number
    lines: Array | None = None  # the columns of errors, or rows, if these are fewer

    def half_width(
        self,
        rows: Array,
        cols: Array,
        level: float,
        of: Target = "value",
    ) -> Array:
        """Half the width of the intervals at these places."""
        known = self.scales.kinds
        if known is None:
            border = self.in_columns(cols, level, of, rows)
        else:
            self.quantile(level, of)  # refuses where there is none
            size, weight = np.abs(self.errors), self._weight(of)
            of_kind = quantiles_by_kind(size, weight, self.kinds, level, self.gaps_of)
            border = of_kind[known.places[rows, cols]]
        return np.asarray(border * self.scales.at(rows, cols))

    def in_columns(
        self,
        cols: Array,
        level: float,
        of: Target = "value",
        rows: Array | None = None,
    ) -> Array:
        """What errors in these columns stay below with this probability, in units of their scales; in
        `rows` that are not known, unless they are named.
        """
        usual = self.quantile(level, of)
        asked = cols if axis_of(self.scales.lines.shape) else rows
        if self.lines is None or asked is None:
            return np.full(cols.shape, usual)
        lines, number = np.unique(asked, return_inverse=True)
        size, weight = np.abs(self.errors), self._weight(of)
        found = quantiles_by_line(size, weight, self.lines, level, lines)
        return np.asarray(found[number.reshape(asked.shape)])

    def _weight(self, of: Target) -> Array:
        """How much each error counts."""
        return self.good if of == "value" else np.ones(len(self.errors))

    def quantile(self, level: float, of: Target = "value") -> float:
        """What the size of an error, in units of its scale, stays below with this probability."""
        self.check()
        weight = self._weight(of)
        found = quantile_of(np.abs(self.errors), weight, level, self.gaps_of)
        if not math.isfinite(found):
            enough = math.ceil(together(self.gaps_of) * level / (1 - level))
            raise NotCalibrated(
                f"level={level:g}: {weight.sum():.0f} good entries could be set aside, and"
                f" {enough} are needed; lower it"
            )
        return found

    def deviation(self, rows: Array, cols: Array) -> Array:
        """The standard deviation that errors at these places would have if they were
        Gaussian with these quantiles.
        """
        return self.half_width(rows, cols, ONE_DEVIATION)

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
        usual = self.quantile(ONE_DEVIATION)
        if self.lines is not None and usual > 0:
            chosen *= self.in_columns(cols, ONE_DEVIATION, rows=rows) / usual
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
        lines, law, kinds, own = self.scales
        shape, *rest = self.tails
        width, relative = rest[2:4]
        of_errors = law.unit, law.usual, *law.powers
        numbers = (*shape, rest[0], width, relative, *self.gaps, *of_errors)
        of_places = {} if kinds is None else kinds._asdict() | {"kinds": self.kinds}
        if self.lines is not None:
            of_places["lines"] = self.lines
        return of_places | {
            "row_noise": lines.row_noise,
            "col_noise": lines.col_noise,
            **lines.leverage._asdict(),
            "row_sizes": own.rows,
            "col_sizes": own.cols,
            "numbers": np.array(numbers, np.float64),
            "gross": np.array(self.tails.gross, np.float64),
            "coverage": np.array(self.coverage, np.float64).reshape(-1, 3),
            "errors": self.errors,
            "good": self.good,
            "gaps_of": self.gaps_of,
        }

    @classmethod
    def from_plain(
        cls, arrays: Mapping[str, Any], shape: tuple[int, int]
    ) -> Calibration:
        """What `plain` gave, looked at before it is believed."""
        # files of earlier versions have no sizes of lines
        own = OwnSizes.even(shape)
        arrays = {"row_sizes": own.rows, "col_sizes": own.cols, **arrays}
        names = (
            ("row_noise", "rows", "row_lean", "row_sizes"),
            ("col_noise", "cols", "col_lean", "col_sizes"),
        )
        for side, n in zip(names, shape, strict=True):
            for name in side:
                _check_numbers(name, arrays[name], (n,))
        _check_numbers("good", arrays["good"], arrays["errors"].shape)
        _check_numbers("numbers", arrays["numbers"], (12,))
        _check_numbers("coverage", arrays["coverage"], (len(arrays["coverage"]), 3))
        leverage = Leverage(*(arrays[name] for name in Leverage._fields))
        lines = Lines(arrays["row_noise"], arrays["col_noise"], leverage)
        own = OwnSizes(arrays["row_sizes"], arrays["col_sizes"])
        p, q, of_good, width, relative, *others = map(float, arrays["numbers"])
        share, harder, unit, usual, *powers = others
        gross = tuple(float(x) for x in arrays["gross"])
        return cls(
            Scales(
                lines,
                Law(unit, np.array(powers), usual),
                _kinds_in(arrays, shape),
                own,
            ),
            Tails(Shape(p, q), of_good, gross, width, bool(relative)),
            arrays["errors"],
            arrays["good"],
            Gaps(share, harder),
            tuple(Coverage(*map(float, line)) for line in arrays["coverage"]),
            kinds=arrays.get("kinds", np.zeros(len(arrays["errors"]), np.int8)),
            gaps_of=arrays.get("gaps_of", np.arange(len(arrays["errors"]))),
            lines=_lines_in(arrays, shape),
        )


def _check_numbers(name: str, x: Any, shape: tuple[int, ...]) -> None:
    if x.dtype.kind != "f" or x.shape != shape or not np.isfinite(x).all():
        raise ValueError(
            f"its {name} of intervals have shape {x.shape} and type {x.dtype}, or are not finite"
        )


def _lines_in(arrays: Mapping[str, Any], shape: tuple[int, int]) -> Array | None:
    """Those of errors in a file, if it has any."""
    found = arrays.get("lines")
    if found is not None:
        _check_whole(found, arrays["errors"].shape, shape[axis_of(shape)], "lines")
    return found


def _check_whole(x: Any, wanted: tuple[int, ...], most: int, name: str) -> None:
    least, largest = (int(x.min()), int(x.max())) if x.size else (0, 0)
    if x.dtype.kind != "i" or x.shape != wanted or not 0 <= least <= largest < most:
        raise ValueError(f"its {name} of places are none")


def _kinds_in(arrays: Mapping[str, Any], shape: tuple[int, int]) -> Kinds | None:
    """Those of a file, if it has any."""
    if "places" not in arrays:
        return None
    found = Kinds(arrays["places"], arrays["sizes"])
    _check_numbers("sizes", found.sizes, (MANY,))
    sizes = ((found.places, shape), (arrays["kinds"], arrays["errors"].shape))
    for x, wanted in sizes:
        _check_whole(x, wanted, MANY, "kinds")
    return found


# ---- fits without some entries


def check_converged(converged: bool, meaning: str) -> None:
    """Refuse to learn errors of a run that did not converge, which ended as `meaning` says."""
    if not converged:
        raise NotCalibrated(
            f"the run did not converge ({meaning}): there is nothing to calibrate"
        )


def fitted_again(
    obs: Observations,
    refit: Refit,
    rank: int,
    seed: int = 0,
    cells: int | None = None,
) -> tuple[Fitted, ...]:
    """Fits to the data without some entries, several times: `refit` makes the run again, with this
    rank.

    Where data are large or not in memory, of some of their rows (or columns) with so many `cells`. Where samples
    lack several entries together, so they do in most of the fits; where gaps are structured, a last one is
    without whole gaps: see `Gaps`.
    """
    # a model that knows gaps tells those of a single line as well
    if not (has_enough(obs) if _knows_gaps(refit) else can_hold_out(obs)):
        raise NotCalibrated(
            f"{obs.n_observed} entries are observed: too few to set some aside and learn errors from"
        )
    part = part_for(refit, obs, seed, cells)
    share = _share(part.obs, rank)
    moved = [_in_gaps(refit, part, seed + k) for k in range(SETS)]
    sets = [
        some or set_aside(part.obs, share, seed + k) for k, some in enumerate(moved)
    ]
    together = not any(moved) and missing_together(part.obs)
    if together:
        others = range(seed + SINGLE, seed + SETS)
        sets[SINGLE:] = [aside_together(part.obs, share, k) for k in others]
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


def calibrate(obs: Observations, fit: Fit, sets: Sequence[Fitted]) -> Calibration:
    """Intervals for a fit to these data, from fits to the data without some entries."""
    single = [some for some in sets if not some.whole_gaps]
    known = [lines_of(some.rest, some.fit) for some in single]
    places = kinds_of(obs, fit)
    errors = errors_of(single, known, with_kinds=places is not None).those_that_tell()
    of_part = single[0].rest.shape != obs.shape  # whose lines are others
    law, sizes, own, tails, outlying = scaled(obs, errors, by_line=not of_part)
    scale = law.at(errors.logs) * sizes[errors.kinds] * own.at(errors.rows, errors.cols)
    good = 1 - outlying if tails.share > TELLING else np.ones(len(scale))
    ratio = errors.residual / scale
    size, step = np.abs(ratio), -(-len(ratio) // KEPT)
    lines = errors.lines
    named = places is None and named_alike(obs.shape, sets[0].rest.shape)
    apart = named and lines_differ(size, good, lines, errors.number)
    kinds, share = None, unlike(single, known)
    if places is not None:
        kinds = Kinds(places, sizes)
        share = max(share, unheard_of(obs, fit, places, errors.kinds))
    return Calibration(
        Scales(lines_of(obs, fit), law, kinds, own),
        tails,
        *thinned(ratio, good, KEPT),
        Gaps(share, harder(sets)),
        tuple(_coverage(size, good, errors, x, by_line=apart) for x in LEVELS),
        kinds=errors.kinds[::step],
        gaps_of=errors.gaps[::step],
        lines=lines[::step] if apart else None,
    )


def _coverage(
    size: Array,
    good: Array,
    errors: Errors,
    level: float,
    *,
    by_line: bool,
) -> Coverage:
    """Each set is held against the quantiles of the others."""
    inside = np.zeros((2, 2))  # of good ones and of all: within, and in all
    for k in np.unique(errors.number):
        own = errors.number == k
        kinds, gaps = errors.kinds[~own], errors.gaps[~own]
        for side, weight in enumerate((good, np.ones(len(good)))):
            others = size[~own], weight[~own]
            if by_line:
                lines, at = np.unique(errors.lines[own], return_inverse=True)
                border = quantiles_by_line(*others, errors.lines[~own], level, lines)
            else:
                at = errors.kinds[own]
                border = quantiles_by_kind(*others, kinds, level, gaps)
            within = weight[own] * (size[own] <= border[at])
            inside[side] += (within.sum(), weight[own].sum())
    value, observation = inside[:, 0] / np.maximum(inside[:, 1], 1e-300)
    return Coverage(level, float(value), float(observation))

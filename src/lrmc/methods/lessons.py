"""Entries that are hidden, to learn from and to decide by: in a part of the data, several times,
in the shape of the gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from .._scipy import sparse as sp
from ..evidence.scales import line_noise
from ..fit import Fit
from ..linalg import Factors, median_of
from ..observations import as_observations
from ..observations._door import compressed
from ..observations.base import DRAW_FROM_STORED_BELOW, Observations, Sample
from ..observations.dense import Dense
from ..observations.grouped import grouped
from ..observations.heldout import hold_out
from ..observations.sparse import Sparse
from ..weights import Array, DType
from .gradients import gradient
from .growing import grown, halves
from .noisy import Noise
from .noisy_layers import Half, Layers, State, passes
from .settling import DEAD, alive, settle

PART = 20_000  # entries that are learned on
LARGER_PART = 50_000  # entries of the part that models are compared on
CELLS = 2_000_000  # places of the matrix that are looked at for them
# of a line in that part, if it has them: with fewer, low rank is told less of than in all data
OF_A_LINE = 64
MOST_ENTRIES = 1_000_000  # of a part whose lines have as many
FEWEST, MOST = 3, 5  # times that entries are hidden: more often where there are few
SINGLE = np.dtype(np.float32)
SAME = 0.004  # a part of the loss: what gains less is no gain
CLEARLY = 2.0  # standard errors: by less, a loss fell by chance
FAR = 100.0  # medians of the loss, about 10 of the error: what is missed by more is an outlier
JUDGES = 3  # one of so many is for judging, not for learning


class Whole(NamedTuple):
    """All data without what a lesson hides in a part of them, and what is known of their noise."""

    obs: Observations
    noise: Noise


@dataclass(frozen=True, eq=False)
class Lesson:
    """A part of the data without some entries, these, and where the layers begin."""

    rest: Observations
    hidden: Sample
    states: tuple[State, ...]  # of growing rank: the layers begin with the last
    noise: Noise
    judge: bool = False  # whether it is for judging, not for learning
    # the rows and columns of all data that it has; None: all of them
    lines: tuple[Array, Array] | None = None
    known: Noise | None = None  # without what lines seem to have; None: `noise`
    whole: Whole | None = (
        None  # of a part that has all of the shorter lines, if asked for
    )

    @property
    def rank(self) -> int:
        """Of the start."""
        return self.states[-1].rank

    def lower(self) -> Lesson | None:
        """The same with fewer components to begin with; None if there is but one."""
        return replace(self, states=self.states[:-1]) if self.states[1:] else None

    def scaled(self, lines: tuple[Array, Array], powers: tuple[float, float]) -> Lesson:
        """The same with powers of the noise of lines."""
        known = self.known or self.noise
        return replace(self, noise=with_scales(known, lines, powers), known=known)

    def run(self, layers: Layers) -> list[Half]:
        """All halves of all layers."""
        return list(passes(self.rest, self.states[-1], layers, self.noise))

    def fitted(self, layers: Layers, least: float = DEAD) -> Factors:
        """Where the layers end, without components that died."""
        end = settle(self.rest, self.states[-1], layers, self.noise)
        return alive(self.rest, end, least)

    def errors(self, X: Factors) -> Array:
        """At what was hidden."""
        return self.hidden.residual(X).astype(np.float64)

    def slope(self, layers: Layers, bend: float) -> tuple[float, Array]:
        """The loss, and its gradient by the logarithms of the numbers."""
        halves = self.run(layers)
        X = halves[-1].after.X
        e = self.errors(X)
        pulls = e / np.sqrt(1 + (e / bend) ** 2) / len(e)
        at = (self.hidden.rows, self.hidden.cols)
        G = sp.csr_array((pulls, at), shape=self.rest.shape)
        by_factor = Factors(-(G @ X.R), -(G.T @ X.L))
        return loss_of(e, bend), gradient(self.entries, halves, self.noise, by_factor)

    @cached_property
    def tells(self) -> Array:
        """Which hidden entries say how large errors are."""
        return self.hidden.tells()

    @cached_property
    def entries(self) -> Sparse:
        """What is left, row by row: gradients are made entry by entry. (Data in groups have none.)"""
        left = self.rest
        entries = compressed(left) if isinstance(left, Dense) else left
        assert isinstance(entries, Sparse)
        return entries


def unit_of(errors: Sequence[Array]) -> float:
    """The median of their sizes; where half are 0, the mean."""
    size = np.abs(np.concatenate(errors))
    return median_of(size) or float(np.mean(size)) or 1.0


def loss_of(e: Array, bend: float) -> float:
    """The mean of what is e^2 / 2 for small errors, and grows with |e| for large ones."""
    return float(np.mean(losses_of(e, bend)))


def losses_of(e: Array, bend: float) -> Array:
    """The same for each error."""
    return np.asarray(bend**2 * (np.sqrt(1 + (e / bend) ** 2) - 1))


class Losses(NamedTuple):
    """By how much hidden entries are missed, as losses."""

    each: Array
    telling: (
        Array  # those that say how large losses are: most zeros of data are met at once
    )

    @classmethod
    def of(cls, errors: Array, tells: Array, bend: float) -> Losses:
        """Of errors at hidden entries, of which these tell how large errors are."""
        return cls(losses_of(errors, bend), tells)

    @classmethod
    def joined(cls, some: Sequence[Losses]) -> Losses:
        """Of all these entries."""
        return cls(*(np.concatenate(x) for x in zip(*some, strict=True)))

    def mean(self) -> float:
        """Of all of them."""
        return float(self.each.mean())

    @property
    def usual(self) -> float:
        """The median of those that tell; never 0."""
        return max(median_of(self.each[self.telling]), 1e-300)


def is_better(before: Losses, after: Losses, worth: float = 0.0) -> bool:
    """Whether losses at the same entries fell by more than chance, and by this part of them: the
    average of what the mean gains and what typical entries gain.

    Some of what was hidden are outliers, and a fit that bends towards them gains in the mean. But
    large errors often are signal, and the mean knows of them.
    """
    mean, typical = gains(before, after)
    return _is_clear((mean + typical) / 2, worth)


def mean_gain(before: Losses, after: Losses) -> float:
    """What `is_better` asks about, in the mean."""
    mean, typical = gains(before, after)
    return float((mean + typical).sum()) / max(2 * len(mean), 1)


def is_typically_better(before: Losses, after: Losses) -> bool:
    """The same for typical entries alone: outliers have no say."""
    return _is_clear(gains(before, after)[1], SAME)


def gains(before: Losses, after: Losses) -> tuple[Array, Array]:
    """What entries gain, relative to the mean loss before; and the same where losses are bounded.

    Entries that both miss by far say nothing of either, and are left out.
    """
    usual = before.usual
    found = np.minimum(before.each, after.each) < FAR * usual
    first, then = before.each[found], after.each[found]
    return _relative(first, then), _relative(
        first / (first + usual), then / (then + usual)
    )


def _relative(before: Array, after: Array) -> Array:
    return (before - after) / max(float(before.mean()) if len(before) else 0.0, 1e-300)


def _is_clear(gain: Array, worth: float) -> bool:
    if not len(gain):
        return False
    error = float(gain.std()) / np.sqrt(len(gain))
    return bool(gain.mean() > max(CLEARLY * error, worth))


class Tried(NamedTuple):
    """Lessons, and the fits to what they left."""

    lessons: Sequence[Lesson]
    fits: Sequence[Factors]

    @classmethod
    def of(
        cls,
        lessons: Sequence[Lesson],
        layers: Layers,
        least: float = DEAD,
    ) -> Tried:
        """Where the layers end."""
        return cls(lessons, [lesson.fitted(layers, least) for lesson in lessons])

    def beside(self, others: Tried) -> Tried:
        """These and the others."""
        return Tried([*self.lessons, *others.lessons], [*self.fits, *others.fits])

    def judges(self) -> Tried:
        """Those that nothing is learned from."""
        pairs = zip(self.lessons, self.fits, strict=True)
        kept = [(lesson, X) for lesson, X in pairs if lesson.judge]
        return Tried([lesson for lesson, _ in kept], [X for _, X in kept])

    @property
    def errors(self) -> Array:
        """At all that was hidden."""
        pairs = zip(self.lessons, self.fits, strict=True)
        return np.concatenate([lesson.errors(X) for lesson, X in pairs])

    @property
    def unit(self) -> float:
        """The typical size of these."""
        pairs = zip(self.lessons, self.fits, strict=True)
        return unit_of([x.errors(X)[x.tells] for x, X in pairs])

    def losses(self, bend: float) -> Losses:
        """The same, as losses."""
        pairs = zip(self.lessons, self.fits, strict=True)
        some = [Losses.of(x.errors(X), x.tells, bend) for x, X in pairs]
        return Losses.joined(some)

    def line_noise(self) -> list[tuple[Array, Array]]:
        """What the rows and columns of each seem to have."""
        pairs = zip(self.lessons, self.fits, strict=True)
        return [line_noise(lesson.rest, Fit(X)) for lesson, X in pairs]


def with_scales(
    noise: Noise,
    lines: tuple[Array, Array],
    powers: tuple[float, float],
) -> Noise:
    """What is known of the noise, times powers of what lines seem to have."""
    own = (
        known * np.asarray(found, np.float64) ** power
        for known, found, power in zip(
            (noise.rows, noise.cols), lines, powers, strict=True
        )
    )
    rows, cols = (levels / median_of(levels) for levels in own)
    return replace(noise, rows=rows, cols=cols)


def hidden_in(
    obs: Observations,
    rank: int,
    noise: Noise,
    seed: int,
    *,
    entries: int = PART,
    of_a_line: int = OF_A_LINE,
    least: int = FEWEST,
    most: int = MOST,
    times: int = 2,
    of_line: float = 1.0,
    truth: Truth | None = None,
    whole: bool = False,
) -> list[Lesson]:
    """Lessons in a part of the data that has about so many entries; at least so many of them. With
    components that grow by more than two `times`, lower ranks are the largest of them. `of_line` as
    for `hold_out`, `of_a_line` for `some_lines`. Lessons know the `whole` of the data, if asked.

    Where the truth is known nothing is hidden: it is what is to be found."""
    rows, cols = some_lines(obs, np.random.default_rng(seed), entries, of_a_line)
    part = part_at(obs, rows, cols)
    here = noise.of(rows, cols)
    count = int(np.clip(PART // max(part.n_observed, 1), least, most))
    within = min(rank, min(part.shape) - 1)
    table = _table(obs, part) if whole and truth is None else None
    lessons = []
    for k in range(count):
        number = 1000 * seed + k
        if truth is None:
            rest, hidden = hold_out(part, number, of_line)
        else:
            rest, hidden = part, _known(truth, rows, cols, number)
        left = rest if obs.groups is not None else _copied(rest)
        states = grown(left, within, here, seed, times)
        states = states if times == 2 else halves(states[-1])
        judge = (count - 1 - k) % JUDGES == 0
        lesson = Lesson(left, hidden, states, here, judge, (rows, cols))
        if table is not None:
            at = rows[hidden.rows], cols[hidden.cols]
            around = Whole(_without(table, *at, threads=obs.threads), noise)
            lesson = replace(lesson, whole=around)
        lessons.append(lesson)
    return lessons


def _table(obs: Observations, part: Observations) -> Array | None:
    """All of the data, if a part is less and has all of the shorter lines."""
    shorter = int(obs.shape[0] >= obs.shape[1])
    if part.shape == obs.shape or part.shape[shorter] < obs.shape[shorter]:
        return None
    return obs.grid(*map(np.arange, obs.shape)).astype(np.float32, order="C")


def _without(Y: Array, rows: Array, cols: Array, threads: int) -> Observations:
    """A table without what is at these places."""
    Y = Y.copy()
    Y[rows, cols] = np.nan
    return as_observations(Y, threads=threads)


# values of the truth at these rows and columns
Truth: TypeAlias = Callable[[Array, Array], Array]


def _known(truth: Truth, rows: Array, cols: Array, seed: int) -> Sample:
    """The truth at some places of a part of the data."""
    rng = np.random.default_rng(seed)
    count = min(PART // 4, len(rows) * len(cols))
    i, j = (rng.integers(0, len(lines), count) for lines in (rows, cols))
    return Sample(i, j, np.asarray(truth(rows[i], cols[j]), np.float32))


def part_at(
    obs: Observations,
    rows: Array,
    cols: Array,
    dtype: DType = SINGLE,
) -> Observations:
    """These rows and columns as data of their own."""
    if _is_thin(obs, rows, cols):
        return _entries_at(obs, rows, cols, dtype)
    Y = obs.grid(rows, cols).astype(dtype)
    part = as_observations(Y, threads=obs.threads)
    if obs.groups is None:
        return part
    count, size = len(rows) // obs.groups.shape[1], obs.groups.shape[1]
    labels = np.repeat(np.arange(count), size)
    return grouped(part, labels, modulus=obs.of_complex)


def _is_thin(obs: Observations, rows: Array, cols: Array) -> bool:
    """Whether these rows and columns are mostly gaps, and more than are made as a matrix."""
    mostly_gaps = obs.fraction < DRAW_FROM_STORED_BELOW and obs.groups is None
    return mostly_gaps and obs.is_here and len(rows) * len(cols) > 2 * CELLS


def _entries_at(
    obs: Observations, rows: Array, cols: Array, dtype: DType
) -> Observations:
    """What is observed in these rows and columns, as sparse data. One pass."""
    places = []
    for n, lines in zip(obs.shape, (rows, cols), strict=True):
        place = np.full(n, -1)
        place[lines] = np.arange(len(lines))
        places.append(place)
    nothing = (np.zeros((n, 1), obs.dtype) for n in obs.shape)
    found = []
    for some in obs.residuals(*obs.in_form(*nothing)):
        i, j = places[0][some.rows], places[1][some.cols]
        here = (i >= 0) & (j >= 0)
        found.append((i[here], j[here], some.values[here].astype(dtype)))
    i, j, values = (np.concatenate(x) for x in zip(*found, strict=True))
    Y = sp.csr_array((values, (i, j)), shape=(len(rows), len(cols)))
    return as_observations(Y, threads=obs.threads)


def _copied(rest: Observations) -> Observations:
    """The entries that are left as data of their own: one pass reads them, not two."""
    rows, cols = map(np.arange, rest.shape)
    if _is_thin(rest, rows, cols):
        return _entries_at(rest, rows, cols, SINGLE)
    Y = rest.grid(rows, cols).astype(np.float32, order="C")
    return as_observations(Y, threads=rest.threads)


def some_lines(
    obs: Observations,
    rng: np.random.Generator,
    entries: int = PART,
    of_a_line: int = OF_A_LINE,
) -> tuple[Array, Array]:
    """Rows and columns of a part with about so many entries: some of the longer side, and
    where that is too much, those of the shorter one that have the most entries. A larger part has
    about so many of each line, too.
    """
    if obs.groups is not None:
        return _some_groups(obs, obs.groups, rng, entries)
    axis = 0 if obs.shape[0] >= obs.shape[1] else 1
    n, across = obs.shape[axis], obs.shape[1 - axis]
    enough = _enough_lines(obs, of_a_line) if entries >= LARGER_PART else 0
    count = min(n, max(100, enough, int(entries / (obs.fraction * across))))
    lines = np.sort(rng.choice(n, count, replace=False)) if count < n else np.arange(n)
    seen = np.asarray((obs.row_observed, obs.col_observed)[1 - axis])
    wide = min(across, max(100, enough, CELLS // count))
    others = (
        np.sort(np.argsort(-seen, kind="stable")[:wide])
        if wide < across
        else np.arange(across)
    )
    return (lines, others) if axis == 0 else (others, lines)


def _enough_lines(obs: Observations, of_a_line: int) -> int:
    """Of each side, for lines of the other one to have so many entries."""
    return int(min(of_a_line / obs.fraction, math.sqrt(MOST_ENTRIES / obs.fraction)))


def _some_groups(
    obs: Observations,
    groups: Array,
    rng: np.random.Generator,
    entries: int,
) -> tuple[Array, Array]:
    """Rows of some groups, one group after the other, and all columns."""
    size = groups.shape[1]
    count = max(200, int(entries / (obs.fraction * obs.shape[1] * size)))
    chosen = rng.choice(len(groups), min(count, len(groups)), replace=False)
    return groups[np.sort(chosen)].ravel(), np.arange(obs.shape[1])

"""The numbers of the layers, learned on the data themselves: what is known is hidden, and is to be
found again.

Entries are hidden in the shape of the gaps, several times, in a part of the data; gradients of the
error there say how the numbers should change. What was hidden once more, and never learned from,
says when to stop, and whether it helped."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import Factors
from ..observations import as_observations
from ..observations._door import compressed
from ..observations.base import Observations, Sample
from ..observations.dense import Dense
from ..observations.heldout import can_hold_out, hold_out
from ..observations.sparse import Sparse
from ..weights import Array
from .choose import TYPICAL, missed_by_medians
from .gradients import gradient
from .noisy import Noise
from .noisy_layers import Half, Layers, State, begin, passes, rank_for, steps
from .step import Step

PART = 20_000  # entries that numbers are learned on
CELLS = 2_000_000  # places of the matrix that are looked at for them
LESSONS = 3  # times that entries are hidden to learn from; once more to judge by
STEPS = 24  # of the learning, at most
EVERY = 2  # steps the judge is asked
# a part of the loss: smaller gains are chance, and numbers that serve many data are better
ENOUGH = 0.004
PATIENCE = 2  # times that the judge may see no gain
RATE = 0.06  # by which the logarithm of a number changes in a step, about
FADING, FADING_SQUARES = 0.8, 0.95  # of gradients, and their squares, from step to step
BEND = 3.0  # medians of the error: up to here its square counts, beyond its size
BORDERS = np.log(
    [[0.3, 0.01, 0.02, 0.02, 0.01, 0.05], [20.0, 4.0, 20.0, 20.0, 20.0, 1.5]]
)[:, :, None]

# Learned together on a week of traffic, ratings of jokes, one face under many lights, a medical
# table with and without
# outliers, and synthetic data of ranks 5 and 20; smooth from layer to layer.
SHIPPED = Layers(
    reach=(2.84, 2.89, 3.5, 4.81, 5.95, 6.08, 4.89, 3.62),
    shape=(0.831, 0.968, 1.19, 1.37, 1.46, 1.3, 1.03, 0.782),
    longer=(1.39, 1.25, 1.13, 0.997, 0.926, 0.979, 1.14, 1.3),
    shorter=(1.29, 1.14, 0.962, 0.974, 1.19, 1.47, 1.59, 1.65),
    kappa=(0.267, 0.261, 0.233, 0.204, 0.238, 0.403, 0.788, 1.12),
    eta=(1.24, 1.44, 1.48, 1.5, 1.5, 1.5, 1.5, 1.32),
)


class Trial(NamedTuple):
    """What the judge said after so many steps."""

    step: int
    loss: float  # relative to that at the beginning


@dataclass(frozen=True)
class Learned:
    """Numbers, and what is known of them."""

    layers: Layers
    rank: int  # that the layers begin with
    trials: tuple[Trial, ...] = ()
    # a quarter of the entries that were set aside is missed by less
    typical: float = np.nan
    error: float = np.nan  # the mean by which they are missed
    simple: float = np.nan  # and that of medians of rows, or columns


@dataclass(frozen=True, eq=False)
class Lesson:
    """A part of the data without some entries, these, and where the layers begin."""

    rest: Sparse
    hidden: Sample
    begin: State
    noise: Noise

    def cut(self, rank: int) -> Lesson:
        """The same with fewer components to begin with."""
        # the largest come first
        L, R = (np.ascontiguousarray(F[:, :rank]) for F in self.begin.X)
        nothing = np.zeros((rank, rank))
        return replace(self, begin=State(Factors(L, R), (nothing, nothing)))

    def run(self, layers: Layers) -> list[Half]:
        """All halves of all layers."""
        return list(passes(self.rest, self.begin, layers, self.noise))

    def errors(self, halves: list[Half]) -> Array:
        """At what was hidden."""
        return self.hidden.residual(halves[-1].after.X).astype(np.float64)

    def slope(self, layers: Layers, bend: float) -> tuple[float, Array]:
        """The loss, and its gradient by the logarithms of the numbers."""
        halves = self.run(layers)
        X, e = halves[-1].after.X, self.errors(halves)
        pulls = e / np.sqrt(1 + (e / bend) ** 2) / len(e)
        at = (self.hidden.rows, self.hidden.cols)
        G = sp.csr_array((pulls, at), shape=self.rest.shape)
        by_factor = Factors(-(G @ X.R), -(G.T @ X.L))
        return loss_of(e, bend), gradient(self.rest, halves, self.noise, by_factor)


def loss_of(e: Array, bend: float) -> float:
    """The mean of what is e^2 / 2 for small errors, and grows with |e| for large ones."""
    return float(np.mean(bend**2 * (np.sqrt(1 + (e / bend) ** 2) - 1)))


def learned(
    obs: Observations,
    rank: int | None,
    noise: Noise,
    seed: int = 0,
    layers: Layers = SHIPPED,
) -> Learned:
    """Numbers for these data, beginning with `layers`; without a rank, one that is high
    enough and no higher.
    """
    high = rank_for(obs) if rank is None else rank
    lessons = hidden_in(obs, high, noise, seed)
    # all data can carry a higher one than a part
    if rank is None and lessons[0].rest.shape == obs.shape:
        high = low_enough(lessons, layers)
        lessons = [lesson.cut(high) for lesson in lessons]
    *lessons, judge = lessons
    errors = judge.errors(judge.run(layers))
    bend = BEND * _unit(errors)
    first = loss_of(errors, bend) or 1.0
    best = Trial(0, 1.0)
    trials, waited = [best], 0
    descent = Descent(np.log(layers.array()))
    for step in range(1, STEPS + 1):
        loss, slope = lessons[step % len(lessons)].slope(descent.layers, bend)
        if not (np.isfinite(loss) and np.isfinite(slope).all()):
            break
        descent = descent.moved(slope)
        if step % EVERY:
            continue
        missed = judge.errors(judge.run(descent.layers))
        trials.append(Trial(step, loss_of(missed, bend) / first))
        if trials[-1].loss < (1 - ENOUGH) * best.loss:
            best, layers, errors, waited = trials[-1], descent.layers, missed, 0
        elif (waited := waited + 1) >= PATIENCE:
            break
    size = np.abs(errors)
    simple = missed_by_medians(judge.rest, judge.hidden)
    typical = float(np.quantile(size, TYPICAL))
    return Learned(layers, high, tuple(trials), typical, float(size.mean()), simple)


def low_enough(lessons: list[Lesson], layers: Layers) -> int:
    """Half the rank, and half of that, as long as what was hidden is missed by no more.

    Components that are not needed die, but of narrow tables not soon enough.
    """
    rank = lessons[0].begin.X.L.shape[1]
    bends = [BEND * _unit(lesson.errors(lesson.run(layers))) for lesson in lessons]

    def loss(rank: int) -> float:
        some = zip(lessons, bends, strict=True)
        return sum(
            loss_of(lesson.errors(lesson.cut(rank).run(layers)), bend)
            for lesson, bend in some
        )

    now = loss(rank)
    while rank > 1:
        lower = loss(rank // 2)
        if not lower <= (1 + ENOUGH) * now:
            break
        rank, now = rank // 2, min(lower, now)
    return rank


def _unit(errors: Array) -> float:
    """The median of their sizes; where half are 0, the mean."""
    size = np.abs(errors)
    return float(np.median(size)) or float(np.mean(size)) or 1.0


@dataclass(frozen=True, eq=False)
class Descent:
    """Steps of about the same size for each number, against its gradient: Adam."""

    logs: Array  # of the numbers
    slope: Array | float = 0.0  # the mean of gradients, the last ones most
    square: Array | float = 0.0  # and of their squares
    count: int = 0

    @property
    def layers(self) -> Layers:
        """Where it is."""
        return Layers(*np.exp(self.logs))

    def moved(self, gradient: Array) -> Descent:
        """One step further."""
        count = self.count + 1
        slope = FADING * self.slope + (1 - FADING) * gradient
        square = FADING_SQUARES * self.square + (1 - FADING_SQUARES) * gradient**2
        mean, spread = (
            slope / (1 - FADING**count),
            np.sqrt(square / (1 - FADING_SQUARES**count)),
        )
        logs = self.logs - RATE * mean / (spread + 1e-300)
        return Descent(np.clip(logs, *BORDERS), slope, square, count)


def hidden_in(obs: Observations, rank: int, noise: Noise, seed: int) -> list[Lesson]:
    """Lessons, and the one to judge by."""
    rows, cols = _some_lines(obs, np.random.default_rng(seed))
    Y = obs.grid(rows, cols).astype(np.float32)
    part = as_observations(Y)
    here = replace(noise, rows=noise.rows[rows], cols=noise.cols[cols])
    lessons = []
    for k in range(LESSONS + 1):
        rest, hidden = hold_out(part, 1000 * seed + k)
        left = as_observations(rest.grid(*map(np.arange, Y.shape)).astype(np.float32))
        entries = compressed(left) if isinstance(left, Dense) else left
        assert isinstance(entries, Sparse)
        within = min(rank, min(Y.shape) - 1)
        lessons.append(Lesson(entries, hidden, begin(entries, within, seed), here))
    return lessons


def _some_lines(obs: Observations, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows and columns of a part: some of the longer side, and where that is too much,
    those with the most entries.
    """
    axis = 0 if obs.shape[0] >= obs.shape[1] else 1
    n, across = obs.shape[axis], obs.shape[1 - axis]
    count = min(n, max(100, int(PART / (obs.fraction * across))))
    lines = np.sort(rng.choice(n, count, replace=False)) if count < n else np.arange(n)
    seen = np.asarray((obs.row_observed, obs.col_observed)[1 - axis])
    wide = min(across, max(100, CELLS // count))
    others = (
        np.sort(np.argsort(-seen, kind="stable")[:wide])
        if wide < across
        else np.arange(across)
    )
    return (lines, others) if axis == 0 else (others, lines)


def fit(
    obs: Observations,
    rank: int | None = None,
    *,
    noise: Noise,
    seed: int = 0,
    schedule: Layers | None = None,
) -> Generator[Step, None, Learned]:
    """Layers over all data; their numbers are learned before, unless they are given or
    there is too little for it.
    """
    trim = rank is None
    found = Learned(schedule or SHIPPED, rank or rank_for(obs))
    if schedule is None and can_hold_out(obs) and obs.groups is None:
        found = learned(obs, rank, noise, seed)
    yield from steps(obs, begin(obs, found.rank, seed), found.layers, noise, trim=trim)
    return found

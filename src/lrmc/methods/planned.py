"""A fit to noisy data, carried out as planned."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..evidence.scales import line_noise
from ..evidence.simple import blend, simple_models
from ..fit import Fit, Part
from ..linalg import Factors
from ..observations.base import Observations
from ..weights import DType
from .blends import residual_unit
from .cleaned import Lines
from .growing import begin, from_part, joined, leading_of, raised, supported
from .lessons import CELLS, Lesson, part_at, with_scales
from .noisy import Noise, sweeps
from .noisy_layers import Half, Layers, State, half_layer, settled, step_of
from .plan import Aim, Plan
from .rested import polished, start
from .second_opinions import OPINIONS, opinions_for
from .settling import DEAD, DYING, End, trimmed, without_dead
from .step import Step

# of a component, to be one: see there
LEAST: Mapping[Aim, float] = {"fill": DEAD, "separate": DYING}
MOST_POLISH = (
    20  # sweeps after the closed loop: far fewer settle it, unless entries are few
)
POLISH = 6  # sweeps with the mixture of noise and outliers
# of the scale of the data: noise above this is far above the rounding of single precision
SMALL = 1e-3
RECOVERY = (
    3  # layers after components were dropped, or lines of a part were joined by all
)
GENTLE = 0.5  # the shape of a loss that rejects nothing: near the absolute value


def fit(
    obs: Observations,
    plan: Plan,
    *,
    noise: Noise,
    seed: int = 0,
    begun: State | None = None,
) -> Generator[Step, None, Fitted | None]:
    """Layers over all data as planned; the last step is the answer. They begin at `begun`, or with
    components that are grown from all data.

    Noise above the rounding of single precision is fitted in it: half of the cost, and the same
    answer for data of either type."""
    if plan.closed_loop:
        begin_at = start(obs, plan.rank, seed)
        mixture = replace(noise, loss="mixture")
        for step in polished(obs, begin_at, mixture, MOST_POLISH):
            yield step
        yield from _blended(obs, plan, step)
        return None
    if _can_be_single(obs):
        rows, cols = map(np.arange, obs.shape)
        steps = _layered(part_at(obs, rows, cols), plan, noise, seed, begun)
        fitted = yield from _as_type(steps, obs.dtype)
        if fitted.half.variance > (SMALL * obs.scale) ** 2:
            return fitted
    return (yield from _layered(obs, plan, noise, seed, begun))


def _can_be_single(obs: Observations) -> bool:
    """Whether data in double precision are small enough for a copy of half the size."""
    small = obs.shape[0] * obs.shape[1] <= CELLS and obs.is_here
    return small and obs.dtype == np.float64 and obs.groups is None


def _as_type(
    steps: Generator[Step, None, Fitted], dtype: DType
) -> Generator[Step, None, Fitted]:
    """The same steps with factors of this type."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        yield step._replace(L=step.L.astype(dtype), R=step.R.astype(dtype))


def _layered(
    obs: Observations,
    plan: Plan,
    noise: Noise,
    seed: int,
    begun: State | None = None,
) -> Generator[Step, None, Fitted]:
    """The same by layers."""
    state = begun or begin(obs, plan.rank, noise, seed, plan.times)
    half = yield from _through(obs, state, plan.layers, noise)
    here = noise
    if any(plan.powers):
        here = own_noise(obs, half.after.X, plan, noise)
        # a fit that has begun without it keeps what it made of noisy lines
        state = begun or begin(obs, plan.rank, here, seed, plan.times)
        half = yield from _through(obs, state, plan.layers, here)
    if plan.aim == "separate" and not plan.fixed:
        last = plan.layers.last(RECOVERY)
        half = yield from _through(obs, supported(half.after), last, here)
    yield from _finished(obs, plan, half, noise)
    return Fitted(obs, half)


class Fitted(NamedTuple):
    """Where layers ended, before anything is cut: data, and half a layer."""

    obs: Observations
    half: Half | End


def _through(
    obs: Observations,
    state: State,
    layers: Layers,
    noise: Noise,
) -> Generator[Step, None, Half]:
    for half in settled(obs, state, layers, noise):
        yield step_of(obs, half, half.after.X)
    return half


def _finished(
    obs: Observations,
    plan: Plan,
    half: Half,
    noise: Noise,
) -> Generator[Step, None, None]:
    """The last steps: without components that died, polished, and blended."""
    X = half.after.X if plan.fixed else trimmed(obs, half, LEAST[plan.aim])
    step = step_of(obs, half, X)
    yield step
    if plan.polish:
        noise = own_noise(obs, X, plan, noise)
        for step in sweeps(obs, X, replace(noise, loss="mixture"), POLISH):
            yield step
    yield from _blended(obs, plan, step)


def own_noise(obs: Observations, X: Factors, plan: Plan, known: Noise) -> Noise:
    """What is known of the noise, and what lines seem to have around this fit, as planned."""
    if not any(plan.powers):
        return known
    return with_scales(known, line_noise(obs, Fit(X)), plan.powers)


def _blended(obs: Observations, plan: Plan, step: Step) -> Iterator[Step]:
    """A simple model blended in, if that is planned."""
    for name, weight, _ in plan.blends:
        if name not in OPINIONS:
            X = blend(step.X, simple_models(obs)[name], 1 - weight)
            yield step._replace(L=X.L, R=X.R)


def carried(
    obs: Observations,
    plan: Plan,
    part: Fitted,
    *,
    noise: Noise,
) -> Generator[Step, None, None]:
    """All data, from a fit to some of their longer lines: the others are fitted to what is known
    of the shorter ones, gently at first; then layers fit both sides.

    A loss that rejects would leave lines that begin at the mean there."""
    side = int(obs.shape[1] > obs.shape[0])
    known = part.half.after if plan.fixed else without_dead(part.obs, part.half)
    state = from_part(known, side, obs.shape[side])
    numbers = plan.layers.of(len(plan.layers) - 1, 0)
    gentle = numbers._replace(shape=min(numbers.shape, GENTLE), eta=1.0)
    for wanted in (gentle, numbers._replace(eta=1.0)):
        half = half_layer(obs, state, side, wanted, noise)
        state = half.after
        yield step_of(obs, half, state.X)
    here = own_noise(obs, state.X, plan, noise)
    half = yield from _through(obs, state, plan.layers.last(RECOVERY), here)
    yield from _finished(obs, plan, half, noise)


def grown_in(
    lesson: Lesson,
    obs: Observations,
    plan: Plan,
    noise: Noise,
) -> State | None:
    """Where the layers begin, if the first components are those of a lesson in a part: that part
    needs all lines of the shorter side, and no groups (what covers patches of a part is there
    more easily a component).
    """
    side = int(obs.shape[1] > obs.shape[0])
    lines = lesson.lines
    if plan.times == 2 or obs.groups is not None or lines is None:
        return None
    if len(lines[1 - side]) < obs.shape[1 - side]:
        return None
    first = leading_of(lesson.states[-1], -(-plan.rank // plan.times))
    state = from_part(first.of_type(obs.dtype), side, obs.shape[side], lines[side])
    if len(lines[side]) < obs.shape[side]:
        state = joined(obs, state, noise)
    return raised(obs, state, plan.rank, noise)


def parts_of(plan: Plan, obs: Observations, X: Factors) -> tuple[Part, ...]:
    """What lies beyond low rank, of a fit that was made as planned."""
    asked = [x for x in plan.blends if x.name in opinions_for(obs)]
    if not asked:
        return ()
    table, unit = Lines.of(obs, X), residual_unit(obs, X)
    made = []
    for name, weight, reach in asked:
        lines = table.cleaned(reach * unit)
        made.append(OPINIONS[name].of(lines, reach * unit, weight))
    return tuple(made)

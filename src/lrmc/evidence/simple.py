"""Simple models that a low-rank fit has to beat on entries that were set aside: medians, and what
rows and columns add.

All of them are of rank 1 or 2, and so are blends with a low-rank fit of low rank. Neighbours are
not among them: what the nearest rows say of an entry is no matrix of low rank, and would have to be
asked for entry by entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..fit import Fit
from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..observations.medians import medians_of_lines
from ..weights import Array, Huber

LOW_RANK = "low rank"
ROUNDS = 6  # of rows and columns in turn
REACH = 2.0  # times the median residual: what is beyond counts as that far
WEIGHTS = (0.0, 0.25, 0.5, 0.75)  # of the low-rank fit in a blend
CLEARLY = 2.0  # standard errors that a gain must have
WORTH = 0.01  # of the error: a smaller gain is not worth another model


class Score(NamedTuple):
    """By how much entries that were set aside are missed."""

    error: float  # in the mean
    rmse: float

    @classmethod
    def of(cls, residual: Array) -> Score:
        """Of these residuals."""
        size = np.abs(residual).astype(np.float64)
        return cls(float(size.mean()), float(np.sqrt((size**2).mean())))


class Fitted(NamedTuple):
    """A fit to the data without some entries, and these."""

    rest: Observations
    judged: Sample
    fit: Fit
    whole_gaps: bool = False  # whether what was set aside has the shape of gaps


class Contest(NamedTuple):
    """What did best."""

    winner: str  # LOW_RANK, or a simple model
    # of the low-rank fit in a blend with the winner: 1 if that is what won
    weight: float
    scores: dict[str, Score]  # of every model alone, the mean over the sets
    gain: float  # in mean absolute error, over the low-rank fit
    deviation: float  # of the gain: its standard error


def simple_models(obs: Observations) -> dict[str, Factors]:
    """Row medians, column medians, and what rows and columns add to each other."""
    rows, cols = (medians_of_lines(obs, axis) for axis in (0, 1))
    ones = [np.ones(n) for n in obs.shape]
    models = {
        "row median": _as_factors(obs, (rows, ones[1])),
        "column median": _as_factors(obs, (ones[0], cols)),
    }
    return models | {"row + column": biases(obs)}


def _as_factors(obs: Observations, *components: tuple[Array, Array]) -> Factors:
    return Factors(
        *(
            np.stack(side, axis=1).astype(obs.dtype)
            for side in zip(*components, strict=True)
        )
    )


def biases(obs: Observations) -> Factors:
    """mean + row + column, each drawn to 0 as far as it is uncertain, by Huber's loss:
    of rank 2. A few passes.
    """
    middle = float(np.median(obs.sample.values))
    levels = [np.zeros(n) for n in obs.shape]
    ones = [np.ones((n, 1), obs.dtype) for n in obs.shape]
    for _ in range(ROUNDS):
        for side in (0, 1):
            X = _sum_of(obs, middle, levels)
            reach = (
                REACH * float(np.median(np.abs(obs.sample.residual(X)))) or obs.scale
            )
            rule = Huber(np.full(obs.shape[0], reach), np.ones(obs.shape[1]))
            pull = obs.products(
                *X, rule, **({"Q": ones[1]} if side == 0 else {"P": ones[0]})
            )
            weight = np.asarray((pull.row_weight, pull.col_weight)[side], np.float64)
            noise = float(pull.energy) / max(float(weight.sum()), 1e-300)
            total = pull[side][:, 0].astype(np.float64) + weight * levels[side]
            levels[side] = _drawn_to_zero(total, weight, noise)
    return _sum_of(obs, middle, levels)


def _sum_of(obs: Observations, middle: float, levels: list[Array]) -> Factors:
    """middle + row + column as factors."""
    rows, cols = levels
    return _as_factors(
        obs, (rows + middle, np.ones(len(cols))), (np.ones(len(rows)), cols)
    )


def _drawn_to_zero(total: Array, weight: Array, noise: float) -> Array:
    """Weighted means of lines, each drawn to 0 as far as it is uncertain: empirical Bayes."""
    used = weight > 0
    mean = np.where(used, total / np.where(used, weight, 1), 0.0)
    spread = (
        float((mean[used] ** 2).mean() - (noise / weight[used]).mean())
        if used.any()
        else 0.0
    )
    return total / (weight + noise / spread) if spread > 0 else np.zeros(len(total))


def blend(X: Factors, simple: Factors, weight: float) -> Factors:
    """weight X + (1 - weight) simple, of the ranks of both together."""
    if weight == 0:
        return simple
    left = np.hstack([weight * X.L, (1 - weight) * simple.L]).astype(X.L.dtype)
    return Factors(left, np.hstack([X.R, simple.R]).astype(X.R.dtype))


def contest(sets: Iterable[Fitted]) -> Contest:
    """Which model is best on entries that were set aside, several times.

    A simple one, or a blend with one, wins over the low-rank fit only if its gain is clear: beyond
    twice its standard error over the sets, and worth the while. The weight that a set is judged
    with was found on the other sets."""
    models, errors, scores = _tables(list(sets))
    own = errors[0, 0, :]  # the low-rank fit alone, by sets
    best = Contest(LOW_RANK, 1.0, scores, 0.0, 0.0)
    for name, table in zip(models, errors[1:], strict=True):
        gains = own - _left_out(table)
        gain, deviation = (
            float(gains.mean()),
            float(gains.std(ddof=1) / np.sqrt(len(gains))),
        )
        if gain > max(CLEARLY * deviation, WORTH * float(own.mean()), best.gain):
            weight = WEIGHTS[int(table.mean(1).argmin())]
            best = Contest(name, weight, scores, gain, deviation)
    return best


def _tables(sets: Sequence[Fitted]) -> tuple[list[str], Array, dict[str, Score]]:
    """Names of simple models; mean absolute errors, models (low rank first) x weights x
    sets; and all scores.
    """
    if len(sets) < 2:
        raise ValueError(
            f"{len(sets)} set(s) of entries; at least 2 are wanted, to tell a gain from chance"
        )
    each = []
    alone: dict[str, list[Score]] = {}
    for rest, judged, fit, _ in sets:
        own = fit.residual(judged)
        models = {
            name: judged.residual(simple)
            for name, simple in simple_models(rest).items()
        }
        for name, residual in ({LOW_RANK: own} | models).items():
            alone.setdefault(name, []).append(Score.of(residual))
        blends = [
            [np.abs(w * own + (1 - w) * e).mean() for w in WEIGHTS]
            for e in models.values()
        ]
        each.append([[np.abs(own).mean()] * len(WEIGHTS), *blends])
    scores = {
        name: Score(*np.mean(some, axis=0).tolist()) for name, some in alone.items()
    }
    return list(models), np.moveaxis(np.array(each, np.float64), 0, -1), scores


def _left_out(table: Array) -> Array:
    """Errors by sets, each with the weight that does best on the others: from weights x sets."""
    others = table.sum(1, keepdims=True) - table
    chosen = others.argmin(0)
    return np.asarray(table[chosen, np.arange(table.shape[1])])

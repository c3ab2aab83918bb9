"""Simple models that a low-rank fit has to beat on entries that were set aside: medians, and what
rows and columns add.

All of them are of rank 1 or 2, and so are blends with a low-rank fit of low rank. Neighbours are
not among them: what the nearest rows say of an entry is no matrix of low rank, and would have to be
asked for entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..fit import Fit
from ..linalg import Factors, median_of
from ..observations.base import Levels, Observations, Sample
from ..observations.medians import medians_of_lines
from ..weights import Array, Huber

LOW_RANK = "low rank"
ROUNDS = 6  # of rows and columns in turn
REACH = 2.0  # times the median residual: what is beyond counts as that far


class Fitted(NamedTuple):
    """A fit to the data without some entries, and these."""

    rest: Observations
    judged: Sample
    fit: Fit
    whole_gaps: bool = False  # whether what was set aside has the shape of gaps
    moved_gaps: bool = (
        False  # whether it is gaps of the same rows (or columns), elsewhere
    )


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
    middle = median_of(obs.sample.values)
    asked = Levels(obs.sample, middle, obs.scale, REACH, ROUNDS)
    found = obs.levels(asked)
    return _sum_of(obs, middle, found or biases_by_rounds(obs, middle))


def biases_by_rounds(obs: Observations, middle: float) -> list[Array]:
    """What rows and columns add to this middle, wherever they are, step by step."""
    levels = [np.zeros(n) for n in obs.shape]
    ones = [np.ones((n, 1), obs.dtype) for n in obs.shape]
    for _ in range(ROUNDS):
        for side in (0, 1):
            X = _sum_of(obs, middle, levels)
            reach = REACH * median_of(np.abs(obs.sample.residual(X))) or obs.scale
            rule = Huber(np.full(obs.shape[0], reach), np.ones(obs.shape[1]))
            pull = obs.products(
                *X, rule, **({"Q": ones[1]} if side == 0 else {"P": ones[0]})
            )
            weight = np.asarray((pull.row_weight, pull.col_weight)[side], np.float64)
            noise = float(pull.energy) / max(float(weight.sum()), 1e-300)
            total = pull[side][:, 0].astype(np.float64) + weight * levels[side]
            levels[side] = _drawn_to_zero(total, weight, noise)
    return levels


def _sum_of(obs: Observations, middle: float, levels: Sequence[Array]) -> Factors:
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

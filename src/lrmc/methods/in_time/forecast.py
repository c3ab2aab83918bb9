"""The next steps in time, and how far off forecasts of this table were before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from .plan import Plan
from .simple import simple_fits
from .stack import convex_weights, plausible
from .sweeps import fit

DRAWS = 6  # from the posterior, that deviations are made of
ORIGINS = 5  # earlier forecasts that weights and errors are learned from
LEAST = 0.5  # of the table that a forecast begins with
FEWEST = 20  # errors that intervals are made of


class Ahead(NamedTuple):
    """What each estimate says of the next steps."""

    estimates: Array  # estimates x sensors x steps
    deviation: Array  # sensors x steps


def forecast(
    Y: Array,
    plan: Plan,
    width: int,
    steps: int,
    level: float,
) -> tuple[Array, Array, Array]:
    """Of sensors x times: values, lower and upper ends, sensors x steps.

    The table is cut off before its end, several times, and what follows is forecast: estimates get
    the weights that did best there (a gap with one side only is unlike those within the table).
    Conformal quantiles of the errors, each with weights of the other cuts, give the widths."""
    ends = [Y.shape[1] - k * steps for k in range(1, ORIGINS + 1)]
    ends = [end for end in ends if end >= LEAST * Y.shape[1]]
    cuts = [
        (_ahead(Y[:, :end], plan, width, steps), Y[:, end : end + steps])
        for end in ends
    ]
    errors = [_errors(*cut) for cut in cuts]
    ratios = [
        np.abs(e @ _weights([x for x in errors if x is not e] or errors)) / scale
        for e, (ahead, truth) in zip(errors, cuts, strict=True)
        for scale in (ahead.deviation[~np.isnan(truth)],)
    ]
    found = np.sort(np.concatenate(ratios)) if ratios else np.array([])
    rank = int(np.ceil(level * (len(found) + 1)))
    if len(found) < FEWEST or rank > len(found):
        raise ValueError(
            f"steps={steps}: the table has {Y.shape[1]} steps in time, too few to tell"
            " how far off such forecasts are; fewer steps, or a lower level, are wanted"
        )
    now = _ahead(Y, plan, width, steps)
    values = np.tensordot(_weights(errors).astype(Y.dtype), now.estimates, 1)
    values = plausible(values, Y, (~np.isnan(Y)).astype(Y.dtype))
    half = float(found[rank - 1]) * now.deviation
    return values, values - half, values + half


def _weights(errors: list[Array]) -> Array:
    return convex_weights(np.concatenate(errors)).weights


def _errors(ahead: Ahead, truth: Array) -> Array:
    """Of what was seen: entries x estimates."""
    seen = ~np.isnan(truth)
    return (ahead.estimates[:, seen] - truth[seen]).T.astype(np.float64)


def _ahead(Y: Array, plan: Plan, width: int, steps: int) -> Ahead:
    """Estimates of the next steps, from the last window."""
    P = plan.period or 1
    begin = max(Y.shape[1] - width, 0) // P * P
    empty = np.full((len(Y), steps), np.nan, Y.dtype)
    window = np.hstack([Y[:, begin:], empty])
    T = window.shape[1]
    models = {p: fit(p.days_of(window), robust=p.robust) for p in plan.models}
    found = [p.times_of(m.values(), T) for p, m in models.items()]
    found += simple_fits(window, plan.period, plan.nights).values()
    deviation = plan.best.times_of(models[plan.best].deviation(DRAWS), T)[:, -steps:]
    seen = (~np.isnan(Y)).astype(Y.dtype)
    # beyond the last entry a process has nothing to hold it
    ahead = [plausible(x[:, -steps:], Y, seen) for x in found]
    return Ahead(np.stack(ahead), deviation)

"""What the other entries of a table tell of one that was seen: how gross errors are told, and how far
off estimates are. A line through an entry would say that it is right, whatever it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...weights import Array
from ..interpolation import along_rows, last_before
from .model import Model
from .nights import Nights, between
from .simple import FILTERED, SLOT_MEAN, every_day, filtered, slot_sums
from .sizes import medians_of_rows
from .sweeps import without_itself


def of_model(model: Model, Y: Array, X: Array) -> Array:
    """The estimate of every entry of Y (sensors x days x slots) by a model of it, whose values are X."""
    known = model.weights > 0
    e = np.where(known, (Y - X) / model.units, 0)
    rest = without_itself(e, model.weights, model.noise)
    return np.where(known, Y - model.units * rest, X).astype(Y.dtype)


def of_simple_fits(
    Y: Array,
    period: int | None,
    nights: Nights | None,
    usual: Mapping[str, Array],
) -> dict[str, Array]:
    """The estimates of every entry of Y (sensors x times) whose `usual` ones are `simple_fits`."""
    cleaned = filtered(Y) if any(n.startswith(FILTERED) for n in usual) else Y
    return {
        name: _others(
            name.removeprefix(FILTERED),
            cleaned if name.startswith(FILTERED) else Y,
            period,
            nights,
            found,
        )
        for name, found in usual.items()
    }


def _others(
    name: str,
    Y: Array,
    period: int | None,
    nights: Nights | None,
    usual: Array,
) -> Array:
    """One of them; what is usual where there is no other entry."""
    if name == SLOT_MEAN:
        assert period is not None
        found = _other_days(Y, period)
    elif name == "last value":
        before = last_before(Y)[0]
        found = np.where(np.isnan(before), along_rows(Y)[0], before)
    else:
        found = between(Y, nights)
    told = ~np.isnan(Y) & ~np.isnan(found)
    return np.where(told, found, usual).astype(Y.dtype)


def _other_days(Y: Array, period: int) -> Array:
    """The mean of a sensor at this slot on other days; its median where there are none."""
    total, count = slot_sums(Y, period)
    total, count = (every_day(x, Y.shape[1]) for x in (total, count))
    total, count = total - np.nan_to_num(Y), count - ~np.isnan(Y)
    rest = medians_of_rows(Y[:, None, :])[:, None]
    return np.where(count > 0, total / np.maximum(count, 1), rest)

"""What anybody would try first on a table with time: lines between neighbors, means of slots,
the last value, each also behind a median filter."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np

from ...weights import Array
from .nights import Nights
from .sizes import median, medians_of_rows

REACH = 3  # entries on each side of a median filter
# pairs to put in order, one after another, so that the fourth of seven is their median (Devillard 1998)
OF_SEVEN = (
    (0, 5),
    (0, 3),
    (1, 6),
    (2, 4),
    (0, 1),
    (3, 5),
    (2, 6),
    (2, 3),
    (3, 6),
    (4, 5),
    (1, 4),
    (1, 3),
    (3, 4),
)
OUTLYING = (
    3.0  # standard deviations from the median around, beyond which an entry is left out
)
SLOT_MEAN = "slot mean"
LAST_PERIOD = "last period"
ALL_DAYS = "slot median of all days"  # of a long table, whose windows know some of them
MOST_DAYS = 64  # that it is made of
FILTERED = "median filter, "  # before the name of what comes after it
OF_GAUSSIAN = 1.4826  # a standard deviation in median absolute deviations


def simple_fits(
    Y: Array,
    period: int | None,
    nights: Nights | None,
    wanted: Collection[str] | None = None,
) -> dict[str, Array]:
    """Each of them that is wanted (all, if nothing is said), sensors x times."""
    ways: dict[str, Callable[[Array], Array]] = {
        "linear": partial(_linear, nights=nights),
        "last value": last_value,
    }
    if period is not None:
        ways[SLOT_MEAN] = partial(slot_mean, period=period)
    names = [before + way for before in ("", FILTERED) for way in ways]
    names = [name for name in names if wanted is None or name in wanted]
    cleaned = filtered(Y) if any(n.startswith(FILTERED) for n in names) else Y
    return {
        name: ways[name.removeprefix(FILTERED)](
            cleaned if name.startswith(FILTERED) else Y
        )
        for name in names
    }


def linear(Y: Array) -> Array:
    """By straight lines between entries in time; level beyond the first and the last."""
    at = np.arange(Y.shape[1])
    rest = medians_of_rows(Y[:, None, :])
    return np.stack([_line(y, at, m) for y, m in zip(Y, rest, strict=True)])


def _linear(Y: Array, nights: Nights | None) -> Array:
    if nights is None:
        return linear(Y)
    return nights.gathered(linear(nights.spread(Y)), Y.shape[1])


def _line(y: Array, at: Array, otherwise: float) -> Array:
    seen = ~np.isnan(y)
    if not seen.any():
        return np.full_like(y, otherwise)
    return np.interp(at, at[seen], y[seen]).astype(y.dtype)


def last_value(Y: Array) -> Array:
    """The last entry before; the first one, where there is none before."""
    seen = ~np.isnan(Y)
    at = np.where(seen, np.arange(Y.shape[1]), -1)
    last = np.maximum.accumulate(at, axis=1)
    last = np.where(last < 0, seen.argmax(1)[:, None], last)
    filled = np.take_along_axis(Y, last, axis=1)
    return np.where(np.isnan(filled), medians_of_rows(Y[:, None, :])[:, None], filled)


def last_period(Y: Array, period: int) -> Array:
    """The last entry of this slot, a period before or more; the first one, where there is none."""
    S, T = Y.shape
    room = (0, 0), (0, -T % period)
    days = np.pad(Y, room, constant_values=np.nan).reshape(S, -1, period)
    by_slot = days.transpose(0, 2, 1).reshape(S * period, -1)
    rest = medians_of_rows(Y[:, None, :])
    # a slot without any entry has what its sensor usually has
    empty = np.isnan(by_slot).all(1)
    by_slot[empty] = np.repeat(rest, period)[empty, None]
    found = last_value(by_slot).reshape(S, period, -1).transpose(0, 2, 1)
    return np.ascontiguousarray(found.reshape(S, -1)[:, :T])


def slot_mean(Y: Array, period: int) -> Array:
    """The mean of a sensor at this slot of the period, over all of them."""
    total, count = slot_sums(Y, period)
    rest = medians_of_rows(Y[:, None, :])[:, None]
    mean = np.where(count > 0, total / np.maximum(count, 1), rest)
    return every_day(mean, Y.shape[1]).astype(Y.dtype)


def slot_sums(Y: Array, period: int) -> tuple[Array, Array]:
    """Of the entries of each sensor at each slot (sensors x slots), and how many there are."""
    S, T = Y.shape
    seen = ~np.isnan(Y)
    total, count = (np.zeros((S, period)) for _ in range(2))
    for k in range(0, T, period):
        here = slice(k, min(k + period, T))
        part = slice(here.stop - here.start)
        total[:, part] += np.where(seen[:, here], Y[:, here], 0)
        count[:, part] += seen[:, here]
    return total, count


def slot_medians(Y: Array, period: int) -> Array:
    """The median of each sensor at each slot (sensors x slots), over days from all of the table;
    that of the sensor where a slot has no entry."""
    days = Y.shape[1] // period
    chosen = np.linspace(0, days - 1, min(days, MOST_DAYS)).astype(int)
    some = np.stack([Y[:, d * period : (d + 1) * period] for d in chosen], axis=2)
    usual = median(some)  # sensors x slots
    rest = medians_of_rows(some)[:, None]
    return np.where(np.isnan(usual), rest, usual).astype(Y.dtype)


def every_day(slots: Array, T: int) -> Array:
    """Sensors x slots again and again, for so many times."""
    return slots[:, np.arange(T) % slots.shape[1]]


def filtered(Y: Array) -> Array:
    """Without entries far from the median of the entries around them (Hampel's filter)."""
    return np.stack([_filtered_row(y) for y in Y])


def _filtered_row(y: Array) -> Array:
    at = np.flatnonzero(~np.isnan(y))
    if len(at) <= 2 * REACH:
        return y
    values = y[at]
    # mirrored at both ends
    ends = values[REACH:0:-1], values[-2 : -2 - REACH : -1]
    wide = np.concatenate([ends[0], values, ends[1]])
    around = [wide[k : k + len(at)] for k in range(2 * REACH + 1)]
    middle = _median_of_seven(around)
    spread = OF_GAUSSIAN * _median_of_seven([np.abs(x - middle) for x in around])
    spread = np.maximum(spread, float(np.median(spread)))
    y = y.copy()
    y[at[np.abs(values - middle) > OUTLYING * spread]] = np.nan
    return y


def _median_of_seven(x: list[Array]) -> Array:
    """Of each place in seven arrays; many times faster than to sort seven numbers at a time."""
    x = list(x)
    for i, k in OF_SEVEN:
        x[i], x[k] = np.minimum(x[i], x[k]), np.maximum(x[i], x[k])
    return x[REACH]

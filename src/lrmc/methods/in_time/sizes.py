"""How large values and residuals are, by sensor and by slot."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ...weights import Array

PRIOR = 20  # entries of usual size that every line is taken to have
FEWEST = 5  # entries that a median is made of: of less, it guards against nothing
LEAST = 1e-3  # of the usual size
# of what units usually are beside the values of their sensor: .001 to .3 do equally well
SMALLEST_PART = 0.01


def median(x: Array, axis: int = -1) -> Array:
    """Along one axis, NaN left out; NaN where nothing is left.

    By one sort, which np.nanmedian does line by line."""
    x = np.sort(x, axis=axis)  # NaN come last
    x = np.moveaxis(x, axis, -1)
    count = (~np.isnan(x)).sum(-1)
    low = np.maximum(count - 1, 0) // 2
    middle = np.stack([low, count // 2], axis=-1)
    middle = np.minimum(middle, x.shape[-1] - 1)
    found = np.take_along_axis(x, middle, -1).mean(-1)
    return np.asarray(np.where(count > 0, found, np.nan))


def medians_of_rows(Y: Array) -> Array:
    """Of each sensor, (S,); that of all others where it has no entry, 0 where none has."""
    rows = median(Y.reshape(len(Y), -1))
    used = np.isfinite(rows)
    usual = np.median(rows[used]) if used.any() else 0.0
    return np.where(used, rows, usual).astype(Y.dtype)


def usual_size(size: Array, quantile: float = 0.5) -> float:
    """A quantile of sizes, NaN left out; where it is next to nothing beside their mean, as that of
    power which is 0 at night, that of the others. 0 where there are none.
    """
    size = size[~np.isnan(size)]
    if not len(size):
        return 0.0
    found, least = float(np.quantile(size, quantile)), LEAST * float(size.mean())
    return found if found > least else float(np.quantile(size[size >= least], quantile))


def typical_rows(Y: Array) -> Array:
    """The usual absolute value of each sensor, (S,); that of the others where it has none."""
    rows = np.array([usual_size(np.abs(y)) for y in Y])
    usual = float(np.median(rows[rows > 0])) if rows.any() else 1.0
    return np.where(rows > 0, rows, usual).astype(Y.dtype)


def not_too_small(rows: Array, usual: Array) -> Array:
    """Units of sensors (residuals), held against their usual values: not next to nothing beside what
    they are for other sensors.

    A column that repeats exactly leaves no residuals. Its values would be so many units that they
    alone made the variances of all sensors, and the others were held by nothing: they ran away."""
    part = rows / usual
    return np.asarray(np.maximum(rows, SMALLEST_PART * np.median(part) * usual))


def relative_sizes(E: Array, seen: Array, robust: bool) -> tuple[Array, Array]:
    """Of residuals, by sensor and by slot: medians, or root mean squares without outliers.

    Each is drawn to the usual size as far as its entries are few."""
    size = np.where(seen, np.abs(E), np.nan)
    middle = np.nanmedian if robust else _root_mean_square
    with _without_warnings():
        rows = _relative(size, (1, 2), middle)
        slots = _relative(size / rows[:, None, None], (0, 1), middle)
    # without days a slot is seen once: too little to tell its size
    return rows, slots if E.shape[1] > 1 else np.ones_like(slots)


def _relative(
    size: Array,
    axes: tuple[int, int],
    middle: Callable[..., Array],
) -> Array:
    usual = usual_size(size) if middle is np.nanmedian else float(middle(size))
    usual = usual if usual > 0 else 1.0
    count = (~np.isnan(size)).sum(axes)
    each = np.where(count > 0, np.nan_to_num(middle(size, axis=axes)), usual)
    logs = np.log(each + LEAST * usual)
    logs = (count * logs + PRIOR * np.log(usual)) / (count + PRIOR)
    return np.exp(logs - logs.mean()).astype(size.dtype)


def _root_mean_square(x: Array, axis: tuple[int, int] | None = None) -> Array:
    return np.sqrt(np.nanmean(x * x, axis=axis))


def medians_of_slots(Y: Array) -> Array:
    """A first picture that outliers do not spoil, sensors x slots.

    Medians over all days and over as many slots as hold enough entries, interpolated."""
    S, D, P = Y.shape
    seen = ~np.isnan(Y)
    width = int(np.ceil(FEWEST * S * P / max(int(seen.sum()), 1)))
    width = min(max(width, 1), max(P // 6, 1))
    n = -(-P // width)
    Z = np.full((S, D, n * width), np.nan, Y.dtype)
    Z[:, :, :P] = Y
    Z = Z.reshape(S, D, n, width).transpose(0, 2, 1, 3).reshape(S, n, -1)
    with _without_warnings():
        medians = median(Z)
        medians[(~np.isnan(Z)).sum(2) < min(FEWEST, D * width)] = np.nan
        usual = median(medians, axis=0)
    middle = float(np.median(Y[seen]))
    usual = _joined(usual, np.arange(n), np.arange(n), np.full(n, middle))
    at = (np.arange(n) + 0.5) * width - 0.5
    everywhere = np.arange(P)
    return np.stack([_joined(m, at, everywhere, usual) for m in medians])


def _joined(y: Array, at: Array, wanted: Array, otherwise: Array) -> Array:
    """y by straight lines; with fewer than two numbers, what is usual."""
    good = np.isfinite(y)
    if good.sum() < 2:
        y, good = otherwise, np.ones(len(otherwise), bool)
    return np.interp(wanted, at[good], y[good])


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Lines without any entry are expected here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield

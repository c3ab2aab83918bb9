"""What the low rank leaves of a pixel before and after a cloud, carried to the date of the cloud.

The low rank knows what other places do on a date; a ground that changes in its own way leaves
residuals on the clear dates around it. A line between them is added, as much of it as predicts known
pixels that are hidden.
"""

from __future__ import annotations

import numpy as np

from ...weights import Array

PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the line, that are tried
BETTER = 0.99  # of the error without: a smaller gain may be chance
SOON = 1e-6  # days, so that two scenes of a day have a line between them


def line(values: Array, clear: Array, days: Array) -> Array:
    """For each date, between the clear dates before and after it, itself left out; the one where
    there is no other, 0 where there is none. Values are T x bands x lines x width.
    """
    order = np.argsort(days, kind="stable")
    before, since = _last(values, clear, days, order)
    after, until = _last(values, clear, days, order[::-1])
    when = days[:, None, None].astype(np.float32)
    gap = np.maximum(until - since, np.float32(SOON))
    share = ((when - since) / gap)[:, None]
    between = (1 - share) * before + share * after
    one = np.where(np.isnan(before), after, before)
    found = np.where(np.isnan(between), one, between)
    return np.nan_to_num(found, copy=False)


def _last(
    values: Array,
    clear: Array,
    days: Array,
    order: Array,
) -> tuple[Array, Array]:
    """The last clear value before each date in this order, and its day; NaN before the first."""
    answer = np.full(values.shape, np.nan, np.float32)
    when = np.full(clear.shape, np.nan, np.float32)
    value, day = answer[order[0]].copy(), when[order[0]].copy()
    for t in order:
        answer[t], when[t] = value, day
        value = np.where(clear[t], values[t], value)
        day = np.where(clear[t], np.float32(days[t]), day)
    return answer, when

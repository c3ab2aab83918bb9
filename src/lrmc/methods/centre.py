"""A robust additive centre: what a row and a column typically are."""

from __future__ import annotations

import numpy as np

from .._rows import equal, kept, take
from ..linalg import Factors, median_of
from ..observations.base import Observations
from ..observations.medians import medians
from ..weights import Array, DType


def centre(obs: Observations) -> Factors | None:
    """Row medians plus column medians of the rest, as factors of rank 2; None if they explain
    little.

    Data far from zero (images, prices) have a leading component that no threshold on |y| can tell
    from outliers."""
    some = obs.sample
    typical = median_of(np.abs(some.values))
    if typical == 0 or abs(median_of(some.values)) < 0.2 * typical:
        return None
    rows = medians(obs, 0, equal(0.0, obs.shape[1]), median_of(some.values))
    cols = medians(obs, 1, rows, 0.0)
    left = np.median(
        np.abs(some.values - take(rows, some.rows) - take(cols, some.cols))
    )
    if left > 0.7 * typical:
        return None
    L, R = (
        kept(_as_factor, (rows,), (obs.dtype, False)),
        kept(_as_factor, (cols,), (obs.dtype, True)),
    )
    return Factors(L, R)


def _as_factor(
    rows: tuple[Array], same: tuple[DType, bool]
) -> tuple[tuple[Array], tuple[()]]:
    """Medians beside ones, or ones beside medians."""
    (middles,), (dtype, ones_first) = rows, same
    columns = [middles, np.ones_like(middles)]
    return (
        np.stack(columns[::-1] if ones_first else columns, axis=1).astype(dtype),
    ), ()

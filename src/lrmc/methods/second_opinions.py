"""What may be asked beside low rank about the entries of a small matrix: neighbors, regression, and
lines between the nearest entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..observations.base import Observations
from .cleaned import Lines
from .interpolation import Interpolation, can_interpolate, interpolation
from .local import Local, can_regress_locally, local
from .neighbors import SHARING, Neighbors, can_compare, neighbors, sharing
from .regression import (
    PLAIN,
    SETTLED,
    Regression,
    can_regress,
    plain_regression,
    regression,
    settled_regression,
)


class Opinion(NamedTuple):
    """A kind of part beyond low rank."""

    is_for: Callable[[Observations], bool]
    # of lines, where their residuals are clipped, and the weight
    of: Callable[[Lines, float, float], Neighbors | Regression | Local | Interpolation]
    # where values are clipped before it is asked, in medians of |residual|: several are tried
    reaches: tuple[float, ...]


# gently, all but outliers, and nothing: residuals of clean data with heavy tails are signal, and
# those of what was fitted are far smaller than what it misses
GENTLY, OUTLIERS, UNCLIPPED = 3.0, 30.0, 1e6
OPINIONS: Mapping[str, Opinion] = {
    "neighbors": Opinion(can_compare, neighbors, (GENTLY, OUTLIERS)),
    SHARING: Opinion(can_compare, sharing, (OUTLIERS,)),
    "regression": Opinion(can_regress, regression, (GENTLY, OUTLIERS)),
    PLAIN: Opinion(can_regress, plain_regression, (UNCLIPPED,)),
    SETTLED: Opinion(can_regress, settled_regression, (UNCLIPPED,)),
    "regression among neighbors": Opinion(
        can_regress_locally, local, (OUTLIERS, UNCLIPPED)
    ),
    "interpolation": Opinion(
        can_interpolate, interpolation, (GENTLY, OUTLIERS, UNCLIPPED)
    ),
}


def opinions_for(obs: Observations) -> tuple[str, ...]:
    """The names of those that can be asked about such data: of groups none. What covers all of a
    group is predictable from its parts, so that hidden entries speak for what follows clouds.
    """
    if obs.groups is not None:
        return ()
    return tuple(name for name, opinion in OPINIONS.items() if opinion.is_for(obs))

"""Errors of entries that were set aside, and what is known of their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..weights import Array
from .kinds import KnowsKinds, kinds_of
from .scales import Lines
from .simple import Fitted


class Errors(NamedTuple):
    """Errors of entries that were set aside, in a random order."""

    residual: Array
    logs: Array  # what their scales are made of: n x 3
    rows: Array
    cols: Array
    number: Array  # of the set
    kinds: Array  # of their places
    gaps: Array  # that they are in, by number
    telling: Array  # those of entries that say how large errors are

    def those_that_tell(self) -> Errors:
        """Without those of a value that stands in many places: with zeros, met nearly everywhere, nine
        tenths of all could be inside where of the others few are."""
        return self if self.telling.all() else Errors(*(x[self.telling] for x in self))


def _gaps_of(some: Fitted) -> Array:
    """Errors of one gap are alike, and come together where the error of a new gap is held against
    them; each by itself where nobody knows of gaps."""
    for part in some.fit.beyond:
        if isinstance(part, KnowsKinds):
            return part.gaps(some.judged)
    return np.arange(len(some.judged.rows))


def errors_of(
    sets: Sequence[Fitted],
    known: Sequence[Lines],
    *,
    with_kinds: bool,
) -> Errors:
    """Of all sets."""
    found: list[tuple[Array, ...]] = []
    for k, (some, lines) in enumerate(zip(sets, known, strict=True)):
        places = some.judged.rows, some.judged.cols
        logs = lines.logs(*places)
        of_places = kinds_of(some.rest, some.fit) if with_kinds else None
        kinds = np.zeros(len(logs), np.int8) if of_places is None else of_places[places]
        residual = some.fit.residual(some.judged)
        gaps = _gaps_of(some) + sum(len(x[0]) for x in found)
        tell = some.judged.tells()
        found.append(
            (residual, logs, *places, np.full(len(logs), k), kinds, gaps, tell)
        )
    parts = [np.concatenate(x) for x in zip(*found, strict=True)]
    # any part of them is then a fair one
    order = np.random.default_rng(0).permutation(len(parts[0]))
    residual, *others = (x[order] for x in parts)
    return Errors(residual.astype(np.float64), *others)

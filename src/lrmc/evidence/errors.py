"""Errors of entries that were set aside: in what units they are alike, and which of them are gross."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..observations.base import Observations
from ..weights import Array
from .by_line import axis_of, common_values, line_of
from .kinds import MANY, KnowsKinds, kinds_of, sizes_of
from .own_sizes import OwnSizes
from .scales import TINY, Law, Lines, learned_law
from .simple import Fitted
from .tails import Tails, fit_tails

FEWEST = 20  # errors that tell what is gross


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
    lines: Array  # the columns of their places, or rows, if these are fewer
    common: Array  # those of entries whose values are common in their line

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
    axis = axis_of(sets[0].rest.shape)
    for k, (some, noise) in enumerate(zip(sets, known, strict=True)):
        judged = some.judged
        logs = noise.logs(judged.rows, judged.cols)
        of_places = kinds_of(some.rest, some.fit) if with_kinds else None
        kinds = np.zeros(len(logs), np.int8)
        if of_places is not None:
            kinds = of_places[judged.rows, judged.cols]
        here = (
            some.fit.residual(judged),
            logs,
            judged.rows,
            judged.cols,
            np.full(len(logs), k),
            kinds,
            _gaps_of(some) + sum(len(x[0]) for x in found),
            judged.tells(),
            line_of(judged, axis),
            line_of(judged, 1 - axis),
            judged.values,
        )
        found.append(here)
    parts = [np.concatenate(x) for x in zip(*found, strict=True)]
    # any part of them is then a fair one
    order = np.random.default_rng(0).permutation(len(parts[0]))
    residual, *others, lines, across, values = (x[order] for x in parts)
    common = np.zeros(len(lines), bool)
    if (
        not with_kinds
    ):  # of many sensors some have few errors, of which some are alike by chance
        common = common_values(lines, across, values)
    others += [lines, common]
    return Errors(residual.astype(np.float64), *others)


def scaled(
    obs: Observations,
    errors: Errors,
    *,
    by_line: bool,
) -> tuple[Law, Array, OwnSizes, Tails, Array]:
    """The law of scales, sizes of kinds and of lines, the tails beyond them, and how likely errors are
    gross. What is by the first scales does not speak for the second.
    """
    floor = 16 * float(np.finfo(obs.dtype).eps) * obs.scale  # of exact data
    weight = np.ones(len(errors.residual))
    sizes = np.ones(MANY)
    places = errors.rows, errors.cols
    lines = OwnSizes.even(obs.shape)
    for _ in range(2):
        own = errors.residual / (sizes[errors.kinds] * lines.at(*places))
        law = learned_law(own, errors.logs, weight)
        typical = float(np.median(law.at(errors.logs)))
        law = law._replace(unit=law.unit * max(floor / max(typical, TINY), 1.0))
        scale = law.at(errors.logs)
        scale *= lines.at(*places)
        sizes = sizes_of(errors.residual / scale, errors.kinds)
        scale *= sizes[errors.kinds]
        if by_line:
            before = lines.at(*places)
            lines = lines.followed(np.abs(errors.residual) / scale, places)
            scale *= lines.at(*places) / before
        tails, outlying = _told_apart(errors, scale)
        weight = np.maximum(1 - outlying, 1e-6)
    return law, sizes, lines, tails, outlying


def _told_apart(
    errors: Errors,
    scale: Array,
) -> tuple[Tails, Array]:
    """The tails of errors of these scales, and how likely each is gross: none whose value is common,
    and none at all where gross ones do not stand apart."""
    rare = ~errors.common
    some = rare if rare.sum() >= FEWEST else np.ones(len(rare), bool)
    tails = fit_tails(errors.residual[some], scale[some])
    if not tails.is_apart(errors.residual[some], scale[some]):
        rare = np.zeros(len(rare), bool)
    return tails, rare * tails.outlying(errors.residual, scale)

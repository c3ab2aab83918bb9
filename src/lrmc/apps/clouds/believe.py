"""Whether what stands out on a date, but looks like ground of it, is to be believed: if it helps to
predict what is clear on the other dates. A field that was harvested does; a thin cloud does not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from .colours import Palettes
from .contest import Filling
from .ground import CLEAR, CLOUD

# Units of `Palette` that a familiar colour may be away: one is chosen for each date, or none.
REACHES = (1.0, 2.0, 3.0)
SOON = 1.0  # days: dates that are nearer count as this
LEAST = 10  # pixels, without which there is no evidence
# Standard errors of a mean beyond which a harm is believed; with two, a thin cloud was let in.
BEYOND_CHANCE = 1.0
CAP = 20.0  # typical errors that one counts as, at most: a cloud must not decide, a changed field may


def helpful(
    Y: Array,
    mask: Array,
    colours: Palettes,
    filling: Filling,
) -> Palettes:
    """The palettes of T x bands x lines x width values with a mask, each reaching as far as helps;
    None where none does.
    """
    T, bands = Y.shape[:2]
    found = mask.reshape(T, -1)
    apart = np.full(found.shape, np.inf)
    values = Y.reshape(T, bands, -1)
    for t, palette in enumerate(colours):
        if palette is not None and not filling.ways.hidden[t]:
            asked = found[t] == CLOUD
            apart[t, asked] = palette.apart(values[t][:, asked], REACHES[-1])
    candidates = Candidates(values, found == CLEAR, apart, filling)
    reaches = [candidates.reach(t) for t in range(T)]
    return tuple(
        None if palette is None or reach == 0 else palette._replace(near=reach)
        for palette, reach in zip(colours, reaches)
    )


def harmful(Y: Array, before: Array, after: Array, filling: Filling) -> Array:
    """T: dates of which pixels that only the later mask calls clear make the others harder to
    predict, as haze does, by more than chance: a few bare fields can do so, too.
    """
    T, bands = Y.shape[:2]
    freed = ((before == CLOUD) & (after == CLEAR)).reshape(T, -1)
    values, clear = Y.reshape(T, bands, -1), (before == CLEAR).reshape(T, -1)
    candidates = Candidates(values, clear, np.where(freed, 0.0, np.inf), filling)
    return np.array([candidates.harms(t) for t in range(T)])


class Candidates(NamedTuple):
    """What may be believed, and what it is judged by."""

    Y: Array  # T x bands x n
    clear: Array  # T x n
    apart: Array  # T x n: how far colours that stand out are from those of their date
    filling: Filling

    def reach(self, t: int) -> float:
        """How far the colours of a date are to reach, so that the others are predicted best: what is
        clear of them, and what may be; a change that lasts tells of itself.
        """
        reaches = (0.0, *REACHES)
        errors = [np.sum(one) for one in self._errors(t, reaches)]
        return reaches[int(np.argmin(errors))]

    def harms(self, t: int) -> bool:
        """Whether the others are predicted worse with all that may be believed of a date, beyond doubt."""
        without, beside = self._errors(t, (0.0, REACHES[0]))
        more = beside - without
        if not len(more):
            return False
        return bool(np.mean(more) > BEYOND_CHANCE * np.std(more) / np.sqrt(len(more)))

    def _errors(self, t: int, reaches: tuple[float, ...]) -> list[Array]:
        """At the other dates, if colours of a date reach so far: a number for each pixel that may be
        believed, with a mean that is the error of all; none where these are too few.
        """
        columns = np.isfinite(self.apart[t])
        if np.count_nonzero(columns) < LEAST:
            return [np.zeros(0)] * len(reaches)
        clear, apart = self.clear[:, columns], self.apart[:, columns]
        judged = clear | np.isfinite(apart)
        judged[t] = False
        y = self.Y[:, :, columns].astype(np.float64)
        days = self.filling.ways.days
        near = 1 / np.maximum(np.abs(days - days[t]), SOON)
        errors = []
        for reach in reaches:
            believed = clear.copy()
            believed[t] = apart[t] < reach
            errors.append(self._error(y, believed, judged * near[:, None]))
        return errors

    def _error(self, y: Array, believed: Array, weights: Array) -> Array:
        """n: the error at some pixels, in typical ones, if some are believed; dates count as they are
        near.
        """
        filling = self.filling
        off = np.abs(y - filling.predicted(y, believed))
        times = off / np.maximum(filling.error, filling.least)[:, :, None]
        size = np.minimum(times.mean(1), CAP)
        return np.asarray(np.sum(weights * size, axis=0) / max(weights.mean(), 1e-300))

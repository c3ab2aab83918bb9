"""What is bright in all bands, on a date or on most of them: clouds, or ground?

Where clouds cover most of what was seen, they are what a fit takes for the ground, or for the noise of
a date. So the series is learned once more without what is bright, and that is believed if it tells more
of what was seen: clouds tell nothing of the ground, snow and sand do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from .contest import Filling

BINS = 256  # of a histogram of the light
COMMON = 10  # pixels that two call clear, at least, for a date to tell
# Nats for a value, that a date gains by more than chance. Of 73 series in sight, four had clouds for
# ground, with dates that gain .44 to 3.6; others lose, or gain .24 at most.
MORE_THAN_CHANCE = 0.25
# Times smaller are errors of what two call clear, if that decides alone: 5.6 and 12 where clouds are
# most of what was seen, and can be predicted by each other; 1.2 at most where they are not.
FAR_SMALLER = 2.0


class Judged(NamedTuple):
    """What is put under clouds, and what is called clear by it."""

    filling: Filling
    clear: Array  # T x lines x width

    def lengths(self, Y: Array, there: Array) -> Array:
        """T: what it takes to write down what was seen of each date, in nats for a value: what is clear
        as errors of a prediction by the other dates, clouds as values that nothing is known of. Both
        have tails as Laplace's distribution has.
        """
        own = np.log(self.errors(Y, self.clear) + self.filling.least)
        usual = np.log(_spreads(Y, there) + self.filling.least)
        counts = [np.count_nonzero(one, axis=(1, 2)) for one in (self.clear, there)]
        share = (counts[0] / np.maximum(counts[1], 1))[:, None]
        return np.asarray(np.mean(share * own + (1 - share) * usual, axis=1))

    def untold(self, Y: Array) -> Array:
        """T: errors of what the other dates say of clear pixels, in those of one value for all of them."""
        left = np.full(Y.shape[:2], np.inf)
        for t in np.flatnonzero(np.count_nonzero(self.clear, axis=(1, 2)) >= COMMON):
            left[t] = _spreads(Y[t : t + 1], self.clear[t : t + 1])
        error = self.errors(Y, self.clear)
        return np.asarray(np.mean(error / (left + 1e-30), axis=1))

    def errors(self, Y: Array, asked: Array) -> Array:
        """T x bands: the mean error where it is asked for."""
        T, bands = Y.shape[:2]
        y = Y.reshape(T, bands, -1).astype(np.float64)
        off = np.abs(self.filling.predicted(y, self.clear.reshape(T, -1)) - y)
        sums = np.sum(off, axis=2, where=asked.reshape(T, 1, -1))
        counts = np.count_nonzero(asked, axis=(1, 2))
        return np.asarray(sums / np.maximum(counts, 1)[:, None])


def _spreads(Y: Array, there: Array) -> Array:
    """Bands: how far values are from the middle of all."""
    bands = [band[there].astype(np.float64) for band in np.moveaxis(Y, 1, 0)]
    return np.array([np.mean(np.abs(one - np.median(one))) for one in bands])


def outshines(Y: Array, limit: Array) -> Array:
    """T x lines x width: pixels that have more light than the limit of their date in every band: leaves
    and soil are dark in one at least, clouds in none.
    """
    return np.asarray(Y.min(1) > limit[:, None, None])


def bright_limit(Y: Array, there: Array, least: float) -> float:
    """The light that parts bright pixels from others, of T x bands x lines x width values."""
    darkest = np.log(np.maximum(Y.min(1)[there].astype(np.float64), least))
    return float(np.exp(_between(darkest)))


def _between(values: Array) -> float:
    """Where two groups part with the least variance within them (Otsu's threshold)."""
    counts, edges = np.histogram(values, BINS)
    middle = (edges[1:] + edges[:-1]) / 2
    below = np.cumsum(counts)
    sums = np.cumsum(counts * middle)
    above = below[-1] - below
    apart = sums * below[-1] - sums[-1] * below
    among = apart.astype(np.float64) ** 2 / np.maximum(below * above, 1)
    return float(edges[1 + int(np.argmax(among))])


def gains(Y: Array, there: Array, before: Judged, after: Judged) -> Array:
    """T: by how much shorter each date is."""
    return before.lengths(Y, there) - after.lengths(Y, there)


def agreed(Y: Array, before: Judged, after: Judged) -> float:
    """How many times smaller errors are on dates where both call enough clear: a typical one."""
    both = before.clear & after.clear
    known = np.count_nonzero(both, axis=(1, 2)) >= COMMON
    if not known.any():
        return 0.0
    was, now = (one.errors(Y, both)[known] + 1e-30 for one in (before, after))
    return float(np.exp(np.mean(np.log(was / now))))


def gaining(gain: Array) -> Array:
    """T: dates that gain by more than chance."""
    return np.asarray(gain > MORE_THAN_CHANCE)


def convincing(gain: Array, times: float) -> bool:
    """Whether gains of dates, or errors so many times smaller, speak for what was learned later."""
    return bool(np.mean(gain) > 0) or times > FAR_SMALLER

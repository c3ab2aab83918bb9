"""How much light each date of a series has, beside the dates near it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...weights import Array
from .ground import FEW, Sample, smallest

NEAR = 2  # dates on each side of one that it is compared with
TINY = 1e-12  # where nothing differs
SHARED = 0.25  # of what is seen of a date, that another one must show to be compared


@dataclass(frozen=True, eq=False)
class Light:
    """The light of every pixel on every date, as a logarithm: a shadow takes a share of it."""

    values: Array  # T x bands x n
    there: Array  # T x n
    days: Array  # T

    @classmethod
    def of(cls, sample: Sample, days: Array) -> Light | None:
        """Of a sample; None of what is no light: temperatures, decibels."""
        T, bands = sample.Y.shape[:2]
        Y = sample.Y.reshape(T, bands, -1).astype(np.float64)
        there = sample.there.reshape(T, -1)
        if not there.any():
            return None
        levels = [np.median(Y[:, b][there]) for b in range(bands)]
        if max(levels) <= 0:
            return None
        return cls(np.log(np.maximum(Y, smallest(sample.Y))), there, days)

    @property
    def known(self) -> Array:
        """T: dates of which enough is seen to compare them."""
        return np.asarray(self.there.mean(1) > FEW)

    @property
    def strongest(self) -> int:
        """The band in which the ground is brightest."""
        bands = np.moveaxis(self.values, 1, 0)
        return int(np.argmax([np.median(band[self.there]) for band in bands]))

    def without(self, t: int, covered: Array) -> Light:
        """The same, less some pixels of a date."""
        there = self.there.copy()
        there[t] &= ~covered
        return replace(self, there=there)

    def near(self, t: int, usable: Array) -> tuple[Array, Array]:
        """The usable dates next to one, before and after it, that show enough of the same pixels."""
        shared = np.count_nonzero(self.there & self.there[t], axis=1)
        others = usable & (shared > SHARED * self.there[t].sum())
        others[t] = False
        apart = self.days - self.days[t]
        before = _nearest(others & (apart <= 0), apart)
        return before, _nearest(others & (apart > 0), apart)

    def ratios(self, t: int, others: Array) -> Array:
        """others x bands: how much more light a date has than others, on the pixels both show."""
        answer = np.empty((len(others), self.values.shape[1]))
        for k, s in enumerate(others):
            both = self.there[t] & self.there[s]
            more = self.values[t][:, both] - self.values[s][:, both]
            answer[k] = np.median(more, axis=1)
        return answer

    def contrast(self, t: int, s: int) -> Array:
        """Bands: how much more light pixels differ by on a date than on another one, a logarithm."""
        both = self.there[t] & self.there[s]
        middle = np.quantile(
            np.exp(self.values[[t, s]][:, :, both]), (0.25, 0.75), axis=2
        )
        one, other = middle[1] - middle[0] + TINY
        return np.asarray(np.log(one / other))

    def pixel_ratios(self, t: int, others: Array) -> Array:
        """bands x n: how much more light pixels have than on the median of some dates; NaN where
        none of these was seen.
        """
        seen = np.where(self.there[others][:, None], self.values[others], np.nan)
        usual = np.full(seen.shape[1:], np.nan)
        some = self.there[others].any(0)
        usual[:, some] = np.nanmedian(seen[..., some], axis=0)
        return np.asarray(self.values[t] - usual)


def _nearest(some: Array, apart: Array) -> Array:
    """Numbers of the nearest dates."""
    numbers = np.flatnonzero(some)
    order = np.argsort(np.abs(apart[numbers]), kind="stable")
    return numbers[order][:NEAR]

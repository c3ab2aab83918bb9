"""What is known of a table in time: low rank and each sensor's own process, in one basis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...weights import Array
from .basis import Basis
from .prior import Prior
from .systems import System, White


@dataclass(frozen=True, eq=False)
class Model:
    """A fit to sensors x days x slots, in units rows[s] slots[p] from the middle of each sensor."""

    middle: Array
    rows: Array
    slots: Array
    basis: Basis
    prior: Prior
    noise: float  # variance
    weights: Array  # the chance of each entry to be good; 0 where none was seen
    c: Array | None = None  # coefficients
    draw: Array | None = None  # of what is unknown of them

    @property
    def units(self) -> Array:
        """By sensors x 1 x slots."""
        return self.rows[:, None, None] * self.slots

    def system(self) -> System:
        """What the coefficients solve."""
        return System(self.basis, self.prior, self.weights, self.noise)

    def values(self) -> Array:
        """The estimate of every entry, in the units of the data."""
        return (
            self.units * self.basis.values(there(self.c)) + self.middle[:, None, None]
        )

    def is_sound(self, Y: Array) -> bool:
        """Whether it is nearer to the entries of Y (sensors x days x slots) that it believes than the
        middles of sensors are: a model that ran away is not, and nothing may begin with it."""
        believed = self.weights * ~np.isnan(Y)
        away = np.nan_to_num(Y - self.middle[:, None, None]) ** 2
        left = np.nan_to_num(Y - self.values(), nan=np.inf)
        left = np.where(np.isnan(Y), 0, left).astype(np.float64) ** 2
        return bool((believed * left).sum() <= (believed * away).sum())

    def deviation(self, draws: int, seed: int = 0) -> Array:
        """The standard deviation of every entry that is not an outlier around the estimate, noise
        included: from so many draws."""
        rng = np.random.default_rng(seed)
        system = self.system()
        unknown = sum(
            self.basis.values(system.drawn(White.of(rng, self.weights))) ** 2
            for _ in range(draws)
        )
        return np.asarray(self.units * np.sqrt(unknown / draws + self.noise))


def there(c: Array | None) -> Array:
    """Coefficients that were found."""
    assert c is not None
    return c

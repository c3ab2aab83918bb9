"""How far completed entries are from the truth: learned from entries that were set aside, in the
shape of the gaps.

The run is made again without them, several times, so that nothing of them is in the fit they are
compared with. Their errors, each in units of its own scale, give the widths: conformal quantiles,
which hold whatever the errors are like, as long as what is missing is like what was set aside.
Where it is not, no interval is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..fit import Fit
from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..observations.heldout import can_hold_out, hold_out
from ..weights import Array
from .scales import DOUBTS, SIZES, Parts, Scales, Unknown, line_noise, unknown
from .simple import Fitted
from .tails import COARSE, FEW, Tails, fit_tails, fit_with, thinned

Target = Literal["value", "observation"]
TARGETS = ("value", "observation")
# the data without some entries, a seed -> the fit to them
Refit = Callable[[Observations, int], Fit]
SETS = 5  # of entries that are set aside
PLACES = 20_000  # missing ones, that held-out ones are compared with
KEPT = 10_000  # errors
ALIKE = 1.25  # times: leverages that differ by less are alike
# the largest distance (Kolmogorov's) between what is known of missing places and of held-out ones
UNLIKE = 0.25


class NotCalibrated(ValueError):
    """There is no interval that could be vouched for; the message says why."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """All that intervals are made of: a few numbers per row and column, and errors of
    entries that were set aside.
    """

    scales: Scales
    tails: Tails
    errors: Array  # in units of their scales
    good: Array  # how likely each is no gross error
    # between what is known of missing places and of held-out ones: from 0 to 1
    distance: float
    refused: str = ""  # why there are no intervals

    def half_width(
        self, rows: Array, cols: Array, level: float, of: Target = "value"
    ) -> Array:
        """Half the width of the intervals at these places."""
        return self.quantile(level, of) * self.scales.at(rows, cols)

    def quantile(self, level: float, of: Target = "value") -> float:
        """What the size of an error, in units of its scale, stays below with this probability."""
        self.check()
        size, weight = (
            np.abs(self.errors),
            self.good if of == "value" else np.ones(len(self.errors)),
        )
        order = np.argsort(size)
        below = np.cumsum(weight[order])
        wanted = level * (below[-1] + 1)  # the new error is one of them
        if wanted > below[-1]:
            enough = math.ceil(level / (1 - level))
            raise NotCalibrated(
                f"level={level:g}: {below[-1]:.0f} good entries could be set aside, and {enough} are needed; lower it"
            )
        return float(size[order][np.searchsorted(below, wanted)])

    def deviation(self, rows: Array, cols: Array) -> Array:
        """The standard deviation that errors at these places would have if they were
        Gaussian with these quantiles.
        """
        return self.quantile(0.6826895) * self.scales.at(rows, cols)

    def drawn(
        self, rows: Array, cols: Array, n: int, rng: np.random.Generator
    ) -> Array:
        """n errors for each of these places (n x places), none of them gross, each
        independent of the others.
        """
        self.check()
        chance = self.good / self.good.sum()
        chosen = rng.choice(self.errors, (n, *rows.shape), p=chance)
        return np.asarray(
            chosen
            * np.where(rng.random(chosen.shape) < 0.5, -1, 1)
            * self.scales.at(rows, cols)
        )

    def outlying(self, some: Sample) -> Array:
        """How likely residuals are gross errors: `some` has them as its values."""
        return self.tails.outlying(some.values, self.scales.at(some.rows, some.cols))

    def check(self) -> None:
        """Refuse where intervals could not be vouched for."""
        if self.refused:
            raise NotCalibrated(self.refused)

    def plain(self) -> dict[str, Array]:
        """As arrays, for a file."""
        lines = {**self.scales._asdict(), **self.scales.unknown._asdict()}
        del lines["unknown"], lines["noise"]
        freedom, unit, gross, width, relative, _ = self.tails
        return lines | {
            "tails": np.array(
                [
                    freedom,
                    unit,
                    width,
                    relative,
                    self.distance,
                    self.scales.unknown.noise,
                    *gross,
                ],
                np.float64,
            ),
            "errors": self.errors,
            "good": self.good,
            "refused": np.array(self.refused),
        }

    @classmethod
    def from_plain(
        cls, arrays: Mapping[str, Any], shape: tuple[int, int]
    ) -> Calibration:
        """What `plain` gave, looked at before it is believed."""
        names = (("row_noise", "rows", "row_lean"), ("col_noise", "cols", "col_lean"))
        for side, n in zip(names, shape, strict=True):
            for name in side:
                _check_numbers(name, arrays[name], (n,))
        errors, good, numbers = arrays["errors"], arrays["good"], arrays["tails"]
        _check_numbers("good", good, errors.shape)
        _check_numbers("tails", numbers, (len(numbers),))
        freedom, unit, width, relative, distance, noise, *gross = (
            float(x) for x in numbers
        )
        rows, cols, row_lean, col_lean = (arrays[name] for name in Unknown._fields[:4])
        parts = Unknown(rows, cols, row_lean, col_lean, noise)
        scales = Scales(arrays["row_noise"], arrays["col_noise"], parts)
        tails = Tails(freedom, unit, tuple(gross), width, bool(relative))
        return cls(scales, tails, errors, good, distance, str(arrays["refused"]))


def _check_numbers(name: str, x: Any, shape: tuple[int, ...]) -> None:
    if x.dtype.kind != "f" or x.shape != shape or not np.isfinite(x).all():
        raise ValueError(
            f"its {name} of intervals have shape {x.shape} and type {x.dtype}, or are not finite"
        )


def fitted_again(obs: Observations, refit: Refit, seed: int = 0) -> tuple[Fitted, ...]:
    """Fits to the data without some entries, several times: `refit` makes the run again."""
    if not can_hold_out(obs):
        raise NotCalibrated(
            f"{obs.n_observed} entries are observed: too few to set some aside and learn errors from"
        )
    sets = ((seed + k, *hold_out(obs, seed + k)) for k in range(SETS))
    return tuple(
        Fitted(rest, judged, refit(rest, number)) for number, rest, judged in sets
    )


def calibrate(
    obs: Observations, X: Factors, sets: Iterable[Fitted], *, seed: int = 0
) -> Calibration:
    """Intervals for the fit X to these data, from fits to the data without some entries."""
    residual, parts, leverage = _held_out(sets, seed)
    floor = 16 * float(np.finfo(obs.dtype).eps) * obs.scale  # of exact data
    noise = max(1.4826 * float(np.median(np.abs(obs.sample.residual(X)))), floor)
    size, doubt = _chosen(residual, parts, noise)
    scale = parts.scale(noise, size, doubt)
    tails = fit_tails(residual, scale)
    row_noise, col_noise = line_noise(obs, X)
    own = unknown(obs, X)
    distance = _distance(obs, own, leverage, seed)
    scales = Scales(noise * row_noise**size, col_noise**size, own.times(doubt))
    errors, good = thinned(residual / scale, 1 - tails.outlying(residual, scale), KEPT)
    return Calibration(scales, tails, errors, good, distance, _why_not(distance))


def _held_out(sets: Iterable[Fitted], seed: int) -> tuple[Array, Parts, Array]:
    """Errors of entries that were set aside, what their scales are made of, and the
    leverages there, of all sets.
    """
    found = []
    for rest, judged, again in sets:
        rows, cols = line_noise(rest, again.X)
        left_open = unknown(rest, again.X)
        leverage = left_open.leverage(judged.rows, judged.cols)
        relative = rows[judged.rows] * cols[judged.cols]
        found.append(
            (again.residual(judged), relative, left_open.noise * leverage, leverage)
        )
    residual, relative, variance, leverage = (
        np.concatenate(x).astype(np.float64) for x in zip(*found, strict=True)
    )
    # any part of them is then a fair one
    order = np.random.default_rng(seed).permutation(len(residual))
    return residual[order], Parts(relative[order], variance[order]), leverage


def _chosen(residual: Array, parts: Parts, noise: float) -> tuple[float, float]:
    """How much the noise of lines and the variance of the fit count: what makes the
    errors most likely.
    """

    def likelihood(size: float, doubt: float) -> float:
        some = thinned(residual, parts.scale(noise, size, doubt), FEW)
        return fit_with(*some, COARSE, relative=True).likelihood

    size = max(SIZES, key=lambda size: likelihood(size, 1.0))
    return size, max(DOUBTS, key=lambda doubt: likelihood(size, doubt))


def _distance(obs: Observations, own: Unknown, held: Array, seed: int) -> float:
    """Kolmogorov's distance between the leverages of missing places and of those that were set
    aside.

    Differences of less than ALIKE times do not count: with fewer entries, all leverages are a
    little higher. It is a lower bound of the share of missing places that are unlike any that was
    set aside, and so of what the intervals' promise can be off by."""
    rng = np.random.default_rng(seed)
    rows, cols = (rng.integers(0, n, 4 * PLACES) for n in obs.shape)
    used = (np.asarray(obs.row_observed)[rows] > 0) & (
        np.asarray(obs.col_observed)[cols] > 0
    )
    rows, cols = rows[used], cols[used]
    missing = np.isnan(obs.lookup(rows, cols))
    there = np.sort(own.leverage(rows[missing][:PLACES], cols[missing][:PLACES]))
    held = np.sort(held)
    if not len(there):
        return 0.0
    return max(_share_below(there, held), _share_below(held, there))


def _share_below(some: Array, others: Array) -> float:
    """By how much more of `some` lie below a limit than of `others`, where it counts
    most. Both are sorted.
    """
    below = np.arange(1, len(some) + 1) / len(some)
    return float(
        np.max(
            below - np.searchsorted(others, ALIKE * some, side="right") / len(others),
            initial=0.0,
        )
    )


def _why_not(distance: float) -> str:
    if distance <= UNLIKE:
        return ""
    return (
        "the gaps are unlike anything that was observed: at least"
        f" {100 * distance:.0f} % of the missing places have no like among those that could be set aside in their stead"
        " (by what the fit knows of their rows and columns). Nothing tells how far off they are: no interval is given"
    )

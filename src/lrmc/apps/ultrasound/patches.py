"""Tissue as a matrix of low rank, in overlapping patches that are blended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._progress import Progress, Tell
from ..._work import SOUND, Outcome
from ...linalg import power_of_4
from ...methods.noisy import Noise
from ...methods.rested import polished, start
from ...observations._door import as_observations
from ...result import Status
from ...weights import Array, Sides
from ..outcome import run_to_end

OVERLAP = 8  # pixels that neighbouring patches share


@dataclass
class Fit:
    """The low-rank part of a stack of patches: the closed loop until it rests at the noise, then a
    few sweeps.

    Pixels that mostly stay the same, to `least`, are left out, and are their medians: a black
    surrounding has no noise, and would have all that is bright taken for outliers. How the fits
    ended is remembered.
    """

    rank: int
    outliers: Sides
    seed: int
    least: float
    fitted: int = 0  # pixels of all patches
    given_up: int = (
        0  # those with fewer observations than unknowns: they are their medians
    )

    def outcome(self) -> Outcome:
        """Of all patches together."""
        if self.given_up <= self.fitted:
            return SOUND
        text = (
            "most of the picture has fewer observations than a tissue of this rank has"
            " unknowns"
        )
        text = (
            f"{text}, and is its median over time: give a smaller rank, or a larger"
            " sample"
        )
        return SOUND.warned(text, Status.UNDETERMINED)

    def __call__(
        self,
        frames: Array,
        seen: Array,
        threads: int | None,
    ) -> Array:
        """(frames, height, width)."""
        rows, mask = (X.reshape(len(X), -1).T for X in (frames, seen))
        known = rows if mask.all() else np.where(mask, rows, np.float32(np.nan))
        usual = row_median(known)
        lively = row_median(np.abs(known - usual[:, None])) > self.least
        model = np.repeat(
            np.where(np.isfinite(usual), usual, _mean(rows, mask))[:, None],
            rows.shape[1],
            1,
        )
        pixels = int(np.count_nonzero(lively))
        if np.count_nonzero(mask[lively]) > self.rank * (pixels + rows.shape[1]):
            model[lively] = self._low_rank(rows[lively], mask[lively], threads)
            self.fitted += pixels
        else:
            self.given_up += pixels
        return model.T.reshape(frames.shape)

    def _low_rank(
        self,
        rows: Array,
        mask: Array,
        threads: int | None,
    ) -> Array:
        obs = as_observations(rows, None if mask.all() else mask, threads=threads)
        unit = power_of_4(obs.scale)
        obs = obs.scaled(1 / unit)
        noise = Noise.even(obs, "mixture", self.outliers)
        steps = polished(obs, start(obs, self.rank, self.seed), noise)
        # With enough observations: nothing to warn about.
        X, _ = run_to_end(obs, steps, "the tissue")
        return (X.L * X.L.dtype.type(unit)) @ X.R.T


def row_median(rows: Array) -> Array:
    """Of what is not NaN; NaN where nothing is."""
    ordered = np.sort(rows, axis=1)  # NaN come last
    count = np.sum(np.isfinite(ordered), axis=1)
    lower = np.maximum(count - 1, 0) // 2
    upper = np.minimum(count // 2, rows.shape[1] - 1)
    low, high = (
        np.take_along_axis(ordered, at[:, None], 1)[:, 0] for at in (lower, upper)
    )
    return (low + np.where(count > 0, np.where(count % 2, low, high), low)) / 2


def _mean(rows: Array, mask: Array) -> np.float32:
    return np.float32(np.mean(rows[mask], dtype=np.float64) if mask.any() else 0.0)


def patchwise(
    frames: Array,
    seen: Array,
    fit: Fit,
    patch: int | None,
    tell: Tell,
) -> Array:
    """The fit in overlapping patches, blended where they overlap; or of the whole frames."""
    height, width = frames.shape[1:]
    if patch is None or max(height, width) <= patch:
        return fit(frames, seen, None)
    model = np.zeros(frames.shape, np.float32)
    total = np.zeros((height, width), np.float32)
    places = [
        (top, left) for top in _starts(height, patch) for left in _starts(width, patch)
    ]
    for n, (top, left) in enumerate(places):
        down = slice(top, min(top + patch, height))
        across = slice(left, min(left + patch, width))
        here = slice(None), down, across
        weight = np.outer(
            _ramp(down.stop - down.start), _ramp(across.stop - across.start)
        )
        # Small: threads would only wait.
        model[here] += weight * fit(frames[here], seen[here], 1)
        total[down, across] += weight
        tell(Progress("low rank", n + 1, len(places), "patches"))
    return model / total


def _starts(length: int, patch: int) -> list[int]:
    """Where patches begin: evenly spread, OVERLAP pixels or more in common."""
    if length <= patch:
        return [0]
    count = -(-(length - OVERLAP) // (patch - OVERLAP))
    return np.linspace(0, length - patch, count).round().astype(int).tolist()


def _ramp(n: int) -> Array:
    """A weight that rises over the overlap and falls again."""
    from_edge = np.minimum(np.arange(n), np.arange(n)[::-1]) + np.float32(1)
    return np.minimum(from_edge / OVERLAP, 1).astype(np.float32)

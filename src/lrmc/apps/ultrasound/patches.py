"""Tissue as a matrix of low rank, in overlapping patches that are blended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import _kernels
from ..._progress import Progress, Tell
from ..._work import SOUND, Outcome
from ...linalg import power_of_4
from ...methods.noisy import Noise
from ...methods.rested import polished, start
from ...observations._door import as_observations
from ...result import Status
from ...weights import Array, Sides
from ..outcome import diverged, run_to_end
from .medians import TOLD_BY, row_median

OVERLAP = 8  # pixels that neighbouring patches share
# Of rank 1: sweeps at most, and the relative change of the tissue at which they end.
ROUNDS = 30
SETTLED = 1e-3
WORK = 100  # operations for an entry, about


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

    def gains(
        self,
        frames: Array,
        seen: Array,
        places: Sequence[tuple[int, int, int, int]],
    ) -> Array:
        """The same for rank 1, (frames, height, width), of patches (top, left, height, width) that
        are blended: a gain for each frame times a brightness for each pixel, all by one kernel.
        """
        model = np.empty(frames.shape, np.float32)
        report = np.empty((len(places), 6))
        _kernels.patches(
            _kernels.ready(frames, np.float32),
            _kernels.ready(seen, bool).view(np.uint8),
            np.array(places, np.int64),
            least=self.least,
            both=self.outliers == "both",
            told_by=TOLD_BY,
            rounds=ROUNDS,
            settled=SETTLED,
            overlap=OVERLAP,
            model=model,
            report=report,
            threads=_kernels.threads_for(WORK * frames.size, _kernels.max_threads()),
        )
        lively, fitted = report[:, 0], report[:, 2] > 0
        self.fitted += int(lively[fitted].sum())
        self.given_up += int(lively[~fitted].sum())
        if not np.isfinite(model).all():
            raise diverged("the tissue")
        return model

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
    side = max(height, width) if patch is None else patch
    places = [
        (top, left, min(side, height), min(side, width))
        for top in _starts(height, side)
        for left in _starts(width, side)
    ]
    if fit.rank == 1:
        return fit.gains(frames, seen, places)
    model = np.zeros(frames.shape, np.float32)
    total = np.zeros((height, width), np.float32)
    for n, (top, left, high, wide) in enumerate(places):
        down, across = slice(top, top + high), slice(left, left + wide)
        here = slice(None), down, across
        weight = np.outer(_ramp(high), _ramp(wide))
        # Small: threads would only wait.
        threads = 1 if len(places) > 1 else None
        model[here] += weight * fit(frames[here], seen[here], threads)
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

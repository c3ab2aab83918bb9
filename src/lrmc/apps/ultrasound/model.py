"""Ultrasound: tissue that stays (or breathes) and blood or bubbles that flow, apart."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..._extras import optional
from ..._files import whole_folder
from ...linalg import power_of_4
from ...methods.default import polished, start
from ...methods.noisy import Noise
from ...observations._door import as_observations
from ...result import Status
from ...weights import Array, Sides
from ..outcome import SOUND, Limits, Outcome, Told, after_clipping, run_to_end
from ..stack import check_rank, check_seed, check_share, is_whole
from .cines import Time, read_cine
from .motion import Motion, follow

PATCH = 32  # pixels, as in the paper: 1024 x T matrices
OVERLAP = 8  # pixels that neighbouring patches share
BEYOND_NOISE = 2.5  # standard deviations of the noise: less is not called blood
FEWEST_FRAMES = 4


@dataclass(frozen=True, eq=False)
class Separated(Told):
    """What a cine is made of, each (frames, height, width) and of floats in the units of the cine."""

    tissue: Array
    blood: Array  # what differs from the tissue by more than the noise; 0 elsewhere
    noise: float  # its standard deviation
    motion: Motion | None  # None: the tissue was taken to be at rest
    outliers: Sides  # on which side of the tissue blood was looked for
    outcome: Outcome = SOUND  # of the fits, and of what was made of them
    clipped: int = 0  # values of the tissue that were far outside what was observed

    @property
    def power(self) -> Array:
        """The mean square of the blood over time, (height, width): what power Doppler shows."""
        return np.mean(self.blood**2, axis=0)


def separate(
    cine: Any,
    *,
    rank: int = 1,
    patch: int | None = PATCH,
    motion: bool = True,
    sample: float = 1.0,
    outliers: Literal["auto", "both", "positive"] = "auto",
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Separated:
    """Tissue and blood of a cine: real numbers (frames, height, width); NaN is not observed.

    The tissue is a matrix of low rank, pixels x frames, in overlapping patches of `patch` x `patch` pixels that are
    blended, or as a whole (patch=None). With `motion`, frames are first brought into register, if that makes them more
    alike; what moved out of the picture is missing then. (A cine with gaps is taken to be at rest.) `sample` is the
    share of the pixels that the low-rank fit looks at; motion, and what is at rest, are seen from all.
    Blood and bubbles are brighter than tissue where the cine has no negative values (B-mode, envelopes), so that
    outliers="auto" is "positive" there and "both" for signed data. `progress` is called with a stage and its share.
    A fit that diverges is an error, `lrmc.apps.outcome.FitFailed`; `status` and `warnings` of the answer tell the rest.
    """
    frames = as_cine(cine)
    _check(frames, rank, patch, sample, outliers, seed)
    tell = progress or (lambda stage, done: None)
    sides: Sides = ("both" if np.nanmin(frames) < 0 else "positive") if outliers == "auto" else outliers
    known, least = np.isfinite(frames), grey_level(frames)
    usual, fixed = _at_rest(frames, least)
    moving = follow(frames, fixed, lambda done: tell("motion", done)) if motion and known.all() else None
    still, seen = (frames, known) if moving is None else moving.registered(frames, fixed)
    if sample < 1:
        seen = seen & (np.random.default_rng(seed).random(seen.shape, np.float32) < sample)
    fit = _Fit(rank, sides, seed, least)
    model = _patchwise(still, seen, fit, patch, lambda done: tell("low rank", done))
    tissue = model if moving is None else np.stack([moving.restored(t, model[t]) for t in range(len(model))])
    tissue[:, fixed] = usual[fixed]
    limits = Limits(np.nanmin(frames).astype(np.float64), np.nanmax(frames).astype(np.float64))
    tissue, clipped = limits.held(tissue, "the tissue")
    outcome = after_clipping(fit.outcome(), clipped, tissue.size, limits)
    blood, noise = beyond_noise(frames - tissue, sides, least)
    return Separated(tissue, blood, noise, moving, sides, outcome, clipped)


def as_cine(cine: Any) -> Array:
    """Single-precision frames, or a sentence that says what is wrong."""
    frames = np.asarray(cine)
    if frames.dtype.kind == "c":
        raise ValueError("the cine has complex numbers; take the envelope first: numpy.abs(cine)")
    if frames.dtype.kind not in "fiub":
        raise ValueError(f"the cine is of type {frames.dtype}; real numbers are wanted")
    if frames.ndim != 3:
        raise ValueError(f"the cine has shape {frames.shape}; (frames, height, width) is wanted")
    if len(frames) < FEWEST_FRAMES:
        count = f"{len(frames)} frame{'' if len(frames) == 1 else 's'}"
        raise ValueError(f"the cine has {count}; what moves cannot be told with fewer than {FEWEST_FRAMES}")
    if min(frames.shape[1:]) < 8:
        raise ValueError(f"the frames have {frames.shape[1]} x {frames.shape[2]} pixels; at least 8 x 8 are wanted")
    frames = frames.astype(np.float32)
    if np.isinf(frames).any():
        raise ValueError("the cine has infinite values; NaN is for what was not observed")
    if not np.isfinite(frames).any():
        raise ValueError("the cine has no observed values")
    return frames


def grey_level(frames: Array) -> float:
    """Half of one of 256 grey levels: what changes by less does not change."""
    some = np.abs(frames[:: len(frames) // 16 + 1])
    return float(np.nanquantile(some, 0.999)) / 512


def _at_rest(frames: Array, least: float) -> tuple[Array, Array]:
    """The median of every pixel over time, and which pixels mostly keep to it: black surroundings, text."""
    rows = frames.reshape(len(frames), -1).T
    usual = _row_median(rows)
    fixed = _row_median(np.abs(rows - usual[:, None])) <= least
    return usual.reshape(frames.shape[1:]), fixed.reshape(frames.shape[1:])


def beyond_noise(residual: Array, outliers: Sides, least: float = 0.0) -> tuple[Array, float]:
    """What of the residual is more than noise, and the standard deviation of that.

    If blood is bright, what lies below the tissue tells the noise; else the median size does. Residuals of `least` or
    less tell nothing: around the picture all is black.
    """
    known = residual[np.abs(residual) > least]  # nor does NaN
    if not len(known):
        return np.zeros_like(residual), 0.0
    if outliers == "positive":
        below = known[known < 0]
        noise = float(np.sqrt(np.mean(below.astype(np.float64) ** 2))) if len(below) else 0.0
        found = residual > BEYOND_NOISE * noise
    else:
        noise = 1.4826 * float(np.median(np.abs(known)))
        found = np.abs(residual) > BEYOND_NOISE * noise
    return np.where(found, residual, np.float32(0)), noise


def _check(frames: Array, rank: int, patch: int | None, sample: float, outliers: str, seed: int) -> None:
    if outliers not in ("auto", "both", "positive"):
        raise ValueError(f"outliers={outliers!r}; one of auto, both, positive is wanted")
    if rank is None:
        raise ValueError("rank=None; the tissue needs one: 1, or more where it changes in several ways")
    check_rank(rank, len(frames), "frames")
    if patch is not None and not (is_whole(patch) and patch >= 2 * OVERLAP):
        raise ValueError(f"patches of {patch} pixels; at least {2 * OVERLAP} are wanted, or none for the whole frames")
    check_share(sample)
    check_seed(seed)


# ---- low rank in patches


@dataclass
class _Fit:
    """The low-rank part of a stack of patches: the closed loop until it rests at the noise, then a few sweeps.

    Pixels that mostly stay the same, to `least`, are left out, and are their medians: a black surrounding has no noise,
    and would have all that is bright taken for outliers. How the fits ended is remembered.
    """

    rank: int
    outliers: Sides
    seed: int
    least: float
    fitted: int = 0  # pixels of all patches
    given_up: int = 0  # those with fewer observations than unknowns: they are their medians

    def outcome(self) -> Outcome:
        """Of all patches together."""
        if self.given_up <= self.fitted:
            return SOUND
        text = "most of the picture has fewer observations than a tissue of this rank has unknowns"
        text = f"{text}, and is its median over time: give a smaller rank, or a larger sample"
        return SOUND.warned(text, Status.UNDETERMINED)

    def __call__(self, frames: Array, seen: Array, threads: int | None) -> Array:
        """(frames, height, width)."""
        rows, mask = (X.reshape(len(X), -1).T for X in (frames, seen))
        known = rows if mask.all() else np.where(mask, rows, np.float32(np.nan))
        usual = _row_median(known)
        lively = _row_median(np.abs(known - usual[:, None])) > self.least
        model = np.repeat(np.where(np.isfinite(usual), usual, _mean(rows, mask))[:, None], rows.shape[1], 1)
        pixels = int(np.count_nonzero(lively))
        if np.count_nonzero(mask[lively]) > self.rank * (pixels + rows.shape[1]):
            model[lively] = self._low_rank(rows[lively], mask[lively], threads)
            self.fitted += pixels
        else:
            self.given_up += pixels
        return model.T.reshape(frames.shape)

    def _low_rank(self, rows: Array, mask: Array, threads: int | None) -> Array:
        obs = as_observations(rows, None if mask.all() else mask, threads=threads)
        unit = power_of_4(obs.scale)
        obs = obs.scaled(1 / unit)
        noise = Noise.even(obs, "mixture", self.outliers)
        steps = polished(obs, start(obs, self.rank, self.seed), noise)
        X, _ = run_to_end(obs, steps, "the tissue")  # with enough observations: nothing to warn about
        return (X.L * X.L.dtype.type(unit)) @ X.R.T


def _row_median(rows: Array) -> Array:
    """Of what is not NaN; NaN where nothing is."""
    ordered = np.sort(rows, axis=1)  # NaN come last
    count = np.sum(np.isfinite(ordered), axis=1)
    low, high = (
        np.take_along_axis(ordered, at[:, None], 1)[:, 0]
        for at in (np.maximum(count - 1, 0) // 2, np.minimum(count // 2, rows.shape[1] - 1))
    )
    return (low + np.where(count > 0, np.where(count % 2, low, high), low)) / 2


def _mean(rows: Array, mask: Array) -> np.float32:
    return np.float32(np.mean(rows[mask], dtype=np.float64) if mask.any() else 0.0)


def _patchwise(frames: Array, seen: Array, fit: _Fit, patch: int | None, tell: Callable[[float], None]) -> Array:
    """The fit in overlapping patches, blended where they overlap; or of the whole frames."""
    height, width = frames.shape[1:]
    if patch is None or max(height, width) <= patch:
        return fit(frames, seen, None)
    model = np.zeros(frames.shape, np.float32)
    total = np.zeros((height, width), np.float32)
    places = [(top, left) for top in _starts(height, patch) for left in _starts(width, patch)]
    for n, (top, left) in enumerate(places):
        here = slice(None), slice(top, min(top + patch, height)), slice(left, min(left + patch, width))
        weight = np.outer(*(_ramp(side.stop - side.start) for side in here[1:]))
        model[here] += weight * fit(frames[here], seen[here], 1)  # small: threads would only wait
        total[here[1:]] += weight
        tell((n + 1) / len(places))
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


# ---- files


@dataclass(frozen=True, eq=False)
class Written:
    """What `separate_file` made."""

    parts: Separated
    files: tuple[Path, ...]
    seconds: float  # reading and writing aside


def separate_file(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    time: Time = "auto",
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> Written:
    """Tissue and blood of a cine in a file, as files in a folder that appear together or not at all.

    `source`, `name` and `time` as for `read_cine`, `options` as for `separate`. Written are `tissue` and `blood` (npy,
    npz or mat, as the source; npz for DICOM), `power.png` in decibels, and `report.html`.
    """
    optional("PIL.Image", "report")
    with whole_folder(folder) as temporary:  # first: a folder that cannot be written is told before the work
        cine = read_cine(source, name=name, time=time)
        frames = as_cine(cine.frames)
        began = clock.perf_counter()
        parts = separate(frames, progress=progress, **options)
        seconds = clock.perf_counter() - began
        files = [cine.write(temporary, stem, getattr(parts, stem)) for stem in ("tissue", "blood")]
        files += [_write_picture(temporary / "power.png", decibels(parts.power))]
        files += [_write_report(temporary / "report.html", Path(source).name, frames, parts, seconds)]
    return Written(parts, tuple(Path(folder) / file.name for file in files), seconds)


def decibels(power: Array, lowest: float = -40.0) -> Array:
    """Power from 0 (`lowest` decibels below the largest, or less) to 1."""
    largest = float(np.nanmax(power, initial=0.0))
    if largest <= 0:
        return np.zeros(power.shape, np.float32)
    level = 10 * np.log10(np.maximum(np.nan_to_num(power) / largest, 1e-30))
    return np.clip(1 - level / lowest, 0, 1).astype(np.float32)


def _write_picture(path: Path, picture: Array) -> Path:
    from ...report.images import as_bytes

    optional("PIL.Image", "report").fromarray(as_bytes(picture)).save(path)
    return path


def _write_report(path: Path, name: str, frames: Array, parts: Separated, seconds: float) -> Path:
    from ...report import BeforeAfter, Facts, Frames, Section, Words, write_report

    low, high = (float(np.nanquantile(frames[:: len(frames) // 32 + 1], q)) for q in (0.001, 0.999))
    low = min(low, 0.0) if parts.outliers == "both" else 0.0
    span = max(high - low, 1e-30)
    seen = [_Shown(film, low, span) for film in (frames, parts.tissue)]
    bright = float(np.quantile(flow, 0.99)) if len(flow := np.abs(parts.blood[parts.blood != 0])) else 1.0
    blood = _Shown(parts.blood, 0.0, bright, size=True)
    k = int(np.argmax(np.nansum(np.abs(parts.blood), axis=(1, 2))))
    count, height, width = frames.shape
    moved = (
        "at rest"
        if parts.motion is None
        else f"{parts.motion.typical:.1f} pixels (at most {parts.motion.farthest:.1f})"
    )
    facts = {
        "frames": count,
        "pixels": f"{width} x {height}",
        "motion of the tissue": moved,
        "noise": parts.noise,
        "blood or bubbles": f"{np.mean(parts.blood != 0):.1%} of the pixels",
        "seconds": seconds,
        "fit": str(parts.status),
    }
    side = "brighter than the tissue" if parts.outliers == "positive" else "different from the tissue"
    about = f"Blood and bubbles are what is {side} by more than {BEYOND_NOISE} times the noise."
    sections: list[Section] = [
        Facts("In short", facts),
        *parts.outcome.sections(),
        Frames("The cine", {"original": seen[0], "tissue": seen[1], "blood or bubbles": blood}, caption=about),
        BeforeAfter(
            "With and without blood",
            seen[0][k],
            seen[1][k],
            f"Frame {k + 1} of {count}, which shows most blood: drag, or use the arrow keys.",
            ("original", "tissue"),
        ),
        BeforeAfter(
            "Where it flows",
            _Shown(np.nanmean(frames, axis=0, keepdims=True), low, span)[0],
            decibels(parts.power),
            "The mean of all frames, and the power of blood or bubbles over time from -40 to 0 decibels.",
            ("mean", "power"),
        ),
        Words(
            "How",
            [
                "Tissue is what stays the same but for a gain, in small patches, after its motion is undone. "
                "This is not for diagnosis."
            ],
        ),
    ]
    return write_report(path, "Tissue and blood", sections, subtitle=name)


class _Shown(Sequence[Any]):
    """Frames from black to white, made when they are asked for."""

    def __init__(self, frames: Array, low: float, span: float, size: bool = False) -> None:
        self.frames, self.low, self.span, self.size = frames, low, span, size

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, k: Any) -> Any:
        frame = np.abs(self.frames[k]) if self.size else self.frames[k]
        return ((frame - self.low) / self.span).astype(np.float32)

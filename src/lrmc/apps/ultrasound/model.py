"""Ultrasound: tissue that stays (or breathes) and blood or bubbles that flow, apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..._progress import Tell, silent
from ..._work import SOUND, Outcome
from ...result import Status
from ...weights import Array, Sides
from ..outcome import Limits, Told, after_clipping, shown
from ..stack import check_rank, check_seed, check_share, is_whole
from .blood import deviation_without, found_blood, too_bright
from .films import time_is_last
from .flow import doppler
from .iq import blended
from .medians import median_frame, some_frames
from .motion import Motion, follow
from .patches import OVERLAP, Fit, patchwise

PATCH = 32  # pixels, as in the paper: 1024 x T matrices
FEWEST_FRAMES = 4


@dataclass(frozen=True, eq=False)
class Separated(Told):
    """Tissue and blood of a cine, in its units: what `separate` gives.

    Attributes
    ----------
    tissue, blood : arrays of shape (frames, height, width)
        The two parts, complex for a complex (IQ) cine. Blood is what differs from the tissue by more
        than the noise, and 0 elsewhere.
    noise : float
        Standard deviation of the noise; of IQ, its root mean square modulus.
    deviation : array of shape (height, width)
        By how much a pixel without blood differs from its tissue: a standard deviation, of IQ that of
        the modulus. NaN where there always is blood.
    motion : Motion or None
        Where the tissue went; None if it was taken to be at rest.
    outliers : {"both", "positive", "negative"}
        On which side of the tissue blood was looked for.
    outcome : Outcome
        How the fits ended, and what was made of them; `status` and `warnings` are short for its own.
    clipped : int
        Number of values of the tissue that the cine could not have.
    rank : int
        Rank of the tissue; of IQ, the largest of all windows.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import ultrasound
    >>> rng = np.random.default_rng(0)
    >>> cine = rng.uniform(1, 2, (32, 32)) * rng.uniform(0.9, 1.1, (20, 1, 1))
    >>> done = ultrasound.separate(cine, motion=False)
    >>> done.tissue.shape, done.power.shape, done.doppler is None
    ((20, 32, 32), (32, 32), True)
    """

    tissue: Array
    blood: Array
    noise: float
    deviation: Array
    motion: Motion | None
    outliers: Sides
    outcome: Outcome = SOUND
    clipped: int = 0
    rank: int = 1

    @property
    def power(self) -> Array:
        """The mean square of the blood over time, (height, width): what power Doppler shows."""
        return np.nanmean(np.abs(self.blood) ** 2, axis=0)

    @property
    def lit(self) -> Array:
        """The share of the frames in which blood was found, (height, width). From a quarter on, the
        `deviation` of real cines is not to be trusted: their tissue is seldom seen alone.
        """
        found = np.nan_to_num(self.blood) != 0
        return np.asarray(found.mean(axis=0, dtype=np.float32))

    @property
    def doppler(self) -> Array | None:
        """The mean Doppler frequency of blood in cycles per frame, (height, width), from -0.5 to
        0.5: what color Doppler shows. NaN without blood; None for real cines, which have no phase.
        """
        return doppler(self.blood) if np.iscomplexobj(self.blood) else None


def separate(
    cine: ArrayLike,
    *,
    rank: int | None = None,
    patch: int | None = PATCH,
    motion: bool = True,
    sample: float = 1.0,
    outliers: Literal["auto", "both", "positive"] = "auto",
    seed: int = 0,
    progress: Tell | None = None,
) -> Separated:
    """Separate tissue and blood (or microbubbles) of an ultrasound cine.

    The tissue is a low-rank matrix, pixels x frames. In complex (IQ) data its motion is in the
    phase, so that `patch`, `motion`, `sample` and `outliers` are for real data alone.

    Parameters
    ----------
    cine : array of real or complex numbers
        (frames, height, width); NaN is not observed.
    rank : int, optional
        Rank of the tissue. If not given: 1, and of IQ as many as the median pixel shows.
    patch : int, optional
        Side of overlapping patches that are fitted one by one and blended; None fits the whole.
    motion : bool, default True
        Bring frames into register first, if that makes them more alike; what moved out of the
        picture is missing then. A cine with gaps is taken to be at rest.
    sample : float, default 1.0
        Fraction of the pixels that the low-rank fit looks at; motion, and what is at rest, are seen
        from all.
    outliers : {"auto", "both", "positive"}, default "auto"
        On which side of the tissue blood lies. It is brighter where the cine has no negative values
        (B-mode, envelopes): "auto" is "positive" there, and "both" for signed data.
    seed : int, default 0
        Seed of the draw.
    progress : callable, optional
        Called with each `Progress`.

    Returns
    -------
    Separated
        `tissue`, `blood`, `power`, `doppler`, `noise`, `deviation`, `lit`, `motion`, `rank`,
        `status` and `warnings`.

    Raises
    ------
    ValueError
        If the cine or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If a fit diverged.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import ultrasound
    >>> rng = np.random.default_rng(0)
    >>> cine = rng.uniform(1, 2, (32, 32)) * rng.uniform(0.9, 1.1, (20, 1, 1))
    >>> cine[7, 10, 12] += 5  # a bubble
    >>> done = ultrasound.separate(cine, motion=False)
    >>> bool(done.blood[7, 10, 12] > 4)
    True
    """
    frames = as_cine(cine)
    _check(frames, rank, patch, sample, outliers, seed)
    tell = progress or silent
    if np.iscomplexobj(frames):
        return _with_time(frames, _separate_iq(frames, rank, seed, tell))
    rank = rank or 1
    sides = _sides(frames) if outliers == "auto" else outliers
    known = np.isfinite(frames)
    least = grey_level(frames)
    usual, fixed = _at_rest(frames, least)
    moving = follow(frames, fixed, tell) if motion and known.all() else None
    still, seen = (
        (frames, known) if moving is None else moving.registered(frames, fixed)
    )
    if sample < 1:
        seen = seen & (
            np.random.default_rng(seed).random(seen.shape, np.float32) < sample
        )
    fit = Fit(rank, sides, seed, least)
    model = patchwise(still, seen, fit, patch, tell)
    tissue = model if moving is None else moving.restored(model)
    tissue[:, fixed] = usual[fixed]
    limits = Limits.of(frames)
    tissue, clipped = limits.held(tissue, "the tissue")
    outcome = after_clipping(fit.outcome(), clipped, tissue.size, limits)
    lit: Array | float = 0.0
    if sides == "positive":
        lit = _lower(tissue, frames, least)
        tissue, darker = shown(tissue, float(limits.low))
        clipped += darker
    rest = frames - tissue
    found = found_blood(rest, tissue, sides, least, lit)
    parts = Separated(
        tissue,
        found.blood,
        found.noise,
        found.deviation,
        moving,
        sides,
        outcome=found.told(outcome),
        clipped=clipped,
        rank=rank,
    )
    return _with_time(frames, parts)


def _with_time(frames: Array, parts: Separated) -> Separated:
    """With a word about frames that look as if time were another axis."""
    if not time_is_last(frames):
        return parts
    outcome = parts.outcome.warned(
        f"{len(frames)} frames of {frames.shape[1]} x {frames.shape[2]} pixels change far less"
        " along their last axis than from frame to frame: is that one time? Give frames x"
        " height x width, or say that time is last",
        Status.UNDETERMINED,
    )
    return replace(parts, outcome=outcome)


def _separate_iq(frames: Array, rank: int | None, seed: int, tell: Tell) -> Separated:
    tissue, blood, found = blended(frames, rank, seed, tell)
    noise = float(np.sqrt(np.mean([window.found.noise for window in found])))
    outcome = next((w.doubt for w in found if w.doubt is not SOUND), SOUND)
    most = max(window.found.rank for window in found)
    deviation = deviation_without(blood != 0, frames - tissue)
    return Separated(
        tissue, blood, noise, deviation, None, "both", outcome=outcome, rank=most
    )


def _lower(tissue: Array, frames: Array, least: float) -> Array:
    """Take away, in place, what is bubbles that were seldom away: (height, width)."""
    some = some_frames(len(frames))
    lit = too_bright(frames[some] - tissue[some], tissue[some], least)
    tissue -= lit
    return lit


def _sides(frames: Array) -> Sides:
    return "both" if np.nanmin(frames) < 0 else "positive"


def as_cine(cine: ArrayLike) -> Array:
    """Single-precision frames, or a sentence that says what is wrong."""
    frames = np.asarray(cine)
    if frames.dtype.kind not in "fiubc":
        raise ValueError(f"the cine is of type {frames.dtype}; numbers are wanted")
    if frames.ndim != 3:
        raise ValueError(
            f"the cine has shape {frames.shape}; (frames, height, width) is wanted"
        )
    if len(frames) < FEWEST_FRAMES:
        count = f"{len(frames)} frame{'' if len(frames) == 1 else 's'}"
        raise ValueError(
            f"the cine has {count}; what moves cannot be told with fewer than"
            f" {FEWEST_FRAMES}"
        )
    if min(frames.shape[1:]) < 8:
        raise ValueError(
            f"the frames have {frames.shape[1]} x {frames.shape[2]} pixels; at least 8"
            " x 8 are wanted"
        )
    kind = np.complex64 if frames.dtype.kind == "c" else np.float32
    frames = frames.astype(kind, copy=False)
    if np.isinf(frames).any():
        raise ValueError(
            "the cine has infinite values; NaN is for what was not observed"
        )
    if not np.isfinite(frames).any():
        raise ValueError("the cine has no observed values")
    return frames


def grey_level(frames: Array) -> float:
    """Half of one of 256 grey levels: what changes by less does not change."""
    some = np.abs(frames[:: len(frames) // 16 + 1])
    return float(np.nanquantile(some, 0.999)) / 512


def _at_rest(frames: Array, least: float) -> tuple[Array, Array]:
    """The median of every pixel over time, and which pixels mostly keep to it: black surroundings,
    text.
    """
    some = frames[some_frames(len(frames))]
    usual = median_frame(some)
    return usual, median_frame(np.abs(some - usual)) <= least


def _check(
    frames: Array,
    rank: int | None,
    patch: int | None,
    sample: float,
    outliers: str,
    seed: int,
) -> None:
    if outliers not in ("auto", "both", "positive"):
        raise ValueError(
            f"outliers={outliers!r}; one of auto, both, positive is wanted"
        )
    if rank is not None:
        check_rank(rank, len(frames), "frames")
    if np.iscomplexobj(frames) and (sample != 1 or outliers == "positive"):
        raise ValueError(
            f"sample={sample} and outliers={outliers!r} are for real cines; leave them out for IQ"
        )
    if patch is not None and not (is_whole(patch) and patch >= 2 * OVERLAP):
        raise ValueError(
            f"patches of {patch} pixels; at least {2 * OVERLAP} are wanted, or none for"
            " the whole frames"
        )
    check_share(sample)
    check_seed(seed)

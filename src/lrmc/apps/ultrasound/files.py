"""Cines in files, taken apart: tissue and blood as cines, the power of the blood, and a report."""

from __future__ import annotations

import os
import time as clock
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._extras import optional
from ..._files import whole_folder
from ..._progress import Progress, Tell, silent
from ..._work import Outcome, moved
from ...report import (
    BeforeAfter,
    Facts,
    Files,
    Frames,
    Gallery,
    Section,
    Words,
    write_report,
)
from ...report.images import Lazy, as_bytes
from ...weights import Array
from ..outcome import share_clipped
from .blood import BEYOND_NOISE
from .cines import Time, read_cine
from .model import Separated, as_cine, separate

LOWEST = -40.0  # decibels below the largest power, which are shown as black
IQ_RANGE = -60.0  # the same for the modulus of IQ
# Quantiles of the cine that are shown as black and white.
DARKEST, BRIGHTEST = 0.001, 0.999
BRIGHT_BLOOD = 0.99  # quantile of the blood that is shown as white
FASTEST = 0.9  # quantile of Doppler frequencies that is shown in the brightest color
LOOKED_AT = 32  # frames that tell the quantiles, about


@dataclass(frozen=True, eq=False, kw_only=True)
class Processed(Outcome):
    """What `process` made. Its seconds are without reading and writing."""

    parts: Separated


def process(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    time: Time = "auto",
    progress: Tell | None = None,
    **options: Any,
) -> Processed:
    """Separate tissue and blood of a cine in a file: what `lrmc ultrasound` does.

    The folder gets `tissue`, `blood`, `deviation` and `lit` (npy, npz or mat, as the source; npz
    for others), `power.png` in decibels, of IQ `doppler.png`, and `report.html`, together or not at all.

    Parameters
    ----------
    source : path
        npy, npz, mat (7.3 too), HDF5, zarr, NIfTI, DICOM, films or pictures; real numbers, or complex ones (IQ).
    folder : path
        The folder to make.
    name : str, optional
        Which variable of a file that holds several.
    time : {"auto", "first", "last"}, default "auto"
        Which axis of the array is time.
    progress : callable, optional
        Called with each `Progress`.
    **options
        Those of `separate`.

    Returns
    -------
    Processed
        Files, report, status, warnings and seconds, and the parts.

    Raises
    ------
    ValueError
        If the input or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If a fit diverged; nothing is written then.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import ultrasound
    >>> rng = np.random.default_rng(0)
    >>> cine = rng.uniform(1, 2, (32, 32)) * rng.uniform(0.9, 1.1, (20, 1, 1))
    >>> cine[7, 10, 12] += 5  # a bubble
    >>> np.save("cine.npy", cine)
    >>> done = ultrasound.process("cine.npy", "out", motion=False, time="first")
    >>> [file.name for file in done.files]
    ['tissue.npy', 'blood.npy', 'deviation.npy', 'lit.npy', 'power.png', 'report.html']
    """
    optional("PIL.Image", "report")
    # First: a folder that cannot be written is told before the work.
    with whole_folder(folder) as temporary:
        cine = read_cine(source, name=name, time=time)
        frames = as_cine(cine.frames)
        began = clock.perf_counter()
        parts = separate(frames, progress=progress, **options)
        seconds = clock.perf_counter() - began
        sections = _sections(frames, parts, seconds)
        tell = progress or silent
        tell(Progress("writing", 0, 1))
        files = [
            cine.write(temporary, "tissue", parts.tissue),
            cine.write(temporary, "blood", parts.blood),
            cine.write(temporary, "deviation", parts.deviation),
            cine.write(temporary, "lit", parts.lit),
            _write_picture(temporary / "power.png", decibels(parts.power)),
        ]
        if parts.doppler is not None:
            colors = color_doppler(parts.doppler, parts.power)
            files.append(_write_picture(temporary / "doppler.png", colors))
        page = write_report(
            temporary / "report.html",
            "Tissue and blood",
            [*sections, Files.in_folder(temporary)],
            subtitle=Path(source).name,
        )
        tell(Progress("writing", 1, 1))
    written = moved((*files, page), folder)
    return Processed(
        parts=parts,
        status=parts.status,
        warnings=parts.warnings,
        files=written,
        seconds=seconds,
        report=written[-1],
    )


separate_file = process  # by this name it is known, too


def decibels(power: Array, lowest: float = LOWEST) -> Array:
    """Power from 0 (`lowest` decibels below the largest, or less) to 1."""
    largest = float(np.nanmax(power, initial=0.0))
    if largest <= 0:
        return np.zeros(power.shape, np.float32)
    level = 10 * np.log10(np.maximum(np.nan_to_num(power) / largest, 1e-30))
    return np.clip(1 - level / lowest, 0, 1).astype(np.float32)


def color_doppler(frequency: Array, power: Array) -> Array:
    """Red where blood comes nearer (a positive frequency), blue where it goes away: (..., 3). The
    faster the brighter, up to the fastest tenth; faint where its power is.
    """
    fast = np.nan_to_num(frequency)
    known = np.abs(fast[fast != 0])
    top = float(np.quantile(known, FASTEST)) if len(known) else 1.0
    level = np.clip(np.abs(fast) / max(top, 1e-30), 0, 1) * np.sqrt(decibels(power))
    zero = np.zeros_like(level)
    sides = (np.where(fast > 0, level, 0), zero, np.where(fast < 0, level, 0))
    return np.stack([*sides], axis=-1).astype(np.float32)


def _write_picture(path: Path, picture: Array) -> Path:
    optional("PIL.Image", "report").fromarray(as_bytes(picture)).save(path)
    return path


# ---- showing


def _sections(frames: Array, parts: Separated, seconds: float) -> list[Section]:
    if parts.doppler is not None:
        return _iq_sections(frames, parts, seconds)
    low, span = _grey_scale(frames, parts)
    original = _shown(frames, low, span)
    tissue = _shown(parts.tissue, low, span)
    bright = _bright(parts.blood)
    blood = Lazy(lambda k: np.abs(parts.blood[k]) / np.float32(bright), len(frames))
    mean = np.nanmean(frames, axis=0, keepdims=True)
    most = int(np.argmax(np.nansum(np.abs(parts.blood), axis=(1, 2))))
    side = (
        "brighter than the tissue"
        if parts.outliers == "positive"
        else "different from the tissue"
    )
    return [
        Facts("In short", _facts(frames, parts, seconds)),
        *parts.outcome.sections(),
        Frames(
            "The cine",
            {"original": original, "tissue": tissue, "blood or bubbles": blood},
            caption=f"Blood and bubbles are what is {side} by more than {BEYOND_NOISE}"
            " times the noise.",
        ),
        BeforeAfter(
            "With and without blood",
            original[most],
            tissue[most],
            f"Frame {most + 1} of {len(frames)}, which shows most blood: drag, or use"
            " the arrow keys.",
            ("original", "tissue"),
        ),
        BeforeAfter(
            "Where it flows",
            _shown(mean, low, span)[0],
            decibels(parts.power),
            "The mean of all frames, and the power of blood or bubbles over time from"
            " -40 to 0 decibels.",
            ("mean", "power"),
        ),
        _how_sure(parts),
        Words(
            "How",
            [
                "Tissue is what stays the same but for a gain, in small patches, after"
                " its motion is undone. "
                "This is not for diagnosis."
            ],
        ),
    ]


def _iq_sections(frames: Array, parts: Separated, seconds: float) -> list[Section]:
    """Of IQ, moduli are shown, in decibels."""
    assert parts.doppler is not None
    largest = float(np.nanmax(np.abs(frames)))
    original, tissue, blood = (
        _in_decibels(x, largest) for x in (frames, parts.tissue, parts.blood)
    )
    power = decibels(parts.power)
    return [
        Facts("In short", _facts(frames, parts, seconds)),
        *parts.outcome.sections(),
        Frames(
            "The cine",
            {"modulus": original, "tissue": tissue, "blood": blood},
            caption=f"Moduli, {-IQ_RANGE:.0f} decibels below the largest are black.",
        ),
        BeforeAfter(
            "Where it flows",
            decibels(np.nanmean(np.abs(frames) ** 2, axis=0), IQ_RANGE),
            power,
            "The mean power of all frames, and power Doppler from -40 to 0 decibels.",
            ("all", "blood"),
        ),
        BeforeAfter(
            "Which way it flows",
            np.repeat(power[..., None], 3, axis=-1),
            color_doppler(parts.doppler, parts.power),
            "Power, and color Doppler: red has positive frequencies, blue negative ones.",
            ("power", "direction"),
        ),
        _how_sure(parts),
        Words(
            "How",
            [
                "Tissue is what most pixels do in slow time; blood is what a Wiener filter"
                " with the spectrum of each pixel's neighbourhood keeps of the rest. This"
                " is not for diagnosis."
            ],
        ),
    ]


def _how_sure(parts: Separated) -> Section:
    """A picture of standard deviations."""
    spread = parts.deviation
    known = spread[np.isfinite(spread)]
    top = float(np.quantile(known, BRIGHT_BLOOD)) if known.size else 1.0
    shown = np.where(np.isfinite(spread), spread / max(top, 1e-30), 1.0)
    caption = (
        "By how much pixels without blood differ from their tissue, a standard deviation"
        f" over time: white is {top:.3g}, or not known (always blood). Where"
        " a quarter of the frames or more have blood, it is not to be trusted (too small)."
    )
    pictures = [np.minimum(shown, 1).astype(np.float32), parts.lit]
    names = ["standard deviation", "share of the frames with blood"]
    return Gallery("How sure the tissue is", pictures, names, caption)


def _in_decibels(frames: Array, largest: float) -> Lazy:
    """Moduli from 0 (`IQ_RANGE` below the largest) to 1."""

    def shown(k: int) -> Array:
        ratio = np.nan_to_num(np.abs(frames[k])) / max(largest, 1e-30)
        level = 20 * np.log10(np.maximum(ratio, 1e-15))
        return np.clip(1 - level / IQ_RANGE, 0, 1).astype(np.float32)

    return Lazy(shown, len(frames))


def _facts(frames: Array, parts: Separated, seconds: float) -> dict[str, object]:
    count, height, width = frames.shape
    motion = parts.motion
    if np.iscomplexobj(frames):
        moved = "by its phase"
    else:
        moved = (
            "at rest"
            if motion is None
            else f"{motion.typical:.1f} pixels (at most {motion.farthest:.1f})"
        )
    return {
        "frames": count,
        "pixels": f"{width} x {height}",
        "motion of the tissue": moved,
        "rank of the tissue": parts.rank,
        "noise": parts.noise,
        "blood or bubbles": f"{np.mean(parts.blood != 0):.1%} of the pixels",
        "clipped": share_clipped(parts.clipped, parts.tissue.size),
        "seconds": seconds,
        "fit": str(parts.status),
    }


def _grey_scale(frames: Array, parts: Separated) -> tuple[float, float]:
    """The value that is shown as black, and how far white is above it."""
    some = frames[:: len(frames) // LOOKED_AT + 1]
    low, high = (float(np.nanquantile(some, q)) for q in (DARKEST, BRIGHTEST))
    black = min(low, 0.0) if parts.outliers == "both" else 0.0
    return black, max(high - black, 1e-30)


def _bright(blood: Array) -> float:
    flow = np.abs(blood[blood != 0])
    return float(np.quantile(flow, BRIGHT_BLOOD)) if len(flow) else 1.0


def _shown(frames: Array, low: float, span: float) -> Lazy:
    """Frames from black to white."""
    return Lazy(lambda k: ((frames[k] - low) / span).astype(np.float32), len(frames))

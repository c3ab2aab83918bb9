"""The usual sections of a film."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..weights import Array
from .images import Lazy, Pictures
from .pictures import BeforeAfter, Frames
from .sections import Section

STEPS = 40  # frames that are looked at for the one that shows most


def film_sections(
    frames: Pictures,
    background: Pictures,
    foreground: Pictures | None = None,
    masks: Pictures | None = None,
    *,
    white: float | None = None,
    title: str = "Film",
    captions: Sequence[str] | None = None,
    caption: str = "",
) -> list[Section]:
    """A scrubber with all layers side by side, and a slider between the frame with most in front
    and its background.

    Each is a sequence of (h, w) or (h, w, 3) frames; only those shown are looked at. `white` is the
    value that is shown as white in frames, background and foreground: 255 for bytes, else the
    largest of the frames. NaN was not observed. `captions` are those of the frames, `caption` is
    that of the slider; both are numbers of frames if not given.
    """
    if not len(frames) or len(background) != len(frames):
        raise ValueError(
            f"{len(frames)} frames and {len(background)} of the background; as many are"
            " wanted, not none"
        )
    some = np.unique(
        np.linspace(0, len(frames) - 1, STEPS).round().astype(int)
    ).tolist()
    top = _white(frames, some) if white is None else float(white)
    layers: dict[str, Lazy] = {
        "original": _scaled(frames, top),
        "background": _scaled(background, top),
    }
    if foreground is not None:
        layers["foreground"] = _scaled(foreground, top)
    if masks is not None:
        layers["mask"] = _black_or_white(masks)
    k = max(some, key=lambda k: _in_front(frames, background, masks, k))
    return [
        Frames(title, layers, captions),
        BeforeAfter(
            "With and without what moves",
            layers["original"][k],
            layers["background"][k],
            caption or f"Frame {k + 1} of {len(frames)}: drag, or use the arrow keys.",
            ("original", "background"),
        ),
    ]


def _white(frames: Pictures, some: list[int]) -> float:
    first = np.asarray(frames[0])
    if first.dtype == np.uint8:
        return 255.0
    largest = [
        float(np.nanmax(np.asarray(frames[k], np.float64), initial=0.0)) for k in some
    ]
    return max(largest) or 1.0


def _in_front(
    frames: Pictures,
    background: Pictures,
    masks: Pictures | None,
    k: int,
) -> float:
    """How much of a frame does not show the background."""
    if masks is not None:
        return float(np.mean(np.asarray(masks[k]) != 0))
    off = np.abs(
        np.asarray(frames[k], np.float64) - np.asarray(background[k], np.float64)
    )
    return float(np.nanmean(off)) if np.isfinite(off).any() else 0.0


def _scaled(frames: Pictures, white: float) -> Lazy:
    """From black to white."""

    def frame(k: int) -> Array:
        values = np.asarray(frames[k])
        if values.dtype == np.uint8 and white == 255:
            return values
        return values.astype(np.float32) / white

    return Lazy(frame, len(frames))


def _black_or_white(masks: Pictures) -> Lazy:
    """Whatever is not 0 is white."""
    return Lazy(lambda k: np.asarray(masks[k]) != 0, len(masks))

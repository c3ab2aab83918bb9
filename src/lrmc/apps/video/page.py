"""The report of a run, and how sure its background is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ... import report
from ..._files import whole
from ..._work import Outcome
from ...report.text import number, percent
from ...weights import Array
from .events import STOPPED, Event
from .model import Background
from .output import Shown, Spread

BRIGHTEST = 0.99  # of deviations are not white in a picture of them


@dataclass(frozen=True, eq=False, kw_only=True)
class Processed(Outcome):
    """What `process` did."""

    model: Background
    n_frames: int
    in_front: Array  # share of each frame that is foreground
    folder: Path
    clipped: int  # values of the background that no frame could hold
    events: tuple[Event, ...]  # what is in front, box by box


def save_deviations(path: Path, back: Background) -> None:
    """How sure the background is, and how far frames are from it, if that is known."""
    traits = back.traits
    if traits is None or traits.sd is None or traits.spread is None:
        return
    with whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, sd=traits.sd, spread=traits.spread)


def _unsure(back: Background) -> list[report.Section]:
    """Pictures of the same."""
    traits = back.traits
    if traits is None or traits.sd is None or traits.spread is None:
        return []
    pictures, names = [], []
    words = ("the background, standard error", "a pixel of a frame")
    for what, values in zip(words, (traits.sd, traits.spread)):
        grey = values if values.ndim == 2 else values.max(axis=2)
        known = grey[np.isfinite(grey)]
        top = float(np.quantile(known, BRIGHTEST)) if known.size else 1.0
        shown = np.where(np.isfinite(grey), grey / top, 1.0)
        pictures.append((255 * np.minimum(shown, 1)).astype(np.uint8))
        names.append(f"{what}: white is {number(top, 2)} grey levels, or unknown")
    return [report.Gallery("How sure the background is", pictures, names)]


def sections(
    done: Processed,
    sample: float,
    fewer: int,
    shown: Spread[Shown],
) -> list[report.Section]:
    """What the page shows of frames with so many times fewer pixels on a side."""
    numbers, frames, backgrounds, found, _ = zip(*shown.items)
    fronts = [one.front() for one in shown.items]
    height, width = done.model.shape[:2]
    colour = "colour" if len(done.model.shape) == 3 else "grey"
    blocks = f", means of {fewer} × {fewer} pixels" if fewer > 1 else ""
    facts = {
        "frames": done.n_frames,
        "size": f"{width} × {height}, {colour}{blocks}",
        "pixels observed": percent(sample),
        "rank": done.model.model.rank,
        "noise": f"{number(done.model.model.noise, 2)} grey levels",
        "threshold": f"{number(done.model.threshold, 3)} grey levels",
        "in front": percent(float(done.in_front.mean())),
        "things in front": len({event.track for event in done.events}),
        "of these, stopped": len(
            {event.track for event in done.events if event.state == STOPPED}
        ),
        "speed": f"{number(done.n_frames / done.seconds, 2)} frames/s",
        "fit": str(done.status),
    }
    film_parts = report.film_sections(
        frames,
        backgrounds,
        fronts,
        found,
        captions=[f"frame {k + 1} of {done.n_frames}" for k in numbers],
        caption="Drag, or use the arrow keys. In the film, what has stopped is orange in"
        " the foreground.",
    )
    percents = (100 * done.in_front).tolist()
    curve = report.Lines(
        "What is in front",
        [report.Series("in front, %", list(range(1, done.n_frames + 1)), percents)],
        x_name="frame",
        bounds=(0.0,),
        caption="How much of each frame is not the background, in percent of its"
        " pixels.",
    )
    return [
        report.Facts("", facts),
        *done.sections(),
        *film_parts,
        curve,
        *_unsure(done.model),
    ]

"""Scenes as pictures: quick-looks, and what the report page shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..._extras import optional
from ...report import (
    BeforeAfter,
    Facts,
    Files,
    Frames,
    Section,
    Table,
    Words,
    write_report,
)
from ...report.images import Lazy, as_bytes, evenly
from ...weights import Array
from .ground import CLEAR, CLOUD, MISSING
from .lazy import Lazily
from .model import Cleared
from .scenes import Scenes

QUICK_LOOK = 700  # pixels, at most
LOOKED_AT = 20  # scenes that tell what is black and what is white
# Percentiles of the ground that are shown as black and white.
DARKEST, BRIGHTEST = 1, 99
GAP = 6  # white pixels between two pictures
COVERED = 0.9  # of a scene: with more, it shows little before
ABOUT = (
    "Pixels that look clear were kept as they were; clouds, shadows, haze and snow that"
    " do not last, and what was"
    " missing, were replaced by what the other dates say about that place and this"
    " date.",
    "A date that shows no ground is estimated from the dates around it: its pixels are"
    " a guess at the season.",
)


def write_pictures(folder: Path, scenes: Scenes, cleared: Cleared | Lazily) -> Path:
    """Quick-looks and the report in a folder; the place of the report."""
    pictures = Pictures(scenes, cleared)
    pictures.write(folder / "quicklooks")
    sections = report_sections(scenes, cleared, pictures)
    sections.append(Files.in_folder(folder))
    return write_report(
        folder / "report.html", "Clouds", sections, subtitle=_subtitle(scenes)
    )


def shares(mask: Array) -> tuple[Array, Array]:
    """T: how much of each date is cloud, and how much is missing; of a lazy mask as well."""
    cloud, missing = ((mask == kind).mean((1, 2)) for kind in (CLOUD, MISSING))
    return np.asarray(cloud), np.asarray(missing)


class Pictures:
    """Scenes as pictures of at most 700 pixels, all with the same black and white: percentiles of
    the ground that was seen clearly on any date.
    """

    def __init__(self, scenes: Scenes, cleared: Cleared | Lazily) -> None:
        self.paths = scenes.paths
        step = -(-max(scenes.data.shape[2:]) // QUICK_LOOK)
        bands = list(scenes.rgb)
        every = (slice(None, None, step), slice(None, None, step))
        # In memory from here on, should the scenes be lazy.
        self.given, self.cleared = (
            np.moveaxis(
                np.asarray(stack[(slice(None), slice(None), *every)][:, bands]), 1, -1
            )
            for stack in (scenes.data, cleared.scenes)
        )
        self.masks = np.asarray(cleared.mask[(slice(None), *every)])
        self.low, self.high = self._range()

    def _range(self) -> tuple[Array, Array]:
        """Of each band, what is shown as black and as white."""
        some = evenly(len(self.masks), LOOKED_AT)
        ground, clear = self.cleared[some], self.masks[some] == CLEAR
        values = ground[clear] if clear.any() else ground.reshape(-1, ground.shape[-1])
        low, high = np.nanpercentile(
            values.astype(np.float64), (DARKEST, BRIGHTEST), axis=0
        )
        return low, high

    def _picture(self, scene: Array) -> Array:
        spread = np.where(self.high > self.low, self.high - self.low, 1.0)
        return np.clip((scene - self.low) / spread, 0, 1).astype(np.float32)

    def before(self, k: int) -> Array:
        """As it was; NaN where nothing was observed."""
        hidden = self.mask(k) == MISSING
        return np.where(
            hidden[..., None], np.float32(np.nan), self._picture(self.given[k])
        )

    def after(self, k: int) -> Array:
        """Without clouds."""
        return self._picture(self.cleared[k])

    def mask(self, k: int) -> Array:
        """As in the file."""
        return np.asarray(self.masks[k])

    def shown_mask(self, k: int) -> Array:
        """White: cloud; dark: nothing was observed; black: clear."""
        return np.where(self.mask(k) == MISSING, np.nan, self.mask(k) == CLOUD).astype(
            np.float32
        )

    def write(self, folder: Path) -> None:
        """A PNG for each scene: as it was, and without clouds."""
        pillow = optional("PIL.Image", "clouds")
        folder.mkdir()
        for k, path in enumerate(self.paths):
            before, after = (
                _in_colour(picture) for picture in (self.before(k), self.after(k))
            )
            gap = np.full((len(before), GAP, 3), 255, np.uint8)
            pillow.fromarray(np.hstack([before, gap, after])).save(
                folder / f"{path.stem}.png"
            )


def _in_colour(picture: Array) -> Array:
    colours = picture if picture.shape[2] == 3 else np.repeat(picture, 3, 2)
    return as_bytes(colours)


def report_sections(
    scenes: Scenes,
    cleared: Cleared | Lazily,
    pictures: Pictures,
) -> list[Section]:
    """What was found, a scene before and after, all scenes, and a table of the dates."""
    dates = _Dates(scenes, cleared)
    order = dates.order
    n = len(order)
    layers = {
        "as it was": Lazy(lambda i: pictures.before(order[i]), n),
        "without clouds": Lazy(lambda i: pictures.after(order[i]), n),
        "mask": Lazy(lambda i: pictures.shown_mask(order[i]), n),
    }
    best = dates.best
    return [
        Facts("Found", dates.facts),
        *cleared.outcome.sections(),
        BeforeAfter(
            "With and without clouds",
            pictures.before(best),
            pictures.after(best),
            dates.caption(best),
        ),
        Frames(
            "All dates",
            layers,
            [dates.caption(k) for k in order],
            "Dark: nothing was observed. White in the mask: cloud or shadow.",
            rate=3,
        ),
        Table(
            "Dates",
            ("date", "file", "cloud, %", "missing, %", "ground"),
            [dates.line(k) for k in order],
        ),
        Words("What was done", ABOUT),
    ]


class _Dates:
    """What was found on each date, in words and numbers."""

    def __init__(self, scenes: Scenes, cleared: Cleared | Lazily) -> None:
        self.scenes = scenes
        self.cleared = cleared
        self.cloud, self.missing = shares(cleared.mask)

    @property
    def order(self) -> list[int]:
        """By date, if these are known."""
        days = self.scenes.days
        if days is None:
            return list(range(len(self.scenes.paths)))
        return np.argsort(days, kind="stable").tolist()

    @property
    def best(self) -> int:
        """The scene that shows best what was done: clouds, and ground between them."""
        covered = self.cloud + self.missing
        return int(
            np.argmax(np.where(covered < COVERED, self.cloud * (1 - covered), -1))
        )

    @property
    def facts(self) -> dict[str, object]:
        """Of all dates together."""
        _, bands, height, width = self.scenes.data.shape
        ground = self.cleared.ground
        return {
            "scenes": len(self.scenes.paths),
            "bands": bands,
            "pixels": f"{width} x {height}",
            "clouds found": f"{float(self.cloud.mean()):.1%}",
            "missing": f"{float(self.missing.mean()):.1%}",
            "rank": ground.rank,
            "dates estimated": int(ground.guessed.sum()),
            "fit": str(self.cleared.status),
        }

    def name(self, k: int) -> str:
        """The date, or else the name of the file."""
        return (
            self.scenes.paths[k].stem
            if self.scenes.days is None
            else str(self.scenes.days[k])
        )

    def caption(self, k: int) -> str:
        """Of the picture of a scene."""
        estimated = ", estimated" if self.cleared.ground.guessed[k] else ""
        return (
            f"{self.name(k)}: {self.cloud[k]:.0%} cloud, {self.missing[k]:.0%}"
            f" missing{estimated}"
        )

    def line(self, k: int) -> tuple[object, ...]:
        """Of the table of scenes."""
        ground = "estimated" if self.cleared.ground.guessed[k] else "seen"
        return (
            self.name(k),
            self.scenes.paths[k].name,
            100 * self.cloud[k],
            100 * self.missing[k],
            ground,
        )


def _subtitle(scenes: Scenes) -> str:
    if scenes.days is None:
        return f"{len(scenes.paths)} scenes"
    return f"{len(scenes.paths)} scenes from {scenes.days.min()} to {scenes.days.max()}"

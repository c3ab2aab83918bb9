"""What a run writes frame by frame, and what its report will show."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..._extras import optional
from ...weights import Array
from ..stack import as_type
from .clips import Clip, Film, film
from .events import Event, Tracker
from .foreground import in_front
from .model import Separation
from .stops import Stops

# Bytes of frames that are floats at a time, which take four times the room.
AS_FLOATS = 4 << 20
SHOWN = 24 << 20  # bytes of frames that are kept for the report, of each kind
MOST_SHOWN = 200  # frames in the report
NOTHING = 128  # grey of the foreground film where nothing is: dark things are seen, too
TINT = np.array([255.0, 140.0, 0.0], np.float32)  # of what has stopped

Kept = TypeVar("Kept")


class Spread(Generic[Kept]):
    """At most so many of the things that come by, evenly spread, however many come."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.step = 1
        self.n = 0
        self.items: list[Kept] = []

    def add(self, make: Callable[[], Kept]) -> None:
        """Keep what this makes, or not: then it is not made."""
        if self.n % self.step == 0 and len(self.items) == self.most:
            self.items, self.step = self.items[::2], 2 * self.step
        if self.n % self.step == 0:
            self.items.append(make())
        self.n += 1


class Shown(NamedTuple):
    """A frame that is kept for the report."""

    number: int  # from 0
    frame: Array
    background: Array
    mask: Array
    stopped: Array

    def front(self) -> Array:
        """What is in front, with colours, and what has stopped tinted."""
        front = in_front(self.frame, self.mask, NOTHING)
        front = front if front.ndim == 3 else np.repeat(front[..., None], 3, 2)
        tinted = np.where(self.stopped[..., None], (front + TINT) / 2, front)
        return tinted.astype(np.uint8)


class Output:
    """The films and masks of a run, its events, and what the report shows of it."""

    def __init__(
        self,
        folder: Path,
        clip: Clip,
        shape: tuple[int, ...],
        open_files: ExitStack | None,
    ) -> None:
        """Without `open_files`, no films and masks are written."""
        self.films: list[Film] = []
        self.folder: Path | None = None
        if open_files is not None:
            self.films = [
                open_files.enter_context(film(folder / f"{name}.mp4", shape, clip.rate))
                for name in ("background", "foreground")
            ]
            self.folder = folder / "masks"
            self.folder.mkdir()
        view = clip.view
        self.rate = float(clip.rate)
        self.stops: Stops | None = None
        self.tracker = Tracker(clip.seconds, scale=view.fewer, origin=view.origin)
        self.events: list[Event] = []
        self.n_frames = 0
        self.clipped = 0
        self.shares: list[float] = []
        fits = SHOWN // int(np.prod(shape))
        self.shown = Spread[Shown](max(2, min(MOST_SHOWN, fits)))

    def write(self, parts: Separation) -> None:
        """The next frames, a few at a time."""
        few = max(1, AS_FLOATS // parts.frames[0].nbytes)
        self.stops = self.stops or Stops(self.rate, parts.model.threshold)
        for first in range(0, len(parts), few):
            self._write_few(parts, slice(first, first + few), self.stops)

    def _write_few(self, parts: Separation, some: slice, stops: Stops) -> None:
        frames = parts.frames[some]
        pictures, clipped = parts.model.counted(parts.scores[some])
        self.clipped += clipped
        found = parts.model.masks(frames, pictures)
        background = as_type(pictures, np.dtype(np.uint8))
        if self.films:
            of_background, of_foreground = self.films
            of_background.write(background)
            of_foreground.write(in_front(frames, found, NOTHING))
        for frame, picture, mask in zip(frames, background, found):
            self._save(mask)
            front, stopped = stops.add(frame, picture, mask)
            self.events += self.tracker.events(self.n_frames, front, stopped)
            self._keep(frame, picture, mask, stopped)
            self.n_frames += 1

    def _save(self, mask: Array) -> None:
        self.shares.append(float(mask.mean()))
        if self.folder is not None:
            picture = optional("PIL.Image", "video").fromarray(
                mask.astype(np.uint8) * np.uint8(255)
            )
            picture.save(self.folder / f"{self.n_frames:06d}.png", compress_level=1)

    def _keep(self, *layers: Array) -> None:
        """Copies for the report: views would keep the frames alive that they were made with."""
        self.shown.add(lambda: Shown(self.n_frames, *(x.copy() for x in layers)))

"""What is in front, as a list: a box for each thing in each frame, and tracks of boxes that overlap
from frame to frame.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..._scipy import ndimage as ndi
from ...weights import Array

MISSED = 5  # frames for which a thing may be out of sight and still be the same one
OVERLAP = 0.2  # of the smaller box: less is another thing
# Of the pixels of a frame: what is smaller is not listed. (5 x 5 pixels of 320 x 240.)
SMALLEST = 25 / (320 * 240)
MOVING, STOPPED = "moving", "stopped"


class Box(NamedTuple):
    """A thing in a frame: its sides in pixels, `right` and `bottom` beyond its last ones."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def area(self) -> int:
        """Of the box."""
        return max(0, self.right - self.left) * max(0, self.bottom - self.top)

    def part(self, picture: Array) -> Array:
        """Of a picture."""
        return picture[self.top : self.bottom, self.left : self.right]

    def shared(self, other: Box) -> float:
        """How much of the smaller box both have in common."""
        both = Box(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )
        return both.area / max(1, min(self.area, other.area))


@dataclass(frozen=True)
class Event:
    """A thing in a frame."""

    frame: int  # from 0
    seconds: float
    track: int  # the same for the same thing, from 1
    left: int
    top: int
    width: int
    height: int
    area: int  # pixels that are in front, in the box
    state: str = MOVING  # or STOPPED


@dataclass
class _Track:
    number: int
    box: Box
    seen: int  # the last frame


class Tracker:
    """Boxes of one frame after another, as events."""

    def __init__(
        self,
        when: Callable[[int], float],
        *,
        scale: int = 1,
        origin: tuple[int, int] = (0, 0),
    ) -> None:
        """`when` gives the second of a frame; `scale` and `origin` (left, top) turn pixels of masks
        into those of the clip.
        """
        self._when = when
        self._scale = scale
        self._origin = origin
        self._tracks: list[_Track] = []
        self._count = 0

    def events(
        self,
        frame: int,
        mask: Array,
        stopped: Array | None = None,
    ) -> list[Event]:
        """Of the next frame: what is in front, and which of it has stopped."""
        self._tracks = [t for t in self._tracks if frame - t.seen <= MISSED]
        free = list(self._tracks)
        found = []
        # The largest first: it has the first choice of a track.
        for box, area in sorted(boxes(mask), key=lambda x: -x[1]):
            track = self._continued(free, box, frame)
            event = self._event(frame, track.number, box, area)
            if stopped is not None and 2 * box.part(stopped).sum() > area:
                event = replace(event, state=STOPPED)
            found.append(event)
        return found

    def _continued(self, free: list[_Track], box: Box, frame: int) -> _Track:
        best = max(free, key=lambda t: t.box.shared(box), default=None)
        if best is None or best.box.shared(box) < OVERLAP:
            self._count += 1
            best = _Track(self._count, box, frame)
            self._tracks.append(best)
            return best
        free.remove(best)
        best.box = box
        best.seen = frame
        return best

    def _event(self, frame: int, track: int, box: Box, area: int) -> Event:
        scale = self._scale
        left, top = self._origin
        return Event(
            frame=frame,
            seconds=round(self._when(frame), 3),
            track=track,
            left=left + scale * box.left,
            top=top + scale * box.top,
            width=scale * (box.right - box.left),
            height=scale * (box.bottom - box.top),
            area=scale**2 * area,
        )


def boxes(mask: Array) -> Iterator[tuple[Box, int]]:
    """Things that hang together, also by corners, and their areas; not those that are tiny."""
    labels, count = ndi.label(mask, np.ones((3, 3)))
    if not count:
        return
    areas = np.bincount(labels.ravel())[1:]
    places = ndi.find_objects(labels)
    for area, (rows, cols) in zip(areas.tolist(), places):
        if area >= SMALLEST * mask.size:
            yield Box(cols.start, rows.start, cols.stop, rows.stop), area


NAMES = tuple(Event.__dataclass_fields__)


def write_events(folder: Path, events: list[Event]) -> tuple[Path, Path]:
    """As events.csv and events.json."""
    lines = [asdict(event) for event in events]
    table = folder / "events.csv"
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, NAMES)
        writer.writeheader()
        writer.writerows(lines)
    listed = folder / "events.json"
    listed.write_text(json.dumps(lines, indent=1) + "\n")
    return table, listed

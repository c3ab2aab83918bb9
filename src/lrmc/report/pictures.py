"""Sections that show pictures: two over each other, films, galleries."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .images import Picture, Pictures, affordable, evenly, picture
from .text import escaped

FRAME, THUMBNAIL = 640, 480  # pixels, at most
MOST_FRAMES, MOST_THUMBNAILS = 400, 60
PIXELS_BELOW = 200  # a picture that is narrower is shown with sharp pixels


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """Two pictures of the same size over each other, with a slider between them. Pictures as for
    `images.picture`.
    """

    title: str
    before: Picture
    after: Picture
    caption: str = ""
    labels: tuple[str, str] = ("before", "after")

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        (before, width, height), (after, *_) = picture(self.before), picture(self.after)
        names = [escaped(label) for label in self.labels]
        body = (
            f'<div class="compare{_sharp(width)}" style="aspect-ratio:{width}/{height};{_fit(width, height)}">'
            f'<img src="{after}" alt="{names[1]}" width="{width}" height="{height}">'
            f'<img class="over" src="{before}" alt="{names[0]}" width="{width}" height="{height}">'
            f'<span class="tag left">{names[0]}</span><span class="tag right">{names[1]}</span>'
            '<input type="range" min="0" max="100" value="50" step="1" '
            f'aria-label="How much of the picture shows: {names[0]}"><span class="handle"></span></div>'
        )
        return figure(body, self.caption)


@dataclass(frozen=True, eq=False)
class Frames:
    """Films side by side with one slider for the time. `layers` has the frames of each, under its
    name.

    Only the frames that are shown are looked at, so a layer may be anything with a length and
    items. Too many frames for the page are thinned out evenly.
    """

    title: str
    layers: Mapping[str, Pictures]
    captions: Sequence[str] | None = None  # one per frame
    caption: str = ""
    rate: float = 12.0  # shown frames per second, when it plays

    def html(self, room: int) -> str:
        """See `Section.html`."""
        names, films = list(self.layers), list(self.layers.values())
        n = len(films[0]) if films else 0
        if not n:
            return '<p class="none">No frames to show.</p>'
        if any(len(film) != n for film in films):
            raise ValueError(
                f"layers have {', '.join(str(len(film)) for film in films)} frames; as"
                " many are wanted"
            )
        chosen, content, (width, height) = _within(
            room, n, lambda k: [film[k] for film in films], FRAME, MOST_FRAMES
        )
        captions = [
            f"frame {k + 1} of {n}" if self.captions is None else str(self.captions[k])
            for k in chosen
        ]
        data = {"frames": content, "captions": captions, "rate": self.rate}
        panes = "".join(
            f'<figure><img class="{_sharp(width).strip()}" src="{first}" alt="{escaped(name)}" width="{width}"'
            f' height="{height}" decoding="sync"><figcaption>{escaped(name)}</figcaption></figure>'
            for name, first in zip(names, content[0])
        )
        few = f" {len(chosen)} of {n} frames, evenly chosen." if len(chosen) < n else ""
        body = (
            f'<div class="film"><div class="panes">{panes}</div><div class="controls">'
            f'<button type="button" class="play" aria-pressed="false" aria-label="Play">▶</button>'
            f'<input type="range" min="0" max="{len(chosen) - 1}" value="0" step="1" aria-label="Frame">'
            f'<output>{escaped(captions[0])}</output></div><script type="application/json">{_json(data)}</script></div>'
        )
        return figure(body, (self.caption + few).strip())


@dataclass(frozen=True, eq=False)
class Gallery:
    """Pictures beside and below each other, each with a caption."""

    title: str
    pictures: Pictures
    captions: Sequence[str] = ()
    caption: str = ""

    def html(self, room: int) -> str:
        """See `Section.html`."""
        n = len(self.pictures)
        if not n:
            return '<p class="none">No pictures to show.</p>'
        chosen, content, _ = _within(
            room, n, lambda k: [self.pictures[k]], THUMBNAIL, MOST_THUMBNAILS
        )
        names = [
            str(self.captions[k]) if k < len(self.captions) else f"picture {k + 1}"
            for k in chosen
        ]
        thumbs = "".join(
            f'<figure><img src="{source}" alt="{escaped(name)}"><figcaption>{escaped(name)}</figcaption></figure>'
            for (source,), name in zip(content, names)
        )
        note = self.caption
        if len(chosen) < n:
            note += f" {len(chosen)} of {n} pictures, evenly chosen."
        return figure(f'<div class="gallery">{thumbs}</div>', note.strip())


def _within(
    room: int,
    n: int,
    at: Callable[[int], list[Picture]],
    largest: int,
    most: int,
) -> tuple[list[int], list[list[str]], tuple[int, int]]:
    """Frames evenly chosen to fit: which, the data URIs of each one's layers, and the size of the
    first picture.
    """
    size, made = (1, 1), {}

    def encoded(k: int) -> list[str]:
        nonlocal size
        if k not in made:
            pictures = [picture(image, largest=largest) for image in at(k)]
            made[k] = [source for source, *_ in pictures]
            size = pictures[0][1:]
        return made[k]

    some = evenly(n, 5)
    one = float(np.mean([sum(map(len, encoded(k))) for k in some]))
    wanted = min(most, affordable(n, one, room))
    while True:
        chosen = evenly(n, wanted)
        content = [encoded(k) for k in chosen]
        total = sum(len(source) for frame in content for source in frame)
        if total <= room or wanted == 1:
            return chosen, content, size
        wanted = max(1, min(wanted - 1, math.floor(0.98 * wanted * room / total)))


def figure(body: str, caption: str) -> str:
    """A body as wide as the page, with a caption below."""
    note = (
        f'<figcaption class="note">{escaped(caption)}</figcaption>' if caption else ""
    )
    return f'<figure class="wide">{body}{note}</figure>'


def _json(data: object) -> str:
    """JSON that may stand in a script element: it has no `<`, and so can neither end the element
    nor hide its end.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _sharp(width: int) -> str:
    return " sharp" if width < PIXELS_BELOW else ""


def _fit(width: int, height: int) -> str:
    """As wide as there is room, but not higher than most screens, nor blown up more than four
    times.
    """
    return f"width:min(100%, {min(4 * width, round(600 * width / height), 1000)}px)"

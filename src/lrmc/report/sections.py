"""The kinds of sections. Each is plain data, and `html` writes it down; a new kind is a new class
with `html`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeGuard
from urllib.parse import quote

import numpy as np

from ..weights import Array
from .charts import Series, bars_svg, lines_svg, values_svg
from .images import indexed_png, uri
from .pictures import PIXELS_BELOW, Frames, Gallery, figure
from .text import column, count, escaped, number, percent, plural


class Section(Protocol):
    """A part of a page: `html` gives everything but the title, with frames of at most `room`
    characters.
    """

    @property
    def title(self) -> str:
        """The heading; none if empty."""

    def html(self, room: int) -> str:
        """The section, its texts escaped."""


@dataclass(frozen=True)
class Words:
    """Paragraphs. A `tone` other than plain puts them in a box: "good" news, or a "warning"."""

    title: str
    paragraphs: Sequence[str]
    tone: Literal["plain", "good", "warning"] = "plain"

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        text = "".join(f"<p>{escaped(p)}</p>" for p in self.paragraphs)
        return f'<div class="words {self.tone}">{text}</div>'


@dataclass(frozen=True)
class Facts:
    """Names and short values, as tiles."""

    title: str
    facts: Mapping[str, object]

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        tiles = (
            f"<div><dt>{escaped(name)}</dt><dd>{escaped(_shown(value))}</dd></div>"
            for name, value in self.facts.items()
        )
        return f'<dl class="facts">{"".join(tiles)}</dl>'


@dataclass(frozen=True)
class Files:
    """Links to files: what they are called, and where they are from the page."""

    title: str
    links: Mapping[str, str]

    @classmethod
    def in_folder(cls, folder: Path) -> Files:
        """Links to everything in the folder of the page."""
        found = sorted(folder.iterdir())
        return cls("Files", {x.name + "/" * x.is_dir(): x.name for x in found})

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        items = (
            f'<li><a href="{escaped(quote(link))}">{escaped(name)}</a></li>'
            for name, link in self.links.items()
        )
        return f'<ul class="files">{"".join(items)}</ul>'


@dataclass(frozen=True)
class Lines:
    """A line chart. `marks` are named values, drawn as horizontal lines; `bounds` are values that
    stay in sight.
    """

    title: str
    series: Sequence[Series]
    log: bool = False
    x_name: str = "iteration"
    y_name: str = ""
    marks: Mapping[str, float] = field(default_factory=dict)
    bounds: tuple[float, ...] = ()
    caption: str = ""

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        svg = lines_svg(
            self.series,
            log=self.log,
            x_name=self.x_name,
            y_name=self.y_name,
            marks=dict(self.marks),
            bounds=self.bounds,
        )
        keys = (
            f'<li class="s{i % 6}">{escaped(s.name)}</li>'
            for i, s in enumerate(self.series)
        )
        legend = (
            f'<ul class="legend">{"".join(keys)}</ul>' if len(self.series) > 1 else ""
        )
        return figure(legend + svg, self.caption)


@dataclass(frozen=True)
class Values:
    """Values in order, such as singular values, against a level (of noise): what is below it is
    shown faintly.
    """

    title: str
    values: Sequence[float]
    level: float | None = None
    x_name: str = "component"
    level_name: str = "noise"
    caption: str = ""

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        names = {
            "name": self.title,
            "x_name": self.x_name,
            "level_name": self.level_name,
        }
        return figure(values_svg(self.values, self.level, **names), self.caption)


@dataclass(frozen=True)
class Bars:
    """Named values beside each other, such as errors of models, with their standard errors; the
    first stands out.
    """

    title: str
    names: Sequence[str]
    values: Sequence[float]
    deviations: Sequence[float]
    caption: str = ""

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        svg = bars_svg(self.names, self.values, self.deviations, self.title)
        return figure(svg, self.caption)


@dataclass(frozen=True, eq=False)
class Map:
    """Which parts of a matrix are observed, and which of that are outliers.

    Both are shares per cell, (height, width): of all its places, and of the observed ones.
    """

    title: str
    shape: tuple[int, int]  # of the matrix
    step: tuple[int, int]  # rows and columns of a cell
    observed: Array
    outliers: Array
    caption: str = ""

    LEVELS = 16  # of each share
    SEEN, OUTLYING = (110, 146, 188), (213, 94, 0)

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        height, width = self.observed.shape
        most, worst = (
            float(np.nanmax(x, initial=0.0)) or 1.0
            for x in (self.observed, self.outliers)
        )
        cells = self.LEVELS * self._level(self.observed / most) + self._level(
            self.outliers / worst
        )
        source = uri("png", indexed_png(cells.astype(np.uint8), self._colours()))
        n1, n2 = self.shape
        sharp = " sharp" if max(height, width) <= PIXELS_BELOW else ""
        alt = (
            f"Map of the {n1} x {n2} matrix: what is observed, and what of it is an"
            " outlier"
        )
        note = f'<p class="note">{escaped(self.caption)}</p>' if self.caption else ""
        return (
            '<div class="beside">'
            f'<div class="map" data-shape="{n1} {n2}" data-step="{self.step[0]} {self.step[1]}" style="{_box(n1, n2)}">'
            f'<span class="across">{plural(n2, "column")}</span><span class="down">{plural(n1, "row")}</span>'
            f'<img class="{sharp.strip()}" src="{source}" alt="{escaped(alt)}" width="{width}" height="{height}"></div>'
            f'<div class="aside">{self._legend(most, worst)}{note}'
            '<p class="reading" aria-live="polite"></p></div></div>'
        )

    def _level(self, share: Array) -> Array:
        """0 for nothing at all, and for nothing else."""
        return np.ceil(
            np.nan_to_num(np.clip(share, 0, 1)) * (self.LEVELS - 1) - 1e-9
        ).astype(int)

    def _colours(self) -> Array:
        """By level of observed (as opacity: the paper shows through the gaps), then of outliers (as
        hue).
        """
        share = np.arange(self.LEVELS) / (self.LEVELS - 1)
        hue = (1 - share[:, None]) * np.array(self.SEEN) + share[:, None] * np.array(
            self.OUTLYING
        )
        opacity = (
            np.repeat(np.where(share > 0, 0.12 + 0.88 * share, 0), self.LEVELS)[:, None]
            * 255
        )
        return (
            np.hstack([np.tile(hue, (self.LEVELS, 1)), opacity])
            .round()
            .astype(np.uint8)
        )

    def _legend(self, most: float, worst: float) -> str:
        exact = tuple(self.step) == (1, 1)
        seen = (
            "observed"
            if exact
            else f"observed: from nothing to {percent(most)} of a cell"
        )
        items = [("hole", "missing"), ("seen" if exact else "seen ramp", seen)]
        if np.min(self.observed, initial=1.0) == 1:
            items = [("seen", "observed")]
        if np.nanmax(self.outliers, initial=0.0) > 0:
            off = (
                "outlier"
                if exact
                else f"outliers: from none to {percent(worst)} of a cell's observed entries"
            )
            items.append(("off" if exact else "off ramp", off))
        return "".join(
            [
                '<ul class="legend map-legend">',
                *(f'<li class="{k}">{escaped(t)}</li>' for k, t in items),
                "</ul>",
            ]
        )


@dataclass(frozen=True)
class Table:
    """A table that is sorted by a click on (or Enter at) a heading. Numbers are numbers, all else
    is text.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    def html(self, room: int = 0) -> str:
        """See `Section.html`."""
        if not self.rows:
            return f'<p class="none">{escaped(self.caption or "Nothing to show.")}</p>'
        numeric = [
            all(_is_number(row[j]) for row in self.rows)
            for j in range(len(self.columns))
        ]
        head = "".join(
            f'<th scope="col" aria-sort="none"{" class=n" if n else ""}>'
            f'<button type="button">{escaped(c)}</button></th>'
            for c, n in zip(self.columns, numeric, strict=True)
        )
        shown = [
            self._texts(j) if n else [None] * len(self.rows)
            for j, n in enumerate(numeric)
        ]
        body = "".join(
            f"<tr>{''.join(map(_cell, row, texts))}</tr>\n"
            for row, texts in zip(self.rows, zip(*shown), strict=True)
        )
        table = f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>'
        scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(self.title)}">{table}</div>'
        return figure(scroll, self.caption)

    def _texts(self, j: int) -> Sequence[str | None]:
        """Of a column of numbers."""
        return column([value for row in self.rows if _is_number(value := row[j])])


@dataclass(frozen=True)
class Group:
    """Sections side by side where there is room, else below each other."""

    title: str
    sections: Sequence[Section]
    caption: str = ""

    def html(self, room: int) -> str:
        """See `Section.html`."""
        parts = (
            f"<div>{f'<h3>{escaped(s.title)}</h3>' if s.title else ''}{s.html(room)}</div>"
            for s in self.sections
        )
        note = f'<p class="note">{escaped(self.caption)}</p>' if self.caption else ""
        return f'<div class="group">{"".join(parts)}</div>{note}'


def n_films(section: Section) -> int:
    """How many sections share the room for frames."""
    if isinstance(section, Group):
        return sum(map(n_films, section.sections))
    return int(isinstance(section, Frames | Gallery))


# ---- parts


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if not _is_number(value):
        return str(value)
    return count(int(value)) if isinstance(value, int | np.integer) else number(value)


def _cell(value: object, text: str | None) -> str:
    if not _is_number(value):
        return f"<td>{escaped(value)}</td>"
    return (
        f'<td class="n" data-v="{float(value)!r}">{escaped(text or _shown(value))}</td>'
    )


def _box(n1: int, n2: int) -> str:
    """The place of a map: in the proportions of the matrix, as far as these can be shown."""
    ratio = min(16.0, max(0.4, n2 / n1))
    width = min(760.0, 520 * ratio)
    return f"width:min(100%, {width:.0f}px);--ratio:{ratio:.4g}"

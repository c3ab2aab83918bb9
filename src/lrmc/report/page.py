"""The page: sections under a title, with style and script inside. It asks for nothing from
anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path

from .. import __version__
from .._files import write_whole
from .._program import command_line
from .sections import Section, n_films
from .text import escaped

BUDGET = 20_000_000  # characters of frames and galleries on a page
# A browser that keeps to this loads nothing but what is in the page, whatever the page says.
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
    " 'unsafe-inline'"
)
ENOUGH_FOR_CONTENTS = 4  # titled sections


def write_report(
    path: str | os.PathLike[str],
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: str = "",
    budget: int = BUDGET,
) -> Path:
    """Write a report: one HTML page that needs no network and no other files.

    Parameters
    ----------
    path : path
        Where it goes; it appears whole or not at all.
    title : str
        Its heading.
    sections : sequence of Section
        What it shows, such as `result_sections(result)`.
    subtitle : str, optional
        A line below the heading.
    budget : int, optional
        Frames and galleries are thinned out to so many characters together.

    Returns
    -------
    pathlib.Path
        The path.

    Examples
    --------
    >>> import lrmc
    >>> from lrmc.report import result_sections, write_report
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=60, rank=2, p=0.8).Y)
    >>> write_report("run.html", "A run", result_sections(result)).name
    'run.html'
    """
    write_whole(
        path, page(title, sections, subtitle=subtitle, budget=budget).encode("utf-8")
    )
    return Path(path)


def page(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: str = "",
    budget: int = BUDGET,
) -> str:
    """A page as text."""
    room = budget // max(1, sum(n_films(section) for section in sections))
    body = "".join(_section(section, k, room) for k, section in enumerate(sections))
    below = f'<p class="subtitle">{escaped(subtitle)}</p>' if subtitle else ""
    typed = command_line()
    if typed:
        below += f'<p class="command"><code>{escaped(typed)}</code></p>'
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="lrmc">
<title>{escaped(title)}</title>
<style>
{_resource("report.css")}</style>
</head>
<body>
<header><h1>{escaped(title)}</h1>{below}</header>
{_contents(sections)}<main>
{body}</main>
<footer>Written by lrmc {__version__} on {datetime.now():%Y-%m-%d at %H:%M}. This page works offline.</footer>
<script>
{_resource("report.js")}</script>
</body>
</html>
"""


def _section(section: Section, k: int, room: int) -> str:
    heading = f'<h2 id="h{k}">{escaped(section.title)}</h2>\n' if section.title else ""
    named = f' aria-labelledby="h{k}"' if section.title else ""
    return f'<section id="s{k}"{named}>\n{heading}{section.html(room)}\n</section>\n'


def _contents(sections: Sequence[Section]) -> str:
    links = [
        f'<a href="#s{k}">{escaped(s.title)}</a>'
        for k, s in enumerate(sections)
        if s.title
    ]
    return (
        f'<nav aria-label="Contents">{"".join(links)}</nav>\n'
        if len(links) >= ENOUGH_FOR_CONTENTS
        else ""
    )


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")

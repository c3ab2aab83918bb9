"""Pages for the tests of reports, and a strict reader of their HTML."""

import base64
import io
import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np

import lrmc
from lrmc import report
from lrmc.result import Record, Result, Status

# elements without an end (the last three: in SVG)
VOID = {"meta", "img", "input", "br", "path", "circle", "rect"}


class Reader(HTMLParser):
    """Elements, attributes and text of a page; an element that is not closed in its turn
    is an error.
    """

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append((self.open[-1] if self.open else "", text))

    def all(self, tag, **wanted):
        """The attributes of the elements of this kind, and with these classes."""
        return [
            a
            for t, a in self.elements
            if t == tag
            and all(v in (a.get(k) or "").split() for k, v in wanted.items())
        ]

    @property
    def text(self):
        """What a reader sees."""
        return " ".join(t for tag, t in self.texts if tag not in ("script", "style"))


def film(n=6, height=40, width=60, seed=0):
    """A grey picture, and a bright square that crosses it."""
    rng = np.random.default_rng(seed)
    back = rng.integers(40, 160, (height, width), np.uint8)
    frames = np.repeat(back[None], n, 0)
    for k in range(n):
        frames[k, 10:20, 3 + k * width // (n + 1) : 11 + k * width // (n + 1)] = 250
    return frames, np.repeat(back[None], n, 0)


def everything(result):
    """Every kind of section."""
    frames, back = film()
    return [
        *report.result_sections(result),
        report.Table(
            "Numbers",
            ["name", "value"],
            [["b", 10.0], ["a", -2.5], ["c", float("nan")], ["d", 9.0], ["e", 100.0]],
        ),
        *report.film_sections(frames, back, frames - back, frames != back),
        report.Gallery(
            "Pictures", [*frames], [f"picture {k}" for k in range(len(frames))]
        ),
    ]


def result_of(Y, L, R, **changes):
    """A result that was not computed."""
    history = (Record(0, math.nan, 1.0, math.nan, 0.0), Record(1, 0.1, 1e-3, 0.9, 0.1))
    nothing = np.zeros(0, int)
    made = Result(
        L,
        R,
        Status.CONVERGED,
        history,
        "closed_loop",
        1e-6,
        nothing,
        nothing,
        0.1,
        0.1,
        "noisy",
    )
    return replace(
        made, observations=None if Y is None else lrmc.as_observations(Y), **changes
    )


def read(sections, title="A page", **options):
    """A page of these sections, taken apart."""
    return Reader(report.page(title, sections, **options))


def opened(source):
    """The picture that a page holds."""
    from PIL import Image

    return Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))

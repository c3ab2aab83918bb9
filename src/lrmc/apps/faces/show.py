"""What of cleaned faces is shown: pictures, a contact sheet, and the sections of the report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..._extras import optional
from ...report import BeforeAfter, Facts, Frames, Section, Words
from ...report.images import Lazy, evenly
from ...weights import Array
from ..outcome import share_clipped
from ..pictures import PillowImage, as_bytes
from .doubt import BEYOND
from .model import Faces
from .people import Person

STEPS = 100  # of one grey level, in the pictures of standard deviations
ACROSS = 10  # pictures of a person on the contact sheet
TILE = 140  # pixels: the height of a picture on it, at most
GAP = 4  # pixels between pictures on the contact sheet
# grey levels: a pixel of which more was removed counts for the picture that is shown
MUCH = 40


def written(person: Person, faces: Faces) -> dict[str, Lazy]:
    """The pictures that are written, by their folder."""
    n, white, dtype = len(person.images), person.white, person.images.dtype
    found = {
        "clean": Lazy(lambda k: faces.clean[k], n),
        "removed": Lazy(lambda k: shown_removed(faces.removed[k], dtype, white), n),
    }
    doubt = faces.doubt
    if doubt is None:
        return found
    found["guessed"] = Lazy(lambda k: shown_guessed(doubt.guessed[k]), n)
    spread = doubt.deviation
    if spread is not None:
        found["deviation"] = Lazy(lambda k: shown_deviation(spread[k]), n)
    return found


def shown_guessed(guessed: Array) -> Array:
    """What was guessed, white."""
    return np.where(guessed, np.uint8(255), np.uint8(0))


def shown_deviation(deviation: Array) -> Array:
    """Standard deviations in hundredths of a grey level; of colours, the largest."""
    spread = deviation.max(axis=-1) if deviation.ndim == 3 else deviation
    return np.clip(np.rint(STEPS * spread), 0, 65535).astype(np.uint16)


def shown_removed(
    removed: Array,
    dtype: np.dtype[Any],
    white: int | None = None,
) -> Array:
    """What was removed as a picture: grey is nothing, dark a shadow, bright a highlight."""
    white = white or (255 if dtype == np.uint8 else 65535)
    return np.clip(np.rint(127.5 + 127.5 * removed / white), 0, 255).astype(np.uint8)


def contact_sheet(done: Mapping[str, tuple[Person, Faces]]) -> PillowImage:
    """Rows of each person: as it was, cleaned, what was removed, and what was guessed."""
    pillow = optional("PIL.Image", "faces")
    people = [list(_tiles(person, faces)) for person, faces in done.values()]
    rows = [row for tiles in people for row in tiles]
    ends = np.cumsum([len(tiles) for tiles in people])
    width = max(sum(tile.width + GAP for tile in tiles) for tiles in rows) + GAP
    between = 2 * GAP * (len(done) - 1)  # people stand farther apart
    height = len(rows) * (TILE + GAP) + GAP + between
    sheet = pillow.new("RGB", (width, height), "white")
    y = GAP
    for k, tiles in enumerate(rows):
        x = GAP
        for tile in tiles:
            sheet.paste(tile, (x, y))
            x += tile.width + GAP
        last_of_person = k + 1 in ends
        y += TILE + GAP + (2 * GAP if last_of_person else 0)
    return sheet


def _tiles(person: Person, faces: Faces) -> Iterator[list[PillowImage]]:
    """Rows of small pictures of a person."""
    pillow = optional("PIL.Image", "faces")
    height, width = person.images.shape[1:3]
    size = (round(width * TILE / height), TILE)
    some = evenly(len(person.images), ACROSS)
    for layer in _layers(person, faces).values():
        pictures = (pillow.fromarray(layer[k]).convert("RGB") for k in some)
        yield [picture.resize(size, pillow.Resampling.LANCZOS) for picture in pictures]


def _layers(person: Person, faces: Faces) -> dict[str, Lazy]:
    """Pictures as they were, cleaned, what was removed, and what was guessed, in bytes."""
    n, white = len(person.images), person.white
    made = written(person, faces)
    layers = {
        "as it was": Lazy(lambda k: as_bytes(person.images[k], white), n),
        "cleaned": Lazy(lambda k: as_bytes(faces.clean[k], white), n),
        "removed": made["removed"],
    }
    return layers | {k: x for k, x in made.items() if k == "guessed"}


def report_sections(done: Mapping[str, tuple[Person, Faces]]) -> list[Section]:
    """Of each person the facts, the picture with most removed, and all pictures."""
    sections: list[Section] = []
    for name, (person, faces) in done.items():
        layers = _layers(person, faces)
        before, after = layers["as it was"], layers["cleaned"]
        much = np.abs(np.nan_to_num(faces.removed)) > MUCH
        worst = int(np.argmax([np.mean(picture) for picture in much]))
        facts = {
            "pictures": len(before),
            "rank": faces.rank,
            "numbers": faces.numbers,
            "outliers": f"{faces.result.outlier_fraction:.1%}",
            "noise": f"{faces.result.noise_level:.1f}",
            **told_doubt(person, faces),
            "clipped": share_clipped(faces.clipped, faces.clean.size),
            "fit": str(faces.status),
        }
        sections += [
            Facts(name, facts),
            *faces.outcome.sections(),
            BeforeAfter(
                f"{name}: most removed",
                before[worst],
                after[worst],
                person.paths[worst].name,
            ),
            Frames(
                f"{name}: all pictures",
                layers,
                [path.name for path in person.paths],
                rate=3,
            ),
        ]
    about = (
        "Grey in what was removed is nothing, dark a shadow or something dark in front,"
        " bright a highlight.",
        "White in what was guessed: the picture itself is not believed there (it differs from"
        f" what the others say by more than {BEYOND:g} standard deviations) or has nothing, and"
        " what is shown comes from the other pictures alone. How far off it may be is in"
        " deviation/, in hundredths of a grey level.",
    )
    return [*sections, Words("What is shown", about)]


def told_doubt(person: Person, faces: Faces) -> dict[str, str]:
    """How much was guessed, and how far off that may be, in words."""
    doubt = faces.doubt
    if doubt is None:
        return {}
    guessed = doubt.guessed
    removed, spread = faces.removed, doubt.deviation
    if person.images.ndim == 4:  # colours
        removed = removed.mean(axis=-1)
        spread = None if spread is None else spread.mean(axis=-1)
    dark = float(np.mean(guessed & (removed < 0)))
    told = {"guessed": f"{np.mean(guessed):.1%}, of it dark {dark:.1%}"}
    if spread is None:
        return told | {"standard deviation": f"not known: {doubt.why}"}
    usual, there = (
        float(np.median(spread[some])) if some.any() else math.nan
        for some in (~guessed, guessed)
    )
    return told | {
        "standard deviation": f"{usual:.1f}; {there:.1f} where guessed (medians)"
    }

"""Faces of one person under many lights: what they look like without shadows, highlights and what
covers them.

Pixels x pictures are a matrix of low rank, since a matt surface under any light is a mixture of a
few pictures; cast shadows, highlights, glasses and hands are outliers. All colours of a pixel share
one weight.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._extras import optional
from .._files import whole_folder
from .._work import SOUND, Outcome, Progress, Tell, placed, silent
from ..report import BeforeAfter, Facts, Files, Frames, Section, Words, write_report
from ..report.images import Lazy, evenly
from ..result import Iterate, Result, Status
from ..weights import Array
from .doubt import BEYOND, Doubt, doubt_of
from .outcome import FitFailed, Limits, Told, after_clipping, solved
from .pictures import (
    PillowImage,
    as_bytes,
    one_depth,
    pictures_in,
    read_picture,
    white_of,
)
from .stack import Stack, as_type, band_groups, check_rank

FEWEST = 3  # pictures of a person
SCHEDULE = "faces"  # learned on other people: docs/families.md
# pictures: with 16 it does as well as what is decided anew, with 11 it is worse by 1.7 dB
ENOUGH = 16
STEPS = 100  # of one grey level, in the pictures of standard deviations
ACROSS = 10  # pictures of a person on the contact sheet
TILE = 140  # pixels: the height of a picture on it, at most
GAP = 4  # pixels between pictures on the contact sheet
# grey levels: a pixel of which more was removed counts for the picture that is shown
MUCH = 40


@dataclass(frozen=True, eq=False)
class Faces(Told):
    """Pictures of one person, cleaned."""

    clean: Array  # as the pictures came: n x height x width, with colours last
    removed: Array  # what was taken away, with its sign: float32
    result: Result
    outcome: Outcome = SOUND  # of the fit, and of what was made of it
    clipped: int = 0  # values that were far outside those of the pictures
    doubt: Doubt | None = None  # like `clean`, if `uncertainty` was asked for

    @property
    def rank(self) -> int:
        """How many pictures all others are mixed from."""
        return self.result.rank


def clean_faces(
    images: ArrayLike,
    seen: ArrayLike | None = None,
    rank: int | None = None,
    *,
    uncertainty: bool = False,
    **options: Any,
) -> Faces:
    """Remove shadows, highlights and occlusions from pictures of one person: what the other
    pictures do not have.

    Parameters
    ----------
    images : array
        n x height x width, or with three colours last; NaN is missing. Eyes and mouth should be in
        the same place in all of them.
    seen : array of bool, optional
        n x height x width: True where a pixel may be believed.
    rank : int, optional
        Rank of the model; found if not given.
    uncertainty : bool, default False
        Whether to tell which values were guessed (their own are missing, or shadows, highlights or
        something in front), and the standard deviation of each.
    **options
        Those of `lrmc.solve`. Unless they say otherwise, 16 grey pictures or more are fitted by
        the schedule `faces` that comes with lrmc and was learned on other people, where it fits.

    Returns
    -------
    Faces
        `clean` in the type of the images, `removed`, `result`, `status` and `warnings`; and
        `doubt` with `guessed` and `deviation`, if `uncertainty` was asked for.

    Raises
    ------
    ValueError
        If the images or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If the fit diverged.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import faces
    >>> rng = np.random.default_rng(0)
    >>> face = rng.uniform(60, 200, (24, 20))
    >>> images = face * rng.uniform(0.7, 1.0, (12, 1, 1))
    >>> images[3, 8:12, 5:15] = 5  # sunglasses
    >>> done = faces.clean_faces(images, rank=1)
    >>> bool(done.clean[3, 8:12, 5:15].min() > 30)
    True
    """
    pictures = np.asarray(images)
    there = None if seen is None else np.asarray(seen, bool)
    _check(pictures, there)
    check_rank(rank, len(pictures), "pictures")
    coloured = pictures.ndim == 4
    bands_first = (
        np.ascontiguousarray(np.moveaxis(pictures, -1, 1)) if coloured else pictures
    )
    if there is not None and coloured:
        there = there[:, None]
    stack = Stack(bands_first, there)
    if coloured and pictures.shape[-1] > 1:
        options.setdefault(
            "groups", band_groups(pictures.shape[-1], pictures[0, ..., 0].size)
        )
    # what was learned on grey pictures is not for colours, which share weights
    plain = not coloured and not options.keys() & {"schedule", "method", "loss"}
    if plain and len(pictures) >= ENOUGH:
        full = stack.mask is None and bool(np.isfinite(pictures).all())
        options["schedule"] = SCHEDULE
        options.setdefault("aim", "separate" if full else "fill")
    result, outcome = solved(
        stack.matrix, rank, what="the faces", mask=stack.mask, **options
    )
    limits = Limits.of(pictures[np.isfinite(pictures)])
    model, clipped = limits.held(
        (result.R @ result.L.T).reshape(bands_first.shape), "the faces"
    )
    outcome = after_clipping(outcome, clipped, model.size, limits)
    doubt = _doubt(bands_first, there, model, result) if uncertainty else None
    if coloured:
        model = np.moveaxis(model, 1, -1)
    removed = (pictures - model).astype(np.float32)
    clean = as_type(model, pictures.dtype)
    return Faces(clean, removed, result, outcome, clipped, doubt)


def _doubt(pictures: Array, there: Array | None, model: Array, result: Result) -> Doubt:
    """How sure the model is, like the pictures; colours are guessed together."""
    seen = np.isfinite(pictures)
    seen = seen if there is None else seen & there
    columns = [X.reshape(len(X), -1).T for X in (model, pictures, seen)]
    known = doubt_of(result, *columns)
    guessed = known.guessed.T.reshape(pictures.shape)
    spread = known.deviation
    if spread is not None:
        spread = spread.T.reshape(pictures.shape)
    if pictures.ndim == 4:
        guessed = np.asarray(guessed.any(axis=1))
        spread = None if spread is None else np.moveaxis(spread, 1, -1)
    return Doubt(guessed, spread, known.why)


def _check(images: Array, seen: Array | None) -> None:
    if images.ndim not in (3, 4) or images.size == 0 or images.dtype.kind not in "iuf":
        raise ValueError(
            f"pictures have shape {images.shape} and type {images.dtype}; n x height x"
            " width is wanted"
        )
    if len(images) < FEWEST:
        raise ValueError(
            f"{len(images)} picture(s) of a person; at least {FEWEST} are wanted"
        )
    if seen is not None and seen.shape != images.shape[:3]:
        raise ValueError(f"seen has shape {seen.shape}; {images.shape[:3]} is wanted")


# ---- files


@dataclass(frozen=True, eq=False)
class Person:
    """Pictures of one person and where they came from."""

    name: str
    paths: tuple[Path, ...]
    images: Array

    @property
    def white(self) -> int:
        """The value that is shown as white."""
        return (
            255 if self.images.dtype == np.uint8 else white_of(int(self.images.max()))
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Processed(Outcome):
    """What `process` made of each person's pictures."""

    people: Mapping[str, tuple[Person, Faces]]


def process(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    rank: int | None = None,
    *,
    progress: Tell | None = None,
    **options: Any,
) -> Processed:
    """Clean the face images in folders: what `lrmc faces` does.

    For each picture X, the folder gets clean/PERSON/X.png, removed/PERSON/X.png (grey: nothing),
    guessed/PERSON/X.png (white: what comes from other pictures alone) and deviation/PERSON/X.png
    (16 bits: standard deviations in hundredths of a grey level); and contact.png and report.html.
    Everything appears, whole, or nothing does.

    Parameters
    ----------
    source : path
        A folder with a folder of pictures per person, or with pictures of one.
    target : path
        The folder to make.
    rank : int, optional
        Rank of the model; found for each person if not given.
    progress : callable, optional
        Called with each `Progress`.
    **options
        Those of `lrmc.solve`.

    Returns
    -------
    Processed
        Files, report, status, warnings and seconds, and the people.

    Raises
    ------
    ValueError
        If the input or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If a fit diverged; nothing is written then.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from lrmc.apps import faces
    >>> Path("ann").mkdir()
    >>> rng = np.random.default_rng(0)
    >>> face = rng.uniform(60, 200, (24, 20))
    >>> for k in range(8):
    ...     image = (face * rng.uniform(0.7, 1.0)).astype(np.uint8)
    ...     Image.fromarray(image).save(f"ann/{k}.png")
    >>> done = faces.process("ann", "out", rank=1)
    >>> [file.name for file in done.files]
    ['clean', 'contact.png', 'deviation', 'guessed', 'removed', 'report.html']
    """
    began = time.perf_counter()
    tell = progress or silent
    people = read_people(Path(source))
    origin = Path(os.path.realpath(source))
    if Path(os.path.realpath(target)) in (origin, *origin.parents):
        raise ValueError(
            f"{target} is where the pictures come from; choose another folder"
        )
    done: dict[str, tuple[Person, Faces]] = {}
    with whole_folder(target) as folder:
        for k, person in enumerate(people):
            options["progress"] = _watching(tell, k, people)
            with _named(person):
                faces = clean_faces(
                    person.images, rank=rank, uncertainty=True, **options
                )
            done[person.name] = person, faces
            _write(folder, person, faces)
            tell(Progress("cleaning", k + 1, len(people), "people"))
        tell(Progress("writing the report", 0, 1))
        contact_sheet(done).save(folder / "contact.png")
        page = write_report(
            folder / "report.html",
            "Faces",
            [*report_sections(done), Files.in_folder(folder)],
            subtitle=f"{len(people)} people",
        )
        tell(Progress("writing the report", 1, 1))
        return Processed(
            people=done,
            status=_status(done),
            warnings=tuple(
                text for _, faces in done.values() for text in faces.warnings
            ),
            files=placed(folder, target),
            seconds=time.perf_counter() - began,
            report=Path(target) / page.name,
        )


def _watching(
    tell: Tell,
    k: int,
    people: Sequence[Person],
) -> Callable[[Iterate], None]:
    """What the fit to the k-th person calls with each iterate."""

    def follow(it: Iterate) -> None:
        note = f"{people[k].name}, iteration {it.k}"
        tell(Progress("cleaning", k, len(people), "people", note))

    return follow


def _status(done: Mapping[str, tuple[Person, Faces]]) -> Status:
    """The first that is not sound, of any person."""
    ended = [faces.outcome for _, faces in done.values()]
    return next(
        (outcome.status for outcome in ended if not outcome.sound), Status.CONVERGED
    )


@contextmanager
def _named(person: Person) -> Iterator[None]:
    """What cannot be done with the pictures of a person is told with the name."""
    try:
        yield
    except (ValueError, FitFailed) as error:
        raise type(error)(f"{person.name}: {error}") from error


def read_people(source: Path) -> list[Person]:
    """The pictures of each sub-folder; of the folder itself if it has none."""
    if not source.is_dir():
        raise ValueError(f"{source}: there is no such folder")
    folders = sorted(
        path
        for path in source.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    )
    found = {}
    for folder in folders or [source]:
        paths = pictures_in(folder)
        if paths:
            found[folder] = paths
    if not found:
        raise ValueError(
            f"{source}: there are no pictures in it, nor in its sub-folders"
        )
    return [
        Person(folder.name, tuple(paths), _read_pictures(paths))
        for folder, paths in found.items()
    ]


def _read_pictures(paths: Sequence[Path]) -> Array:
    if len(paths) < FEWEST:
        raise ValueError(
            f"{paths[0].parent} has {len(paths)} picture(s); at least {FEWEST} of a"
            " person are wanted"
        )
    pictures = []
    for path in paths:
        pictures.append(read_picture(path, "faces"))
        if pictures[-1].shape[:2] != pictures[0].shape[:2]:
            here, there = (
                f"{p.shape[1]} x {p.shape[0]}" for p in (pictures[-1], pictures[0])
            )
            raise ValueError(
                f"{path} has {here} pixels, {paths[0].name} {there}; crop faces to one"
                " size first"
            )
    one_depth(pictures, paths[0].parent)
    if any(p.ndim == 3 for p in pictures):
        pictures = [
            p if p.ndim == 3 else np.repeat(p[..., None], 3, 2) for p in pictures
        ]
    return np.stack(pictures)


def _write(folder: Path, person: Person, faces: Faces) -> None:
    pillow = optional("PIL.Image", "faces")
    kinds = _written(person, faces)
    for kind in kinds:
        (folder / kind / person.name).mkdir(parents=True)
    names: set[str] = set()
    for k, path in enumerate(person.paths):
        name = path.stem if path.stem not in names else path.name  # a.jpg and a.png
        names.add(name)
        for kind, pictures in kinds.items():
            place = folder / kind / person.name / f"{name}.png"
            pillow.fromarray(pictures[k]).save(place)


def _written(person: Person, faces: Faces) -> dict[str, Lazy]:
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


# ---- showing


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
    written = _written(person, faces)
    layers = {
        "as it was": Lazy(lambda k: as_bytes(person.images[k], white), n),
        "cleaned": Lazy(lambda k: as_bytes(faces.clean[k], white), n),
        "removed": written["removed"],
    }
    return layers | {k: x for k, x in written.items() if k == "guessed"}


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
            "outliers": f"{faces.result.outlier_fraction:.1%}",
            "noise": f"{faces.result.noise_level:.1f}",
            **told_doubt(person, faces),
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

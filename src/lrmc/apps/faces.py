"""Faces of one person under many lights: what they look like without shadows, highlights and what
covers them.

Pixels x pictures are a matrix of low rank, since a matt surface under any light is a mixture of a
few pictures; cast shadows, highlights, glasses and hands are outliers. All colours of a pixel share
one weight.
"""

from __future__ import annotations

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

    @property
    def rank(self) -> int:
        """How many pictures all others are mixed from."""
        return self.result.rank


def clean_faces(
    images: ArrayLike,
    seen: ArrayLike | None = None,
    rank: int | None = None,
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
    **options
        Those of `lrmc.solve`.

    Returns
    -------
    Faces
        `clean` in the type of the images, `removed`, `result`, `status` and `warnings`.

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
    result, outcome = solved(
        stack.matrix, rank, what="the faces", mask=stack.mask, **options
    )
    limits = Limits.of(pictures[np.isfinite(pictures)])
    model, clipped = limits.held(
        (result.R @ result.L.T).reshape(bands_first.shape), "the faces"
    )
    outcome = after_clipping(outcome, clipped, model.size, limits)
    if coloured:
        model = np.moveaxis(model, 1, -1)
    removed = (pictures - model).astype(np.float32)
    return Faces(as_type(model, pictures.dtype), removed, result, outcome, clipped)


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

    The folder gets clean/PERSON/X.png and removed/PERSON/X.png (grey: nothing) for each picture X,
    contact.png and report.html. Everything appears, whole, or nothing does.

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
    ['clean', 'contact.png', 'removed', 'report.html']
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
                faces = clean_faces(person.images, rank=rank, **options)
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
    tell: Tell, k: int, people: Sequence[Person]
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
    for kind in ("clean", "removed"):
        (folder / kind / person.name).mkdir(parents=True)
    names: set[str] = set()
    for path, clean, removed in zip(
        person.paths, faces.clean, faces.removed, strict=True
    ):
        name = path.stem if path.stem not in names else path.name  # a.jpg and a.png
        names.add(name)
        pillow.fromarray(clean).save(folder / "clean" / person.name / f"{name}.png")
        shown = shown_removed(removed, clean.dtype, person.white)
        pillow.fromarray(shown).save(folder / "removed" / person.name / f"{name}.png")


def shown_removed(
    removed: Array, dtype: np.dtype[Any], white: int | None = None
) -> Array:
    """What was removed as a picture: grey is nothing, dark a shadow, bright a highlight."""
    white = white or (255 if dtype == np.uint8 else 65535)
    return np.clip(np.rint(127.5 + 127.5 * removed / white), 0, 255).astype(np.uint8)


# ---- showing


def contact_sheet(done: Mapping[str, tuple[Person, Faces]]) -> PillowImage:
    """For each person three rows: as it was, cleaned, and what was removed."""
    pillow = optional("PIL.Image", "faces")
    rows = [row for person, faces in done.values() for row in _tiles(person, faces)]
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
        last_of_person = k % 3 == 2
        y += TILE + GAP + (2 * GAP if last_of_person else 0)
    return sheet


def _tiles(person: Person, faces: Faces) -> Iterator[list[PillowImage]]:
    """Three rows of small pictures of a person."""
    pillow = optional("PIL.Image", "faces")
    height, width = person.images.shape[1:3]
    size = (round(width * TILE / height), TILE)
    some = evenly(len(person.images), ACROSS)
    for layer in _layers(person, faces).values():
        pictures = (pillow.fromarray(layer[k]).convert("RGB") for k in some)
        yield [picture.resize(size, pillow.Resampling.LANCZOS) for picture in pictures]


def _layers(person: Person, faces: Faces) -> dict[str, Lazy]:
    """Pictures as they were, cleaned, and what was removed, in bytes."""
    n, white = len(person.images), person.white
    dtype = person.images.dtype
    return {
        "as it was": Lazy(lambda k: as_bytes(person.images[k], white), n),
        "cleaned": Lazy(lambda k: as_bytes(faces.clean[k], white), n),
        "removed": Lazy(lambda k: shown_removed(faces.removed[k], dtype, white), n),
    }


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
        " bright a highlight."
    )
    return [*sections, Words("What is shown", [about])]

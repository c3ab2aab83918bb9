"""Faces of one person under many lights: what they look like without shadows, highlights and what covers them.

Pixels x pictures are a matrix of low rank, since a matt surface under any light is a mixture of a few pictures; cast
shadows, highlights, glasses and hands are outliers. All colours of a pixel share one weight.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import optional
from .._files import whole_folder
from ..report import BeforeAfter, Facts, Frames, Words, write_report
from ..report.images import evenly
from ..result import Result
from ..weights import Array
from .outcome import SOUND, FitFailed, Limits, Outcome, Told, after_clipping, solved
from .pictures import as_bytes, one_depth, pictures_in, read_picture, white_of
from .stack import Stack, as_type, band_groups, check_rank

FEWEST = 3  # pictures of a person
ACROSS = 10  # pictures of a person on the contact sheet
TILE = 140  # pixels: the height of a picture on it, at most
Progress = Callable[[int, int], None]


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


def clean_faces(images: Any, seen: Any = None, rank: int | None = None, **options: Any) -> Faces:
    """Pictures without what the others of the same person do not have.

    `images` is n x height x width, or with three colours last; eyes and mouth should be in the same place in all of
    them. `seen` (n x height x width) is True where a pixel may be believed; NaN is missing. Options are those of
    `lrmc.solve`. A fit that diverges is an error, `lrmc.apps.outcome.FitFailed`.
    """
    images = np.asarray(images)
    if images.ndim not in (3, 4) or images.size == 0 or images.dtype.kind not in "iuf":
        raise ValueError(f"pictures have shape {images.shape} and type {images.dtype}; n x height x width is wanted")
    if len(images) < FEWEST:
        raise ValueError(f"{len(images)} picture(s) of a person; at least {FEWEST} are wanted")
    if seen is not None and np.shape(seen) != images.shape[:3]:
        raise ValueError(f"seen has shape {np.shape(seen)}; {images.shape[:3]} is wanted")
    check_rank(rank, len(images), "pictures")
    by_colour = images if images.ndim == 3 else np.ascontiguousarray(np.moveaxis(images, -1, 1))
    there = None if seen is None else np.asarray(seen, bool)
    if there is not None and images.ndim == 4:
        there = there[:, None]
    stack = Stack(by_colour, there)
    if images.ndim == 4 and images.shape[-1] > 1:
        options.setdefault("groups", band_groups(images.shape[-1], images[0, ..., 0].size))
    result, outcome = solved(stack.matrix, rank, what="the faces", mask=stack.mask, **options)
    known = images[np.isfinite(images)]
    limits = Limits(np.min(known).astype(np.float64), np.max(known).astype(np.float64))
    model, clipped = limits.held((result.R @ result.L.T).reshape(by_colour.shape), "the faces")
    outcome = after_clipping(outcome, clipped, model.size, limits)
    model = model if images.ndim == 3 else np.moveaxis(model, 1, -1)
    clean = as_type(model, images.dtype)
    return Faces(clean, (images - model).astype(np.float32), result, outcome, clipped)


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
        return 255 if self.images.dtype == np.uint8 else white_of(int(self.images.max()))


def clean_folder(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    rank: int | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, tuple[Person, Faces]]:
    """A folder of pictures per person (or one of pictures): the same again, cleaned.

    `target` gets clean/PERSON/X.png and removed/PERSON/X.png (grey: nothing) for each picture X, contact.png and
    report.html. Everything appears, whole, or nothing does.
    """
    people = read_people(Path(source))
    origin = Path(os.path.realpath(source))
    if Path(os.path.realpath(target)) in (origin, *origin.parents):
        raise ValueError(f"{target} is where the pictures come from; choose another folder")
    done: dict[str, tuple[Person, Faces]] = {}
    with whole_folder(target) as folder:
        for k, person in enumerate(people):
            with _named(person):
                done[person.name] = person, clean_faces(person.images, rank=rank, **options)
            _write(folder, *done[person.name])
            if progress is not None:
                progress(k + 1, len(people))
        contact_sheet(done).save(folder / "contact.png")
        write_report(folder / "report.html", "Faces", report_sections(done), subtitle=f"{len(people)} people")
    return done


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
    folders = sorted(path for path in source.iterdir() if path.is_dir() and not path.name.startswith("."))
    found = {}
    for folder in folders or [source]:
        paths = pictures_in(folder)
        if paths:
            found[folder] = paths
    if not found:
        raise ValueError(f"{source}: there are no pictures in it, nor in its sub-folders")
    return [Person(folder.name, tuple(paths), _read_pictures(paths)) for folder, paths in found.items()]


def _read_pictures(paths: Sequence[Path]) -> Array:
    if len(paths) < FEWEST:
        raise ValueError(f"{paths[0].parent} has {len(paths)} picture(s); at least {FEWEST} of a person are wanted")
    pictures = []
    for path in paths:
        pictures.append(read_picture(path, "faces"))
        if pictures[-1].shape[:2] != pictures[0].shape[:2]:
            here, there = (f"{p.shape[1]} x {p.shape[0]}" for p in (pictures[-1], pictures[0]))
            raise ValueError(f"{path} has {here} pixels, {paths[0].name} {there}; crop faces to one size first")
    one_depth(pictures, paths[0].parent)
    if any(p.ndim == 3 for p in pictures):
        pictures = [p if p.ndim == 3 else np.repeat(p[..., None], 3, 2) for p in pictures]
    return np.stack(pictures)


def _write(folder: Path, person: Person, faces: Faces) -> None:
    pillow = optional("PIL.Image", "faces")
    for kind in ("clean", "removed"):
        (folder / kind / person.name).mkdir(parents=True)
    names: set[str] = set()
    for path, clean, removed in zip(person.paths, faces.clean, faces.removed, strict=True):
        name = path.stem if path.stem not in names else path.name  # a.jpg and a.png
        names.add(name)
        pillow.fromarray(clean).save(folder / "clean" / person.name / f"{name}.png")
        shown = shown_removed(removed, clean.dtype, person.white)
        pillow.fromarray(shown).save(folder / "removed" / person.name / f"{name}.png")


def shown_removed(removed: Array, dtype: np.dtype[Any], white: int | None = None) -> Array:
    """What was removed as a picture: grey is nothing, dark a shadow, bright a highlight."""
    white = white or (255 if dtype == np.uint8 else 65535)
    return np.clip(np.rint(127.5 + 127.5 * removed / white), 0, 255).astype(np.uint8)


# ---- showing


def contact_sheet(done: Mapping[str, tuple[Person, Faces]]) -> Any:
    """For each person three rows: as it was, cleaned, and what was removed."""
    pillow = optional("PIL.Image", "faces")
    rows = []
    for person, faces in done.values():
        some = evenly(len(person.images), ACROSS)
        height, width = person.images.shape[1:3]
        size = round(width * TILE / height), TILE
        for kind in (person.images, faces.clean, faces.removed):
            tiles = []
            for k in some:
                if kind is faces.removed:
                    one = shown_removed(kind[k], person.images.dtype, person.white)
                else:
                    one = as_bytes(kind[k], person.white)
                tiles.append(pillow.fromarray(one).convert("RGB").resize(size, pillow.Resampling.LANCZOS))
            rows.append(tiles)
    gap = 4
    wide = max(sum(tile.width + gap for tile in tiles) for tiles in rows) + gap
    sheet = pillow.new("RGB", (wide, len(rows) * (TILE + gap) + gap + 2 * gap * (len(done) - 1)), "white")
    y = gap
    for k, tiles in enumerate(rows):
        x = gap
        for tile in tiles:
            sheet.paste(tile, (x, y))
            x += tile.width + gap
        y += TILE + gap + (2 * gap if k % 3 == 2 else 0)
    return sheet


def report_sections(done: Mapping[str, tuple[Person, Faces]]) -> list[Any]:
    """Of each person the facts, the picture with most removed, and all pictures."""
    sections: list[Any] = []
    for name, (person, faces) in done.items():
        before, after = ([as_bytes(x, person.white) for x in kind] for kind in (person.images, faces.clean))
        removed = [shown_removed(x, person.images.dtype, person.white) for x in faces.removed]
        worst = int(np.argmax([np.mean(np.abs(x) > 40) for x in np.nan_to_num(faces.removed)]))
        facts = {"pictures": len(before), "rank": faces.rank, "outliers": f"{faces.result.outlier_fraction:.1%}"}
        layers = {"as it was": before, "cleaned": after, "removed": removed}
        sections += [
            Facts(name, facts | {"noise": f"{faces.result.noise_level:.1f}", "fit": str(faces.status)}),
            *faces.outcome.sections(),
            BeforeAfter(f"{name}: most removed", before[worst], after[worst], person.paths[worst].name),
            Frames(f"{name}: all pictures", layers, [path.name for path in person.paths], rate=3),
        ]
    about = "Grey in what was removed is nothing, dark a shadow or something dark in front, bright a highlight."
    return [*sections, Words("What is shown", [about])]

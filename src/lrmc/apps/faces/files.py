"""Faces in folders, cleaned: what `lrmc faces` does."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._extras import optional
from ..._files import whole_folder
from ..._progress import FitFailed, Progress, Tell, silent
from ..._work import Outcome, placed
from ...report import Files, write_report
from ...result import Iterate, Status
from .model import Faces, clean_faces
from .people import Person, read_people
from .show import contact_sheet, report_sections, written

FAST = 1  # of the levels of PNG: a third of the time, files a tenth larger


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
                f"{name}: {text}"
                for name, (_, faces) in done.items()
                for text in faces.warnings
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
    """What cannot be done with the pictures of a person, or is doubtful, is told with the name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except (ValueError, FitFailed) as error:
            raise type(error)(f"{person.name}: {error}") from error
    for one in caught:
        warnings.warn(f"{person.name}: {one.message}", one.category, stacklevel=4)


def _write(folder: Path, person: Person, faces: Faces) -> None:
    pillow = optional("PIL.Image", "faces")
    kinds = written(person, faces)
    for kind in kinds:
        (folder / kind / person.name).mkdir(parents=True)
    names: set[str] = set()
    for k, path in enumerate(person.paths):
        name = path.stem if path.stem not in names else path.name  # a.jpg and a.png
        names.add(name)
        for kind, pictures in kinds.items():
            place = folder / kind / person.name / f"{name}.png"
            pillow.fromarray(pictures[k]).save(place, compress_level=FAST)

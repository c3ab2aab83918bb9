"""The command `lrmc faces`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..apps.faces import process
from . import console


def faces_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A folder with a folder of pictures per person."
        ),
    ],
    target: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="The folder for everything."
        ),
    ],
    rank: Annotated[
        int | None,
        typer.Option("--rank", "-r", help="Rank of the model; found if not given."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random start.")] = 0,
    quiet: console.Quiet = False,
    json: console.Json = False,
) -> None:
    """Remove shadows, highlights and occlusions from face images.

    Faces of a person must have one size, with eyes and mouth in the same place. OUT gets
    clean/PERSON/X.png, removed/PERSON/X.png, guessed/PERSON/X.png (white: what comes from other
    pictures alone) and deviation/PERSON/X.png (standard deviations, in hundredths of a grey level)
    for each picture X, contact.png and report.html. A folder of pictures is one person.

    Exit code: 0; 1 if the fit is not sound, or gave nothing that could be written; 2 if the input
    cannot be used. A sentence says so in both cases; without a usable fit or input, nothing is
    written.
    """
    with (
        console.errors_in_a_sentence(),
        console.warnings_in_a_sentence(),
        console.progress("faces") as progress,
    ):
        done = process(source, target, rank, seed=seed, progress=progress)
    shown = ("person", "pictures", "rank", "numbers", "outliers", "noise", "clipped")
    table = console.table(*shown)
    for name, (person, faces) in done.people.items():
        shares = (
            f"{faces.result.outlier_fraction:.1%}",
            f"{faces.result.noise_level:.1f}",
            f"{faces.clipped / faces.clean.size:.2%}",
        )
        table.add_row(
            console.plain(name),
            str(len(person.paths)),
            str(faces.rank),
            faces.numbers,
            *shares,
        )
    console.out().print(table)
    console.out().print(
        f"The contact sheet: {target / 'contact.png'}",
        markup=False,
        soft_wrap=True,
        highlight=False,
    )
    console.end_with(done)

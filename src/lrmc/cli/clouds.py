"""The command `lrmc clouds`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..apps.clouds import process
from ..apps.clouds.model import Fill
from ..apps.clouds.show import shares
from . import console


def clouds_command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCENES", help="GeoTIFFs of one place, or one zarr store."
        ),
    ],
    target: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder for everything."
        ),
    ],
    masks: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Cloud masks of scenes X.tif: X_mask.tif or X.tif, not 0: not believed;"
            " X_SCL.tif; X_QA_PIXEL.tif. Of a zarr store, a variable such as scl.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", "-r", help="Rank of the model; found if not given."),
    ] = None,
    fill: Annotated[
        Fill,
        typer.Option(
            help="clouds: clear pixels stay as they are; all: the model everywhere."
        ),
    ] = "clouds",
    sample: Annotated[
        float, typer.Option(help="Look at this share of the pixels only.")
    ] = 1.0,
    uncertainty: Annotated[
        bool,
        typer.Option(
            "--uncertainty", help="Write the standard deviation of every value as well."
        ),
    ] = False,
    rgb: Annotated[
        str | None,
        typer.Option(metavar="R,G,B", help="Bands to show, from 1, such as 4,3,2."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random start.")] = 0,
    quiet: console.Quiet = False,
    json: console.Json = False,
) -> None:
    """Remove clouds from a series of satellite scenes of one place.

    For each X.tif the folder gets an X.tif without clouds, same grid, type and tags, and an
    X_mask.tif: 0 clear, 1 cloud or shadow, 2 nothing was observed; a quick-look of each in
    quicklooks, and report.html. With --uncertainty there is an X_sd.tif: the standard deviation of
    every value, calibrated on pixels that were hidden where other dates have clouds.

    Dates are read from the names (20210630 or 2021-06-30). A date with no ground to see is
    estimated from the others.

    Exit code: 0; 1 if the fit is not sound, or gave nothing that could be written; 2 if the input
    cannot be used. A sentence says so in both cases; without a usable fit or input, nothing is
    written.
    """
    with (
        console.errors_in_a_sentence(),
        console.warnings_in_a_sentence(),
        console.progress("clouds") as progress,
    ):
        done = process(
            sources,
            target,
            masks=masks,
            rgb=None if rgb is None else _numbers(rgb),
            rank=rank,
            fill=fill,
            sample=sample,
            uncertainty=uncertainty,
            seed=seed,
            progress=progress,
        )
    cleared = done.cleared
    out = console.out()
    table = console.table("scene", "cloud", "missing", "ground")
    for path, *covered, guess in zip(
        done.scenes.paths,
        *shares(cleared.mask),
        cleared.ground.guessed,
        strict=True,
    ):
        table.add_row(
            console.plain(path.name),
            *(f"{share:.1%}" for share in covered),
            "estimated" if guess else "seen",
        )
    out.print(table)
    count = f"{len(done.scenes.paths)} scenes, rank {cleared.ground.rank}"
    out.print(f"{count}, {done.seconds:.1f} s: {target}", markup=False)
    console.end_with(done)


def _numbers(text: str) -> list[int]:
    try:
        return [int(x) for x in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--rgb {text}: numbers of bands are wanted, such as 4,3,2"
        ) from None

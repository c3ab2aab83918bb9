"""The command `lrmc video`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..apps.video import process
from . import console


def video_command(
    source: Annotated[
        Path,
        typer.Argument(metavar="IN", help="A video file, or a folder of pictures."),
    ],
    target: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where everything goes."),
    ],
    sample: Annotated[
        float,
        typer.Option(
            help="The share of the pixels that the background is learned from."
        ),
    ] = 1.0,
    rank: Annotated[
        int,
        typer.Option(
            "--rank", "-r", help="Of the background: 1, or more if light moves."
        ),
    ] = 1,
    grey: Annotated[
        bool, typer.Option("--grey", help="Without colours: three times less work.")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A background.npz of this camera, instead of learning one.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sampled pixels.")] = 0,
    quiet: console.Quiet = False,
    json: console.Json = False,
) -> None:
    """Separate background and foreground of a fixed-camera video.

    Into DIR go background.mp4, foreground.mp4, masks/000000.png and on (255 is foreground),
    background.npz (for --model) and report.html. Clips may be of any length: memory does not grow
    with it.

    Exit code: 0; 1 if the fit is not sound, or gave nothing that could be written; 2 if the input
    cannot be used. A sentence says so in both cases; without a usable fit or input, nothing is
    written.
    """
    with (
        console.errors_in_a_sentence(),
        console.warnings_in_a_sentence(),
        console.progress(source.name) as progress,
    ):
        done = process(
            source,
            target,
            rank=rank,
            sample=sample,
            grey=grey,
            model=model,
            seed=seed,
            progress=progress,
        )
    out = console.out()
    speed = (
        f"{done.n_frames} frames in {done.seconds:.1f} s,"
        f" {done.n_frames / done.seconds:.0f} frames per second"
    )
    out.print(
        f"{speed}; {done.in_front.mean():.1%} of the pixels are in front of the"
        " background.",
        highlight=False,
    )
    out.print(
        "The report, for a browser:"
        f" [bold]{console.plain(str(target / 'report.html'))}[/bold]",
        soft_wrap=True,
    )
    console.end_with(done)

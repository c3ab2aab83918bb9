"""The command `lrmc video`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..apps.video import process
from . import console


def video_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="A video file, a folder of pictures, an address (rtsp://...), or the"
            " number of a camera.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where everything goes."),
    ],
    sample: Annotated[
        float,
        typer.Option(
            help="The share of the pixels that the background is learned from; a small"
            " one saves hardly any time."
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
    films: Annotated[
        bool,
        typer.Option(
            help="Write films and masks; without, only events, background and report,"
            " from smaller pictures: many times faster."
        ),
    ] = True,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="L,T,W,H",
            help="The part of each frame that is looked at: left, top, width, height.",
        ),
    ] = None,
    frames: Annotated[
        int | None,
        typer.Option(help="Frames that are read, at most; a stream needs it to end."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sampled pixels.")] = 0,
    quiet: console.Quiet = False,
    json: console.Json = False,
) -> None:
    """Separate background and foreground of a fixed-camera video.

    Into DIR go background.mp4, foreground.mp4, masks/000000.png and on (255 is foreground),
    events.csv and events.json (boxes and tracks of what is in front), background.npz (for --model)
    and report.html. Clips may be of any length: memory does not grow with it.

    Exit code: 0; 1 if the fit is not sound, or gave nothing that could be written; 2 if the input
    cannot be used. A sentence says so in both cases; without a usable fit or input, nothing is
    written.
    """
    with (
        console.errors_in_a_sentence(),
        console.warnings_in_a_sentence(),
        console.progress(Path(source).name) as progress,
    ):
        done = process(
            source,
            target,
            rank=rank,
            sample=sample,
            grey=grey,
            model=model,
            seed=seed,
            films=films,
            region=as_region(region),
            most=frames,
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


def as_region(text: str | None) -> tuple[int, int, int, int] | None:
    """Four whole numbers with commas between them."""
    if text is None:
        return None
    try:
        left, top, width, height = map(int, text.split(","))
    except ValueError:
        raise ValueError(
            f"--region {text}: left, top, width and height in pixels are wanted, such as"
            " 100,50,320,240"
        ) from None
    return left, top, width, height

"""The command `lrmc ultrasound`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..apps.outcome import share_clipped
from ..apps.ultrasound import process
from ..apps.ultrasound.model import PATCH
from . import console


def ultrasound_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN",
            help="A cine, real or complex (IQ): npy, npz, mat, h5, zarr, nii, DICOM, mp4, avi"
            " or a stack in TIFF, or a folder of DICOM frames or pictures.",
        ),
    ],
    folder: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where everything goes."),
    ],
    rank: Annotated[
        int | None, typer.Option(help="Of the tissue; 1 if not given, found for IQ.")
    ] = None,
    patch: Annotated[
        int,
        typer.Option(
            help="Pixels on a side of the overlapping patches; 0: whole frames."
        ),
    ] = PATCH,
    motion: Annotated[
        bool,
        typer.Option(
            help="Bring frames into register first, if they become more alike."
        ),
    ] = True,
    sample: Annotated[
        float,
        typer.Option(
            help="The share of the pixels that the fit looks at: 0.1 for 10 %."
        ),
    ] = 1.0,
    outliers: Annotated[
        str,
        typer.Option(
            help="Blood is brighter than tissue: positive; or also darker: both."
        ),
    ] = "auto",
    name: Annotated[
        str | None,
        typer.Option(help="The variable, in files with several."),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            help="The axis of the frames: first or last; auto is last for mat, else"
            " first."
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of what is random.")] = 0,
    quiet: console.Quiet = False,
    json: console.Json = False,
) -> None:
    """Separate tissue and blood (or microbubbles) in an ultrasound cine.

    Into DIR go the arrays tissue, blood, deviation (of each pixel around its tissue) and lit (the
    share of the frames in which a pixel has blood), power.png, of complex data doppler.png, and
    report.html. Tissue that moves is brought into register first.

    Exit code: 0; 1 if the fit is not sound, or gave nothing that could be written; 2 if the input
    cannot be used. A sentence says so in both cases; without a usable fit or input, nothing is
    written.
    """
    out = console.out()
    with (
        console.errors_in_a_sentence(),
        console.warnings_in_a_sentence(),
        console.progress(source.name) as progress,
    ):
        written = process(
            source,
            folder,
            name=name,
            time=time,  # type: ignore[arg-type]
            progress=progress,
            rank=rank,
            patch=patch or None,
            motion=motion,
            sample=sample,
            outliers=outliers,
            seed=seed,
        )
    parts = written.parts
    count, height, width = parts.tissue.shape
    out.print(
        f"{count} frames of {width} x {height} pixels in {written.seconds:.1f} s.",
        highlight=False,
    )
    if parts.motion is not None:
        out.print(
            f"The tissue moved by {parts.motion.typical:.1f} pixels (median), and that"
            " was undone.",
            highlight=False,
        )
    if parts.doppler is not None:
        out.print(f"The tissue has rank {parts.rank}.", highlight=False)
    share = (parts.blood != 0).mean()
    out.print(
        f"{share:.1%} of the pixels show blood or bubbles, beyond noise of"
        f" {parts.noise:.3g}.",
        highlight=False,
    )
    if parts.clipped:
        told = share_clipped(parts.clipped, parts.tissue.size)
        out.print(f"Of the tissue, {told} were clipped.", highlight=False)
    for file in written.files:
        out.print(console.plain(str(file)), soft_wrap=True, highlight=False)
    console.end_with(written)

"""The command `lrmc bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import _kernels
from .._progress import Progress
from ..race import bench
from ..race.rivals import RIVALS
from . import console


def bench_command(
    n: Annotated[
        int, typer.Option("--size", min=50, help="Rows and columns of the problems.")
    ] = 1000,
    pythons: Annotated[
        list[Path] | None,
        typer.Option(
            "--python",
            metavar="PATH",
            help="A Python that has other packages; may be given several times.",
        ),
    ] = None,
    limit: Annotated[
        float, typer.Option(min=0, help="Seconds that each may take for a problem.")
    ] = 60,
    threads: Annotated[
        int,
        typer.Option(min=0, help="Threads for all; 0 for as many as there are cores."),
    ] = 0,
    quiet: console.Quiet = False,
) -> None:
    """Compare lrmc with other installed packages on problems with a known answer."""
    out = console.out()
    with console.errors_in_a_sentence():
        places = bench.found_in([str(python) for python in pythons or ()])
        there = [
            name for name, rival in RIVALS.items() if rival.package in places.python
        ]
        for case in bench.cases(n):
            out.print(f"\n{case.name}:", highlight=False)
            table = console.table("", "time", "error", "passes", "memory")
            entries = bench.race(
                case,
                there,
                places,
                limit=limit,
                threads=threads or _kernels.max_threads(),
            )
            with console.progress(case.name) as tell:
                tell(Progress("racing", 0, len(there), "packages"))
                for k, entry in enumerate(entries):
                    table.add_row(*_cells(entry))
                    tell(Progress("racing", k + 1, len(there), "packages"))
            out.print(table)
    out.print(
        f"Rank {bench.RANK}, {bench.ALPHA:.0%} of the observed entries are outliers."
        " The error is that of X, all of it."
    )
    absent = sorted({rival.package for rival in RIVALS.values()} - set(places.python))
    if absent:
        out.print(
            f"Not installed here: {', '.join(absent)}. Others are found with --python"
            " PATH.",
            highlight=False,
        )


def _cells(entry: bench.Entry) -> tuple[str, ...]:
    if entry.seconds is None or entry.error is None or entry.memory is None:
        return entry.name, entry.note, "", "", ""
    passes = "" if entry.passes is None else str(entry.passes)
    return (
        entry.name,
        f"{entry.seconds:.2f} s",
        f"{entry.error:.0e}",
        passes,
        f"{entry.memory:.0f} MB",
    )

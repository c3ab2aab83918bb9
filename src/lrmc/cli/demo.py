"""The command `lrmc demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .._progress import Progress
from ..demo import tour
from ..demo.picture import checked_directory, picture
from ..demo.problems import RANK, Line, measured, problems
from ..demo.scene import HIDDEN, film, recovered
from . import console

COLUMNS = ("problem", "rank", "passes", "time", "error")


def demo_command(
    directory: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where everything goes."),
    ] = Path("lrmc-demo"),
    n: Annotated[
        int,
        typer.Option(
            "--size", min=50, help="Rows and columns of the problems of the race."
        ),
    ] = 3000,
) -> None:
    """Show what lrmc does, in a minute, and write a report.

    It recovers matrices with a known answer, a mostly hidden film and a real table.
    """
    out = console.out()
    with console.errors_in_a_sentence(), console.warnings_in_a_sentence():
        target = checked_directory(directory) / "demo.png"
        race = _race(n, out)
        with console.progress("a film, most of it hidden") as progress:
            scene = film()
            found = recovered(scene, progress)
            picture(scene, found, target)
        out.print(
            f"A film with {HIDDEN:.0%} of its pixels hidden and {scene.outliers:.0%} of"
            " the others wrong:"
        )
        out.print(
            f"{found.exact:.2%} of its background is right to half a grey level, after"
            f" {found.seconds:.1f} s.\n"
        )
        mended = _mended(directory, out)
        with console.progress("the report") as progress:
            progress(Progress("writing"))
            report = tour.write_tour(
                directory / "report.html", race, scene, found, mended
            )
    out.print(
        f"The picture: {console.plain(str(target))}", soft_wrap=True, highlight=False
    )
    out.print(
        f"The report, for a browser: [bold]{console.plain(str(report))}[/bold]",
        soft_wrap=True,
        highlight=False,
    )


def _race(n: int, out: Console) -> list[Line]:
    table, lines = console.table(*COLUMNS), []
    for case in problems(n):
        with console.progress(case.name) as progress:
            lines.append(measured(case, progress))
        table.add_row(case.name, *_cells(lines[-1]))
    out.print(
        f"\n{n} x {n} of rank {RANK}, 10 % of the observed entries are outliers:",
        table,
        sep="\n",
    )
    out.print(
        "Only the paper's LRMC was told the rank, and it has a schedule made for this"
        " problem."
    )
    out.print()
    return lines


def _mended(directory: Path, out: Console) -> tour.Mended | None:
    if not tour.has_table():
        out.print(
            'The real table is left out: it comes with scikit-learn (pip install "lrmc[all]").\n',
            markup=False,
        )
        return None
    with console.progress("a real table") as progress:
        mended = tour.mended_table(directory, progress)
    slips = int(mended.table.slipped.sum())
    out.print(
        f"A real table, {tour.GAPS:.0%} of it hidden, {slips} decimal points out of"
        f" place ({mended.source}):"
    )
    out.print(
        f"{mended.slips_found} of these were found, and {mended.others_found} entries"
        " that nobody had touched."
    )
    out.print(
        f"The error of what was filled in is {mended.missed:.0%} of that of column"
        " medians. The same by hand:\n"
    )
    out.print(
        f"    lrmc complete {mended.source.name} -o {mended.target.name}\n",
        highlight=False,
    )
    return mended


def _cells(line: Line) -> tuple[str, ...]:
    return (
        f"{line.result.rank}",
        f"{line.result.n_iter}",
        f"{line.seconds:.2f} s",
        f"{line.error:.0e}",
    )

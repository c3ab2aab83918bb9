"""The command line: it parses, calls the library and shows what came back."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

try:
    import typer
    from rich import box
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ImportError:
    raise SystemExit('the command line needs typer and rich: pip install "lrmc[cli]"') from None

from . import __version__, cli_training, completion, demo
from .methods.noisy import AskedLoss
from .result import Iterate
from .schedule import Schedule
from .units import Scale
from .weights import Sides

if TYPE_CHECKING:
    from . import tour

NOT_CONVERGED, BAD_INPUT = 1, 2

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the `lrmc` command."""
    app()


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lrmc {__version__}")
        raise typer.Exit


@app.callback()
def _lrmc(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Robust matrix completion: fill the gaps of a low-rank matrix, and find the entries that are wrong."""


@app.command("complete")
def complete_command(
    source: Annotated[Path, typer.Argument(metavar="IN", help="npy, npz, csv, parquet, mtx or mat; by its suffix.")],
    target: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Any of the same formats.")],
    outliers_to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="List of outliers, csv or parquet; OUT with .outliers.csv if not given."),
    ] = None,
    report_to: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Report, html; OUT with .report.html if not given.")
    ] = None,
    no_outliers_file: Annotated[bool, typer.Option("--no-outliers-file", help="Write no list of outliers.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    rank: Annotated[int | None, typer.Option("--rank", "-r", help="Rank of the model; found if not given.")] = None,
    fill: Annotated[completion.Fill, typer.Option(help="What the model replaces.")] = "missing+outliers",
    name: Annotated[str | None, typer.Option(help="Which variable of an npz or mat file.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column that passes through although it holds numbers.")
    ] = None,
    scale: Annotated[
        Scale,
        typer.Option(
            help="Columns in different units: divide each by its spread, and undo that afterwards."
            " auto: of csv and parquet, if both sizes and spreads of columns differ by more than 3 times."
        ),
    ] = "auto",
    loss: Annotated[AskedLoss, typer.Option(help="How residuals are weighed if the data are noisy.")] = "auto",
    outliers: Annotated[Sides, typer.Option(help="On which side of the truth outliers lie.")] = "both",
    schedule: Annotated[
        str | None, typer.Option(help="Run the paper's LRMC with this schedule: its name, or a .json file.")
    ] = None,
    tol: Annotated[float, typer.Option(help="Stop when the model changes by less than this part of itself.")] = 1e-6,
    max_iter: Annotated[int, typer.Option(help="Passes over the data, at most.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the random start.")] = 0,
) -> None:
    """Fill in what is missing, and replace what is wrong.

    Missing are NaN and empty cells; in mtx files and sparse npz and mat files, what is not stored.
    Of a table, columns that are not numbers, header and index pass through unchanged.

    Beside OUT come a list of outliers (row, column, value, expected, score) and a report.
    The score is the distance from the model in standard deviations of the noise; if there is none, in thresholds.

    Exit code: 0 if it converged, 1 if not (all files are written all the same), 2 if the input cannot be used.
    """
    with _errors_in_a_sentence(), _warnings_in_a_sentence(), _progress(source.name, tol) as progress:
        listed = _place(target, "outliers.csv", outliers_to, no_outliers_file, "outliers-to", "no-outliers-file")
        report = _place(target, "report.html", report_to, no_report, "report", "no-report")
        done = completion.complete(
            source,
            target,
            rank,
            outliers_to=listed,
            report_to=report,
            fill=fill,
            scale=scale,
            name=name,
            keep=keep or (),
            loss=loss,
            outliers=outliers,
            schedule=_schedule(schedule),
            tol=tol,
            max_iter=max_iter,
            seed=seed,
            progress=progress,
        )
    _show(done, (target, listed, report))
    raise typer.Exit(0 if done.result.converged else NOT_CONVERGED)


@app.command("demo")
def demo_command(
    directory: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where everything goes.")] = Path(
        "lrmc-demo"
    ),
    n: Annotated[int, typer.Option("--size", min=50, help="Rows and columns of the problems of the race.")] = 3000,
) -> None:
    """A tour, in a minute: problems with a known answer, a film that is mostly hidden, a real table, and a report."""
    from . import tour

    out = _out()
    with _errors_in_a_sentence(), _warnings_in_a_sentence():
        target = demo.checked_directory(directory) / "demo.png"
        race = _race(n, out)
        with _progress("a film, most of it hidden") as progress:
            scene = demo.film()
            found = demo.recovered(scene, progress)
            demo.picture(scene, found, target)
        out.print(f"A film with {demo.HIDDEN:.0%} of its pixels hidden and {scene.outliers:.0%} of the others wrong:")
        out.print(f"{found.exact:.2%} of its background is right to half a grey level, after {found.seconds:.1f} s.\n")
        mended = _mended(directory, out)
        with _progress("the report"):
            report = tour.write_tour(directory / "report.html", race, scene, found, mended)
    out.print(f"The picture: {_plain(str(target))}", soft_wrap=True, highlight=False)
    out.print(f"The report, for a browser: [bold]{_plain(str(report))}[/bold]", soft_wrap=True, highlight=False)


def _race(n: int, out: Console) -> list[demo.Line]:
    table, lines = _table("problem", "rank", "passes", "time", "error", "one pass", "/ reading"), []
    for case in demo.problems(n):
        with _progress(case.name) as progress:
            lines.append(demo.measured(case, progress))
        table.add_row(case.name, *_cells(lines[-1]))
    out.print(f"\n{n} x {n} of rank {demo.RANK}, 10 % of the observed entries are outliers:", table, sep="\n")
    out.print("Only the paper's LRMC was told the rank, and it has a schedule made for this problem.")
    out.print("One pass is of the paper's kind, and compared with reading the data once.\n")
    return lines


def _mended(directory: Path, out: Console) -> tour.Mended | None:
    from . import tour

    if not tour.has_table():
        out.print('The real table is left out: it comes with scikit-learn (pip install "lrmc[all]").\n', markup=False)
        return None
    with _progress("a real table") as progress:
        mended = tour.mended_table(directory, progress)
    slips = int(mended.table.slipped.sum())
    out.print(f"A real table, {tour.GAPS:.0%} of it hidden, {slips} decimal points out of place ({mended.source}):")
    out.print(f"{mended.slips_found} of these were found, and {mended.others_found} entries that nobody had touched.")
    out.print(f"The error of what was filled in is {mended.missed:.0%} of that of column medians. The same by hand:\n")
    out.print(f"    lrmc complete {mended.source.name} -o {mended.target.name}\n", highlight=False)
    return mended


cli_training.register(app)


# ---- what is shown


def _out() -> Console:
    return Console()


def _err() -> Console:
    return Console(stderr=True)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    return table


def _cells(line: demo.Line) -> tuple[str, ...]:
    return (
        f"{line.result.rank}",
        f"{line.result.n_iter}",
        f"{line.seconds:.2f} s",
        f"{line.error:.0e}",
        f"{1e3 * line.one_pass:.1f} ms",
        f"{line.one_pass / line.reading:.1f}",
    )


def _show(done: completion.Completed, written: tuple[Path | None, ...]) -> None:
    result, (n1, n2) = done.result, done.result.shape
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    count = len(done.outliers.rows)
    spreads = " spreads of a column" if done.units else ""
    facts = {
        "shape": f"{n1} x {n2}",
        "observed": f"{done.observed:.1%}",
        "scaled": "each column by its spread" if done.units else "no",
        "rank": f"{result.rank}",
        "status": f"{result.status}",
        "regime": result.regime,
        "iterations": f"{result.n_iter}",
        "time": f"{done.seconds:.2f} s",
        "outliers": f"{count} ({count / (done.observed * n1 * n2):.1%} of the observed)",
        "estimated": f"{result.outlier_fraction:.1%} outliers, noise of standard deviation"
        f" {result.noise_level:.2g}{spreads}",
        "undetermined": f"{len(result.undetermined_rows)} rows, {len(result.undetermined_cols)} columns;"
        f" {done.left} entries are left missing",
        "written": "\n".join(str(path) for path in written if path is not None),
    }
    for name, value in facts.items():
        table.add_row(name, _plain(value))
    _out().print(table)


def _place(target: Path, ending: str, given: Path | None, refused: bool, option: str, flag: str) -> Path | None:
    """Where a file beside OUT goes, or None if it is not wanted."""
    if refused and given is not None:
        raise ValueError(f"--{option} and --{flag} contradict each other; leave one of them out")
    return None if refused else given or completion.beside(target, ending)


@contextmanager
def _progress(title: str, tol: float = 1e-6) -> Iterator[Callable[[Iterate], None]]:
    """A bar that is full when the change per iteration, on a logarithmic scale, has come down to tol."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    console = _err()
    hidden = not console.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=1.0, state="reading")

        def update(it: Iterate) -> None:
            if it.k == 0 or not 0 < tol < 1:
                return
            done = math.log(max(it.change, 1e-300)) / math.log(tol)
            state = f"iteration {it.k}, change {it.change:.0e}, {it.inliers:.0%} inliers"
            bar.update(task, completed=min(1.0, max(0.0, done)), state=state)

        yield update


@contextmanager
def _errors_in_a_sentence() -> Iterator[None]:
    try:
        yield
    except (ValueError, ImportError, OSError, FloatingPointError, MemoryError, np.linalg.LinAlgError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            sentence = f"{error.filename}: {error.strerror}"
        else:
            sentence = " ".join(str(error).split()) or type(error).__name__
        _err().print(f"[red]error:[/red] {_plain(sentence)}", soft_wrap=True, highlight=False)
        raise typer.Exit(BAD_INPUT) from None


@contextmanager
def _warnings_in_a_sentence() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for sentence in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
        _err().print(f"[yellow]warning:[/yellow] {_plain(sentence)}", soft_wrap=True, highlight=False)


def _plain(sentence: str) -> str:
    """Text that rich shows as it is."""
    return sentence.replace("[", r"\[")


def _schedule(given: str | None) -> Schedule | str | None:
    return Schedule.load(given) if given is not None and given.endswith(".json") else given


if __name__ == "__main__":
    main()

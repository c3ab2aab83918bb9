"""The command `lrmc complete`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..complete import blockwise, in_memory
from ..complete.codes import as_codes
from ..complete.files import check_kept, check_level, process
from ..complete.places import beside
from ..complete.table import Long
from ..methods.noisy import AskedLoss
from ..outofcore import Fill
from ..result import Undetermined
from ..schedule import Schedule
from ..units import Scale
from ..weights import Sides
from . import console

Blanks = Literal["blank", "keep"]
# As `Result.low_rank` has it.
LEFT: dict[Blanks, Undetermined] = {"blank": "nan", "keep": "keep"}
GOES_ON = "; the same command goes on from the last iterate"


def complete_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN",
            help="csv, tsv (also .gz, .bz2, .xz), xlsx, parquet, npy, npz, mtx, mat,"
            " zarr, nc or h5; by its suffix.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Any of the same formats; of large matrices npy or zarr.",
        ),
    ],
    outliers_to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="List of outliers, csv or parquet, of large matrices zarr; OUT with"
            " .outliers. if not given.",
        ),
    ] = None,
    report_to: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Report, html; OUT with .report.html if not given.",
        ),
    ] = None,
    no_outliers_file: Annotated[
        bool, typer.Option("--no-outliers-file", help="Write no list of outliers.")
    ] = False,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Write no report.")
    ] = False,
    intervals: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="List what is filled in with intervals that hold the truth with this"
            " probability, such as 0.9: OUT with .intervals.csv (.zarr if it is read"
            " block by block). Takes five more runs.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank",
            "-r",
            help="Rank of the model; found if not given. Offsets of rows and columns may be added.",
        ),
    ] = None,
    fill: Annotated[
        Fill, typer.Option(help="Which entries the model replaces.")
    ] = "missing+outliers",
    undetermined: Annotated[
        Blanks,
        typer.Option(
            help="Rows and columns of which too little is known: leave their gaps, or"
            " keep what is a guess."
        ),
    ] = "blank",
    name: Annotated[
        str | None,
        typer.Option(
            help="Which variable of an npz or mat file, or sheet of an xlsx file."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column that passes through although it holds numbers."),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The column of dates, whose rows are times: auto finds one, none has none.",
        ),
    ] = "auto",
    scale: Annotated[
        Scale,
        typer.Option(
            help="Columns in different units: divide each by its spread, and undo that"
            " afterwards."
            " auto: of tables, if both sizes and spreads of columns differ by"
            " more than 3 times."
        ),
    ] = "auto",
    loss: Annotated[
        AskedLoss, typer.Option(help="How residuals are weighed if the data are noisy.")
    ] = "auto",
    outliers: Annotated[
        Sides, typer.Option(help="On which side of the truth outliers lie.")
    ] = "both",
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Run with this schedule: its name (lrmc schedules lists them), nearest, or a"
            " .json file."
        ),
    ] = None,
    tol: Annotated[
        float,
        typer.Option(
            help="Stop when the model changes by less than this part of itself."
        ),
    ] = 1e-6,
    max_iter: Annotated[int, typer.Option(help="Passes over the data, at most.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the random start.")] = 0,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Read IN (zarr, npy, nc, h5) block by block with about so much memory,"
            " such as 2GB."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Compute with Dask: 'threads', or the address tcp://... of a cluster."
        ),
    ] = None,
    marks: Annotated[
        bool,
        typer.Option(
            "--marks",
            help="List every cell that was filled in or replaced: OUT with .marks.csv."
            " In xlsx files these cells are highlighted anyway.",
        ),
    ] = False,
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="CODES",
            help="Codes for missing values, with commas between them: --missing=-999,?",
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Of a long table, with one value per line: the column that names rows,",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="the one that names columns,"),
    ] = None,
    values: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="and the one with the values.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column that is data although it looks like an id, a year or a date.",
        ),
    ] = None,
    no_limits: Annotated[
        bool,
        typer.Option(
            "--no-limits",
            help="Fill in values outside the plausible range of their column as well.",
        ),
    ] = False,
    quiet: console.Quiet = False,
    json: console.Json = False,
) -> None:
    """Fill in missing values and replace outliers in a table or matrix.

    Missing values are NaN and empty cells, in tables also NA and the like, ? and - in columns of
    numbers, and what --missing names; in sparse files, what is not stored. Text, dates, ids, header
    and index of a table pass through unchanged. New cells have the decimals of their column and lie
    in its plausible range.

    Beside OUT come a list of outliers (row, column, value, expected, score) and a report. The score
    is the distance from the model in standard deviations of the noise, or in thresholds if there
    is no noise.

    zarr, nc and h5 files, and npy files of more than a quarter of the memory, are read and written
    block by block. Ctrl-C then keeps the last iterate, and the same command goes on from it.

    Exit code: 0 if it converged, 1 if not (all files are written all the same), 2 if the input
    cannot be used, 130 after Ctrl-C, 143 after SIGTERM.
    """
    with console.errors_in_a_sentence():
        long = _long(rows, columns, values)
        check_kept(source, (*(keep or ()), *(data or ()), *(long or ())))
        large = blockwise.is_for(source, memory, scheduler)
        level = 0.9 if intervals is None else intervals
        check_level(level)
        kind = "zarr" if large else "csv"
        listed = _place(
            target,
            f"outliers.{kind}",
            outliers_to,
            no_outliers_file,
            "outliers-to",
            "no-outliers-file",
        )
        ends = None if intervals is None else beside(target, f"intervals.{kind}")
        report = _place(
            target, "report.html", report_to, no_report, "report", "no-report"
        )
    with (
        console.errors_in_a_sentence(GOES_ON if large else ""),
        console.warnings_in_a_sentence(),
        console.progress(source.name) as progress,
    ):
        done = process(
            source,
            target,
            rank,
            outliers_to=listed,
            report_to=report,
            intervals_to=ends,
            level=level,
            fill=fill,
            undetermined=LEFT[undetermined],
            scale=scale,
            name=name,
            keep=keep or (),
            data=data or (),
            missing=as_codes(missing),
            long=long,
            limits=not no_limits,
            marks_to=beside(target, "marks.csv") if marks else None,
            time=time,
            memory=memory,
            scheduler=scheduler,
            loss=loss,
            outliers=outliers,
            schedule=_schedule(schedule),
            tol=tol,
            max_iter=max_iter,
            seed=seed,
            progress=progress,
        )
    _show(done)
    console.end_with(done, **_summary(done))


def _show(done: in_memory.Completed | blockwise.Completed) -> None:
    result = done.result
    n1, n2 = result.shape
    of_column = " spreads of a column" if done.units else ""
    noise = f"noise of standard deviation {result.noise_level:.2g}{of_column}"
    facts = {
        "shape": f"{n1} x {n2}",
        "observed": f"{done.observed:.1%}",
        "read": "block by block"
        if isinstance(done, blockwise.Completed)
        else "at once",
        "scaled": "each column by its spread" if done.units else "no",
        "rank": f"{result.rank}",
        "status": f"{result.status}",
        "regime": result.regime,
        **(
            _of_blocks(done)
            if isinstance(done, blockwise.Completed)
            else _of_memory(done)
        ),
        **_coverage(done),
        "estimated": f"{result.outlier_fraction:.1%} outliers, {noise}",
        "undetermined": _undetermined(done),
        "written": "\n".join(str(path) for path in done.files),
    }
    console.out().print(console.facts_table(facts))


def _summary(done: in_memory.Completed | blockwise.Completed) -> dict[str, object]:
    """What a script wants to know."""
    result = done.result
    if isinstance(done, blockwise.Completed):
        counts: dict[str, object] = {"outliers": done.outliers}
    else:
        counts = {
            "outliers": len(done.outliers.rows),
            "expected_false_alarms": done.alarms.false,
            "most_false_alarms": done.alarms.most,
            "limited": done.limited,
            "left_missing": done.left,
        }
    return {
        "shape": list(result.shape),
        "rank": result.rank,
        "regime": result.regime,
        "iterations": result.n_iter,
        "observed": done.observed,
        **counts,
        "outlier_fraction": result.outlier_fraction,
        "noise_level": result.noise_level,
        "undetermined_rows": len(result.undetermined_rows),
        "undetermined_columns": len(result.undetermined_cols),
    }


def _of_memory(done: in_memory.Completed) -> dict[str, str]:
    n1, n2 = done.result.shape
    count = len(done.outliers.rows)
    return {
        "iterations": f"{done.result.n_iter}",
        "time": f"{done.seconds:.2f} s",
        "outliers": f"{count} ({count / (done.observed * n1 * n2):.1%} of the observed),"
        f" about {done.alarms.false:.0f} of them expected to be good"
        f" (at most {done.alarms.most:.0f})",
        "rows": _time(done),
        **_limited(done),
    }


def _limited(done: in_memory.Completed) -> dict[str, str]:
    if not done.limited:
        return {}
    text = f"{done.limited} new cells, to the plausible range of their column"
    return {"limited": text}


def _time(done: in_memory.Completed) -> str:
    """What was made of the dates."""
    if done.dated is None:
        return "no column of dates"
    found = done.result.evidence.get("time", {})
    if not any(part.name == "time" for part in done.result.beyond):
        return f"by {done.dated!r}; a model of time does no better, and is not used"
    period = found.get("period")
    told = "no period" if period is None else f"period of {period} steps"
    return f"by {done.dated!r}; {told} (--time none leaves it out)"


def _coverage(done: in_memory.Completed | blockwise.Completed) -> dict[str, str]:
    """What intervals hold, if they were written."""
    if done.coverage is None:
        return {}
    held = (f"{x.value:.1%} (level {x.level:.0%})" for x in done.coverage)
    return {"intervals": f"hold {', '.join(held)} of hidden entries"}


def _of_blocks(done: blockwise.Completed) -> dict[str, str]:
    before = "" if done.resumed is None else f", after {done.resumed} of an earlier run"
    return {
        "iterations": f"{done.result.n_iter}{before}",
        "passes": f"{done.passes:.0f}",
        "time": f"{done.seconds:.2f} s",
        "outliers": "not written" if done.outliers is None else f"{done.outliers}",
    }


def _undetermined(done: in_memory.Completed | blockwise.Completed) -> str:
    rows, cols = done.result.undetermined_rows, done.result.undetermined_cols
    text = f"{len(rows)} rows, {len(cols)} columns"
    if done.undetermined == "keep" and len(rows) + len(cols):
        text = f"{text}, filled in as a guess"
    if isinstance(done, blockwise.Completed):
        return text
    return f"{text}; {done.left} entries are left missing"


def _place(
    target: Path,
    ending: str,
    given: Path | None,
    refused: bool,
    option: str,
    flag: str,
) -> Path | None:
    """Where a file beside OUT goes, or None if it is not wanted."""
    if refused and given is not None:
        raise ValueError(
            f"--{option} and --{flag} contradict each other; leave one of them out"
        )
    return None if refused else given or beside(target, ending)


def _long(rows: str | None, columns: str | None, values: str | None) -> Long | None:
    """How a long table becomes a matrix: all three, or none."""
    given = [name for name in (rows, columns, values) if name is not None]
    if len(given) in (1, 2):
        raise ValueError(
            "--rows, --columns and --values belong together; give all three, or none"
        )
    return Long(*given) if given else None


def _schedule(given: str | None) -> Schedule | str | None:
    return (
        Schedule.load(given) if given is not None and given.endswith(".json") else given
    )

"""The report of `lrmc complete`: the usual sections of a result, in the names and units of the
table, and what became of each column.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._rows import where
from ..fit import Filling
from ..report import Files, Section, Words, result_sections
from ..report import Table as ReportTable
from ..report.text import number
from ..result import Result
from ..units import Units
from ..weights import Array
from .limits import plausible
from .table import Table, as_dense

if TYPE_CHECKING:
    from .in_memory import Completed

MOST_COLUMNS = 200  # in the report


def report_sections(table: Table, done: Completed) -> list[Section]:
    """The usual sections of a result, with the table's own names and units."""
    rows, cols = table.row_names(), table.col_names()
    facts, *rest = result_sections(
        done.result,
        row_names=rows,
        col_names=cols,
        units=done.units,
        undetermined=done.undetermined,
    )
    few = few_observed(done.result)
    texts = (
        _about_limits(done),
        _about_columns(table),
        about_units(done.units),
    )
    about = [text for text in texts if text]
    added: list[Section] = []
    if few:
        added.append(Words("", [few[0].upper() + few[1:] + "."], "warning"))
    if about:
        added.append(Words("The table", about))
    if table.frame is not None:
        rest = [*rest, _columns_section(table, done)]
    # Notes without a title come first.
    at = next(i for i, section in enumerate(rest) if section.title)
    return [facts, *rest[:at], *added, *rest[at:], *_files_section(done)]


def _files_section(done: Completed) -> list[Section]:
    """Links to the other files, as seen from the report."""
    others = [file for file in done.files if file != done.report]
    if done.report is None or not others:
        return []
    here = Path(os.path.abspath(done.report)).parent
    return [Files("Files", {file.name: _link(file, here) for file in others})]


def _link(file: Path, here: Path) -> str:
    """Where a file is, from a folder."""
    return Path(os.path.relpath(file, here)).as_posix()


def _columns_section(table: Table, done: Completed) -> Section:
    """What is missing and wrong in each column, how well hidden entries of it were found, and its
    range.
    """
    Y = as_dense(table.values)
    missing = np.isnan(Y).sum(0)
    wrong = np.bincount(done.outliers.cols, minlength=Y.shape[1])
    Y[done.outliers.rows, done.outliers.cols] = np.nan
    low, high = plausible(Y)
    columns: dict[str, Array] = {"missing": missing, "outliers": wrong}
    if done.errors is not None:
        columns |= {"error": done.errors.model, "of the median": done.errors.median}
    columns |= {"plausible from": low, "to": high}
    names = table.col_names() or [f"{k}" for k in range(Y.shape[1])]
    order = np.argsort(-(missing + wrong), kind="stable")
    shown = [int(k) for k in order if np.isfinite(low[k])]
    rows = [
        [names[k], *(x[k].item() for x in columns.values())]
        for k in shown[:MOST_COLUMNS]
    ]
    return ReportTable(
        "Column by column",
        ("column", *columns),
        rows,
        _about_the_columns(done, len(shown)),
    )


def _about_the_columns(done: Completed, n: int) -> str:
    text = "Columns with the most missing and wrong cells first"
    if n > MOST_COLUMNS:
        text += f", {MOST_COLUMNS} of {n}"
    text += ". New cells lie in the plausible range."
    if done.errors is None:
        return text
    return (
        f"{text} The error is the mean absolute error on {done.errors.n_hidden} known"
        " entries that were hidden from one more fit, in the units of the column, beside"
        " that of the column's median; a dash where none was hidden."
    )


def subtitle(done: Completed) -> str:
    """What was done, in numbers."""
    obs = done.result.observations
    assert obs is not None
    filled_in = int(np.prod(obs.shape)) - obs.n_observed
    return (
        f"{filled_in - done.left} gaps filled, {len(done.outliers.rows)} outliers found"
    )


def _about_limits(done: Completed) -> str:
    if not done.limited:
        return ""
    return (
        f"{done.limited} cells are filled in at the end of the plausible range of their"
        " column, as the model gives values beyond it; --no-limits keeps those."
    )


def _about_columns(table: Table) -> str:
    others = table.others()
    if not others:
        return ""
    names = ", ".join(name or "(no name)" for name in others[:12]) + (
        ", …" if len(others) > 12 else ""
    )
    return (
        f"{len(table.columns)} columns of numbers were completed. Passed through"
        f" unchanged: {names}."
    )


def about_units(units: Units | None) -> str:
    """How columns were scaled, in words."""
    if units is None:
        return ""
    ratio = number(float(units.spread.max() / units.spread.min()), 2)
    centred = "its median was taken away, and it" if np.any(units.centre) else "it"
    return (
        f"The spreads of the columns differ by up to {ratio} times, and the widest"
        " would rule the pattern. So before"
        f" the fit each column was scaled: {centred} was divided by its spread (1.48"
        " times the median distance from the"
        " median); afterwards this was undone. Noise, thresholds and singular values on"
        " this page are in such spreads;"
        " the entries below are in the units of the table."
    )


def few_observed(result: Result) -> str:
    """A sentence about rows and columns with fewer observations than they have unknowns; empty if
    there are none.
    """
    obs = result.observations
    # a prior, or time, holds rows with few entries
    held = "plan" in result.evidence or any(
        isinstance(x, Filling) for x in result.beyond
    )
    if obs is None or held:
        return ""
    parts = []
    sides = (
        (obs.row_observed, "row(s)", result.undetermined_rows),
        (obs.col_observed, "column(s)", result.undetermined_cols),
    )
    for seen, word, left_open in sides:
        few = len(np.setdiff1d(where(_fewer, (seen,), result.rank), left_open))
        parts += [f"{few} {word}"] if few else []
    if not parts:
        return ""
    return (
        f"{' and '.join(parts)} have fewer observations than the rank, {result.rank}:"
        " what is filled in is a guess"
    )


def _fewer(rows: tuple[Array], rank: int) -> Array:
    (seen,) = rows
    return (seen > 0) & (seen < rank)

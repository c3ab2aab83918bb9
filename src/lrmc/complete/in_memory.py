"""A matrix from a file, completed: the file again without its gaps, what was wrong in it, and a
report.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .._arguments import one_of
from .._files import whole
from .._progress import Progress, Tell, silent
from .._work import Outcome, following
from ..evidence import NotCalibrated
from ..evidence.alarms import LEFT, Alarms
from ..formats.sparse import Matrix
from ..methods.in_time.kinds import kinds_of, stuck
from ..methods.in_time.part import InTime
from ..observations._door import as_observations
from ..observations.base import Observations, row_blocks
from ..outofcore import FILLS, Fill
from ..report import write_report
from ..result import UNDETERMINED, Result, Undetermined, left_out
from ..solve import solve
from ..units import Scale, Units, chosen_units
from ..weights import Array
from .column_errors import ColumnErrors, column_errors
from .dates import AUTO, NONE, dates_of
from .limits import Limits, limited, plausible, rounded
from .lists import Outliers, write_intervals, write_marks, write_outliers
from .long import refuse_long
from .places import Completion, Places, places
from .report_page import few_observed, report_sections, subtitle
from .table import Long, Table, as_dense, is_new
from .tables import WRITERS, checked_place, checked_target, read, suffix_of
from .text_tables import MOST_NAMED

PIVOT = "say what is what in it: --rows NAME --columns NAME --values NAME"
TOL = 1e-6  # what `solve` stops at if not told otherwise
AT_ONCE = 100_000  # places that are looked at for that list


@dataclass(frozen=True, eq=False, kw_only=True)
class Completed(Completion):
    """How a matrix in memory was completed."""

    outliers: Outliers
    alarms: Alarms  # how many of the outliers are expected to be good entries
    left: int  # entries that stay missing, because nothing determines them
    limited: int = 0  # new cells that were put to the end of their plausible range
    dated: str | None = None  # the column of dates, if rows are times
    limits: Limits | None = None  # of new cells, if they are kept within these
    errors: ColumnErrors | None = None  # on hidden entries, if a report is written


def complete(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    rank: int | None = None,
    *,
    outliers_to: str | os.PathLike[str] | None = None,
    report_to: str | os.PathLike[str] | None = None,
    intervals_to: str | os.PathLike[str] | None = None,
    level: float = 0.9,
    marks_to: str | os.PathLike[str] | None = None,
    fill: Fill = "missing+outliers",
    scale: Scale = "auto",
    name: str | None = None,
    keep: Sequence[str] = (),
    data: Sequence[str] = (),
    missing: Sequence[str] = (),
    long: Long | None = None,
    limits: bool = True,
    time: str = AUTO,
    undetermined: Undetermined = "nan",
    progress: Tell | None = None,
    **options: Any,
) -> Completed:
    """Read a matrix, complete it and write it. All files appear, whole, or none does.

    `outliers_to` (csv or parquet) lists what did not fit, `report_to` (html) tells and shows
    everything, `intervals_to` (csv) lists what was missing, with intervals that hold the truth with
    probability `level` (`Result.interval`); where they could not be vouched for, a warning says
    why, and that file is not written; `marks_to` (csv) lists every cell that was filled in or
    replaced. `fill` is explained at `filled`; `scale` at `lrmc.units`; `name`, `keep`, `data`,
    `missing` and `long` at `tables.read`; `time` names the column of dates ("auto" finds one,
    "none" has none), whose rows are then times as `lrmc.solve` takes them; `undetermined` at
    `Result.low_rank`. New cells of a table have the decimals of their column and, unless `limits`
    is False or the fit is proven exact, lie in its plausible range (`complete.limits`). The other
    options are those of `lrmc.solve`.
    """
    one_of("fill", fill, FILLS)
    one_of("undetermined", undetermined, UNDETERMINED)
    to = places(target, outliers_to, report_to, intervals_to, marks_to)
    to = _checked_places(Path(source), to)
    table = read(source, name=name, keep=keep, data=data, missing=missing, long=long)
    if not data and long is None:
        refuse_long(table, Path(source))
    dated, dates = dates_of(table, time)
    _check_width(table, Path(source), dates)
    units = chosen_units(table.values, scale, table=table.frame is not None)
    tell = progress or silent
    options["progress"] = following(tell, options.get("tol", TOL))
    if dated is not None:
        options |= {"time": "rows", "times": dates}
    elif time == NONE:
        options["time"] = None
    began = perf_counter()
    values = table.values if units is None else units.removed(table.values)
    result = solve(values, rank, **options)
    seconds = perf_counter() - began
    outcome = Outcome(status=result.status, warnings=result.warnings)
    text = few_observed(result)
    if text:
        outcome = outcome.warned(text)
    why_not = "" if to.intervals is None else no_intervals(result, level)
    if why_not:
        outcome = outcome.warned(f"no intervals are written: {why_not}")
        to = to._replace(intervals=None)
    tell(Progress("listing outliers"))
    outliers = outlying(result, units, table.values)
    fill, outcome = _if_sure(fill, result, outcome)
    X = filled(result, table.values, fill, outliers, units, undetermined)
    within = None
    if limits and result.regime != "exact":
        within = limits_of(table, outliers)
    X, beyond = presentable(X, table, within)
    errors = None
    if to.report is not None:
        tell(Progress("checking hidden entries"))
        errors = column_errors(result, units)
    obs = result.observations
    assert obs is not None  # a result that was just made has them
    done = Completed(
        result=result,
        units=units,
        observed=obs.fraction,
        undetermined=undetermined,
        outliers=outliers,
        alarms=result.listing().alarms(len(outliers.rows), obs.n_observed),
        left=int(np.isnan(X).sum()),
        coverage=None if to.intervals is None else result.calibration.coverage,
        limited=beyond,
        dated=dated,
        limits=within,
        errors=errors,
        status=outcome.status,
        warnings=outcome.warnings,
        files=to.given,
        seconds=seconds,
        report=to.report,
    )
    tell(Progress("writing", 0, 1))
    _write(to, table, X, done, Path(source).name, level)
    tell(Progress("writing", 1, 1))
    return done


def _if_sure(fill: Fill, result: Result, outcome: Outcome) -> tuple[Fill, Outcome]:
    """Outliers are replaced where few of the list are expected to be good; else that is told."""
    if fill == "missing+outliers" and result.listing().is_doubtful:
        return "missing", outcome.warned(LEFT)
    return fill, outcome


def limits_of(table: Table, outliers: Outliers) -> Limits | None:
    """The plausible range of each column of a table; an array has none."""
    if table.frame is None:
        return None
    good = as_dense(table.values)
    good[outliers.rows, outliers.cols] = np.nan
    return plausible(good)


def presentable(X: Array, table: Table, within: Limits | None) -> tuple[Array, int]:
    """New cells of a table within these limits and with the decimals of their columns; how many
    were beyond the limits.
    """
    if table.frame is None:
        return X, 0
    new, beyond = is_new(X, as_dense(table.values)), 0
    if within is not None:
        X, beyond = limited(X, new, within)
    return rounded(X, new, table.decimals()), beyond


def no_intervals(result: Result, level: float) -> str:
    """Why there are none; empty if there are some."""
    try:
        result.interval(0, 0, level)
    except NotCalibrated as error:
        return str(error)
    return ""


def with_intervals(
    done: Completed,
    X: Array,
    level: float,
) -> Iterator[tuple[Array, ...]]:
    """Rows, columns, values (of X, the completed matrix), lower and upper ends of all missing
    entries that are determined, some at a time; ends are within the limits of new cells.
    """
    result, units = done.result, done.units
    obs, (n1, n2) = result.observations, result.shape
    assert obs is not None
    for block in row_blocks(n1, n2, AT_ONCE):
        grid = obs.grid(np.arange(block.start, block.stop), np.arange(n2))
        at, cols = np.nonzero(np.isnan(grid))
        rows = at + block.start
        ends = result.interval(rows, cols, level)
        known = ~np.isnan(ends[0]) & ~np.isnan(X[rows, cols])
        rows, cols = rows[known], cols[known]
        lower, upper = (x[known] for x in ends)
        if units is not None:
            lower, upper = (units.put_back(x, cols) for x in (lower, upper))
        if done.limits is not None:
            low, high = (x[cols] for x in done.limits)
            lower, upper = (np.clip(x, low, high) for x in (lower, upper))
        values = X[rows, cols]
        # values are rounded: an interval holds what is filled in
        lower, upper = np.minimum(lower, values), np.maximum(upper, values)
        yield rows, cols, values, lower, upper


def outlying(
    result: Result,
    units: Units | None = None,
    Y: Matrix | None = None,
) -> Outliers:
    """What stands out of a result, as `Result.outliers` has it, in blocks of rows; values in the
    units of the data. With time, also values that are stuck, and the kind of each.

    With `units`, Y is the matrix as it was before these were removed.
    """
    obs = result.observations
    if obs is None:
        raise ValueError(
            "this result was loaded from a file, which does not hold the data"
        )
    listed, in_time = result.listing(), _in_time(result, obs)
    found = []
    for some in result.fit.residuals(obs):
        large = listed.beyond(some)
        if in_time is not None:
            large |= in_time.stuck[in_time.places(some.rows, some.cols)]
            if in_time.faulty is not None:
                large |= in_time.faulty[some.rows, some.cols]
        found.append((*(x[large] for x in some), listed.scale(some)[large]))
    rows, cols, residual, scale = (
        np.concatenate(parts) for parts in zip(*found, strict=True)
    )
    noisy = result.regime == "noisy" and result.noise_level > 0
    unit = scale * (result.noise_level if noisy else listed.threshold)
    scores = np.abs(residual) / np.where(unit > 0, unit, 1.0)
    order = np.lexsort((cols, rows, -scores))
    rows, cols, scores = rows[order], cols[order], scores[order]
    values, expected = (
        obs.lookup(rows, cols),
        result.fit.left_out.at(rows, cols),
    )
    if units is not None:
        values, expected = (
            as_observations(Y).lookup(rows, cols),
            units.put_back(expected, cols),
        )
    kinds = None
    if in_time is not None:
        sensors, times = in_time.places(rows, cols)
        kinds = kinds_of(sensors, times, residual[order], in_time.table)
    return Outliers(rows, cols, values, expected, scores, kinds)


class _InTime(NamedTuple):
    """The data of a result with time, as sensors x times, the earliest first."""

    table: Array
    stuck: Array  # which entries are
    faulty: Array | None  # which were left out, in the orientation of the data
    flipped: bool
    nth: Array  # of each line of the data that is a time: how many are earlier

    def places(self, rows: Array, cols: Array) -> tuple[Array, Array]:
        """Sensors and times of these entries."""
        sensors, times = (cols, rows) if self.flipped else (rows, cols)
        return sensors, self.nth[times]


def _in_time(result: Result, obs: Observations) -> _InTime | None:
    part = next((x for x in result.beyond if isinstance(x, InTime)), None)
    if part is None:
        return None
    Y, flipped = obs.grid(*map(np.arange, obs.shape)), part.fills == "rows"
    order = np.argsort(part.timing.clock.cells, kind="stable")
    table = (Y.T if flipped else Y)[:, order]
    nth = np.argsort(order)
    return _InTime(table, stuck(table), part.timing.faulty, flipped, nth)


def filled(
    result: Result,
    values: Matrix,
    fill: Fill,
    outliers: Outliers,
    units: Units | None = None,
    undetermined: Undetermined = "nan",
) -> Array:
    """The completed matrix, n1 x n2.

    "missing": the model L R' where nothing was observed. "missing+outliers": also in place of the
    outliers. "all": everywhere. Gaps in rows and columns that are not determined stay NaN, unless
    these are kept; what was observed there stays as well, since nothing tells what is an outlier.
    """
    told = left_out(result) if fill == "missing+outliers" else result
    X = told.completed(undetermined=undetermined)
    if units is not None:
        X = units.put_back(X)
    if fill == "all":
        return X
    Y = as_dense(values)
    if fill == "missing+outliers":
        at = outliers.rows, outliers.cols
        Y[at] = np.where(np.isnan(X[at]), Y[at], X[at])
    return np.where(np.isnan(Y), X, Y)


def _check_width(table: Table, source: Path, dates: Any) -> None:
    """Refuse what has no pattern across columns: a single one, or one beside a count of the
    rows. With dates, each once, it is a series.
    """
    shape = table.values.shape
    if len(shape) != 2 or 0 in shape:  # which is told where matrices are looked at
        return
    columns = list(range(shape[1]))
    may_be_long = table.frame is not None and shape[1] == 2
    if len(columns) > 1 and shape[0] > 1:
        if may_be_long:
            text = "the table has only two columns of numbers"
            warnings.warn(
                f"{text}; if it is a long one, with one value in each line, {PIVOT}",
                stacklevel=3,
            )
        return
    if len(columns) > 1:
        raise ValueError(
            f"{source} has one row; a matrix of low rank needs several rows and several"
            " columns"
        )
    if dates is not None and dates.is_unique:
        return
    raise ValueError(
        f"{source} has one column of numbers{_which(table, columns)}; low rank is a"
        " pattern across several columns."
        f" If this is a long table, with one value in each line, {PIVOT}"
    )


def _which(table: Table, columns: Sequence[int]) -> str:
    """The only column by its name, and those beside it."""
    named = table.col_names()
    which = f" ({named[columns[0]]!r})" if named and columns else ""
    beside = [repr(label) for label in table.others()[:MOST_NAMED]]
    if not beside:
        return which
    return (
        f"{which}; {', '.join(beside)} {'is' if len(beside) == 1 else 'are'} passed"
        " through"
    )


# ---- what is written


def _checked_places(source: Path, to: Places) -> Places:
    """Refuse outputs that could not be written, or would overwrite each other."""
    checked_target(to.target)
    if os.path.realpath(to.target) == os.path.realpath(source):
        raise ValueError(
            f"{to.target} is also the input; give the output a place of its own"
        )
    kinds = (
        (to.outliers, (".csv", ".parquet"), "list of outliers"),
        (to.report, (".html",), "report"),
        (to.intervals, (".csv",), "list of intervals"),
        (to.marks, (".csv",), "list of new cells"),
    )
    for path, suffixes, what in kinds:
        if path is None:
            continue
        if path.suffix.lower() not in suffixes:
            raise ValueError(
                f"{path}: the {what} is written as {' or '.join(suffixes)}"
            )
        if path.suffix.lower() == ".parquet":
            checked_target(path)
        checked_place(path)
    taken = [os.path.realpath(path) for path in (source, *to.given)]
    for path in (to.outliers, to.report, to.intervals, to.marks):
        if path is not None and taken.count(os.path.realpath(path)) > 1:
            raise ValueError(
                f"{path} is also the place of another file; each needs its own"
            )
    return to


def _write(
    to: Places,
    table: Table,
    X: Array,
    done: Completed,
    title: str,
    level: float,
) -> None:
    """Everything is written beside its place, and moved there when all of it is there."""
    with ExitStack() as stack:
        WRITERS[suffix_of(to.target)](stack.enter_context(whole(to.target)), table, X)
        if to.outliers is not None:
            write_outliers(
                stack.enter_context(whole(to.outliers)), table, done.outliers
            )
        if to.intervals is not None:
            path = stack.enter_context(whole(to.intervals))
            write_intervals(path, table, with_intervals(done, X, level))
        if to.marks is not None:
            write_marks(stack.enter_context(whole(to.marks)), table, X)
        if to.report is not None:
            path = stack.enter_context(whole(to.report))
            sections = report_sections(table, done)
            name = f"{title}, completed"
            write_report(path, name, sections, subtitle=subtitle(done))

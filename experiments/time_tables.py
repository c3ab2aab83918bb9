"""Tables with dates as they are found: `lrmc.solve` beside what anybody would try first, on every
table of a folder.

    python experiments/time_tables.py FOLDER [--masks 3] [--only NAME ...] -o errors.csv
    python experiments/time_tables.py --show errors.csv

FOLDER holds CSV files: dates in the first column, a series of numbers in each of the others. Hidden
are single entries, runs of a series, whole periods of a series (as the calendar has it), and all
that some series had before a date. "Outliers": a tenth of the entries shown becomes anything within
ten deviations of its series. Errors are in deviations of a series."""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import lrmc
from lrmc.methods.in_time.clock import read_clock
from lrmc.methods.in_time.simple import simple_fits

Array = np.ndarray[Any, np.dtype[Any]]
HIDDEN, WRONG, FAR = 0.2, 0.1, 10.0
RUN = 8  # steps of a run that is hidden
LATE = 0.4  # of the series begin late, after up to so large a part of the table


class Line(NamedTuple):
    """What a method reached on a table."""

    table: str
    gaps: str
    outliers: bool
    mask: int
    method: str
    rmse: float
    mae: float
    said: int  # warnings
    seconds: float  # of the processor, one thread


def tables(folder: Path, only: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """By name."""
    for path in sorted(folder.glob("*.csv")):
        if not only or path.stem in only:
            yield path.stem, pd.read_csv(path, index_col=0, parse_dates=True)


def hidden(
    shape: tuple[int, int], gaps: str, period: int, rng: np.random.Generator
) -> Array:
    """Which entries (times x series) are not shown."""
    T, S = shape
    if gaps == "single":
        return rng.random(shape) < HIDDEN
    if gaps == "late":
        late = rng.permutation(S) < max(round(LATE * S), 1)
        begin = np.where(
            late, rng.integers(T // 10, max(int(LATE * T), T // 10 + 1), S), 0
        )
        return np.arange(T)[:, None] < begin
    length = RUN if gaps == "runs" else period
    parts = rng.random((-(-T // length), S)) < HIDDEN
    return np.repeat(parts, length, axis=0)[:T]


def spoilt(X: Array, hide: Array, outliers: bool, rng: np.random.Generator) -> Array:
    """The table with gaps."""
    wrong = (rng.random(X.shape) < WRONG) & outliers
    anything = rng.uniform(-FAR, FAR, X.shape) * np.nanstd(X, 0) + np.nanmean(X, 0)
    return np.where(hide, np.nan, np.where(wrong, anything, X))


def estimates(
    frame: pd.DataFrame, period: int | None
) -> Iterator[tuple[str, Array, int, float]]:
    """Names, values (times x series), how many warnings there were, and seconds."""
    began = time.process_time()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        result = lrmc.solve(frame)
        found = result.completed(undetermined="keep")
    yield "lrmc", np.asarray(found), len(result.warnings), time.process_time() - began
    for name, values in simple_fits(frame.to_numpy(float).T, period).items():
        yield name, values.T, 0, 0.0


def lines(name: str, frame: pd.DataFrame, masks: int) -> Iterator[Line]:
    """All that is asked of one table."""
    X = frame.to_numpy(float)
    period = read_clock(frame.index, len(frame)).period
    kinds = ["single", "runs", "late"] + (["periods"] if period else [])
    for gaps in kinds:
        for outliers in (False, True):
            for mask in range(masks):
                rng = np.random.default_rng([mask, len(X), outliers])
                hide = hidden(X.shape, gaps, period or 1, rng) & ~np.isnan(X)
                Y = pd.DataFrame(
                    spoilt(X, hide, outliers, rng), frame.index, frame.columns
                )
                for method, Z, said, seconds in estimates(Y, period):
                    e = ((Z - X) / np.nanstd(X, 0))[hide]
                    rmse, mae = float(np.sqrt(np.mean(e**2))), float(np.abs(e).mean())
                    yield Line(
                        name, gaps, outliers, mask, method, rmse, mae, said, seconds
                    )


def shown(path: Path) -> Iterator[str]:
    """lrmc over the best simple method of each case (by its mean over masks), in RMSE and MAE."""
    frame = pd.read_csv(path)
    case = ["table", "gaps", "outliers"]
    yield "| gaps, outliers | cases | RMSE: mean, worst | MAE: mean, worst | worst table |"
    yield "|---|---|---|---|---|"
    ratio = {}
    for score in ("rmse", "mae"):
        by = frame.groupby([*case, "method"])[score].mean().unstack()
        ratio[score] = by["lrmc"] / by.drop(columns="lrmc").min(axis=1)
    both = pd.DataFrame(ratio)
    for (gaps, outliers), x in both.groupby(level=["gaps", "outliers"]):
        cells = [
            f"{np.exp(np.log(x[s]).mean()):.2f}, {x[s].max():.2f}"
            for s in ("rmse", "mae")
        ]
        worst = x["rmse"].idxmax()[0]
        what = f"{gaps}, {'10 %' if outliers else 'none'}"
        yield f"| {what} | {len(x)} | {cells[0]} | {cells[1]} | {worst} |"


def main() -> None:
    """Run them all; lines are added to the file."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("folder", type=Path, nargs="?")
    asked.add_argument("--masks", type=int, default=3)
    asked.add_argument("--only", nargs="*", default=[])
    asked.add_argument("-o", "--output", type=Path)
    asked.add_argument("--show", type=Path, help="the table, of what such a file holds")
    args = asked.parse_args()
    if args.show:
        print("\n".join(shown(args.show)))
        return
    new = not args.output.exists()
    with args.output.open("a", newline="") as file:
        rows = csv.writer(file)
        if new:
            rows.writerow(Line._fields)
        for name, frame in tables(args.folder, args.only):
            for line in lines(name, frame, args.masks):
                rows.writerow(line)
            file.flush()


if __name__ == "__main__":
    main()

"""Tables as they are found: `lrmc.RobustImputer` beside scikit-learn's imputers on every table of a
folder.

    python experiments/tables.py FOLDER [--seed 0] [--every 1] [--residue 0] [-o docs/tables.csv]

FOLDER holds CSV files with a header and row names, such as those that the package pydataset unpacks
(R's data sets). Of each table the numeric columns with more than 8 values are taken, if they are 5
or more, and 1,200 of its rows at most. A fifth of the entries is hidden; "outliers": a tenth of the
others becomes anything within ten deviations of its column. Errors are in deviations of columns. No
table was looked at while anything was decided, unless the page of the results says so."""

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
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

import lrmc

Array = np.ndarray[Any, np.dtype[Any]]
MOST_ROWS, LEAST_ROWS, LEAST_COLUMNS, VALUES = 1200, 40, 5, 9
HIDDEN, WRONG, FAR = 0.2, 0.1, 10.0


class Line(NamedTuple):
    """What a method reached on a table."""

    table: str
    rows: int
    columns: int
    outliers: bool
    method: str
    rmse: float
    mae: float
    warnings: int
    seconds: float  # of the processor, one thread


def tables(folder: Path) -> Iterator[tuple[str, Array]]:
    """Each once, by name."""
    files = {path.stem: path for path in sorted(folder.rglob("*.csv"))}
    for name, path in sorted(files.items()):
        try:
            frame = pd.read_csv(path, index_col=0).select_dtypes("number")
        except (ValueError, UnicodeDecodeError):  # no table
            continue
        X = frame.loc[:, frame.nunique() >= VALUES].to_numpy(float)
        if len(X) >= LEAST_ROWS and X.shape[1] >= LEAST_COLUMNS:
            yield name, X[_some(len(X))]


def _some(n: int) -> Array:
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n, min(n, MOST_ROWS), replace=False))


def spoilt(X: Array, outliers: bool, rng: np.random.Generator) -> tuple[Array, Array]:
    """The table with gaps, and what was hidden."""
    hidden = np.isfinite(X) & (rng.random(X.shape) < HIDDEN)
    Y = np.where(hidden, np.nan, X)
    wrong = np.isfinite(Y) & (rng.random(X.shape) < WRONG) & outliers
    anything = rng.uniform(-FAR, FAR, X.shape) * np.nanstd(X, 0) + np.nanmean(X, 0)
    return np.where(wrong, anything, Y), hidden


class Scaled:
    """scikit-learn's imputers, on columns of the same deviation, as their users do."""

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, Y: Array) -> Array:
        """The filled table."""
        scaler = StandardScaler().fit(Y)
        filled = self.imputer.fit_transform(scaler.transform(Y))
        return np.asarray(scaler.inverse_transform(filled))


def methods() -> dict[str, Any]:
    """What is compared, with its defaults."""
    return {
        "median": Scaled(SimpleImputer(strategy="median")),
        "KNN": Scaled(KNNImputer()),
        "Iterative": Scaled(IterativeImputer(random_state=0)),
        "lrmc": lrmc.RobustImputer(),
    }


def run(folder: Path, seed: int, every: int, residue: int) -> Iterator[Line]:
    """Every method on every table, or on those whose number leaves this residue."""
    for k, (name, X) in enumerate(tables(folder)):
        if k % every != residue:
            continue
        for outliers in (False, True):
            Y, hidden = spoilt(X, outliers, np.random.default_rng([seed, k]))
            if (np.isfinite(Y).sum(0) < 4).any():
                continue
            for method, imputer in methods().items():
                yield Line(
                    name, *X.shape, outliers, method, *score(imputer, X, Y, hidden)
                )


def score(
    imputer: Any, X: Array, Y: Array, hidden: Array
) -> tuple[float, float, int, float]:
    """Errors in deviations of columns, warnings and seconds."""
    began = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        filled = imputer.fit_transform(Y)
    seconds = time.process_time() - began
    filled = np.where(np.isnan(filled), np.nanmedian(Y, 0), filled)
    e = ((filled - X) / np.nanstd(X, 0))[hidden]
    rmse, mae = float(np.sqrt(np.mean(e**2))), float(np.mean(np.abs(e)))
    return rmse, mae, len(said), seconds


def summary(lines: list[Line]) -> str:
    """Errors of lrmc over those of the best of the others, table by table."""
    text = "| | tables | mean ratio | median | worst | more than 5 % behind |\n|---|---|---|---|---|---|\n"
    for outliers in (False, True):
        for kind in ("rmse", "mae"):
            own = [x for x in lines if x.outliers is outliers]
            best = {
                x.table: min(
                    getattr(y, kind)
                    for y in own
                    if y.table == x.table and y.method != "lrmc"
                )
                for x in own
            }
            ratio = np.array(
                [getattr(x, kind) / best[x.table] for x in own if x.method == "lrmc"]
            )
            name = f"{'10 % outliers' if outliers else 'clean'}, {kind.upper()}"
            text += (
                f"| {name} | {len(ratio)} | {np.exp(np.log(ratio).mean()):.3f} | {np.median(ratio):.3f}"
                f" | {ratio.max():.2f} | {(ratio > 1.05).sum()} |\n"
            )
    return text


def main() -> None:
    """Run, print, and write if asked to."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("folder", type=Path)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--every", type=int, default=1, help="take every n-th table")
    ask.add_argument("--residue", type=int, default=0, help="from which one on")
    ask.add_argument("-o", "--output", type=Path)
    asked = ask.parse_args()
    lines = []
    for line in run(asked.folder, asked.seed, asked.every, asked.residue):
        lines.append(line)
        print(*line, flush=True)
    print(summary(lines))
    if asked.output:
        with asked.output.open("w", newline="") as file:
            write = csv.writer(file)
            write.writerow(Line._fields)
            write.writerows(lines)


if __name__ == "__main__":
    main()

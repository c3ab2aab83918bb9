"""Imputation: `lrmc.RobustImputer` beside scikit-learn's imputers, on clean data and with 10 %
gross outliers.

    python experiments/imputation.py [--quick] [--data DIR] [--write]

Traffic (METR-LA, rows are five-minute slots): half of the entries are hidden, RMSE on them;
outliers are stuck at 0 or at 70. Jester (rows are users): a fifth of the ratings is hidden, NMAE =
MAE / 20; outliers are at either end of the scale. KNN and Iterative imputation are slow: all
methods see the same sample of rows, named in the table."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from tasks import Array, Source, data_folder
from written import write_made, write_rows

import lrmc

ROOT = Path(__file__).resolve().parent.parent


class Table(NamedTuple):
    """A table with NaN for what is hidden, and how an answer is scored."""

    name: str
    outliers: str
    Y: Array
    score: Callable[[Array], float]


class Line(NamedTuple):
    """What a method reached."""

    data: str
    outliers: str
    method: str
    score: float
    seconds: float  # of the processor, all threads: printed, and not written


def traffic(source: Source, rows: int, share: float) -> Table:
    """Five-minute slots x sensors."""
    rng = np.random.default_rng(source.seed)
    X = source.read("traffic/metr_la_week_speed.npz")["speed"].T.astype(np.float64)
    X = X[np.sort(rng.choice(len(X), rows, replace=False))]
    hidden, wrong = rng.random(X.shape) < 0.5, rng.random(X.shape) < share
    Y = np.where(hidden, np.nan, np.where(wrong, rng.choice([0.0, 70.0], X.shape), X))
    name = f"traffic, {rows} x {X.shape[1]}, RMSE"
    return Table(
        name, f"{share:.0%}", Y, lambda Z: float(np.sqrt(np.mean((Z - X)[hidden] ** 2)))
    )


def jester(source: Source, rows: int, share: float) -> Table:
    """Users x jokes."""
    rng = np.random.default_rng(source.seed)
    X = source.read("ratings/jester5k.npz")["ratings"].astype(np.float64)
    X = X[np.sort(rng.choice(len(X), rows, replace=False))]
    hidden, wrong = rng.random(X.shape) < 0.2, rng.random(X.shape) < share
    Y = np.where(hidden, np.nan, np.where(wrong, rng.choice([-10.0, 10.0], X.shape), X))
    Y[np.isnan(X)] = np.nan
    test = hidden & ~np.isnan(X)
    name = f"jester, {rows} x {X.shape[1]}, NMAE"
    return Table(
        name, f"{share:.0%}", Y, lambda Z: float(np.mean(np.abs(Z - X)[test])) / 20
    )


def methods(quick: bool) -> dict[str, Any]:
    """What is compared; scikit-learn's with its defaults but for the neighbours that
    Iterative looks at.
    """
    return {
        "mean": SimpleImputer(),
        "KNNImputer": KNNImputer(),
        "IterativeImputer": IterativeImputer(
            n_nearest_features=10 if quick else 30, max_iter=5, random_state=0
        ),
        "RobustImputer": lrmc.RobustImputer(),
        "RobustImputer, scale=False": lrmc.RobustImputer(scale=False),
    }


def run(source: Source, quick: bool) -> Iterator[Line]:
    """Every method on every table."""
    sizes = {traffic: 300, jester: 500} if quick else {traffic: 2016, jester: 2000}
    for make, rows in sizes.items():
        for share in (0.0, 0.1):
            table = make(source, rows, share)
            for name, method in methods(quick).items():
                began = time.process_time()
                Z = method.fit_transform(table.Y)
                yield Line(
                    table.name,
                    table.outliers,
                    name,
                    table.score(Z),
                    time.process_time() - began,
                )


def markdown(lines: list[Line]) -> str:
    """One row per method, one column per table."""
    heads = list(dict.fromkeys((x.data, x.outliers) for x in lines))
    text = (
        "| method | "
        + " | ".join(f"{data}, {share} outliers" for data, share in heads)
        + " |\n"
    )
    text += "|---" * (len(heads) + 1) + "|\n"
    for name in dict.fromkeys(x.method for x in lines):
        own = {(x.data, x.outliers): x for x in lines if x.method == name}
        text += (
            f"| {name} | " + " | ".join(f"{own[h].score:.3f}" for h in heads) + " |\n"
        )
    return text


def main() -> None:
    """Run, print, and write if asked to."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument(
        "--data", help="the folder of the data; otherwise LRMC_DATA, or ../shared/data"
    )
    ask.add_argument("--quick", action="store_true", help="fewer rows")
    ask.add_argument(
        "--write",
        action="store_true",
        help="write docs/imputation.md and docs/imputation.csv",
    )
    asked = ask.parse_args()
    folder = data_folder(asked.data)
    warnings.simplefilter("ignore")  # a run that ended badly shows in its score
    lines = []
    for line in run(Source(folder), asked.quick):
        lines.append(line)
        print(*line, sep="  ", flush=True)
    text = markdown(lines)
    print("\n" + text)
    if asked.write:
        write_made(ROOT / "docs" / "imputation.md", text)
        rows = ((*x[:3], f"{x.score:.5g}") for x in lines)
        write_rows(ROOT / "docs" / "imputation.csv", Line._fields[:4], rows)


if __name__ == "__main__":
    main()

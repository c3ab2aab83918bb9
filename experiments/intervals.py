"""Intervals: how many hidden values they hold, and how wide they are, beside the best constant
width.

    python experiments/intervals.py [--masks 0 1 2] [--only NAME] [--data DIR] [--write]

Each table is completed clean and with 10 % gross outliers, under several masks. What is hidden was
never corrupted; intervals are of values. The best constant width is the quantile of the errors on
the hidden entries themselves, which nobody knows; mean widths below it follow the noise. NGSIM has
gaps unlike anything observed, and is to be refused."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from tasks import Array, Source, data_folder
from written import write_made, write_rows

import lrmc
from lrmc.evidence import NotCalibrated
from lrmc.units import column_units

ROOT = Path(__file__).resolve().parent.parent
LEVELS = (0.9, 0.95)
WIDEST = 1.15  # times the best constant width
SLACK = (0.02, 0.015)  # of the coverage at LEVELS
OUTLIERS = 0.1  # of the observed entries
TUNED_ON = (0, 1)  # masks that were looked at when the method was made
CONFIRMED_ON = (100, 102)


class Table(NamedTuple):
    """What is known of a table, where that is, and what outliers are like."""

    X: Array  # NaN where it is not known
    observed: Array  # True where it is given
    wrong: Callable[[np.random.Generator], Array]  # a value for every place


class Line(NamedTuple):
    """How intervals did on one table."""

    data: str
    outliers: float
    mask: int
    coverage: tuple[float, float]  # at LEVELS; NaN where they are refused
    width: tuple[float, float]  # mean, over the best constant one
    expected: float  # what the calibration itself says of its coverage at 0.9
    distance: float  # the share of missing places that are unlike held-out ones
    seconds: tuple[float, float]  # of the processor: the solution, the calibration


def hidden_at_random(X: Array, share: float, rng: np.random.Generator) -> Array:
    """Where a table stays known."""
    return ~np.isnan(X) & (rng.random(X.shape) >= share)


def extremes(low: float, high: float, shape: tuple[int, int]) -> Callable[..., Array]:
    """Outliers at either end of a range: a stuck sensor, a malicious rating."""
    return lambda rng: rng.choice([low, high], shape)


def traffic(source: Source) -> Table:
    """METR-LA: half of the entries hidden, outliers are stuck at 0 or at 70."""
    rng = np.random.default_rng(source.seed)
    X = source.read("traffic/metr_la_week_speed.npz")["speed"].astype(np.float64)
    return Table(X, hidden_at_random(X, 0.5, rng), extremes(0, 70, X.shape))


def jester(source: Source) -> Table:
    """A fifth of the ratings hidden, outliers at either end of the scale."""
    rng = np.random.default_rng(source.seed)
    X = source.read("ratings/jester5k.npz")["ratings"].astype(np.float64)
    return Table(X, hidden_at_random(X, 0.2, rng), extremes(-10, 10, X.shape))


def parking(source: Source) -> Table:
    """Birmingham: 30 car parks x all half hours, 30 % hidden; outliers are anything up to the
    largest number of cars.
    """
    rng = np.random.default_rng(source.seed)
    cars = source.read("traffic/birmingham_parking.npz")["occupancy"]
    X = cars.reshape(len(cars), -1).astype(np.float64)
    X[X == 0] = np.nan
    most = float(np.nanmax(X))
    return Table(
        X, hidden_at_random(X, 0.3, rng), lambda rng: rng.uniform(0, most, X.shape)
    )


def ngsim(source: Source) -> Table:
    """A motorway seen by one car in five; outliers are at either end of the speeds."""
    content = source.read("traffic/ngsim_speed_field.npz")
    X = content["speed_full"].astype(np.float64)
    seen = content["speed_80missing"]
    known = np.where(np.isnan(seen), X, seen)
    return Table(known, ~np.isnan(seen), extremes(0, 25, X.shape))


def columns_of(load: Callable[..., tuple[Array, Array]]) -> Callable[[Source], Table]:
    """A table of scikit-learn in spreads of its columns, a fifth hidden; outliers are up to 10
    spreads away.
    """

    def table(source: Source) -> Table:
        rng = np.random.default_rng(source.seed)
        raw = load(return_X_y=True)[0]
        X = column_units(raw).removed(raw)
        return Table(
            X,
            hidden_at_random(X, 0.2, rng),
            lambda rng: X + rng.uniform(-10, 10, X.shape),
        )

    return table


def made(
    noise: Callable[[np.random.Generator, tuple[int, int]], Array],
) -> Callable[[Source], Table]:
    """Rank 4, 300 x 200, half hidden, with such noise; outliers are up to 10 away."""

    def table(source: Source) -> Table:
        rng, shape = np.random.default_rng(source.seed), (300, 200)
        L, R = (rng.standard_normal((n, 4)) for n in shape)
        X = L @ R.T + 0.3 * noise(rng, shape)
        return Table(
            X,
            hidden_at_random(X, 0.5, rng),
            lambda rng: X + rng.uniform(-10, 10, X.shape),
        )

    return table


def uneven(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Gaussian noise whose scale differs by rows and columns."""
    rows, cols = (np.exp(0.6 * rng.standard_normal(n)) for n in shape)
    return np.outer(rows, cols) * rng.standard_normal(shape)


TABLES: dict[str, Callable[[Source], Table]] = {
    "METR-LA": traffic,
    "Jester": jester,
    "wine": columns_of(load_wine),
    "breast cancer": columns_of(load_breast_cancer),
    "Birmingham": parking,
    "Gauss": made(lambda rng, shape: rng.standard_normal(shape)),
    "Laplace": made(lambda rng, shape: rng.laplace(size=shape)),
    "t3": made(lambda rng, shape: rng.standard_t(3, shape)),
    "heteroscedastic": made(uneven),
    "NGSIM": ngsim,
}
REFUSED = ("NGSIM",)


def given(table: Table, outliers: float, seed: int) -> Array:
    """What the solver gets."""
    rng = np.random.default_rng(1000 + seed)
    wrong = rng.random(table.X.shape) < outliers
    Y = np.where(wrong, table.wrong(rng), table.X)
    return np.where(table.observed, Y, np.nan)


def judged(name: str, outliers: float, source: Source) -> Line:
    """Intervals of one table."""
    table = TABLES[name](source)
    Y = given(table, outliers, source.seed)
    began = time.process_time()
    result = lrmc.solve(Y)
    solved = time.process_time()
    rows, cols = np.nonzero(~table.observed & ~np.isnan(table.X))
    error = np.abs(result.completed()[rows, cols] - table.X[rows, cols])
    known = ~np.isnan(error)
    rows, cols, error = rows[known], cols[known], error[known]
    coverage, width = [np.nan] * 2, [np.nan] * 2
    expected, distance = np.nan, np.nan
    try:
        found = result.calibration
        distance = found.gaps.unlike
        for k, level in enumerate(LEVELS):
            half = np.diff(result.interval(rows, cols, level), axis=0)[0] / 2
            coverage[k] = float(np.mean(error <= half))
            width[k] = float(half.mean() / np.quantile(error, level))
        expected = found.coverage[0].value
    except NotCalibrated as why:
        print(f"{name}, {outliers:.0%} outliers, mask {source.seed}: {why}")
    done = time.process_time()
    return Line(
        name,
        outliers,
        source.seed,
        (coverage[0], coverage[1]),
        (width[0], width[1]),
        expected,
        distance,
        (solved - began, done - solved),
    )


def run(folder: Path, names: list[str], masks: list[int]) -> Iterator[Line]:
    """Every table, clean and with outliers, under every mask."""
    for mask in masks:
        for name in names:
            for outliers in (0.0, OUTLIERS):
                yield judged(name, outliers, Source(folder, mask))


def markdown(lines: list[Line]) -> str:
    """A row for each table; means over masks, and the worst of them."""
    text = (
        "| table | outliers | coverage at 90 % (worst) | at 95 % (worst) |"
        " width (worst) | refused | calibration / solution |\n|---|---|---|---|---|---|---|\n"
    )
    for key in dict.fromkeys((x.data, x.outliers) for x in lines):
        own = [x for x in lines if (x.data, x.outliers) == key]
        refused = sum(bool(np.isnan(x.coverage[0])) for x in own)
        cells = [key[0], f"{key[1]:.0%}", *_of(own), f"{refused} of {len(own)}"]
        ratio = np.mean([x.seconds[1] / x.seconds[0] for x in own])
        text += f"| {' | '.join([*cells, f'{ratio:.2f}'])} |\n"
    return text


def _of(lines: list[Line]) -> Iterator[str]:
    """Coverage at both levels and width at the first, with the worst mask."""
    lines = [x for x in lines if not np.isnan(x.coverage[0])]
    if not lines:
        yield from ("-",) * 3
        return
    for k, level in enumerate(LEVELS):
        all_of = np.array([x.coverage[k] for x in lines])
        worst = all_of[np.argmax(np.abs(all_of - level))]
        yield f"{100 * all_of.mean():.1f} ({100 * worst:.1f})"
    wide = np.array([x.width[0] for x in lines])
    yield f"{wide.mean():.2f} ({wide.max():.2f})"


def misses(lines: list[Line]) -> int:
    """How many coverages and widths are outside of what is wanted, of those that are not refused;
    and tables that ought to be refused and are not.
    """
    count = 0
    for x in lines:
        if x.data in REFUSED:
            count += not np.isnan(x.coverage[0])
            continue
        for k, level in enumerate(LEVELS):
            count += not abs(x.coverage[k] - level) <= SLACK[k]
            count += not x.width[k] <= WIDEST
    return count


def page(lines: list[Line]) -> str:
    """What is written to docs, between what people say of it."""
    text = ""
    for title, masks in (
        ("Masks that the method was made with", TUNED_ON),
        ("Masks that nobody had looked at", CONFIRMED_ON),
    ):
        some = [x for x in lines if x.mask in masks]
        if some:
            names = ", ".join(map(str, sorted({x.mask for x in some})))
            text += f"\n## {title} (seeds {names})\n\n{markdown(some)}"
            total = sum(4 for x in some if x.data not in REFUSED)
            text += f"\n{misses(some)} of {total} coverages and widths are outside.\n"
    return text + "\n"


def main() -> None:
    """Run, print, and write if asked to."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument(
        "--data", help="the folder of the data; otherwise LRMC_DATA, or ../shared/data"
    )
    ask.add_argument("--only", nargs="+", default=list(TABLES), choices=list(TABLES))
    ask.add_argument("--masks", nargs="+", type=int, default=[*TUNED_ON, *CONFIRMED_ON])
    ask.add_argument("--write", action="store_true", help="write docs/intervals.*")
    asked = ask.parse_args()
    folder = data_folder(asked.data)
    warnings.simplefilter("ignore")  # doubts about a fit show in its intervals
    lines = []
    for line in run(folder, asked.only, asked.masks):
        lines.append(line)
        print(*line, sep="  ", flush=True)
    text = page(lines)
    print("\n" + text)
    if asked.write:
        write_made(ROOT / "docs" / "intervals.md", text)
        rows = (x[:7] for x in lines)
        write_rows(ROOT / "docs" / "intervals.csv", Line._fields[:7], rows)


if __name__ == "__main__":
    main()

"""What the experiments of the paper share: methods by name, a race with a clock, tables that grow,
pictures.

Results are kept in `docs/paper`, a row for each run. A script that is started again goes on where
it was: rows that are there are not computed again, unless a method now has other numbers (a
schedule, gamma and eta). `--minutes` ends it early, between two rows."""

from __future__ import annotations

import argparse
import csv
import math
import os
import platform
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

import lrmc
from lrmc import Schedule
from lrmc._files import whole, write_whole
from lrmc.linalg import power_of_4
from lrmc.methods.exactly import exact
from lrmc.observations._door import ENTRY_COST
from lrmc.result import Iterate
from lrmc.schedule import Tuning
from lrmc.synthetic import Problem

# its threads still turn when it is done, and would disturb the clock
threadpool_limits(1, user_api="blas")
ROOT = Path(__file__).resolve().parent.parent
REACHED = 1e-6
# a run whose error does not fall to this part of itself in so many iterations is at rest
PATIENCE, GAIN = 40, 0.9
LOST = 1e3  # a relative error that no run comes back from
COLOURS = {
    "closed loop": "C0",
    "LRMC, trained": "C1",
    "LRMC, trained, paper's form": "C4",
    "LRMC, published": "C5",
    "ScaledGD": "C3",
    "GD": "C7",
}
# as they are shown, and as `lrmc.solve` calls them
BASELINES = {"ScaledGD": "scaled_gd", "GD": "gd"}
# a folder of the authors' files, in LRMC_DATA or ../shared/data
PUBLISHED = Path("official_schedules")


# ---- training


def gain(losses: Sequence[float]) -> tuple[float, float]:
    """By how much the last quarter of the looks is lower than the quarter before, and the standard
    error of that. Losses at one rate: a rate that falls makes every loss fall.
    """
    part = len(losses) // 4
    before, last = np.array(losses[-2 * part :]).reshape(2, part)
    error = math.hypot(*(np.std(some, ddof=1) for some in (before, last)))
    return float(before.mean() - last.mean()), error / math.sqrt(part)


# ---- problems


def drawn(n: int, rank: int, alpha: float, p: float, seed: int, **more: Any) -> Problem:
    """An instance in single precision, as the paper has them, stored as the package
    would store it.
    """
    form = "sparse" if ENTRY_COST * p < 1 else "dense"
    return lrmc.synthetic.problem(
        n, rank, alpha, p, seed, form=form, dtype=np.float32, **more
    )


# ---- methods


class Method(NamedTuple):
    """What `lrmc.iterates` is told."""

    name: str
    options: dict[str, Any]

    @property
    def numbers(self) -> str:
        """What was learned or tuned, in a word; runs with other numbers are other runs."""
        numbers = self.options.get("schedule")
        if isinstance(numbers, Tuning):
            return f"gamma {numbers.gamma:g} eta {numbers.eta:g}"
        return (
            ""
            if numbers is None
            else f"{zlib.crc32(replace(numbers, card={}).to_json().encode()):08x}"
        )


def closed_loop() -> Method:
    """Ours: it is told the rank, as all others are, and nothing else."""
    return Method("closed loop", {"method": "closed_loop"})


def with_schedule(schedule: Schedule, form: str = "") -> Method:
    """LRMC with a schedule of ours."""
    return Method(f"LRMC, trained{form}", {"method": "lrmc", "schedule": schedule})


def published(alpha: float, p: float) -> Method | None:
    """LRMC with the authors' numbers; None where there are none."""
    folder = (
        Path(os.environ.get("LRMC_DATA") or ROOT.parent / "shared" / "data") / PUBLISHED
    )
    file = folder / f"lrmc_n3000_r5_alpha{alpha:g}_p{p:g}.mat"
    return (
        Method(
            "LRMC, published", {"method": "lrmc", "schedule": Schedule.from_mat(file)}
        )
        if file.exists()
        else None
    )


def baseline(name: str, tuning: Tuning) -> Method:
    """ScaledGD or GD with tuned numbers."""
    return Method(name, {"method": BASELINES[name], "schedule": tuning})


# ---- a race


class Point(NamedTuple):
    """A run after k iterations."""

    k: int
    seconds: float  # of the method alone, the start and the look at the data included
    error: float  # |L R' - X| / |X|


def race(
    method: Method, problem: Problem, most: int, stop_at: float = REACHED
) -> list[Point]:
    """Run a method until the true error is below `stop_at`, or at rest above it, or lost.

    The error is computed while the clock stands still.
    """
    points: list[Point] = []
    seconds = 0.0
    run = iterates(method, problem)
    while len(points) <= most:
        began = time.perf_counter()
        it = next(run, None)
        seconds += time.perf_counter() - began
        if it is None:
            break
        error = float(lrmc.relative_error(it, problem))
        points.append(Point(it.k, seconds, error))
        if error < stop_at or not error < LOST or at_rest(points):
            break
    return points


def iterates(method: Method, problem: Problem) -> Iterator[Iterate]:
    """Those of a method; of the closed loop only as far as it takes the data for exact.

    Where it comes to rest at a wrong answer, `lrmc.solve` takes the data for noisy and goes on, for
    minutes."""
    if method.options["method"] != "closed_loop":
        yield from lrmc.iterates(problem.Y, problem.rank, **method.options)
        return
    obs = lrmc.as_observations(problem.Y)
    unit = power_of_4(obs.scale)
    root = obs.dtype.type(math.sqrt(unit))
    for k, step in enumerate(exact(obs.scaled(1 / unit), problem.rank, "both", 0.0, 0)):
        zeta = step.zeta * unit
        yield Iterate(
            k, step.L * root, step.R * root, step.moved, zeta, step.inliers, step.stage
        )


def at_rest(points: Sequence[Point]) -> bool:
    """Whether the error has not fallen for a long time."""
    errors = [point.error for point in points]
    return len(errors) > PATIENCE and min(errors[-PATIENCE:]) > GAIN * min(
        errors[:-PATIENCE]
    )


def warm_up(methods: Iterable[Method], rank: int, p: float = 1.0) -> None:
    """Everything that happens only once, before the clock runs."""
    small = drawn(300, rank, 0.1, p, 0)
    for method in methods:
        race(method, small, 2)


def outcome(points: Sequence[Point]) -> dict[str, Any]:
    """A run as columns of a table."""
    last = points[-1]
    return {
        "iterations": last.k,
        "seconds": round(last.seconds, 4),
        "start": round(points[0].seconds, 4),
        "error": f"{last.error:.3e}",
        "reached": int(last.error < REACHED),
    }


# ---- tables that grow


@dataclass
class Sheet:
    """A CSV file to which rows are added as they come. Lines that begin with # say who
    measured those below.
    """

    path: Path
    keys: Sequence[str]  # the columns that name a row: there is one such row
    # what must be the same, too, for a row not to be measured again
    also: Sequence[str] = ("numbers",)

    def rows(self) -> list[dict[str, str]]:
        """All that is there."""
        return read_rows(self.path)

    def missing(self, wanted: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of the wanted rows that are not there yet."""
        there = {self._name(row, self.also) for row in self.rows()}
        return [row for row in wanted if self._name(row, self.also) not in there]

    def add(self, row: dict[str, Any]) -> None:
        """Append one row in place of an older one, and who measured it if that was
        somebody else before.
        """
        name = self._name(row)
        self.drop(lambda old: self._name(old) == name)
        before, line = comments(self.path), provenance()
        new = not self.path.exists()
        columns = list(row) if new else _header(self.path)
        if columns != list(row):
            raise ValueError(
                f"{self.path} has the columns {columns}, the new row {list(row)}; move the file away"
            )
        with open(self.path, "a", newline="") as file:
            if before[-1:] != [line]:
                file.write(f"# {line}\n")
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        print(self.path.stem, row, flush=True)

    def drop(self, unwanted: Callable[[dict[str, str]], bool]) -> None:
        """Remove rows, and the names of those who measured nothing else."""
        rows = self.rows()
        if not any(map(unwanted, rows)):
            return
        kept: list[str] = []
        told = iter(rows)
        for line in self.path.read_text().splitlines(keepends=True):
            if line.startswith("#") and kept and kept[-1].startswith("#"):
                kept[-1] = line
            elif (
                line.startswith("#")
                or line.rstrip() == ",".join(rows[0])
                or not unwanted(next(told))
            ):
                kept.append(line)
        write_whole(
            self.path, "".join(kept[:-1] if kept[-1].startswith("#") else kept).encode()
        )

    def _name(self, row: dict[str, Any], also: Sequence[str] = ()) -> tuple[str, ...]:
        return tuple(str(row[key]) for key in self.keys) + tuple(
            str(row.get(key, "")) for key in also
        )


def read_rows(path: Path) -> list[dict[str, str]]:
    """A CSV file without its comments."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _header(path: Path) -> list[str]:
    with open(path, newline="") as file:
        return next(csv.reader(line for line in file if not line.startswith("#")))


def comments(path: Path) -> list[str]:
    """Who measured what is in a file."""
    if not path.exists():
        return []
    return [
        line[2:].strip()
        for line in path.read_text().splitlines()
        if line.startswith("# ")
    ]


@cache
def provenance() -> str:
    """Versions, machine, threads, date."""
    cores, threads = os.cpu_count(), lrmc._kernels.max_threads()
    versions = f"lrmc {lrmc.__version__}{_commit()}, NumPy {np.__version__}, SciPy {scipy.__version__}, Python"
    return (
        f"{versions} {platform.python_version()}; {processor()}, {lrmc._kernels.instruction_set()}, {cores} cores,"
        f" {threads} threads, 1 of BLAS; {date.today()}"
    )


def _commit() -> str:
    """Which state of the package this is, if it is in a repository."""
    try:
        asked = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*"]
        name = subprocess.run(
            asked, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "-C", str(ROOT), "diff", "--quiet", "HEAD", "--", "src"]
        ).returncode
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({name}{', changed' if changed else ''})"


def processor() -> str:
    """What the machine calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip()
            for line in lines
            if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


# ---- what a script is told


@dataclass(frozen=True)
class Asked:
    """The size of an experiment, and where its results go."""

    quick: bool
    folder: Path
    instances: int
    until: float
    n: int = 3000
    rank: int = 5

    def over(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() > self.until

    def within_time(self, work: Iterable[Any]) -> Iterator[Any]:
        """As much of the work as there is time for."""
        work = list(work)
        for done, item in enumerate(work):
            if self.over():
                print(
                    f"the time is up: {len(work) - done} of {len(work)} are left for the next time",
                    flush=True,
                )
                return
            yield item


def asked(
    about: str,
    instances: int = 20,
    quick: tuple[int, int, int] = (120, 2, 2),
    folder: str = "docs/paper",
) -> Asked:
    """Parse the command line. `quick` is n, rank and instances of --quick, whose numbers
    mean nothing.
    """
    ask = argparse.ArgumentParser(description=about.split("\n")[0])
    ask.add_argument(
        "--quick", action="store_true", help="tiny, in seconds, to see that it works"
    )
    ask.add_argument(
        "--output", type=Path, help=f"a folder; {folder}, or quick-results with --quick"
    )
    ask.add_argument(
        "--instances", type=int, help=f"problems for each setting (default {instances})"
    )
    ask.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="stop after so long; the next run goes on there",
    )
    told = ask.parse_args()
    place = told.output or ROOT / ("quick-results" if told.quick else folder)
    place.mkdir(parents=True, exist_ok=True)
    until = time.perf_counter() + 60 * told.minutes
    if told.quick:
        n, rank, few = quick
        return Asked(True, place, told.instances or few, until, n, rank)
    return Asked(False, place, told.instances or instances, until)


# ---- pictures


def picture(
    target: Path, draw: Callable[[Any], None], columns: int = 1, width: float = 5.5
) -> None:
    """A figure with some axes in a row, written whole."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, columns, figsize=(width * columns, 4.2), layout="constrained", squeeze=False
    )
    for one in axes[0]:
        one.grid(alpha=0.3)
        one.spines[["top", "right"]].set_visible(False)
    draw(axes[0] if columns > 1 else axes[0][0])
    with whole(target) as temporary:
        figure.savefig(temporary, dpi=110, format="png")
    plt.close(figure)


def legend_beside(axes: Any, **how: Any) -> None:
    """What any of the axes shows, once, on their right."""
    shown = {
        label: line
        for one in axes
        for line, label in zip(*one.get_legend_handles_labels())
    }
    axes[-1].legend(
        shown.values(), shown, loc="center left", bbox_to_anchor=(1, 0.5), **how
    )


def geometric_mean(numbers: Iterable[float]) -> float:
    """Of positive numbers."""
    return float(np.exp(np.mean(np.log(np.maximum(list(numbers), 1e-300)))))


def write_page(
    title: str, folder: Path, name: str, page: Callable[[Path, str], str]
) -> None:
    """Ask where, and write `page(folder of the CSV files, how they are reached from the
    page)` there.
    """
    ask = argparse.ArgumentParser(description=f"Write the page about {title}.")
    ask.add_argument("--folder", type=Path, default=folder)
    ask.add_argument("--target", type=Path)
    told = ask.parse_args()
    target = told.target or told.folder.parent / name
    prefix = "" if target.parent == told.folder else f"{told.folder.name}/"
    write_whole(target, page(told.folder, prefix).encode())
    print(f"written: {target}")

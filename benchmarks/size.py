"""Cost against size: passes and time by n, with as many entries per row, and by rank:
docs/benchmarks/size.csv, .png.

    python benchmarks/size.py [--quick] [--minutes 4]

Times are the best of three, from the array to the factors, in single precision; the rank is given.
They are compared with reading the data once, with the same threads: what no method that looks at
the data can beat."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))

from common import Sheet, picture
from timing import fastest

import lrmc
from lrmc import _kernels
from lrmc.observations._door import ENTRY_COST

PER_ROW = 300  # observed entries, as at n = 3000 and p = 0.1
SIZES, RANKS = (
    (500, 1000, 1500, 2000, 3000, 5000, 7000, 10_000),
    (1, 2, 5, 10, 20, 30, 50),
)
REPEATS = 3


class Case(NamedTuple):
    """A problem: by what it differs from the others, and its numbers."""

    by: str
    n: int
    rank: int
    p: float


def cases(quick: bool) -> list[Case]:
    """All sizes, then all ranks."""
    if quick:
        return [Case("size", n, 2, 60 / n) for n in (100, 200)] + [
            Case("rank", 150, rank, 1.0) for rank in (1, 3)
        ]
    return [Case("size", n, 5, PER_ROW / n) for n in SIZES] + [
        Case("rank", 3000, rank, 1.0) for rank in RANKS
    ]


def reading_time(arrays: tuple[Any, ...]) -> float:
    """How long every byte takes to come from memory: the limit of any method that looks at the
    data.
    """
    threads = _kernels.max_threads()
    return fastest(lambda: [_kernels.read_once(x, threads) for x in arrays])


def measured(case: Case) -> dict[str, Any]:
    """Solve, and look at the clock."""
    form = "sparse" if ENTRY_COST * case.p < 1 else "dense"
    made = lrmc.synthetic.problem(
        case.n, case.rank, 0.1, case.p, 0, form=form, dtype=np.float32
    )
    seconds = math.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        result = lrmc.solve(made.Y, case.rank)
        seconds = min(seconds, time.perf_counter() - began)
    obs = lrmc.as_observations(made.Y)
    one_pass = fastest(
        lambda: obs.pull(result.L, result.R, result.history[-1].zeta), 10
    )
    stored = (made.Y.data, made.Y.indices) if sp.issparse(made.Y) else (made.Y,)
    return {
        "form": form,
        "entries": obs.n_observed,
        "stored": len(stored[0]) if sp.issparse(made.Y) else made.Y.size,
        "passes": result.n_iter,
        "seconds": f"{seconds:.4g}",
        "pass_ms": f"{1e3 * one_pass:.4g}",
        "reading_ms": f"{1e3 * reading_time(stored):.4g}",
        "error": f"{lrmc.relative_error(result, made):.1e}",
    }


def draw(axes: Any, rows: list[dict[str, str]]) -> None:
    """Nanoseconds per entry, by size and by rank."""
    for one, by, x in zip(axes, ("size", "rank"), ("n", "rank")):
        mine = sorted(
            (row for row in rows if row["by"] == by), key=lambda row: int(row[x])
        )
        at = [int(row[x]) for row in mine]
        entries = [int(row["entries"]) for row in mine]
        lines = {
            "the whole solve, per pass": [
                1e9 * float(r["seconds"]) / (int(r["passes"]) + 4) for r in mine
            ],
            "one pass of LRMC": [1e6 * float(r["pass_ms"]) for r in mine],
            "reading the data": [1e6 * float(r["reading_ms"]) for r in mine],
        }
        for label, times in lines.items():
            one.loglog(
                at,
                [t / m for t, m in zip(times, entries)],
                "-o",
                markersize=4,
                label=label,
            )
        one.set(xlabel=x, ylabel="ns per observed entry", title=f"by {by}")
        one.set_xticks(at, [str(k) if k != 1500 else "" for k in at])
        one.minorticks_off()
    axes[1].legend(fontsize=8, loc="upper left")


def main() -> None:
    """Measure what is missing, and draw."""
    ask = argparse.ArgumentParser(description="Cost against size.")
    ask.add_argument("--quick", action="store_true", help="tiny, to see that it works")
    ask.add_argument(
        "--minutes", type=float, default=math.inf, help="stop after so long"
    )
    ask.add_argument("--output", type=Path)
    told = ask.parse_args()
    folder = told.output or ROOT / (
        "quick-results" if told.quick else "docs/benchmarks"
    )
    folder.mkdir(parents=True, exist_ok=True)
    until = time.perf_counter() + 60 * told.minutes
    sheet = Sheet(folder / "size.csv", ("by", "n", "rank"))
    for row in sheet.missing([case._asdict() for case in cases(told.quick)]):
        if time.perf_counter() > until:
            print("the time is up")
            break
        sheet.add({**row, "p": f"{row['p']:.4g}", **measured(Case(**row))})
    picture(folder / "size.png", lambda axes: draw(axes, sheet.rows()), 2, 5)


if __name__ == "__main__":
    main()

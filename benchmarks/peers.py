"""The race against other packages: docs/benchmarks/peers.csv, curve.csv and peers.png.

    python benchmarks/peers.py [--python PATH ...] [--only "dense 1000"] [--limit 300] [--minutes 4]
    [--quick]

Peers are looked for in this Python and in those given: have them in an environment of their own
(`pip install pyrpca tensorly sporco skpcp hyperspy cmfrec`, and qolmat in another). Each runs in a
process of its own, with the same threads, after a small problem that warms up. Rows that are there
are not measured again, except those of packages that were not installed, or had less time, then.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))

from common import Sheet, closed_loop, legend_beside, picture, race, warm_up

import lrmc
from lrmc import _kernels
from lrmc.race import bench
from lrmc.race.bench import NOT_INSTALLED, Case, Entry, Places
from lrmc.race.rivals import RIVALS

CURVES = ("dense 1000", "half missing 1000")


def all_cases() -> list[Case]:
    """From the quick ones to those that only some survive."""
    few = [
        Case("10 % observed 3000", 3000, 0.1),
        Case("10 % observed 3000, outliers x10", 3000, 0.1, 10),
    ]
    return [
        *bench.cases(1000),
        *bench.cases(3000),
        *few,
        Case("tall 500000 x 375", 500_000, n2=375),
    ]


def row_of(entry: Entry, version: str) -> dict[str, Any]:
    """As the file has it."""
    numbers = {
        "seconds": entry.seconds,
        "error": entry.error,
        "passes": entry.passes,
        "memory_mb": entry.memory,
    }
    shown = {
        key: "" if value is None else f"{value:.4g}" for key, value in numbers.items()
    }
    return {
        "case": entry.case,
        "method": entry.name,
        "version": version,
        **shown,
        "note": entry.note,
    }


def outdated(row: dict[str, str], limit: float, places: Places) -> bool:
    """Whether a row has no numbers, and could have now."""
    installed = RIVALS[row["method"]].package in places.python
    return installed and (
        row["note"] == NOT_INSTALLED
        or (bench.seconds_given(row["note"]) or limit) < limit
    )


def curve(case: Case, sheet: Sheet) -> None:
    """The way of lrmc to the answer, in double precision, the rank given."""
    if not sheet.missing([{"case": case.name, "k": 0}]):
        return
    warm_up([closed_loop()], bench.RANK)
    form: Any = {"form": "dense", "outlier_scale": case.outlier_scale}
    problem = lrmc.synthetic.problem(case.n, bench.RANK, bench.ALPHA, case.p, 0, **form)
    for point in race(closed_loop(), problem, 40, 1e-12):
        sheet.add(
            {
                "case": case.name,
                "k": point.k,
                "seconds": f"{point.seconds:.4g}",
                "error": f"{point.error:.3g}",
            }
        )


def draw(
    axes: Any,
    rows: list[dict[str, str]],
    ways: list[dict[str, str]],
    names: tuple[str, ...],
) -> None:
    """Error against time: a point for each peer, a line for lrmc."""
    for one, name in zip(axes, names):
        way = [
            (float(row["seconds"]), float(row["error"]))
            for row in ways
            if row["case"] == name
        ]
        if way:
            one.loglog(*zip(*way), "-o", markersize=3, label="lrmc, its iterates")
        for k, rival in enumerate(RIVALS):
            mine = next(
                (row for row in rows if row["case"] == name and row["method"] == rival),
                None,
            )
            if mine is None:
                continue
            how: Any = {"color": f"C{k}", "linestyle": "none"}
            if mine["seconds"]:
                marker = "*" if rival.startswith("lrmc") else "s"
                one.loglog(
                    float(mine["seconds"]),
                    float(mine["error"]),
                    marker,
                    label=rival,
                    markersize=8,
                    **how,
                )
            elif (limit := bench.seconds_given(mine["note"])) is not None:
                one.loglog(
                    limit,
                    0.5 ** (k - 2),
                    ">",
                    label=f"{rival} (did not end)",
                    markersize=9,
                    **how,
                )
        one.axhline(1e-6, color="grey", linewidth=0.6)
        one.set(xlabel="seconds", title=name)
        one.set_ylim(1e-9, 3)
    axes[0].set_ylabel("relative error")
    legend_beside(axes, fontsize=8)


def main() -> None:
    """Measure what is missing, and draw."""
    ask = argparse.ArgumentParser(description="Race lrmc against other packages.")
    ask.add_argument(
        "--python", action="append", default=[], help="a Python that has some of them"
    )
    ask.add_argument("--only", default="", help="cases that begin so")
    ask.add_argument("--limit", type=float, default=300, help="seconds for each")
    ask.add_argument("--threads", type=int, default=_kernels.max_threads())
    ask.add_argument(
        "--minutes", type=float, default=math.inf, help="stop after so long"
    )
    ask.add_argument(
        "--quick", action="store_true", help="a tiny problem, to see that it works"
    )
    ask.add_argument("--output", type=Path)
    told = ask.parse_args()
    folder = told.output or ROOT / (
        "quick-results" if told.quick else "docs/benchmarks"
    )
    folder.mkdir(parents=True, exist_ok=True)
    until = time.perf_counter() + 60 * told.minutes
    sheet, ways = (
        Sheet(folder / "peers.csv", ("case", "method")),
        Sheet(folder / "curve.csv", ("case", "k")),
    )
    places = bench.found_in(told.python)
    cases = bench.cases(100)[::2] if told.quick else all_cases()
    drawn = tuple(case.name for case in cases) if told.quick else CURVES
    for case in (case for case in cases if case.name.startswith(told.only)):
        there = {
            row["method"]
            for row in sheet.rows()
            if row["case"] == case.name and not outdated(row, told.limit, places)
        }
        names = [name for name in RIVALS if name not in there]
        for entry in bench.race(
            case, names, places, limit=told.limit, threads=told.threads
        ):
            sheet.add(row_of(entry, places.version.get(RIVALS[entry.name].package, "")))
            if time.perf_counter() > until:
                print("the time is up")
                return
        if case.name in drawn:
            curve(case, ways)
    picture(
        folder / "peers.png",
        lambda axes: draw(axes, sheet.rows(), ways.rows(), drawn),
        len(drawn),
        5,
    )


if __name__ == "__main__":
    main()

"""Write docs/benchmarks.md from docs/benchmarks/*.csv. No number by hand.

python benchmarks/page.py [--folder docs/benchmarks] [--target docs/benchmarks.md]
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))

from common import read_rows, write_page
from page import measured_by, table

from lrmc.race.bench import seconds_given
from lrmc.race.rivals import RIVALS

Row = dict[str, str]
REACHED, LEAST = 1e-6, 20
ASKED = ("dense 1000", "half missing 1000")

ABOUT = """\
Problems with a known answer, one of each kind (seed 0): rank 5, E x^2 = 1, 10 % of the observed entries are outliers,
uniform up to the mean |x| (x10: up to ten times that). Everyone gets the same array in double precision (the tall one:
single), the same threads, and a small problem first that warms up; each runs in a process of its own, which may use
8 GB of address space. The time is that of the call (the median of up to five, if they take less than 2 s together), the
error |L R' - X| / |X| over all entries, observed or not, the memory the most that the process had, the data included.
Tolerances are set so that 1e-6 can be reached; *more than* is the time that a process was given in all. lrmc, ORPCA and
cmfrec give back factors, the others matrices. The calls are in `src/lrmc/apps/rivals.py`: better settings may exist for
every one of them, and pull requests with such settings are welcome. `lrmc bench` runs the same on your machine, with
what is installed there."""

FAIR = """\
What the others do better, and what this race does not show:

- Most need no rank, and neither does lrmc; hyperspy's ORPCA and cmfrec are told it, as *lrmc, rank given* is.
- The convex methods (pyrpca, sporco, skpcp, tensorly, qolmat) solve a problem with one answer, whatever the rank is,
  and theorems say when that is the truth. lrmc looks for a rank up to 15 and descends on factors: too low a rank or a
  hard problem can end in a wrong answer.
- hyperspy's ORPCA reads its data once, in a stream (of lrmc, `RobustPCA.partial_fit` does); its error is larger.
- cmfrec is not made for outliers. It is here as what one gets without robustness.
- IRCUR, which is fast on dense data, is on no package registry, so it could not be installed by name and did not run.
- All data here are exactly low-rank plus sparse, our home ground; [imputation](imputation.md) has real tables."""


def peers(rows: list[Row]) -> str:
    """A table for each problem."""
    parts = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = sorted(
            (row for row in rows if row["case"] == case),
            key=lambda row: float(row["seconds"] or "inf"),
        )
        lines = [(r["method"], *_numbers(r)) for r in mine]
        parts += [
            f"**{case}**",
            table(("", "seconds", "error", "passes", "memory (MB)"), lines),
        ]
    return "\n\n".join([*parts, *(_bar(rows, case) for case in ASKED)])


def _numbers(row: Row) -> tuple[str, ...]:
    if not row["seconds"]:
        return row["note"], "", "", ""
    return (
        f"{float(row['seconds']):.2f}",
        f"{float(row['error']):.0e}",
        row["passes"],
        f"{float(row['memory_mb']):.0f}",
    )


def _bar(rows: list[Row], case: str) -> str:
    """How many times faster than the fastest that gets there."""
    there = [
        r
        for r in rows
        if r["case"] == case and r["seconds"] and float(r["error"]) < REACHED
    ]
    ours = [float(r["seconds"]) for r in there if r["method"] == "lrmc"]
    others = {
        r["method"]: float(r["seconds"])
        for r in there
        if not r["method"].startswith("lrmc")
    }
    if not ours:
        return f"{case}: not measured yet."
    if not others:
        waited = [
            limit
            for r in rows
            if r["case"] == case and (limit := seconds_given(r["note"])) is not None
        ]
        if not waited:
            return f"{case}: no other takes part."
        ratio = f"more than {min(waited) / ours[0]:.0f} times as fast as any other that could reach 1e-6"
        return f"{case}: lrmc is {ratio} ({LEAST} asked): none of them had after {min(waited):.0f} s."
    best = min(others, key=lambda name: others[name])
    ratio = f"{others[best] / ours[0]:.0f} times as fast as {best}"
    return (
        f"{case}: lrmc is {ratio}, the fastest other that reaches 1e-6 ({LEAST} asked)."
    )


def versions(rows: list[Row]) -> str:
    """Which were raced."""
    known = {
        RIVALS[row["method"]].package: row["version"] for row in rows if row["version"]
    }
    absent = {
        RIVALS[row["method"]].package for row in rows if not row["version"]
    } - set(known)
    text = (
        "Versions: "
        + ", ".join(
            f"{package} {version}" for package, version in sorted(known.items())
        )
        + "."
    )
    return text + (f" Not installed: {', '.join(sorted(absent))}." if absent else "")


def sizes(rows: list[Row]) -> str:
    """Passes and time by size and by rank."""
    head = ("n", "rank", "p", "stored as", "entries", "passes", "seconds")
    head += (
        "ns per pass and stored entry",
        "and observed entry",
        "one pass / reading",
        "all / reading",
        "error",
    )
    lines = []
    for r in sorted(
        rows, key=lambda r: (r["by"] != "size", int(r["n"]), int(r["rank"]))
    ):
        each = 1e9 * float(r["seconds"]) / (int(r["passes"]) + 4)
        ratio, whole = (
            float(r[key]) / float(r["reading_ms"]) for key in ("pass_ms", "seconds")
        )
        told = (
            r[key] for key in ("n", "rank", "p", "form", "entries", "passes", "seconds")
        )
        numbers = (
            f"{each / int(r['stored']):.2f}",
            f"{each / int(r['entries']):.2f}",
            f"{ratio:.1f}",
        )
        lines.append((*told, *numbers, f"{1e3 * whole:.0f}", r["error"]))
    return table(head, lines)


def page(folder: Path, prefix: str) -> str:
    """The whole page."""
    raced, sized = read_rows(folder / "peers.csv"), read_rows(folder / "size.csv")
    parts = [
        "# Benchmarks",
        "Written by `benchmarks/page.py` from the CSV files in `docs/benchmarks`.",
    ]
    parts += ["## The race against other packages (`benchmarks/peers.py`)", ABOUT]
    if raced:
        parts += [versions(raced), peers(raced)]
        parts += [f"![error against time]({prefix}peers.png)"] * (
            folder / "peers.png"
        ).exists()
        parts += measured_by(folder / "peers.csv")
    else:
        parts.append("Not measured yet.")
    parts += [FAIR, "## Cost against size (`benchmarks/size.py`)"]
    parts.append(
        "By size: 300 observed entries per row, rank 5. By rank: 3000 x 3000, all observed. Single precision, the rank"
        " given. The time of the whole solve is divided by its passes, of which the start counts as four; a dense array"
        " stores its gaps, too, a sparse one an index with every entry."
    )
    if sized:
        parts += [sizes(sized), f"![time per entry]({prefix}size.png)"]
        parts += measured_by(folder / "size.csv")
    else:
        parts.append("Not measured yet.")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    write_page("the benchmarks", ROOT / "docs" / "benchmarks", "benchmarks.md", page)

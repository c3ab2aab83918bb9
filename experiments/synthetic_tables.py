"""Tables I and II of the paper beside ours, for `page.py`: recovery of synthetic problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
from common import REACHED, ROOT, read_rows

# p in percent: seconds and iterations of LRMC, of ScaledGD (Table I of the paper)
TABLE_1 = {
    10: (0.47, 28, 5.37, 36),
    20: (0.63, 19, 5.80, 23),
    30: (0.68, 15, 7.12, 21),
    40: (0.81, 15, 8.85, 20),
    50: (0.90, 14, 11.00, 20),
    60: (1.01, 13, 12.79, 20),
    70: (1.23, 13, 14.53, 20),
    80: (1.29, 13, 16.18, 19),
    90: (1.36, 12, 17.49, 19),
    100: (1.48, 12, 16.40, 18),
}
# method and p: how many of 20 are recovered at each alpha (Table II of the paper)
ALPHAS = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
TABLE_2 = {
    ("LRMC", 1.0): (20, 20, 20, 20, 19, 17),
    ("LRMC", 0.1): (20, 20, 20, 14, 12, 0),
    ("ScaledGD", 1.0): (20, 20, 20, 0, 0, 0),
    ("ScaledGD", 0.1): (20, 0, 0, 0, 0, 0),
}
METHODS = (
    "closed loop",
    "LRMC, trained",
    "LRMC, trained, paper's form",
    "LRMC, published",
    "ScaledGD",
    "GD",
)
Row = dict[str, str]


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """In Markdown."""
    return "\n".join(
        f"| {' | '.join(str(cell) for cell in line)} |"
        for line in (head, ["---"] * len(head), *lines)
    )


def mean(rows: Iterable[Row], column: str, form: str) -> str:
    """Over the rows, or a dash."""
    numbers = [float(row[column]) for row in rows]
    return format(np.mean(numbers), form) if numbers else "-"


# ---- Table I

# asked: times faster than ScaledGD
LEAST = {"closed loop": 10, "LRMC, trained": 6, "LRMC, trained, paper's form": 6}


class Runs:
    """The rows of Table I by p and method."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.fractions = [
            percent
            for percent in TABLE_1
            if any(float(row["p"]) == percent / 100 for row in rows)
        ]

    def of(self, percent: int, method: str) -> list[Row]:
        """All of them."""
        return [
            row
            for row in self.rows
            if (float(row["p"]), row["method"]) == (percent / 100, method)
        ]

    def missed(self, percent: int, method: str) -> int:
        """How many did not get there."""
        return sum(row["reached"] == "0" for row in self.of(percent, method))

    def cell(self, percent: int, method: str, column: str, form: str) -> str:
        """The mean over those that got there, and how many did not."""
        some, missed = self.of(percent, method), self.missed(percent, method)
        there = mean((row for row in some if row["reached"] == "1"), column, form)
        return there + (f" ({missed} of {len(some)} missed)" if missed else "")

    def ratios(self, percent: int, method: str) -> list[float]:
        """The time of ScaledGD over that of the method, for each instance that both recover."""
        slow, fast = (
            {
                row["seed"]: float(row["seconds"])
                for row in self.of(percent, name)
                if row["reached"] == "1"
            }
            for name in ("ScaledGD", method)
        )
        return [slow[seed] / fast[seed] for seed in slow if seed in fast]

    def ratio(self, percent: int, method: str) -> float:
        """The median."""
        ratios = self.ratios(percent, method)
        return float(np.median(ratios)) if ratios else float("nan")


def table_1(rows: list[Row]) -> str:
    """Iterations, seconds and ratios by p."""
    runs = Runs(rows)
    head = ("p (%)", "paper: LRMC", "paper: ScaledGD", *METHODS)
    iterations = table(
        head,
        (
            (
                q,
                TABLE_1[q][1],
                TABLE_1[q][3],
                *(runs.cell(q, m, "iterations", ".1f") for m in METHODS),
            )
            for q in runs.fractions
        ),
    )
    seconds = table(
        head,
        (
            (
                q,
                TABLE_1[q][0],
                TABLE_1[q][2],
                *(runs.cell(q, m, "seconds", ".3f") for m in METHODS),
            )
            for q in runs.fractions
        ),
    )
    times_faster = table(
        ("p (%)", "paper: LRMC", *LEAST),
        (
            (
                q,
                f"{TABLE_1[q][2] / TABLE_1[q][0]:.1f}",
                *(_times(runs.ratios(q, method)) for method in LEAST),
            )
            for q in runs.fractions
        ),
    )
    instances = len({row["seed"] for row in rows})
    return "\n\n".join(
        [
            f"Means over those that reach {REACHED:g}, of {instances} instances (seeds from 0). Iterations:",
            iterations,
            "Seconds, the start included (the paper's: Matlab on an Intel i9-12900H):",
            seconds,
            "How many times as long tuned ScaledGD takes on the same instance, one after the other: the median (and"
            " range) over the instances that both recover:",
            times_faster,
            _bars_1(runs),
            *why(runs, read_rows(ROOT / "docs" / "benchmarks" / "selection.csv")),
        ]
    )


def _times(ratios: list[float]) -> str:
    return (
        f"{np.median(ratios):.1f} ({min(ratios):.1f} - {max(ratios):.1f})"
        if ratios
        else "-"
    )


def _bars_1(runs: Runs) -> str:
    """What was asked of the table, and what came out. A row in which an instance is
    missed does not count.
    """
    lines = []
    for method, least in LEAST.items():
        whole = [
            q
            for q in runs.fractions
            if runs.of(q, method) and not runs.missed(q, method)
        ]
        known = {q: runs.ratio(q, method) for q in whole if runs.ratios(q, method)}
        if known:
            worst = min(known, key=lambda q: known[q])
            lines.append(
                f"- {method}, at least {least} times faster than tuned ScaledGD:"
                f" {sum(r >= least for r in known.values())} of {len(runs.fractions)} rows; the least is"
                f" {known[worst]:.1f} at p = {worst} %."
            )
        counts = {
            q: np.mean([int(row["iterations"]) for row in runs.of(q, method)])
            for q in whole
        }
        fewer = sum(count <= TABLE_1[q][1] for q, count in counts.items())
        lines.append(
            f"- {method}, no more iterations than the paper's LRMC: {fewer} of {len(runs.fractions)} rows."
        )
    return "\n".join(lines)


WHY = """\
Why the closed loop is not ten times faster: our ScaledGD finds its thresholds faster than the usual selection does, by
counting bits. And a step of the closed loop takes more than a pass of LRMC: it weighs rows and columns, solves a small
least-squares problem for each where entries are few, and looks at a sample of the residuals. What a step of ScaledGD
costs in passes of LRMC (`benchmarks/selection.py`), and how many times faster the closed loop would be than a ScaledGD
with `std::nth_element`:"""


def why(runs: Runs, rows: list[Row]) -> list[str]:
    """The thresholds of ScaledGD, and what the ratios would be with others."""
    lines = []
    for row in rows:
        pull, ours, nth, step = (
            float(row[name]) for name in ("pull", "ours", "nth_element", "step")
        )
        slower = (step - ours + nth) / step
        ratio = runs.ratio(round(100 * float(row["p"])), "closed loop")
        passes = (f"{step / pull:.1f}", f"{slower * step / pull:.1f}")
        lines.append(
            (
                f"{float(row['p']):.0%}",
                row["threads"],
                f"{nth / ours:.1f}",
                *passes,
                f"{slower * ratio:.0f}",
            )
        )
    head = (
        "p",
        "threads",
        "thresholds, nth_element / ours",
        "a step, ours",
        "with nth_element",
        "closed loop faster",
    )
    return [WHY, table(head, lines)] if rows else []


# ---- Table II


def table_2(rows: list[Row]) -> str:
    """Instances recovered, by alpha."""
    alphas = sorted({float(row["alpha"]) for row in rows} | set(ALPHAS))
    lines = []
    for p in (1.0, 0.1):
        for name in ("LRMC", "ScaledGD"):
            known = dict(zip(ALPHAS, TABLE_2[name, p]))
            told = [known.get(alpha, "-") for alpha in alphas]
            lines.append([f"paper: {name}", f"{p:.0%}", *told])
        for name in dict.fromkeys(row["method"] for row in rows):
            mine = [
                row for row in rows if row["method"] == name and float(row["p"]) == p
            ]
            lines.append(
                [name, f"{p:.0%}", *(_recovered(mine, alpha) for alpha in alphas)]
            )
    passes = []
    for name, p in product(("closed loop", "LRMC, trained"), (1.0, 0.1)):
        mine = [
            row
            for row in rows
            if (row["method"], float(row["p"]), row["reached"]) == (name, p, "1")
        ]
        per_alpha = (
            mean((row for row in mine if float(row["alpha"]) == a), "iterations", ".0f")
            for a in alphas
        )
        passes.append([name, f"{p:.0%}", *per_alpha])
    head = ("method", "p", *(f"{alpha:g}" for alpha in alphas))
    return "\n\n".join(
        [
            "Instances recovered, of 20 (or as many as are named), by alpha:",
            table(head, lines),
            "Iterations, means over those recovered:",
            table(head, passes),
            _bars_2(rows),
        ]
    )


def _recovered(rows: list[Row], alpha: float) -> str:
    here = [row for row in rows if float(row["alpha"]) == alpha]
    reached = sum(row["reached"] == "1" for row in here)
    return (
        "-"
        if not here
        else f"{reached}"
        if len(here) == 20
        else f"{reached} of {len(here)}"
    )


def _bars_2(rows: list[Row]) -> str:
    lines = []
    for name in ("closed loop", "LRMC, trained"):
        cells = good = 0
        for p, (alpha, k) in product((1.0, 0.1), zip(ALPHAS, range(6))):
            here = [
                r
                for r in rows
                if (r["method"], float(r["p"]), float(r["alpha"])) == (name, p, alpha)
            ]
            if len(here) == 20:
                cells += 1
                good += sum(r["reached"] == "1" for r in here) >= TABLE_2["LRMC", p][k]
        lines.append(
            f"- {name}, at least as many as the paper's LRMC: {good} of {cells} cells with 20 instances."
        )
    return "\n".join(lines)

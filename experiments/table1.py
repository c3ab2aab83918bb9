"""Table I of the paper: time and iterations to an error of 1e-6, by the observed fraction p.

    python experiments/table1.py [--quick] [--minutes 4]

n = 3000, rank 5, alpha = 0.1 (the paper does not state them here), 20 instances. Every method is
timed on the same instance before the next one is drawn, in turns of another order, with the same
threads, from the array to the factors: its start is included. If one of them is missing for an
instance, all are timed again."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import (
    BASELINES,
    COLOURS,
    Asked,
    Method,
    Sheet,
    asked,
    baseline,
    closed_loop,
    drawn,
    legend_beside,
    outcome,
    picture,
    published,
    race,
    warm_up,
    with_schedule,
)
from trained import ALL_P, ALPHA, schedule_for
from tuned import tuned

MOST = 150
KEYS = ("p", "alpha", "method", "seed")


def methods_for(
    alpha: float, p: float, ask: Asked, *, with_paper_form: bool = True
) -> list[Method]:
    """Everyone who takes part."""
    some = [closed_loop(), with_schedule(schedule_for(alpha, p, "synthetic", ask))]
    if with_paper_form:
        some.append(
            with_schedule(schedule_for(alpha, p, "paper", ask), ", paper's form")
        )
    known = None if ask.quick else published(alpha, p)
    some += [] if known is None else [known]
    for name in BASELINES:
        try:
            numbers = tuned(name, alpha, p, ask)
        except KeyError as error:
            print(f"{name} is left out: {error}", flush=True)
            continue
        some.append(baseline(name, numbers))
    return some


def row_of(alpha: float, p: float, method: Method, seed: int) -> dict[str, Any]:
    """What a run is named by."""
    return {
        "p": f"{p:g}",
        "alpha": f"{alpha:g}",
        "method": method.name,
        "seed": seed,
        "numbers": method.numbers,
    }


def measure(
    sheet: Sheet, alpha: float, p: float, ask: Asked, *, with_paper_form: bool = True
) -> None:
    """The instances of one setting for which rows are missing."""
    methods = methods_for(alpha, p, ask, with_paper_form=with_paper_form)
    wanted = [
        row_of(alpha, p, method, seed)
        for seed in range(ask.instances)
        for method in methods
    ]
    seeds = dict.fromkeys(row["seed"] for row in sheet.missing(wanted))
    if seeds:
        warm_up(methods, ask.rank, p)
    for seed in ask.within_time(seeds):
        problem, turn = drawn(ask.n, ask.rank, alpha, p, seed), seed % len(methods)
        for method in methods[turn:] + methods[:turn]:
            sheet.add(
                row_of(alpha, p, method, seed) | outcome(race(method, problem, MOST))
            )


def draw(axes: Any, rows: list[dict[str, str]]) -> None:
    """Left: iterations by p. Right: seconds."""
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [
            row for row in rows if row["method"] == method and row["reached"] == "1"
        ]
        fractions = sorted({float(row["p"]) for row in mine})
        for one, column in zip(axes, ("iterations", "seconds")):
            means = [
                np.mean([float(row[column]) for row in mine if float(row["p"]) == p])
                for p in fractions
            ]
            one.semilogy(
                fractions,
                means,
                "-o",
                color=COLOURS[method],
                label=method,
                markersize=4,
            )
    axes[0].set(
        xlabel="observed fraction p",
        ylabel="iterations",
        title="iterations to an error of 1e-6",
    )
    axes[1].set(
        xlabel="observed fraction p",
        ylabel="seconds",
        title="seconds, the start included",
    )
    axes[0].set_yticks([5, 10, 20, 40], ["5", "10", "20", "40"])
    axes[1].set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
    for one in axes:
        one.minorticks_off()
    legend_beside(axes, fontsize=7)


def main() -> None:
    """Measure what is missing, and draw."""
    ask = asked(__doc__ or "")
    sheet = Sheet(ask.folder / "table1.csv", KEYS)
    for p in ask.within_time((0.3, 1.0) if ask.quick else ALL_P):
        measure(sheet, ALPHA, p, ask)
    picture(ask.folder / "table1.png", lambda axes: draw(axes, sheet.rows()), 2, 4.8)


if __name__ == "__main__":
    main()

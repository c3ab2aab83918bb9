"""Fig. 4 of the paper: time per iteration, and in total to an error of 1e-6, by the share of
outliers alpha.

    python experiments/fig4.py [--quick] [--minutes 4]

n = 3000, rank 5, p = 0.1 and 1. Times per iteration are without the start, those in total with it.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from common import COLOURS, Sheet, asked, legend_beside, picture
from table1 import KEYS, measure

ALPHAS, FRACTIONS = (0.1, 0.15, 0.2, 0.25, 0.3), {0.1: "--", 1.0: "-"}


def means(
    rows: list[dict[str, str]], method: str, p: float
) -> tuple[list[float], list[float], list[float]]:
    """Alpha, seconds per iteration, seconds in total, over the instances that were recovered."""
    mine = [
        row
        for row in rows
        if row["method"] == method and float(row["p"]) == p and row["reached"] == "1"
    ]
    alphas = sorted({float(row["alpha"]) for row in mine})
    steps, totals = [], []
    for alpha in alphas:
        here = [row for row in mine if float(row["alpha"]) == alpha]
        passes = [
            (float(row["seconds"]) - float(row["start"])) / int(row["iterations"])
            for row in here
        ]
        steps.append(float(np.mean(passes)))
        totals.append(float(np.mean([float(row["seconds"]) for row in here])))
    return alphas, steps, totals


def draw(axes: Any, rows: list[dict[str, str]]) -> None:
    """Left: per iteration. Right: in total."""
    for method, p in product(dict.fromkeys(row["method"] for row in rows), FRACTIONS):
        alphas, steps, totals = means(rows, method, p)
        for one, seconds in zip(axes, (steps, totals)):
            style = FRACTIONS[p] + "o"
            one.semilogy(
                alphas,
                seconds,
                style,
                color=COLOURS[method],
                label=f"{method}, p = {p:.0%}",
                markersize=4,
            )
    axes[0].set(xlabel="alpha", ylabel="seconds per iteration", title="one iteration")
    axes[1].set(xlabel="alpha", ylabel="seconds", title="until the error is below 1e-6")
    legend_beside(axes, fontsize=7, handlelength=4)


def main() -> None:
    """Measure what is missing, and draw."""
    ask = asked(__doc__ or "", instances=5)
    sheet = Sheet(ask.folder / "fig4.csv", KEYS)
    for alpha, p in ask.within_time(
        product(ALPHAS[:2] if ask.quick else ALPHAS, FRACTIONS)
    ):
        measure(sheet, alpha, p, ask, with_paper_form=False)
    picture(ask.folder / "fig4.png", lambda axes: draw(axes, sheet.rows()), 2, 4.8)


if __name__ == "__main__":
    main()

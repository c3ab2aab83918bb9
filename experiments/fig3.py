"""Fig. 3 of the paper: the error against the iterations, by the share of outliers alpha.

    python experiments/fig3.py [--quick] [--minutes 4]

n = 3000, rank 5, alpha = 0.1 to 0.25, p = 0.1 and 1; geometric means over the instances.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from common import (
    COLOURS,
    Asked,
    Sheet,
    asked,
    drawn,
    geometric_mean,
    legend_beside,
    picture,
    race,
)
from table1 import methods_for, row_of
from trained import CONVERGENCE

FRACTIONS = {0.1: "--", 1.0: "-"}  # and how their lines look
LOWEST, MOST = 2e-7, 150  # not far above what single precision can hold


def measure(sheet: Sheet, alpha: float, p: float, ask: Asked) -> None:
    """All missing runs of one setting."""
    methods = {m.name: m for m in methods_for(alpha, p, ask, with_paper_form=False)}
    wanted = [
        row_of(alpha, p, method, seed)
        for seed, method in product(range(ask.instances), methods.values())
    ]
    missing = sheet.missing(wanted)
    for seed in ask.within_time(dict.fromkeys(row["seed"] for row in missing)):
        problem = drawn(ask.n, ask.rank, alpha, p, seed)
        for row in (row for row in missing if row["seed"] == seed):
            points = race(methods[row["method"]], problem, MOST, LOWEST)
            sheet.add(
                row | {"errors": " ".join(f"{point.error:.2e}" for point in points)}
            )


def curves(
    rows: list[dict[str, str]], alpha: float
) -> dict[tuple[str, float], list[float]]:
    """The mean error after each iteration; a run that has ended stays where it is."""
    found: dict[tuple[str, float], list[list[float]]] = {}
    for row in rows:
        if row["alpha"] == f"{alpha:g}":
            path = [float(error) for error in row["errors"].split()]
            found.setdefault((row["method"], float(row["p"])), []).append(path)
    return {
        key: [geometric_mean(errors) for errors in zip(*as_long(paths))]
        for key, paths in found.items()
    }


def as_long(paths: list[list[float]]) -> list[list[float]]:
    """All as long as the longest."""
    longest = max(map(len, paths))
    return [path + path[-1:] * (longest - len(path)) for path in paths]


def draw(axes: Any, rows: list[dict[str, str]], alphas: tuple[float, ...]) -> None:
    """A panel for each alpha."""
    for one, alpha in zip(axes, alphas):
        for (name, p), errors in curves(rows, alpha).items():
            label = f"{name}, p = {p:.0%}"
            one.semilogy(
                errors, FRACTIONS[p], color=COLOURS[name], label=label, linewidth=1.4
            )
        one.axhline(1e-6, color="grey", linewidth=0.6)
        one.set(
            xlabel="iteration",
            title=f"alpha = {alpha:g}",
            xlim=(0, None),
            ylim=(LOWEST / 2, 2),
        )
    axes[0].set_ylabel("relative error")
    legend_beside(axes, fontsize=7, handlelength=4)


def main() -> None:
    """Measure what is missing, and draw."""
    ask = asked(__doc__ or "", instances=5)
    alphas = CONVERGENCE[:2] if ask.quick else CONVERGENCE
    sheet = Sheet(ask.folder / "fig3.csv", ("alpha", "p", "method", "seed"))
    for alpha, p in ask.within_time(product(alphas, FRACTIONS)):
        measure(sheet, alpha, p, ask)
    picture(
        ask.folder / "fig3.png",
        lambda axes: draw(axes, sheet.rows(), alphas),
        len(alphas),
        3.6,
    )


if __name__ == "__main__":
    main()

"""Fig. 5 of the paper: the quality of what is recovered from noisy data with outliers, against that
of the data.

    python experiments/fig5.py [--quick] [--minutes 4]

n = 3000, rank 5, 10 % outliers, p = 0.1 and 1. SNR = 10 log10(|X|^2 / |error|^2). LRMC in the form
of the paper, trained without noise, and with noise of the level that it meets; the closed loop,
which is told nothing about noise; ScaledGD and GD after 60 iterations, with the numbers that are
best without noise."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from common import (
    BASELINES,
    Asked,
    Sheet,
    asked,
    baseline,
    drawn,
    legend_beside,
    picture,
    race,
    with_schedule,
)
from trained import ALPHA, NOISE_DB, for_noise, noise_for
from tuned import tuned

import lrmc
from lrmc.synthetic import Problem

FRACTIONS = {0.1: "--", 1.0: "-"}
METHODS = {
    "closed loop": "C0",
    "LRMC, trained with noise": "C2",
    "LRMC, trained without noise": "C1",
    "ScaledGD": "C3",
    "GD": "C7",
}
STEPS = 60


def recovered(
    name: str, problem: Problem, decibels: float, p: float, ask: Asked
) -> float:
    """The relative error of one method."""
    if name == "closed loop":
        return float(lrmc.relative_error(lrmc.solve(problem.Y, problem.rank), problem))
    if name in BASELINES:
        return race(baseline(name, tuned(name, ALPHA, p, ask)), problem, STEPS, 0.0)[
            -1
        ].error
    schedule = for_noise(decibels if name.endswith("with noise") else None, p, ask)
    return race(with_schedule(schedule), problem, 100, 0.0)[-1].error


def draw(axes: Any, rows: list[dict[str, str]]) -> None:
    """SNR out against SNR in."""
    for (name, colour), p in product(METHODS.items(), FRACTIONS):
        mine = [row for row in rows if row["method"] == name and float(row["p"]) == p]
        levels = sorted({float(row["snr_in"]) for row in mine})
        means = [
            np.mean([float(r["snr_out"]) for r in mine if float(r["snr_in"]) == level])
            for level in levels
        ]
        # under the closed loop, which is as good
        wide = 3.5 if name == "LRMC, trained with noise" else 1.5
        how = {"markersize": 4, "linewidth": wide, "zorder": 1 if wide > 2 else 2}
        axes.plot(
            levels,
            means,
            FRACTIONS[p] + "o",
            color=colour,
            label=f"{name}, p = {p:.0%}",
            **how,
        )
    axes.set(
        xlabel="SNR of the data without outliers (dB)", ylabel="SNR recovered (dB)"
    )
    axes.set_xticks(sorted({float(row["snr_in"]) for row in rows}))
    legend_beside([axes], fontsize=8, handlelength=4)


def main() -> None:
    """Measure what is missing, and draw."""
    ask = asked(__doc__ or "", instances=5)
    levels = NOISE_DB[1:3] if ask.quick else NOISE_DB
    sheet = Sheet(ask.folder / "fig5.csv", ("snr_in", "p", "method", "seed"))
    wanted = [
        {"snr_in": f"{level:g}", "p": f"{p:g}", "method": name, "seed": seed}
        for level, p, name, seed in product(
            levels, FRACTIONS, METHODS, range(ask.instances)
        )
    ]
    for row in ask.within_time(sheet.missing(wanted)):
        level, p = float(row["snr_in"]), float(row["p"])
        problem = drawn(
            ask.n, ask.rank, ALPHA, p, row["seed"], noise=noise_for(level, ask.rank)
        )
        error = recovered(row["method"], problem, level, p, ask)
        sheet.add(row | {"snr_out": round(-20 * math.log10(error), 2)})
    picture(ask.folder / "fig5.png", lambda axes: draw(axes, sheet.rows()), 1, 8.5)


if __name__ == "__main__":
    main()

"""What `lrmc.solve(Y)` does with nothing set: passes, recovery, rank, noise. Writes
docs/default.md.

    python experiments/default.py [--quick]

A pass is one over the data, counted after the start, until the true relative error is below 1e-6.
Alpha is the share of outliers, p that of observed entries; outliers and noise are in units of E|X|.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from written import write_made

import lrmc
from lrmc.synthetic import Problem, problem

ROOT = Path(__file__).resolve().parent.parent
BASE: dict[str, Any] = {"n": 800, "rank": 5, "alpha": 0.1, "p": 0.3}
WIDE: list[dict[str, Any]] = [
    {},
    *({"alpha": alpha} for alpha in (0.05, 0.2, 0.3, 0.4, 0.5)),
    *({"p": p} for p in (0.1, 0.15, 0.5, 1.0)),
    *({"rank": rank} for rank in (1, 2, 10, 20)),
    *({"condition": condition} for condition in (10, 100)),
    *({"outlier_scale": scale} for scale in (0.1, 10, 100)),
    {"alpha": 0.5, "p": 1.0},
    {"alpha": 0.3, "condition": 10, "outlier_scale": 10, "p": 0.5},
    {"alpha": 0.3, "condition": 100, "p": 1.0},
    {"alpha": 0.2, "rank": 20, "p": 1.0},
]
UNKNOWN: list[dict[str, Any]] = [
    {},
    {"p": 1.0},
    {"rank": 10},
    {"outlier_scale": 10},
    {"condition": 10},
    {"condition": 100},
    {"rank": 2, "condition": 100},
    {"rank": 1},
    {"rank": 1, "p": 1.0},
    {"alpha": 0.3},
]
PAPER: list[dict[str, Any]] = [
    *({"n": 3000, "p": p} for p in (0.1, 0.3, 1.0)),
    *({"n": 3000, "p": 0.1, "alpha": alpha} for alpha in (0.5, 0.6)),
    *({"n": 3000, "p": 1.0, "rank": rank} for rank in (1, 2, 3)),
]


def passes(given: Problem, rank: int | None) -> tuple[int | None, int]:
    """How many until the error is below 1e-6 for good, and the rank at the end."""
    errors: list[float] = []
    result = lrmc.solve(
        given.Y,
        rank,
        tol=1e-7,
        progress=lambda it: errors.append(lrmc.relative_error(it, given)),
    )
    good = np.array(errors) < 1e-6
    return (len(good) - int(np.argmin(good[::-1])) if good[-1] else None), result.rank


def lines(settings: list[dict[str, Any]], seeds: int, rank: str) -> Iterator[str]:
    """One per setting; the rank is "given", "unknown" or so many "+1" too high."""
    yield "| setting | recovered | passes | rank |"
    yield "|---|---:|---|---|"
    for setting in settings:
        about = BASE | setting
        found = [_one(about, seed, rank) for seed in range(seeds)]
        reached = [k for k, _ in found if k is not None]
        ranks = ", ".join(
            f"{r} ({n} times)" if n < seeds else f"{r}"
            for r, n in Counter(r for _, r in found).items()
        )
        name = (
            ", ".join(
                f"{key.replace('_', ' ')} {value:g}" for key, value in setting.items()
            )
            or "base"
        )
        yield f"| {name} | {len(reached)} of {seeds} | {_counted(reached)} | {ranks} |"


def _one(about: dict[str, Any], seed: int, rank: str) -> tuple[int | None, int]:
    given = {"given": about["rank"], "unknown": None}
    return passes(
        problem(**about, seed=seed),
        given[rank] if rank in given else about["rank"] + int(rank),
    )


def _counted(reached: list[int]) -> str:
    return "" if not reached else f"{int(np.median(reached))} (at most {max(reached)})"


def noise(seeds: int) -> Iterator[str]:
    """Error against that of least squares on the true inliers, which no method without
    that knowledge can beat.
    """
    yield "| alpha | noise | error / least squares on the true inliers, mean | worst |"
    yield "|---:|---:|---:|---:|"
    for alpha in (0.1, 0.3, 0.5):
        for level in (0.05, 0.1):
            given = [
                problem(n=600, rank=5, alpha=alpha, p=0.5, noise=level, seed=seed)
                for seed in range(seeds)
            ]
            ratios = [
                lrmc.relative_error(lrmc.solve(x.Y, 5), x) / oracle(x) for x in given
            ]
            yield f"| {alpha:g} | {level:g} | {np.mean(ratios):.2f} | {max(ratios):.2f} |"


def oracle(given: Problem) -> float:
    """The error of alternating least squares on the entries that are no outliers, from
    the truth.
    """
    Y = np.array(
        given.Y.todense() if hasattr(given.Y, "todense") else given.Y, np.float64
    )
    good = ~np.isnan(Y) if not hasattr(given.Y, "todense") else Y != 0
    wrong = given.outliers.tocoo()
    good[wrong.row[wrong.data != 0], wrong.col[wrong.data != 0]] = False
    L, R = (np.array(F, np.float64) for F in given.X_factors)
    for _ in range(10):
        for A, B, seen, values in ((L, R, good, Y), (R, L, good.T, Y.T)):
            for i, here in enumerate(seen):
                A[i] = np.linalg.lstsq(B[here], values[i, here], rcond=None)[0]
    return float(lrmc.relative_error((L, R), given))


def main() -> None:
    """Run everything, print it, write it."""
    ask = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    ask.add_argument(
        "--quick", action="store_true", help="one seed, and nothing is written"
    )
    asked = ask.parse_args()
    warnings.simplefilter("ignore")  # a run that ended badly shows in its count
    seeds = 1 if asked.quick else 10
    parts = {
        "The paper's problems (rank given)": lambda: lines(PAPER, seeds, "given"),
        "A wide grid: n = 800, rank 5, alpha 0.1, p = 0.3 unless said (rank given)": lambda: (
            lines(WIDE, seeds, "given")
        ),
        "Rank unknown": lambda: lines(UNKNOWN, min(seeds, 4), "unknown"),
        "Rank given one too high": lambda: lines(WIDE, min(seeds, 4), "+1"),
        "Noise: n = 600, rank 5, p = 0.5": lambda: noise(min(seeds, 4)),
    }
    text = f"\nOf {seeds} seeds, unless said.\n"
    for title, part in parts.items():
        text += f"\n## {title}\n\n"
        print(f"\n## {title}\n")
        for line in part():
            print(line, flush=True)
            text += line + "\n"
    if not asked.quick:
        write_made(ROOT / "docs" / "default.md", text + "\n")


if __name__ == "__main__":
    main()

"""A schedule trained on nothing but the data themselves, against the closest one that comes with
the package.

    python experiments/selfsupervised.py [--data DIR] [--layers 10]

The score is that of each task of `real.py`, on entries that neither training nor the run has seen.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

from tasks import TASKS, Problem, Source

import lrmc
from lrmc.methods.nearest_schedule import nearest

ROOT = Path(__file__).resolve().parent.parent


def score(problem: Problem, rank: int, **options: object) -> float:
    """The first score of the task."""
    result = lrmc.solve(problem.values, rank, **options)
    return next(iter(problem.score(result.low_rank()).values()))


def main() -> None:
    """One line per task."""
    ask = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    ask.add_argument(
        "--data", default=os.environ.get("LRMC_DATA") or ROOT.parent / "shared" / "data"
    )
    ask.add_argument("--layers", type=int, default=10)
    asked = ask.parse_args()
    warnings.simplefilter("ignore")  # a run that ended badly shows in its score
    print(
        "| task | rank | trained on the data | the closest of the package | closed loop | training |"
    )
    print("|---|---:|---:|---|---:|---:|")
    for task in (task for task in TASKS if task.name in ("traffic", "jester", "ngsim")):
        problem, rank = (
            next(task.problems(Source(Path(asked.data), 0, 1))),
            task.ranks[0],
        )
        began = time.perf_counter()
        trained = lrmc.train(problem.values, rank, layers=asked.layers)
        seconds = time.perf_counter() - began
        closest, _ = nearest(lrmc.as_observations(problem.values), rank)
        runs = [
            score(problem, rank, method="lrmc", schedule=schedule)
            for schedule in (trained, closest)
        ]
        loop = score(problem, rank)
        cells = (
            task.name,
            rank,
            f"{runs[0]:.4g}",
            f"{runs[1]:.4g} ({closest})",
            f"{loop:.4g}",
            f"{seconds:.0f} s",
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()

"""Train the schedules that come with lrmc, and write them to src/lrmc/schedules.

    python experiments/zoo.py [--only synthetic-r5-a0.1] [--steps 300]

Alpha x p, with tangent correction and momentum; three in the form of the paper. A minute each.
Those for noisy data of one kind come from `families.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lrmc
from lrmc.synthetic import Problems
from lrmc.training.examples import as_examples
from lrmc.training.fast import enough_layers
from lrmc.training.state import Plan

ROOT = Path(__file__).resolve().parent.parent
ALPHAS, FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.5), (0.05, 0.1, 0.3, 1.0)
RANK, SIZE = 5, 3000
MOST_LAYERS = (30, 50)  # for few outliers, and for MANY
MANY = 0.45


def synthetic(alpha: float, p: float, tangent: bool, steps: int) -> lrmc.Schedule:
    """Trained on small problems with as many layers as they need, checked on three of full size."""
    problems = Problems(SIZE, alpha, p)
    plan = Plan("fast", "frmnn", 1, tangent, tangent, steps, 0, RANK)
    layers = enough_layers(
        as_examples(problems, RANK), plan, most=MOST_LAYERS[alpha >= MANY]
    )
    schedule = lrmc.train(
        problems, RANK, layers=layers, tangent=tangent, momentum=tangent, steps=steps
    )
    return replace(
        schedule,
        card=dict(schedule.card)
        | {"zoo": tangent, "checked_on": checked(schedule, problems)},
    )


def checked(
    schedule: lrmc.Schedule, problems: Problems, seeds: range = range(3)
) -> dict[str, Any]:
    """Iterations to 1e-6 and the error after the last layer, at full size and in single
    precision.
    """
    iterations, errors = [], []
    for seed in seeds:
        problem = problems.draw(RANK, seed, dtype=np.float32)
        path = []
        for it in lrmc.iterates(problem.Y, RANK, method="lrmc", schedule=schedule):
            path.append(lrmc.relative_error(it, problem))
            if it.k >= len(schedule) + 20 or path[-1] < 1e-6:
                break
        iterations.append(it.k if path[-1] < 1e-6 else None)
        errors.append(float(f"{path[min(len(schedule), len(path) - 1)]:.1e}"))
    return {
        "n": problems.n,
        "seeds": list(seeds),
        "iterations_to_1e_6": iterations,
        "error_after_layers": errors,
    }


def entries(steps: int) -> Iterator[tuple[str, Callable[[], lrmc.Schedule]]]:
    """What is in the zoo, by name."""
    for p in FRACTIONS:
        for alpha in ALPHAS:
            yield (
                f"synthetic-r{RANK}-a{alpha:g}-p{p:g}",
                lambda a=alpha, p=p: synthetic(a, p, True, steps),
            )
    for p in (0.1, 0.3, 1.0):
        yield f"paper-r{RANK}-a0.1-p{p:g}", lambda p=p: synthetic(0.1, p, False, steps)


def main() -> None:
    """Train and write."""
    ask = argparse.ArgumentParser(
        description="Train the schedules that come with lrmc."
    )
    ask.add_argument("--only", default="", help="names that begin so")
    ask.add_argument(
        "--missing", action="store_true", help="only those that are not there yet"
    )
    ask.add_argument("--steps", type=int, default=300)
    ask.add_argument("--output", type=Path, default=ROOT / "src" / "lrmc" / "schedules")
    asked = ask.parse_args()
    for name, make in entries(asked.steps):
        target = asked.output / f"{name}.json"
        if name.startswith(asked.only) and not (asked.missing and target.exists()):
            schedule = make()
            schedule.save(target)
            checks = schedule.card["checked_on"]
            print(name, len(schedule), schedule.tail, checks, flush=True)


if __name__ == "__main__":
    main()

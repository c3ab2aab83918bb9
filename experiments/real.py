"""Real data: `lrmc.solve` against baselines, in one table per task.

    python experiments/real.py [--quick] [--tasks traffic jester] [--losses mixture cauchy huber]
    [--ranks 5] [--write]

The data are no part of this repository: they are looked for in --data, in LRMC_DATA and in
../shared/data. Our method gets the matrix and nothing else ("rank found"), or the matrix and a
rank; no number of it is set for a data set. Seconds are those of one problem (satellite: one of
eight pairs), beside whatever else the machine does."""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tasks import QUICK, TASKS, Array, Problem, Scores, Source, Task, data_folder
from written import write_made, write_rows

import lrmc

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "real.csv"
Method = Callable[[Problem], tuple[Array, int | None]]  # an answer, and its rank


class Line(NamedTuple):
    """What a method reached on a task: means over its problems and seeds."""

    task: str
    method: str
    rank: str  # given or found; several where problems differ
    scores: Scores
    seconds: float


def solved(
    problem: Problem, rank: int | None, loss: str = "auto", method: str = "auto"
) -> tuple[Array, int]:
    """The answer of `lrmc.solve`; rank None is found."""
    mask = None if problem.mask.all() else problem.mask
    groups = None if method == "lrmc" else problem.groups
    result = lrmc.solve(
        problem.Y, rank, mask=mask, loss=loss, method=method, groups=groups
    )
    return result.completed(undetermined="keep"), result.rank


def methods(
    task: Task, losses: list[str], ranks: list[int | None], compare: bool
) -> dict[str, Method]:
    """What is run on a task, by name."""
    todo: dict[str, Method] = {}
    if compare:
        todo |= {
            name: lambda problem, run=run: (run(problem), None)
            for name, run in task.baselines.items()
        }
        todo[f"the paper's LRMC, rank {task.ranks[0]}"] = partial(
            solved, rank=task.ranks[0], method="lrmc"
        )
    for loss in losses:
        todo |= {
            f"lrmc.solve, rank {r or 'found'}, loss {loss}": partial(
                solved, rank=r, loss=loss
            )
            for r in ranks
        }
    return todo


def run(task: Task, sources: list[Source], todo: dict[str, Method]) -> list[Line]:
    """Every method on every problem of a task, one problem in memory at a time."""
    scores, ranks, seconds = ({name: [] for name in todo} for _ in range(3))
    for problem in (problem for source in sources for problem in task.problems(source)):
        _ = problem.values  # made before the clock starts
        for name, method in todo.items():
            began = time.perf_counter()
            X, rank = method(problem)
            seconds[name].append(time.perf_counter() - began)
            scores[name].append(problem.score(X))
            ranks[name] += [] if rank is None else [rank]
    lines = []
    for name in todo:
        mean = {
            key: float(np.mean([s[key] for s in scores[name]]))
            for key in scores[name][0]
        }
        found = " ".join(map(str, sorted(set(ranks[name]))))
        lines.append(
            Line(
                task.name, name, found, task.finish(mean), float(np.mean(seconds[name]))
            )
        )
    return lines


def table(task: Task, lines: list[Line]) -> str:
    """The lines of a task in markdown; bold where the bar is reached."""
    first, *_ = names = list(lines[0].scores)
    sign = 1 if task.larger_is_better else -1
    bar = next((x.scores[first] for x in lines if x.method == task.bar), task.bar)
    # --ours leaves the baseline out
    bar = sign * np.inf if isinstance(bar, str) else bar
    rows = [
        ["method", "rank", *names, "seconds"],
        ["---", *["---:"] * (len(names) + 2)],
    ]
    for x in lines:
        numbers = [f"{value:.4g}" for value in x.scores.values()]
        numbers[0] = (
            f"**{numbers[0]}**" if sign * (x.scores[first] - bar) >= 0 else numbers[0]
        )
        rows.append([x.method, x.rank, *numbers, f"{x.seconds:.2f}"])
    wanted = f"{first} {'at least' if task.larger_is_better else 'at most'} {bar:.4g}"
    return "\n".join(
        [
            f"## {task.name}\n\nTo reach: {wanted}.\n",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
        ]
    )


def options() -> argparse.Namespace:
    """What was asked for."""
    ask = argparse.ArgumentParser(
        description="Real data: lrmc.solve against baselines, in one table per task."
    )
    ask.add_argument(
        "--data", help="the folder of the data; otherwise LRMC_DATA, or ../shared/data"
    )
    ask.add_argument(
        "--tasks",
        nargs="+",
        metavar="NAME",
        default=[""],
        help="only tasks whose name begins so",
    )
    ask.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    ask.add_argument(
        "--losses",
        nargs="+",
        default=["auto"],
        choices=["auto", "mixture", "cauchy", "huber"],
    )
    ask.add_argument(
        "--ranks",
        nargs="+",
        type=int,
        help="instead of rank found and the ranks of each task",
    )
    ask.add_argument("--seeds", type=int, default=1, help="how many, from 0")
    ask.add_argument(
        "--thin",
        type=int,
        default=4,
        help="satellite: the step between pixels in x and y; 4",
    )
    ask.add_argument("--ours", action="store_true", help="without the baselines")
    ask.add_argument(
        "--write", action="store_true", help="write docs/real.md and docs/real.csv"
    )
    return ask.parse_args()


def main() -> None:
    """Run, print, and write if asked to."""
    asked = options()
    folder = data_folder(asked.data)
    warnings.simplefilter("ignore")  # a run that ended badly shows in its score
    sources = [Source(folder, seed, asked.thin) for seed in range(asked.seeds)]
    kept = known() if asked.write else []
    for task in TASKS:
        if task.name.startswith(QUICK if asked.quick else tuple(asked.tasks)):
            here = run(
                task,
                sources,
                methods(
                    task,
                    asked.losses,
                    asked.ranks or [None, *task.ranks],
                    not asked.ours,
                ),
            )
            print(table(task, here), flush=True)
            kept = [x for x in kept if x.task != task.name] + here
            if asked.write:
                write(kept)


def known() -> list[Line]:
    """What was written before: tasks can be run one at a time."""
    if not RESULTS.exists():
        return []
    lines: dict[tuple[str, str], Line] = {}
    with RESULTS.open(newline="") as file:
        for row in csv.DictReader(file):
            empty = Line(
                row["task"], row["method"], row["rank"], {}, float(row["seconds"])
            )
            lines.setdefault((row["task"], row["method"]), empty).scores[
                row["score"]
            ] = float(row["value"])
    return list(lines.values())


def write(lines: list[Line]) -> None:
    """The numbers, and the page made of them."""
    by_task = {task.name: [x for x in lines if x.task == task.name] for task in TASKS}
    tables = [table(task, by_task[task.name]) for task in TASKS if by_task[task.name]]
    write_made(RESULTS.with_suffix(".md"), "\n" + "\n".join(tables))
    rows = (
        [x.task, x.method, x.rank, f"{x.seconds:.3f}", *pair]
        for some in by_task.values()
        for x in some
        for pair in x.scores.items()
    )
    write_rows(RESULTS, ["task", "method", "rank", "seconds", "score", "value"], rows)


if __name__ == "__main__":
    main()

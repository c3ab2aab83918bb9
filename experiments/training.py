"""What training takes and gives: schedules in seconds, and the paper's three models.

    python experiments/training.py [--quick] [--output docs/paper] [--seeds 10] [--only models]

Writes training.csv, models.csv and models.png (Fig. 2 of the paper), and training.md if it does both parts. With
--quick everything is tiny: it shows that the script works, and its numbers mean nothing.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import provenance

import lrmc
from lrmc import Schedule
from lrmc.synthetic import Problems
from lrmc.training import paper
from lrmc.training.examples import Example, as_examples
from lrmc.training.tails import HORIZON, best_tail

ROOT = Path(__file__).resolve().parent.parent
REACHED = 1e-6


class Case(NamedTuple):
    """A schedule to train, and what others need: with the authors' published numbers,
    and by the paper's figures.
    """

    p: float
    improved: bool  # tangent and momentum
    layers: int
    published: int
    paper: int


CASES = (
    Case(1.0, False, 10, 13, 12),
    Case(1.0, True, 5, 13, 12),
    Case(0.1, False, 20, 25, 28),
    Case(0.1, True, 13, 25, 28),
)


@dataclass(frozen=True)
class Size:
    """How large everything is."""

    n: int = 3000
    rank: int = 5
    alpha: float = 0.1
    layers: int | None = None  # as the case says
    steps: int | None = None
    seeds: int = 10
    models_n: int = 200
    models_layers: int = 6
    models_steps: int = 100
    models_iterations: int = 120
    thin: int = 1  # every which tail of a grid is tried


QUICK = Size(150, 2, 0.1, 2, 5, 2, 60, 2, 4, 40, 9)


# ---- schedules in seconds


def trained(case: Case, size: Size) -> dict[str, Any]:
    """Train one, and count its iterations on problems that it never saw."""
    problems = Problems(size.n, size.alpha, case.p)
    layers = size.layers or case.layers
    began = time.perf_counter()
    schedule = lrmc.train(
        problems,
        size.rank,
        layers=layers,
        tangent=case.improved,
        momentum=case.improved,
        steps=size.steps,
    )
    seconds = time.perf_counter() - began
    runs = [
        run(schedule, problems, size.rank, seed, layers + 40)
        for seed in range(size.seeds)
    ]
    counts = [first_below(path, REACHED) for path in runs]
    reached = [k for k in counts if k is not None]
    return {
        "p": case.p,
        "form": "tangent, momentum" if case.improved else "the paper's",
        "layers": layers,
        "tail": f"{schedule.tail[0]:g}, {schedule.tail[1]:g}"
        if schedule.tail
        else "none",
        "training_seconds": round(seconds, 1),
        "iterations": round(float(np.mean(reached)), 1) if reached else "",
        "least": min(reached, default=""),
        "most": max(reached, default=""),
        "not_reached": counts.count(None),
        "error_after_layers": f"{geometric_mean(path[min(layers, len(path) - 1)] for path in runs):.1e}",
        "published": case.published,
        "paper": case.paper,
    }


def run(
    schedule: Schedule, problems: Problems, rank: int, seed: int, most: int
) -> list[float]:
    """The errors of a run in single precision, to 1e-6 and the end of the layers."""
    problem = problems.draw(rank, seed, dtype=np.float32)
    path = []
    for it in islice(
        lrmc.iterates(problem.Y, rank, method="lrmc", schedule=schedule), most + 1
    ):
        path.append(lrmc.relative_error(it, problem))
        if path[-1] < REACHED and it.k >= len(schedule):
            break
    return path


def first_below(path: Sequence[float], wanted: float) -> int | None:
    """The first iteration with such an error."""
    return next((k for k, error in enumerate(path) if error < wanted), None)


def geometric_mean(numbers: Iterable[float]) -> float:
    """Of positive numbers."""
    return float(np.exp(np.mean(np.log(np.maximum(list(numbers), 1e-300)))))


# ---- the paper's models


class Model(NamedTuple):
    """One of the three, with the tail of one of the two searches."""

    name: str
    search: str
    schedule: Schedule


Paths = list[tuple[Model, list[float]]]


def models(size: Size) -> list[Model]:
    """Layers by the paper's recipe, tails by its search and by ours."""
    problems = Problems(size.models_n, size.alpha, 1.0)
    layers = lrmc.train(
        problems,
        size.rank,
        layers=size.models_layers,
        model="fnn",
        recipe="paper",
        steps=size.models_steps,
    )
    start = replace(layers, zeta=layers.zeta[:1], eta=(), card={})
    series = as_examples(problems, size.rank)
    some: list[Example] = [
        series(10_000_000 + number) for number in range(paper.FOR_THE_GRID)
    ]
    found = [Model("FNN", "", layers)]
    searches = {
        "the paper's grid, 4 layers": (paper.GRID, 4),
        f"with beta = 1, {HORIZON} layers": (paper.WITH_ONE, HORIZON),
    }
    for name, (grid, horizon) in searches.items():
        tails = grid[:: -size.thin][::-1]  # with the last, the largest beta
        found.append(
            Model("FRMNN", name, best_tail(layers, some, tails, horizon=horizon))
        )
        found.append(
            Model(
                "RNN",
                name,
                paper.best_recurrent(start, some[:2], tails, horizon=horizon),
            )
        )
    return found


def path_of(schedule: Schedule, size: Size) -> list[float]:
    """The errors in double precision, geometric means over problems that it never saw."""
    problems = Problems(size.models_n, size.alpha, 1.0)
    paths = []
    for seed in range(size.seeds):
        problem = problems.draw(size.rank, seed)
        its = islice(
            lrmc.iterates(problem.Y, size.rank, method="lrmc", schedule=schedule),
            size.models_iterations + 1,
        )
        paths.append([lrmc.relative_error(it, problem) for it in its])
    return [geometric_mean(errors) for errors in zip(*paths)]


def at_rest(path: Sequence[float]) -> int:
    """The iteration from which on nothing is gained: within a factor of 2 of the lowest error."""
    return next(k for k, error in enumerate(path) if error < 2 * min(path))


def picture(paths: Paths, target: Path) -> None:
    """Errors against iterations."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    colours = {"FNN": "C0", "FRMNN": "C1", "RNN": "C2"}
    for model, path in paths:
        label = (
            f"{model.name}, {model.search}"
            if model.search
            else f"{model.name}, {len(model.schedule)} layers"
        )
        marker = "o" if model.name == "FNN" else ""
        axes.semilogy(
            path,
            "--" if "paper" in model.search else "-",
            color=colours[model.name],
            marker=marker,
            label=label,
        )
    axes.set(
        xlabel="iteration", ylabel="relative error", title="The paper's three models"
    )
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(target, dpi=150)
    plt.close(figure)


# ---- what is written


def page(rows: list[dict[str, Any]], paths: Paths, size: Size) -> str:
    """The results as Markdown. Every number comes from the run that wrote it."""
    seconds = f"""`lrmc.train(Problems(n={size.n}, alpha={size.alpha}, p=p), rank={size.rank}, layers=K)`.
Iterations to an error of 1e-6 at n = {size.n} in single precision: mean over those of {size.seeds} problems (seeds 0 to
{size.seeds - 1}, not trained on) that reach it. Beside them: with the authors' published numbers, and in the paper,
both at n = 3000."""
    three = f"""Layers trained by the paper's recipe (`recipe="paper"`, n = {size.models_n}, K = {size.models_layers},
{size.models_steps} steps for each of the two phases of a layer), p = 1, alpha = {size.alpha}. The tail (phi, beta) by
the paper's search (its grid, without beta = 1, judged by 4 further layers) and by ours (with beta = 1, judged by
{HORIZON}). Errors are geometric means over {size.seeds} problems, in double precision; at rest is where nothing more is
gained."""
    parts = [
        "# Training",
        f"Written by `experiments/training.py` on {os.cpu_count()} cores."
        + " A tiny run: its numbers mean nothing." * (size.n == QUICK.n),
        "## Schedules in seconds",
        seconds,
        markdown(rows),
        "## The paper's three models",
        three,
        markdown([told(model, path) for model, path in paths]),
        "![errors against iterations](models.png)",
    ]
    return "\n\n".join(parts) + "\n"


def told(model: Model, path: Sequence[float]) -> dict[str, Any]:
    """A line of the table of models."""
    tail = model.schedule.tail
    return {
        "model": model.name,
        "search": model.search or "none",
        "phi, beta": f"{tail[0]:g}, {tail[1]:g}" if tail else "none",
        "to 1e-6": first_below(path, 1e-6) or "never",
        "lowest error": f"{min(path):.1e}",
        "at rest after": at_rest(path),
        "ran": len(path) - 1,
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table."""
    names = [name.replace("_", " ") for name in rows[0]]
    cells = [[str(value) for value in row.values()] for row in rows]
    return "\n".join(
        "| " + " | ".join(line) + " |" for line in (names, ["---"] * len(names), *cells)
    )


def write_csv(rows: list[dict[str, Any]], target: Path) -> None:
    """The same as a file."""
    with open(target, "w", newline="") as file:
        file.write(f"# {provenance()}\n")
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Measure and write."""
    ask = argparse.ArgumentParser(description="Measure what training takes and gives.")
    ask.add_argument("--quick", action="store_true", help="tiny, to see that it works")
    ask.add_argument(
        "--output",
        type=Path,
        help="a directory; docs/paper, or a temporary one with --quick",
    )
    ask.add_argument("--seeds", type=int, help="problems to measure on")
    ask.add_argument(
        "--only", choices=("schedules", "models"), help="one of the two parts"
    )
    asked = ask.parse_args()
    size = QUICK if asked.quick else Size()
    size = replace(size, seeds=asked.seeds or size.seeds)
    folder = asked.output or (
        Path(tempfile.mkdtemp(prefix="lrmc-training-"))
        if asked.quick
        else ROOT / "docs/paper"
    )
    folder.mkdir(parents=True, exist_ok=True)
    rows = [] if asked.only == "models" else schedules_part(size, folder)
    paths = [] if asked.only == "schedules" else models_part(size, folder)
    if rows and paths:
        (folder / "training.md").write_text(page(rows, paths, size))
    print(f"written to {folder}")


def schedules_part(size: Size, folder: Path) -> list[dict[str, Any]]:
    """Train, measure and write training.csv."""
    rows = []
    for case in CASES:
        rows.append(trained(case, size))
        print(rows[-1], flush=True)
    write_csv(rows, folder / "training.csv")
    return rows


def models_part(size: Size, folder: Path) -> Paths:
    """The same for the three models: models.csv and models.png."""
    paths = [(model, path_of(model.schedule, size)) for model in models(size)]
    for model, path in paths:
        print(told(model, path), flush=True)
    every = [
        {
            "model": model.name,
            "search": model.search,
            "iteration": k,
            "error": f"{error:.3e}",
        }
        for model, path in paths
        for k, error in enumerate(path)
    ]
    write_csv(every, folder / "models.csv")
    picture(paths, folder / "models.png")
    return paths


if __name__ == "__main__":
    main()

"""Table IV: time and loss of LRMC and CORONA on ultrasound patches, 1024 x 40; and what motion
compensation adds.

    python experiments/ultrasound.py ../shared/data --weights corona.pt

The paper's 800 validation examples are not available. Here: real tissue plus real bubbles (13
patches of the 25 that have bubbles), and 25 simulated patches that CORONA was not trained on. Times
are per patch, of the processor, with one thread: the best of several."""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import ROOT, provenance

import lrmc
from lrmc.apps.stack import Stack
from lrmc.apps.ultrasound.model import separate
from lrmc.linalg import Factors

Array = np.ndarray[Any, np.dtype[Any]]
SIZE, PATCH, BRIGHT = 160, 32, 0.1
FAINT = 1e-3  # simulated bubbles have tails


class Task(NamedTuple):
    """A cine that is the sum of two known ones, (frames, 160, 160), and the patches that
    are scored.
    """

    name: str
    tissue: Array
    bubbles: Array

    @property
    def cine(self) -> Array:
        """What is seen."""
        return self.tissue + self.bubbles

    @property
    def scored(self) -> list[int]:
        """Patches with more than 1 % bubbles."""
        return [
            k
            for k, patch in enumerate(patches(self.bubbles))
            if np.mean(patch > FAINT) > 0.01
        ]


def real(folder: Path) -> Task:
    """Real tissue plus real bubbles: see the data folder's README."""
    tissue = (
        np.load(folder / "ultrasound/bmode_abdomen_b.npz")["frames"].astype(np.float32)
        / 255
    )
    bubbles = (
        np.load(folder / "ultrasound/ceus_rat_kidney_upper.npz")["bubbles"].astype(
            np.float32
        )
        / 2
    )
    return Task("real tissue plus real bubbles", middle(tissue), middle(bubbles))


def middle(cine: Array) -> Array:
    """The central square of each frame."""
    top, left = ((n - SIZE) // 2 for n in cine.shape[1:])
    return cine[:, top : top + SIZE, left : left + SIZE]


def simulated(seed: int = 12345) -> Task:
    """Patches beside each other; each drifts on its own."""
    from corona import simulated as patch

    rng = np.random.default_rng(seed)
    pairs = [patch(rng) for _ in range(25)]
    return Task("simulated", *(joined([pair[k] for pair in pairs]) for k in (0, 1)))


def patches(cine: Array) -> list[Array]:
    """Side by side, row by row."""
    places = range(0, SIZE, PATCH)
    return [cine[:, i : i + PATCH, j : j + PATCH] for i in places for j in places]


def joined(parts: list[Array]) -> Array:
    """The inverse of `patches`."""
    rows = [np.concatenate(parts[k : k + 5], axis=2) for k in range(0, 25, 5)]
    return np.concatenate(rows, axis=1)


def scores(task: Task, tissue: Array, bubbles: Array) -> dict[str, float]:
    """Mean squared error of the tissue; relative error of the bubbles, and F1 of those
    brighter than 0.1.
    """
    loss, off, hits, found, true = [], [], 0, 0, 0
    parts = [patches(X) for X in (task.tissue, task.bubbles, tissue, bubbles)]
    for k in task.scored:
        T, B, got_T, got_B = (part[k] for part in parts)
        loss.append(np.mean((got_T - T) ** 2))
        off.append(np.linalg.norm(got_B - B) / np.linalg.norm(B))
        hits += np.sum((got_B > BRIGHT) & (B > BRIGHT))
        found, true = found + np.sum(got_B > BRIGHT), true + np.sum(B > BRIGHT)
    f1 = 2 * hits / max(int(found + true), 1)
    return {
        "loss": float(np.mean(loss)),
        "S error": float(np.mean(off)),
        "F1": float(f1),
    }


def best_time(work: Callable[[], Any], times: int = 5) -> float:
    """Of several, on the processor's clock and with one thread: other work on the
    machine hardly counts.
    """
    took = []
    for _ in range(times):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


# ---- methods: a function of a task's cine to tissue, and what of it is timed

# Of the paper's form. "ultrasound" was trained on complete data, and its steps are too long for a tenth
# of them; one that is learned on a tenth of another cine diverges. More layers gain nothing.
TRAINED = {
    0.1: lrmc.Schedule.named("synthetic-r5-a0.1-p0.1"),
    1.0: lrmc.Schedule.named("ultrasound"),
}
LAYERS = {0.1: 8, 1.0: 5}


class Learning(NamedTuple):
    """LRMC with some layers of a schedule, rank 1."""

    schedule: lrmc.Schedule
    share: float

    def run(self, Y: Any) -> tuple[Array, Array]:
        """The factors of a matrix."""
        steps = lrmc.iterates(Y, 1, method="lrmc", schedule=self.schedule, threads=1)
        *_, last = islice(steps, LAYERS[self.share] + 1)
        return last.L, last.R

    def patches(self, cine: Array) -> tuple[Array, float]:
        """Every patch on its own, as in the paper, by one call for all of them."""
        inputs = [as_array(patch, self.share) for patch in patches(cine)]
        layers = shortened(self.schedule, LAYERS[self.share])

        def call() -> Sequence[Factors]:
            solved = lrmc.solve_many(inputs, rank=1, schedule=layers, threads=1)
            return solved.factors()

        seconds = best_time(call) / len(inputs)
        tissue = [(R @ L.T).reshape(-1, PATCH, PATCH) for L, R in call()]
        return joined(tissue), seconds

    def whole(self, cine: Array) -> tuple[Array, float]:
        """All pixels in one matrix: 25 patches at once."""
        Y = as_matrix(cine, self.share)
        L, R = self.run(Y)
        return (R @ L.T).reshape(cine.shape), best_time(lambda: self.run(Y)) / 25


def shortened(schedule: lrmc.Schedule, layers: int) -> lrmc.Schedule:
    """Its first layers, and nothing after them."""
    return replace(
        schedule,
        zeta=schedule.zeta[: layers + 1],
        eta=schedule.eta[:layers],
        momentum=schedule.momentum[:layers],
        tail=None,
    )


def as_matrix(cine: Array, share: float = 1.0, seed: int = 0) -> Any:
    """Pixels x frames; sparse where only a share is looked at."""
    stack = Stack(np.ascontiguousarray(cine))
    return stack.matrix if share == 1 else stack.sampled(share, seed)


def as_array(cine: Array, share: float, seed: int = 0) -> Array:
    """Pixels x frames, NaN where it is not looked at."""
    pixels = np.ascontiguousarray(cine.reshape(len(cine), -1).T)
    seen = np.random.default_rng(seed).random(pixels.shape) < share
    return np.where(seen, pixels, np.nan).astype(pixels.dtype)


def svd(cine: Array) -> tuple[Array, float]:
    """The leading component of every patch."""

    def leading(patch: Array) -> Array:
        U, s, V = np.linalg.svd(patch.reshape(len(patch), -1), full_matrices=False)
        return (U[:, :1] * s[:1] @ V[:1]).reshape(patch.shape)

    return joined([leading(p) for p in patches(cine)]), best_time(
        lambda: [leading(p) for p in patches(cine)], 3
    ) / 25


def motion_compensated(cine: Array, share: float) -> tuple[Array, Array, float]:
    """What `lrmc ultrasound` does."""
    began = time.process_time()
    parts = separate(cine, sample=share)
    return parts.tissue, parts.blood, (time.process_time() - began) / 25


def run_corona(
    cine: Array, weights: Path, published: bool
) -> tuple[Array, Array, float]:
    """One patch at a time, as the paper times it. `published`: the authors' operations (an SVD and
    six convolutions per layer); else ours, which give the same numbers faster."""
    import corona
    import torch

    torch.set_num_threads(1)
    model = corona.trained(weights)
    inputs = [
        torch.from_numpy(np.ascontiguousarray(patch))[None] for patch in patches(cine)
    ]
    with torch.inference_mode():
        call = partial(corona.as_published if published else corona.fast, model)
        found = [call(D) for D in inputs]
        seconds = best_time(lambda: [call(D) for D in inputs[::3]], 3) / len(
            inputs[::3]
        )
    return *(joined([pair[k][0].numpy() for pair in found]) for k in (0, 1)), seconds


def table(task: Task, weights: Path | None) -> list[dict[str, Any]]:
    """A row per method."""
    rows: list[dict[str, Any]] = []

    def add(
        name: str, tissue: Array, seconds: float, bubbles: Array | None = None
    ) -> None:
        S = task.cine - tissue if bubbles is None else bubbles
        rows.append(
            {
                "data": task.name,
                "method": name,
                "ms": 1e3 * seconds,
                **scores(task, tissue, S),
            }
        )
        print(rows[-1], flush=True)

    for share, schedule in TRAINED.items():
        learning = Learning(schedule, share)
        name = f"LRMC p = {100 * share:.0f} %"
        add(f"{name}, patches", *learning.patches(task.cine))
        add(f"{name}, whole frames", *learning.whole(task.cine))
    if weights is not None:
        for published, name in (
            (True, "CORONA, the authors' operations"),
            (False, "CORONA, made faster"),
        ):
            tissue, bubbles, seconds = run_corona(task.cine, weights, published)
            add(name, tissue, seconds, bubbles)
    add("SVD, rank 1, patches", *svd(task.cine))
    if task.name != "simulated":  # there, neighbouring patches move differently
        for share, name in (
            (0.1, "lrmc ultrasound --sample 0.1"),
            (1.0, "lrmc ultrasound"),
        ):
            tissue, bubbles, seconds = motion_compensated(task.cine, share)
            add(name, tissue, seconds, bubbles)
    return rows


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the real data")
    parser.add_argument(
        "--weights", type=Path, help="of CORONA, from experiments/corona.py"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=ROOT / "docs" / "paper" / "table4.csv"
    )
    given = parser.parse_args()
    rows = [
        row
        for task in (real(given.folder), simulated())
        for row in table(task, given.weights)
    ]
    with open(given.output, "w", newline="") as file:
        file.write(f"# {provenance()}\n")
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            for row in rows
        )


if __name__ == "__main__":
    main()

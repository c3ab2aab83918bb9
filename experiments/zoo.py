"""Train the schedules that come with lrmc, and write them to src/lrmc/schedules.

    python experiments/zoo.py [--only synthetic-r5-a0.1] [--data DIR] [--steps 300]

The synthetic ones (alpha x p, with tangent correction and momentum; three in the form of the paper)
need nothing. Those of the applications are trained on hidden entries of data without truth: a
generated street scene, and real data which are no part of this repository: they are looked for in
--data, in LRMC_DATA and in ../shared/data, and left out where they are not found. A minute each.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage

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


class Source(NamedTuple):
    """Data for an application, pixels x time, with a rank."""

    matrix: Callable[[Path], Any]
    rank: int
    about: str


def images(file: str, name: str, part: Any = slice(None)) -> Callable[[Path], Any]:
    """Images of a file as columns."""

    def read(folder: Path) -> Any:
        with np.load(folder / file) as content:
            return columns(content[name][part])

    return read


def columns(X: np.ndarray) -> np.ndarray:
    """Images as columns."""
    X = X.astype(np.float32) if X.dtype == np.uint16 else X
    return X.reshape(len(X), -1).T


def street(
    _: Path, height: int = 120, width: int = 160, frames: int = 150
) -> np.ndarray:
    """Boxes that pass before a still background, in changing light and with the noise of
    a camera.
    """
    rng = np.random.default_rng(0)
    still = ndimage.gaussian_filter(rng.standard_normal((height, width)), 4)
    still = 110 + 45 * still / np.abs(still).max()
    film = still * (1 + 0.03 * np.sin(np.arange(frames) / 20))[
        :, None, None
    ] + rng.normal(0, 2, (frames, height, width))
    for _ in range(14):
        first, speed, y, grey = (
            rng.integers(0, frames),
            rng.uniform(1, 4),
            rng.integers(0, height - 24),
            rng.uniform(0, 255),
        )
        tall, wide = rng.integers(10, 24), rng.integers(10, 40)
        for k in range(first, frames):
            x = int(speed * (k - first))
            film[k, y : y + tall, x : x + wide] = grey + rng.normal(0, 3)
    return columns(np.clip(film, 0, 255).astype(np.uint8))


SOURCES = {
    "video": Source(street, 1, "a generated street scene"),
    "clouds": Source(
        images("satellite/sentinel2_romania_10m.npz", "data", (slice(None), 2)),
        3,
        "Sentinel-2, Romania, red band, 140 dates with clouds and snow",
    ),
    "ultrasound": Source(
        images("ultrasound/echo_cine_pydicom.npz", "frames"),
        1,
        "the echocardiogram that comes with pydicom",
    ),
    "faces": Source(
        images(
            "faces/extyaleb_yaleB10.npz",
            "images",
            (slice(None), slice(None, None, 2), slice(None, None, 2)),
        ),
        5,
        "a face under 64 lights (Extended Yale B, person 10)",
    ),
}


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


def application(name: str, folder: Path, steps: int) -> lrmc.Schedule:
    """Trained on hidden entries of real data."""
    source = SOURCES[name]
    Y = source.matrix(folder)
    schedule = lrmc.train(
        Y, source.rank, layers=8, tangent=True, momentum=True, steps=steps
    )
    card = dict(schedule.card)
    card["trained_on"] = dict(card["trained_on"]) | {"about": source.about}
    return replace(schedule, card=card)


def entries(
    folder: Path, steps: int
) -> Iterator[tuple[str, Callable[[], lrmc.Schedule]]]:
    """What is in the zoo, by name."""
    for p in FRACTIONS:
        for alpha in ALPHAS:
            yield (
                f"synthetic-r{RANK}-a{alpha:g}-p{p:g}",
                lambda a=alpha, p=p: synthetic(a, p, True, steps),
            )
    for p in (0.1, 0.3, 1.0):
        yield f"paper-r{RANK}-a0.1-p{p:g}", lambda p=p: synthetic(0.1, p, False, steps)
    for name in SOURCES:
        yield name, lambda name=name: application(name, folder, steps)


def main() -> None:
    """Train and write."""
    ask = argparse.ArgumentParser(
        description="Train the schedules that come with lrmc."
    )
    ask.add_argument("--only", default="", help="names that begin so")
    ask.add_argument(
        "--missing", action="store_true", help="only those that are not there yet"
    )
    ask.add_argument(
        "--data", help="the folder of real data; otherwise LRMC_DATA, or ../shared/data"
    )
    ask.add_argument("--steps", type=int, default=300)
    ask.add_argument("--output", type=Path, default=ROOT / "src" / "lrmc" / "schedules")
    asked = ask.parse_args()
    folder = Path(
        asked.data or os.environ.get("LRMC_DATA") or ROOT.parent / "shared" / "data"
    )
    for name, make in entries(folder, asked.steps):
        target = asked.output / f"{name}.json"
        if name.startswith(asked.only) and not (asked.missing and target.exists()):
            try:
                schedule = make()
            except FileNotFoundError as error:
                print(f"{name}: left out, {Path(error.filename).name} is not there")
                continue
            schedule.save(target)
            print(
                name,
                len(schedule),
                schedule.tail,
                schedule.card.get("checked_on", schedule.card["error"]),
                flush=True,
            )


if __name__ == "__main__":
    main()

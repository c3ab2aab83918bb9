"""Clouds on real scenes: the figures of docs/clouds.md.

    python experiments/clouds.py [--thin 2] [--pairs 0 1 ...] [--write]

Rondonia is task A of the data folder (see tasks.py). Romania: clouds of one date are moved onto a
clear one (PSNR on what they cover), whole clear dates are hidden (PSNR of the estimate), and found
clouds are compared with the scene classification. No number is set for a scene. The data are looked
for as in real.py."""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tasks import PAIRS, Array, Source, row_median, satellite, satellite_scores

import lrmc
from lrmc._files import whole
from lrmc.apps.clouds.model import Cleared, remove_clouds

ROOT = Path(__file__).resolve().parent.parent
# codes of the scene classification
CLEAR, CLOUDY, SHADOW, SNOW = (4, 5, 7), (8, 9, 10), 3, 11
PEAK = 3000.0
ALIKE = 0.7  # the correlation of two clear dates


class Line(NamedTuple):
    """One figure."""

    task: str
    method: str
    score: str
    value: float


def psnr(squares: float) -> float:
    """With the peak of the data folder's README."""
    return 20 * np.log10(PEAK / np.sqrt(squares))


def geomedian(X: Array, rounds: int = 30) -> Array:
    """The geometric median over the dates of each pixel, all bands together: T x bands x
    pixels, NaN is missing.
    """
    seen = ~np.isnan(X).any(1)
    at = np.nanmedian(X, axis=0)
    filled = np.where(seen[:, None], X, 0)
    for _ in range(rounds):
        distance = np.sqrt(((filled - at) ** 2).sum(1)) + 1.0
        w = np.where(seen, 1 / distance, 0)
        at = np.where(
            seen.any(0), (w[:, None] * filled).sum(0) / np.maximum(w.sum(0), 1e-12), at
        )
    return at


def rondonia(folder: Path, thin: int, chosen: list[int]) -> list[Line]:
    """Task A: median, geomedian, the trained schedule, and remove_clouds with both ways to fill."""
    source = Source(folder, 0, thin)
    dates = source.read("satellite/sentinel2_rondonia_20LKP_256.npz")["dates"]
    scores: dict[str, list[dict[str, float]]] = {}
    lines: list[Line] = []
    for k, (problem, (_, cloudy)) in enumerate(zip(satellite(source), PAIRS)):
        if k not in chosen:
            continue
        T, side = problem.Y.shape[1], 256 // thin
        stack, seen = (
            problem.Y.T.reshape(T, 3, side, side),
            problem.mask.T.reshape(T, 3, side, side).all(1),
        )
        values, others = problem.values.T.reshape(T, 3, -1), problem.columns
        middle = geomedian(values[others].astype(np.float64))
        began = time.perf_counter()
        full = remove_clouds(stack, seen, dates=np.delete(dates, cloudy), fill="all")
        seconds = time.perf_counter() - began
        kept = np.where((full.mask != 0)[:, None], full.scenes, stack)
        rank = full.ground.rank
        trained = lrmc.solve(
            problem.Y, mask=problem.mask, groups=problem.groups, schedule="clouds"
        )
        answers = {
            "temporal median": row_median(problem.values, others),
            "geomedian": np.broadcast_to(middle.reshape(-1, 1), problem.Y.shape),
            "learned schedule clouds": trained.L @ trained.R.T,
            "remove_clouds, fill all": full.scenes.reshape(T, -1).T.astype(np.float64),
            "remove_clouds (as written)": kept.reshape(T, -1).T.astype(np.float64),
        }
        for name, X in answers.items():
            scores.setdefault(name, []).append(problem.score(X))
        lines = []
        for name, some in scores.items():
            mean = {
                band: float(np.mean([one[band] for one in some])) for band in some[0]
            }
            lines += [
                Line("Rondonia, task A", name, score, value)
                for score, value in satellite_scores(mean).items()
            ]
        so_far = {x.method: round(x.value, 2) for x in lines if x.score == "PSNR"}
        print(
            f"pair {k}: rank {rank}, {seconds:.1f} s; PSNR so far {so_far}", flush=True
        )
    return lines


class Romania(NamedTuple):
    """Scenes of five years, their classes, and which are clear."""

    data: Array  # T x bands x height x width
    classes: Array  # T x height x width
    dates: Array

    @classmethod
    def read(cls, folder: Path, first: str, last: str, thin: int) -> Romania:
        """The scenes of some years."""
        content = np.load(folder / "satellite/sentinel2_romania_10m.npz")
        dates = content["dates"].astype("datetime64[D]")
        some = (dates >= np.datetime64(first)) & (dates <= np.datetime64(last))
        return cls(
            content["data"][some][:, :, ::thin, ::thin],
            content["scl"][some][:, ::thin, ::thin],
            dates[some],
        )

    @property
    def called_clear(self) -> Array:
        """Dates without clouds by their classes, which miss shadows."""
        return np.flatnonzero(np.isin(self.classes, CLEAR).mean((1, 2)) > 0.98)

    @property
    def clear(self) -> Array:
        """Those of them that look like the one before or after: fit to be judged by."""
        some = self.called_clear
        infrared = [self.data[t, -1].ravel() for t in some]
        alike = [float(np.corrcoef(x, y)[0, 1]) for x, y in pairwise(infrared)]
        best = np.maximum([*alike, 0.0], [0.0, *alike])
        return some[best > ALIKE]

    @property
    def cloudy(self) -> Array:
        """Dates with clouds over a part of the scene."""
        share = np.isin(self.classes, (*CLOUDY, SHADOW)).mean((1, 2))
        return np.flatnonzero((share > 0.15) & (share < 0.85))


def moved_clouds(
    scene: Romania, seed: int = 0
) -> Iterator[tuple[Array, int, Array, Array]]:
    """Clear dates with clouds of other dates: the stack, the date, what is covered, and
    which dates to use.
    """
    rng = np.random.default_rng(seed)
    clear, cloudy = scene.clear, scene.cloudy
    for at in rng.permutation(clear)[:4]:
        donor = int(rng.choice(cloudy))
        covered = np.isin(scene.classes[donor], (*CLOUDY, SHADOW))
        stack = scene.data.copy()
        stack[at][:, covered] = scene.data[donor][:, covered]
        yield stack, int(at), covered, np.delete(np.arange(len(stack)), donor)


def romania(scene: Romania, name: str) -> list[Line]:
    """Clouds moved onto clear dates, clear dates hidden, and the clouds found."""
    squares: dict[str, list[float]] = {}
    for stack, at, covered, used in moved_clouds(scene):
        seen = ~np.isin(scene.classes, (*CLOUDY, SHADOW))
        seen[at] = True
        others = used[used != at]
        here = int(np.flatnonzero(used == at)[0])
        near = others[
            np.argsort(np.abs(scene.dates[others] - scene.dates[at]).astype(int))
        ][:12]
        values = np.where(seen[:, None], stack, np.nan).astype(np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            answers = {
                "temporal median": np.nanmedian(values[others], axis=0),
                "median of the 12 nearest dates": np.nanmedian(values[near], axis=0),
            }
        answers["remove_clouds, no masks"] = remove_clouds(
            stack[used], dates=scene.dates[used], fill="all"
        ).scenes[here]
        masked = remove_clouds(
            stack[used], seen[used], dates=scene.dates[used], fill="all"
        )
        answers["remove_clouds, masks of the other dates"] = masked.scenes[here]
        for method, X in answers.items():
            off = np.where(np.isnan(X), np.nanmedian(X), X) - scene.data[at].astype(
                np.float64
            )
            squares.setdefault(method, []).append(float(np.mean(off[:, covered] ** 2)))
        print(
            name, at, {k: round(psnr(v[-1]), 1) for k, v in squares.items()}, flush=True
        )
    lines = [
        Line(name, method, "PSNR under clouds", psnr(float(np.mean(s))))
        for method, s in squares.items()
    ]
    return lines + found_clouds(scene, name)


def hidden_dates(scene: Romania, name: str) -> list[Line]:
    """A third of the clear dates is hidden as a whole: what the others, called clear,
    say about them.
    """
    seen = ~np.isin(scene.classes, (*CLOUDY, SHADOW))
    clear = scene.clear
    hidden = clear[1:-1:3]
    seen[hidden] = False
    done = remove_clouds(scene.data, seen, dates=scene.dates, fill="all")
    known = np.setdiff1d(scene.called_clear, hidden)
    mean = np.median(scene.data[known], axis=0)
    squares: dict[str, list[float]] = {}
    for at in hidden:
        apart = (scene.dates[known] - scene.dates[at]).astype(int)
        before, after = known[apart < 0][-1], known[apart > 0][0]
        share = float(
            (scene.dates[at] - scene.dates[before])
            / (scene.dates[after] - scene.dates[before])
        )
        line = (1 - share) * scene.data[before] + share * scene.data[after]
        nearest = scene.data[known[np.argmin(np.abs(apart))]]
        answers = {
            "median of the clear dates": mean,
            "nearest clear date": nearest,
            "line between clear dates": line,
        }
        for method, X in (answers | {"remove_clouds": done.scenes[at]}).items():
            squares.setdefault(method, []).append(
                float(np.mean((X - scene.data[at].astype(np.float64)) ** 2))
            )
    return [
        Line(name, method, "PSNR of hidden dates", psnr(float(np.mean(s))))
        for method, s in squares.items()
    ]


def found_clouds(scene: Romania, name: str) -> list[Line]:
    """The clouds found without any mask, against the classes: F1 over all pixels whose
    class is clear or cloud.
    """
    done: Cleared = remove_clouds(scene.data, dates=scene.dates)
    truth, judged = (
        np.isin(scene.classes, CLOUDY),
        np.isin(scene.classes, (*CLEAR, *CLOUDY)),
    )
    truth, found = truth[judged], (done.mask == 1)[judged]
    both = float(np.sum(truth & found))
    return [
        Line(
            name,
            "remove_clouds, no masks",
            "precision of clouds",
            both / max(float(found.sum()), 1),
        ),
        Line(
            name,
            "remove_clouds, no masks",
            "recall of clouds",
            both / max(float(truth.sum()), 1),
        ),
        Line(
            name,
            "remove_clouds, no masks",
            "F1 of clouds",
            2 * both / float(found.sum() + truth.sum()),
        ),
    ]


def main() -> None:
    """Run, print, and write if asked to."""
    ask = argparse.ArgumentParser(description="Clouds on real scenes.")
    ask.add_argument(
        "--data", help="the folder of the data; otherwise LRMC_DATA, or ../shared/data"
    )
    ask.add_argument("--tasks", nargs="+", default=["rondonia", "romania", "seasons"])
    ask.add_argument(
        "--thin", type=int, default=2, help="the step between pixels in x and y"
    )
    ask.add_argument("--pairs", type=int, nargs="+", default=list(range(8)))
    ask.add_argument(
        "--write",
        action="store_true",
        help="add to docs/clouds.csv, in place of lines of the same task",
    )
    asked = ask.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    folder = Path(
        asked.data or os.environ.get("LRMC_DATA") or ROOT.parent / "shared" / "data"
    )
    lines = (
        rondonia(folder, asked.thin, asked.pairs) if "rondonia" in asked.tasks else []
    )
    if "romania" in asked.tasks:
        year = Romania.read(folder, "2018-03-01", "2019-03-31", asked.thin)
        lines += romania(year, "Romania, March 2018 to March 2019")
    if "seasons" in asked.tasks:
        for first, last in (("2018-03-01", "2019-03-31"), ("2017-03-01", "2020-12-31")):
            lines += hidden_dates(
                Romania.read(folder, first, last, asked.thin),
                f"Romania, {first} to {last}, dates hidden",
            )
    for line in lines:
        print(f"{line.task:36} {line.method:42} {line.score:22} {line.value:.3f}")
    if asked.write:
        _write(ROOT / "docs" / "clouds.csv", lines)


def _write(path: Path, lines: list[Line]) -> None:
    old: list[Line] = []
    if path.exists():
        with path.open(newline="") as file:
            old = [Line(a, b, c, float(d)) for a, b, c, d in list(csv.reader(file))[1:]]
    new = {line.task for line in lines}
    with whole(path) as temporary, temporary.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(Line._fields)
        out.writerows(
            (*line[:3], f"{line.value:.4f}")
            for line in [x for x in old if x.task not in new] + lines
        )


if __name__ == "__main__":
    main()

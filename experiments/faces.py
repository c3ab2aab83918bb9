"""Faces: PSNR on pasted and hidden pixels (see tasks.py) beside the baselines, and a contact sheet.

    python experiments/faces.py [--people yaleB01 yaleB02] [--only NAME ...] [--write] [--sheet
    FILE.png]

ScaledGD gets about the true share of outliers and a rank, truncated SVD a rank, `clean_faces` only
the pictures."""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from tasks import (
    Array,
    Problem,
    Source,
    data_folder,
    faces,
    hard_impute,
    row_mean,
    row_median,
)
from written import write_rows

import lrmc
from lrmc.apps.faces import Faces as Cleaned
from lrmc.apps.faces import Person, clean_faces, contact_sheet
from lrmc.schedule import Tuning

ROOT = Path(__file__).resolve().parent.parent
SHAPE = 192, 168


def truncated_svd(problem: Problem, rank: int) -> Array:
    """The leading part of the data, gaps filled with the mean of their pixel."""
    filled = np.where(problem.mask, problem.Y, row_mean(problem.values)).astype(
        np.float32
    )
    U, s, V = np.linalg.svd(filled, full_matrices=False)
    return (U[:, :rank] * s[:rank]) @ V[:rank]


def by_solve(problem: Problem, rank: int, **options: object) -> Array:
    """The answer of `lrmc.solve` at a rank."""
    result = lrmc.solve(problem.Y, rank, mask=problem.mask, **options)
    return result.L @ result.R.T


def ours(problem: Problem) -> Cleaned:
    """`clean_faces` on the pictures and what is seen of them."""
    images, seen = (X.T.reshape(-1, *SHAPE) for X in (problem.Y, problem.mask))
    return clean_faces(np.ascontiguousarray(images), np.ascontiguousarray(seen))


METHODS = {
    "median of each pixel, well-lit pictures": lambda p: row_median(
        p.values, p.columns
    ),
    "truncated SVD, rank 5": lambda p: truncated_svd(p, 5),
    "hard-impute SVD, rank 5": lambda p: hard_impute(p.values, 5),
    "ScaledGD, rank 5": lambda p: by_solve(
        p, 5, method="scaled_gd", schedule=Tuning(alpha=0.05)
    ),
    "ScaledGD, rank 9": lambda p: by_solve(
        p, 9, method="scaled_gd", schedule=Tuning(alpha=0.05)
    ),
    "learned schedule faces": lambda p: by_solve(p, None, schedule="faces"),
    "clean_faces": None,
}


def main() -> None:
    """Run, print, and write if asked to."""
    ask = argparse.ArgumentParser(
        description="Faces: PSNR on pasted and hidden pixels."
    )
    ask.add_argument(
        "--data", help="the folder of the data; otherwise LRMC_DATA, or ../shared/data"
    )
    ask.add_argument("--people", nargs="+", default=["yaleB01", "yaleB02"])
    ask.add_argument(
        "--only", nargs="+", default=[""], help="only methods whose names begin so"
    )
    ask.add_argument("--write", action="store_true", help="add to docs/faces.csv")
    ask.add_argument(
        "--sheet", type=Path, help="where a contact sheet of what clean_faces did goes"
    )
    asked = ask.parse_args()
    warnings.simplefilter("ignore")
    folder = data_folder(asked.data)
    lines, people = [], {}
    for name in asked.people:
        problem = next(faces(Source(folder), name))
        for method, run in METHODS.items():
            if not method.startswith(tuple(asked.only)):
                continue
            began = time.perf_counter()
            if run is None:
                done = ours(problem)
                X, note = done.clean.reshape(len(done.clean), -1).T, f"rank {done.rank}"
                images = np.where(problem.mask, problem.Y, 0).T.reshape(-1, *SHAPE)
                people[name] = Person(name, (), images[problem.columns]), done
            else:
                X, note = run(problem), ""
            seconds = time.perf_counter() - began
            score = problem.score(X.astype(np.float64))["PSNR"]
            lines.append([name, method, note, f"{score:.2f}", f"{seconds:.1f}"])
            print(*lines[-1], sep="  ", flush=True)
            if asked.write:
                _write(ROOT / "docs" / "faces.csv", lines)
    if asked.sheet and people:
        shown = {}
        for name, (person, done) in people.items():
            some = next(faces(Source(folder), name)).columns
            shown[name] = (
                person,
                Cleaned(done.clean[some], done.removed[some], done.result),
            )
        contact_sheet(shown).save(asked.sheet)


def _write(path: Path, lines: list[list[str]]) -> None:
    old: list[list[str]] = []
    if path.exists():
        with path.open(newline="") as file:
            old = list(csv.reader(file))[1:]
    new = {tuple(line[:2]) for line in lines}
    kept = [line for line in old if tuple(line[:2]) not in new]
    head = ["person", "method", "note", "PSNR", "seconds"]
    write_rows(path, head, kept + lines)


if __name__ == "__main__":
    main()

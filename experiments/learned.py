"""Tables III, V and VI of the paper on the real data at hand: LRMC that was learned on other data.

    python experiments/learned.py [--data DIR] [--only video faces clouds] [--minutes 4]

Video: clips with known masks; trained on generated street scenes. Faces: persons 01 and 02 under 64
lights with pasted patches; trained on person 10. Clouds: Rondonia, clouds moved onto clear dates;
trained on Romania. The paper's own data are not at hand, so that its times stand beside ours and its
losses cannot.

*Family* is the schedule of the package for such data, which has priors and finds its rank. *Paper's
form* has thresholds and steps only, learned on hidden entries of one matrix of the training data, at
the same share of observed entries. It and ScaledGD have the paper's rank and stop as in the paper:
when X moves by less than the table's tolerance, or after 32 iterations. Times are of the processor,
with one thread, from the array to the factors. (Table IV: ultrasound.py.)"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import ROOT, Asked, Method, Sheet
from families import person_10, romania, rondonia, streets
from tasks import (
    CLIPS,
    Problem,
    Scores,
    Source,
    faces,
    row_mean,
    satellite_scores,
    video,
)
from trained import FOLDER

import lrmc
from lrmc import Schedule
from lrmc.schedule import Tuning

MOST = 32  # iterations, as in the paper
LAYERS, STEPS = 10, 30  # a tail would go on below the noise, so there is none
ENOUGH = 300_000  # entries to train on
OUTLIERS = 0.1  # what ScaledGD is told


class Table(NamedTuple):
    """One of the paper's tables."""

    name: str  # of the schedule, too
    rank: int
    tol: float
    shares: tuple[float, ...]  # observed
    trained_on: Callable[[Source], list[Any]]
    problems: Callable[[Source, float], Iterator[tuple[str, Problem]]]
    finish: Callable[[Scores], Scores] = dict


def clips(source: Source, share: float) -> Iterator[tuple[str, Problem]]:
    """Real ones, for schedules that were learned on generated ones."""
    for name, clip in CLIPS.items():
        yield name, next(video(source, clip, share))


def persons(source: Source, share: float) -> Iterator[tuple[str, Problem]]:
    """Two, for schedules that were learned on another one."""
    for person in ("yaleB01", "yaleB02"):
        yield person, next(faces(source, person, hidden=1 - share))


def scenes(source: Source, share: float) -> Iterator[tuple[str, Problem]]:
    """Pairs of dates of Rondonia."""
    rng = np.random.default_rng(source.seed)
    for name, problem in rondonia(source):
        seen = problem.mask & (rng.random(problem.mask.shape) < share)
        yield name, Problem(problem.Y, seen, problem.score, groups=problem.groups)


TABLES = (
    Table("video", 1, 1e-2, (1.0, 0.1), streets, clips),
    Table("faces", 5, 1e-4, (1.0, 0.3), person_10, persons),
    Table("clouds", 3, 1e-4, (1.0, 0.3), romania, scenes, satellite_scores),
)


def sampled(Y: Any, share: float) -> Any:
    """A share of the observed entries, with NaN for the others."""
    seen = np.random.default_rng(0).random(Y.shape) < share
    return np.where(seen, Y, np.float32(np.nan))


def paper_form(table: Table, share: float, source: Source) -> Schedule:
    """Learned on the training data, or before and kept."""
    file = FOLDER / f"real-{table.name}-p{share:g}.json"
    if not file.exists():
        Y = table.trained_on(source)[0]
        Y = sampled(Y[:: max(1, Y.size // ENOUGH)], share)
        schedule = lrmc.train(
            Y, table.rank, layers=LAYERS, model="fnn", steps=STEPS, threads=1
        )
        schedule.save(file)
        print(f"trained {file.name}: {schedule.card['seconds']} s", flush=True)
    return Schedule.load(file)


def methods(table: Table, share: float, source: Source) -> dict[str, Method]:
    """What is run."""
    told = {"rank": table.rank, "tol": table.tol, "max_iter": MOST}
    learned = {"method": "lrmc", "schedule": paper_form(table, share, source)}
    scaled = {"method": "scaled_gd", "schedule": Tuning(OUTLIERS)}
    family = {"schedule": Schedule.named(table.name), "time": None}
    return {
        "LRMC, family": Method("", family),
        "LRMC, paper's form": Method("", told | learned),
        "ScaledGD": Method("", told | scaled),
    }


def run(method: Method, problem: Problem) -> dict[str, Any]:
    """Scores, iterations and processor seconds."""
    options = dict(method.options)
    if (
        "time" in options
    ):  # of the default's layers, which weigh the bands of a pixel as one
        options["groups"] = problem.groups
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # that 32 iterations are not enough
        result = lrmc.solve(problem.values, threads=1, **options)
    seconds = time.process_time() - began
    X = result.low_rank()
    # rows of which nothing is seen are left open
    X = np.where(np.isnan(X), row_mean(problem.values), X)
    return {
        "seconds": seconds,
        "iterations": result.n_iter,
        "rank": result.rank,
        **problem.score(X),
    }


def mean_of(runs: list[dict[str, Any]], finish: Callable[[Scores], Scores]) -> Scores:
    """Several problems as one."""
    names = ("seconds", "iterations", "rank")
    mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
    scores = finish({key: mean[key] for key in mean if key not in names})
    return {key: mean[key] for key in names} | scores


def measure(table: Table, sheet: Sheet, ask: Asked, source: Source) -> None:
    """All rows of a table that are missing."""
    for share in ask.within_time(table.shares):
        for name, method in ask.within_time(methods(table, share, source).items()):
            row = {"table": table.name, "p": f"{share:g}", "method": name}
            row["numbers"] = method.numbers
            if not sheet.missing([row]):
                continue
            runs = [
                run(method, problem) for _, problem in table.problems(source, share)
            ]
            found = mean_of(runs, table.finish)
            score = next(key for key in found if key in ("F", "PSNR"))
            values = [r.get(score, math.nan) for r in runs]
            shown = {
                "score": score,
                "value": f"{found[score]:.4g}",
                "each": " ".join(f"{x:.4g}" for x in values if math.isfinite(x)),
                "rank": f"{found['rank']:g}",
                "iterations": f"{found['iterations']:.1f}",
                "seconds": f"{found['seconds']:.3g}",
            }
            sheet.add(row | shown)


def main() -> None:
    """Measure what is missing."""
    told = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    told.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    told.add_argument("--only", nargs="+", choices=[table.name for table in TABLES])
    told.add_argument("--output", type=Path, default=ROOT / "docs" / "paper")
    told.add_argument("--minutes", type=float, default=math.inf)
    given = told.parse_args()
    until = time.perf_counter() + 60 * given.minutes
    ask = Asked(False, given.output, 1, until)
    sheet = Sheet(given.output / "learned.csv", ("table", "p", "method"))
    for table in TABLES:
        if given.only is None or table.name in given.only:
            measure(table, sheet, ask, Source(given.data))


if __name__ == "__main__":
    main()

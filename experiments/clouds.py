"""Clouds on real scenes, beside the simple methods: the figures of docs/clouds.md.

    python experiments/clouds.py [--groups pairs rondonia-8 ...] [--draws 20] [--seed 100] [--write]

Every group is a list of cases (scenes.py) in which the ground of one date is known. The simple methods
are told where its clouds are, ours is not. For each method: PSNR in dB, mean and worst over the cases;
ours less the best simple one of each case, and less the one that is best on average; F1 of the clouds
found on the date; how many good cases are warned about, and how many bad ones are not. No number is set
for a scene. The data are looked for as in real.py."""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scenes import CLEAR, CLOUDY, Case, Romania, Rondonia, psnr, simple_answers

from lrmc._files import whole
from lrmc.apps.clouds import remove_clouds
from lrmc.result import Status

ROOT = Path(__file__).resolve().parent.parent
OURS = "remove_clouds"
YEAR, YEARS = ("2018-03-01", "2019-03-31"), ("2017-03-01", "2020-12-31")
LENGTHS = (8, 12, 20)  # dates in a series that is drawn
BEHIND = 0.5  # dB behind the best simple method: a bad case is more


class Line(NamedTuple):
    """One figure."""

    group: str
    method: str
    score: str
    value: float


class Asked(NamedTuple):
    """What the cases are made from."""

    folder: Path
    thin: int
    draws: int
    seed: int

    @property
    def seeds(self) -> range:
        """Of the draws."""
        return range(self.seed, self.seed + self.draws)

    def rondonia(self) -> Rondonia:
        """The scenes of Brazil."""
        return Rondonia.read(self.folder, self.thin)

    def romania(self, years: tuple[str, str]) -> Romania:
        """The scenes of some years: a smaller picture, of which more is taken."""
        return Romania.read(self.folder, max(1, self.thin // 2), *years)


Cases = Callable[[Asked], Iterator[Case]]


def drawn(n: int, masks: bool | None = None) -> Cases:
    """Series of n dates; of Romania if it is said whether masks are given."""

    def cases(asked: Asked) -> Iterator[Case]:
        for seed in asked.seeds:
            if masks is None:
                yield asked.rondonia().drawn(n, seed)
            else:
                yield asked.romania(YEARS).drawn(n, seed, masks)

    return cases


def shaded(cases: Cases) -> Cases:
    """The same with what clouds leave of the date in a shadow."""

    def darker(asked: Asked) -> Iterator[Case]:
        for seed, case in zip(asked.seeds, cases(asked)):
            yield case.shaded(seed)

    return darker


GROUPS: dict[str, Cases] = {
    "pairs": lambda asked: asked.rondonia().pairs(),
    "romania-masks": lambda asked: asked.romania(YEAR).moved(masks=True),
    "romania": lambda asked: asked.romania(YEAR).moved(masks=False),
    **{f"rondonia-{n}": drawn(n) for n in LENGTHS},
    **{f"romania-masks-{n}": drawn(n, True) for n in LENGTHS},
    **{f"romania-{n}": drawn(n, False) for n in LENGTHS},
    "shadow-rondonia-12": shaded(drawn(12)),
    "shadow-romania-12": shaded(drawn(12, False)),
    "shadow-romania-masks-12": shaded(drawn(12, True)),
    "hidden-year": lambda asked: asked.romania(YEAR).hidden(),
    "hidden-years": lambda asked: asked.romania(YEARS).hidden(),
}


class Counts(NamedTuple):
    """Pixels of clouds."""

    both: int = 0
    found: int = 0
    true: int = 0

    @classmethod
    def of(cls, found: np.ndarray, true: np.ndarray) -> Counts:
        """Found, and true."""
        both = int(np.count_nonzero(found & true))
        return cls(both, int(np.count_nonzero(found)), int(np.count_nonzero(true)))

    def plus(self, other: Counts) -> Counts:
        """All of them."""
        return Counts(*(x + y for x, y in zip(self, other)))

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.both / max(self.found + self.true, 1)


def measured(group: str, cases: Iterator[Case]) -> list[Line]:
    """All figures of a group."""
    scores: dict[str, list[float]] = {}
    counts, each = Counts(), list[Counts]()
    warned = list[bool]()
    seconds = 0.0
    for case in cases:
        began = time.process_time()
        done = remove_clouds(case.data, case.seen, dates=case.dates, fill="all")
        seconds += time.process_time() - began
        answers = simple_answers(case) | {OURS: done.scenes[case.at]}
        for name, X in answers.items():
            scores.setdefault(name, []).append(psnr(case.score(X)))
        there = case.seen[case.at]
        found = (done.mask[case.at] == 1) & there
        each.append(Counts.of(found, case.cloud & there))
        counts = counts.plus(each[-1])
        warned.append(done.status is not Status.CONVERGED or len(done.warnings) > 0)
        last = {name: round(float(some[-1]), 1) for name, some in scores.items()}
        print(group, f"F1 {each[-1].f1:.2f}", last, *done.warnings, flush=True)
    lines = _summary(group, scores) + _told(group, scores, warned)
    lines.append(Line(group, OURS, "seconds", seconds / len(scores[OURS])))
    if counts.true:
        lines.append(Line(group, OURS, "F1 of clouds", counts.f1))
        worst = min(one.f1 for one in each)
        lines.append(Line(group, OURS, "worst F1 of clouds", worst))
    return lines


def _told(group: str, scores: dict[str, list[float]], warned: list[bool]) -> list[Line]:
    """How many cases are good and warned about, and how many bad and not."""
    best = np.max([some for name, some in scores.items() if name != OURS], axis=0)
    good, told = np.array(scores[OURS]) >= best - BEHIND, np.array(warned)
    found = {
        "good cases": good,
        "good cases with a warning": good & told,
        "bad cases without a warning": ~good & ~told,
    }
    return [Line(group, OURS, name, float(one.sum())) for name, one in found.items()]


def pooled(scores: list[float]) -> float:
    """Of the mean squared error, from the PSNR of each case: how task A is scored."""
    relative = np.mean([10 ** (-score / 10) for score in scores])
    return float(-10 * np.log10(relative))


def _summary(group: str, scores: dict[str, list[float]]) -> list[Line]:
    lines = []
    for name, some in scores.items():
        lines.append(Line(group, name, "mean PSNR", float(np.mean(some))))
        lines.append(Line(group, name, "worst PSNR", min(some)))
        lines.append(Line(group, name, "PSNR of the mean error", pooled(some)))
    ours = np.array(scores[OURS])
    every = np.array([some for name, some in scores.items() if name != OURS])
    beside = {
        "best simple method on average": every[np.argmax(every.mean(1))],
        "best simple method of each case": every.max(0),
        "harmonic": np.array(scores["harmonic"]),
    }
    for name, theirs in beside.items():
        ahead = ours - theirs
        lines.append(Line(group, OURS, f"mean ahead of {name}", float(ahead.mean())))
        lines.append(Line(group, OURS, f"worst ahead of {name}", float(ahead.min())))
    return lines


def found_in_romania(asked: Asked) -> list[Line]:
    """Clouds found on all dates of a year without any mask, against the classes."""
    scene = asked.romania(YEAR)
    done = remove_clouds(scene.data, dates=scene.dates)
    judged = np.isin(scene.classes, (*CLEAR, *CLOUDY))
    true = np.isin(scene.classes, CLOUDY)[judged]
    counts = Counts.of((done.mask == 1)[judged], true)
    return [Line("all clouds of romania", OURS, "F1 of clouds", counts.f1)]


def main() -> None:
    """Run, print, and write if asked to."""
    ask = argparse.ArgumentParser(description="Clouds on real scenes.")
    ask.add_argument("--data", help="otherwise LRMC_DATA, or ../shared/data")
    ask.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    ask.add_argument("--thin", type=int, default=4, help="the step between pixels")
    ask.add_argument("--draws", type=int, default=20)
    ask.add_argument("--seed", type=int, default=100, help="of the first draw")
    ask.add_argument(
        "--write",
        action="store_true",
        help="add to docs/clouds.csv, in place of lines of the same group",
    )
    given = ask.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    place = given.data or os.environ.get("LRMC_DATA") or ROOT.parent / "shared/data"
    asked = Asked(Path(place), given.thin, given.draws, given.seed)
    for group in given.groups:
        lines = measured(group, GROUPS[group](asked))
        if group == "romania":
            lines += found_in_romania(asked)
        for line in lines:
            print(f"{line.group:18} {line.method:14} {line.score:50} {line.value:.2f}")
        if given.write:
            _write(ROOT / "docs" / "clouds.csv", lines)


def _write(path: Path, lines: list[Line]) -> None:
    old: list[Line] = []
    if path.exists():
        with path.open(newline="") as file:
            rows = list(csv.reader(file))[1:]
        old = [Line(a, b, c, float(d)) for a, b, c, d in rows]
    new = {line.group for line in lines}
    with whole(path) as temporary, temporary.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(Line._fields)
        kept = [line for line in old if line.group not in new]
        out.writerows((*line[:3], f"{line.value:.3f}") for line in kept + lines)


if __name__ == "__main__":
    main()

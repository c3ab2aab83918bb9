"""The schedules that the experiments run with: those of the package, and others that are trained
here and kept.

    python experiments/trained.py [--minutes 4]

trains all that the experiments at full size need and that are not there yet, a minute each, by the
recipe of `zoo.py`. They are kept in `experiments/schedules`; `schedule_for(...)` gives them to an
experiment."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

from common import Asked, asked
from zoo import RANK, synthetic

import lrmc
from lrmc import Schedule
from lrmc.synthetic import Problems

FOLDER = Path(__file__).with_name("schedules")
STEPS = 300
ALPHA = 0.1  # of Table I and Fig. 5
ALL_P = tuple(round(0.1 * k, 1) for k in range(1, 11))
MANY_OUTLIERS = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
CONVERGENCE = (0.1, 0.15, 0.2, 0.25)
NOISE_DB = (10, 20, 30, 40, 50)
LAYERS_FOR_NOISE = {0.1: 20, 1.0: 10}


def name_of(alpha: float, p: float, form: str) -> str:
    """As the zoo names them."""
    return f"{form}-r{RANK}-a{alpha:g}-p{p:g}"


def schedule_for(alpha: float, p: float, form: str, ask: Asked) -> Schedule:
    """The schedule for a setting: of the package, kept, or trained now. The form is "synthetic"
    (with the tangent correction and momentum) or "paper"."""
    if ask.quick:  # any will do
        return Schedule.named(f"{form}-r5-a0.1-p{0.1 if p < 0.3 else 1:g}")
    name = name_of(alpha, p, form)
    if name in Schedule.names():
        return Schedule.named(name)
    file = FOLDER / f"{name}.json"
    if not file.exists():
        FOLDER.mkdir(exist_ok=True)
        schedule = synthetic(alpha, p, form == "synthetic", STEPS)
        schedule.save(file)
        print(
            f"trained {name}: {len(schedule)} layers, {schedule.card['seconds']} s",
            flush=True,
        )
    return Schedule.load(file)


def noise_for(decibels: float, rank: int) -> float:
    """The standard deviation of such noise in units of E|x|; x is a sum of `rank`
    products of Gaussians.
    """
    # the mean norm of a Gaussian vector
    length = math.sqrt(2) * math.gamma((rank + 1) / 2) / math.gamma(rank / 2)
    mean = math.sqrt(2 / math.pi) * length / math.sqrt(rank)  # E|x| where E x^2 = 1
    return 10 ** (-decibels / 20) / mean


def for_noise(decibels: float | None, p: float, ask: Asked) -> Schedule:
    """A schedule of the paper's form for noise of such a level, or for none. Only its layers: a
    tail would go on below the noise."""
    folder = ask.folder if ask.quick else FOLDER
    label = f"noise-{'none' if decibels is None else f'{decibels:g}dB'}-p{p:g}"
    file = folder / f"{label}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        problems = Problems(
            ask.n,
            ALPHA,
            p,
            noise=0.0 if decibels is None else noise_for(decibels, ask.rank),
        )
        layers, steps = (4, 5) if ask.quick else (LAYERS_FOR_NOISE[p], STEPS)
        schedule = lrmc.train(
            problems, ask.rank, layers=layers, model="fnn", steps=steps
        )
        schedule.save(file)
        print(f"trained {label}: {schedule.card['seconds']} s", flush=True)
    return replace(Schedule.load(file), tail=None)


def wanted() -> list[tuple[float, float, str]]:
    """Alpha, p and form of all that the experiments use."""
    table1 = [(ALPHA, p, form) for p in ALL_P for form in ("synthetic", "paper")]
    table2 = [(alpha, p, "synthetic") for alpha in MANY_OUTLIERS for p in (0.1, 1.0)]
    figures = [
        (alpha, p, "synthetic") for alpha in (*CONVERGENCE, 0.3) for p in (0.1, 1.0)
    ]
    return list(dict.fromkeys(table2 + figures + table1))


def main() -> None:
    """Train what is missing."""
    ask = asked(__doc__ or "")
    for alpha, p, form in ask.within_time(wanted()):
        schedule_for(alpha, p, form, ask)
    for decibels, p in ask.within_time(product((None, *NOISE_DB), LAYERS_FOR_NOISE)):
        for_noise(decibels, p, ask)


if __name__ == "__main__":
    main()

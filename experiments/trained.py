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

from common import REACHED, Asked, asked, drawn, race, with_schedule
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
# From so many outliers on, layers that were trained for the mean error fall too fast at their end for
# the rare rows that are slow: one in tens of thousands stays behind, and the problem is missed.
SLOW_FROM, FEW_OBSERVED = 0.55, 0.3
# of the trained layers; the tail takes the place of the others
KEPT_LAYERS = (0.5, 0.6, 0.7)
SLOW_DECAYS = (0.95, 0.945, 0.94, 0.93)
# A row that is behind moves the same way in every step, and gathers speed. Seen on some problems with
# alpha = 0.6: with 0.6 more of them are missed, and with 0.95 nothing settles in 200 iterations.
SLOW_MOMENTUM = 0.9
ARRIVED = 185  # iterations, of the 200 of Table II
JUDGES = range(5_000_000, 5_000_003)
OF_ALL_LAYERS = ("error", "checked_on")


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
        if alpha >= SLOW_FROM and p < FEW_OBSERVED:
            schedule = patient(schedule, alpha, p)
        schedule.save(file)
        print(
            f"trained {name}: {len(schedule)} layers, {schedule.card['seconds']} s",
            flush=True,
        )
    return Schedule.load(file)


def patient(schedule: Schedule, alpha: float, p: float) -> Schedule:
    """The beginning of a schedule, and then the slowest tail that still arrives in time.

    Judged at full size by problems of their own, all of which must arrive: problems that are smaller
    have too few rows for the rare slow ones. The steps are those that undo what outliers take away."""
    judges = [drawn(3000, RANK, alpha, p, seed) for seed in JUDGES]
    for phi, share in product(SLOW_DECAYS, KEPT_LAYERS):
        tried = with_tail(schedule, round(share * len(schedule)), phi, 1 / (1 - alpha))
        ends = [race(with_schedule(tried), judge, ARRIVED)[-1] for judge in judges]
        print(f"{len(tried)} layers, {phi}:", [(x.k, f"{x.error:.0e}") for x in ends])
        if all(end.error < REACHED for end in ends):
            chosen = {"layers": len(tried), "phi": phi, "judges": list(JUDGES)}
            # what was seen with all of the layers
            card = {k: x for k, x in schedule.card.items() if k not in OF_ALL_LAYERS}
            return replace(tried, card=card | {"slow_tail": chosen})
    return schedule


def with_tail(schedule: Schedule, layers: int, phi: float, eta: float) -> Schedule:
    """The first layers of a schedule, and then a tail with this decay and these steps."""
    return replace(
        schedule,
        zeta=schedule.zeta[: layers + 1],
        eta=(*schedule.eta[: layers - 1], eta),
        momentum=(*schedule.momentum[: layers - 1], SLOW_MOMENTUM),
        tail=(phi, 1.0),
    )


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

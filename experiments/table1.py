"""Table I of the paper: time and iterations to an error of 1e-6, by the observed fraction p.

    python experiments/table1.py [--quick] [--minutes 4]

n = 3000, rank 5, alpha = 0.1 (the paper does not state it), 20 instances. Every method is timed on the same instance
before the next one is drawn, with the same threads, from the array to the factors: its start is included.
"""

from __future__ import annotations

from typing import Any

from common import (
    Asked,
    Method,
    Sheet,
    asked,
    baseline,
    closed_loop,
    drawn,
    outcome,
    published,
    race,
    warm_up,
    with_schedule,
)
from trained import ALL_P, schedule_for
from tuned import tuned

from lrmc.schedule import Tuning

ALPHA, MOST = 0.1, 120
KEYS = ("p", "alpha", "method", "seed")


def methods_for(alpha: float, p: float, ask: Asked, *, with_paper_form: bool = True) -> list[Method]:
    """Everyone who takes part, in this order on every instance."""
    some = [closed_loop(), with_schedule(schedule_for(alpha, p, "synthetic", ask))]
    if with_paper_form:
        some.append(with_schedule(schedule_for(alpha, p, "paper", ask), ", paper's form"))
    known = None if ask.quick else published(alpha, p)
    some += [] if known is None else [known]
    for name in ("scaled_gd", "gd"):
        try:
            numbers = Tuning(alpha, 1.5, 0.7) if ask.quick else tuned(name, ask.n, ask.rank, alpha, p)
        except KeyError as error:
            print(f"{name} is left out: {error}", flush=True)
            continue
        some.append(baseline(name, numbers))
    return some


def rows(alpha: float, p: float, methods: list[Method], ask: Asked) -> list[dict[str, Any]]:
    """What is wanted for one p, instance after instance."""
    keys = [(seed, method.name) for seed in range(ask.instances) for method in methods]
    return [{"p": f"{p:g}", "alpha": f"{alpha:g}", "method": name, "seed": seed} for seed, name in keys]


def measure(sheet: Sheet, alpha: float, p: float, ask: Asked, *, with_paper_form: bool = True) -> None:
    """The rows of one setting that are missing."""
    methods = {method.name: method for method in methods_for(alpha, p, ask, with_paper_form=with_paper_form)}
    missing = sheet.missing(rows(alpha, p, list(methods.values()), ask))
    if missing:
        warm_up(methods.values(), ask.rank)
    for seed in ask.within_time(dict.fromkeys(row["seed"] for row in missing)):
        problem = drawn(ask.n, ask.rank, alpha, p, seed)
        for row in (row for row in missing if row["seed"] == seed):
            sheet.add(row | outcome(race(methods[row["method"]], problem, MOST)))


def main() -> None:
    """Measure what is missing."""
    ask = asked(__doc__ or "")
    sheet = Sheet(ask.folder / "table1.csv", KEYS)
    for p in ask.within_time((0.3, 1.0) if ask.quick else ALL_P):
        measure(sheet, ALPHA, p, ask)


if __name__ == "__main__":
    main()

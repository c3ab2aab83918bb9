"""The numbers that the baselines are run with: tuned for each setting, and kept in tuned.json
beside this file.

    python experiments/tuned.py [--method scaled_gd] [--p 0.1 0.3 1] [--alpha 0.1] [--instances 8]
    [--missing]

Each setting is tuned at its own size, in single precision, on instances of its own (seeds 1000,
1001, ...) that no experiment uses. Experiments ask for 1e-6. The tuning asks for more, because the
fastest numbers are at an edge: they would reach 1e-6 here and stall at 1.1e-6 on another instance.
`tuned(...)` gives the numbers to an experiment."""

from __future__ import annotations

import argparse
import json
import math
import time
from itertools import product
from pathlib import Path
from typing import Any

import common
import numpy as np
from common import Asked

import lrmc
from lrmc._files import write_whole
from lrmc._job import BASELINES
from lrmc.methods.tune import tune
from lrmc.schedule import Tuning

FILE = Path(__file__).with_name("tuned.json")
FIRST_SEED = 1000
TOL = 2e-7
KEYS = ("method", "n", "rank", "alpha", "p")
CARD = {
    "what": "gamma and eta of the baselines with the fewest iterations to a relative error of tol",
    "how": "lrmc.methods.tune: a grid of 0.2, refined to 0.05; the start keeps alpha, as published",
    "many outliers": "alpha of 0.35 and more: experiments/table2.py, gamma at the cliff and the best of some steps",
    "data": f"lrmc.synthetic.problem, float32, seeds from {FIRST_SEED}",
}


def tuned(
    name: str, alpha: float, p: float, ask: Asked, *, or_missed: bool = False
) -> Tuning:
    """The best numbers of a baseline for a setting; with `or_missed` also where none
    reached the answer.
    """
    if ask.quick:  # any will do
        return Tuning(alpha, 1.5, 0.7)
    wanted = dict(zip(KEYS, (common.BASELINES[name], ask.n, ask.rank, alpha, p)))
    for entry in _entries():
        if all(entry[key] == value for key, value in wanted.items()) and (
            entry["iterations"] or or_missed
        ):
            return Tuning(alpha, entry["gamma"], entry["eta"])
    raise KeyError(f"{wanted} is not in {FILE.name}; run experiments/tuned.py for it")


def _entries() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text())["tuned"] if FILE.exists() else []


def add(
    method: str, n: int, rank: int, alpha: float, p: float, instances: int, most: int
) -> dict[str, Any]:
    """Tune for one setting and keep the answer."""
    began = time.perf_counter()
    problems = [
        lrmc.synthetic.problem(n, rank, alpha, p, FIRST_SEED + k, dtype=np.float32)
        for k in range(instances)
    ]
    best, iterations = tune(BASELINES[method], problems, tol=TOL, most=most)
    entry = dict(zip(KEYS, (method, n, rank, alpha, p)))
    entry |= {"gamma": best.gamma, "eta": best.eta, "instances": instances, "tol": TOL}
    # None: not reached
    entry["iterations"] = round(iterations, 2) if math.isfinite(iterations) else None
    keep(entry)
    return entry | {"seconds": round(time.perf_counter() - began)}


def keep(entry: dict[str, Any]) -> None:
    """Write an answer to the file, in place of one for the same setting."""
    kept = [old for old in _entries() if any(old[key] != entry[key] for key in KEYS)]
    lines = ",\n".join(
        "  " + json.dumps(e)
        for e in sorted([*kept, entry], key=lambda e: [e[k] for k in KEYS])
    )
    text = (
        json.dumps({"card": CARD}, indent=1)[:-2] + f',\n "tuned": [\n{lines}\n ]\n}}\n'
    )
    write_whole(FILE, text.encode())


def main() -> None:
    """Tune for all combinations that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", nargs="+", default=["scaled_gd"], choices=BASELINES)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.1])
    parser.add_argument("--p", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument(
        "--most", type=int, default=150, help="iterations that a run may take"
    )
    parser.add_argument(
        "--missing", action="store_true", help="only settings that are not there yet"
    )
    args = parser.parse_args()
    there = [
        tuple(entry[key] for key in KEYS)
        for entry in _entries()
        if entry["iterations"] is not None
    ]
    for method, alpha, p in product(args.method, args.alpha, args.p):
        if args.missing and (method, args.n, args.rank, alpha, p) in there:
            continue
        print(
            add(method, args.n, args.rank, alpha, p, args.instances, args.most),
            flush=True,
        )


if __name__ == "__main__":
    main()

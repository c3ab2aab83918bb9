"""What does a whole solve cost beyond its passes? Ratios measured in one run.

    python benchmarks/solve.py [--n 3000] [--threads 2] [--repeats 5] [--quick]

A plain pass is `pull` at the rank of the problem: the limit of a solve in k iterations is about
k + 4 of these, 4 for the start. "kernels" is the part of the solve that compiled passes take.
So many passes in a row and the solves take turns, and ratios are the medians over the turns of
processor time, which other jobs on the machine disturb least. Then small matrices, many of them,
sampled stacks and threads (`stacks.py`). Against ScaledGD: `experiments/table1.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from stacks import measure_stacks, measure_threads
from timing import fastest

import lrmc
from lrmc import _kernels

RANK, ALPHA, FRACTIONS = 5, 0.1, (0.1, 0.3, 1.0)
START = 4  # passes
SMALL = ((100, 100, 2), (300, 300, 3), (1024, 40, 1))  # rows, columns, rank
# every call that reads the data
PASSES = ("products", "survey", "residual", "consensus", "newton", "small")
HEADER = "n1     n2    p     rank     iterations   ms        plain   over(k+4)  passes  kernels"


class Timed(NamedTuple):
    """A solve: how long, and in what."""

    seconds: float
    passes: int
    kernels: float  # seconds
    iterations: int


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Count passes, and the seconds in kernels, while this lasts."""
    seen = {"passes": 0.0, "seconds": 0.0}

    def timed(call: Callable[..., Any], is_pass: bool, *args: Any, **named: Any) -> Any:
        began = process_time()
        try:
            return call(*args, **named)
        finally:
            seen["seconds"] += process_time() - began
            seen["passes"] += is_pass

    calls = {
        name: partial(timed, getattr(_kernels, name), name == "products")
        for name in (*PASSES, "solve_rows")
    }
    with patch.multiple(_kernels, **calls):
        yield seen


def solved(Y: np.ndarray, rank: int | None, threads: int) -> Timed:
    """One solve on the clock."""
    with watched() as seen:
        began = process_time()
        result = lrmc.solve(Y, rank, threads=threads)
        seconds = process_time() - began
    return Timed(seconds, int(seen["passes"]), seen["seconds"], result.n_iter)


def passed(obs: Any, rank: int, count: int) -> float:
    """The seconds of so many plain passes."""
    L, R = (np.ones((n, rank), obs.dtype) for n in obs.shape)
    began = process_time()
    for _ in range(count):
        obs.pull(L, R, 1.0)
    return process_time() - began


def measure(Y: np.ndarray, rank: int, threads: int, repeats: int) -> None:
    """A line with the rank given, and one with it unknown."""
    obs = lrmc.as_observations(Y, threads=threads)
    for name, wanted in (("given", rank), ("unknown", None)):
        first = solved(Y, wanted, threads)
        count = first.iterations + START
        turns = [
            (passed(obs, rank, count), solved(Y, wanted, threads))
            for _ in range(repeats)
        ]
        limit = median(limit for limit, _ in turns)
        over = median(run.seconds / limit for limit, run in turns)
        kernels = median(run.kernels / run.seconds for _, run in turns)
        print(
            f"{Y.shape[0]:<6d} {Y.shape[1]:<5d} {obs.fraction:<5.2f} {name:<8s} {first.iterations:<12d}"
            f" {1e3 * over * limit:<9.2f} {1e3 * limit / count:<7.2f} {over:<10.2f}"
            f" {first.passes:<7d} {kernels:.0%}",
            flush=True,
        )


def measure_many(count: int, threads: int, repeats: int) -> None:
    """A stack of small matrices against a loop over it."""
    rows, cols, rank = SMALL[-1]
    problems = (
        lrmc.synthetic.problem(rows, n2=cols, rank=rank, alpha=ALPHA, p=1, seed=k)
        for k in range(count)
    )
    stack = np.stack([problem.Y for problem in problems])
    obs = lrmc.as_observations(stack[0], threads=1)
    calls = {
        "solve, in a loop": lambda: [lrmc.solve(Y, rank) for Y in stack],
        "the same, seen": lambda: [lrmc.solve(Y, rank, progress=unseen) for Y in stack],
        "solve_many": lambda: lrmc.solve_many(stack, rank, threads=threads),
    }
    plain = min(passed(obs, rank, 5) for _ in range(repeats)) / 5
    print(f"\n{count} matrices of {rows} x {cols}, rank {rank}, {threads} thread(s)")
    for name, call in calls.items():
        each = fastest(call, repeats) / count
        print(f"{name:<18s} {1e3 * each:8.3f} ms each {each / plain:8.1f} plain passes")


def unseen(_: lrmc.Iterate) -> None:
    """A look at iterates: then they are made one by one, in Python."""


def main() -> None:
    """Large matrices by observed fraction, small ones, and many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=_kernels.max_threads())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    n, repeats = (200, 1) if asked.quick else (asked.n, asked.repeats)
    print(HEADER)
    for p in FRACTIONS:
        Y = lrmc.synthetic.problem(n=n, rank=RANK, alpha=ALPHA, p=max(p, 60 / n)).Y
        measure(Y, RANK, asked.threads, repeats)
    for rows, cols, rank in SMALL:
        problem = lrmc.synthetic.problem(n=max(rows, cols), rank=rank, alpha=ALPHA, p=1)
        Y = np.ascontiguousarray(problem.Y[:rows, :cols])
        measure(Y, rank, asked.threads, 4 * repeats)
    measure_many(3 if asked.quick else 100, asked.threads, repeats)
    measure_stacks(min(repeats, 3), asked.quick)
    measure_threads(repeats, asked.quick)


if __name__ == "__main__":
    main()

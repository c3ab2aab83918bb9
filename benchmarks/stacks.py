"""Sampled stacks and threads, as `benchmarks/solve.py` prints them.

LRMC with 32 iterations from the array to the factors, bytes, rank 2, processor time of one thread;
the paper's seconds stand beside, from other hardware. Threads by the clock, while another process
keeps a core busy."""

from __future__ import annotations

import subprocess
import sys
import warnings
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

import lrmc

RANK, LAYERS = 2, 32


class Stack(NamedTuple):
    """Pixels x dates, and what the paper says of it."""

    rows: int
    cols: int
    fractions: tuple[float, ...]
    paper: dict[float, float]  # seconds


STACKS = (
    Stack(480_000, 60, (1.0, 0.3, 0.1), {1.0: 3.27, 0.3: 1.65}),
    Stack(57_600, 5_482, (1.0, 0.1), {0.1: 10.4}),
)


def measure_stacks(repeats: int, quick: bool) -> None:
    """A line for each stack and fraction."""
    print(f"\nLRMC, {LAYERS} iterations, bytes, rank {RANK}, one thread")
    for stack in STACKS:
        small = Stack(stack.rows // 200, 60, stack.fractions, {})
        measure_stack(small if quick else stack, repeats)


def measure_stack(stack: Stack, repeats: int) -> None:
    """The fractions of one stack in turn, the least of each."""
    rng = np.random.default_rng(0)
    Y = _bytes(stack, rng)
    masks = {
        p: None if p == 1 else rng.random(Y.shape, dtype=np.float32) < p
        for p in stack.fractions
    }
    least = dict.fromkeys(masks, np.inf)
    for _ in range(repeats):
        for p, mask in masks.items():
            least[p] = min(least[p], _spent(Y, mask))
    for p, seconds in least.items():
        paper = f"paper {stack.paper[p]:5.2f} s" if p in stack.paper else ""
        print(
            f"{stack.rows:<7d} {stack.cols:<5d} p = {p:<4.2f} {seconds:7.2f} s"
            f" {seconds / least[1.0]:5.2f} x p = 1  {paper}",
            flush=True,
        )


def _bytes(stack: Stack, rng: np.random.Generator) -> Any:
    """A stack with 10 % of its bytes replaced, some rows at a time."""
    R = rng.standard_normal((stack.cols, RANK), dtype=np.float32)
    Y = np.empty((stack.rows, stack.cols), np.uint8)
    for part in np.array_split(Y, max(1, Y.size // 2**24)):
        L = rng.standard_normal((len(part), RANK), dtype=np.float32)
        part[:] = np.clip(20 * (L @ R.T) + 100, 0, 255)
        wrong = rng.random(part.shape, dtype=np.float32) < 0.1
        part[wrong] = rng.integers(0, 256, int(wrong.sum()), np.uint8)
    return Y


def _spent(Y: Any, mask: Any) -> float:
    """The processor seconds of a run that ends with its last layer."""
    asked = {
        "method": "lrmc",
        "schedule": "geometric",
        "max_iter": LAYERS,
        "tol": 1e-30,
    }
    began = process_time()
    with warnings.catch_warnings():  # it has not converged; some rows have no entry
        warnings.simplefilter("ignore")
        lrmc.solve(Y, RANK, mask=mask, threads=1, **asked)
    return process_time() - began


def measure_threads(repeats: int, quick: bool) -> None:
    """Two threads against one on a table like METR-LA (207 sensors, a week), beside a busy loop."""
    shape = (207, 60) if quick else (207, 2016)
    problem = lrmc.synthetic.problem(shape[0], n2=shape[1], rank=8, alpha=0.1, p=0.7)

    def seconds(threads: int) -> float:
        began = perf_counter()
        lrmc.solve(problem.Y, 8, threads=threads)
        return perf_counter() - began

    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        seconds(2)
        turns = [(seconds(1), seconds(2)) for _ in range(max(repeats, 3))]
    finally:
        busy.kill()
        busy.wait()
    ratio = median(two / one for one, two in turns)
    print(f"\n{shape[0]} x {shape[1]}, rank 8, beside a busy loop, by the clock:")
    print(f"2 threads take {ratio:.2f} times as long as 1")

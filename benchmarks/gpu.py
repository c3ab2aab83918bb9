"""How fast is one pass on a GPU? Against the limit of its memory, and against eager torch.

    python benchmarks/gpu.py [--n 8192] [--ranks 1 5 10]

Needs a GPU, torch for it and Triton. "limit" is the time in which this GPU copies as many bytes as the
data have, halved: what no pass that reads the data once can beat. Not run by those who wrote it: they
had no GPU. Times are medians of many passes, with what goes to and from the GPU in them."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from unittest import mock

import numpy as np

import lrmc
from lrmc.observations import tensor
from lrmc.row_systems import pairs
from lrmc.weights import Cauchy, Clip, Threshold, Weight

try:
    import torch
except ImportError:
    sys.exit("this needs torch for a GPU")

REPEATS = 20


def seconds(work: Callable[[], object]) -> float:
    """The median of some runs, after one that compiles."""
    work()
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def reading(Y: torch.Tensor) -> float:
    """Seconds to read so many bytes: half of a copy, which writes as many."""
    room = torch.empty_like(Y)
    return seconds(lambda: room.copy_(Y)) / 2


def rules(n: int) -> dict[str, Weight]:
    """One of each kind, with thresholds near the residuals."""
    line, none = np.full(n, 0.7), np.zeros(n)
    return {
        "clip": Clip(0.7),
        "threshold": Threshold(line, line, none, none),
        "cauchy": Cauchy(line, line),
    }


def lines(n: int, rank: int, dtype: torch.dtype) -> None:
    """All rules, with and without Gram matrices, fused and eager."""
    rng = np.random.default_rng(0)
    L, R = (rng.standard_normal((n, rank)).astype(np.float32) for _ in range(2))
    Y = torch.as_tensor(L @ R.T + rng.standard_normal((n, n), dtype=np.float32))
    Y[torch.rand(n, n) < 0.3] = torch.nan
    data = Y.to("cuda", dtype)
    obs = lrmc.as_observations(data)
    limit = reading(data)
    for name, rule in rules(n).items():
        for grams in (False, True)[: 1 if name == "clip" else 2]:
            more = {"Pw": pairs(L), "Qw": pairs(R)} if grams else {}

            def work(rule: Weight = rule, more: dict = more) -> object:
                return obs.products(L, R, rule, P=L, Q=R, **more)

            fused = seconds(work)
            with mock.patch.object(tensor, "_fused", return_value=None):
                eager = seconds(work)
            print(
                f"{dtype!s:15s} rank {rank:2d} {name:10s} {'Grams' if grams else '':6s}"
                f" {1e3 * fused:8.2f} ms = {fused / limit:6.1f} x limit; eager {eager / fused:5.1f} x as long",
                flush=True,
            )


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--n", type=int, default=8192, help="rows and columns")
    ask.add_argument("--ranks", type=int, nargs="+", default=[1, 5, 10])
    asked = ask.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU here: nothing was measured")
    print(torch.cuda.get_device_name(), f"{asked.n} x {asked.n}, 30 % missing")
    for dtype in (torch.float32, torch.bfloat16):
        for rank in asked.ranks:
            lines(asked.n, rank, dtype)


if __name__ == "__main__":
    main()

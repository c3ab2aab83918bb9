"""How fast are new rows read? `RobustPCA.transform` against one dense pass over the same data, in
one run.

    python benchmarks/transform.py [--rows 100000] [--columns 200] [--rank 5]

Asked: at most 15 times `as_observations(Y).pull(L, R, zeta)`. The first ratio is to the pull alone,
the second to the whole expression. Best of several, in turn. On all cores by the clock on the wall;
then one thread by its processor time, which is what counts where the machine is shared: a long call
is interrupted more often than a short one."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import lrmc


def turns(
    calls: list[Callable[[], object]], clock: Callable[[], float], repeats: int = 7
) -> list[float]:
    """Milliseconds of the fastest of each, measured in turn so that all see the same machine."""
    times = [[] for _ in calls]
    for _ in range(repeats):
        for call, own in zip(calls, times, strict=True):
            began = clock()
            call()
            own.append(1e3 * (clock() - began))
    return [min(own) for own in times]


def rows(
    rng: np.random.Generator,
    n: int,
    V: np.ndarray,
    noise: float,
    wrong: float,
    seen: float,
) -> np.ndarray:
    X = rng.standard_normal((n, len(V))) @ V
    unit = np.abs(X).mean()
    Y = X + noise * unit * rng.standard_normal(X.shape)
    Y += (rng.random(X.shape) < wrong) * rng.uniform(-10, 10, X.shape) * unit
    Y[rng.random(X.shape) >= seen] = np.nan
    return Y


def times(
    model: lrmc.estimator.RobustPCA, Y: np.ndarray, threads: int | None
) -> list[float]:
    """Of a pass, of `transform` and of `as_observations`."""
    model.set_params(threads=threads)
    obs, T, R = (
        lrmc.as_observations(Y, threads=threads),
        model.transform(Y),
        model.components_.T.astype(Y.dtype),
    )
    calls = [
        lambda: obs.pull(T, R, 0.7),
        lambda: model.transform(Y),
        lambda: lrmc.as_observations(Y, threads=threads),
    ]
    return turns(calls, time.thread_time if threads == 1 else time.perf_counter)


def main() -> None:
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--rows", type=int, default=100_000)
    ask.add_argument("--columns", type=int, default=200)
    ask.add_argument("--rank", type=int, default=5)
    asked = ask.parse_args()
    rng = np.random.default_rng(0)
    V = rng.standard_normal((asked.rank, asked.columns))
    print(f"{asked.rows} x {asked.columns}, rank {asked.rank}")
    for noise in (0.05, 0.0):
        model = lrmc.RobustPCA(asked.rank).fit(rows(rng, 2000, V, noise, 0.2, 0.5))
        for wrong, seen in ((0.0, 1.0), (0.2, 0.5)):
            whole = rows(rng, asked.rows, V, noise, wrong, seen)
            for dtype in (np.float64, np.float32):
                print(
                    f"noise {noise:.0%}, {wrong:.0%} outliers, {1 - seen:.0%} gaps, {np.dtype(dtype).name}:"
                )
                for threads in (None, 1):
                    one, all_, look = times(model, whole.astype(dtype), threads)
                    print(
                        f"  {threads or 'all'} thread(s): pull {one:6.1f} ms, transform {all_:7.1f} ms",
                        end="",
                    )
                    print(
                        f" = {all_ / one:4.1f} pulls = {all_ / (one + look):4.1f} with as_observations",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

"""A long table with time: what a solve costs, in processor time and memory, and how good it is.

    python benchmarks/in_time.py                    500 sensors x 100,000 times
    python benchmarks/in_time.py --times 10000      the same, shorter

The table is made: daily shapes that sensors share, each day with its own strength, weekends that
are weaker, each sensor's own process, noise; single entries and whole days are hidden, and some
entries are 0. It is float32, as is all that is made of it.
"""

import argparse
import resource
import time

import numpy as np
from scipy.signal import lfilter

import lrmc
from lrmc.methods.in_time.simple import linear, slot_mean

P = 288  # slots of a day
SHAPES = 6
SINGLE, DAYS, GROSS = 0.2, 0.05, 0.01  # shares of what is hidden and wrong


def made(S, T, rng):
    """Sensors x times."""
    t = np.arange(T)
    day, slot = t // P, t % P
    walks = np.cumsum(rng.standard_normal((SHAPES, P + 1)), axis=1)
    bridges = (walks - np.linspace(0, 1, P + 1) * walks[:, -1:])[:, :P]
    strength = 1 + 0.3 * rng.standard_normal((SHAPES, day[-1] + 1))
    weekend = 1 - 0.4 * (day % 7 >= 5)
    R = (bridges / bridges.std())[:, slot] * strength[:, day] * weekend
    X = np.empty((S, T), np.float32)
    for x, a in zip(X, rng.standard_normal((S, SHAPES)), strict=True):
        own = lfilter([np.sqrt(1 - 0.95**2)], [1, -0.95], rng.standard_normal(T))
        x[:] = 50 + 5 * (a @ R) + 4 * own
    return X


def spoiled(X, rng):
    """The table as it is measured, and which entries are hidden."""
    S, T = X.shape
    Y = X + rng.standard_normal(X.shape, np.float32)
    hidden = rng.random(X.shape, np.float32) < SINGLE
    whole = np.repeat(rng.random((S, -(-T // P))) < DAYS, P, axis=1)[:, :T]
    hidden |= whole
    Y[rng.random(X.shape, np.float32) < GROSS] = 0
    Y[hidden] = np.nan
    return Y, hidden, whole


def gigabytes():
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def missed(Z, X, at):
    return float(np.sqrt(np.mean((Z[at] - X[at]) ** 2, dtype=float)))


def main():
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--sensors", type=int, default=500)
    asked.add_argument("--times", type=int, default=100_000)
    asked.add_argument("--seed", type=int, default=0)
    args = asked.parse_args()
    rng = np.random.default_rng(args.seed)
    X = made(args.sensors, args.times, rng)
    Y, hidden, whole = spoiled(X, rng)
    print(f"{args.sensors} x {args.times}; before: {gigabytes():.2f} GB", flush=True)
    began, clock = time.process_time(), time.perf_counter()
    result = lrmc.solve(Y, time="columns")
    seconds, wall = time.process_time() - began, time.perf_counter() - clock
    print(
        f"solve: {seconds:.0f} s of processor time, {wall:.0f} s, {gigabytes():.2f} GB"
    )
    print(f"{result.status}, period {result.evidence['time']['period']}")
    some = np.linspace(0, args.sensors - 1, min(args.sensors, 50)).astype(int)
    X, Y, hidden, whole = (x[some] for x in (X, Y, hidden, whole))
    Z = {
        "lrmc": result.completed(rows=some),
        "linear": linear(Y),
        "slot mean": slot_mean(Y, P),
    }
    for name, z in Z.items():
        single = missed(z, X, hidden & ~whole)
        print(
            f"{name}: single entries {single:.3f}, whole days {missed(z, X, whole):.3f}"
        )


if __name__ == "__main__":
    main()

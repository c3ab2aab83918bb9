"""Sensors that fail for a while: made faults in runs, lrmc beside simple ways, and its list of outliers.

    python experiments/time_faults.py --tables birmingham made --seeds 1 2 --gaps random days

A twenty-fifth of the entries is in runs of 6 to 48 steps that are 0, stuck at the first value of the
run, off by 2 to 4 deviations of the sensor, or drift as far. RMSE of hidden entries: all, outside of
faults, within them (against what would have been measured); which part of each kind is listed, and
how many good entries are."""

import argparse
import importlib.util
import itertools
import warnings
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

import lrmc
from lrmc.complete.in_memory import outlying
from lrmc.methods.in_time.simple import filtered, linear, slot_mean

# `time` is a module of Python, too
_spec = importlib.util.spec_from_file_location(
    "tables_with_time", Path(__file__).with_name("time.py")
)
tables_with_time = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tables_with_time)

KINDS = ("zero", "stuck", "shift", "drift")
SHARE = 0.04
SHORTEST, LONGEST = 6, 48
SENSORS = 60  # of METR-LA, other ones for each seed


def made(seed, S=40, D=20, P=48):
    """Shapes of a day that sensors share, each day with its own strength, and a process of each."""
    rng = np.random.default_rng(900 + seed)
    day, slot = np.divmod(np.arange(D * P), P)
    walks = np.cumsum(rng.standard_normal((3, P + 1)), axis=1)
    bridges = (walks - np.linspace(0, 1, P + 1) * walks[:, -1:])[:, :P]
    strength = 1 + 0.3 * rng.standard_normal((3, D))
    R = (bridges / bridges.std())[:, slot] * strength[:, day]
    steps = rng.standard_normal((S, D * P))
    own = lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], steps, axis=1)
    X = 50 + 5 * rng.standard_normal((S, 3)) @ R + 3 * own
    return (X + rng.standard_normal(X.shape)).reshape(S, D, P)


def table(name, seed):
    """Sensors x days x slots."""
    if name == "made":
        return made(seed)
    Y = tables_with_time.table(name)
    some = np.random.default_rng(50 + seed).permutation(len(Y))[:SENSORS]
    return Y[some] if name == "metr-la" else Y


def spoiled(Y, kinds, seed):
    """The table with faults, and the kind of each entry (-1: none)."""
    rng = np.random.default_rng(2000 + seed)
    Z = Y.reshape(len(Y), -1).copy()
    S, T = Z.shape
    deviations = np.nanstd(Z, axis=1)
    kind = np.full(Z.shape, -1)
    turn = itertools.cycle(kinds)
    while kinds and (kind >= 0).sum() < SHARE * Z.size:
        n, s = int(rng.integers(SHORTEST, LONGEST + 1)), int(rng.integers(S))
        begin = int(rng.integers(0, T - n))
        off = rng.uniform(2, 4) * rng.choice([-1, 1]) * deviations[s]
        here = slice(begin, begin + n)
        beside = kind[s, max(begin - 3, 0) : begin + n + 3]
        if (beside >= 0).any() or np.isnan(Z[s, here]).mean() > 0.5:
            continue
        what = next(turn)
        Z[s, here] = failed(Z[s, here], what, off)
        kind[s, here] = KINDS.index(what)
    whole = np.nanmax(np.abs(Y - np.round(Y))) == 0
    return (np.round(Z) if whole else Z).reshape(Y.shape), kind.reshape(Y.shape)


def failed(y, what, off):
    """What a sensor shows instead."""
    wrong = {
        "zero": np.zeros_like(y),
        "stuck": np.full_like(y, y[~np.isnan(y)][0]),
        "shift": y + off,
        "drift": y + off * np.linspace(0, 1, len(y)),
    }[what]
    return np.where(np.isnan(y), np.nan, wrong)


def rmse(e):
    """Root mean square."""
    return float(np.sqrt(np.mean(e**2))) if e.size else np.nan


def line_of(name, gaps, hidden, kinds, seed):
    """One case, in words."""
    truth = table(name, seed)
    shown, kind = spoiled(truth, kinds, seed)
    keep = tables_with_time.kept("", truth.shape, gaps, hidden, seed)
    Y = np.where(keep, shown, np.nan)
    judged = ~keep & ~np.isnan(truth)
    flat = Y.reshape(len(Y), -1)
    result = lrmc.solve(flat, time="columns", period=truth.shape[2])
    found = {
        "lrmc": result.completed(),
        "median filter, linear": linear(filtered(flat)),
        "slot mean": slot_mean(flat, truth.shape[2]),
    }
    words = []
    for way, Z in found.items():
        e = Z.reshape(truth.shape) - truth
        parts = (judged, judged & (kind < 0), judged & (kind >= 0))
        words.append(f"{way} " + " ".join(f"{rmse(e[at]):.4g}" for at in parts))
    some = outlying(result)
    listed = np.zeros(flat.shape, bool)
    listed[some.rows, some.cols] = True
    listed = listed.reshape(Y.shape)
    wrong = keep & (shown != truth) & ~np.isnan(truth)
    for k, what in enumerate(KINDS):
        if what in kinds:
            words.append(f"{what} {listed[wrong & (kind == k)].mean():.2f}")
    words.append(f"good listed {int((listed & (kind < 0)).sum())}")
    case = f"{name}, {gaps} {hidden:.0%}, {'+'.join(kinds) or 'clean'}, {seed}"
    return f"{case}: {'; '.join(words)}"


def main():
    """Run them all."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    every = ["birmingham", "guangzhou", "metr-la", "made"]
    asked.add_argument("--tables", nargs="*", default=every)
    asked.add_argument("--gaps", nargs="*", default=["random", "days"])
    asked.add_argument("--hidden", type=float, default=0.25)
    asked.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    asked.add_argument("--kinds", nargs="*", default=list(KINDS))
    args = asked.parse_args()
    warnings.simplefilter("ignore")
    for name, gaps, seed in itertools.product(args.tables, args.gaps, args.seeds):
        for kinds in ((), tuple(args.kinds)):
            print(line_of(name, gaps, args.hidden, kinds, seed), flush=True)


if __name__ == "__main__":
    main()

"""Tables whose columns have different units: what scaling each by its spread gains, and what it
costs.

    python experiments/units.py

A table of rank 3 with noise (0.2 spreads), medians away from zero, 20 % of its entries hidden and 3
% wrong by 5 to 15 spreads; columns in units that differ up to so many times. Mean over four tables:
the error on hidden entries in spreads of their column (RMSE), and the share of listed outliers that
are outliers. Then the same for real tables."""

from __future__ import annotations

import warnings

import numpy as np

import lrmc
from lrmc.complete import in_memory as completion
from lrmc.units import chosen_units, column_units

TRAFFIC = "../shared/data/traffic/metr_la_week_speed.npz"


def spoiled(full, rng):
    """The table with gaps and errors: what is seen, where it is hidden, where it is wrong."""
    Y, spread = full.copy(), full.std(0)
    hidden, wrong = rng.random(Y.shape) < 0.2, rng.random(Y.shape) < 0.03
    Y[wrong] += (rng.choice([-1, 1], Y.shape) * rng.uniform(5, 15, Y.shape) * spread)[
        wrong
    ]
    Y[hidden] = np.nan
    return Y, hidden, wrong & ~hidden


def scores(full, rng, scaled):
    """Error on hidden entries in spreads, in the unit of the data, and the share of what
    is listed that is wrong.
    """
    Y, hidden, wrong = spoiled(full, rng)
    units = column_units(Y) if scaled else None
    result = lrmc.solve(Y if units is None else units.removed(Y))
    found = completion.outlying(result, units, Y)
    off = completion.filled(result, Y, "missing", found, units) - full
    listed = wrong[found.rows, found.cols]
    by_spread, plain = (
        float(np.sqrt(np.mean(x[hidden] ** 2))) for x in (off / full.std(0), off)
    )
    return (
        by_spread,
        plain,
        float(listed.mean()) if len(listed) else 1.0,
        float(listed.sum() / wrong.sum()),
    )


def generated(ratio, seed):
    """Rank 3, noise, and medians away from zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 15))
    X = X / X.std(0) + 0.2 * rng.standard_normal(X.shape) + 2 * rng.standard_normal(15)
    return X * ratio ** rng.uniform(0, 1, 15)


def show(name, tables):
    """Print both ways; `*` is what --scale auto takes."""
    for scaled in (False, True):
        rows = [
            scores(full, np.random.default_rng(seed), scaled)
            for seed, full in enumerate(tables)
        ]
        error, plain, precise, recalled = np.mean(rows, axis=0)
        auto = (
            "*"
            if scaled == (chosen_units(tables[0], "auto", table=True) is not None)
            else " "
        )
        listed = (
            f"{precise:.0%} of the list is wrong, {recalled:.0%} of the wrong is listed"
        )
        way = "scaled" if scaled else "as it is"
        print(
            f"{name:26} {way:8} {auto} error {error:.3f} spreads ({plain:.3g}), {listed}",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for ratio in (1, 2, 4, 8, 16, 64):
        show(
            f"units differ {ratio} times", [generated(ratio, seed) for seed in range(4)]
        )
    try:
        from sklearn import datasets

        show("wine", [datasets.load_wine().data])
        show("diabetes", [datasets.load_diabetes(scaled=False).data])
        show("cells", [datasets.load_breast_cancer().data])
    except ImportError:
        print("scikit-learn is not installed: its tables are left out")
    try:
        show(
            "traffic, every third slot",
            [np.load(TRAFFIC)["speed"].T[::3].astype(float)],
        )
    except FileNotFoundError:
        print(f"{TRAFFIC} is not there: traffic is left out")

"""Tables of the kinds that people have: many equal values, stuck and saturated readings,
columns in their own units.
"""

from importlib.util import find_spec

import numpy as np


def middle_and_spread(table):
    """Of each column, robustly; a column without spread is left as large as it is."""
    middle = np.nanmedian(table, axis=0)
    spread = 1.4826 * np.nanmedian(np.abs(table - middle), axis=0)
    return middle, np.where(spread > 0, spread, 1.0)


def scaled(table):
    """In spreads from the middle, as a careful person would before asking for a low rank."""
    middle, spread = middle_and_spread(table)
    return (table - middle) / spread


def _sklearn(name):
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")().data.astype(np.float64)


def digits(rng):
    """Pictures of 8 x 8 with 17 grey levels; nearly half of the entries are zero."""
    return _sklearn("digits")[:600]


def wine(rng):
    return scaled(_sklearn("wine"))


def breast_cancer(rng):
    return scaled(_sklearn("breast_cancer"))


def parquet(path):
    """A table of floats from a file."""
    import pandas

    return pandas.read_parquet(path).to_numpy()


def _scores(rng, shape, rank):
    """A low-rank table of unit size."""
    L, R = (rng.standard_normal((n, rank)) for n in shape)
    return L @ R.T / np.sqrt(rank)


def binary(rng):
    """Yes or no, seldom yes: a threshold on a few traits and much chance."""
    return 1.0 * (_scores(rng, (200, 30), 2) + rng.standard_normal((200, 30)) > 0.8)


def binary_even(rng):
    return 1.0 * (_scores(rng, (300, 20), 3) + 0.5 * rng.standard_normal((300, 20)) > 0)


def groups(rng):
    """0 or 1 by the group of the row and that of the column: of rank 3 and nothing else."""
    members = np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1]])
    return members[rng.integers(4, size=150)][:, rng.integers(3, size=40)]


def saturated(rng):
    """Readings that end at the limits of the instrument."""
    return np.clip(
        5 + 4 * _scores(rng, (300, 20), 2) + 0.3 * rng.standard_normal((300, 20)), 2, 8
    )


def stuck_sensors(rng):
    """A quarter of the columns stays at one value for most of the time."""
    values = 20 + 3 * _scores(rng, (400, 24), 3) + 0.2 * rng.standard_normal((400, 24))
    values[80:, ::4] = values[80, ::4]
    return values


def mostly_zero(rng):
    """Counts of rare events."""
    rates = np.exp(_scores(rng, (250, 40), 2) - 2)
    return rng.poisson(rates).astype(np.float64)


def ratings(rng):
    """One to five stars, most of them four."""
    return np.clip(
        np.round(
            3.8 + _scores(rng, (300, 40), 2) + 0.5 * rng.standard_normal((300, 40))
        ),
        1,
        5,
    )


def few_columns(rng):
    """Four measurements of each person, two of them alike, with noise."""
    return _scores(rng, (300, 4), 1) + 0.3 * rng.standard_normal((300, 4))


def unrelated(rng):
    """Columns that have nothing to do with each other."""
    return 3 + rng.standard_normal((200, 15))


def constant_columns(rng):
    """Half of the columns never change; all of rank 3."""
    values = 5 + _scores(rng, (200, 20), 2)
    values[:, ::2] = np.arange(10)
    return values


def rounded(rng):
    """A thermometer that shows whole degrees."""
    return np.round(15 + 4 * _scores(rng, (365, 20), 2))


def speeds(rng):
    """Like traffic: 40 sensors around 60, jams twice a day that some sensors feel more
    than others; 2 to 70.
    """
    hours = np.arange(600) / 12 % 24
    jams = [np.exp(-(((hours - at) / wide) ** 2)) for at, wide in ((8, 1.5), (17.5, 2))]
    feel = rng.gamma(1.2, 14, (40, 2))
    free = rng.uniform(58, 68, 40)
    sudden = np.where(rng.random((600, 40)) < 0.05, rng.uniform(0, 30, (600, 40)), 0)
    values = (
        free - np.stack(jams, 1) @ feel.T - sudden + 2 * rng.standard_normal((600, 40))
    )
    return np.clip(values, 2, 70)


def installed(*packages):
    """What needs others is left out without them."""
    return all(find_spec(package) for package in packages)


REAL = (
    {"digits": digits, "wine": wine, "breast-cancer": breast_cancer}
    if installed("sklearn")
    else {}
)
EXACT = {"groups": groups, "constant-columns": constant_columns}
SYNTHETIC = {
    f.__name__.replace("_", "-"): f
    for f in (
        binary,
        binary_even,
        saturated,
        stuck_sensors,
        mostly_zero,
        ratings,
        few_columns,
        unrelated,
        rounded,
    )
}

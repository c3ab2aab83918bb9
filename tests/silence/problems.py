"""A few hundred problems at the edges of what is possible. Each makes its data when
asked, always the same.
"""

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from real_data import DATA

import lrmc

from . import tables
from .cases import (
    ENTRYWISE,
    Case,
    best_of_rank,
    conditioned,
    exact,
    flipped,
    gaussian,
    hidden,
    rectangles,
    some,
    spoilt,
    told_by_medians,
    uniform_large,
)

EVERY = 7  # problems of the quick subset, and all named bugs


@dataclass(frozen=True)
class Problem:
    """A name, its family, how the case is made from a generator, and the rank that the
    solver is told.
    """

    name: str
    family: str
    make: Callable[[np.random.Generator], Case]
    rank: int | None = None
    bug: bool = False  # one that was found and named: in every run
    heavy: bool = False  # left out of quick runs
    needs: str = ""  # a file in the folder of real data

    def case(self) -> Case:
        """Its data and its truth: the same in both float types."""
        alike = self.name.removesuffix("-float32").removesuffix("-float64")
        return self.make(np.random.default_rng(zlib.crc32(alike.encode())))

    def available(self) -> bool:
        """Whether what it needs is here."""
        return not self.needs or (
            (DATA / self.needs).exists() and tables.installed("pandas", "pyarrow")
        )


def quick(problems):
    """Every so many of each family, and every named bug."""
    place = Counter()
    chosen = []
    for problem in problems:
        if problem.bug or (not problem.heavy and place[problem.family] % EVERY == 0):
            chosen.append(problem)
        place[problem.family] += not problem.heavy
    return chosen


def families(problems):
    """Their names, in the order in which they come."""
    return list(dict.fromkeys(problem.family for problem in problems))


# --- how cases are made: functions of a generator, everything else bound ---


def _gaussian(rng, shape, rank, **how):
    return spoilt(gaussian(shape, rank, rng), rng, **how)


def _condition(rng, n, rank, condition, **how):
    return spoilt(conditioned((n, n), rank, rng, condition), rng, **how)


def _too_low(rng, n, rank, given, **how):
    return best_of_rank(_gaussian(rng, (n, n), rank, **how), given)


def _factors(rng, n, rank, change, **how):
    return spoilt(change(*gaussian((n, n), rank, rng), rng), rng, **how)


def _in_places(rng, n, rank, places, p, kind=uniform_large, judge=lambda bad: None):
    """Outliers where `places(shape, rng)` says; whole lines of them cannot be judged,
    only the others.
    """
    L, R = gaussian((n, n), rank, rng)
    X = L @ R.T
    bad = places(X.shape, rng)
    Y = np.where(bad, kind(X, rng), X)
    return exact(X, np.where(some(X.shape, rng, p), Y, np.nan), judged=judge(bad))


def _patch(rng, n, rank, share, p):
    """A part of the rows and columns shows X plus a matrix of rank one, twice as large."""
    L, R = gaussian((n, n), rank, rng)
    X = L @ R.T
    m = int(share * n)
    Y = X.copy()
    Y[:m, :m] += (
        2 * np.sqrt(rank) * np.outer(rng.standard_normal(m), rng.standard_normal(m))
    )
    return exact(X, np.where(some(X.shape, rng, p), Y, np.nan))


def _hidden(rng, table, outliers=0.0, **how):
    """Part of a table, and in some of what is left a value that is far off."""
    values = table(rng)
    far = 5 * np.nanstd(values, axis=0) * rng.choice([-1.0, 1.0], values.shape)
    bad = np.where(some(values.shape, rng, outliers), values + far, np.nan)
    return hidden(values, rng, bad=bad, **how)


def _lost_in_float32(rng, dtype):
    """A draw that was once filled with values 200 times too large, in float32 alone."""
    return _hidden(np.random.default_rng(914481983), tables.breast_cancer, dtype=dtype)


def _all_told(rng, table, exceptions=0.0):
    """A table of exactly low rank: what is hidden follows from what is not. Exceptions
    show 1 - x.
    """
    values = table(rng)
    shown = np.where(some(values.shape, rng, exceptions), 1 - values, values)
    return exact(values, np.where(some(values.shape, rng, 0.2), np.nan, shown))


def _traffic(rng, values, zeros, scaled, dtype):
    """Speeds, a fifth hidden, some read as zero: as they are, or in spreads from the
    middle of their column.
    """
    speed = values(rng)
    away = some(speed.shape, rng, 0.2)
    dead = some(speed.shape, rng, zeros)
    return _as_given(
        speed, np.where(away, np.nan, np.where(dead, 0, speed)), away, scaled, dtype
    )


def _as_given(speed, Y, away, scaled, dtype):
    if scaled:
        centre, spread = tables.middle_and_spread(Y)
        speed, Y = (speed - centre) / spread, (Y - centre) / spread
    return told_by_medians(speed, Y.astype(dtype), away)


def _traffic_file(rng, scaled, dtype):
    """The table that was once filled with -324 to 268 miles an hour."""
    Y = tables.parquet(DATA / TRAFFIC)
    return _as_given(_measured_speeds(rng), Y, np.isnan(Y), scaled, dtype)


def _measured_speeds(rng):
    """What that table was made of: 600 times, 40 places."""
    return np.load(DATA / SPEEDS)["speed"][:40, :600].T


TRAFFIC, SPEEDS = "cases/traffic_float32.parquet", "traffic/metr_la_week_speed.npz"


# --- families ---


def sampling():
    """How few entries: rho is how many there are for each degree of freedom."""
    small = product([1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6], [0, 0.05, 0.1, 0.3])
    for rho, alpha in small:
        yield _sampled(100, 3, rho, alpha, given=True)
    for rho, alpha in product([1.4, 2, 2.5, 3, 4], [0, 0.05, 0.1, 0.3]):
        yield _sampled(300, 5, rho, alpha, given=True)
    for rho, alpha in product([2.5, 4, 6], [0, 0.1, 0.3]):
        yield _sampled(100, 3, rho, alpha, given=False)


def _sampled(n, rank, rho, alpha, given):
    told = "" if given else "-unknown"
    make = partial(_gaussian, shape=(n, n), rank=rank, rho=rho, alpha=alpha)
    return Problem(
        f"sampling-n{n}-r{rank}-rho{rho}-a{alpha}{told}",
        "sampling",
        make,
        rank if given else None,
    )


def share():
    """How many outliers."""
    for alpha, p, rank in product(
        [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9], [1, 0.5], [1, 5]
    ):
        make = partial(_gaussian, shape=(200, 200), rank=rank, p=p, alpha=alpha)
        yield Problem(f"share-r{rank}-p{p}-a{alpha}", "share", make, rank)


def kinds():
    """What outliers look like."""
    for kind, (p, alpha) in product(
        ENTRYWISE, [(1, 0.1), (1, 0.3), (1, 0.5), (0.5, 0.3)]
    ):
        make = partial(_gaussian, shape=(150, 150), rank=3, p=p, alpha=alpha, kind=kind)
        if kind is flipped and alpha < 0.5:
            make = partial(_where_most_is_right, make=make)
        yield Problem(f"kinds-{kind.__name__}-p{p}-a{alpha}", "kinds", make, 3)
    for kind in ENTRYWISE:
        make = partial(_gaussian, shape=(150, 150), rank=3, alpha=0.3, kind=kind)
        yield Problem(f"kinds-{kind.__name__}-a0.3-unknown", "kinds", make)


def _where_most_is_right(rng, make):
    """A case judged without lines of which half has the other sign: nobody can tell which half."""
    case = make(rng)
    seen = ~np.isnan(case.Y)
    wrong = seen & (case.Y != case.X)
    rows, cols = (2 * wrong.sum(axis) < seen.sum(axis) for axis in (1, 0))
    return replace(case, judged=rows[:, None] & cols)


def places():
    """Where outliers are: in squares, in whole rows and columns, in patches that have a
    structure of their own.
    """
    for side, part in product([10, 25, 50], [0.05, 0.2, 0.4]):
        put = partial(_squares, side=side, share=part)
        make = partial(_in_places, n=200, rank=3, places=put, p=1)
        yield Problem(f"places-squares{side}-a{part}", "places", make, 3)
    for line, part, p in product(["rows", "columns"], [0.05, 0.2, 0.4], [1, 0.5]):
        put, judge = partial(_lines, name=line, share=part), np.logical_not
        make = partial(_in_places, n=200, rank=3, places=put, p=p, judge=judge)
        yield Problem(f"places-{line}-a{part}-p{p}", "places", make, 3)
    for part, p in product([0.1, 0.3, 0.5], [1, 0.5]):
        make = partial(_patch, n=200, rank=3, share=part, p=p)
        yield Problem(f"places-patch{part}-p{p}", "places", make, 3)


def _squares(shape, rng, side, share):
    return rectangles(shape, rng, side, share)


def _lines(shape, rng, name, share):
    axis = 0 if name == "rows" else 1
    chosen = np.zeros(shape[axis], bool)
    chosen[rng.choice(shape[axis], int(share * shape[axis]), replace=False)] = True
    return np.broadcast_to(chosen[:, None] if axis == 0 else chosen, shape)


def ranks():
    """Ranks that nobody gave, gave too low, or too high."""
    for rank, p, alpha in product([16, 20, 30, 50], [1, 0.6], [0, 0.1]):
        n = 200 if rank <= 20 else 300
        make = partial(_gaussian, shape=(n, n), rank=rank, p=p, alpha=alpha)
        yield Problem(f"rank-{rank}-unknown-p{p}-a{alpha}", "rank", make)
    for (rank, given), p in product([(5, 3), (5, 4), (10, 5)], [1, 0.5]):
        make = partial(_too_low, n=200, rank=rank, given=given, p=p, alpha=0.1)
        yield Problem(f"rank-{rank}-as-{given}-p{p}", "rank", make, given)
    for (rank, given), p in product(
        [(1, 3), (2, 4), (5, 7), (5, 10), (10, 20)], [1, 0.5]
    ):
        make = partial(_gaussian, shape=(200, 200), rank=rank, p=p, alpha=0.1)
        yield Problem(f"rank-{rank}-as-{given}-p{p}", "rank", make, given)


def condition():
    """Components that differ much in size."""
    for size, given, p, alpha in product(
        [1e2, 1e3, 1e4], [5, None], [1, 0.5], [0, 0.1]
    ):
        told = "given" if given else "unknown"
        make = partial(_condition, n=200, rank=5, condition=size, p=p, alpha=alpha)
        yield Problem(
            f"condition-{size:.0e}-{told}-p{p}-a{alpha}", "condition", make, given
        )


def _sparse(L, R, rng):
    return tuple(F * (rng.random(F.shape) < 0.3) for F in (L, R))


def _sparse_positive(L, R, rng):
    return tuple(np.abs(F) * (rng.random(F.shape) < 0.3) for F in (L, R))


def _zero_rows(L, R, rng, share=0.4):
    L = L.copy()
    L[: int(share * len(L))] = 0
    return L, R


def _mostly_zero_rows(L, R, rng):
    return _zero_rows(L, R, rng, 0.6)


def _zero_columns(L, R, rng):
    return _zero_rows(R, L, rng)[::-1]


def _power_law(L, R, rng):
    return L * np.arange(1, L.shape[1] + 1.0) ** -2, R


def _row_scales(L, R, rng):
    return L * 10 ** rng.uniform(-2, 2, (len(L), 1)), R


def _both_scales(L, R, rng):
    return tuple(F * 10 ** rng.uniform(-1, 1, (len(F), 1)) for F in (L, R))


def _heavy_tails(L, R, rng):
    return tuple(rng.standard_t(2, F.shape) for F in (L, R))


def _spiky(L, R, rng):
    L = L.copy()
    L[:5] *= 30
    return L, R


def _far_from_zero(L, R, rng):
    return L + 2, R + 2


ZEROS = (_sparse, _sparse_positive, _zero_rows, _mostly_zero_rows, _zero_columns)
SCALES = (_power_law, _row_scales, _both_scales, _heavy_tails, _spiky, _far_from_zero)


def factors():
    """Factors with zeros, and rows and columns of unlike sizes."""
    for change, alpha, given in product(ZEROS, [0, 0.1], [3, None]):
        yield _changed("zeros", change, 3, 1, alpha, given)
    for change, p, given in product(SCALES, [1, 0.4], [4, None]):
        yield _changed("scales", change, 4, p, 0.1, given)


def _changed(family, change, rank, p, alpha, given):
    told = "given" if given else "unknown"
    make = partial(_factors, n=150, rank=rank, change=change, p=p, alpha=alpha)
    return Problem(
        f"{family}{change.__name__.replace('_', '-')}-p{p}-a{alpha}-{told}",
        family,
        make,
        given,
    )


TINY = [
    (10, 8, 1),
    (10, 8, 2),
    (20, 20, 1),
    (20, 20, 3),
    (30, 4, 1),
    (50, 12, 2),
    (50, 12, 3),
]
TINY += [(60, 60, 5), (100, 3, 1), (100, 20, 3), (300, 30, 5)]
LINES = [(1, 50, 1), (50, 1, 1), (2, 50, 1), (50, 2, 1), (40, 3, 2)]


def tiny():
    """Few rows, few columns, or both."""
    for (n1, n2, rank), alpha in product(TINY, [0, 0.1, 0.2]):
        yield _small(n1, n2, rank, alpha, 1, rank)
    for (n1, n2, rank), alpha in product(TINY[:-1:2], [0, 0.1]):
        yield _small(n1, n2, rank, alpha, 1, None)
    for n1, n2, rank in TINY[2:-1:2]:
        yield _small(n1, n2, rank, 0.1, 0.7, rank)
    for (n1, n2, rank), alpha in product(LINES, [0, 0.1]):
        yield _small(n1, n2, rank, alpha, 1, rank)


def _small(n1, n2, rank, alpha, p, given):
    told = "given" if given else "unknown"
    make = partial(_gaussian, shape=(n1, n2), rank=rank, p=p, alpha=alpha)
    return Problem(f"tiny-{n1}x{n2}-r{rank}-a{alpha}-p{p}-{told}", "tiny", make, given)


TALL = [
    (2000, 5, 1, 0.1, 1),
    (5, 2000, 1, 0.1, 1),
    (2000, 5, 2, 0.05, 1),
    (5000, 12, 2, 0.2, 1),
    (10000, 30, 3, 0.1, 0.5),
    (20000, 5, 1, 0.1, 1),
    (2000, 12, 2, 0, 0.5),
]


def tall():
    """Many rows, few columns."""
    for (n1, n2, rank, alpha, p), dtype in product(TALL, ["float32", "float64"]):
        make = partial(
            _gaussian, shape=(n1, n2), rank=rank, alpha=alpha, p=p, dtype=dtype
        )
        heavy = n1 * n2 > 100_000
        yield Problem(
            f"tall-{n1}x{n2}-r{rank}-a{alpha}-p{p}-{dtype}",
            "tall",
            make,
            rank,
            heavy=heavy,
        )


def table():
    """Tables without a known truth: is it better to ask for the medians?"""
    for name, outliers in product(tables.REAL, [0.0, 0.1]):
        for dtype in ("float64", "float32"):
            make = partial(
                _hidden, table=tables.REAL[name], outliers=outliers, dtype=dtype
            )
            # once of rank one, two thirds outliers, and exact
            found = name == "digits" and not outliers
            yield Problem(f"table-{name}-a{outliers}-{dtype}", "table", make, bug=found)
    for dtype in ("float32", "float64") if tables.REAL else ():
        make = partial(_lost_in_float32, dtype=dtype)
        yield Problem(f"table-breast-cancer-lost-{dtype}", "table", make, bug=True)
    for name, values in tables.SYNTHETIC.items():
        yield Problem(f"table-{name}", "table", partial(_hidden, table=values))
    for name, values in tables.EXACT.items():
        yield Problem(f"table-{name}", "table", partial(_all_told, table=values))
    make = partial(_all_told, table=tables.groups, exceptions=0.1)
    yield Problem("table-groups-with-exceptions", "table", make)


def noise():
    """Noise, with many entries and with few."""
    for size, alpha, rho in product(
        [1e-4, 1e-2, 0.1, 0.3], [0, 0.1, 0.3, 0.5], [16, 6, 3.5]
    ):
        make = partial(
            _gaussian, shape=(100, 100), rank=3, alpha=alpha, noise=size, rho=rho
        )
        yield Problem(f"noise-{size:g}-a{alpha}-rho{rho}", "noise", make, 3)
    for size, alpha, rho in product([1e-3, 0.1], [0, 0.1, 0.3], [16, 6]):
        make = partial(
            _gaussian, shape=(100, 100), rank=3, alpha=alpha, noise=size, rho=rho
        )
        yield Problem(f"noise-{size:g}-a{alpha}-rho{rho}-unknown", "noise", make)
    for given in (20, None):
        told = "given" if given else "unknown"
        make = partial(
            _gaussian, shape=(600, 400), rank=20, p=0.3, alpha=0.1, noise=0.3
        )
        yield Problem(f"noise-rank20-600x400-{told}", "noise", make, given, heavy=True)
        make = partial(
            _gaussian, shape=(300, 200), rank=10, p=0.4, alpha=0.1, noise=0.3
        )
        yield Problem(f"noise-rank10-300x200-{told}", "noise", make, given)


def traffic():
    """The same speeds in both float types, as they are and scaled by column."""
    for scaled, dtype in product([False, True], ["float32", "float64"]):
        told = f"{'scaled' if scaled else 'raw'}-{dtype}"
        make = partial(
            _traffic, values=tables.speeds, zeros=0.03, scaled=scaled, dtype=dtype
        )
        yield Problem(f"traffic-like-{told}", "traffic", make, bug=scaled)
        make = partial(_traffic_file, scaled=scaled, dtype=dtype)
        yield Problem(f"data-traffic-{told}", "data", make, bug=scaled, needs=TRAFFIC)
    for draw in range(4):
        make = partial(
            _traffic, values=_measured_speeds, zeros=0.03, scaled=True, dtype="float32"
        )
        yield Problem(f"data-traffic-again{draw}", "data", make, needs=SPEEDS)


# --- bugs that were found and named, as they were written down ---


def _dark_rows(rng):
    g = np.random.default_rng(0)
    L, R = g.standard_normal((400, 3)), g.standard_normal((400, 3))
    L[:160] = 0
    return exact(L @ R.T, L @ R.T)


def _synthetic(rng, arguments, dtype=np.float64, **how):
    made = lrmc.synthetic.problem(*arguments, dtype=dtype, form="dense", **how)
    return exact(made.X, made.Y, dtype=dtype)


def _half_zero(rng):
    X = lrmc.synthetic.problem(600, 5, 0, 1.0, seed=1).X
    Y = X.copy()
    Y[np.random.default_rng(1).random(Y.shape) < 0.5] = 0
    return exact(X, Y)


def bugs():
    """Each once gave a wrong answer in silence, or none."""
    tall_float32 = partial(_synthetic, seed=0, n2=30, dtype=np.float32)
    named = [
        ("A-dark-rows", _dark_rows, 3),
        ("A-dark-rows-unknown", _dark_rows, None),
        (
            "B-rests-too-early",
            partial(_synthetic, arguments=(300, 5, 0.2, 1.0), seed=0, n2=30),
            5,
        ),
        (
            "C-clean-tiny",
            partial(_synthetic, arguments=(10, 2, 0, 1.0), seed=1, n2=8),
            None,
        ),
        (
            "D-condition",
            partial(_synthetic, arguments=(600, 5, 0.1, 1.0), seed=0, condition=100),
            None,
        ),
        ("E-rank-16", partial(_synthetic, arguments=(600, 16, 0.1, 1.0)), None),
        ("F-tall", partial(tall_float32, arguments=(100000, 3, 0.1, 0.5)), 3),
        ("G-half-zero", _half_zero, 5),
    ]
    for name, make, rank in named:
        yield Problem(f"bug-{name}", "bugs", make, rank, bug=True)


FAMILIES = (
    bugs,
    sampling,
    share,
    kinds,
    places,
    ranks,
    condition,
    factors,
    tiny,
    tall,
    table,
    noise,
    traffic,
)
PROBLEMS = [problem for family in FAMILIES for problem in family()]

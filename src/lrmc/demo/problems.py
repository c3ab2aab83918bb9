"""Problems with a known answer, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._progress import Tell, silent
from .._work import following
from ..formats.sparse import Matrix
from ..linalg import Factors
from ..metrics import relative_error
from ..result import Result
from ..solve import solve
from ..synthetic import problem
from ..weights import Array

RANK = 5  # of the problems; only the paper's LRMC is told
NOISE = 0.05  # of the noisy problem, in parts of a typical entry
OUTLIERS = 0.1  # fraction of the observed entries
# trained for just this kind of problem, in the form of the paper
SCHEDULE = "paper-r5-a0.1-p0.1"
TOL = 1e-6  # what `solve` stops at


class Case(NamedTuple):
    """A problem of the table, and what `solve` is told about it: mostly nothing."""

    name: str
    Y: Matrix
    truth: Factors
    options: dict[str, Any]


class Line(NamedTuple):
    """How one problem went. Times in seconds."""

    name: str
    result: Result
    error: float  # |L R' - X| / |X|
    seconds: float


def problems(n: int = 3000, seed: int = 0) -> Iterator[Case]:
    """The cases of the table: in each, 10 % of the observed entries are outliers."""
    for name, p, noise in (
        ("all observed", 1.0, 0.0),
        ("half missing (NaN)", 0.5, 0.0),
        (f"the same, {100 * NOISE:.0f} % noise", 0.5, NOISE),
    ):
        made = problem(
            n, RANK, OUTLIERS, p, seed, noise=noise, form="dense", dtype=np.float32
        )
        yield Case(name, made.Y, made.X_factors, {})
    yield Case("integers (uint8)", *_integers(n, seed), {})
    made = problem(n, RANK, OUTLIERS, 0.1, seed, form="sparse", dtype=np.float32)
    yield Case("10 % observed (CSR)", made.Y, made.X_factors, {})
    yield Case(
        "the same, paper's LRMC",
        made.Y,
        made.X_factors,
        {"rank": RANK, "method": "lrmc", "schedule": SCHEDULE},
    )


def _integers(n: int, seed: int) -> tuple[Array, Factors]:
    """Small whole factors, so that bytes hold the matrix exactly; 10 % of it replaced by any
    byte.
    """
    rng = np.random.default_rng(seed)
    # Products of at most 4 * 4 * 5 = 80.
    L, R = (
        rng.integers(0, 5, (n, RANK)),
        rng.integers(0, 5, (n, RANK)),
    )
    Y = (L @ R.T).astype(np.uint8)
    wrong = rng.random(Y.shape, dtype=np.float32) < OUTLIERS
    Y[wrong] = rng.integers(0, 256, np.count_nonzero(wrong), np.uint8)
    return Y, Factors(L.astype(float), R.astype(float))


def measured(case: Case, progress: Tell = silent) -> Line:
    """Solve one problem and look at the clock."""
    name, Y, truth, options = case
    began = time.perf_counter()
    result = solve(Y, **options, progress=following(progress, TOL))
    seconds = time.perf_counter() - began
    return Line(name, result, relative_error(result, truth), seconds)

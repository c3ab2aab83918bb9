"""A race of lrmc and other packages, on problems with a known answer. Each runs in a process of its
own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..observations.base import row_blocks
from ..synthetic import problem
from . import rivals
from .rivals import RIVALS

RANK, ALPHA = 5, 0.1
LARGE = 5e7  # entries, beyond which a problem is made in single precision and in pieces
NOT_INSTALLED, MORE_THAN = "not installed", "more than"
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Case(NamedTuple):
    """A kind of problem: rank 5, and 10 % of the observed entries are outliers."""

    name: str
    n: int
    p: float = 1.0
    outlier_scale: float = 1.0
    n2: int | None = None


def cases(n: int) -> list[Case]:
    """The standard problems of one size."""
    return [
        Case(f"dense {n}", n),
        Case(f"dense {n}, outliers x10", n, outlier_scale=10),
        Case(f"half missing {n}", n, 0.5),
        Case(f"half missing {n}, outliers x10", n, 0.5, 10),
    ]


class Entry(NamedTuple):
    """How one of them did."""

    case: str
    name: str
    seconds: float | None = None
    error: float | None = None
    passes: int | None = None
    memory: float | None = (
        None  # the most that the process had, in MB, the data included
    )
    note: str = ""  # why there are no numbers


def seconds_given(note: str) -> float | None:
    """How long one was waited for that did not end; None for all others."""
    return (
        float(note.split()[2])
        if note.startswith(MORE_THAN) and note.endswith(" s")
        else None
    )


class Places(NamedTuple):
    """Where the packages are installed, and in which version."""

    python: dict[str, str]  # by package
    version: dict[str, str]


def found_in(pythons: Sequence[str]) -> Places:
    """Look for the packages in some Pythons, this one first."""
    where, version = {}, {}
    for python in (sys.executable, *pythons):
        done = subprocess.run(
            [python, rivals.__file__, "--probe"], capture_output=True, text=True
        )
        if done.returncode:
            raise ValueError(
                f"{python} could not be asked for its packages:"
                f" {done.stderr.strip()[-120:]}"
            )
        for package, number in json.loads(done.stdout).items():
            if package not in where:
                where[package], version[package] = python, number
    return Places(where, version)


def race(
    case: Case,
    names: Sequence[str],
    places: Places,
    *,
    limit: float = 300,
    threads: int = 1,
    memory: int = 8192,
) -> Iterator[Entry]:
    """One entry after the other. `limit` is in seconds, `memory` in MB."""
    with tempfile.TemporaryDirectory(prefix="lrmc-bench-") as folder:
        drawn = False
        for name in names:
            rival = RIVALS[name]
            if rival.package not in places.python:
                yield Entry(case.name, name, note=NOT_INSTALLED)
            elif case.p < 1 and not rival.gaps:
                yield Entry(case.name, name, note="takes no missing entries")
            else:
                if not drawn:
                    _draw(case, Path(folder))
                    drawn = True
                said = _run(
                    places.python[rival.package], name, folder, limit, threads, memory
                )
                yield Entry(case.name, name, **said)


def _draw(case: Case, folder: Path) -> None:
    """The problem as files, which any Python can read. E x^2 = 1: some have parameters in absolute
    numbers.
    """
    if case.n * (case.n2 or case.n) > LARGE:
        return _draw_large(case, folder)
    made = problem(
        case.n,
        RANK,
        ALPHA,
        case.p,
        0,
        n2=case.n2,
        outlier_scale=case.outlier_scale,
        form="dense",
        dtype=np.float64,
    )
    unit = np.sqrt(case.n * (case.n2 or case.n) / RANK)
    for name, part in (
        ("Y", unit * made.Y),
        ("L", unit * made.X_factors.L),
        ("R", made.X_factors.R),
    ):
        np.save(folder / f"{name}.npy", part)


def _draw_large(case: Case, folder: Path) -> None:
    """The same in single precision, some rows at a time; every entry is an outlier, or missing, by
    chance.
    """
    rng = np.random.default_rng(0)
    n1, n2 = case.n, case.n2 or case.n
    L, R = (rng.standard_normal((m, RANK)) / RANK**0.25 for m in (n1, n2))
    np.save(folder / "L.npy", L)
    np.save(folder / "R.npy", R)
    Y = np.lib.format.open_memmap(folder / "Y.npy", "w+", np.float32, (n1, n2))
    mean = np.abs(L[:2000] @ R.T).mean() * case.outlier_scale
    for block in row_blocks(n1, n2):
        X = L[block] @ R.T
        X += np.where(rng.random(X.shape) < ALPHA, rng.uniform(-mean, mean, X.shape), 0)
        if case.p < 1:
            X[rng.random(X.shape) >= case.p] = np.nan
        Y[block] = X
    Y.flush()


def _run(
    python: str,
    name: str,
    folder: str,
    limit: float,
    threads: int,
    memory: int,
) -> dict[str, Any]:
    """What a process said."""
    surroundings = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
    command = [python, rivals.__file__, name, folder, str(memory)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=surroundings
        )
    except subprocess.TimeoutExpired:
        return {"note": f"{MORE_THAN} {limit:.0f} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {
            "note": f"ended with {done.returncode}: {' '.join(done.stderr.split())[-80:]}"
        }
    said = json.loads(lines[-1])
    return {"note": said["failed"]} if "failed" in said else said

"""Other packages for robust PCA and completion, called as their users would. Run as a script, in
their own Python.

    python rivals.py --probe                   which are installed, as JSON
    python rivals.py NAME FOLDER MEGABYTES     solve Y.npy of the folder, and say how, as JSON

It imports nothing of lrmc unless lrmc is the one that is asked for, so that it runs where lrmc is
not installed.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Answer: TypeAlias = (
    Any  # a matrix, a pair of factors, or these and the number of passes
)
BLOCK = 2**22  # entries that are compared at a time
# A call that takes less than so many seconds is repeated; the median counts.
REPEATS, SHORT = 5, 2.0


class Rival(NamedTuple):
    """A package, and how it is called with the matrix and the rank: the result is a matrix or a
    pair of factors.
    """

    package: str
    call: Callable[[Array, int], Answer]
    gaps: bool  # whether it takes missing entries
    robust: bool
    rank: bool  # whether it is told the rank


def _lrmc(Y: Array, rank: int) -> Answer:
    import lrmc

    result = lrmc.solve(Y)
    return result.L, result.R, result.n_iter


def _lrmc_with_rank(Y: Array, rank: int) -> Answer:
    import lrmc

    result = lrmc.solve(Y, rank)
    return result.L, result.R, result.n_iter


def _pyrpca(Y: Array, rank: int) -> Answer:
    from pyrpca import rpca_pcp_ialm

    return rpca_pcp_ialm(Y, 1 / np.sqrt(max(Y.shape)), verbose=False)[0]


def _tensorly(Y: Array, rank: int) -> Answer:
    from tensorly.decomposition import robust_pca

    seen = np.isfinite(Y)
    share = 2 / np.sqrt(max(Y.shape))  # by default it takes everything for noise
    mask = None if seen.all() else seen.astype(Y.dtype)
    return robust_pca(
        np.where(seen, Y, 0), mask=mask, reg_E=share, n_iter_max=1000, verbose=0
    )[0]


def _sporco(Y: Array, rank: int) -> Answer:
    from sporco.admm import rpca

    how = {
        "gEvalY": True,
        "MaxMainIter": 5000,
        "RelStopTol": 1e-7,
        "AutoRho": {"Enabled": True},
    }
    return rpca.RobustPCA(
        Y, 1 / np.sqrt(max(Y.shape)), rpca.RobustPCA.Options(how)
    ).solve()[0]


def _skpcp(Y: Array, rank: int) -> Answer:
    from skpcp import PCP

    return PCP(max_iter=2000).fit(Y).low_rank_


def _hyperspy(Y: Array, rank: int) -> Answer:
    from hyperspy.learn._rpca import ORPCA

    model = ORPCA(rank)
    model.partial_fit(Y)
    return model.transform(Y) @ model.components_


def _cmfrec(Y: Array, rank: int) -> Answer:
    import cmfrec

    how = {"user_bias": False, "item_bias": False, "center": False, "verbose": False}
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    model = cmfrec.CMF(k=rank, lambda_=0.1, method="als", nthreads=threads, **how)
    model.fit(Y)
    return model.A_, model.B_


def _qolmat(Y: Array, rank: int) -> Answer:
    from qolmat.imputations.rpca.rpca_pcp import RpcaPcp

    return RpcaPcp(max_iterations=1000, verbose=False).decompose(Y, np.isfinite(Y))[0]


RIVALS = {
    "lrmc": Rival("lrmc", _lrmc, True, True, False),
    "lrmc, rank given": Rival("lrmc", _lrmc_with_rank, True, True, True),
    "pyrpca": Rival("pyrpca", _pyrpca, False, True, False),
    "tensorly, tuned": Rival("tensorly", _tensorly, True, True, False),
    "sporco": Rival("sporco", _sporco, False, True, False),
    "skpcp": Rival("skpcp", _skpcp, False, True, False),
    "hyperspy ORPCA": Rival("hyperspy", _hyperspy, False, True, True),
    "qolmat RpcaPcp": Rival("qolmat", _qolmat, True, True, False),
    "cmfrec (not robust)": Rival("cmfrec", _cmfrec, True, False, True),
}


def versions() -> dict[str, str]:
    """Those that are installed here."""
    found = {}
    for package in {rival.package for rival in RIVALS.values()}:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def run(name: str, folder: Path) -> dict[str, object]:
    """Solve the problem in a folder, after a small one that warms up."""
    rival = RIVALS[name]
    Y, L, R = (np.load(folder / f"{part}.npy") for part in "YLR")
    rank = L.shape[1]
    small = np.random.default_rng(0).standard_normal((2, 80, rank)).astype(Y.dtype)
    rival.call(small[0] @ small[1].T, rank)
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < SHORT:
        began = time.perf_counter()
        answer = rival.call(Y, rank)
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times)
    import resource  # not on Windows, where all else works

    # MB; kilobytes on Linux.
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said: dict[str, object] = {
        "seconds": seconds,
        "memory": memory,
        "error": error_of(answer, L, R),
    }
    return said | (
        {"passes": int(answer[2])}
        if isinstance(answer, tuple) and len(answer) == 3
        else {}
    )


def error_of(answer: Answer, L: Array, R: Array) -> float:
    """|answer - L R'| / |L R'|, some rows at a time."""
    wrong = size = 0.0
    rows = max(1, BLOCK // len(R))
    for i in range(0, len(L), rows):
        X = L[i : i + rows] @ R.T
        guess = (
            answer[0][i : i + rows] @ answer[1].T
            if isinstance(answer, tuple)
            else answer[i : i + rows]
        )
        wrong += float(np.sum((np.asarray(guess, np.float64) - X) ** 2))
        size += float(np.sum(X**2))
    return float(np.sqrt(wrong / size))


def main(arguments: list[str]) -> None:
    """One line of JSON is the last line that is printed."""
    if arguments == ["--probe"]:
        print(json.dumps(versions()))
        return
    name, folder, megabytes = arguments
    most = int(megabytes) * 2**20
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        said = run(name, Path(folder))
    except MemoryError:
        said = {"failed": f"more than {int(megabytes) / 1024:.0f} GB of memory"}
    except Exception as error:  # whatever a package may raise is its result
        said = {
            "failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:120]
        }
    print("\n" + json.dumps(said))


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its modules are not for others to import
    main(sys.argv[1:])

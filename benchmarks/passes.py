"""How fast is one pass? Ratios measured in one run: against reading the data, and against NumPy and
SciPy.

    python benchmarks/passes.py [--n 3000] [--rank 5] [--threads 2]

Every time is the best of several, warm. "read" reads the data once with all threads: what no pass
can beat. NumPy's sum of the same array is the reading that a Python program would see."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from timing import fastest

import lrmc
from lrmc import _kernels
from lrmc.weights import Threshold


def best(call: Callable[[], object], repeats: int = 20) -> float:
    """Milliseconds of the fastest call."""
    return 1e3 * fastest(call, repeats)


def numpy_pull(
    Y: np.ndarray, L: np.ndarray, R: np.ndarray, zeta: float
) -> tuple[np.ndarray, np.ndarray]:
    C = np.clip(Y - L @ R.T, -zeta, zeta)
    return C @ R, C.T @ L


def scipy_pull(
    Y: sp.csr_array, rows: np.ndarray, L: np.ndarray, R: np.ndarray, zeta: float
) -> tuple[np.ndarray, ...]:
    E = Y.data - np.einsum("ij,ij->i", L[rows], R[Y.indices])
    C = sp.csr_array((np.clip(E, -zeta, zeta), Y.indices, Y.indptr), shape=Y.shape)
    return C @ R, C.T @ L


def report(name: str, ms: float, against: str, base: float) -> None:
    print(f"{name:34s} {ms:8.2f} ms   {ms / base:6.2f} x {against}")


def adjoint(
    obs: lrmc.observations.base.Observations, L: np.ndarray, R: np.ndarray
) -> None:
    """What training pays on the way back, against the way there."""
    pulls = best(lambda: obs.pull(L, R, 0.7))
    report(
        "adjoint float32",
        best(lambda: obs.adjoint(L, R, 0.7, L + 1, R - 1)),
        "pull",
        pulls,
    )


def dense(n: int, rank: int, threads: int, rng: np.random.Generator) -> None:
    L, R = (rng.standard_normal((n, rank)).astype(np.float32) for _ in range(2))
    Y = L @ R.T + rng.standard_normal((n, n), dtype=np.float32)
    holes = np.where(rng.random((n, n), dtype=np.float32) < 0.5, Y, np.float32(np.nan))
    mask = ~np.isnan(holes)

    def time_pull(data: object, weight: object = 0.7, **options: object) -> float:
        obs = lrmc.as_observations(data, threads=threads, **options)
        return best(lambda: obs.pull(L.astype(obs.dtype), R.astype(obs.dtype), weight))

    read = best(lambda: _kernels.read_once(Y, threads))
    print(
        f"\ndense {n} x {n}, rank {rank}, {threads} threads ({_kernels.instruction_set()})"
    )
    report("read float32, all threads", read, "read", read)
    report("read float32, NumPy's sum", best(lambda: Y.sum()), "read", read)
    report("pull float32", time_pull(Y), "read", read)
    report("pull float32, half NaN", time_pull(holes), "read", read)
    report("pull float32, half masked", time_pull(Y, mask=mask), "read", read)
    flat = Threshold(*(np.full(n, 0.7),) * 2, *(np.zeros(n),) * 2)
    report("pull float32, row/col thresholds", time_pull(Y, flat), "read", read)
    report("pull float64", time_pull(Y.astype(np.float64)), "read", read)
    for kind in (np.uint8, np.int16, np.uint16):
        report(
            f"pull {np.dtype(kind).name}",
            time_pull(np.clip(20 * Y + 100, 0, 255).astype(kind)),
            "read",
            read,
        )
    adjoint(lrmc.as_observations(Y, threads=threads), L, R)
    report("NumPy, unfused", best(lambda: numpy_pull(Y, L, R, 0.7), 3), "read", read)


def sparse(n: int, rank: int, threads: int, rng: np.random.Generator) -> None:
    L, R = (rng.standard_normal((n, rank)).astype(np.float32) for _ in range(2))
    seen = rng.random((n, n), dtype=np.float32) < 0.1
    rows, cols = np.nonzero(seen)
    values = np.einsum("ij,ij->i", L[rows], R[cols]) + rng.standard_normal(
        len(rows), dtype=np.float32
    )
    Y = sp.csr_array((values, (rows, cols)), shape=(n, n))
    obs = lrmc.as_observations(Y, threads=threads)
    scipy_time = best(lambda: scipy_pull(Y, rows, L, R, 0.7), 5)
    print(f"\nsparse {n} x {n}, 10 % observed, rank {rank}, {threads} threads")
    report("SciPy, unfused", scipy_time, "SciPy", scipy_time)
    report("pull float32", best(lambda: obs.pull(L, R, 0.7)), "SciPy", scipy_time)
    adjoint(obs, L, R)
    print(
        f"{'':34s} SciPy takes {scipy_time / best(lambda: obs.pull(L, R, 0.7)):.1f} times as long"
    )


def crossover(n: int, threads: int, rng: np.random.Generator) -> None:
    """Where the sparse form becomes slower than the dense one: what ENTRY_COST in
    observations/_door.py is set from.
    """
    print(
        f"\nsparse pull / dense pull with NaN, {n} x {n}, by observed fraction and rank"
    )
    fractions = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
    print("rank " + "".join(f"{p:7.2f}" for p in fractions))
    for rank in (1, 2, 5, 10, 20):
        L, R = (rng.standard_normal((n, rank)).astype(np.float32) for _ in range(2))
        ratios = []
        for p in fractions:
            Y = np.where(
                rng.random((n, n), dtype=np.float32) < p,
                np.float32(1),
                np.float32(np.nan),
            )
            times = [
                best(lambda form=form, L=L, R=R: form.pull(L, R, 0.7), 8)
                for form in both_forms(Y, threads)
            ]
            ratios.append(times[0] / times[1])
        print(f"{rank:4d} " + "".join(f"{ratio:7.2f}" for ratio in ratios))


def tall(rank: int, rng: np.random.Generator) -> None:
    """Sampled stacks of bytes, processor time of one thread: what falls with p, and what a row costs."""
    n1, n2 = 480_000, 60
    L, R = (rng.standard_normal((n, rank)).astype(np.float32) for n in (n1, n2))
    Y = np.clip(20 * (L @ R.T) + 100, 0, 255).astype(np.uint8)
    print(f"\n{n1} x {n2} bytes, rank {rank}, stored column by column, one thread")
    full = math.nan
    for p in (1.0, 0.3, 0.1, 0.05):
        drawn = rng.random((n2, n1), dtype=np.float32).T
        mask = None if p == 1 else drawn < p
        data = np.asfortranarray(Y)
        obs, door = spent(
            lambda data=data, mask=mask: lrmc.as_observations(data, mask, threads=1)
        )
        times = [spent(lambda obs=obs: obs.pull(L, R, 30.0))[1] for _ in range(5)]
        full = min(times) if p == 1 else full
        print(
            f"p = {p:4.2f} {type(obs).__name__:10s} {1e3 * min(times):7.1f} ms, {min(times) / full:5.2f} x p = 1;"
            f" making it took {door / min(times):.1f} passes"
        )


def spent(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work gives, and the processor seconds that it took."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def both_forms(
    Y: np.ndarray, threads: int
) -> tuple[lrmc.observations.Sparse, lrmc.observations.Dense]:
    """The same data stored both ways, whatever the door would choose."""
    seen = ~np.isnan(Y)
    counts = {"row_observed": seen.sum(1), "col_observed": seen.sum(0)}
    common = {"shape": Y.shape, "dtype": Y.dtype, "threads": threads, **counts}
    indptr = np.concatenate([[0], np.cumsum(counts["row_observed"])])
    indices = np.nonzero(seen)[1].astype(np.int32)
    return lrmc.observations.Sparse(
        indptr=indptr, indices=indices, values=Y[seen], **common
    ), lrmc.observations.Dense(Y=Y, **common)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--threads", type=int, default=_kernels.max_threads())
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    dense(args.n, args.rank, args.threads, rng)
    sparse(args.n, args.rank, args.threads, rng)
    crossover(args.n, args.threads, rng)
    tall(2, rng)


if __name__ == "__main__":
    main()

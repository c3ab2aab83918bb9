"""Larger than memory, larger than one machine: what a pass costs from disk and through Dask, and
what moves.

    python benchmarks/scale.py same        the same factors from memory, memmap, zarr, threads and
    two processes python benchmarks/scale.py disk        a file of 6 GB in a process that may have 2
    GB; passes against reading it python benchmarks/scale.py dask        a pass and a solve over 2
    GB in 64 blocks, by Dask's threads and in memory python benchmarks/scale.py bytes       what
    goes over the sockets in a pass, for more and more rows python benchmarks/scale.py workers
    passes with one and two worker processes, and the cost model that fits them python
    benchmarks/scale.py sparse      tall sparse data mapped from files: seconds for 1e9 entries and
    pass, against reading the files; SCALE_ROWS says how many rows

Files go to a temporary directory (TMPDIR); times are the best of several, with two threads.
"""

import mmap
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import lrmc
from lrmc import outofcore
from lrmc.weights import Threshold

GB = 1e9


def best(function, times=5):
    """Seconds of the fastest run."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        function()
        found.append(time.perf_counter() - began)
    return min(found)


def written(path, n1, n2, rank=5, rows=5000, dtype=np.float32):
    """A low-rank matrix with 5 % outliers and 20 % gaps, row after row in a file."""
    rng = np.random.default_rng(0)
    R = rng.standard_normal((n2, rank)).astype(dtype)
    spots = rng.integers(0, rows * n2, (2, rows * n2 // 5))
    with open(path, "wb") as file:
        for first in range(0, n1, rows):
            Y = rng.standard_normal((min(rows, n1 - first), rank)).astype(dtype) @ R.T
            flat = Y.reshape(-1)
            shift = int(rng.integers(0, flat.size))
            flat[(spots[0] + shift) % flat.size] = np.nan
            some = (spots[1, : rows * n2 // 20] + shift) % flat.size
            flat[some] = 10 * np.sign(flat[some])
            Y.tofile(file)


def one_pass(obs, L, R):
    """A step of the closed loop, as far as the data are concerned."""
    n1, n2 = obs.shape
    rule = Threshold(np.full(n1, 2.0), np.full(n2, 2.0), np.zeros(n1), np.zeros(n2))
    return obs.pull(L, R, rule)


def factors(n1, n2, rank=5, dtype=np.float32):
    rng = np.random.default_rng(1)
    return (rng.standard_normal((n, rank)).astype(dtype) for n in (n1, n2))


def same():
    import dask.array as da
    import zarr
    from distributed import Client, LocalCluster

    with tempfile.TemporaryDirectory() as folder:
        path, shape = Path(folder) / "Y.bin", (20_000, 500)
        written(path, *shape, dtype=np.float64)
        mapped = np.memmap(path, np.float64, "r", shape=shape)
        Y = np.array(mapped)
        Z = zarr.create_array(
            Path(folder) / "Y.zarr", shape=shape, dtype=Y.dtype, chunks=(2500, 500)
        )
        Z[:] = Y
        want = lrmc.solve(Y, 5)
        size = np.abs(want.L).max(), np.abs(want.R).max()

        def show(name, result):
            far = [
                np.abs(np.asarray(F) - G).max() / s
                for F, G, s in zip(result.factors(), want.factors(), size)
            ]
            print(
                f"{name:32} {result.status}, {result.n_iter} passes, factors differ by {max(far):.1e}",
                flush=True,
            )

        print(want)
        show(
            "memmap, block by block",
            lrmc.solve(outofcore.blocks(mapped, memory="40MB"), 5),
        )
        show("zarr, block by block", lrmc.solve(outofcore.blocks(Z, memory="100MB"), 5))
        show("Dask, threads", lrmc.solve(da.from_zarr(Z), 5))
        options = {
            "n_workers": 2,
            "threads_per_worker": 1,
            "dashboard_address": "127.0.0.1:0",
        }
        with LocalCluster(**options) as cluster, Client(cluster):
            show("Dask, 2 processes", lrmc.solve(da.from_zarr(Z), 5))


DISK = """
import os, resource, sys, time
limit = int(2e9)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.path.insert(0, "benchmarks")
import numpy as np, lrmc
from lrmc import outofcore
from lrmc.observations.sources import InFile
from scale import best, factors, one_pass
path, n1, n2 = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
obs = outofcore.blocks(InFile(path, 0, (n1, n2), np.dtype(np.float32)), memory="600MB")
print(f"{len(obs.borders) - 1} blocks of {obs.borders[1]} rows", flush=True)
L, R = factors(n1, n2)
def reading():
    room = {}
    for first, last in zip(obs.borders, obs.borders[1:]):
        obs.source.read(slice(int(first), int(last)), room)
def forget():  # pages of the file that the system keeps in memory
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
size = n1 * n2 * 4 / 1e9
for state, before in (("kept in memory by the system", lambda: None), ("on disk only", forget)):
    read, passed = [], []
    for _ in range(3):
        before()
        read.append(best(reading, 1))
        before()
        passed.append(best(lambda: one_pass(obs, L, R), 1))
    ratio, speed = min(passed) / min(read), size / min(read)
    print(f"{state}: reading {min(read):.2f} s ({speed:.1f} GB/s), a pass {min(passed):.2f} s: {ratio:.2f} times")
began, rows = time.perf_counter(), obs.meter.rows
result = lrmc.solve(obs, 5)
seconds, passes = time.perf_counter() - began, (obs.meter.rows - rows) / n1
print(result)
print(f"{seconds:.0f} s for {passes:.1f} passes: {seconds / passes:.2f} s each")
status = open("/proc/self/status").read()
for name in ("VmHWM", "VmPeak"):
    print(name, round(int(status.split(name + ":")[1].split()[0]) / 1e6, 2), "GB")
"""


def disk(gigabytes=6.0):
    n2 = 2000
    n1 = int(gigabytes * GB / 4 / n2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Y.bin"
        written(path, n1, n2)
        os.sync()
        print(
            f"{n1} x {n2} float32, {path.stat().st_size / GB:.1f} GB; at most 2 GB of address space",
            flush=True,
        )
        subprocess.run([sys.executable, "-c", DISK, path, str(n1), str(n2)], check=True)


ROW_ENTRIES, SPARSE_COLUMNS = 100, 4000


def write_sparse(folder, n1, rank=5, rows=20_000):
    """A low-rank matrix of which each row has 100 entries, in three files: CSR."""
    rng = np.random.default_rng(0)
    R = rng.standard_normal((SPARSE_COLUMNS, rank)).astype(np.float32)
    step = SPARSE_COLUMNS // ROW_ENTRIES
    with open(folder / "indices", "wb") as indices, open(folder / "values", "wb") as v:
        for first in range(0, n1, rows):
            shape = (min(rows, n1 - first), ROW_ENTRIES)
            # one column of each 40, so that they are sorted and none comes twice
            cols = rng.integers(0, step, shape, np.int32)
            cols += np.arange(0, SPARSE_COLUMNS, step, dtype=np.int32)
            L = rng.standard_normal((shape[0], rank)).astype(np.float32)
            Y = np.einsum("ik,ijk->ij", L, R[cols])
            Y[rng.random(shape) < 0.05] += 10
            cols.tofile(indices)
            Y.tofile(v)
    begins = ROW_ENTRIES * np.arange(n1 + 1, dtype=np.int64)
    begins.tofile(folder / "indptr")


def sparse():
    """Data like 9.4e7 x 4e3, with fewer rows."""
    import scipy.sparse as sp

    n1 = int(os.environ.get("SCALE_ROWS", "940000"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sparse(folder, n1)
        os.sync()
        kinds = {"values": np.float32, "indices": np.int32, "indptr": np.int64}
        parts = [np.memmap(folder / k, kind, "r") for k, kind in kinds.items()]
        Y = sp.csr_array(tuple(parts), shape=(n1, SPARSE_COLUMNS))
        Y.has_canonical_format = True  # sorted: not looked at again
        obs = lrmc.as_observations(Y, threads=1)
        L, R = factors(n1, SPARSE_COLUMNS)
        room = bytearray(1 << 24)

        def forget():  # pages that are mapped, and those that the system keeps
            for kind, part in zip(kinds, parts, strict=True):
                part._mmap.madvise(mmap.MADV_DONTNEED)
                with open(folder / kind, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        def reading():
            for kind in kinds:
                with open(folder / kind, "rb", buffering=0) as file:
                    while file.readinto(room):
                        pass

        works = {
            "reading": reading,
            "clip": lambda: obs.pull(L, R, 2.0),
            "thresholds": lambda: one_pass(obs, L, R),
        }
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(
            f"{n1} x {SPARSE_COLUMNS}, {obs.n_observed:.2e} entries, {size / GB:.2f} GB; one thread, rank 5"
        )
        base = {}
        for state, before in (("in the page cache", lambda: None), ("on disk", forget)):
            for what, work in works.items():
                wall, spent = zip(*(timed(work, before) for _ in range(3)))
                base.setdefault(state, (min(wall), min(spent)))
                ratios = min(wall) / base[state][0], min(spent) / base[state][1]
                print(
                    f"{state}, {what}: {min(wall) * 1e9 / obs.n_observed:.2f} s for 1e9 entries"
                    f" ({min(spent) * 1e9 / obs.n_observed:.2f} s of a processor);"
                    f" {ratios[0]:.1f} ({ratios[1]:.1f}) times reading the files",
                    flush=True,
                )


def timed(work, before):
    """Seconds by the clock, and of the processor."""
    before()
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def dask_overhead(gigabytes=2.0, blocks=64):
    import dask.array as da

    n2 = 2000
    n1 = int(gigabytes * GB / 4 / n2) // blocks * blocks
    L, R = factors(n1, n2)
    Y = np.empty((n1, n2), np.float32)
    for rows in np.array_split(np.arange(n1), 50):
        Y[rows] = L[rows] @ R.T
    here = lrmc.as_observations(Y)
    there = lrmc.as_observations(da.from_array(Y, chunks=(n1 // blocks, n2)))
    a, b = [], []
    for _ in range(6):  # in turn: other work on the machine hits both
        a.append(best(lambda: one_pass(here, L, R), 1))
        b.append(best(lambda: one_pass(there, L, R), 1))
    more = 100 * (min(b) / min(a) - 1)
    print(
        f"{n1} x {n2}, {blocks} blocks, a pass: in memory {min(a):.3f} s, Dask {min(b):.3f} s: {more:+.1f} %"
    )
    spoiled = np.random.default_rng(2).integers(0, n2, n1)
    Y[np.arange(n1), spoiled] += 10
    a, b = [], []
    for _ in range(3):
        a.append(best(lambda: lrmc.solve(here, 5), 1))
        b.append(best(lambda: lrmc.solve(there, 5), 1))
    more = 100 * (min(b) / min(a) - 1)
    print(
        f"a whole solve: in memory {min(a):.2f} s, Dask {min(b):.2f} s: {more:+.1f} %"
    )


def moved_bytes():
    import dask.array as da
    from distributed import Client, LocalCluster
    from distributed.comm.tcp import TCP

    from lrmc._rows import scaled

    count, write = [0], TCP.write

    async def counted(self, *arguments, **options):
        size = await write(self, *arguments, **options)
        count[0] += size
        return size

    TCP.write = counted
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
    }
    with LocalCluster(protocol="tcp", **options) as cluster, Client(cluster):
        for n in (20_000, 80_000, 320_000):
            Y = da.random.default_rng(0).standard_normal(
                (n, 200), chunks=(n // 4, 200), dtype=np.float32
            )
            obs = lrmc.as_observations(Y)
            R = np.random.default_rng(1).random((200, 5)).astype(np.float32)
            L = scaled(obs.products(None, None, 1.0, Q=R)[0], 0.1)
            found = []
            for _ in range(4):
                count[0] = 0
                obs.pull(L, R, 1.0)
                found.append(count[0])
            print(
                f"n1 = {n:7}: {min(found) / 1e3:6.0f} kB in a pass; L has {n * 20 / 1e3:.0f} kB",
                flush=True,
            )


def workers():
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    n2, found = 1000, []
    for count in (1, 2):
        options = {
            "n_workers": count,
            "threads_per_worker": 1,
            "dashboard_address": "127.0.0.1:0",
        }
        with LocalCluster(**options) as cluster, Client(cluster):
            for blocks, gigabytes in ((8, 0.25), (8, 1.0), (32, 1.0)):
                n1 = int(gigabytes * GB / 4 / n2) // blocks * blocks
                Y = da.random.default_rng(0).standard_normal(
                    (n1, n2), chunks=(n1 // blocks, n2), dtype=np.float32
                )
                obs = lrmc.as_observations(wait(Y.persist()) and Y.persist())
                R = np.random.default_rng(1).random((n2, 5)).astype(np.float32)
                L = obs.products(None, None, 1.0, Q=R)[0]
                seconds = best(partial(obs.pull, L, R, 1.0), 6)
                found.append((count, blocks, gigabytes, seconds))
                print(
                    f"{count} worker(s), {blocks} blocks, {gigabytes} GB: {seconds:.3f} s a pass",
                    flush=True,
                )
    # seconds = latency + per block + bytes / (speed of a worker * workers)
    A = np.array(
        [[1, blocks, gigabytes / count] for count, blocks, gigabytes, _ in found]
    )
    latency, block, gigabyte = np.linalg.lstsq(
        A, np.array([x[-1] for x in found]), rcond=None
    )[0]
    print(
        f"fit: {1e3 * latency:.0f} ms + {1e3 * block:.2f} ms per block + {gigabyte:.3f} s per GB and worker"
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    jobs = {
        "same": same,
        "disk": disk,
        "dask": dask_overhead,
        "bytes": moved_bytes,
        "workers": workers,
        "sparse": sparse,
    }
    for name in sys.argv[1:] or list(jobs):
        print(f"---- {name}", flush=True)
        jobs[name]()

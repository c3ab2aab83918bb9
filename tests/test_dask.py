"""Dask arrays are solved where they lie: by threads of this process, or by the workers
of a cluster.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from comparing import assert_close, by_steps
from presentations import small

import lrmc
import lrmc.outofcore
from lrmc._rows import (
    Elsewhere,
    Joined,
    Largest,
    beside,
    each,
    scaled,
    take,
    turned,
    where,
)
from lrmc.linalg import balanced, gram
from lrmc.methods.noisy import Noise, sweeps
from lrmc.observations.blocks import BlockError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
dasked = pytest.importorskip("lrmc.observations.dask")

# distributed leaves sockets and loops to the garbage collector
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed"),
]


def problem(n=300, n2=80, p=0.7, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, 3)) @ rng.standard_normal(
        (n2, 3)
    ).T + noise * rng.standard_normal((n, n2))
    Y[rng.random(Y.shape) < 0.05] += 10
    Y[rng.random(Y.shape) > p] = np.nan
    return Y


CHUNKS = {"rows": (70, 80), "columns": (300, 30), "grid": (70, 30)}
every_chunks = pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())


# ---- threads of this process


@every_chunks
@pytest.mark.parametrize("noise", [0.0, 0.1], ids=["exact", "noisy"])
def test_the_same_factors_as_in_memory(chunks, noise):
    Y = problem(noise=noise)
    got, want = lrmc.solve(da.from_array(Y, chunks=chunks)), by_steps(Y)
    assert (got.rank, got.status, got.regime, got.n_iter) == (
        want.rank,
        want.status,
        want.regime,
        want.n_iter,
    )
    # small tables with noise are fitted in single precision in memory
    exact = {"factor": 1e3} if noise == 0 else {"dtype": np.float32}
    assert_close(got.low_rank(), want.low_rank(), **exact)


def test_results_are_lazy():
    Y = problem()
    result = lrmc.solve(da.from_array(Y, chunks=(70, 80)), 3)
    X = result.low_rank()
    assert all(isinstance(x, da.Array) for x in (result.L, X, result.outliers()))
    assert X.chunks[0] == (70, 70, 70, 70, 20)
    assert_close(X[10:20].compute(), np.asarray(result.L)[10:20] @ result.R.T)
    want = by_steps(Y, 3)
    np.testing.assert_allclose(result.outliers().compute(), want.outliers(), atol=1e-8)


def test_rows_and_columns_without_observation_are_nan():
    Y = problem()
    Y[5] = Y[:, 7] = np.nan
    with pytest.warns(UserWarning, match="no observation"):
        result = lrmc.solve(da.from_array(Y, chunks=(70, 80)), 3)
    X = result.low_rank().compute()
    np.testing.assert_array_equal(np.isnan(X).all(1).nonzero()[0], [5])
    np.testing.assert_array_equal(np.isnan(X).all(0).nonzero()[0], [7])
    np.testing.assert_array_equal(result.undetermined_rows, [5])


def test_results_are_saved_and_loaded(tmp_path):
    result = lrmc.solve(da.from_array(problem(), chunks=(70, 80)), 3)
    result.save(tmp_path / "result.npz")
    assert_close(lrmc.Result.load(tmp_path / "result.npz").L, result.L)


def test_bad_arrays_are_refused():
    for bad, words in (
        (da.zeros((3, 3, 3)), "2-D"),
        (da.zeros((0, 3)), "empty"),
        (da.full((9, 9), np.nan), "nothing is observed"),
        (da.full((4, 4), np.inf), "16 observed entries are infinite"),
        (da.zeros((4, 4), dtype=complex), "complex"),
    ):
        with pytest.raises(ValueError, match=words):
            lrmc.as_observations(bad)
    with pytest.raises(ValueError, match="mask has shape"):
        lrmc.as_observations(da.zeros((4, 5)), da.zeros((5, 4), dtype=bool))
    with pytest.raises(ValueError, match="booleans are wanted"):
        lrmc.as_observations(da.zeros((4, 5)), da.full((4, 5), 0.5))


def test_masks_that_are_here_are_looked_at():
    Y, damaged = da.ones((4, 5)), sp.csr_array(np.ones((4, 5)))
    damaged.indices[0] = 2**30
    with pytest.raises(ValueError, match="is damaged"):
        lrmc.as_observations(Y, damaged)
    with pytest.raises(ValueError, match="mask holds 255"):
        lrmc.as_observations(Y, np.full((4, 5), 255, np.uint8))
    # zeros and ones, as in memory
    assert lrmc.as_observations(Y, np.eye(4, 5)).n_observed == 4


def test_an_array_of_unknown_length_stays_as_it_was():
    Y = da.from_array(np.arange(1.0, 21).reshape(4, 5), chunks=(2, 5))
    some = Y[da.from_array(np.array([True, False, True, True]), chunks=2)]
    assert lrmc.as_observations(some).shape == (3, 5)
    assert np.isnan(some.shape[0])


@pytest.mark.parametrize("chunks", [(10, 37), (23, 8)], ids=["rows", "columns"])
def test_declared_missing_values(chunks):
    xr = pytest.importorskip("xarray")
    s = small(p=0.6)
    values = da.from_array(
        np.where(s.mask, s.values, -1).astype(np.int16), chunks=chunks
    )
    obs = lrmc.as_observations(xr.DataArray(values, attrs={"_FillValue": -1}))
    np.testing.assert_array_equal(obs.row_observed, s.mask.sum(1))


def broken(Y, block, times):
    """A Dask array one of whose blocks cannot be read any more after some times."""
    left = [times]

    def read(rows):
        if rows[0] == block * 10:
            left[0] -= 1
            if left[0] < 0:
                raise OSError("the disk is gone")
        return Y[rows]

    rows = da.arange(len(Y), chunks=10)
    return rows.map_blocks(
        read,
        dtype=Y.dtype,
        new_axis=1,
        chunks=(rows.chunks[0], (Y.shape[1],)),
        meta=Y[:0],
    )


def test_a_block_that_cannot_be_read_is_named():
    obs = lrmc.as_observations(broken(problem(n=40), 2, 3))
    with pytest.raises(
        BlockError,
        match=r"block 2 of 4 \(lines 20 to 29\) could not be read: the disk is gone",
    ):
        lrmc.solve(obs, 3)


def test_threads_are_shared(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    seen = []

    def look(x):
        seen.append(
            (
                dask.config.get("num_workers"),
                {
                    p["num_threads"]
                    for p in threadpoolctl.threadpool_info()
                    if p["user_api"] == "blas"
                },
            )
        )
        return x

    Y = da.from_array(problem(n=40), chunks=(10, 80)).map_blocks(look, dtype=float)
    obs = lrmc.as_observations(Y, threads=3)
    # a task has one, and three run at a time
    assert (obs.threads, obs.reading.threads) == (3, 1)
    assert set(map(str, seen)) == {str((3, {1}))}
    assert (
        lrmc.as_observations(
            da.from_array(problem(n=40), chunks=(20, 80)), threads=8
        ).reading.threads
        == 4
    )
    # as OMP_NUM_THREADS says
    monkeypatch.setattr(lrmc._kernels, "max_threads", lambda: 5)
    seen.clear()
    assert lrmc.as_observations(Y).threads == 5
    assert {workers for workers, _ in seen} == {5}


@pytest.mark.parametrize("form", ["threads", "disk"])
def test_principal_components(form, tmp_path):
    pytest.importorskip("sklearn")
    Y = problem(noise=0.05)
    X = da.from_array(Y, chunks=(70, 80))
    if form == "disk":
        from presentations import on_disk

        X = lrmc.outofcore.blocks(on_disk(Y, tmp_path, (70, 80)), memory="500kB")
    got, want = lrmc.RobustPCA(3).fit(X), lrmc.RobustPCA(3).fit(Y)
    assert_close(got.components_, want.components_, factor=1e5)
    assert_close(got.transform(X), want.transform(Y), factor=1e5)
    assert got.n_features_in_ == 80
    with pytest.raises(ValueError, match="80 features"):
        got.transform(da.zeros((4, 7)))
    with pytest.raises(ValueError, match="whole rows"):
        lrmc.RobustPCA(3).fit(da.from_array(Y, chunks=(300, 10)))


# ---- a cluster


@pytest.fixture(scope="module")
def client():
    """Workers that are threads of this process, but speak over sockets as others do."""
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
    }
    with (
        distributed.LocalCluster(protocol="tcp", **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("chunks", [(100, 80), (300, 40)], ids=["rows", "columns"])
def test_steps_on_a_cluster(client, chunks):
    Y = problem()
    obs = lrmc.as_observations(da.from_array(Y, chunks=chunks).persist())
    *_, got = islice(lrmc.iterates(obs, 3), 4)
    flip = chunks[1] < 80  # blocks of columns: the transposed problem is solved
    *_, want = islice(lrmc.iterates(Y.T.copy() if flip else Y, 3), 4)
    want = replace(want, L=want.R, R=want.L) if flip else want
    assert isinstance(got.L if chunks[1] == 80 else got.R, Elsewhere)
    assert isinstance(got.R if chunks[1] == 80 else got.L, np.ndarray)
    assert_close(got.L, want.L, factor=1e3)
    assert_close(got.R, want.R, factor=1e3)
    assert (got.zeta, got.inliers) == (pytest.approx(want.zeta), want.inliers)


def test_a_solve_on_a_cluster(client):
    Y = problem(n=200) + 5  # with a centre
    got, want = (
        by_steps(X, 4, tol=1e-3)
        for X in (da.from_array(Y, chunks=(100, 80)).persist(), Y)
    )
    assert isinstance(got.L, da.Array)
    assert (got.status, got.n_iter) == (want.status, want.n_iter)
    assert_close(got.low_rank(), want.low_rank(), factor=1e4)
    assert got.outlier_fraction == pytest.approx(want.outlier_fraction, abs=1e-4)


def test_sweeps_on_a_cluster(client):
    Y = problem(noise=0.1)
    rng = np.random.default_rng(1)
    X = lrmc.linalg.Factors(*(rng.standard_normal((n, 3)) for n in Y.shape))
    here, there = (
        lrmc.as_observations(Y),
        lrmc.as_observations(da.from_array(Y, chunks=(150, 80)).persist()),
    )
    (want,), (got,) = (
        list(sweeps(obs, X, Noise.even(obs, "cauchy"), 1)) for obs in (here, there)
    )
    assert isinstance(got.L, Elsewhere)
    assert_close(got.L, want.L, factor=1e3)
    assert_close(got.R, want.R, factor=1e3)


def _paired(block, rows, same):
    return rows, ()


def on_workers(*arrays):
    """Arrays of numpy on the cluster."""
    n = len(arrays[0])
    obs = lrmc.as_observations(da.from_array(np.ones((n, 2)), chunks=(n // 3, 2)))
    out, _ = obs.round(_paired, arrays, None)
    assert all(isinstance(x, Elsewhere) for x in out)
    return out


def _work(rows, factor):
    X, Z = rows
    return (factor * X, X - Z), (X.sum(0), Largest(X.max()), Joined.of(X[:1]))


def _positive(rows, column):
    return rows[0][:, column] > 0


def test_a_round_of_rows_on_a_cluster(client):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 60, 4))
    X, Z = on_workers(A, B)
    assert (X.shape, len(X), X.ndim, X.dtype) == (A.shape, 60, 2, A.dtype)
    assert "3 blocks" in repr(X)
    (doubled, apart), (total, largest, first) = each(_work, (X, Z), 2)
    np.testing.assert_allclose(np.asarray(doubled), 2 * A)
    np.testing.assert_allclose(np.asarray(apart), A - B)
    np.testing.assert_allclose(total, A.sum(0))
    assert largest == A.max()
    np.testing.assert_array_equal(first.lines, A[::20])
    here = each(_work, (X, B), 2)[0][1]  # beside an array of this process
    np.testing.assert_allclose(np.asarray(here), A - B)


def test_algebra_of_rows_on_a_cluster(client):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 60, 4))
    X, Z = on_workers(A, B)
    small, rows = rng.standard_normal((4, 3)), rng.integers(0, 60, 20)
    np.testing.assert_array_equal(take(X, rows), A[rows])
    np.testing.assert_array_equal(
        where(_positive, (X,), 2), np.flatnonzero(A[:, 2] > 0)
    )
    np.testing.assert_allclose(np.asarray(turned(X, small)), A @ small)
    np.testing.assert_allclose(np.asarray(beside(X, Z)), np.hstack([A, B]))
    np.testing.assert_allclose(take(scaled(X, 4.0), rows), 4 * A[rows])
    np.testing.assert_allclose(np.asarray(scaled(X, 0.5).as_dask()), A / 2)
    np.testing.assert_allclose(gram(X, Z), gram(A, B))
    R = rng.standard_normal((9, 4))
    Y = balanced(X, R)
    np.testing.assert_allclose(np.asarray(Y.L) @ Y.R.T, A @ R.T, atol=1e-10)


def test_a_step_of_the_closed_loop_is_two_graphs(client, monkeypatch):
    sent, seen = [], []
    for name in ("compute", "persist"):
        inner = getattr(dask, name)
        monkeypatch.setattr(
            dask, name, lambda *a, inner=inner, **k: sent.append(1) or inner(*a, **k)
        )
    Y = da.from_array(problem(n=400), chunks=(100, 80)).persist()
    lrmc.solve(Y, 3, tol=1e-3, progress=lambda it: seen.append((it.stage, len(sent))))
    steps = [b - a for (_, a), (stage, b) in pairwise(seen) if stage == "exact"][1:]
    assert len(steps) > 3
    assert max(steps) <= 2


@pytest.mark.parametrize("kept", [True, False], ids=["persisted", "made again"])
def test_bytes_moved_do_not_grow_with_the_rows(client, kept, monkeypatch):
    """Two passes and a Gram matrix, counted at the sockets: client, scheduler and
    workers together.
    """
    from distributed.comm.tcp import TCP

    moved, write = [0], TCP.write

    async def counted(self, *arguments, **options):
        count = await write(self, *arguments, **options)
        moved[0] += count
        return count

    monkeypatch.setattr(TCP, "write", counted)
    found = {}
    for n in (30_000, 240_000):
        rng = da.random.default_rng(0)
        Y = rng.standard_normal((n, 20), chunks=(n // 2, 20), dtype=np.float32)
        obs = lrmc.as_observations(Y.persist() if kept else Y)
        assert isinstance(obs.data[0], da.Array if kept else dasked.made.Reads)
        R = np.random.default_rng(1).random((20, 3))
        counts = []
        for _ in range(3):  # heartbeats come now and then: the least counts
            moved[0] = 0
            L, _ = obs.products(None, None, 1.0, Q=R)
            CR, _ = obs.pull(scaled(L, 0.1), R, 1.0)
            gram(CR)
            counts.append(moved[0])
        found[n] = min(counts)
    assert found[240_000] < 1.2 * found[30_000] + 20_000
    # a hundredth of what the rows of L in two passes would be
    assert found[240_000] < 240_000


@pytest.mark.slow
def test_the_command_on_a_cluster(client, tmp_path):
    from presentations import on_disk

    from lrmc.complete import blockwise as large

    Y = problem()
    source = on_disk(Y, tmp_path, (100, 80)).store.root
    places = {"outliers_to": tmp_path / "S.zarr", "report_to": tmp_path / "page.html"}
    options = {"scheduler": client.scheduler.address, "scale": "columns", "fill": "all"}
    done = large.complete_large(source, tmp_path / "out.npy", 3, **places, **options)
    assert done.result.converged
    want = by_steps(done.units.removed(Y), 3).low_rank()
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), done.units.put_back(want), atol=1e-4
    )
    assert {p.name for p in tmp_path.iterdir()} == {
        source.name,
        "out.npy",
        "S.zarr",
        "page.html",
    }


# ---- processes


@pytest.mark.slow
def test_a_worker_that_is_killed():
    """It is started again, reads its blocks again and makes its rows of L again: the
    answer is the same.
    """
    Y = problem(n=200)
    want, killed = by_steps(Y, 3, tol=1e-3), []
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
    }
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill(it):
            if it.k == 2 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        got = lrmc.solve(da.from_array(Y, chunks=(100, 80)), 3, tol=1e-3, progress=kill)
        assert killed
        assert (got.status, got.n_iter) == (want.status, want.n_iter)
        assert_close(got.low_rank(), want.low_rank(), factor=1e4)
        assert_close(got.R, want.R, factor=1e4)


CLUSTER = """
import time
import distributed
options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
with distributed.LocalCluster(protocol="tcp", **options) as cluster:
    print(cluster.scheduler_address, flush=True)
    time.sleep(100)
"""


@pytest.fixture
def doomed():
    """A cluster in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdout=subprocess.PIPE, text=True
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.slow
def test_a_scheduler_that_is_killed(doomed, tmp_path):
    """It is told at once, by its address, and not as a block that could not be read."""
    from presentations import on_disk

    from lrmc.complete import blockwise as large

    process, address = doomed
    source = on_disk(problem(n=200), tmp_path, (50, 80)).store.root
    killed = []

    def kill(at):
        if at.note.startswith("iteration 2,"):
            process.kill()
            process.wait()
            killed.append(time.monotonic())

    with pytest.raises(
        dasked.ClusterLostError, match=f"the Dask cluster at {address} was lost"
    ):
        large.complete_large(
            source, tmp_path / "out.npy", 3, scheduler=address, progress=kill
        )
    # Dask would try for half a minute to be connected again
    assert time.monotonic() - killed[0] < 20
    assert [p.name for p in tmp_path.iterdir()] == [source.name]


def test_a_worker_that_dies_again_and_again_is_told_by_the_block():
    class KilledWorker(Exception):
        task = "('lrmc-products-0a', 2)"

    error = dasked.cluster.killed(KilledWorker(), np.array([0, 10, 20, 25]))
    assert str(error).startswith(
        "workers died while they computed with block 2 of 3 (lines 20 to 24)"
    )

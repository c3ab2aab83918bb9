"""Matrices on disk: read block by block, solved as those in memory are, and written
block by block.
"""

import subprocess
import sys
from functools import cache
from itertools import islice

import numpy as np
import pytest
from comparing import assert_close, by_steps
from each import each
from presentations import Small, hdf5, on_disk, small

import lrmc
from lrmc import outofcore
from lrmc.observations import Transposed
from lrmc.observations.blocks import BlockError
from lrmc.observations.rows_from_disk import RowBlocks
from lrmc.observations.watched import ChangedError

pytest.importorskip("zarr")


def problem(n=300, n2=80, rank=3, alpha=0.05, p=0.7, seed=0, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((n2, rank)).T
    Y = X + noise * rng.standard_normal(X.shape)
    Y[rng.random(Y.shape) < alpha] += 10
    mask = rng.random(Y.shape) < p
    return Small(Y, mask, X)


def as_memmap(values, folder, offset=0, order="C"):
    path = folder / "data.bin"
    Y = np.memmap(
        path, values.dtype, "w+", offset=offset, shape=values.shape, order=order
    )
    Y[:] = values
    Y.flush()
    return np.memmap(
        path, values.dtype, "r", offset=offset, shape=values.shape, order=order
    )


WAYS = {
    "zarr": lambda Y, folder: on_disk(Y, folder, (40, 80)),
    "zarr by columns": lambda Y, folder: on_disk(Y, folder, (300, 8)),
    "memmap": as_memmap,
    "memmap by columns": lambda Y, folder: as_memmap(Y, folder, order="F"),
    "HDF5": lambda Y, folder: hdf5(Small(Y, ~np.isnan(Y), Y), folder).Y,
}
slow = pytest.mark.slow
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@cache
def in_memory(noise, rank):
    return by_steps(problem(noise=noise).nan, rank)


@every_way
@pytest.mark.parametrize(
    ("noise", "rank"),
    [
        (0.0, 3),
        pytest.param(0.0, None, marks=pytest.mark.slow),
        pytest.param(0.1, 3, marks=pytest.mark.slow),
        (0.1, None),
    ],
    ids=["exact, rank given", "exact", "noisy, rank given", "noisy"],
)
def test_the_same_factors_as_in_memory(way, noise, rank, tmp_path):
    s = problem(noise=noise)
    obs = outofcore.blocks(way(s.nan, tmp_path), memory="400kB")
    assert len(getattr(obs, "of", obs).borders) > 4
    got, want = lrmc.solve(obs, rank), in_memory(noise, rank)
    assert (got.rank, got.status, got.regime, got.n_iter) == (
        want.rank,
        want.status,
        want.regime,
        want.n_iter,
    )
    # small tables with noise are fitted in single precision in memory
    kind = {"factor": 1e3} if noise == 0 else {"dtype": np.float32}
    assert_close(got.low_rank(), want.low_rank(), **kind)
    assert got.noise_level == pytest.approx(want.noise_level, rel=1e-3)
    S = np.nan_to_num(want.outliers())
    kind = {"factor": 1e4} if noise == 0 else {"dtype": np.float32}
    assert_close(got.outliers().toarray(), S, **kind)


def test_held_out_choices_are_the_same(tmp_path):
    s = problem(n=150, noise=0.2)
    obs = outofcore.blocks(as_memmap(s.nan, tmp_path), memory=200_000)
    got, want = (lrmc.solve(Y, loss="cauchy") for Y in (obs, s.nan))
    assert got.rank == want.rank
    assert_close(got.low_rank(), want.low_rank(), factor=1e3)


def test_learned_schedules_and_baselines(tmp_path):
    s = problem(n=200, p=1.0, alpha=0.1)
    obs = outofcore.blocks(on_disk(s.values, tmp_path, (30, 80)), memory="200kB")
    tuning = lrmc.schedule.Tuning(alpha=0.15)
    for options in (
        {"schedule": "geometric", "method": "lrmc"},
        {"schedule": tuning, "method": "scaled_gd"},
    ):
        *_, got = islice(lrmc.iterates(obs, 3, **options), 8)
        *_, want = islice(lrmc.iterates(s.values, 3, **options), 8)
        assert_close(got.L, want.L, factor=1e4)
        assert_close(got.R, want.R, factor=1e4)


def test_large_arrays_come_in_blocks_by_themselves(tmp_path, monkeypatch):
    s = problem(n=400)
    z, m = on_disk(s.nan, tmp_path, (10, 80)), as_memmap(s.nan, tmp_path)
    for Y in (z, m):
        assert not isinstance(lrmc.as_observations(Y), RowBlocks)
    monkeypatch.setattr("lrmc._memory.memory_there_is", lambda: 900_000)
    for Y in (z, m):
        assert isinstance(lrmc.as_observations(Y), RowBlocks)
    # it is in memory already
    assert isinstance(lrmc.as_observations(s.nan), lrmc.observations.Dense)
    assert lrmc.solve(z, 3).converged


def test_integers_stay_integers(tmp_path):
    s = small(n1=60, n2=50, p=1.0)
    z = on_disk(s.values.astype(np.uint8), tmp_path, (10, 50))
    obs = outofcore.blocks(z, memory="10kB")
    (block,) = (block for b, block in obs._read([2]))
    assert block.Y.dtype == np.uint8
    assert obs.dtype == np.float32
    # zeros are data: the fill value of zarr is only what was never written
    assert obs.fraction == 1


@pytest.mark.parametrize("name", ["_FillValue", "missing_value", "nodata"])
def test_declared_missing_values(name, tmp_path):
    s = small(p=0.6)
    z = on_disk(
        np.where(s.mask, s.values, 255).astype(np.uint8),
        tmp_path,
        (10, 37),
        **{name: 255},
    )
    s.mask[s.values == 255] = False
    np.testing.assert_array_equal(
        outofcore.blocks(z, memory="100kB").row_observed, s.mask.sum(1)
    )


def test_a_part_of_a_memmap(tmp_path):
    """Its attribute `offset` is that of the whole."""
    s = problem(n=100)
    Y = as_memmap(s.values, tmp_path, offset=4096 + 24)
    for part in (Y, Y[10:], Y[13:77]):
        obs = outofcore.blocks(part, memory="200kB")
        np.testing.assert_array_equal(obs.block(slice(None), slice(None)), part)
    strided = outofcore.blocks(Y[::2, 3:], memory="200kB")
    np.testing.assert_array_equal(strided.block(slice(None), slice(None)), Y[::2, 3:])


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_are_read_without_mapping(order, tmp_path):
    s = problem(n=100)
    np.save(tmp_path / "Y.npy", np.asarray(s.nan, order=order))
    obs = outofcore.blocks(outofcore.in_npy(tmp_path / "Y.npy"), memory="200kB")
    assert isinstance(obs, Transposed) == (order == "F")
    np.testing.assert_array_equal(obs.grid(np.arange(100), np.arange(80)), s.nan)
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(ValueError, match="2-D"):
        outofcore.in_npy(tmp_path / "x.npy")


def test_what_is_on_disk_is_not_loaded_to_look_at_it(tmp_path, monkeypatch):
    pytest.importorskip("dask.array")
    monkeypatch.setattr("lrmc._memory.memory_there_is", lambda: 900_000)
    Y = hdf5(problem(n=400), tmp_path).Y
    assert isinstance(lrmc.as_observations(Y), RowBlocks)
    assert not Y.variable._in_memory


def test_blocks_are_whole_chunks(tmp_path):
    z = on_disk(np.ones((100, 20)), tmp_path, (7, 20))
    obs = outofcore.blocks(z, memory=8 * 2500)
    assert np.all(obs.borders[:-1] % 7 == 0)
    assert np.diff(obs.borders)[0] == 14
    assert isinstance(
        outofcore.blocks(
            on_disk(np.ones((100, 20)), tmp_path, (100, 2)), memory=80_000
        ),
        Transposed,
    )


@each(
    ("text", "size"),
    [
        ("2GB", 2e9),
        ("500 MB", 5e8),
        ("1.5GiB", 1.5e9),
        ("70000", 7e4),
        (12345, 12345),
        ("3k", 3000),
    ],
)
def test_memory_in_words(text, size):
    assert outofcore.as_bytes(text) == size


@pytest.mark.parametrize("text", ["much", "-1GB", "0", "", "2XB"])
def test_memory_that_means_nothing(text):
    with pytest.raises(ValueError, match="2GB"):
        outofcore.as_bytes(text)


def test_bad_arrays_are_refused(tmp_path):
    Y = problem(n=40).values
    with pytest.raises(ValueError, match="too much for 0 MB"):
        outofcore.blocks(on_disk(Y, tmp_path, (40, 80)), memory=20_000)
    with pytest.raises(ValueError, match="mask has shape"):
        outofcore.blocks(on_disk(Y, tmp_path, (4, 80)), Y[1:] > 0)
    with pytest.raises(ValueError, match="2-D"):
        outofcore.blocks(on_disk(Y[0], tmp_path, (4,)))
    with pytest.raises(ValueError, match="nothing is observed"):
        outofcore.blocks(on_disk(np.full((9, 8), np.nan), tmp_path, (4, 8)))
    Y[3, 3] = np.inf
    with pytest.raises(ValueError, match="1 observed entries are infinite"):
        outofcore.blocks(on_disk(Y, tmp_path, (4, 80)))
    with pytest.raises(ValueError, match="complex"):
        outofcore.blocks(on_disk(Y[4:].astype(complex), tmp_path, (4, 80)))


class Broken:
    """An array whose third part cannot be read after the first pass."""

    chunks, shape, ndim, dtype = (10, 80), (40, 80), 2, np.dtype(float)

    def __init__(self):
        self.reads = 0

    def __getitem__(self, rows):
        self.reads += 1
        if self.reads > 6 and rows.start == 20:
            raise OSError("the disk is gone")
        return np.ones((rows.stop - rows.start, 80))


def test_a_block_that_cannot_be_read_is_named():
    obs = outofcore.blocks(Broken(), memory=60_000)
    with pytest.raises(
        BlockError,
        match=r"block 2 of 4 \(lines 20 to 29\) could not be read: the disk is gone",
    ):
        lrmc.solve(obs, 1)


def test_a_file_that_became_shorter(tmp_path):
    Y = as_memmap(problem(n=100).values, tmp_path)
    obs = outofcore.blocks(Y, memory="100kB")
    (tmp_path / "data.bin").write_bytes(b"0" * 1000)
    with pytest.raises(ChangedError, match="changed or vanished while it was read"):
        obs.pull(np.ones((100, 1)), np.ones((80, 1)), 1.0)


def test_the_next_block_is_read_while_one_is_used(tmp_path):
    s = problem(n=100)
    obs = outofcore.blocks(as_memmap(s.nan, tmp_path), memory="100kB")
    # buffers are used in turn: the one in use stays as it is
    for b, block in obs._read(range(3)):
        first, last = obs.borders[b : b + 2]
        np.testing.assert_array_equal(block.Y, s.nan[first:last])


@pytest.mark.parametrize("chunks", [(40, 80), (300, 8)], ids=["rows", "columns"])
def test_the_completed_matrix_is_written(chunks, tmp_path):
    s = problem()
    s.mask[5] = s.mask[:, 7] = False
    with pytest.warns(UserWarning, match="no observation"):
        result = lrmc.solve(
            outofcore.blocks(on_disk(s.nan, tmp_path, chunks), memory="400kB"), 3
        )
    large = result.outliers().toarray() != 0
    replaced = {"all": True, "missing": ~s.mask, "missing+outliers": ~s.mask | large}
    for fill, new in replaced.items():
        place = tmp_path / fill
        place.mkdir()
        for name in ("out.npy", "out.zarr"):
            outofcore.write_completed(result, place / name, fill=fill)
        want = np.where(new, result.low_rank(), s.values)
        for got in (np.load(place / "out.npy"), zarr_at(place / "out.zarr")):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
            assert np.isnan(got[5]).all()


def zarr_at(path):
    import zarr

    return zarr.open_array(path, mode="r")[:]


def test_results_in_memory_are_written_too(tmp_path):
    s = problem()
    result = lrmc.solve(s.nan, 3)
    outofcore.write_completed(result, tmp_path / "out.npy")
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), result.low_rank(), rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"\.zarr or \.npy"):
        outofcore.write_completed(result, tmp_path / "out.csv")
    with pytest.raises(ValueError, match="fill='nothing'"):
        outofcore.write_completed(result, tmp_path / "out.npy", fill="nothing")
    result.save(tmp_path / "result.npz")
    with pytest.raises(ValueError, match="needs the data"):
        outofcore.write_completed(
            lrmc.Result.load(tmp_path / "result.npz"),
            tmp_path / "x.npy",
            fill="missing",
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.npy", "result.npz"]


def test_outliers_are_written(tmp_path):
    import zarr

    s = problem()
    result = lrmc.solve(
        outofcore.blocks(on_disk(s.nan, tmp_path, (40, 80)), memory="400kB"), 3
    )
    count = outofcore.write_outliers(result, tmp_path / "S.zarr")
    S, group = result.outliers(), zarr.open_group(tmp_path / "S.zarr", mode="r")
    assert count == S.nnz > 100
    np.testing.assert_allclose(S[group["row"][:], group["col"][:]], group["value"][:])


# The peak is that of the whole process; numbers are written through a file of its own, and mapped
# pages would count.
MEASURE = """
import sys, warnings
import numpy as np, lrmc
from lrmc import outofcore
path, n = sys.argv[1], 60_000
Y = np.memmap(path, np.float32, "r", shape=(n, 400))
def kilobytes(what):
    return int(open("/proc/self/status").read().split(what + ":")[1].split()[0])
lrmc.solve(np.outer(np.arange(1.0, 9), np.arange(1.0, 7)), 1)  # imports what is needed
before = kilobytes("VmRSS")
result = lrmc.solve(outofcore.blocks(Y, memory="24MB"), 3)
outofcore.write_completed(result, sys.argv[2])
print(kilobytes("VmHWM") - before, result.converged)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_is_that_of_some_blocks(tmp_path):
    """96 MB of data: solved and written with less than 48 MB beside the interpreter."""
    rng, path = np.random.default_rng(0), tmp_path / "data.bin"
    R = rng.standard_normal((400, 3), dtype=np.float32)
    with open(path, "wb") as file:
        for _ in range(60):
            Y = rng.standard_normal((1000, 3), dtype=np.float32) @ R.T
            Y[rng.integers(0, 1000, 9000), rng.integers(0, 400, 9000)] = 9
            Y.tofile(file)
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, path, tmp_path / "out.npy"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    kilobytes, converged = run.stdout.split()
    assert converged == "True"
    assert int(kilobytes) < 48 * 1024
    assert (tmp_path / "out.npy").stat().st_size > 96e6

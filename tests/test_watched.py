"""Data that change or vanish while they are read are noticed, whatever they are read from."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from presentations import Small, hdf5, on_disk

import lrmc
from lrmc import outofcore
from lrmc.observations.watched import ChangedError, watched

zarr = pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def Y():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((100, 2)) @ rng.standard_normal((40, 2)).T
    Y[rng.random(Y.shape) < 0.05] += 10
    return Y


def npy(Y, folder):
    np.save(folder / "Y.npy", Y)
    return outofcore.in_npy(folder / "Y.npy"), folder / "Y.npy"


def memmap(Y, folder):
    _, path = npy(Y, folder)
    return np.load(path, mmap_mode="r"), path


def strided(Y, folder):
    whole, path = memmap(np.repeat(Y, 2, axis=0), folder)
    return whole[::2], path


def in_zarr(Y, folder):
    array = on_disk(Y, folder, (10, 40))
    return array, array.store.root


def in_group(Y, folder):
    group = zarr.open_group(folder / "group.zarr", mode="w")
    array = group.create_array("A", shape=Y.shape, dtype=Y.dtype, chunks=(10, 40))
    array[:] = Y
    return array, folder / "group.zarr" / "A"


def second_version(Y, folder):
    path = folder / "old.zarr"
    array = zarr.create_array(
        path, shape=Y.shape, dtype=Y.dtype, chunks=(10, 40), zarr_format=2
    )
    array[:] = Y
    return array, path


def in_hdf5(Y, folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "Y.h5", "w") as file:
        file["Y"] = Y
    return h5py.File(folder / "Y.h5")["Y"], folder / "Y.h5"


def by_xarray(Y, folder):
    array = hdf5(Small(Y, np.ones(Y.shape, bool), Y), folder).Y
    return array, Path(array.encoding["source"])


def zarr_by_xarray(Y, folder):
    xr = pytest.importorskip("xarray")
    path = folder / "x.zarr"
    xr.Dataset({"Y": (("a", "b"), Y)}).to_zarr(
        path, consolidated=False, encoding={"Y": {"chunks": (10, 40)}}
    )
    return xr.open_dataset(path, engine="zarr", chunks=None, consolidated=False)[
        "Y"
    ], path


KINDS = [
    npy,
    memmap,
    strided,
    in_zarr,
    in_group,
    second_version,
    in_hdf5,
    by_xarray,
    zarr_by_xarray,
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def gone(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def written_anew(path):
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    last = max(files, key=lambda p: p.stat().st_size)
    last.write_bytes(last.read_bytes())


def one_chunk_less(path):
    """Of a zarr array: what is gone is read as zeros."""
    max(
        (p for p in path.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size
    ).unlink()


@pytest.mark.parametrize(
    "kind", [in_zarr, in_group, second_version], ids=lambda kind: kind.__name__
)
def test_a_chunk_that_vanishes_in_mid_run_is_noticed(kind, Y, tmp_path):
    test_what_happens_to_data_in_mid_run_is_noticed(kind, one_chunk_less, Y, tmp_path)


@every_kind
@pytest.mark.parametrize("happens", [gone, written_anew])
def test_what_happens_to_data_in_mid_run_is_noticed(kind, happens, Y, tmp_path):
    array, path = kind(Y, tmp_path)
    obs = outofcore.blocks(array, memory="60kB")
    with pytest.raises(ChangedError, match="changed or vanished while it was read"):
        lrmc.solve(obs, 2, progress=lambda it: happens(path) if it.k == 3 else None)


@every_kind
def test_data_that_stay_are_read_to_the_end(kind, Y, tmp_path):
    array, _ = kind(Y, tmp_path)
    assert watched(array) is not None
    obs = outofcore.blocks(array, memory="60kB")
    os.utime(tmp_path)  # others may write beside it
    assert lrmc.solve(obs, 2).converged


def test_a_mask_is_watched_too(Y, tmp_path):
    mask, path = in_zarr(np.ones(Y.shape, bool), tmp_path)
    obs = outofcore.blocks(on_disk(Y, tmp_path, (10, 40)), mask, memory="60kB")
    gone(path)
    with pytest.raises(ChangedError, match=path.name):
        lrmc.solve(obs, 2)


def test_chunks_that_never_were_are_the_fill_value(Y, tmp_path):
    array = zarr.create_array(
        tmp_path / "Y.zarr",
        shape=(120, 40),
        dtype=float,
        chunks=(10, 40),
        fill_value=np.nan,
    )
    array[:100] = Y
    obs = outofcore.blocks(array, memory="60kB")
    with pytest.warns(UserWarning, match="20 row"):
        result = lrmc.solve(obs, 2)
    np.testing.assert_array_equal(result.undetermined_rows, np.arange(100, 120))


@pytest.mark.parametrize("fill_value", [0.0, np.nan])
def test_stores_that_are_no_folders(Y, fill_value):
    """Opened anew, and their chunks counted."""
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(
        store, shape=Y.shape, dtype=float, chunks=(10, 40), fill_value=fill_value
    )
    array[:] = Y
    obs = outofcore.blocks(array, memory="60kB")
    assert lrmc.solve(obs, 2).converged
    del store._store_dict["c/4/0"]
    with pytest.raises(ChangedError, match="memory"):
        lrmc.solve(obs, 2)


def test_what_changes_while_results_are_written(Y, tmp_path):
    array, path = in_zarr(Y, tmp_path)
    result = lrmc.solve(outofcore.blocks(array, memory="60kB"), 2)
    one_chunk_less(path)
    with pytest.raises(ChangedError):
        outofcore.write_completed(result, tmp_path / "out.npy", fill="missing")
    with pytest.raises(ChangedError):
        outofcore.write_outliers(result, tmp_path / "out.zarr")
    assert not list(tmp_path.glob("*out*"))


def test_arrays_of_which_nothing_is_known():
    assert watched(np.ones((3, 3))) is None
    assert watched(None) is None

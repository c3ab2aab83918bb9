"""Stacks of scenes in xarray and in zarr stores, and faults of these."""

import json

import numpy as np
import pytest
from clouded import FEW, cleared_once, clouded
from made.landscape import NODATA

from lrmc.apps.clouds import ground as learned
from lrmc.apps.clouds import process

xarray = pytest.importorskip("xarray")
pytest.importorskip("lrmc.xarray")
pytest.importorskip("typer")
from typer.testing import CliRunner

from lrmc.cli import app


@pytest.fixture(scope="module")
def scene():
    return clouded(*FEW)


@pytest.fixture(scope="module")
def cleared():
    return cleared_once(*FEW)


def test_the_accessor(scene, cleared):
    xarray = pytest.importorskip("xarray")
    import lrmc.xarray

    assert lrmc.xarray.Accessor
    dims = ("time", "band", "y", "x")
    da = xarray.DataArray(
        scene.data, dims=dims, coords={"time": scene.dates.astype("datetime64[ns]")}
    )
    da = da.assign_attrs(_FillValue=NODATA, long_name="reflectance").transpose(
        "y", "x", "band", "time"
    )
    done = da.lrmc.remove_clouds(rank=4)
    assert done.clear.dims == da.dims
    assert done.clear.attrs == da.attrs
    assert done.attrs == {"rank": 4, "status": "converged"}
    assert np.array_equal(done.clear.transpose(*dims).values, cleared.scenes)
    assert np.array_equal(done.clouds.transpose("time", "y", "x").values, cleared.mask)


def test_zarr_round(scene, cleared, tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    dims, times = ("time", "band", "y", "x"), scene.dates.astype("datetime64[ns]")
    da = xarray.DataArray(
        scene.data, dims=dims, coords={"time": times, "band": [2, 3, 8]}, name="s2"
    )
    da = da.assign_attrs(nodata=NODATA, scale_factor=1e-4)
    da.to_dataset().assign_attrs(title="made up").to_zarr(
        tmp_path / "scenes.zarr", consolidated=False
    )
    command = [
        "clouds",
        str(tmp_path / "scenes.zarr"),
        "-o",
        str(tmp_path / "out"),
        "--rank",
        "4",
    ]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    back = xarray.open_zarr(
        tmp_path / "out" / "scenes.zarr", mask_and_scale=False, consolidated=False
    )
    assert back.attrs == {"title": "made up"}
    assert back.s2.attrs == da.attrs
    assert back.s2.dtype == np.uint16
    assert (back.time.values == times).all()
    assert np.array_equal(back.s2.values, cleared.scenes)
    assert np.array_equal(back.s2_mask.values, cleared.mask)
    assert (tmp_path / "out" / "report.html").exists()
    (tmp_path / "bad.zarr").mkdir()
    answer = CliRunner().invoke(
        app, ["clouds", str(tmp_path / "bad.zarr"), "-o", str(tmp_path / "out2")]
    )
    assert answer.exit_code == 2
    assert "bad.zarr" in answer.output
    assert not (tmp_path / "out2").exists()


def a_store(scene, path, **options):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    series = xarray.DataArray(
        scene.data, dims=("time", "band", "y", "x"), attrs={"nodata": NODATA}
    )
    store = xarray.Dataset(
        {"s2": series, "height": (("y", "x"), np.ones(scene.data.shape[2:]))}
    )
    store.to_zarr(path, consolidated=False, **options)
    return path


@pytest.mark.slow
def test_a_variable_of_a_store_masks_it(scene, tmp_path):
    path = a_store(scene, tmp_path / "scenes.zarr")
    xarray = pytest.importorskip("xarray")
    codes = np.full(scene.clouds.shape, 4, np.uint8)
    codes[6, :12] = 8
    extra = xarray.Dataset({"SCL": (("time", "y", "x"), codes)})
    extra.to_zarr(path, mode="a", consolidated=False)
    done = process([path], tmp_path / "out", masks="scl", rank=4).cleared
    assert (done.mask[6, :12] == learned.MISSING).all()
    for name, words in (("none", "no variable 'none'"), ("height", "dimensions y, x")):
        with pytest.raises(ValueError, match=words):
            process([path], tmp_path / "out2", masks=name, rank=4)


@pytest.mark.slow
def test_a_store_of_the_second_version_of_zarr_stays_one(scene, tmp_path):
    source = a_store(scene, tmp_path / "scenes.zarr", zarr_format=2)
    answer = CliRunner().invoke(
        app, ["clouds", str(source), "-o", str(tmp_path / "out"), "--rank", "4"]
    )
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "out" / "scenes.zarr" / "s2" / ".zarray").exists()


@pytest.mark.parametrize(
    ("part", "said"),
    [("s2", "could not be opened"), ("height", "with its other variables")],
)
def test_a_store_with_a_damaged_chunk(part, said, scene, tmp_path):
    source = a_store(scene, tmp_path / "scenes.zarr", zarr_format=2)
    chunk = next(path for path in (source / part).iterdir() if path.name[0].isdigit())
    chunk.write_bytes(b"nonsense")
    answer = CliRunner().invoke(
        app, ["clouds", str(source), "-o", str(tmp_path / "out"), "--rank", "4"]
    )
    assert answer.exit_code == 2, answer.output
    assert said in answer.output
    assert [path.name for path in tmp_path.iterdir()] == ["scenes.zarr"]


def test_a_store_with_pickled_chunks_is_not_read(scene, tmp_path):
    source = a_store(scene, tmp_path / "scenes.zarr", zarr_format=2)
    about = json.loads((source / "s2" / ".zarray").read_text())
    (source / "s2" / ".zarray").write_text(
        json.dumps(about | {"compressor": {"id": "pickle", "protocol": 5}})
    )
    answer = CliRunner().invoke(
        app, ["clouds", str(source), "-o", str(tmp_path / "out"), "--rank", "4"]
    )
    assert answer.exit_code == 2, answer.output
    assert "pickle" in answer.output


def test_decompose_gives_both_parts():
    xarray = pytest.importorskip("xarray")
    import lrmc.xarray  # noqa: F401

    rng = np.random.default_rng(0)
    low = (rng.normal(size=(30, 20, 2)) @ rng.normal(size=(2, 40))).transpose(2, 0, 1)
    wrong = np.where(rng.random(low.shape) < 0.05, 5.0, 0)
    da = xarray.DataArray(low + wrong, dims=("time", "y", "x"), attrs={"units": "1"})
    parts = da.lrmc.decompose(rank=2)
    assert parts.low_rank.dims == da.dims
    assert np.abs(parts.low_rank.values - low).max() < 1e-3
    assert np.abs(parts.outliers.values - wrong).max() < 1e-3
    with pytest.raises(ValueError, match="no dimension"):
        da.lrmc.decompose("when")

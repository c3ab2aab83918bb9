"""Stacks as they are kept in the field: lazy arrays as odc-stac makes them, and STAC items."""

import json
import tracemalloc

import numpy as np
import pytest
from made.landscape import NODATA, landscape

xarray = pytest.importorskip("xarray")
pytest.importorskip("lrmc.xarray")

from lrmc.apps.clouds import ground, lazy, model, process, stac
from lrmc.apps.clouds.lazy import remove_clouds_lazily

BANDS = ("blue", "green", "nir")
CHUNKS = {"time": 1, "y": 8, "x": 13}


@pytest.fixture(scope="module")
def array():
    made = landscape(8, 16, 20, seed=3)
    times = made.dates.astype("datetime64[ns]")
    stack = xarray.DataArray(
        made.data,
        dims=("time", "band", "y", "x"),
        coords={"time": times, "band": list(BANDS)},
    )
    return stack.assign_attrs(nodata=NODATA)


@pytest.fixture(scope="module")
def cleared(array):
    return array.lrmc.remove_clouds(rank=3, uncertainty=True)


def computed(dataset):
    return dataset.compute(scheduler="synchronous")


def test_a_lazy_stack_gives_the_same(array, cleared):
    pytest.importorskip("dask")
    lazy = array.chunk(CHUNKS).lrmc.remove_clouds(rank=3, uncertainty=True)
    assert all(part.chunks is not None for part in lazy.values())
    assert lazy.clear.chunksizes["y"] == (8, 8)
    xarray.testing.assert_identical(computed(lazy), cleared)


def test_bands_may_be_variables(array, cleared):
    pytest.importorskip("dask")
    bands = {name: array.sel(band=name, drop=True) for name in BANDS}
    dataset = xarray.Dataset(bands, attrs={"title": "made up"})
    for one in (dataset, dataset.chunk(CHUNKS)):
        done = computed(one.lrmc.remove_clouds(rank=3, uncertainty=True))
        assert list(done) == [*BANDS, "clouds", *(f"{name}_sd" for name in BANDS)]
        assert done.attrs["title"] == "made up"
        for name in BANDS:
            assert done[name].attrs == dataset[name].attrs
            assert np.array_equal(done[name], cleared.clear.sel(band=name))


@pytest.mark.parametrize("lazily", [False, True])
def test_classes_of_a_dataset_are_respected(array, lazily):
    pytest.importorskip("dask")
    classes = np.full((8, 16, 20), 4, np.uint8)
    classes[2, 5:9, 5:9] = 9  # a cloud, they say
    dataset = array.to_dataset("band").assign(SCL=(("time", "y", "x"), classes))
    if lazily:
        dataset = dataset.chunk(CHUNKS)
    done = computed(dataset.lrmc.remove_clouds(rank=3))
    assert "SCL" not in done
    assert (done.clouds[2, 5:9, 5:9] == 2).all()
    with pytest.raises(ValueError, match="no variable 'clm'"):
        dataset.lrmc.remove_clouds("clm")


@pytest.mark.slow
def test_memory_is_that_of_some_chunks(monkeypatch):
    """A stack four times as large takes hardly more: it is never there as a whole."""
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr(ground, "LEARN_FROM", 100)  # whatever the size
    made = landscape(6, 16, 32, seed=1).data
    peaks = []
    for times in (2, 8):
        rows = [[da.from_array(made, name=f"{k}-{times}")] for k in range(times)]
        stack = da.block(rows) + np.uint16(1)  # made when it is asked for
        tracemalloc.start()
        done = remove_clouds_lazily(stack, rank=2)
        total = done.scenes.sum().compute(scheduler="synchronous")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total > 0
    assert peaks[1] < 1.5 * peaks[0]


@pytest.fixture(scope="module")
def of_bands(array, tmp_path_factory):
    """A store with a variable for each band and classes, as odc-stac loads them."""
    pytest.importorskip("zarr")
    classes = np.full((8, 16, 20), 4, np.uint8)
    classes[2, 5:9, 5:9] = 9
    bands = {name: array.sel(band=name, drop=True) for name in BANDS}
    dataset = xarray.Dataset(bands).assign(scl=(("time", "y", "x"), classes))
    path = tmp_path_factory.mktemp("store") / "scenes.zarr"
    encoding = {name: {"chunks": (1, 8, 10)} for name in bands}
    dataset.to_zarr(path, consolidated=False, encoding=encoding)
    return path


@pytest.mark.slow
def test_a_store_with_a_variable_for_each_band(array, cleared, of_bands, tmp_path):
    """All of them are cleared together, in the chunks they had; classes are no band."""
    pytest.importorskip("dask")
    done = process([of_bands], tmp_path / "out", rank=3, uncertainty=True)
    back = xarray.open_zarr(
        tmp_path / "out" / "scenes.zarr", mask_and_scale=False, consolidated=False
    )
    added = {"clouds", *(f"{name}_sd" for name in BANDS)}
    assert set(back) == {*BANDS, "scl", *added}
    for name in BANDS:
        assert np.array_equal(back[name], cleared.clear.sel(band=name))
        assert back[name].chunksizes["time"] == (1,) * 8
    assert np.array_equal(back.clouds, cleared.clouds)
    # What is given back is read from what was written.
    assert np.array_equal(np.asarray(done.cleared.mask), cleared.clouds)
    masked = process([of_bands], tmp_path / "masked", masks="SCL", rank=3)
    assert (np.asarray(masked.cleared.mask)[2, 5:9, 5:9] == ground.MISSING).all()


def test_a_store_is_cleared_chunk_by_chunk(of_bands, tmp_path, monkeypatch):
    """Each chunk once, and never all of the picture at a time."""
    pytest.importorskip("dask")
    sizes = []

    def noted(look, *rest):
        sizes.append(look.data.shape[2:])
        return model.cleared_scenes(look, *rest)

    monkeypatch.setattr(lazy, "cleared_scenes", noted)
    told = []
    process([of_bands], tmp_path / "out", rank=3, progress=told.append)
    assert sizes == [(8, 10)] * 4
    counts = [at.done for at in told if at.stage == "clearing"]
    assert counts == [1, 2, 3, 4]


# ---- STAC

ITEM = {
    "type": "Feature",
    "stac_version": "1.0.0",
    "stac_extensions": ["https://stac-extensions.github.io/eo/v1.1.0/schema.json"],
    "id": "S2_20230105",
    "collection": "sentinel-2-l2a",
    "geometry": None,
    "properties": {"datetime": "2023-01-05T10:00:00Z", "eo:cloud_cover": 40.0},
    "links": [
        {"rel": "self", "href": "https://example.org/S2_20230105.json"},
        {"rel": "collection", "href": "https://example.org/collection.json"},
        {"rel": "license", "href": "https://example.org/license"},
    ],
    "assets": {
        "visual": {"href": "./a_20230105.tif", "eo:bands": [{"name": "B02"}]},
        "metadata": {"href": "./a.xml"},
    },
}


def test_an_item_is_written_for_what_was_made(tmp_path):
    scene = tmp_path / "a_20230105.tif"
    scene.with_suffix(".json").write_text(json.dumps(ITEM))
    out = tmp_path / "out"
    out.mkdir()
    for ending in (".tif", "_mask.tif"):
        (out / f"a_20230105{ending}").touch()
    stac.write_item(out, scene)
    item = json.loads((out / "a_20230105.json").read_text())
    assert item["id"] != ITEM["id"]
    assert "collection" not in item  # it is not part of that one
    assert item["properties"]["datetime"] == ITEM["properties"]["datetime"]
    assert "eo:cloud_cover" not in item["properties"]
    assert item["assets"]["visual"]["eo:bands"] == [{"name": "B02"}]
    assert set(item["assets"]) == {"visual", "cloud_mask", "thumbnail"}
    hrefs = [asset["href"] for asset in item["assets"].values()]
    assert hrefs[:2] == ["./a_20230105.tif", "./a_20230105_mask.tif"]
    links = {link["rel"]: link["href"] for link in item["links"]}
    assert set(links) == {"license", "derived_from"}
    assert links["derived_from"] == "https://example.org/S2_20230105.json"


@pytest.mark.parametrize("text", ["", "[1]", '{"type": "Feature"}', "[" * 9999])
def test_what_is_no_item_is_left_alone(text, tmp_path):
    scene = tmp_path / "a.tif"
    scene.with_suffix(".json").write_text(text)
    assert stac.item_of(scene) is None
    stac.write_item(tmp_path, scene)
    assert scene.with_suffix(".json").read_text() == text

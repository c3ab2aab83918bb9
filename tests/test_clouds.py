"""Clouds: a landscape with a known answer, GeoTIFFs round, xarray, the command and its faults."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from each import each
from made.landscape import NODATA, landscape, write_landscape
from real_data import DATA

from lrmc.apps.clouds import classes, look, process, screen, seasons
from lrmc.apps.clouds import ground as learned
from lrmc.apps.clouds import model as clouds

rasterio = pytest.importorskip("rasterio")
pytest.importorskip("typer")
from typer.testing import CliRunner

from lrmc.apps.clouds.scenes import dates_of, write_scene
from lrmc.cli import app
from lrmc.result import Status


@pytest.fixture(scope="module")
def scene():
    made = landscape(16, 36, 44)
    made.data[3] = NODATA  # a date that nobody saw
    made.data[5, :, :10, :10] = NODATA
    return made


@pytest.fixture(scope="module")
def cleared(scene):
    return clouds.remove_clouds(scene.data, nodata=NODATA, dates=scene.dates, rank=4)


@pytest.fixture(scope="module")
def files(scene, tmp_path_factory):
    return write_landscape(tmp_path_factory.mktemp("scenes"), scene)


@pytest.fixture(scope="module")
def written(files, tmp_path_factory):
    target = tmp_path_factory.mktemp("out") / "clear"
    answer = CliRunner().invoke(
        app, ["clouds", *map(str, files), "-o", str(target), "--rank", "4"]
    )
    assert answer.exit_code == 0, answer.output
    return target


def rmse(x, truth):
    return float(np.sqrt(np.mean((x.astype(float) - truth) ** 2)))


def test_the_ground_comes_back(scene, cleared):
    """Under clouds, far better than the median of the dates; noise of the scene is 12."""
    covered = (scene.clouds > 0.1)[:, None] & np.ones((1, 3, 1, 1), bool)
    covered[3], covered[8] = False, False  # dates without ground are a guess
    values = np.where(scene.data == NODATA, np.nan, scene.data.astype(float))
    median = np.broadcast_to(np.nanmedian(values, axis=0), values.shape)
    off = rmse(cleared.scenes[covered], scene.ground[covered])
    assert off < 0.5 * rmse(median[covered], scene.ground[covered])
    assert off < 120


def test_clouds_are_found_and_clear_pixels_kept(scene, cleared):
    thick, clear = scene.clouds > 0.5, cleared.mask == learned.CLEAR
    assert (
        np.mean(cleared.mask[thick & (scene.data[:, 0] != NODATA)] == learned.CLOUD)
        > 0.99
    )
    assert np.mean(cleared.mask[0] == learned.CLEAR) > 0.97  # a clear date
    assert np.array_equal(
        np.moveaxis(cleared.scenes, 1, -1)[clear], np.moveaxis(scene.data, 1, -1)[clear]
    )
    assert cleared.scenes.dtype == scene.data.dtype
    missing = (scene.data == NODATA).any(1)
    assert np.array_equal(cleared.mask == learned.MISSING, missing)
    assert not (cleared.scenes == NODATA).any()


def test_dates_without_ground_are_estimated(scene, cleared):
    assert cleared.ground.estimated[[3, 8]].all()  # nodata; overcast
    assert cleared.ground.estimated.sum() == 2
    for t in (3, 8):
        year = np.median(scene.ground, axis=0)
        assert rmse(cleared.scenes[t], scene.ground[t]) < rmse(year, scene.ground[t])
    assert (cleared.mask[8] == learned.CLOUD).mean() > 0.95


def test_bands_share_their_fate(scene):
    """A pixel is bad in all bands or in none: the mask has no bands, and one band that
    is off is enough.
    """
    data = scene.data.copy()
    data[0, 1, 20:24, 20:24] += 3000
    found = clouds.remove_clouds(data, nodata=NODATA, dates=scene.dates, rank=4)
    assert (found.mask[0, 20:24, 20:24] == learned.CLOUD).all()
    assert (
        rmse(found.scenes[0, :, 20:24, 20:24], scene.ground[0, :, 20:24, 20:24]) < 150
    )


def test_blocks_do_not_matter(scene, cleared, monkeypatch):
    monkeypatch.setattr(look, "BLOCK", 16 * 3 * 44 * 5)  # five lines at a time
    again = clouds.remove_clouds(scene.data, nodata=NODATA, dates=scene.dates, rank=4)
    assert np.abs(again.scenes.astype(int) - cleared.scenes).max() <= 1
    assert np.mean(again.mask != cleared.mask) < 1e-3


def test_pixels_are_fitted_as_a_naive_loop_would(cleared, scene):
    """Iterated weighed least squares, one pixel at a time, with plain numpy."""
    ground = cleared.ground
    Y, there = scene.data[:, :, :2, :3], (scene.data[:, :, :2, :3] != NODATA).all(1)
    got = learned.fit_pixels(Y, there, ground).reshape(3, 6, -1)
    R = ground.R
    for pixel in range(6):
        i, j = divmod(pixel, 3)
        seen = there[:, i, j]
        l = ground.mean.copy()
        for wider in learned.WIDER:
            e = Y[:, :, i, j] - R @ l.T  # dates x bands
            q = np.max(np.abs(e) / (wider * 1.54 * ground.deviation), axis=1)
            w = seen / (1 + q**2)
            for b in range(3):
                H = (R * w[:, None]).T @ R + ground.ridge[b]
                l[b] += np.linalg.solve(
                    H, R.T @ (w * e[:, b]) - ground.ridge[b] @ (l[b] - ground.mean[b])
                )
        scale = np.abs(R @ l.T).max()
        assert np.abs(R @ (got[:, pixel] - l).T).max() < 1e-3 * scale


@pytest.mark.slow
def test_a_share_of_the_pixels_is_enough(scene, cleared):
    some = clouds.remove_clouds(
        scene.data, nodata=NODATA, dates=scene.dates, rank=4, sample=0.85
    )
    covered = np.broadcast_to((scene.clouds > 0.1)[:, None], scene.data.shape).copy()
    covered[[3, 8]] = False
    assert (
        rmse(cleared.scenes[covered], scene.ground[covered])
        < rmse(some.scenes[covered], scene.ground[covered])
        < 200
    )


def test_a_mostly_cloudy_date_does_not_become_ground():
    """Clouds over seven tenths of a date, told nothing: what lies under them comes back."""
    made = landscape(20, 40, 40, seed=3)
    date = 10 - 5  # a clear one
    covered = np.zeros((40, 40), bool)
    covered[:28] = True
    cloudy = made.data.copy()
    rng = np.random.default_rng(0)
    cloudy[date][:, covered] = 6000 + 500 * rng.standard_normal((3, covered.sum()))
    done = clouds.remove_clouds(cloudy, nodata=NODATA, dates=made.dates)
    found = done.mask[date] == learned.CLOUD
    assert found[covered].mean() > 0.99
    assert found[~covered].mean() < 0.05
    others = np.delete(made.data, date, 0)
    median = np.median(others, axis=0)
    truth = made.ground[date][:, covered]
    off = rmse(done.scenes[date][:, covered], truth)
    assert off < 0.5 * rmse(median[:, covered], truth)


def test_the_screen_finds_clouds_and_nothing_else():
    """Of dates that are mostly cloud; those with few clouds are left to the fit."""
    made = landscape(20, 40, 40, seed=4)
    covered = np.zeros(made.clouds.shape, bool)
    covered[7, 16:], covered[11, :20] = True, True
    bright = np.random.default_rng(0).integers(4000, 7000, made.data.shape)
    data = np.where(covered[:, None], bright, made.data).astype(np.uint16)
    sample = learned.Sample(data, np.ones(covered.shape, bool), None)
    days = (made.dates - made.dates[0]).astype(float)
    gone = ~screen.screened(sample, days)[0].there
    assert gone[covered].mean() > 0.99
    assert gone[~covered & (made.clouds < 0.02)].mean() < 0.01


def test_few_dates_are_warned_of(scene):
    with pytest.warns(UserWarning, match="only 4 dates show ground"):
        done = clouds.remove_clouds(scene.data[9:13], nodata=NODATA, rank=1)
    assert any("give more dates, or masks" in one for one in done.warnings)
    assert done.status is Status.UNDETERMINED  # exit code 1


# One date of this corner is half cloud, and nearly half of the rest lies in its shadow.
@pytest.mark.filterwarnings("ignore:.*shadow")
@pytest.mark.parametrize(
    "dtype",
    ["float32", "int16"]
    + [pytest.param(t, marks=pytest.mark.slow) for t in ("float64", "int32", "uint8")],
)
def test_types_stay(scene, dtype):
    scale = 40 if dtype == "uint8" else 1
    data = (scene.data[:, :, :12, :12] // scale).astype(dtype)
    done = clouds.remove_clouds(data, nodata=0, dates=scene.dates, rank=3)
    assert done.scenes.dtype == data.dtype
    assert np.isfinite(done.scenes).all()


def test_one_band_without_that_axis(scene):
    done = clouds.remove_clouds(scene.data[:, 0], nodata=NODATA, rank=3)
    assert done.scenes.shape == (16, 1, 36, 44)


@pytest.mark.parametrize(
    "stack",
    [
        np.full((12, 2, 8, 8), 7.0),
        np.zeros((12, 2, 8, 8), np.int16),
        5 + np.random.default_rng(0).random((12, 3, 1, 1)),
    ],
)
def test_scenes_with_next_to_nothing_in_them_stay(stack):
    done = clouds.remove_clouds(stack)
    assert done.status == "converged"
    assert np.array_equal(done.scenes, stack)
    assert not done.mask.any()


@each(
    ("change", "words"),
    [
        ({"stack": np.zeros((5, 4))}, "time x bands"),
        ({"stack": np.zeros((2, 3, 4, 4))}, "at least 3 dates"),
        ({"stack": np.zeros((5, 3, 4, 4), complex)}, "integers or floats"),
        ({"seen": np.ones((5, 4, 5), bool)}, "seen has shape"),
        ({"seen": np.zeros((5, 4, 4), bool)}, "no pixel of the scenes is observed"),
        ({"fill": "some"}, "one of clouds, all"),
        ({"sample": 0}, "a share of 0"),
        ({"sample": "most"}, "a share of 'most'"),
        ({"rank": 5}, "rank=5 for 5 dates; a whole number from 1 to 4"),
        ({"rank": 1.5}, "a whole number from 1 to 4"),
        ({"seed": -1}, "seed=-1"),
        ({"dates": [1, 2]}, "2 dates for 5 scenes"),
        ({"dates": ["yesterday"] * 5}, "cannot be read"),
    ],
)
def test_bad_input_is_told(change, words):
    stack = np.random.default_rng(0).random((5, 3, 4, 4))
    with pytest.raises(ValueError, match=words):
        clouds.remove_clouds(**({"stack": stack} | change))


# ---- seasons


def test_a_date_in_between_is_interpolated():
    days = np.arange(0, 700, 20.0)
    noise = np.random.default_rng(0).normal(0, 0.03, (len(days), 2))
    R = np.c_[np.ones(len(days)), np.sin(2 * np.pi * days / 365)] + noise
    known = np.ones(len(days), bool)
    known[[7, 20]] = False
    seen = np.where(known[:, None], R, 0)
    found = seasons.seasons(seen, days, known.astype(float), np.eye(2))
    assert np.abs(found.expected[~known] - R[~known]).max() < 0.25
    assert not found.far_off.any()
    odd = seen.copy()
    odd[12] += 8
    found = seasons.seasons(odd, days, known.astype(float), np.eye(2))
    assert np.flatnonzero(found.far_off).tolist() == [12]
    assert np.abs(found.expected[12] - R[12]).max() < 0.25


def test_leaving_one_out_is_what_it_says():
    """The closed form against fits without each date."""
    rng = np.random.default_rng(1)
    days, R = np.sort(rng.uniform(0, 300, 9)), rng.normal(size=(9, 2))
    kind = (60.0, 0.0, 0.1)
    fast = seasons._interpolated(R, days, np.ones(9, bool), np.ones(9), *kind).expected
    K = 0.9 * np.exp(-np.abs(days[:, None] - days) / 60)
    mean = np.median(R, axis=0)
    for t in range(9):
        rest = np.arange(9) != t
        slow = mean + K[t, rest] @ np.linalg.solve(
            K[np.ix_(rest, rest)] + 0.1 * np.eye(8), R[rest] - mean
        )
        assert np.allclose(fast[t], slow)


# ---- files


def test_files_come_back_as_they_were(files, written):
    for path in files:
        with rasterio.open(path) as old, rasterio.open(written / path.name) as new:
            for name in (
                "crs",
                "transform",
                "dtypes",
                "nodata",
                "scales",
                "offsets",
                "descriptions",
                "units",
                "shape",
            ):
                assert getattr(old, name) == getattr(new, name), name
            assert old.colorinterp == new.colorinterp
            assert old.tags() == new.tags()
            assert [old.tags(b) for b in (1, 2, 3)] == [new.tags(b) for b in (1, 2, 3)]
            before, after = old.read(), new.read()
            with rasterio.open(written / f"{path.stem}_mask.tif") as file:
                mask = file.read(1)
                assert (file.crs, file.transform, file.dtypes) == (
                    old.crs,
                    old.transform,
                    ("uint8",),
                )
            assert np.array_equal(after[:, mask == 0], before[:, mask == 0])
            assert not (after == NODATA).any()


def test_files_are_cloud_optimised(tmp_path):
    """Tiles, overviews that halve the size, and the directory before the pixels."""
    scene = landscape(3, 700, 600)
    path = write_landscape(tmp_path, scene)[0]
    (tmp_path / "out").mkdir()
    mask = np.zeros((700, 600), np.uint8)
    write_scene(tmp_path / "out", path, scene.data[0], mask, scene.data[0] * 0.1)
    for name in (path.name, f"{path.stem}_mask.tif", f"{path.stem}_sd.tif"):
        with rasterio.open(tmp_path / "out" / name) as file:
            assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
            assert set(file.block_shapes) == {(512, 512)}
            assert file.overviews(1) == [2]
            assert file.read().shape[1:] == (700, 600)


def test_quick_looks_and_report(files, written):
    from PIL import Image

    assert sorted(p.stem for p in (written / "quicklooks").iterdir()) == sorted(
        p.stem for p in files
    )
    with Image.open(written / "quicklooks" / f"{files[1].stem}.png") as image:
        assert image.size == (2 * 44 + 6, 36)
    assert "2023-01-15" in (written / "report.html").read_text("utf-8")
    assert len(list(written.iterdir())) == 2 * len(files) + 2


def test_the_report_in_a_browser(written, show):
    page = show(written / "report.html")
    page.locator(".film input").focus()
    page.keyboard.press("ArrowRight")
    assert "2023-01-15" in page.locator(".film output").inner_text()
    page.locator(".compare input").focus()
    page.keyboard.press("End")
    assert page.evaluate(
        "Array.from(document.images).every(image => image.complete && image.naturalWidth > 0)"
    )


@pytest.mark.slow
@each(
    "ending, cloud, clear",
    [
        ("", 255, 0),
        ("_mask", 1, 0),
        ("_SCL", 9, 4),  # a cloud, and leaves
        ("_QA_PIXEL", 22280, 21824),  # a cloud, and clear land
    ],
)
def test_masks_are_respected(ending, cloud, clear, tmp_path):
    """What a mask covers is not looked at: garbage there changes nothing."""
    few = landscape(16, 20, 24)
    bad = few.data.copy()
    bad[2, :, 5:15, 5:15] = 9999
    folder, masks = tmp_path / "in", tmp_path / "masks"
    folder.mkdir()
    masks.mkdir()
    paths = write_landscape(folder, few._replace(data=bad))
    for t, path in enumerate(paths):
        with rasterio.open(path) as source:
            about = source.profile | {"count": 1, "dtype": "uint16", "nodata": None}
        with rasterio.open(masks / f"{path.stem}{ending}.tif", "w", **about) as out:
            covered = np.full((20, 24), clear, np.uint16)
            covered[5:15, 5:15] = cloud if t == 2 else clear
            out.write(covered, 1)
    done = process(paths, tmp_path / "out", masks=masks, rank=3).cleared
    hidden = done.mask == learned.MISSING
    assert hidden[2, 5:15, 5:15].all()
    assert hidden.sum() == 100
    assert rmse(done.scenes[2, :, 5:15, 5:15], few.ground[2, :, 5:15, 5:15]) < 150
    with pytest.raises(ValueError, match="there is no mask"):
        process(paths, tmp_path / "out2", masks=folder / "none", rank=3)


def test_classes_of_the_agencies():
    """Codes of the handbooks: Sentinel-2's table of classes, and Landsat's of QA_PIXEL."""
    hidden = classes.rule_of("SCL")(np.arange(12))
    assert np.flatnonzero(~hidden).tolist() == [2, 4, 5, 6, 7, 11]
    seen = np.array([21824, 21888, 30048])  # land, water, snow
    assert not classes.rule_of("qa_pixel")(seen).any()
    # nothing, around a cloud, cloud, its shadow, cirrus
    unseen = np.array([1, 21826, 22280, 23888, 54596])
    assert classes.rule_of("QA_PIXEL")(unseen).all()
    assert classes.rule_of(None)(np.array([0, 7])).tolist() == [False, True]


def test_dates_from_names():
    assert dates_of([Path("S2_20210630.tif"), Path("a-2021-07-05-b.tif")]).astype(
        str
    ).tolist() == [
        "2021-06-30",
        "2021-07-05",
    ]
    assert dates_of([Path("S2_20210630.tif"), Path("b.tif")]) is None
    assert dates_of([Path("20210231.tif")]) is None


def rewritten(path, target, **change):
    with rasterio.open(path) as source:
        profile, data = source.profile | change, source.read()
    count, height, width = (profile[name] for name in ("count", "height", "width"))
    with rasterio.open(target, "w", **profile) as out:
        out.write(np.resize(data, (count, height, width)).astype(profile["dtype"]))


FAULTS = {
    "another size": (lambda a, b: rewritten(a, b, width=20), "size"),
    "another number of bands": (
        lambda a, b: rewritten(a, b, count=2),
        "number of bands",
    ),
    "another type": (lambda a, b: rewritten(a, b, dtype="float32"), "type"),
    "another coordinate system": (
        lambda a, b: rewritten(a, b, crs="EPSG:32636"),
        "coordinate system",
    ),
    "another place": (
        lambda a, b: rewritten(a, b, transform=rasterio.Affine(10, 0, 0, 0, -10, 0)),
        "lies elsewhere",
    ),
    "empty": (lambda a, b: b.write_bytes(b""), "cannot be read"),
    "truncated": (
        lambda a, b: b.write_bytes(a.read_bytes()[: a.stat().st_size // 2]),
        "cannot be read",
    ),
    "text": (lambda a, b: b.write_text("no scene"), "cannot be read"),
    "not there": (lambda a, b: None, "there is no such file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_told_in_a_sentence(fault, files, tmp_path):
    make, words = FAULTS[fault]
    bad, target = tmp_path / "bad_20230101.tif", tmp_path / "out"
    make(files[1], bad)
    answer = CliRunner().invoke(
        app, ["clouds", *map(str, files[:3]), str(bad), "-o", str(target)]
    )
    assert answer.exit_code == 2, answer.output
    assert words in answer.output
    assert answer.output.strip().count("\n") <= 1
    assert "bad_20230101" in answer.output
    assert not target.exists()
    assert [p.name for p in tmp_path.iterdir() if p != bad] == []


def test_too_few_scenes_and_overwriting(files, tmp_path):
    run = CliRunner().invoke
    answer = run(app, ["clouds", str(files[0]), "-o", str(tmp_path / "out")])
    assert answer.exit_code == 2
    assert "at least 3" in answer.output
    answer = run(app, ["clouds", *map(str, files[:4]), "-o", str(files[0].parent)])
    assert answer.exit_code == 2
    assert "overwritten" in answer.output
    answer = run(
        app,
        ["clouds", *map(str, files[:4]), str(files[0]), "-o", str(tmp_path / "out")],
    )
    assert answer.exit_code == 2
    assert "both be written" in answer.output
    answer = run(
        app,
        ["clouds", *map(str, files[:4]), "-o", str(tmp_path / "out"), "--rgb", "1,2"],
    )
    assert answer.exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(files, tmp_path):
    code = "import sys; from lrmc.cli import main; sys.argv[0] = 'lrmc'; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "clouds",
        *map(str, files),
        "-o",
        str(tmp_path / "out"),
    ]
    run = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    for _ in range(600):
        if any(tmp_path.iterdir()) or run.poll() is not None:
            break
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert list(tmp_path.iterdir()) == []


# ---- files that name others


@pytest.fixture
def server():
    """Counts who asks."""
    asked = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *said):
            pass

    with HTTPServer(("127.0.0.1", 0), Listening) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/secret.tif", asked
        listening.shutdown()
        thread.join()


def virtual(path, like, source):
    """A VRT: a text that names another raster for every band."""
    with rasterio.open(like) as first:
        bands = "".join(
            f'<VRTRasterBand dataType="UInt16" band="{b}"><SimpleSource><SourceFilename>{source}</SourceFilename>'
            f"<SourceBand>{b}</SourceBand></SimpleSource></VRTRasterBand>"
            for b in first.indexes
        )
        text = f'<VRTDataset rasterXSize="{first.width}" rasterYSize="{first.height}">{bands}</VRTDataset>'
    path.write_text(text)
    return path


def test_a_raster_that_names_an_address_is_not_opened(server, files, tmp_path):
    url, asked = server
    remote = f"/vsicurl/{url}"
    hidden = virtual(tmp_path / "x_20230101.tif", files[0], remote)
    masks = tmp_path / "masks"
    masks.mkdir()
    for path in files[:4]:
        virtual(masks / path.name, path, remote)
    for scenes, more in (
        ([*files[:3], hidden], ()),
        (files[:4], ("--masks", str(masks))),
    ):
        answer = CliRunner().invoke(
            app, ["clouds", *map(str, scenes), "-o", str(tmp_path / "out"), *more]
        )
        assert answer.exit_code == 2, answer.output
        assert "a GeoTIFF is wanted" in answer.output
        assert answer.output.strip().count("\n") == 0
    for address in (remote, url):
        answer = CliRunner().invoke(
            app, ["clouds", *map(str, files[:3]), address, "-o", str(tmp_path / "out")]
        )
        assert answer.exit_code == 2
        assert "no such file" in answer.output
    assert asked == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("beside", [".msk", ".ovr"])
def test_what_lies_beside_a_scene_is_not_followed(beside, server, files, tmp_path):
    """GDAL would take a mask from there, and read it with any driver."""
    url, asked = server
    scenes = [tmp_path / path.name for path in files[:4]]
    for path, copy in zip(files, scenes):
        rewritten(path, copy, nodata=None)
    virtual(tmp_path / f"{scenes[0].name}{beside}", files[0], f"/vsicurl/{url}")
    answer = CliRunner().invoke(
        app, ["clouds", *map(str, scenes), "-o", str(tmp_path / "out"), "--rank", "2"]
    )
    assert answer.exit_code == 2, answer.output
    assert f"{beside} cannot be read" in answer.output
    assert asked == []
    assert not (tmp_path / "out").exists()


# ---- xarray


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


@pytest.mark.data
@pytest.mark.filterwarnings(
    "ignore:.*shadow",
    "ignore:.*far from what the other dates",
    "ignore:.*differs from what the other dates",
)
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
def test_real_clouds(monkeypatch):
    """One pair of task A, every eighth pixel: at least 4 dB above the median."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "experiments")
    tasks = pytest.importorskip("tasks")
    problem = next(tasks.satellite(tasks.Source(DATA, 0, 8)))
    T = problem.Y.shape[1]
    stack, seen = (
        problem.Y.T.reshape(T, 3, 32, 32),
        problem.mask.T.reshape(T, 3, 32, 32).all(1),
    )
    done = clouds.remove_clouds(stack, seen, rank=5)
    answers = (
        done.scenes.reshape(T, -1).T.astype(float),
        tasks.row_median(problem.values, problem.columns),
    )
    ours, median = (tasks.satellite_scores(problem.score(X))["PSNR"] for X in answers)
    assert ours > median + 4


# ---- how sure it is


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_deviations_hold_the_ground_under_clouds(seed):
    """The ground has the noise of the pixels; where a date was hardly seen, nobody knows."""
    scene = landscape(20, 48, 48, seed=seed)
    done = clouds.remove_clouds(
        scene.data, dates=scene.dates, uncertainty=True, seed=seed
    )
    hidden = (done.mask == learned.CLOUD) & (scene.clouds > 0.5)
    hidden &= ~done.ground.estimated[:, None, None]
    error = np.abs(done.scenes.astype(float) - scene.ground)
    noise = done.ground.deviation[:, None, None]
    ratio = (error / np.hypot(done.deviation, noise)).transpose(0, 2, 3, 1)[hidden]
    assert 0.8 < np.mean(ratio < 1.645) < 0.98
    kept = done.mask == learned.CLEAR
    noise = done.deviation.transpose(0, 2, 3, 1)[kept]
    np.testing.assert_allclose(
        noise, np.tile(done.ground.deviation, (len(noise), 1)), rtol=1e-6
    )


@pytest.mark.slow
def test_deviations_are_written_beside_the_scenes(files, tmp_path):
    answer = CliRunner().invoke(
        app,
        ["clouds", *map(str, files), "-o", str(tmp_path / "out"), "--uncertainty"],
    )
    assert answer.exit_code == 0, answer.output
    with rasterio.open(tmp_path / "out" / f"{files[0].stem}_sd.tif") as spread:
        assert spread.count == 3
        assert spread.dtypes == ("float32",) * 3
        assert (spread.read() > 0).all()
        assert "deviation" in spread.tags()["MEANING"]

"""GeoTIFFs of scenes: written as they were read, masks beside them, and faults of files."""

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
from clouded import FEW, clouded, rmse
from each import each
from made.landscape import NODATA, landscape, write_landscape

from lrmc.apps.clouds import classes, process
from lrmc.apps.clouds import ground as learned

rasterio = pytest.importorskip("rasterio")
pytest.importorskip("typer")
from typer.testing import CliRunner

from lrmc.apps.clouds.scenes import dates_of, write_scene
from lrmc.cli import app


@pytest.fixture(scope="module")
def scene():
    return clouded(*FEW)


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
        assert image.size == (2 * 24 + 6, 20)
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


def rewritten(path, target, offset=None, **change):
    with rasterio.open(path) as source:
        profile, data = source.profile | change, source.read()
        scale, usual = source.scales[0], source.offsets[0]
    count, height, width = (profile[name] for name in ("count", "height", "width"))
    with rasterio.open(target, "w", **profile) as out:
        out.write(np.resize(data, (count, height, width)).astype(profile["dtype"]))
        out.scales = [scale] * count
        out.offsets = [usual if offset is None else offset] * count


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
    "another offset": (lambda a, b: rewritten(a, b, offset=-0.1), "another offset"),
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

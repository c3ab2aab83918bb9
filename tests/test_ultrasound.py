"""Ultrasound: a small generated scene (speckle that drifts, bubbles that flow), files of
every kind, and faults.
"""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import real_data
import scipy.io
from each import each
from made.cine import FRAMES, SIZE, dicom, scene, slow_blood
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage

from lrmc.apps.ultrasound import blood as ultrasound
from lrmc.apps.ultrasound import files, patches
from lrmc.apps.ultrasound.blood import beyond_surroundings
from lrmc.apps.ultrasound.cines import read_cine
from lrmc.apps.ultrasound.files import decibels, separate_file
from lrmc.apps.ultrasound.model import separate
from lrmc.apps.ultrasound.motion import follow
from lrmc.solve import ConvergenceWarning

pytest.importorskip("typer")
from typer.testing import CliRunner

from lrmc.cli import app

DATA = real_data.DATA / "ultrasound"


@pytest.fixture(scope="module")
def moving():
    return scene()


@pytest.fixture(scope="module")
def parts(moving):
    tissue, bubbles, _ = moving
    return separate(tissue + bubbles)


def scores(found, bubbles):
    hits = np.sum((found > 0.1) & (bubbles > 0.1))
    f1 = 2 * hits / (np.sum(found > 0.1) + np.sum(bubbles > 0.1))
    return np.linalg.norm(found - bubbles) / np.linalg.norm(bubbles), f1


def test_bubbles_are_found_though_the_tissue_moves(moving, parts):
    tissue, bubbles, _ = moving
    error, f1 = scores(parts.blood, bubbles)
    assert error < 0.5
    assert f1 > 0.8
    plain = (tissue + bubbles).reshape(FRAMES, -1)
    U, s, V = np.linalg.svd(plain, full_matrices=False)
    worse, less = scores(
        (plain - U[:, :1] * s[0] @ V[:1]).reshape(tissue.shape), bubbles
    )
    assert error < 0.6 * worse
    assert f1 > less + 0.2
    assert parts.outliers == "positive"
    assert np.all(parts.blood >= 0)


def test_the_parts_add_up(moving, parts):
    """Blood is what differs from the tissue beyond the threshold, shrunk by its surroundings, and by
    what errors of the tissue have of each pixel.
    """
    rest = moving[0] + moving[1] - parts.tissue
    beyond = ultrasound.BEYOND_NOISE * parts.noise
    found = slow_blood(rest, "positive", beyond, parts.noise, parts.noise)
    found *= beyond_surroundings(found)
    some = found > 0.01
    gain = np.where(some, parts.blood / np.where(some, found, 1), np.nan)
    least, most = np.fmin.reduce(gain), np.fmax.reduce(gain)  # of a pixel, all alike
    assert np.nanmax(most - least) < 1e-4
    assert 0 <= np.nanmin(least) < 0.9 < np.nanmedian(most) <= np.nanmax(most) <= 1
    assert np.all((parts.blood >= 0) & (parts.blood <= np.maximum(found, 0) + 1e-6))
    assert_allclose(
        parts.power, (parts.blood.astype(np.float64) ** 2).mean(0), rtol=1e-5
    )


def test_the_motion_is_the_true_one(moving):
    """Up to a constant: the reference may lie anywhere."""
    tissue, bubbles, (down, right) = moving
    moved = follow(tissue + bubbles)
    for found, true in ((moved.down, down), (moved.right, right)):
        middle = found[:, 2:-2, 2:-2].mean((1, 2))
        assert np.abs((middle + true) - np.mean(middle + true)).max() < 0.3


def test_registering_and_restoring_are_inverse(moving):
    motion = follow(moving[0])
    smooth = np.broadcast_to(ndimage.gaussian_filter(moving[0][3], 3), moving[0].shape)
    registered, seen = motion.registered(smooth)
    inner = (slice(10, -10), slice(10, -10))
    back = motion.restored(registered)
    for t in (0, 5, FRAMES - 1):
        assert_allclose(back[t][inner], smooth[t][inner], atol=2e-3)
    assert seen.mean() > 0.5
    assert registered.shape[1:] == motion.canvas


def test_tissue_at_rest_is_left_where_it_is():
    tissue, bubbles, _ = scene(reach=0.0)
    still = separate(tissue + bubbles)
    assert still.motion is None
    assert scores(still.blood, bubbles)[1] > 0.85
    whole = separate(tissue + bubbles, patch=None, motion=False)
    assert scores(whole.blood, bubbles)[1] > 0.85


def test_a_share_of_the_pixels_will_do(moving):
    tissue, bubbles, _ = moving
    few = separate(tissue + bubbles, sample=0.3)
    assert scores(few.blood, bubbles)[1] > 0.65
    again = separate(tissue + bubbles, sample=0.3)
    assert_array_equal(few.blood, again.blood)


@pytest.mark.parametrize("factor", [1e-6, 255.0, 1e6])
def test_units_do_not_matter(moving, parts, factor):
    other = separate((moving[0] + moving[1]) * np.float32(factor))
    assert_allclose(other.tissue / factor, parts.tissue, atol=2e-3)
    assert np.mean((other.blood != 0) != (parts.blood != 0)) < 0.005


def test_bytes_gaps_and_signed_data(moving):
    tissue, bubbles, _ = moving
    cine = tissue + bubbles
    bytes_ = np.clip(200 * cine, 0, 255).astype(np.uint8)
    assert scores(separate(bytes_).blood / 200, bubbles)[1] > 0.75
    gaps = scene(reach=0.0)
    holed = gaps[0] + gaps[1]
    holed[2, 5:20, 5:20] = np.nan
    found = separate(holed)
    assert np.isfinite(found.tissue).all()
    assert not found.blood[2, 5:20, 5:20].any()
    signed = separate(cine - cine.mean(), motion=False)
    assert signed.outliers == "both"


def test_black_and_constant_cines():
    for value in (0.0, 3.0):
        found = separate(np.full((6, 40, 40), value))
        assert_allclose(found.tissue, value, atol=1e-5)
        assert not found.blood.any()
    assert not decibels(np.zeros((3, 4))).any()


@pytest.mark.parametrize("patch", [None, 32])
def test_a_black_surrounding_and_text_do_no_harm(patch):
    """As scanners write it: a sector on black, with letters."""
    tissue, bubbles, _ = scene()
    cine = np.zeros((FRAMES, 2 * SIZE, 2 * SIZE), np.float32)
    inner = (slice(None), slice(30, 30 + SIZE), slice(40, 40 + SIZE))
    cine[inner] = tissue + bubbles
    cine[:, 5:10, 5:60:3] = 1.0
    found = separate(np.round(255 * np.minimum(cine, 1)).astype(np.uint8), patch=patch)
    assert scores(found.blood[inner] / 255, bubbles)[1] > 0.85
    assert_allclose(found.tissue[:, 5:10, 5:60:3], 255, atol=3)
    assert not found.blood[:, :20].any()


def test_patches_cover_everything():
    for length in (8, 31, 32, 33, 57, 160, 161):
        starts = patches._starts(length, 32)
        covered = np.zeros(length, int)
        for at in starts:
            covered[at : at + 32] += 1
        assert covered.min() >= 1
        assert starts[-1] + 32 >= length
        gaps = np.diff(starts)
        assert not len(gaps) or gaps.max() <= 32 - patches.OVERLAP


def new_speckle(power):
    """Of Rayleigh's kind, or more uneven; at most 1."""
    rng = np.random.default_rng(0)
    waves = ndimage.gaussian_filter(rng.standard_normal((2, 24, 64, 64)), (0, 0, 1, 2))
    cine = np.hypot(*waves) ** power
    return (cine / cine.max()).astype(np.float32)


@each("power", [1.0, 1.5])
def test_speckle_that_is_new_in_every_frame_is_told(power, tmp_path):
    """Blood cannot be told from it: hardly any is shown, and the exit code says so."""
    cine = new_speckle(power)
    np.save(tmp_path / "cine.npy", cine)
    asked = ["ultrasound", str(tmp_path / "cine.npy"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1
    assert "new in every frame" in done.output
    assert "new in every frame" in (tmp_path / "out/report.html").read_text()
    blood = np.load(tmp_path / "out/blood.npy")
    assert np.linalg.norm(blood) < 0.25 * np.linalg.norm(cine - cine.mean(0))


def test_bubbles_that_stand_clear_of_speckle_stay():
    """As they would be in tissue that is the same in all frames; but speckle is told."""
    cine = new_speckle(1.0)
    cine[::6, 30:33, 30:33] += 3
    with pytest.warns(ConvergenceWarning, match="new in every frame"):
        parts = separate(cine)
    assert parts.blood.max() == parts.blood[::6, 30:33, 30:33].max() > 2.5


@each(
    ("cine", "options", "sentence"),
    [
        (np.zeros((1, 40, 40)), {}, "has 1 frame;"),
        (np.zeros((40, 40)), {}, r"shape \(40, 40\)"),
        (np.zeros((9, 3, 40)), {}, "3 x 40 pixels"),
        (np.full((9, 40, 40), "a"), {}, "numbers are wanted"),
        (np.full((9, 40, 40), np.nan), {}, "no observed"),
        (np.full((9, 40, 40), np.inf), {}, "infinite"),
        (np.array([["a"]]), {}, "numbers are wanted"),
        (np.zeros((9, 40, 40)), {"rank": 9}, "1 to 8"),
        (np.zeros((9, 40, 40)), {"patch": 4}, "at least 16"),
        (np.zeros((9, 40, 40)), {"patch": 32.5}, "patches of 32.5 pixels"),
        (np.zeros((9, 40, 40)), {"rank": 1.5}, "1 to 8"),
        (np.zeros((9, 40, 40)), {"seed": -1}, "seed=-1"),
        (np.zeros((9, 40, 40)), {"sample": 0.0}, "more than 0"),
        (np.zeros((9, 40, 40)), {"outliers": "dark"}, "auto, both, positive"),
    ],
)
def test_bad_cines(cine, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        separate(cine, **options)


# ---- files


@pytest.fixture(scope="module")
def cine():
    """Bytes, small: reading is tested here."""
    tissue, bubbles, _ = scene()
    return np.clip(200 * (tissue + bubbles), 0, 255).astype(np.uint8)[:8, :40, :48]


def test_every_kind_of_file_is_read(cine, tmp_path):
    np.save(tmp_path / "a.npy", cine)
    np.savez(tmp_path / "a.npz", bmode=cine, rate=np.array(30.0))
    scipy.io.savemat(
        tmp_path / "a.mat", {"bmode": np.moveaxis(cine, 0, -1), "rate": 30.0}
    )
    dicom(tmp_path / "a.dcm", cine)
    dicom(tmp_path / "nosuffix", cine.astype(np.uint16) * 7, bits=16)
    dicom(tmp_path / "inverse.dcm", cine.max() - cine, "MONOCHROME1")
    dicom(tmp_path / "colour.dcm", np.repeat(cine[..., None], 3, 3), "RGB")
    for name in ("a.npy", "a.npz", "a.mat", "a.dcm"):
        assert_array_equal(read_cine(tmp_path / name).frames, cine)
    assert_array_equal(
        read_cine(tmp_path / "nosuffix").frames, cine.astype(np.uint16) * 7
    )
    chroma = np.stack([cine, np.full_like(cine, 100), np.full_like(cine, 140)], axis=3)
    dicom(tmp_path / "ybr.dcm", chroma, "YBR_FULL")
    seen = (cine > 40) & (cine < 200)  # elsewhere colours leave the range of RGB
    assert_allclose(read_cine(tmp_path / "ybr.dcm").frames[seen], cine[seen], atol=1.5)
    inverse = read_cine(tmp_path / "inverse.dcm").frames.astype(int)
    assert_array_equal(np.diff(inverse, axis=0), np.diff(cine.astype(int), axis=0))
    assert_allclose(read_cine(tmp_path / "colour.dcm").frames, cine, atol=0.01)
    assert not np.any(read_cine(tmp_path / "ybr.dcm").frames % 1)
    assert_array_equal(
        read_cine(tmp_path / "a.mat", time="first").frames, np.moveaxis(cine, 0, -1)
    )


def test_a_folder_of_frames(cine, tmp_path):
    for k, frame in enumerate(cine):
        dicom(tmp_path / f"{k:03}.dcm", frame[None])
    assert_array_equal(read_cine(tmp_path).frames, cine)
    dicom(tmp_path / "100.dcm", cine[:1, :30])
    with pytest.raises(ValueError, match=r"40 x 48 pixels and 100\.dcm of 30 x 48"):
        read_cine(tmp_path)


def test_the_file_pydicom_brings():
    """Real, compressed or not: frames, or a sentence that names what is missing."""
    pydicom_data = pytest.importorskip("pydicom.data")
    path = pydicom_data.get_testdata_file("examples_ybr_color.dcm", download=False)
    if path is None:
        pytest.skip("this pydicom brings no such file")
    try:
        frames = read_cine(path).frames
    except ValueError as error:
        assert "is compressed" in str(error)  # noqa: PT017
    else:
        assert frames.shape == (30, 240, 320)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
def test_an_echo_cine_with_a_black_surrounding():
    """Corners of the sector, where next to nothing is noise; all of it stays in the
    range of the cine.
    """
    with np.load(DATA / "echo_cine_pydicom.npz") as content:
        cine = content["frames"][:, 56:152, 224:]
    parts = separate(cine, motion=False)
    assert parts.status == "converged"
    assert parts.tissue.min() >= 0
    assert parts.tissue.max() <= 255
    assert 0 < (parts.blood != 0).mean() < 0.2


def test_deviations_are_those_of_pixels_without_blood(moving, parts):
    """Also where blood hides the tissue: 90 % of it is within the band of 90 %."""
    tissue, bubbles, _ = moving
    off = np.abs(tissue - parts.tissue)
    band = np.broadcast_to(1.645 * parts.deviation, off.shape)
    for some in (bubbles < 0.005, bubbles > 0.05):
        known = some & np.isfinite(band)
        assert 0.84 < np.mean(off[known] <= band[known]) < 0.95
        assert known.sum() > 0.9 * some.sum()


@pytest.mark.parametrize("kind", ["npy", "npz", "mat", "dcm"])
def test_what_is_written(cine, tmp_path, kind):
    source = tmp_path / f"in.{kind}"
    if kind == "npy":
        np.save(source, cine)
    elif kind == "npz":
        np.savez(source, bmode=cine)
    elif kind == "mat":
        scipy.io.savemat(source, {"bmode": np.moveaxis(cine, 0, -1)})
    else:
        dicom(source, cine)
    written = separate_file(source, tmp_path / "out")
    suffix = "npz" if kind == "dcm" else kind
    arrays = {f"{stem}.{suffix}" for stem in ("tissue", "blood", "deviation", "lit")}
    names = arrays | {"power.png", "report.html"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == names
    assert_array_equal(
        written.parts.lit, (written.parts.blood != 0).mean(0, dtype=np.float32)
    )
    for stem in ("tissue", "blood"):
        back = read_cine(tmp_path / "out" / f"{stem}.{suffix}")
        assert back.frames.dtype == np.float32
        assert back.name == ("bmode" if kind in ("npz", "mat") else "frames")
        assert_array_equal(back.frames, getattr(written.parts, stem))
    from PIL import Image

    with Image.open(tmp_path / "out" / "power.png") as image:
        assert image.size == (48, 40)


def run(*arguments):
    return CliRunner().invoke(app, ["ultrasound", *map(str, arguments)])


def test_the_command(cine, tmp_path):
    np.savez(tmp_path / "in.npz", a=cine, b=cine[:, ::2])
    done = run(tmp_path / "in.npz", "-o", tmp_path / "out", "--name", "a")
    assert done.exit_code == 0, done.output
    assert "8 frames of 48 x 40 pixels" in done.output
    assert (tmp_path / "out" / "report.html").exists()
    tissue, bubbles, _ = scene(reach=0.0)
    np.savez(tmp_path / "still.npz", a=tissue + bubbles, b=tissue[:, ::2])
    options = ["--name", "a", "--patch", 0, "--no-motion"]
    done = run(tmp_path / "still.npz", "-o", tmp_path / "still", *options)
    assert done.exit_code == 0, done.output
    assert "14 frames of 64 x 64 pixels" in done.output


def truncated(path, content):
    path.write_bytes(content[: len(content) // 2])
    return path


def faults(folder, cine):
    np.save(folder / "good.npy", cine)
    np.savez(folder / "two.npz", a=cine, b=cine[:, ::2])
    np.savez_compressed(folder / "good.npz", a=cine)
    dicom(folder / "good.dcm", cine)
    scipy.io.savemat(folder / "good.mat", {"a": np.moveaxis(cine, 0, -1)})
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.dcm").write_text("not a DICOM file")
    (folder / "picture.jpg").write_bytes(b"\xff\xd8")
    np.save(folder / "single.npy", cine[:1])
    np.save(folder / "flat.npy", cine[0])
    np.save(
        folder / "mixed.npy",
        np.array([cine[0], cine[0, ::2]], dtype=object),
        allow_pickle=True,
    )
    (folder / "nothing").mkdir()
    yield folder / "absent.npy", "no such file"
    yield folder / "empty.npy", "is empty"
    yield folder / "text.dcm", "could not be read"
    yield folder / "picture.jpg", "a cine in one of"
    yield folder / "single.npy", "1 frame;"
    yield folder / "flat.npy", "frames x height x width"
    yield folder / "mixed.npy", "could not be read"
    yield folder / "two.npz", "2 cines (a, b)"
    yield folder / "nothing", "no DICOM files"
    for name in ("good.npy", "good.npz", "good.dcm", "good.mat"):
        yield (
            truncated(folder / f"half-{name}", (folder / name).read_bytes()),
            "could not be read",
        )


def test_faults_are_told_in_a_sentence_and_leave_nothing(cine, tmp_path):
    for path, sentence in faults(tmp_path, cine):
        before = set(tmp_path.iterdir())
        done = run(path, "-o", tmp_path / "out")
        assert done.exit_code == 2, path
        assert sentence in done.output, path
        assert done.output.count("\n") == 1, path
        assert set(tmp_path.iterdir()) == before


def test_no_partial_output_when_writing_fails(cine, tmp_path, monkeypatch):
    np.save(tmp_path / "in.npy", cine)

    def full(*_):
        raise OSError(28, "No space left on device", "power.png")

    monkeypatch.setattr(files, "_write_picture", full)
    assert run(tmp_path / "in.npy", "-o", tmp_path / "out").exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["in.npy"]


def test_compressed_pixels_without_a_decoder(cine, tmp_path):
    pydicom = pytest.importorskip("pydicom")
    from pydicom.encaps import encapsulate
    from pydicom.uid import JPEG2000

    path = dicom(tmp_path / "in.dcm", cine)
    content = pydicom.dcmread(path)
    content.PixelData = encapsulate([b"\xff\x4f\xff\x51" + bytes(60)] * len(cine))
    content["PixelData"].is_undefined_length = True
    content.file_meta.TransferSyntaxUID = JPEG2000
    content.save_as(path)
    with pytest.raises(
        ValueError, match=r"is compressed \(JPEG 2000|could not be read"
    ) as caught:
        read_cine(path)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "in.npy", rng.random((40, 200, 200), np.float32))
    command = [
        sys.executable,
        "-m",
        "lrmc.cli",
        "ultrasound",
        str(tmp_path / "in.npy"),
        "-o",
        str(tmp_path / "out"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(600):  # until it works
        if any(file.is_dir() for file in tmp_path.iterdir()):
            break
        if process.poll() is not None:
            break
        signal.sigtimedwait([], 0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == "interrupted"
    assert [file.name for file in tmp_path.iterdir()] == ["in.npy"]


def test_the_report_in_a_browser(cine, tmp_path, show):
    np.save(tmp_path / "<i>in.npy", cine)
    separate_file(tmp_path / "<i>in.npy", tmp_path / "out")
    page = show(tmp_path / "out" / "report.html")
    assert page.evaluate(
        "Array.from(document.images).every(image => image.complete && image.naturalWidth > 0)"
    )
    assert page.locator(".film output").inner_text() == "frame 1 of 8"
    page.locator(".film input").focus()
    page.keyboard.press("End")
    assert page.locator(".film output").inner_text() == "frame 8 of 8"
    assert page.locator(".compare").count() == 2
    assert page.locator(".subtitle").inner_text() == "<i>in.npy"


# ---- real data


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
def test_real_tissue_plus_real_bubbles(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "experiments")
    import ultrasound as experiment

    task = experiment.real(DATA.parent)
    assert len(task.scored) == 13
    found = separate(task.cine)
    scored = experiment.scores(task, found.tissue, found.blood)
    assert scored["S error"] < 0.62
    assert scored["F1"] > 0.7

"""Faces: heads with a known answer, the folders, the command and its faults."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from each import each
from made.spheres import heads, write_heads
from real_data import DATA
from scipy import ndimage

from lrmc.apps.faces import clean_faces
from lrmc.apps.faces.doubt import simple_deviation
from lrmc.apps.faces.show import shown_deviation, shown_removed

pytest.importorskip("PIL")
pytest.importorskip("typer")
from PIL import Image
from typer.testing import CliRunner

from lrmc import Schedule
from lrmc.cli import app
from lrmc.methods.noisy_layers import Layers, Numbers
from lrmc.methods.plan import Plan


@pytest.fixture(scope="module")
def made():
    return heads(24, 48, 40)


@pytest.fixture(scope="module")
def cleaned(made):
    return clean_faces(made.images, rank=4)


@pytest.fixture(scope="module")
def source(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("faces")
    for name, seed in (("anna", 0), ("bert", 1)):
        (folder / name).mkdir()
        write_heads(folder / name, made if seed == 0 else heads(16, 40, 36, seed=seed))
    (folder / "anna" / "notes.txt").write_text("no picture")
    return folder


@pytest.fixture(scope="module")
def written(source, tmp_path_factory):
    target = tmp_path_factory.mktemp("out") / "clean faces"
    answer = CliRunner().invoke(
        app, ["faces", str(source), "-o", str(target), "--rank", "4"]
    )
    assert answer.exit_code == 0, answer.output
    return target


def psnr(x, truth):
    return 20 * np.log10(255 / np.sqrt(np.mean((x.astype(float) - truth) ** 2)))


def test_what_covers_a_face_is_removed(made, cleaned):
    there = made.covered
    assert (
        psnr(cleaned.clean[there], made.truth[there])
        > psnr(made.images[there], made.truth[there]) + 10
    )
    plain = np.broadcast_to(np.median(made.images, axis=0), made.images.shape)
    assert (
        psnr(cleaned.clean[there], made.truth[there])
        > psnr(plain[there], made.truth[there]) + 3
    )
    assert cleaned.clean.dtype == np.uint8
    away = made.images.astype(float) - cleaned.clean
    assert np.abs(cleaned.removed - away)[cleaned.clean > 0].max() <= 0.5 + 1e-3


def test_hidden_pixels_come_back(made):
    seen = np.random.default_rng(0).random(made.images.shape) > 0.3
    images = np.where(seen, made.images, 255)
    found = clean_faces(images, seen, rank=4)
    assert psnr(found.clean[~seen], made.truth[~seen]) > 28


def test_what_was_guessed_is_told(made):
    """And by how much it may be off."""
    seen = np.random.default_rng(0).random(made.images.shape) > 0.1
    found = clean_faces(made.images, seen, rank=4, uncertainty=True)
    guessed, deviation, why = found.doubt
    assert guessed[~seen].all()
    assert not why
    truth = made.truth.astype(float)
    covered = seen & made.covered & (np.abs(made.images - truth) > 30)
    assert guessed[covered].mean() > 0.9
    assert guessed[seen & ~made.covered].mean() < 0.1
    off = np.abs(found.clean - truth)[guessed] / deviation[guessed]
    assert np.mean(off < 1.645) > 0.8
    assert np.mean(off < 0.1) < 0.5  # not simply wide
    # spheres are unlike the faces of the schedule
    assert found.numbers == "decided anew"


def test_missing_pixels_have_all_of_the_fit(made):
    """Not its low rank alone, where more was found to fill better."""
    images = made.images[:10, ::2, ::2]
    seen = np.random.default_rng(0).random(images.shape) > 0.2
    found = clean_faces(images, seen)
    fit, columns = found.result.fit, images.reshape(10, -1)
    assert fit.beyond
    cols, rows = np.nonzero(~seen.reshape(10, -1))
    wanted = columns[cols, rows] - fit.at(rows, cols)
    removed = found.removed.reshape(10, -1)
    inside = np.abs(wanted) < 100  # others may have been clipped
    np.testing.assert_allclose(removed[cols, rows][inside], wanted[inside], atol=0.01)


def test_what_no_picture_shows_is_clipped_and_counted(tmp_path):
    """Shadows of a dark face, and a highlight: the model of a matt surface is negative, or white."""
    rng = np.random.default_rng(0)
    face, light = rng.normal(0, 1, (30, 28, 3)), rng.normal(0, 1, (3, 20))
    pictures = np.moveaxis(30 + 25 * face @ light, -1, 0)
    images = np.clip(pictures, 0, 255).astype(np.uint8)
    found = clean_faces(images, rank=4)
    assert 0.001 < found.clipped / images.size < 0.3
    assert np.abs(images - found.removed - found.clean).max() <= 0.51
    for k, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{k:02}.png")
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["faces", str(tmp_path), "-o", str(out), "-r", "4"])
    assert f"{found.clipped / images.size:.2%}" in done.output
    assert "that no sensor shows" in (out / "report.html").read_text()


@each("kind", ["noise", "shifted"])
def test_pictures_with_nothing_in_common_are_told(kind, tmp_path):
    """Of noise, or faces that lie elsewhere in each picture, the median tells as much as low rank."""
    rng = np.random.default_rng(0)
    if kind == "noise":
        images = rng.integers(0, 256, (12, 24, 20), dtype=np.uint8)
    else:
        texture = ndimage.gaussian_filter(rng.random((90, 80)), 1.0)
        grey = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
        images = np.stack([grey[5 * k :, 4 * k :][:24, :20] for k in range(12)])
    (tmp_path / "in").mkdir()
    for k, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "in" / f"{k}.png")
    asked = ["faces", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    assert "so little in common" in done.output
    assert "so little in common" in (tmp_path / "out/report.html").read_text()


def test_the_median_picture_is_as_bright_as_each():
    """Equal pictures but for their gain are told to half a grey level."""
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 256, (600, 1)) * rng.uniform(0.5, 1, 9)
    seen = rng.random(values.shape) < 0.8
    assert simple_deviation(values, np.ones_like(seen)) < 0.5
    values += rng.normal(0, 10, values.shape)
    assert simple_deviation(values, seen) == pytest.approx(10, rel=0.15)


def test_deviations_as_pictures():
    shown = shown_deviation(np.array([[0.0, 1.234, 700.0]]))
    assert shown.tolist() == [[0, 123, 65535]]
    colours = np.array([[[1.0, 2.0, 3.0]]])
    assert shown_deviation(colours).tolist() == [[300]]


def test_few_pictures_are_not_like_those_that_were_learned_on(made):
    few = clean_faces(made.images[:10, ::2, ::2], rank=4)
    assert few.numbers == "decided anew"


def test_a_schedule_that_does_not_fit_is_left_out(made):
    # shrunk to nothing
    numbers = Numbers(reach=3.0, shape=1.0, prior=20.0, kappa=20.0, eta=0.05)
    bad = Schedule(plan=Plan(Layers.same(numbers, 3), rank=4).plain())
    images = made.images[:, ::3, ::3]
    with pytest.warns(UserWarning, match="without it; it was left out"):
        found = clean_faces(images, rank=4, schedule=bad)
    plain = clean_faces(images, rank=4, schedule=None)
    np.testing.assert_array_equal(found.clean, plain.clean)
    assert found.status is plain.status
    (said,) = found.warnings
    assert said.startswith("the faces: the schedule ")


def test_colours_share_their_fate():
    """A cover that shows in one colour only is removed from it, and the others stay right."""
    made = heads(16, 24, 20)
    tint = np.array([1.0, 0.8, 0.6])
    truth = (made.truth[..., None] * tint).astype(np.uint8)
    images = truth.copy()
    images[..., 1] = np.where(made.covered, made.images, truth[..., 1])
    found = clean_faces(images, rank=4, uncertainty=True)
    assert found.clean.shape == images.shape
    assert found.doubt.deviation.shape == images.shape
    assert found.doubt.guessed.shape == images.shape[:3]
    assert psnr(found.clean[made.covered], truth[made.covered]) > 27


def test_what_was_removed_as_a_picture():
    shown = shown_removed(np.array([[0.0, -255.0, 255.0, 40.0]]), np.dtype(np.uint8))
    assert shown.tolist() == [[128, 0, 255, 148]]


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.zeros((5, 4)), "n x height x width"),
        (np.zeros((2, 4, 4)), "at least 3"),
        (np.zeros((5, 4, 4), bool), "n x height x width"),
    ],
)
def test_bad_pictures_are_told(images, words):
    with pytest.raises(ValueError, match=words):
        clean_faces(images)


@pytest.mark.parametrize("rank", [0, 24, 2.5])
def test_bad_ranks_are_told(made, rank):
    with pytest.raises(
        ValueError, match="for 24 pictures; a whole number from 1 to 23"
    ):
        clean_faces(made.images, rank=rank)


def test_a_mask_of_another_shape(made):
    with pytest.raises(ValueError, match="seen has shape"):
        clean_faces(made.images, np.ones((3, 3), bool))


def test_files(source, written, cleaned):
    assert sorted(p.name for p in written.iterdir()) == [
        "clean",
        "contact.png",
        "deviation",
        "guessed",
        "removed",
        "report.html",
    ]
    for kind in ("clean", "deviation", "guessed", "removed"):
        for person in ("anna", "bert"):
            names = sorted(p.name for p in (written / kind / person).iterdir())
            assert names == sorted(p.name for p in (source / person).glob("*.png"))
    with Image.open(written / "clean" / "anna" / "light05.png") as image:
        assert np.array_equal(np.asarray(image), cleaned.clean[5])
    with Image.open(written / "contact.png") as sheet:
        assert sheet.size[0] > 1000
        assert len(sheet.convert("RGB").getcolors(1 << 24)) > 50


def test_a_folder_of_pictures_is_one_person(source, tmp_path):
    answer = CliRunner().invoke(
        app, ["faces", str(source / "bert"), "-o", str(tmp_path / "out"), "--rank", "3"]
    )
    assert answer.exit_code == 0, answer.output
    assert len(list((tmp_path / "out" / "clean" / "bert").iterdir())) == 16


def test_the_report_in_a_browser(written, show):
    page = show(written / "report.html")
    film = page.locator(".film").first
    film.locator("input").focus()
    page.keyboard.press("ArrowRight")
    assert film.locator("output").inner_text() == "light01.png"
    assert page.evaluate(
        "Array.from(document.images).every(image => image.complete && image.naturalWidth > 0)"
    )


def other_size(folder):
    Image.new("L", (10, 10)).save(folder / "odd.png")


def truncated(folder):
    content = (folder / "light00.png").read_bytes()
    (folder / "odd.png").write_bytes(content[: len(content) // 2])


FAULTS = {
    "mixed sizes": (other_size, "10 x 10 pixels"),
    "truncated": (truncated, "cannot be read as a picture"),
    "empty": (
        lambda folder: (folder / "odd.png").write_bytes(b""),
        "cannot be read as a picture",
    ),
    "text": (
        lambda folder: (folder / "odd.jpg").write_text("no picture"),
        "cannot be read as a picture",
    ),
    "bits": (
        lambda folder: Image.fromarray(np.zeros((40, 36), np.uint16)).save(
            folder / "odd.png"
        ),
        "8 and of 16 bits",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_told_in_a_sentence(fault, source, tmp_path):
    make, words = FAULTS[fault]
    shutil.copytree(source / "bert", tmp_path / "in" / "bert")
    make(tmp_path / "in" / "bert")
    answer = CliRunner().invoke(
        app, ["faces", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    )
    assert answer.exit_code == 2, answer.output
    assert words in answer.output
    assert answer.output.strip().count("\n") == 0
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_no_pictures_or_too_few(source, tmp_path):
    def told(folder, target):
        answer = CliRunner().invoke(app, ["faces", str(folder), "-o", str(target)])
        assert answer.exit_code == 2, answer.output
        return answer.output

    assert "no such folder" in told(tmp_path / "none", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    assert "no pictures" in told(tmp_path / "empty", tmp_path / "out")
    shutil.copy(source / "bert" / "light00.png", tmp_path / "empty")
    assert "1 picture(s)" in told(tmp_path / "empty", tmp_path / "out")
    assert "choose another folder" in told(source, source)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
def test_real_faces(monkeypatch):
    """Every third pixel of one person: above what the issue asks of all pixels."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "experiments")
    tasks = pytest.importorskip("tasks")
    problem = next(tasks.faces(tasks.Source(DATA), "yaleB01"))
    images, seen = (X.T.reshape(-1, 192, 168) for X in (problem.Y, problem.mask))
    found = clean_faces(images[:, ::3, ::3], seen[:, ::3, ::3], rank=9)
    X = np.zeros(images.shape)
    X[:, ::3, ::3] = found.clean
    truth = np.load(DATA / "faces" / "extyaleb_yaleB01.npz")["images"]
    judged = (~seen | (truth != images)) & problem.columns[:, None, None]
    some = np.zeros_like(judged)
    some[:, ::3, ::3] = judged[:, ::3, ::3]
    assert psnr(X[some], truth[some]) > 28

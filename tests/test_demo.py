import importlib.util

import numpy as np
import pytest

from lrmc import relative_error
from lrmc.demo import picture as pictures
from lrmc.demo import problems
from lrmc.demo import scene as demo


def test_the_paper_is_shown_where_its_schedule_was_made():
    *_, same, paper = problems.problems(3000)
    assert same.Y is paper.Y
    line = problems.measured(paper)
    assert line.result.method == "lrmc"
    assert line.result.converged
    assert line.error < 1e-5


@pytest.mark.parametrize(
    "case", list(problems.problems(1000))[:-1], ids=lambda case: case.name
)
def test_problems_are_solved_and_measured(case):
    line = problems.measured(case)
    assert line.result.converged
    assert line.result.rank == problems.RANK
    assert line.error < (1e-2 if "noise" in case.name else 1e-5)
    assert line.result.regime == ("noisy" if "noise" in case.name else "exact")
    assert line.result.method == "closed_loop"


@pytest.fixture(scope="module")
def scene():
    return demo.film(48, 72, 100)


def test_the_film_is_what_it_says(scene):
    assert scene.observed.shape == (48 * 72 * 3, 100)
    assert np.isnan(scene.observed).mean() == pytest.approx(demo.HIDDEN, abs=0.01)
    assert demo.CORRUPTED < scene.outliers < 0.15
    X = scene.background.L @ scene.background.R.T
    assert np.linalg.matrix_rank(X) == 3
    off = np.abs(scene.observed - X) > 1e-6
    assert off.sum() == pytest.approx(
        scene.outliers * np.count_nonzero(~np.isnan(scene.observed))
    )


def test_the_film_is_recovered_and_shown(scene, tmp_path):
    pytest.importorskip("matplotlib")
    from PIL import Image

    seen = []
    found = demo.recovered(scene, seen.append)
    assert found.result.converged
    assert len(seen) == len(found.errors) == len(found.result.history)
    assert found.errors[-1] == relative_error(found.result, scene.background)
    assert found.exact > 0.99
    assert 0 <= found.lost < 0.05 * 48 * 72
    pictures.picture(
        scene, found, pictures.checked_directory(tmp_path / "a" / "b") / "demo.png"
    )
    with Image.open(tmp_path / "a" / "b" / "demo.png") as image:
        assert image.size == (1280, 800)
        assert len(image.convert("RGB").getcolors(1 << 24)) > 100


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch):
    typer_testing = pytest.importorskip("typer.testing")
    pytest.importorskip("matplotlib")
    from lrmc import cli

    monkeypatch.setattr(demo.film, "__defaults__", (48, 72, 100, 0))
    done = typer_testing.CliRunner().invoke(
        cli.app, ["demo", "-o", str(tmp_path), "--size", "500"], env={"COLUMNS": "90"}
    )
    assert done.exit_code == 0, done.output
    for name in (
        "all observed",
        "half missing",
        "noise",
        "10 % observed",
        "LRMC",
        "integers",
        "The picture",
        "The report",
    ):
        assert name in done.stdout
    assert (tmp_path / "report.html").exists()
    table = (
        importlib.util.find_spec("sklearn") is not None
        and importlib.util.find_spec("pandas") is not None
    )
    assert (tmp_path / "completed.report.html").exists() == table
    assert ("decimal points out of place" in done.stdout) == table
    assert ("is left out" in done.stdout) != table
    assert 0 < (tmp_path / "demo.png").stat().st_size < 300_000

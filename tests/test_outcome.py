"""The seam between applications and their fits: no status is dropped, and nothing
impossible is written.
"""

import numpy as np
import pytest
from each import each
from made.landscape import landscape, write_landscape

from lrmc import _kernels
from lrmc.apps import clouds, outcome
from lrmc.apps.outcome import (
    SOUND,
    FitFailed,
    Limits,
    noisy_fit,
    run_to_end,
    share_clipped,
    shown,
    solved,
    told,
)
from lrmc.methods.noisy import Noise
from lrmc.methods.step import Step
from lrmc.observations import as_observations
from lrmc.result import Status
from lrmc.solve import ConvergenceWarning

pytest.importorskip("typer")
for needed in ("rasterio", "av", "PIL"):
    pytest.importorskip(needed)
from made.spheres import heads, write_heads
from typer.testing import CliRunner

from lrmc.cli import app


def steps(*sizes):
    for size in sizes:
        yield Step(np.full((6, 1), size), np.ones((5, 1)), 1.0, 1.0)


@pytest.mark.parametrize("last", [1e4, np.nan, np.inf])
def test_steps_that_blow_up_are_an_error(last):
    obs = as_observations(np.ones((6, 5)))
    with pytest.raises(FitFailed, match="the film: the fit diverged"):
        run_to_end(obs, steps(1.0, 2.0, last), "the film")
    X, ended = run_to_end(obs, steps(1.0, 2.0, 3.0), "the film")
    assert X.L[0, 0] == 3.0
    assert ended == SOUND


def test_too_few_observations_are_told():
    obs = as_observations(np.eye(6), np.eye(6, dtype=bool))
    with pytest.warns(
        ConvergenceWarning, match="6 values are observed, and rank 1 has 11 unknowns"
    ):
        _, ended = run_to_end(
            obs, iter([Step(np.ones((6, 1)), np.ones((6, 1)), 1.0, 1.0)]), "the film"
        )
    assert ended.status is Status.UNDETERMINED
    assert not ended.sound


def test_what_solve_says_is_kept_and_said():
    rng = np.random.default_rng(0)
    Y = (
        rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
        + (rng.random((60, 50)) < 0.2) * 9.0
    )
    with pytest.warns(ConvergenceWarning, match="the faces: after 1 iterations"):
        result, ended = solved(Y, 2, what="the faces", max_iter=1)
    assert ended.status is result.status is Status.MAX_ITER
    assert len(ended.warnings) == 1
    assert ended.sections()[0].tone == "warning"
    assert SOUND.sections() == []


def test_values_beyond_the_sensor_are_clipped_and_counted():
    limits = Limits(np.array(0.0), np.array(100.0))
    model = np.full((50, 100), 50, np.float32)
    model[0, :3] = -20, 149, 180
    kept, count = limits.held(model, "the ground")
    assert count == 1
    assert kept[0, :3].tolist() == [-20, 149, 150]
    assert kept.dtype == np.float32
    for bad in (np.nan, np.inf):
        with pytest.raises(FitFailed, match="far outside what was observed, 0 to 100"):
            limits.held(np.where(model == 180, np.float32(bad), model), "the ground")
    with pytest.raises(FitFailed, match="far outside"):
        limits.held(30 * model, "the ground")


def test_what_no_sensor_shows_is_clipped_and_counted():
    model = np.array([[-3.0, 0, 5], [np.nan, 255.4, 300]], np.float32)
    kept, count = shown(model, -0.5, 255.5)
    assert count == 2
    np.testing.assert_array_equal(
        kept, np.float32([[-0.5, 0, 5], [np.nan, 255.4, 255.5]])
    )
    assert shown(kept, -0.5)[1] == 0
    assert share_clipped(2, 400) == "2 values (0.50%) that no sensor shows"


def test_few_noisy_dates_are_not_taken_for_exact():
    """Twelve dates: the closed loop raises the rank until it interpolates. Noise of 5 is found."""
    rng = np.random.default_rng(1)
    n, T = 900, 12
    truth = 300 + 40 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, T))
    Y = np.rint(
        truth + rng.normal(0, 5, (n, T)) + (rng.random((n, T)) < 0.15) * 800
    ).astype(np.int16)
    obs = as_observations(Y)
    X, ended = noisy_fit(obs, None, Noise.even(obs, "cauchy"), 0, "the ground")
    assert ended == SOUND
    assert np.sqrt(np.mean((X.L @ X.R.T - truth) ** 2)) < 5


# ---- the four applications


def some_clip(folder):
    from PIL import Image

    (folder / "in").mkdir()
    frames = np.random.default_rng(0).integers(90, 110, (6, 24, 32), dtype=np.uint8)
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / "in" / f"{k}.png")
    return ["video", folder / "in"]


def some_cine(folder):
    cine = np.random.default_rng(0).normal(100, 10, (8, 24, 24))
    np.save(folder / "in.npy", cine)
    return ["ultrasound", folder / "in.npy", "--no-motion"]


def some_scenes(folder):
    (folder / "in").mkdir()
    return [
        "clouds",
        *write_landscape(folder / "in", landscape(12, 16, 16)),
        "--rank",
        2,
    ]


def some_faces(folder):
    (folder / "in").mkdir()
    write_heads(folder / "in", heads(8, 24, 20))
    return ["faces", folder / "in", "--rank", 2]


APPLICATIONS = {
    "video": some_clip,
    "ultrasound": some_cine,
    "clouds": some_scenes,
    "faces": some_faces,
}


def run(folder, *command):
    return CliRunner().invoke(app, [*map(str, command), "-o", str(folder / "out")])


def diverging(result):
    object.__setattr__(result, "status", Status.DIVERGED)
    return result


def without_numbers(*_, model, report, **__):
    """The kernel of ultrasound, if it diverged."""
    model.fill(np.nan)
    report.fill(1)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_of_a_fit_that_diverged_nothing_is_written(name, tmp_path, monkeypatch):
    command = APPLICATIONS[name](tmp_path)
    before = sorted(tmp_path.iterdir())
    solve = outcome.solve
    monkeypatch.setattr(outcome, "blown_up", lambda size, first: True)
    monkeypatch.setattr(_kernels, "patches", without_numbers)
    monkeypatch.setattr(outcome, "solve", lambda *a, **k: diverging(solve(*a, **k)))
    done = run(tmp_path, *command)
    assert done.exit_code == 1, done.output
    assert "the fit diverged" in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", APPLICATIONS)
def test_of_a_fit_far_from_the_data_nothing_is_written(name, tmp_path, monkeypatch):
    command = APPLICATIONS[name](tmp_path)
    before = sorted(tmp_path.iterdir())
    held = Limits.held
    monkeypatch.setattr(
        Limits, "held", lambda self, model, what: held(self, model + 1e6, what)
    )
    done = run(tmp_path, *command)
    assert done.exit_code == 1, done.output
    assert "far outside what was observed" in done.output
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_fit_that_is_not_sound_is_told_everywhere(name, tmp_path, monkeypatch):
    command = APPLICATIONS[name](tmp_path)

    def doubted(*given):
        return SOUND.warned("the fit is in doubt", Status.UNDETERMINED)

    for module in ("video.files", "ultrasound.model", "faces.model"):
        monkeypatch.setattr(f"lrmc.apps.{module}.after_clipping", doubted)
    monkeypatch.setattr("lrmc.apps.clouds.model.held", doubted)
    done = run(tmp_path, *command)
    assert done.exit_code == 1, done.output
    named = "in: " if name == "faces" else ""  # the folder of that person
    assert f"warning: {named}the fit is in doubt" in done.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The fit is in doubt." in page
    assert "undetermined" in page


@pytest.mark.parametrize("name", APPLICATIONS)
@each("rank", [99, 0, -1])
def test_ranks_are_checked_at_the_door(name, rank, tmp_path):
    command = APPLICATIONS[name](tmp_path)
    before = sorted(tmp_path.iterdir())
    done = run(tmp_path, *command, "--rank", rank)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert f"rank={rank} for" in done.output
    assert sorted(tmp_path.iterdir()) == before


def test_steps_are_told_and_stay_the_same():
    def letters():
        yield "a"
        yield "b"
        return "the end"

    stages = []
    run = told(letters(), stages.append, "learning")
    assert [next(run), next(run)] == ["a", "b"]
    with pytest.raises(StopIteration) as end:
        next(run)
    assert end.value.value == "the end"
    assert [(at.stage, at.done) for at in stages] == [("learning", 1), ("learning", 2)]


def test_fits_of_applications_are_not_silent():
    stages = []
    rng = np.random.default_rng(0)
    scenes = rng.uniform(500, 900, (2, 16, 16)) * rng.uniform(0.9, 1.1, (12, 1, 1, 1))
    clouds.remove_clouds(scenes.astype(np.uint16), progress=stages.append)
    counted = [at.stage for at in stages]
    assert counted.count("learning the ground") > 2
    assert counted[-1] == "clearing"

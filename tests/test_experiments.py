"""The experiments of the paper run, and a rerun gives the same iterations and errors."""

from __future__ import annotations

import csv
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lrmc
from lrmc.race.rivals import RIVALS
from lrmc.training.examples import as_examples

ROOT = Path(__file__).resolve().parent.parent
MADE = ("default", "families", "imputation", "intervals", "real", "video")
SCRIPTS = ("table1", "table2", "fig2", "fig3", "fig4", "fig5")


def run(script: str, *arguments: str, folder: str = "experiments") -> str:
    command = [sys.executable, str(ROOT / folder / f"{script}.py"), *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(file: Path) -> list[dict[str, str]]:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    clock = ("seconds", "start")
    return [
        {key: value for key, value in row.items() if key not in clock}
        for row in csv.DictReader(lines)
    ]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("quick")
    for script in SCRIPTS:
        run(script, "--quick", "--output", str(folder))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_rerun_gives_the_same_iterations_and_errors(
    script: str, results: Path, tmp_path: Path
) -> None:
    run(script, "--quick", "--output", str(tmp_path))
    assert rows(tmp_path / f"{script}.csv") == rows(results / f"{script}.csv")


@pytest.mark.slow
def test_what_is_there_is_not_measured_again(results: Path) -> None:
    before = (results / "table1.csv").read_text()
    assert run("table1", "--quick", "--output", str(results)) == ""
    assert (results / "table1.csv").read_text() == before
    lines = before.splitlines()
    (results / "table1.csv").write_text("\n".join(lines[:-1]) + "\n")
    run("table1", "--quick", "--output", str(results))
    # all of that instance once more
    assert rows(results / "table1.csv")[-1]["seed"] == "1"
    assert len((results / "table1.csv").read_text().splitlines()) == len(lines)


def test_what_people_wrote_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    write_made = importlib.import_module("written").write_made
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- table -->\nold\n<!-- end -->\n\nBy hand.\n")
    write_made(page, "new\n")
    write_made(page, "newer\n")
    assert page.read_text() == (
        "# Page\n\n<!-- table -->\nnewer\n<!-- end -->\n\nBy hand.\n"
    )
    page.write_text("# Page\n")
    with pytest.raises(ValueError, match="no place"):
        write_made(page, "new\n")


@pytest.mark.parametrize("name", MADE)
def test_pages_that_are_made_in_part_have_a_place_for_it(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text()
    assert text.count("<!-- table -->\n") == text.count("<!-- end -->\n") == 1


def test_no_time_no_rows(tmp_path: Path) -> None:
    assert "left for the next time" in run(
        "table1", "--quick", "--output", str(tmp_path), "--minutes", "0"
    )
    assert not (tmp_path / "table1.csv").exists()


@pytest.mark.slow
def test_the_page_has_the_papers_numbers_beside_ours(results: Path) -> None:
    run("page", "--folder", str(results), "--target", str(results / "paper.md"))
    text = (results / "paper.md").read_text()
    for line in (
        "| 30 | 15 | 21 | ",
        "| 100 | 12 | 18 | ",
        "| 30 | 0.68 | 7.12 | ",
        "| 100 | 1.48 | 16.4 | ",
    ):
        assert line in text
    for line in (
        "LRMC | 100% | 20 | 20 | 20 | 20 | 19 | 17",
        "ScaledGD | 100% | 20 | 20 | 20 | 0 | 0 | 0",
    ):
        assert f"| paper: {line} |" in text
    for line in (
        "LRMC | 10% | 20 | 20 | 20 | 14 | 12 | 0",
        "ScaledGD | 10% | 20 | 0 | 0 | 0 | 0 | 0",
    ):
        assert f"| paper: {line} |" in text
    assert "(fig3.png)" in text
    assert all((results / f"{name}.png").stat().st_size > 10_000 for name in SCRIPTS)
    assert "| as stated | FRMNN | the paper's grid | " in text
    assert "Not measured yet." in text  # Table IV, whose data are not here


@pytest.mark.slow
def test_who_measured_is_said_once(results: Path) -> None:
    lines = (results / "fig5.csv").read_text().splitlines()
    assert sum(line.startswith("# lrmc ") for line in lines) == 1
    assert "threads" in lines[0]


@pytest.mark.slow
def test_the_benchmarks_and_their_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("size", "--quick", "--output", str(tmp_path), folder="benchmarks")
    run(
        "peers",
        "--quick",
        "--limit",
        "10",
        "--output",
        str(tmp_path),
        folder="benchmarks",
    )
    run(
        "page",
        "--folder",
        str(tmp_path),
        "--target",
        str(tmp_path / "benchmarks.md"),
        folder="benchmarks",
    )
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| lrmc, rank given | " in text
    assert all(f"| {name} | " in text for name in RIVALS)
    assert "| 200 | 2 | 0.3 | " in text
    assert all((tmp_path / f"{name}.png").exists() for name in ("size", "peers"))


@pytest.mark.slow
def test_the_frontier_counts_what_is_wrong_and_what_was_said(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("frontier", "--quick", "--output", str(tmp_path))
    text, runs = (tmp_path / "frontier.md").read_text(), rows(tmp_path / "frontier.csv")
    for fresh in (False, True):
        mine = [row for row in runs if (int(row["seed"]) >= 100) == fresh]
        right = [row for row in mine if float(row["error"]) < 1e-5]
        assert (
            f"{len(mine)} runs, 1 seed(s) at most for each setting: {len(right)} right"
            in text
        )
    assert text.count("0 were called `converged, exact`") == 2
    assert {row["part"] for row in runs} == {
        "sampling",
        "share",
        "kind",
        "rank",
        "shape",
        "condition",
    }
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    # nothing is measured again
    assert run("frontier", "--quick", "--output", str(tmp_path)) == ""


def test_the_frontier_has_others_beside_ours(scripts: Any) -> None:
    frontier = scripts("frontier")
    about = {
        "part": "sampling",
        "given": "5",
        "seed": "0",
        "steps": "9",
        "left_open": "0",
    }
    lines = [
        about | {"setting": f"n 300 r 5 alpha {alpha} rho {rho}", "error": error}
        for alpha, rho, error in (("0", "2", "1e-7"), ("0.1", "2", "1e-2"))
    ]
    _, text = frontier.few_entries(lines)
    assert "| 0 | lrmc, rank given | 1/1 (9) |" in text
    assert "| 0 | *GNMR* | 4/4 |" in text
    assert "| 0.1 | lrmc, rank given | 0/1 |" in text
    assert "| 0.1 | *RGNMR, told how many outliers* | 0/4 |" in text


# ---- what they share


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Modules of the experiments (or the benchmarks) by name, forgotten afterwards."""
    names: list[str] = []

    def load(name: str, folder: str = "experiments") -> ModuleType:
        monkeypatch.syspath_prepend(str(ROOT / folder))
        names.extend((name, "common", "page", "synthetic_tables"))
        return importlib.import_module(name)

    from threadpoolctl import ThreadpoolController

    # `common` sets one thread of BLAS for good
    with ThreadpoolController().limit(limits=None):
        yield load
    for name in names:
        sys.modules.pop(name, None)


def test_a_sheet_says_who_measured_what(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = scripts("common")
    sheet = common.Sheet(tmp_path / "some.csv", ("seed",))
    for seed, who in enumerate("ABBA"):
        monkeypatch.setattr(common, "provenance", lambda who=who: who)
        sheet.add({"seed": seed, "numbers": "x", "error": 1.0})
    assert common.comments(sheet.path) == ["A", "B", "A"]
    assert [row["seed"] for row in sheet.rows()] == list("0123")
    sheet.drop(lambda row: row["seed"] in "12")
    # not B, who measured nothing that is left
    assert common.comments(sheet.path) == ["A", "A"]
    assert [row["seed"] for row in sheet.rows()] == list("03")


def test_runs_with_other_numbers_are_other_runs(scripts: Any, tmp_path: Path) -> None:
    common = scripts("common")
    sheet = common.Sheet(tmp_path / "some.csv", ("method", "seed"))
    for seed in range(3):
        sheet.add({"method": "GD, tuned", "seed": seed, "numbers": "old", "error": 1.0})
    wanted = [
        {"method": "GD, tuned", "seed": seed, "numbers": "new"} for seed in range(2)
    ]
    assert sheet.missing(wanted) == wanted
    sheet.add({**wanted[0], "error": 2.0})
    assert sheet.missing(wanted) == wanted[1:]
    assert [(row["seed"], row["numbers"]) for row in sheet.rows()] == [
        ("1", "old"),
        ("2", "old"),
        ("0", "new"),
    ]
    with pytest.raises(ValueError, match="columns"):
        sheet.add({"method": "GD, tuned", "seed": 9})


@pytest.mark.parametrize("rank", [3, 4])
def test_the_closed_loop_is_that_of_the_package(scripts: Any, rank: int) -> None:
    """Also where a component too many is dropped on the way."""
    common = scripts("common")
    problem = replace(common.drawn(150, 3, 0.1, 0.5, 0), rank=rank)
    ours = list(common.iterates(common.closed_loop(), problem))
    theirs = list(lrmc.iterates(problem.Y, rank, method="closed_loop"))
    assert len(theirs) == len(ours)
    assert theirs[-1].L.shape[1] == 3
    for one, other in zip(ours, theirs):
        np.testing.assert_array_equal(one.L, other.L)
        np.testing.assert_equal(one.change, other.change)


def test_the_page_hides_no_misses(scripts: Any) -> None:
    """Ratios are those of the same instance, and a row with a miss does not pass."""
    tables = scripts("synthetic_tables")
    seconds = {
        "ScaledGD": (10.0, 40.0, 70.0),
        "closed loop": (1.0, 2.0, 7.0),
        "LRMC, trained": (1.0, 2.0, 1.0),
    }
    made = [
        {
            "p": "0.1",
            "method": method,
            "seed": str(seed),
            "iterations": "9",
            "seconds": str(time),
            "reached": "1",
        }
        for method, times in seconds.items()
        for seed, time in enumerate(times)
    ]
    assert tables.Runs(made).ratios(10, "closed loop") == [10, 20, 10]
    made[-1]["reached"] = "0"
    runs = tables.Runs(made)
    assert sorted(runs.ratios(10, "LRMC, trained")) == [10, 20]
    text = tables.table_1(made)
    assert text.count("(1 of 3 missed)") == 2
    assert (
        "closed loop, at least 10 times faster than tuned ScaledGD: 1 of 1 rows" in text
    )
    assert (
        "LRMC, trained, no more iterations than the paper's LRMC: 0 of 1 rows" in text
    )


def test_peers_get_a_second_chance(scripts: Any) -> None:
    peers = scripts("peers", "benchmarks")
    places = peers.Places({"pyrpca": "python"}, {})
    row = {"method": "pyrpca", "note": "not installed"}
    assert peers.outdated(row, 60, places)
    assert not peers.outdated(row | {"method": "sporco"}, 60, places)
    assert peers.outdated(row | {"note": "more than 40 s"}, 60, places)
    assert not peers.outdated(row | {"note": "more than 60 s"}, 60, places)
    assert not peers.outdated(row | {"note": "more than 8 GB of memory"}, 60, places)
    assert not peers.outdated(row | {"note": ""}, 60, places)


# ---- the paper's models, and CORONA


def test_a_step_as_stated_goes_down_the_relative_error(scripts: Any) -> None:
    """By the paper's rates: 0.1 for steps, zeta_(k-1) / 5000 for thresholds in its units."""
    recipe = scripts("as_stated")
    # in double precision
    example = as_examples(lrmc.synthetic.Problems(60, 0.1, 1.0), 2)(3)
    before = lrmc.Schedule((8.0, 1.5, 0.4), (0.5, 0.7))

    def error(**numbers: tuple[float, ...]) -> float:
        changed = replace(before, **numbers)
        return float(np.exp(recipe.errors(changed, example, [2])[0]))

    after = recipe._descended(before, example, alone=False)
    h = 1e-4
    for k, (eta, zeta) in enumerate(zip(before.eta, before.zeta[1:], strict=True)):
        etas, zetas = list(before.eta), list(before.zeta)
        etas[k], zetas[k + 1] = eta + h, zeta + h
        up = error(eta=tuple(etas)), error(zeta=tuple(zetas))
        etas[k], zetas[k + 1] = eta - h, zeta - h
        down = error(eta=tuple(etas)), error(zeta=tuple(zetas))
        by_eta, by_zeta = ((u - d) / (2 * h) for u, d in zip(up, down))
        assert after.eta[k] - eta == pytest.approx(-0.1 * by_eta, rel=1e-3)
        rate = before.zeta[k] / 5000 / recipe.UNIT
        assert after.zeta[k + 1] - zeta == pytest.approx(-rate * by_zeta, rel=1e-2)
    alone = recipe._descended(before, example, alone=True)
    assert alone.eta == (before.eta[0], after.eta[1])
    assert alone.zeta == (*before.zeta[:2], after.zeta[2])


def test_fresh_problems_are_those_of_the_package(scripts: Any) -> None:
    """A tenth of the entries are outliers, even in +- the mean of |X|."""
    example = scripts("as_stated").fresh(200, 3, 5)
    X = example.goal.X.L @ example.goal.X.R.T
    S = example.obs.block(slice(None), slice(None)) - X
    mean, wrong = np.abs(X).mean(), np.abs(S) > 1e-5 * np.abs(X).max()
    assert wrong.sum() == pytest.approx(0.1 * X.size, rel=1e-2)
    assert np.abs(S).max() == pytest.approx(mean, rel=1e-2)
    assert np.abs(S[wrong]).mean() == pytest.approx(mean / 2, rel=0.05)
    assert abs(S[wrong].mean()) < 0.05 * mean
    assert X.std() == pytest.approx(3**0.5 / 200, rel=0.1)


def test_training_as_stated_goes_on_where_it_was(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = scripts("as_stated")
    small, begun = recipe.Recipe(40, 2, layers=2, steps=3), tmp_path / "begun.json"
    whole = recipe.as_stated(small, begun)
    assert not begun.exists()
    assert len(whole) == 2
    assert len(whole.card["errors"]) == 4

    def stopping(*args: Any, alone: bool) -> lrmc.Schedule:
        if not alone:
            raise KeyboardInterrupt
        return one_phase(*args, alone=alone)

    one_phase = recipe.phase
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "phase", stopping)
        with pytest.raises(KeyboardInterrupt):
            recipe.as_stated(small, begun)
    assert begun.exists()
    assert recipe.as_stated(small, begun) == whole


def test_a_tail_takes_the_place_of_the_last_layers(scripts: Any) -> None:
    trained = scripts("trained")
    whole = lrmc.Schedule(
        (5.0, 1.0, 0.5, 0.1), (1.0, 1.1, 1.2), momentum=(0.0, 0.1, 0.2)
    )
    cut = trained.with_tail(whole, 2, 0.9, 2.5)
    layers = list(islice(cut.layers(scale=1.0, p=1.0), 3))
    assert [layer.zeta for layer in layers] == pytest.approx([1.0, 0.5, 0.45])
    assert [layer.eta for layer in layers] == [1.0, 2.5, 2.5]
    assert layers[-1].momentum == trained.SLOW_MOMENTUM


def test_corona_made_faster_has_the_same_numbers(scripts: Any) -> None:
    torch = pytest.importorskip("torch")
    corona = scripts("corona")
    torch.manual_seed(0)
    model = corona.Corona().eval()
    tissue, bubbles = corona.simulated(np.random.default_rng(0), frames=8, size=16)
    D = torch.from_numpy(tissue + bubbles)[None]
    with torch.inference_mode():
        ways = [model(D), corona.as_published(model, D), corona.fast(model, D)]
    for L, S in ways[1:]:
        assert torch.allclose(L, ways[0][0], atol=1e-5)
        assert torch.allclose(S, ways[0][1], atol=1e-5)


def test_the_page_says_whether_a_loss_still_falls(scripts: Any) -> None:
    page = scripts("page")
    about = {"steps": "1", "rate": "1", "loss": "1", "minutes": "1"}
    falling = [about | {"judged": f"{0.9**k:.3e}"} for k in range(16)]
    flat = falling[:8] + [about | {"judged": f"{0.4 + k % 2 / 50}"} for k in range(8)]
    assert "still falls" in page.training_of_corona(falling)
    assert "is flat" in page.training_of_corona(flat)
    # a rate that falls makes the loss fall, and says nothing of that
    slower = [row | {"rate": "0.5"} for row in falling]
    assert "is flat" in page.training_of_corona(flat + slower)

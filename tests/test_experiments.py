"""The experiments of the paper run, and a rerun gives the same iterations and errors."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ("table1", "table2", "fig3", "fig4", "fig5")


def run(script: str, *arguments: str, folder: str = "experiments") -> str:
    command = [sys.executable, str(ROOT / folder / f"{script}.py"), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(file: Path) -> list[dict[str, str]]:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    clock = ("seconds", "start")
    return [{key: value for key, value in row.items() if key not in clock} for row in csv.DictReader(lines)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("quick")
    for script in SCRIPTS:
        run(script, "--quick", "--output", str(folder))
    return folder


@pytest.mark.parametrize("script", ["table1", "table2", "fig5"])
def test_a_rerun_gives_the_same_iterations_and_errors(script: str, results: Path, tmp_path: Path) -> None:
    run(script, "--quick", "--output", str(tmp_path))
    assert rows(tmp_path / f"{script}.csv") == rows(results / f"{script}.csv")


def test_what_is_there_is_not_measured_again(results: Path) -> None:
    before = (results / "table1.csv").read_text()
    assert run("table1", "--quick", "--output", str(results)) == ""
    assert (results / "table1.csv").read_text() == before
    lines = before.splitlines()
    (results / "table1.csv").write_text("\n".join(lines[:-1]) + "\n")
    run("table1", "--quick", "--output", str(results))
    assert rows(results / "table1.csv")[-1]["method"] == "GD"
    assert len((results / "table1.csv").read_text().splitlines()) == len(lines)


def test_no_time_no_rows(tmp_path: Path) -> None:
    assert "left for the next time" in run("table1", "--quick", "--output", str(tmp_path), "--minutes", "0")
    assert not (tmp_path / "table1.csv").exists()


def test_the_page_has_the_papers_numbers_beside_ours(results: Path) -> None:
    run("page", "--folder", str(results), "--target", str(results / "paper.md"))
    text = (results / "paper.md").read_text()
    assert "| 100 | 12 | 18 | " in text
    assert "| paper: LRMC | 10% | 20 | 20 | 20 | 14 | 12 | 0 |" in text
    assert "(fig3.png)" in text
    assert all((results / f"fig{k}.png").stat().st_size > 10_000 for k in (3, 4, 5))
    assert "Not measured yet." in text  # Fig. 2, which was not run here


def test_who_measured_is_said_once(results: Path) -> None:
    lines = (results / "fig5.csv").read_text().splitlines()
    assert sum(line.startswith("# lrmc ") for line in lines) == 1
    assert "threads" in lines[0]


def test_the_benchmarks_and_their_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("size", "--quick", "--output", str(tmp_path), folder="benchmarks")
    run("peers", "--quick", "--limit", "10", "--output", str(tmp_path), folder="benchmarks")
    run("page", "--folder", str(tmp_path), "--target", str(tmp_path / "benchmarks.md"), folder="benchmarks")
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| lrmc, rank given | " in text
    assert "not installed" in text or "pyrpca" in text
    assert "| 200 | 2 | 0.3 | " in text
    assert all((tmp_path / f"{name}.png").exists() for name in ("size", "peers"))

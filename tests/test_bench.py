"""The race against other packages: how entries come about, not how fast anyone is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lrmc.race import bench, rivals
from lrmc.race.bench import Case, Places

HERE = Places({"lrmc": sys.executable}, {"lrmc": "0"})


def test_lrmc_is_found_in_this_python() -> None:
    places = bench.found_in([])
    assert places.python["lrmc"] == sys.executable
    assert set(places.python) <= {rival.package for rival in rivals.RIVALS.values()}


def test_a_python_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="could not be asked"):
        bench.found_in(["false"])


def test_entries_say_what_happened() -> None:
    names = ["lrmc, rank given", "pyrpca", "tensorly, tuned"]
    places = Places({"lrmc": sys.executable, "pyrpca": sys.executable}, {})
    solved, no_gaps, absent = bench.race(Case("some", 120, 0.6), names, places)
    assert solved.error is not None
    assert solved.error < 1e-5
    assert solved.passes
    assert solved.seconds
    assert no_gaps.note == "takes no missing entries"
    assert absent.note == bench.NOT_INSTALLED


def test_what_a_package_raises_is_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(dict.fromkeys(("pyrpca", "lrmc"), sys.executable), {})
    (tmp_path / "pyrpca.py").write_text("raise ArithmeticError('spoilt')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (failed,) = bench.race(Case("some", 60), ["pyrpca"], places)
    assert failed.note == "ArithmeticError: spoilt"
    assert failed.seconds is None
    (late,) = bench.race(Case("some", 60), ["lrmc"], places, limit=0.01)
    assert late.note.startswith("more than 0 s")


def test_the_error_is_that_of_the_whole_matrix() -> None:
    rng = np.random.default_rng(0)
    L, R, A, B = (rng.standard_normal((n, 3)) for n in (50, 40, 50, 40))
    wanted = np.linalg.norm(A @ B.T - L @ R.T) / np.linalg.norm(L @ R.T)
    assert rivals.error_of((A, B), L, R) == pytest.approx(wanted)
    assert rivals.error_of(A @ B.T, L, R) == pytest.approx(wanted)


def test_large_problems_are_made_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "LARGE", 1)
    bench._draw(Case("tall", 300, 0.7, n2=40), tmp_path)
    Y, L, R = (np.load(tmp_path / f"{part}.npy") for part in "YLR")
    assert Y.dtype == np.float32
    wrong = np.abs(Y - L @ R.T) > 1e-6
    assert np.isnan(Y).mean() == pytest.approx(0.3, abs=0.02)
    assert (wrong & ~np.isnan(Y)).sum() / (~np.isnan(Y)).sum() == pytest.approx(
        0.1, abs=0.02
    )


@pytest.mark.slow
def test_the_command() -> None:
    pytest.importorskip("typer")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lrmc.cli",
            "bench",
            "--size",
            "60",
            "--limit",
            "20",
            "--threads",
            "1",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "half missing 60" in done.stdout
    assert "rank given" in done.stdout

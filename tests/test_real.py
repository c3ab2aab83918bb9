"""Real data beside the repository, with lrmc.solve(Y) and nothing else. Skipped where
they are absent.
"""

from pathlib import Path

import pytest
from real_data import DATA

import lrmc

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
@pytest.mark.parametrize(
    ("task", "bar"), [("ngsim", 2.4), ("traffic", 6.7), ("jester", 0.158)]
)
def test_real(task, bar, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    tasks = pytest.importorskip("tasks")
    problem = next(getattr(tasks, task)(tasks.Source(DATA)))
    result = lrmc.solve(problem.values)
    assert result.converged
    assert result.regime == "noisy"
    score = next(iter(problem.score(result.low_rank()).values()))
    assert score < bar

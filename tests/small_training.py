"""What tests of training share: small problems, small searches."""

import json
import tempfile
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import lrmc
from lrmc import Schedule, train
from lrmc.linalg import Factors
from lrmc.synthetic import Problems
from lrmc.training import fast, paper

PROBLEMS = Problems(n=60, alpha=0.1, p=1.0)
TAILS = ((0.6, 1.0), (0.7, 1.0), (0.8, 1.0), (0.7, 0.8))

MATRIX = np.outer(np.arange(1.0, 9), np.arange(1.0, 7))
THREE = Schedule((8.0, 0.8, 0.4, 0.2), (0.7, 0.75, 0.8), tail=(0.7, 0.95))


@pytest.fixture(autouse=True)
def small_searches(monkeypatch):
    """The searches over grids take most of the time, and need no more than a few
    candidates to be tested.
    """
    grids = {
        "FIRST_THRESHOLDS": (5.0, 20.0),
        "DECAYS": (0.45, 0.65, 0.8),
        "SECOND_THRESHOLDS": (1.5, 0.4),
    }
    for name, value in {
        **grids,
        "STEPS": {False: (0.65,), True: (1.0,)},
        "TAILS": TAILS,
        "HORIZON": 24,
    }.items():
        monkeypatch.setattr(fast, name, value)
    for name, value in {
        "WITH_ONE": TAILS,
        "HORIZON": 24,
        "FOR_THE_GRID": 2,
        "FIRST_STEPS": 4,
    }.items():
        monkeypatch.setattr(paper, name, value)


small_train = partial(train, PROBLEMS, 2, layers=3, steps=4)


@cache
def sound_checkpoint():
    """What training leaves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "partial.json"
        small_train(checkpoint=path)
        return json.loads(path.read_text())


def bare(schedule):
    """Without the card, which says how long it took."""
    return replace(schedule, card={})


def random_factors(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    return Factors(*(rng.standard_normal((n, rank)) for n in shape))


def falls(schedule, problem, rank, iterations):
    """The errors of a run."""
    run = lrmc.iterates(problem.Y, rank=rank, schedule=schedule)
    return [lrmc.relative_error(it, problem) for it in islice(run, iterations + 1)]


def pairs():
    return [(p.Y, p.X) for p in (PROBLEMS.draw(2, seed) for seed in range(3))]


SOURCES = {
    "problems": lambda: PROBLEMS,
    "pairs": pairs,
    "itself": lambda: PROBLEMS.draw(2, 0).Y,
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)

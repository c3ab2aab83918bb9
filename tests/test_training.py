"""Training: both recipes, and what is learned."""

import tracemalloc
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from each import each
from small_training import (  # noqa: F401
    MATRIX,
    PROBLEMS,
    THREE,
    bare,
    every_source,
    falls,
    small_searches,
    small_train,
)

import lrmc
from lrmc import Schedule, train
from lrmc.linalg import Factors
from lrmc.observations import as_observations
from lrmc.synthetic import Problems
from lrmc.training import examples, fast
from lrmc.training.examples import Example, synthetic
from lrmc.training.goals import Truth
from lrmc.training.network import errors
from lrmc.training.state import Plan
from lrmc.training.tails import best_tail


@pytest.mark.parametrize("recipe", ["fast", "paper"])
@pytest.mark.parametrize("model", ["frmnn", "fnn", "rnn"])
def test_models_and_recipes(model, recipe):
    schedule = small_train(model=model, recipe=recipe)
    assert len(schedule) == (0 if model == "rnn" else 3)
    assert (schedule.tail is None) == (model == "fnn")
    assert schedule.card["trained_on"]["problems"]["n"] == 60
    assert (schedule.card["recipe"], schedule.card["model"]) == (recipe, model)
    assert schedule.card["error"] > 0
    assert Schedule.from_json(schedule.to_json()) == schedule
    problem = PROBLEMS.draw(2, 1)
    found = falls(schedule, problem, 2, 12)
    assert len(found) == (4 if model == "fnn" else 13)
    assert found[-1] < found[0]


@pytest.mark.parametrize(
    "options",
    [{"tangent": True}, {"momentum": True}, {"tangent": True, "momentum": True}],
    ids=str,
)
def test_improvements_on_the_paper(options):
    schedule = small_train(**options)
    assert schedule.tangent == options.get("tangent", False)
    assert len(schedule.momentum) == (3 if options.get("momentum") else 0)
    assert falls(schedule, PROBLEMS.draw(2, 1), 2, 20)[-1] < 1e-3


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_hardly_any_steps(recipe, steps):
    assert len(train(PROBLEMS, 2, layers=2, steps=steps, recipe=recipe)) == 2


@every_source
def test_the_same_seed_is_the_same_schedule(source):
    one, again = (
        train(source(), 2, layers=2, steps=3, momentum=True, seed=4) for _ in range(2)
    )
    assert bare(one) == bare(again)


def test_another_seed_is_another_schedule():
    assert bare(small_train(seed=1)) != bare(small_train(seed=2))


@each(
    ("options", "sentence"),
    [
        ({"recipe": "slow"}, "recipe='slow'; one of fast, paper is wanted"),
        ({"model": "cnn"}, "model='cnn'; one of frmnn, fnn, rnn, noisy is wanted"),
        ({"layers": 0}, "layers=0; a whole number of at least 1 is wanted"),
        ({"layers": 2.5}, "layers=2.5; a whole number"),
        ({"layers": True}, "layers=True; a whole number"),
        ({"rank": 0}, "rank=0; a whole number of at least 1"),
        ({"seed": -1}, "seed=-1; a whole number of at least 0"),
        ({"steps": -1}, "steps=-1; a whole number"),
        (
            {"layers": 10**9},
            "layers=1000000000; a whole number of at most 1000 is wanted",
        ),
        ({"layers": float("nan")}, "layers=nan; a whole number"),
        ({"steps": 10**30}, "a whole number of at most"),
        ({"seed": 0.5}, "seed=0.5; a whole number"),
        ({"rank": True}, "rank=True; a whole number"),
        ({"tangent": "no"}, "tangent='no'; True or False is wanted"),
        ({"momentum": 1}, "momentum=1; True or False is wanted"),
        ({"progress": "bar"}, "progress='bar'; a function is wanted"),
        ({"recipe": ["fast"]}, r"recipe=\['fast'\]; one of fast, paper"),
        ({"recipe": "paper", "tangent": True}, "not in the paper"),
        ({"recipe": "paper", "momentum": True}, "not in the paper"),
        ({"threads": 0}, "threads=0"),
        ({"threads": float("inf")}, "threads=inf; a whole number"),
    ],
)
def test_bad_arguments(options, sentence):
    for data in (PROBLEMS, MATRIX):
        with pytest.raises(ValueError, match=sentence):
            train(data, **{"rank": 2, **options})


def test_progress_sees_every_state():
    seen = []
    small_train(progress=seen.append)
    assert [state.stage for state in seen] == ["geometric", *["refine"] * 4, "tail"]
    assert [state.step for state in seen if state.stage == "refine"] == [1, 2, 3, 4]
    assert all(0 < state.error < np.inf for state in seen)
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))


# ---- what is learned


@pytest.fixture(scope="module")
def learned():
    """A schedule with a little training, the states on the way, and the kind of problems."""
    problems, seen = Problems(n=100, alpha=0.1, p=1.0), []
    schedule = train(problems, 2, layers=4, steps=40, progress=seen.append)
    return schedule, seen, problems


def test_training_improves_on_the_geometric_start(learned):
    schedule, seen, problems = learned
    unseen = [synthetic(problems, 2, number) for number in range(5)]
    before, after = (
        np.mean([errors(s, example, [4])[0] for example in unseen])
        for s in (seen[0].schedule, schedule)
    )
    assert after < before - 0.5


def test_a_tail_goes_on(learned):
    """fnn ends after its layers, frmnn goes on to rounding."""
    schedule, _, problems = learned
    problem = problems.draw(2, 3)
    assert len(falls(replace(schedule, tail=None), problem, 2, 100)) == 5
    found = falls(schedule, problem, 2, 100)
    assert found[-1] < 1e-10
    assert lrmc.solve(problem.Y, 2, schedule=schedule).converged


def test_the_best_tail_does_not_stall(learned):
    """Steps that shrink by a fifth per layer are summable: the run stops short, and loses."""
    schedule, _, problems = learned
    some = [synthetic(problems, 2, 1)]
    assert best_tail(schedule, some, ((0.7, 0.8), (0.7, 1.0)), horizon=40).tail == (
        0.7,
        1.0,
    )


def test_learned_at_a_small_size_serves_a_large_one(monkeypatch):
    """Trained on 100 x 100, with as many samples per row as 400 x 400 has."""
    monkeypatch.setattr(examples, "SMALL", 100)
    problems = Problems(n=400, alpha=0.1, p=0.3)
    schedule = train(problems, 2, layers=6, steps=30)
    example = synthetic(problems, 2, 0)
    assert example.obs.shape == (100, 100)
    assert falls(schedule, problems.draw(2, 0), 2, 60)[-1] < 1e-6


def test_recipe_of_the_paper_learns():
    seen = []
    schedule = train(
        PROBLEMS, 2, layers=2, steps=30, recipe="paper", progress=seen.append
    )
    begin = Schedule(
        (seen[0].schedule.zeta[0], *(seen[0].schedule.zeta[0] / 2**k for k in (1, 2))),
        (1.0, 1.0),
    )
    before, after = (
        np.mean(
            [errors(s, synthetic(PROBLEMS, 2, number), [2])[0] for number in range(3)]
        )
        for s in (begin, schedule)
    )
    assert after < before


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(unit):
    Y, X = (lambda p: (p.Y, p.X))(PROBLEMS.draw(2, 0))
    for one, other in ((Y, unit * Y), ([(Y, X)], [(unit * Y, unit * X)])):
        a, b = (train(data, 2, layers=2, steps=4) for data in (one, other))
        np.testing.assert_allclose(a.zeta, b.zeta, rtol=1e-6)
        np.testing.assert_allclose(a.eta, b.eta, rtol=1e-6)
        assert a.tail == b.tail


KINDS = {
    "float32": lambda Y: Y.astype(np.float32),
    "int16": lambda Y: np.round(1000 * Y / np.abs(Y).max()).astype(np.int16),
    "sparse": lambda Y: sp.csr_array(
        np.where(np.random.default_rng(0).random(Y.shape) < 0.5, Y, 0)
    ),
    "masked": lambda Y: np.ma.masked_array(
        Y, np.random.default_rng(0).random(Y.shape) < 0.3
    ),
    "by columns": np.asfortranarray,
    "observations": as_observations,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_kinds_of_data(kind):
    Y = kind(PROBLEMS.draw(2, 0).Y)
    schedule = train(Y, 2, layers=3, steps=3)
    assert schedule.card["trained_on"]["shape"] == [60, 60]
    *_, last = islice(lrmc.iterates(Y, rank=2, schedule=schedule), 10)
    assert np.isfinite(last.L).all()
    # in units of the data: the hidden entries are found better than by zero
    assert schedule.card["error"] < 1


def test_a_mask():
    p = Problems(n=60, p=0.6).draw(2, 0, form="dense")
    task = partial(train, rank=2, layers=2, steps=2)
    assert bare(task(np.nan_to_num(p.Y), mask=p.mask)) == bare(task(p.Y))


def test_memory_stays_bounded():
    """A part of the rows is enough to train on: no copy of the data, whatever their number."""
    rng = np.random.default_rng(0)
    L, R = (
        rng.standard_normal((200_000, 2), np.float32),
        rng.standard_normal((60, 2), np.float32),
    )
    Y = L @ R.T
    tracemalloc.start()
    try:
        schedule = train(Y, 2, layers=2, steps=2, threads=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert schedule.card["trained_on"]["shape"] == [200_000, 60]
    assert peak < 2 * Y.nbytes


def test_errors_keep_no_iterates():
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((20_000, 2)), rng.standard_normal((30, 2))
    example = Example(as_observations(L @ R.T, threads=1), Truth(Factors(L, R)), 2)
    example.start(THREE)
    tracemalloc.start()
    try:
        errors(THREE, example, [60])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * L.nbytes


def test_the_hardest_example_is_seen_again():
    asked = []

    def draw(number):
        asked.append(number)
        return synthetic(PROBLEMS, 2, number)

    plan = Plan("fast", "fnn", 3, False, False, 8, 0, 2)
    states = [state for state in fast.fast(draw, plan) if state.stage == "refine"]
    # each is drawn once: the hardest are kept
    assert asked == [0, 1, 2, *range(10, 18)]
    for k, state in enumerate(states):
        found = [error for _, error in state.hardest]
        assert found == sorted(found, reverse=True)
        assert len(found) == min(k + 1, fast.KEPT)
    alone = [np.exp(errors(states[k].schedule, draw(11 + k), [3])[0]) for k in range(7)]
    beside = [
        np.exp(errors(states[k].schedule, draw(states[k].hardest[0][0]), [3])[0])
        for k in range(7)
    ]
    both = np.sqrt(np.multiply(alone, beside))
    np.testing.assert_allclose([state.error for state in states[1:]], both, rtol=1e-6)

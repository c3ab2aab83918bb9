"""Training: goals, gradients, examples, both recipes, and taking up what was interrupted."""

import json
import tempfile
import tracemalloc
from dataclasses import replace
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from each import each

import lrmc
from lrmc import Schedule, train
from lrmc.linalg import Factors
from lrmc.observations import as_observations
from lrmc.synthetic import Problems
from lrmc.training import examples, fast, paper
from lrmc.training.examples import Example, as_examples, synthetic
from lrmc.training.goals import Hidden, Truth
from lrmc.training.network import LOST, Shape, errors, loss_and_gradient
from lrmc.training.state import Plan
from lrmc.training.tails import best_tail

PROBLEMS = Problems(n=60, alpha=0.1, p=1.0)
TAILS = ((0.6, 1.0), (0.7, 1.0), (0.8, 1.0), (0.7, 0.8))


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
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


# ---- goals


def hidden_entries(shape=(20, 30), count=90, seed=3):
    rng = np.random.default_rng(seed)
    places = rng.choice(shape[0] * shape[1], count, replace=False)
    values = rng.standard_normal(count)
    return sp.csr_array((values, (places // shape[1], places % shape[1])), shape=shape)


GOALS = {
    "truth": Truth(random_factors((20, 30), 2)),
    "hidden": Hidden(as_observations(hidden_entries()), 0.3),
    "hidden, hardly any noise": Hidden(as_observations(hidden_entries()), 1e-3),
}


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS)
def test_gradients_of_goals_are_limits_of_differences(goal):
    X, towards, h = random_factors((20, 30), 3, 1), random_factors((20, 30), 3, 2), 1e-6
    error, gradient = goal.error_and_gradient(X)
    assert error == goal.error(X)
    ends = [
        goal.error(Factors(X.L + t * towards.L, X.R + t * towards.R)) for t in (h, -h)
    ]
    slope = sum(np.vdot(a, b) for a, b in zip(gradient, towards, strict=True))
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4)


def test_truth_is_the_relative_error():
    goal, X = GOALS["truth"], random_factors((20, 30), 3, 1)
    want = np.linalg.norm(X.L @ X.R.T - goal.X.L @ goal.X.R.T) / np.linalg.norm(
        goal.X.L @ goal.X.R.T
    )
    assert np.exp(goal.error(X)) == pytest.approx(want)


@pytest.mark.parametrize("size", [1e-3, 1e-8, 1e-12])
def test_truth_is_exact_at_tiny_errors(size):
    """L + d, R: the error is |d R'| / |X|, which a difference of squares would lose below 1e-8."""
    L, R = random_factors((40, 30), 2)
    d = size * np.random.default_rng(1).standard_normal(L.shape)
    want = np.linalg.norm(d @ R.T) / np.linalg.norm(L @ R.T)
    assert np.exp(Truth(Factors(L, R)).error(Factors(L + d, R))) == pytest.approx(
        want, rel=1e-3
    )


def test_truth_reached_or_lost():
    goal = Truth(Factors(np.ones((4, 1)), np.zeros((5, 1))))
    error, gradient = goal.error_and_gradient(
        Factors(np.zeros((4, 1)), np.zeros((5, 1)))
    )
    assert error == -np.inf
    assert not gradient.L.any()
    error, gradient = GOALS["truth"].error_and_gradient(
        Factors(np.full((20, 1), np.nan), np.ones((30, 1)))
    )
    assert error == np.inf
    assert not gradient.R.any()


def test_hidden_is_the_mean_logarithm():
    held, (L, R) = hidden_entries(), random_factors((20, 30), 2)
    coo = held.tocoo()
    e = coo.data - (L @ R.T)[coo.row, coo.col]
    assert Hidden(as_observations(held), 0.3).error(Factors(L, R)) == pytest.approx(
        np.log(np.hypot(e, 0.3)).mean()
    )


def test_outliers_among_the_hidden_do_not_decide():
    """Which of two fits is better, and by how much, is the same however large the outliers are."""
    truth = random_factors((20, 30), 2)
    held = hidden_entries()
    coo = held.tocoo()
    good = (truth.L @ truth.R.T)[coo.row, coo.col]
    gains = []
    for size in (1e2, 1e6):
        values = np.where(np.arange(len(good)) % 10, good, size)
        goal = Hidden(
            as_observations(
                sp.csr_array((values, (coo.row, coo.col)), shape=held.shape)
            ),
            1e-6,
        )
        near, far = (
            goal.error(Factors(truth.L * (1 + t), truth.R)) for t in (1e-3, 1e-1)
        )
        gains.append(far - near)
    assert gains[0] == pytest.approx(gains[1], rel=0.01)
    assert gains[0] == pytest.approx(0.9 * np.log(100), rel=0.02)


def test_nothing_is_gained_below_the_noise():
    truth = random_factors((20, 30), 2)
    coo = hidden_entries().tocoo()
    values = (truth.L @ truth.R.T)[coo.row, coo.col]
    goal = Hidden(
        as_observations(sp.csr_array((values, (coo.row, coo.col)), shape=coo.shape)),
        0.5,
    )
    assert goal.error(Factors(truth.L * 1.001, truth.R)) == pytest.approx(
        goal.error(truth), abs=1e-4
    )


# ---- the network

THREE = Schedule((8.0, 0.8, 0.4, 0.2), (0.7, 0.75, 0.8), tail=(0.7, 0.95))
NETWORKS = {
    "plain": THREE,
    "tangent": replace(THREE, tangent=True),
    "momentum": replace(THREE, momentum=(0.02, 0.1, 0.2)),
    "both": replace(THREE, tangent=True, momentum=(0.02, 0.1, 0.2)),
}
every_network = pytest.mark.parametrize("schedule", NETWORKS.values(), ids=NETWORKS)


def hiding():
    """An example without truth."""
    made = PROBLEMS.draw(2, 5)
    return as_examples(made.Y, 2)(0)


@pytest.mark.parametrize(
    "weights", [{3: 1.0}, {1: 0.2, 3: 1.0, 7: 0.3}], ids=["last layer", "with the tail"]
)
@pytest.mark.parametrize(
    "example", [partial(synthetic, PROBLEMS, 2, 0), hiding], ids=["truth", "hidden"]
)
@every_network
def test_gradients_are_limits_of_differences(schedule, example, weights):
    example, shape, h = example(), Shape(3, bool(schedule.momentum)), 1e-5
    theta = shape.packed(schedule)
    total, gradient, last = loss_and_gradient(schedule, shape, weights, example)
    found = errors(schedule, example, list(weights))
    assert total == pytest.approx(
        sum(w * e for w, e in zip(weights.values(), found, strict=True))
    )
    assert last == pytest.approx(found[list(weights).index(3)])
    differences = []
    for i in range(len(theta)):
        ends = []
        for t in (h, -h):
            moved = shape.unpacked(theta + t * (np.arange(len(theta)) == i), schedule)
            ends.append(loss_and_gradient(moved, shape, weights, example)[0])
        differences.append((ends[0] - ends[1]) / (2 * h))
    np.testing.assert_allclose(
        gradient, differences, rtol=1e-3, atol=1e-4 * np.abs(differences).max()
    )
    _, alone, _ = loss_and_gradient(schedule, shape, weights, example, first=3)
    np.testing.assert_array_equal(
        alone, np.where(np.arange(len(theta)) % 3 == 2, gradient, 0)
    )


@every_network
def test_packed_and_unpacked(schedule):
    shape = Shape(3, bool(schedule.momentum))
    theta = shape.packed(schedule)
    assert len(theta) == (9 if schedule.momentum else 6)
    again = shape.unpacked(theta, schedule)
    for name in ("zeta", "eta", "momentum"):
        assert getattr(again, name) == pytest.approx(getattr(schedule, name))
    assert (again.tail, again.tangent, again.zeta[0]) == (
        schedule.tail,
        schedule.tangent,
        schedule.zeta[0],
    )


def test_unpacked_numbers_are_always_sound():
    wild = Shape(3, momentum=True).unpacked(
        np.array([1e9, -1e9, 0, 1e9, -1e9, 0, -5, 5, 0.5]), NETWORKS["both"]
    )
    assert np.isfinite([*wild.zeta, *wild.eta]).all()
    assert wild.momentum == (0, 0.99, 0.5)


@pytest.mark.parametrize("eta", [50.0, 1e200])
def test_lost_runs_teach_nothing(eta):
    schedule = Schedule((8.0, *(1e9,) * 12), (eta,) * 12, tail=(1.0, 1.0))
    example, shape = synthetic(PROBLEMS, 2, 0), Shape(12, momentum=False)
    total, gradient, last = loss_and_gradient(
        schedule, shape, {12: 1.0, 14: 0.3}, example
    )
    assert (total, last) == (LOST, LOST)
    assert gradient.shape == (24,)
    assert not gradient.any()
    assert (errors(schedule, example, [12, 14]) == LOST).all()


# ---- examples


def test_the_same_number_is_the_same_example():
    series = as_examples(PROBLEMS, 2)
    one, again, other = series(7), series(7), series(8)
    assert np.array_equal(one.obs.Y, again.obs.Y)
    assert not np.array_equal(one.obs.Y, other.obs.Y)
    starts = [example.start(THREE) for example in (one, again)]
    assert np.array_equal(starts[0].L, starts[1].L)
    assert one.start(THREE) is starts[0]


@pytest.mark.parametrize("shape", [(3000, 3000), (20_000, 700)])
def test_shrunk_problems_keep_the_samples_per_row(shape):
    """Observed per missing entry of a row grow as the matrix shrinks: so many entries
    per row stay about the same.
    """
    large = Problems(n=shape[0], n2=shape[1], alpha=0.1, p=0.02)
    tiny = large.shrunk(500)
    odds = [
        x.p / (1 - x.p) * np.sqrt(n1 * n2)
        for x, (n1, n2) in ((large, shape), (tiny, (tiny.n, tiny.n2)))
    ]
    assert odds[0] == pytest.approx(odds[1])
    assert 0 < large.p < tiny.p < 1
    drawn = tiny.draw(2, 0)
    assert np.sqrt(np.prod(drawn.Y.shape)) * tiny.p / (1 - tiny.p) == pytest.approx(
        odds[0]
    )
    assert drawn.Y.nnz / np.prod(drawn.Y.shape) == pytest.approx(tiny.p, rel=0.05)
    assert PROBLEMS.shrunk(500) == replace(PROBLEMS, n2=60)


def test_pairs_of_a_matrix_or_factors():
    made = [
        Problems(n=50, n2=40, p=0.6).draw(2, seed, form="dense") for seed in range(2)
    ]
    by_matrix = as_examples([(p.Y, p.X) for p in made], 2)
    by_factors = as_examples([(p.Y, tuple(p.X_factors)) for p in made], 2)
    assert by_matrix.about["pairs"] == 2
    for number in range(4):
        a, b = by_matrix(number), by_factors(number)
        X = a.start(THREE)
        assert a.goal.error(X) == pytest.approx(b.goal.error(X))
        problem = made[number % 2]
        scale = as_observations(problem.Y).scale
        want = np.linalg.norm(scale * X.L @ X.R.T - problem.X) / np.linalg.norm(
            problem.X
        )
        assert np.exp(a.goal.error(X)) == pytest.approx(want, rel=1e-6)


MATRIX = np.outer(np.arange(1.0, 9), np.arange(1.0, 7))


@each(
    ("data", "options", "sentence"),
    [
        ([(MATRIX, MATRIX.T)], {}, r"truth has shape \(6, 8\), its data \(8, 6\)"),
        ([(MATRIX, MATRIX[0])], {}, "truth has 1 dimensions; a matrix is wanted"),
        (
            [(MATRIX, (MATRIX, MATRIX, MATRIX))],
            {},
            r"factors of shapes .*\(n1, r\) and \(n2, r\)",
        ),
        ([(MATRIX, (MATRIX, MATRIX[:, :2]))], {}, r"factors of shapes"),
        ([(MATRIX, 0 * MATRIX)], {}, "truth is zero"),
        ([(MATRIX, np.nan * MATRIX)], {}, "truth is not finite"),
        ([(MATRIX, MATRIX)], {"rank": 7}, "rank=7 for a 8 x 6 matrix"),
        ([(MATRIX, MATRIX)], {"mask": MATRIX > 0}, "mask= belongs to one matrix"),
        (PROBLEMS, {"mask": MATRIX > 0}, "mask= belongs to one matrix"),
        (PROBLEMS, {"rank": 61}, "rank=61"),
        (MATRIX, {"rank": 7}, "rank=7 for a 8 x 6 matrix"),
        (MATRIX, {"mask": MATRIX.T > 0}, "mask has shape"),
        (MATRIX[0], {}, "dimension"),
        ([], {}, "dimension|empty|wanted"),
        (np.full((5, 5), np.nan), {}, "observed"),
        (np.eye(4), {}, "16 entries are observed, and at least 50"),
    ],
)
def test_data_that_cannot_be_trained_on(data, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        train(data, **{"rank": 1, "layers": 2, "steps": 1, **options})


def test_nested_lists_are_a_matrix():
    """Also with two columns, which look like pairs."""
    about = as_examples(MATRIX[:, :2].tolist() * 4, 1).about
    assert about["shape"] == [32, 2]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_hidden_entries_are_not_in_the_rest(form):
    Y = Problems(n=50, p=0.6).draw(2, 0, form="dense").Y
    rows, cols = np.nonzero(~np.isnan(Y))
    series = as_examples(
        form(Y)
        if form is np.asarray
        else form((Y[rows, cols], (rows, cols)), shape=Y.shape),
        2,
    )
    places = []
    for number in range(3):
        example = series(number)
        held = next(example.goal.held.residuals(*(np.zeros((50, 1)),) * 2))
        assert np.isnan(example.obs.lookup(held.rows, held.cols)).all()
        np.testing.assert_allclose(
            held.values * as_observations(Y).scale, Y[held.rows, held.cols], rtol=1e-12
        )
        left = example.obs.n_observed
        assert left == len(rows) - len(held.rows)
        places.append({*zip(held.rows.tolist(), held.cols.tolist())})
    assert places[0] != places[1] != places[2]


# ---- training


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


def pairs():
    return [(p.Y, p.X) for p in (PROBLEMS.draw(2, seed) for seed in range(3))]


SOURCES = {
    "problems": lambda: PROBLEMS,
    "pairs": pairs,
    "itself": lambda: PROBLEMS.draw(2, 0).Y,
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


@every_source
def test_the_same_seed_is_the_same_schedule(source):
    one, again = (
        train(source(), 2, layers=2, steps=3, momentum=True, seed=4) for _ in range(2)
    )
    assert bare(one) == bare(again)


def test_another_seed_is_another_schedule():
    assert bare(small_train(seed=1)) != bare(small_train(seed=2))


def interrupt_at(stage, step):
    def progress(state):
        if (state.stage, state.step) == (stage, step):
            raise KeyboardInterrupt

    return progress


WHERE = {
    "fast": [
        ("geometric", 1),
        ("refine", 1),
        ("refine", 3),
        ("refine", 4),
        ("tail", 1),
    ],
    "paper": [
        ("layer 0", 1),
        ("layer 1", 3),
        ("layer 2", 4),
        ("layer 2", 8),
        ("tail", 1),
    ],
}


@every_source
@pytest.mark.parametrize("recipe", WHERE)
def test_interrupted_and_taken_up_again(recipe, source, tmp_path):
    """Interrupted five times, once in each stage: bit for bit as without."""
    path, data = tmp_path / "partial.json", source()
    task = partial(
        train, data, 2, layers=2, steps=4, recipe=recipe, momentum=recipe == "fast"
    )
    whole = task()
    for stage, step in WHERE[recipe]:
        with pytest.raises(KeyboardInterrupt):
            task(checkpoint=path, progress=interrupt_at(stage, step))
        kept = json.loads(path.read_text())
        assert (kept["stage"], kept["step"]) == (stage, step)
    seen = []
    resumed = task(checkpoint=path, progress=seen.append)
    assert bare(resumed) == bare(whole)
    assert seen == []  # all was done


def test_any_exception_leaves_a_checkpoint(tmp_path, monkeypatch):
    calls = []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) > 5:
            raise MemoryError
        return loss_and_gradient(*arguments)

    path = tmp_path / "partial.json"
    monkeypatch.setattr(fast, "loss_and_gradient", failing)
    with pytest.raises(MemoryError):
        small_train(checkpoint=path)
    assert json.loads(path.read_text())["stage"] == "refine"
    monkeypatch.undo()


def test_seconds_go_on(tmp_path):
    path = tmp_path / "partial.json"
    small_train(checkpoint=path)
    content = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            {**content, "seconds": 1000.0, "stage": "refine", "step": 2, "steps": 4}
        )
    )
    assert small_train(checkpoint=path).card["seconds"] > 999


def test_a_checkpoint_of_other_training_is_refused_and_kept(tmp_path):
    path = tmp_path / "partial.json"
    small_train(checkpoint=path)
    before = path.read_bytes()
    others = [
        {"layers": 2},
        {"steps": 5},
        {"seed": 1},
        {"tangent": True},
        {"recipe": "paper"},
        {"model": "fnn"},
    ]
    for other in others:
        with pytest.raises(ValueError, match="a checkpoint of other training"):
            small_train(checkpoint=path, **other)
    for data in (Problems(n=60, p=0.9), PROBLEMS.draw(2, 0).Y):
        with pytest.raises(ValueError, match="a checkpoint of other training"):
            train(data, 2, layers=3, steps=4, checkpoint=path)
    assert path.read_bytes() == before


@each(
    "change",
    [
        b"",
        b"\xff\x00",
        b"[1]",
        b"{}",
        b"[" * 100_000,
        {"format": "something"},
        {"stage": 3},
        {"step": "4"},
        {"step": -1},
        {"error": "small"},
        {"seconds": None},
        {"moments": [[1.0], [1.0]]},
        {"moments": [[float("nan")] * 6] * 2},
        {"moments": 5},
        {"schedule": {}},
        {"unknown": 1},
        {"stage": "layer x"},
        {"stage": "layer 1"},
        {"step": 5, "steps": 4},
        {"steps": 10**30},
        {"error": 10**400},
        {"seconds": 10**400},
        {"hardest": [[10**400, 10**400]]},
        {"hardest": [[-5, 0.1]]},
        {"hardest": [[11, float("nan")]]},
        {"hardest": [[1.5, 0.1]]},
        {"hardest": 3},
        {"moments": [[0.1] * 6, []]},
        {
            "stage": "refine",
            "schedule": json.loads(Schedule((1.0,), (), tail=(0.5, 1.0)).to_json()),
        },
        {
            "stage": "refine",
            "schedule": json.loads(
                Schedule((1.0,) * 4, (1.0,) * 3, tangent=True).to_json()
            ),
        },
    ],
    ids=lambda change: str(change)[:30],
)
def test_a_damaged_checkpoint_is_refused_and_kept(change, tmp_path):
    path = tmp_path / "partial.json"
    content = (
        change
        if isinstance(change, bytes)
        else json.dumps({**sound_checkpoint(), **change}).encode()
    )
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match="could not be read as a checkpoint of training"
    ):
        small_train(checkpoint=path)
    assert path.read_bytes() == content


def test_a_checkpoint_nowhere(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory"):
        small_train(checkpoint=tmp_path / "missing" / "partial.json")


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

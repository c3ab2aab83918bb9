"""Goals of training, the network with its gradients, and what it is trained on."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from each import each
from small_training import (  # noqa: F401
    MATRIX,
    PROBLEMS,
    THREE,
    pairs,
    random_factors,
    small_searches,
)

from lrmc import Schedule, train
from lrmc.linalg import Factors
from lrmc.observations import as_observations
from lrmc.synthetic import Problems
from lrmc.training.examples import as_examples, synthetic
from lrmc.training.goals import Hidden, Truth
from lrmc.training.network import LOST, Shape, errors, loss_and_gradient

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

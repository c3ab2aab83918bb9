"""Learning the numbers of the layers from hidden entries of the data."""

import numpy as np
import pytest
from test_noisy_layers import error, table

from lrmc import as_observations
from lrmc.methods.learn import SHIPPED, fit, hidden_in, learned, loss_of
from lrmc.methods.noisy import Noise
from lrmc.methods.noisy_layers import rank_for
from lrmc.observations.grouped import grouped


def fitted(Y, rank=5, **options):
    """The answer, its rank, and what was learned."""
    obs = as_observations(Y)
    run = fit(obs, rank, noise=Noise.even(obs), **options)
    while True:
        try:
            step = next(run)
        except StopIteration as end:
            return step.L @ step.R.T, step.L.shape[1], end.value


def few_entries(seed=0):
    """One component and a mean, clean, a fifth observed: not what the numbers that ship
    were learned on.
    """
    return table((60, 30), rank=1, share=0.0, missing=0.8, seed=seed)


@pytest.fixture(scope="module")
def found():
    return fitted(few_entries()[0], 10)


def test_learning_helps(found):
    Y, X = few_entries()
    plain, _, _ = fitted(Y, 10, schedule=SHIPPED)
    assert error(found[0], X) < 0.8 * error(plain, X)
    losses = [trial.loss for trial in found[2].trials]
    assert min(losses) < 0.95 * losses[0]


def test_what_was_learned_serves_a_second_matrix(found):
    Y, X = few_entries(seed=7)
    layers = found[2].layers
    again, plain = (fitted(Y, 10, schedule=numbers) for numbers in (layers, SHIPPED))
    assert error(again[0], X) < 0.9 * error(plain[0], X)
    assert again[2].layers == layers
    assert again[2].trials == ()


def test_the_judge_is_never_made_worse():
    Y, _ = table((60, 40))
    obs = as_observations(Y)
    found = learned(obs, 5, Noise.even(obs))
    *_, judge = hidden_in(obs, 5, Noise.even(obs), 0)
    errors = {
        layers: np.abs(judge.errors(judge.run(layers))).mean()
        for layers in (SHIPPED, found.layers)
    }
    assert found.error == pytest.approx(errors[found.layers])
    assert found.error < 1.02 * errors[SHIPPED]
    assert found.error < 0.5 * found.simple
    assert found.typical < found.error


def test_dead_components_are_not_in_the_answer():
    Y, X = table((120, 60))
    answer, rank, _ = fitted(Y, None)
    assert 3 <= rank <= 6
    assert error(answer, X) < 0.05


@pytest.mark.parametrize("seed", [1, 2])
def test_seeds_hardly_matter(seed):
    Y, X = table((60, 40))
    one, other = fitted(Y)[0], fitted(Y, seed=seed)[0]
    assert error(other, X) == pytest.approx(error(one, X), rel=0.1)


def test_precision_and_orientation_hardly_matter():
    Y, X = table((60, 40))
    plain, single, turned = (
        fitted(Y)[0],
        fitted(Y.astype(np.float32))[0],
        fitted(Y.T)[0].T,
    )
    assert error(single, plain) < 1e-3
    assert error(turned, X) == pytest.approx(error(plain, X), rel=0.1)


def test_too_little_to_learn_from():
    Y = np.arange(6.0).reshape(2, 3)
    assert fitted(Y, 1)[2].trials == ()


def test_rows_in_groups_take_the_numbers_that_ship():
    Y, _ = table((60, 30))
    obs = grouped(as_observations(Y), np.repeat(np.arange(30), 2))
    run = fit(obs, noise=Noise.even(obs))
    assert len(list(run)) == 2 * len(SHIPPED) + 1


def test_lessons_hide_what_looks_like_the_gaps():
    """Whole stretches of columns are missing, and so are hidden."""
    Y, _ = table((100, 60), missing=0.0)
    for column in range(0, 60, 2):
        Y[30:80, column] = np.nan
    obs = as_observations(Y)
    for lesson in hidden_in(obs, 3, Noise.even(obs), 0):
        counts = np.bincount(lesson.hidden.cols)
        assert np.median(counts[counts > 0]) > 20
        assert np.isnan(
            lesson.rest.lookup(lesson.hidden.rows, lesson.hidden.cols)
        ).all()


def test_losses_are_squares_and_then_sizes():
    assert loss_of(np.array([1e-3]), 1.0) == pytest.approx(0.5e-6)
    assert loss_of(np.array([1e3]), 1.0) == pytest.approx(1e3, rel=1e-2)


def test_narrow_tables_get_a_lower_rank():
    """Where components that are not needed do not die soon enough, entries that were set
    aside say so.
    """
    rng = np.random.default_rng(4)
    X = rng.standard_normal((100, 4)) @ rng.standard_normal((4, 20))
    Y = X + 0.5 * rng.standard_normal(X.shape)
    obs = as_observations(Y)
    found = learned(obs, None, Noise.even(obs))
    assert 4 <= found.rank < rank_for(obs)

"""Outliers that pull to one side: found where they are, and nothing is made of data that
only look so.
"""

import numpy as np
import pytest

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.lopsided import is_one_sided, moved_start, repeated, without_values
from lrmc.observations import as_observations
from lrmc.report.words import done


def truth(shape=(200, 160), rank=4, seed=0):
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((n, rank)) for n in shape)
    return L @ R.T


def stuck(X, rng):
    return np.full(X.shape, 3 * np.abs(X).mean())


def shifted(X, rng):
    return X + 5 * np.abs(X).mean()


def below(X, rng):
    return X - 10 * np.abs(X).mean() * rng.random(X.shape)


def spoilt(X, kind, share=0.3, p=1.0, seed=1):
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random(X.shape) < share, kind(X, rng), X)
    return np.where(rng.random(X.shape) < p, Y, np.nan)


def error(result, X):
    return np.linalg.norm(result.low_rank() - X) / np.linalg.norm(X)


@pytest.mark.parametrize("kind", [stuck, shifted, below])
@pytest.mark.parametrize(("p", "rank"), [(1.0, 4), (0.5, 4), (0.5, None)])
def test_recovered(kind, p, rank):
    X = truth()
    result = lrmc.solve(spoilt(X, kind, p=p), rank)
    assert result.regime == "exact"
    assert result.rank == 4
    assert error(result, X) < 1e-5
    assert result.outlier_fraction == pytest.approx(0.3, abs=0.02)


def test_a_value_in_many_places_is_named():
    """In the units of the data, as a number and in words."""
    X = truth()
    value = 3 * np.abs(X).mean()
    result = lrmc.solve(1e6 * spoilt(X, stuck), 4)
    (found,) = result.evidence["taken_as_missing"]
    assert found.value == pytest.approx(1e6 * value)
    assert found.share == pytest.approx(0.3, abs=0.02)
    assert any("taken as missing" in text for text in done(result, None, None))


def test_two_values_in_many_places():
    X = truth()
    Y = spoilt(
        spoilt(X, stuck, share=0.2),
        lambda X, rng: np.full(X.shape, -3.0),
        share=0.2,
        seed=2,
    )
    result = lrmc.solve(Y, 4)
    assert error(result, X) < 1e-5


def test_a_value_that_is_right_is_no_outlier():
    """Half of the rows are 0, and other entries have outliers above."""
    X = truth()
    X[::2] = 0
    Y = spoilt(X, shifted)
    result = lrmc.solve(Y, 4)
    assert error(result, X) < 1e-5
    # but 0 + the shift is
    assert 0.0 not in [found.value for found in result.evidence["taken_as_missing"]]


def test_data_of_few_values_are_left_as_they_are():
    Y = np.round(truth())
    assert repeated(as_observations(np.clip(Y, 0, 3))) == ()


def test_entries_of_a_value_are_left_out():
    Y = spoilt(truth(), stuck, p=0.5)
    obs = as_observations(Y)
    (value,) = repeated(obs)
    rest = without_values(obs, (value,))
    left = np.where(value.value == Y, np.nan, Y)
    np.testing.assert_array_equal(rest.grid(np.arange(200), np.arange(160)), left)
    assert rest.n_observed == np.isfinite(left).sum()


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_noise_on_both_sides_is_not_one_sided(share):
    X = truth()
    rng = np.random.default_rng(2)
    Y = spoilt(
        X + rng.standard_normal(X.shape),
        lambda X, rng: 10 * rng.uniform(-1, 1, X.shape),
        share,
    )
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    fit = Factors(U[:, :4] * s[:4], Vt[:4].T)
    assert not is_one_sided(as_observations(Y), fit)
    assert is_one_sided(as_observations(spoilt(Y, shifted)), fit)


def test_one_level_is_no_start():
    X = truth()
    Y = X + np.random.default_rng(2).standard_normal(X.shape)
    assert moved_start(as_observations(Y), 4, 15, 0) is None
    assert moved_start(as_observations(spoilt(X, shifted)), 4, 15, 0) is not None

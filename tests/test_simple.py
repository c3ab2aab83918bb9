"""Simple models beside low-rank fits."""

import numpy as np
import pytest

import lrmc
from lrmc.evidence.simple import (
    LOW_RANK,
    biases,
    biases_by_rounds,
    blend,
    simple_models,
)
from lrmc.linalg import Factors
from lrmc.observations import as_observations

SHAPE = (90, 60)


def sums(rng):
    """Rows and columns that add up."""
    return 2 * rng.standard_normal(SHAPE[0])[:, None] + rng.standard_normal(SHAPE[1])


def observed(X, rng, *, gross=0.0, p=0.6, noise=0.3):
    Y = X + noise * rng.standard_normal(SHAPE)
    Y = np.where(rng.random(SHAPE) < gross, Y + rng.uniform(-20, 20, SHAPE), Y)
    return np.where(rng.random(SHAPE) < p, Y, np.nan)


@pytest.mark.parametrize("gross", [0.0, 0.1])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_biases_find_what_rows_and_columns_add(gross, sparse):
    rng = np.random.default_rng(0)
    X = sums(rng)
    Y = observed(X, rng, gross=gross, p=0.15 if sparse else 0.6)
    L, R = biases(as_observations(Y))
    # of least squares, and some more
    least = np.sqrt(2 * 0.3**2 * sum(SHAPE) / np.isfinite(Y).sum())
    assert L.shape[1] == R.shape[1] == 2
    assert np.sqrt(np.mean((L @ R.T - X) ** 2)) < (1.3 if gross == 0 else 2.0) * least


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.15, 0.6])
def test_biases_at_once_are_those_of_the_rounds(dtype, p):
    rng = np.random.default_rng(3)
    Y = observed(sums(rng), rng, gross=0.1, p=p).astype(dtype)
    Y[4], Y[:, 7] = np.nan, np.nan
    obs = as_observations(Y)
    middle = float(np.median(obs.sample.values))
    rows, cols = biases_by_rounds(obs, middle)
    L, R = biases(obs)
    want = middle + rows[:, None] + cols
    np.testing.assert_allclose(
        L @ R.T, want, atol=1e-4 if dtype == np.float32 else 1e-9
    )


def test_biases_of_noise_are_drawn_to_the_middle():
    rng = np.random.default_rng(1)
    Y = observed(np.full(SHAPE, 7.0), rng, p=0.1, noise=1.0)
    L, R = biases(as_observations(Y))
    assert np.std(L @ R.T) < 0.25
    assert abs(np.mean(L @ R.T) - 7) < 0.2


def test_medians_are_of_rank_1():
    rng = np.random.default_rng(2)
    Y = observed(sums(rng), rng)
    models = simple_models(as_observations(Y))
    for name, axis in (("row median", 1), ("column median", 0)):
        L, R = models[name]
        assert L.shape[1] == 1
        np.testing.assert_allclose(
            L @ R.T,
            np.broadcast_to(np.nanmedian(Y, axis, keepdims=True), SHAPE),
            rtol=1e-6,
        )


def test_blends():
    rng = np.random.default_rng(3)
    X, Z = (Factors(*(rng.standard_normal((n, r)) for n in SHAPE)) for r in (3, 2))
    for weight in (0.0, 0.25, 0.5):
        L, R = blend(X, Z, weight)
        np.testing.assert_allclose(
            L @ R.T, weight * X.L @ X.R.T + (1 - weight) * Z.L @ Z.R.T
        )
        assert L.shape[1] <= 5


def test_low_rank_stays_where_it_is_right():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SHAPE[0], 2)) @ rng.standard_normal((SHAPE[1], 2)).T
    table = lrmc.solve(observed(X, rng, gross=0.1), 2).evidence["table"]
    errors = {line.name: line.mae for line in table}
    assert next(line.name for line in table if line.chosen).count(LOW_RANK)
    assert errors[LOW_RANK] < 0.8 * errors["row + column"]

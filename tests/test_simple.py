"""Simple models beside low-rank fits."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import lrmc
from lrmc.evidence.simple import (
    LOW_RANK,
    Fitted,
    Score,
    biases,
    blend,
    contest,
    simple_models,
)
from lrmc.fit import Fit
from lrmc.linalg import Factors
from lrmc.observations import as_observations
from lrmc.observations.base import Sample

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


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_low_rank_stays_where_it_is_right(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((SHAPE[0], 2)) @ rng.standard_normal((SHAPE[1], 2)).T
    result = lrmc.solve(observed(X, rng, gross=0.1), 2)
    found = result.contest
    assert (found.winner, found.weight) == (LOW_RANK, 1.0)
    assert found.scores[LOW_RANK].error < 0.8 * found.scores["row + column"].error
    assert result.never_worse().L is result.L


def spoiled(X, rng):
    """A fit that follows what is not there: another component, about as large as the noise."""
    L, R = (np.hstack([F, rng.standard_normal((len(F), 1))]) for F in X)
    return Factors(L, R)


def follower(seed):
    """Columns differ, the rest is noise, and the fit follows that: the result, what is
    true, and what was observed.
    """
    rng = np.random.default_rng(seed)
    X = np.broadcast_to(3 * rng.standard_normal(SHAPE[1]), SHAPE)
    Y = observed(X, rng, noise=1.0)
    result = lrmc.solve(Y, 1)
    bad = spoiled(result.factors(), rng)
    again = partial(refitted, result.refit)
    return replace(result, L=bad.L, R=bad.R, refit=again), X, Y


def refitted(refit, rest, seed):
    return Fit(spoiled(refit(rest, seed).X, np.random.default_rng(seed)))


@pytest.mark.parametrize("seed", [10, 11, pytest.param(12, marks=pytest.mark.slow)])
def test_what_is_simple_is_told_simply(seed):
    result, X, Y = follower(seed)
    better = result.never_worse()
    found = better.evidence["contest"]
    assert found.winner in ("column median", "row + column")
    assert found.weight < 0.5
    assert found.gain > 2 * found.deviation
    missed = [np.mean(np.abs(r.low_rank() - X)) for r in (better, result)]
    assert missed[0] < 0.5 * missed[1]
    assert better.rank <= result.rank + 2
    if seed == 10:
        check_intervals(better, result, X, Y)


def check_intervals(better, result, X, Y):
    """Those of a blend are its own, and shorter."""
    hidden = X + np.random.default_rng(0).standard_normal(SHAPE)
    rows, cols = np.nonzero(np.isnan(Y))
    low, high = better.interval(rows, cols)
    assert (
        abs(np.mean((low <= hidden[rows, cols]) & (hidden[rows, cols] <= high)) - 0.9)
        < 0.03
    )
    assert np.mean(high - low) < 0.9 * np.mean(
        np.diff(result.interval(rows, cols), axis=0)
    )


def test_chance_decides_nothing():
    """Two models that are equally good: the low-rank one stays."""
    rng = np.random.default_rng(4)
    obs = as_observations(observed(sums(rng), rng))
    sets = []
    for _ in range(5):
        rows, cols = (rng.integers(0, n, 200) for n in SHAPE)
        some = Sample(rows, cols, np.zeros(200))
        X = biases(obs)
        judged = Sample(rows, cols, -some.residual(X) + rng.standard_normal(200))
        sets.append(Fitted(obs, judged, Fit(X)))
    assert contest(sets).winner == LOW_RANK
    with pytest.raises(ValueError, match="at least 2"):
        contest(sets[:1])


def test_scores():
    assert Score.of(np.array([3.0, -4.0])) == (3.5, np.sqrt(12.5))

"""Data of which many entries are 0: power at night, rain, sales. What is 0 says nothing about how
large errors are, and what is not 0 is no outlier."""

import numpy as np
import pytest

import lrmc
from lrmc.observations.sample import telling


def solar(rng, days=24, panels=6):
    """Hours x panels: 0 at night, and at noon as much as the weather allows."""
    hours = np.arange(24 * days)
    height = np.maximum(0, np.sin((hours % 24 - 6) / 12 * np.pi))
    height[height < 1e-9] = 0
    weather = np.clip(0.7 + 0.3 * rng.normal(size=(days, 1)), 0.05, 1.2)
    weather = weather + 0.05 * rng.random((days, panels))
    power = height[:, None] * np.repeat(weather, 24, 0) * rng.uniform(3, 10, panels)
    return power * (1 + 0.03 * rng.normal(size=power.shape))


def sales(rng):
    """Shops x goods, most of which were not sold."""
    rate = np.outer(rng.gamma(0.5, 1, 80), rng.gamma(0.6, 1, 60))
    return rng.poisson(rate).astype(float)


def spectra(rng):
    """Mixtures of three lines, cut off below what can be measured."""
    at = np.linspace(0, 1, 80)
    lines = np.exp(-((at - rng.uniform(size=(3, 1))) ** 2) / 0.002)
    Z = rng.gamma(1, 1, (70, 3)) @ lines
    return np.where(Z > 0.05, Z * (1 + 0.05 * rng.normal(size=Z.shape)), 0)


def hidden(X, rng, gross=0.0):
    """Some entries of X missing, some wrong, and which are missing."""
    missing = rng.random(X.shape) < 0.2
    Y = np.where(missing, np.nan, X)
    wrong = ~missing & (rng.random(X.shape) < gross)
    Y[wrong] = X.max() * rng.choice([-2, 3], wrong.sum())
    return Y, missing


def error(A, X, at):
    return float(np.sqrt(np.mean((A - X)[at] ** 2)))


@pytest.mark.parametrize(
    ("made", "gross", "limit"),
    [(solar, 0, 0.15), (solar, 0.05, 0.2), (spectra, 0, 0.45), (sales, 0, 1.0)],
)
def test_what_is_not_zero_is_foretold(made, gross, limit):
    """Within so many times the error of column means; fits that follow the zeros have 1 and more."""
    rng = np.random.default_rng(0)
    X = made(rng)
    Y, missing = hidden(X, rng, gross)
    result = lrmc.solve(Y)
    means = np.broadcast_to(X.mean(0), X.shape)
    assert result.regime == "noisy"
    assert result.outlier_fraction < gross + 0.1
    assert error(result.completed(), X, missing) < limit * error(means, X, missing)


def test_intervals_hold_what_they_say():
    rng = np.random.default_rng(1)
    X = solar(rng)
    Y, missing = hidden(X, rng)
    rows, cols = np.nonzero(missing)
    low, high = lrmc.solve(Y).interval(rows, cols, level=0.9)
    inside = (low <= X[missing]) & (X[missing] <= high)
    assert inside.mean() > 0.88
    by_day = X[missing] > 0  # as many as were asked for, however many are 0 at night
    assert 0.82 < inside[by_day].mean() < 0.97


def test_one_value_and_gross_errors_are_still_that():
    """Where nothing foretells what differs, it is called outliers, as before."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((60, 50)) < 0.08, 10 * rng.normal(size=(60, 50)), 0.0)
    with pytest.warns(lrmc.DoubtWarning, match="nearly all entries have one value"):
        result = lrmc.solve(np.where(rng.random(Y.shape) < 0.2, np.nan, Y))
    assert result.regime == "exact"
    assert np.abs(result.completed()).max() < 1e-9


def test_which_values_tell():
    values = np.r_[np.zeros(50), np.arange(1.0, 51)]
    assert np.array_equal(telling(values), values != 0)
    assert telling(np.arange(100.0)).all()
    assert telling(np.r_[np.zeros(20), np.arange(1.0, 81)]).all()  # too few to matter
    assert telling(np.r_[np.zeros(90), np.arange(1.0, 11)]).all()  # too few are left

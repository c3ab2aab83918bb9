"""Data of which many entries are 0: power at night, rain, sales. What is 0 says nothing about how
large errors are, and what is not 0 is no outlier."""

import numpy as np
import pytest

import lrmc
from lrmc.observations.sample import Sample, telling, usual_in_lines


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


def standardized(X):
    """Each column has a zero of its own then."""
    return (X - X.mean(0)) / X.std(0)


def cut_off(rng):
    """Genes x cells, say: what is below a limit is 0."""
    Z = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 50))
    return np.maximum(0, Z + 0.5 * rng.normal(size=Z.shape) - 1.5)


def yes_or_no(rng):
    """Answers that depend on three traits of a person."""
    odds = np.exp(rng.normal(size=(300, 3)) @ rng.normal(size=(3, 50)) - 1.2)
    return (rng.random(odds.shape) < odds / (1 + odds)).astype(float)


@pytest.mark.parametrize(
    ("made", "gross", "limit"),
    [(cut_off, 0, 0.75), (cut_off, 0.05, 0.9), (yes_or_no, 0, 0.95)],
)
@pytest.mark.filterwarnings("ignore:the mean absolute error on entries")
@pytest.mark.parametrize("turned", [False, True])
def test_zeros_of_columns_that_were_standardized(made, gross, limit, turned):
    """They were met exactly, all else was called outliers, and "exact" was claimed."""
    rng = np.random.default_rng(3)
    X = standardized(made(rng))
    Y, missing = hidden(X, rng, gross)
    if turned:
        X, Y, missing = X.T, Y.T, missing.T
    result = lrmc.solve(Y, time=None)
    assert result.regime == "noisy"
    assert result.outlier_fraction < gross + 0.1
    assert error(result.completed(), X, missing) < limit  # column means have 1
    low, high = result.interval(*np.nonzero(missing), level=0.9)
    assert ((low <= X[missing]) & (X[missing] <= high)).mean() > 0.85


def test_a_constant_in_each_column_is_told():
    """One of four answers in each group of four columns: nothing foretells which."""
    rng = np.random.default_rng(51)
    answers = np.eye(4)[rng.choice(4, (400, 15), p=(0.7, 0.1, 0.1, 0.1))]
    Y, _ = hidden(standardized(answers.reshape(400, 60)), rng)
    with pytest.warns(lrmc.DoubtWarning):
        lrmc.solve(Y, time=None)


def test_values_that_are_usual_in_their_line():
    lines = np.repeat([0, 1, 2, 3], (5, 5, 2, 4))
    values = np.array([1, 1, 1, 5, 6, 1, 2, 3, 4, 5, 7, 7, 2, 2, 3, 3.0])
    usual = np.zeros(16, bool)
    usual[:3] = True  # of line 1 none is, of 2 two are too few, of 3 half is not most
    assert np.array_equal(usual_in_lines(lines, values), usual)
    order = np.random.default_rng(0).permutation(16)
    assert np.array_equal(usual_in_lines(lines[order], values[order]), usual[order])


def test_which_entries_tell():
    rng = np.random.default_rng(0)
    X = standardized(cut_off(rng))
    rows, cols = (x.ravel() for x in np.indices(X.shape))
    some = Sample(rows, cols, X.ravel())
    zeros = X.min(0) == X
    assert np.array_equal(some.tells(), ~zeros.ravel())
    assert np.array_equal(some.flipped().tells(), some.tells())
    rated = Sample(rows, cols, rng.integers(1, 6, X.size).astype(float))
    assert rated.tells().all()  # values that come again, and none is usual

"""Lines whose errors are unlike what the law of scales expects of them."""

import numpy as np

import lrmc
from lrmc.evidence.own_sizes import ENOUGH, OwnSizes


def told(size, cols):
    """By errors of one row each."""
    even = OwnSizes.even((len(size), int(cols.max()) + 1))
    return even.followed(size, (np.arange(len(size)), cols)).cols


def test_a_column_with_errors_enough_has_a_size_of_its_own():
    rng = np.random.default_rng(0)
    cols = np.repeat(np.arange(6), 400)
    size = np.abs(rng.standard_normal(2400)) * np.array([1, 1, 1, 1, 1, 30])[cols]
    found = told(size, cols)
    assert 20 < found[5] / found[0] < 40
    assert np.ptp(found[:5]) < 0.3


def test_errors_that_are_0_half_of_the_time_do_not_tell_how_large_the_others_are():
    rng = np.random.default_rng(0)
    cols = np.repeat(np.arange(6), 400)
    size = np.abs(rng.standard_normal(2400))
    size[(cols == 5) & (rng.random(2400) < 0.5)] = 0
    assert told(size, cols)[5] > 0.4


def test_a_column_with_few_errors_is_as_the_law_has_it():
    cols = np.repeat([0, 1], [400, ENOUGH - 1])
    assert told(np.where(cols == 1, 9.0, 1.0), cols)[1] == 1


def test_intervals_hold_in_columns_of_other_units():
    """One in millions, and one that is 0 for half of each day."""
    rng = np.random.default_rng(1)
    t = np.arange(700)
    day = np.cos(2 * np.pi * t / 24)
    shared = np.stack([day, np.sin(2 * np.pi * t / 24)], axis=1)
    X = shared @ rng.standard_normal((2, 8)) + 0.3 * rng.standard_normal((700, 8))
    X[:, 6] = 300 * np.maximum(day, 0) * np.exp(0.3 * rng.standard_normal(700))
    X[:, 7] *= 1e6
    hidden = rng.random(X.shape) < 0.2
    result = lrmc.solve(np.where(hidden, np.nan, X), rank=2, time=None)
    rows, cols = np.nonzero(hidden)
    lower, upper = result.interval(rows, cols)
    inside = (lower <= X[hidden]) & (X[hidden] <= upper)
    of_columns = [inside[cols == k].mean() for k in range(8)]
    assert min(of_columns) > 0.75

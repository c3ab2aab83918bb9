"""What the most similar lines say of an entry."""

import numpy as np
import pytest

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.neighbors import SHARING, nearest_lines, nearest_sharing, sharing
from lrmc.observations import as_observations


def with_gaps(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def test_rows_are_compared_by_the_entries_that_both_have():
    rng = np.random.default_rng(0)
    Y = with_gaps(5 + rng.standard_normal((30, 8)), 0.3)
    found = nearest_sharing(Y, 6)
    for i, near in enumerate(found):
        apart = np.nanmean((Y - Y[i]) ** 2, axis=1)
        apart[i] = np.inf
        np.testing.assert_array_equal(near, np.argsort(apart)[:6])
    others = nearest_sharing(Y[:4], 6, Y)
    np.testing.assert_array_equal(others[:, 0], np.arange(4))


def test_without_gaps_both_ways_are_the_same():
    Y = np.random.default_rng(1).standard_normal((40, 5))
    np.testing.assert_array_equal(nearest_sharing(Y, 7), nearest_lines(Y, 7))


def test_rows_that_share_nothing_come_last():
    Y = np.array([[1.0, np.nan], [np.nan, 1.0], [9.0, 9.0]])
    assert nearest_sharing(Y, 2)[0].tolist() == [2, 1]


def test_new_rows_are_compared_in_the_same_way():
    rng = np.random.default_rng(2)
    Y = with_gaps(rng.standard_normal((50, 6)), 0.2)
    X = Factors(np.zeros((50, 1)), np.zeros((6, 1)))
    part = sharing(as_observations(Y), X, 1e6)
    new = with_gaps(rng.standard_normal((3, 6)), 0.2, seed=3)
    said = part.for_new(new, np.zeros((3, 6)))
    for row, told in zip(new, said, strict=True):
        near = np.argsort(np.nanmean((Y - row) ** 2, axis=1))[:10]
        count = (~np.isnan(Y[near])).sum(0) + 0.5  # half a neighbor is the fit
        np.testing.assert_allclose(told, np.nansum(Y[near], axis=0) / count)


@pytest.mark.filterwarnings("ignore:entries that were set aside")
def test_they_know_what_low_rank_does_not():
    """Rows along a curve that fills the space: no plane is near it, and rows beside each other are."""
    rng = np.random.default_rng(4)
    t = np.sort(rng.random(400))[:, None]
    X = np.cos(2 * np.pi * (t * [1, 2, 3, 4, 5] + [0.1, 0.3, 0.5, 0.7, 0.9]))
    Y = with_gaps(X + 0.05 * rng.standard_normal(X.shape), 0.2, seed=5)
    Y, X = Y[order := rng.permutation(400)], X[order]
    result = lrmc.solve(Y, aim="fill")
    assert SHARING in {name for name, *_ in result.evidence["plan"]["blends"]}
    hidden = np.isnan(Y)
    missed = np.abs(result.completed() - X)[hidden].mean()
    assert missed < 0.7 * np.abs(result.low_rank() - X)[hidden].mean()

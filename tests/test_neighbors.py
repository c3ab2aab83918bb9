"""Rows that are near each other: against all distances, and loops; what they say of an entry."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from opinions import asked

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.neighbors import (
    DOUBT,
    PRIOR,
    SHARING,
    among,
    near_each_other,
    nearest_lines,
    sharing,
)


def brute(Z, known, count):
    apart = np.square(Z[:, None] - known[None]).sum(2)
    if Z is known:
        np.fill_diagonal(apart, np.inf)
    which = np.argsort(apart, axis=1, kind="stable")[:, :count]
    return which, np.take_along_axis(apart, which, 1)


@pytest.mark.parametrize(
    ("n", "across", "count"), [(70, 13, 10), (9, 1, 8), (41, 3, 1)]
)
def test_nearest_rows_are_those_of_all_distances(n, across, count):
    rng = np.random.default_rng(n)
    Z = 1e3 + rng.standard_normal((n, across))
    which, apart = nearest_lines(Z, count)
    want = brute(Z, Z, count)
    assert_array_equal(which, want[0])
    assert_allclose(apart, want[1])
    new = 1e3 + rng.standard_normal((5, across))
    assert_array_equal(nearest_lines(new, count, Z)[0], brute(new, Z, count)[0])


def test_rows_that_cannot_be_compared_have_neighbors_all_the_same():
    Z = np.full((6, 2), np.nan)
    which, _ = nearest_lines(Z, 5)
    for i, near in enumerate(which):
        assert sorted([i, *near]) == list(range(6))


def test_one_row_has_no_neighbors():
    assert nearest_lines(np.ones((1, 3)), 0)[0].shape == (1, 0)


def test_sums_among_neighbors_leave_out_what_is_missing():
    rng = np.random.default_rng(2)
    values = np.where(rng.random((12, 4)) < 0.4, np.nan, rng.standard_normal((12, 4)))
    which = rng.integers(0, 12, (12, 5))
    counts = rng.random((12, 5))
    rows, cols = rng.integers(0, 12, 40), rng.integers(0, 4, 40)
    for weights in (None, counts):
        sums, total = among(values, which, rows, cols, weights)
        for p, (i, j) in enumerate(zip(rows, cols, strict=True)):
            near, w = values[which[i], j], np.ones(5) if weights is None else counts[i]
            seen = ~np.isnan(near)
            assert sums[p] == pytest.approx(near[seen] @ w[seen])
            assert total[p] == pytest.approx(w[seen].sum())


def test_places_outside_of_the_table_are_refused():
    values, which = np.ones((3, 2)), np.zeros((3, 1), np.int64)
    for rows, cols in (([3], [0]), ([0], [2]), ([-1], [0])):
        with pytest.raises(ValueError, match="outside"):
            among(values, which, np.array(rows), np.array(cols))
    with pytest.raises(ValueError, match="no such row"):
        among(values, which + 3, np.array([0]), np.array([0]))


def with_gaps(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


@pytest.mark.parametrize("across", [1, 8, 33])
def test_rows_are_compared_by_the_entries_that_both_have(across):
    rng = np.random.default_rng(0)
    Y = with_gaps(5 + rng.standard_normal((37, across)), 0.3)
    Y[:, 0] = rng.standard_normal(len(Y))  # so that all have something in common
    found, distances = nearest_lines(Y, 6)
    for i, near in enumerate(found):
        apart = across * np.nanmean((Y - Y[i]) ** 2, axis=1)
        apart[i] = np.inf
        assert_array_equal(near, np.argsort(apart)[:6])
        assert_allclose(distances[i], apart[near])
    others, _ = nearest_lines(Y[:4], 6, Y)
    assert_array_equal(others[:, 0], np.arange(4))


def test_one_gap_changes_nothing_but_what_it_hides():
    Y = np.random.default_rng(1).standard_normal((40, 5))
    rows = np.vstack([Y, np.full(5, 1e3)])
    before, apart = nearest_lines(rows, 7)
    rows[-1, 0] = np.nan  # of a row that is nobody's neighbor
    after, now = nearest_lines(rows, 7)
    assert_array_equal(after[:-1], before[:-1])
    assert_allclose(now[:-1], apart[:-1])


def test_rows_that_share_nothing_come_last():
    Y = np.array([[1.0, np.nan], [np.nan, 1.0], [9.0, 9.0]])
    assert nearest_lines(Y, 2)[0][0].tolist() == [2, 1]


def said_by_ten(rows, Y, among_others):
    """What the nearest say, by means over entries that both have, beside a fit that is 0."""
    apart = np.array([np.nanmean((Y - row) ** 2, axis=1) for row in rows])
    if among_others:
        np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1)[:, :10]
    apart = np.take_along_axis(apart, near, 1)
    apart += PRIOR / Y.shape[1] * np.median(apart)
    counts = apart[:, :1] / apart
    values = Y[near]  # rows x neighbors x columns
    weights = np.where(np.isnan(values), 0, counts[:, :, None])
    return (weights * np.nan_to_num(values)).sum(1) / (weights.sum(1) + DOUBT)


def test_nearer_lines_count_more():
    rng = np.random.default_rng(6)
    Y = with_gaps(rng.standard_normal((40, 6)), 0.2)
    X = Factors(np.zeros((40, 1)), np.zeros((6, 1)))
    rows, cols = (x.ravel() for x in np.indices(Y.shape))
    told = asked(sharing, Y, X, 1e6).at(rows, cols).reshape(Y.shape)
    assert_allclose(told, said_by_ten(Y, Y, among_others=True))


def test_new_rows_are_compared_in_the_same_way():
    rng = np.random.default_rng(2)
    Y = with_gaps(rng.standard_normal((50, 6)), 0.2)
    X = Factors(np.zeros((50, 1)), np.zeros((6, 1)))
    part = asked(sharing, Y, X, 1e6)
    new = with_gaps(rng.standard_normal((3, 6)), 0.2, seed=3)
    said = part.for_new(new, np.zeros((3, 6)))
    assert_allclose(said, said_by_ten(new, Y, among_others=False))


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_some_lines_have_the_neighbors_that_all_have(gaps):
    Y = np.random.default_rng(7).standard_normal((30, 5))
    Y[3] = Y[4] = Y[5]  # a line may be as near to itself as to others
    Y = with_gaps(Y, gaps)
    all_of_them = near_each_other(Y, 6)
    some = np.array([0, 3, 5, 29])
    near = near_each_other(Y, 6, some)
    assert (near.which[some] != some[:, None]).all()
    apart = nearest_lines(Y, 6)[1]
    usual = PRIOR / 5 * np.array([np.median(apart), np.median(apart[some])])
    ratio = (apart[some, :1] + usual[1]) / (apart[some] + usual[1])
    assert_allclose(near.counts[some], ratio)
    alone = [0, 29]  # the others are as near to two lines
    assert_array_equal(near.which[alone], all_of_them.which[alone])


@pytest.mark.filterwarnings("ignore:entries that were set aside")
def test_neighbors_are_asked_among_all_lines():
    """Each line has five like it, most of which a part of the lines lacks."""
    rng = np.random.default_rng(8)
    X = np.repeat(rng.standard_normal((600, 50)), 6, axis=0)
    X = X[rng.permutation(len(X))]
    Y = with_gaps(X + 0.1 * rng.standard_normal(X.shape), 0.2, seed=9)
    result = lrmc.solve(Y, aim="fill")
    hidden = np.isnan(Y)
    missed = np.median(np.abs(result.completed() - X)[hidden])
    assert missed < 0.2  # 0.37 where neighbors all count alike and are judged in a part


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

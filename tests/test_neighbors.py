"""Rows that are near each other: against all distances, and loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lrmc.methods.neighbors import among, nearest_lines


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

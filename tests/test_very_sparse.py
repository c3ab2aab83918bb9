"""Large matrices of which a hundredth is observed: of a part of them that is small in both directions
hardly anything is left in a line, so that it says little of what low rank can do in all of them."""

import numpy as np
import pytest
import scipy.sparse as sp

import lrmc
from lrmc.methods.lessons import part_at, some_lines
from lrmc.observations import as_observations


def ratings(n1, n2, of_a_row, rank, noise, seed=0):
    """A sparse matrix, and its factors."""
    rng = np.random.default_rng(seed)
    rows, cols = (rng.integers(0, n, n1 * of_a_row) for n in (n1, n2))
    rows, cols = np.divmod(np.unique(rows * n2 + cols), n2)
    L, R = (rng.normal(size=(n, rank)).astype(np.float32) for n in (n1, n2))
    values = np.einsum("ij,ij->i", L[rows], R[cols])
    values += noise * rng.normal(size=len(rows)).astype(np.float32)
    return sp.csr_array((values, (rows, cols)), shape=(n1, n2)), L, R


@pytest.mark.parametrize("rank", [5, None])
def test_low_rank_is_judged_where_lines_have_entries(rank):
    """Offsets were blended in by a third, or too many components were kept, without a word."""
    Y, L, R = ratings(6000, 4000, 50, 5, 0.5)
    result = lrmc.solve(Y, rank)
    some = slice(0, 200)
    error = np.sqrt(np.mean((result.low_rank(some) - L[some] @ R.T) ** 2))
    assert error < 0.3  # plain least squares with 50 and 75 entries in a line: 0.23


def test_a_part_of_sparse_data_has_enough_of_each_line():
    obs = as_observations(ratings(6000, 4000, 50, 5, 0.5)[0])
    part = part_at(obs, *some_lines(obs, np.random.default_rng(0), 50_000))
    assert np.median(part.row_observed) > 40
    assert np.median(part.col_observed) > 40


def test_parts_that_are_mostly_gaps_are_read_entry_by_entry():
    Y, _, _ = ratings(5000, 4000, 20, 2, 0.5)
    rng = np.random.default_rng(1)
    rows, cols = (np.sort(rng.choice(n, 3000, replace=False)) for n in Y.shape)
    part = part_at(as_observations(Y), rows, cols)
    wanted = as_observations(Y[rows][:, cols])
    np.testing.assert_array_equal(part.row_observed, wanted.row_observed)
    some, others = np.arange(100), np.arange(3000)
    np.testing.assert_array_equal(part.grid(some, others), wanted.grid(some, others))

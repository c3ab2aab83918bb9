"""Rows of one Gaussian with gaps: against the textbook, by the covariance of what was seen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrmc import _kernels


def told(y, others, j, mean, cov):
    """The mean of y_j given some entries of the row, and the weights of these."""
    weights = np.linalg.solve(cov[np.ix_(others, others)], cov[others][:, j])
    return mean[j] + weights.T @ (y[others] - mean[others]), weights


def reference(Y, mean, cov):
    complete, said, left = Y.copy(), Y.copy(), np.zeros_like(cov)
    for i, y in enumerate(Y):
        seen, gaps = (np.flatnonzero(x) for x in (~np.isnan(y), np.isnan(y)))
        complete[i, gaps], weights = told(y, seen, gaps, mean, cov)
        said[i, gaps] = complete[i, gaps]
        both = np.ix_(gaps, gaps)
        left[both] += cov[both] - weights.T @ cov[np.ix_(seen, gaps)]
        for j in seen:
            said[i, j] = told(y, seen[seen != j], j, mean, cov)[0]
    return complete, said, left


def rows(n, across, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((across, across)) + 2 * np.eye(across)
    mean = rng.uniform(-3, 3, across)
    Y = mean + rng.standard_normal((n, across)) @ root.T
    # from rows without gaps to rows without anything else
    Y[rng.random(Y.shape) < np.linspace(0, 1, n)[:, None]] = np.nan
    return Y, mean, root @ root.T


def filled(Y, mean, cov, **room):
    _kernels.gaps(Y, mean=mean, precision=np.linalg.inv(cov), **room)


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@pytest.mark.parametrize(("n", "across"), [(1, 1), (7, 3), (33, 12), (50, 40)])
def test_gaps_are_what_the_rest_of_the_row_says(name, n, across):
    Y, mean, cov = rows(n, across)
    complete, said, left = (
        np.full(shape, 7.0) for shape in (Y.shape, Y.shape, cov.shape)
    )
    usual = _kernels.instruction_set()
    _kernels.use_instruction_set(name)
    try:
        filled(Y, mean, cov, complete=complete, unknown=left, told=said)
    finally:
        _kernels.use_instruction_set(usual)
    want = reference(Y, mean, cov)
    for got, exact in zip((complete, said, left), want, strict=True):
        assert_allclose(got, exact, rtol=1e-6, atol=1e-6 * np.abs(cov).max())


def test_the_order_of_rows_does_not_matter():
    Y, mean, cov = rows(30, 6)
    order = np.random.default_rng(1).permutation(30)
    one, other = (np.empty_like(Y) for _ in range(2))
    filled(Y, mean, cov, complete=one)
    filled(Y[order], mean, cov, complete=other)
    assert_allclose(other, one[order], rtol=1e-9)


def test_what_does_not_fit_is_refused():
    Y, mean, cov = rows(5, 4)
    room = np.empty_like(Y)
    filled(Y, mean, cov, complete=room)
    for wrong in (
        {"mean": mean[:3], "cov": cov, "complete": room},
        {"mean": mean, "cov": cov[:3, :3], "complete": room},
        {"mean": mean, "cov": cov, "complete": room[:4]},
        {"mean": mean, "cov": cov, "complete": room, "told": room[:, :3].copy()},
        {"mean": mean, "cov": cov, "complete": room, "unknown": room},
    ):
        with pytest.raises(ValueError, match="kernel"):
            filled(Y, **wrong)

"""What a step of the closed loop does beside its pass, and its Gram matrices in single precision."""

import numpy as np
import pytest
import scipy.sparse as sp
from comparing import assert_close
from each import each

from lrmc import _kernels, as_observations
from lrmc.linalg import Factors, median_of, quantiles
from lrmc.observations import OWN, Dense, Sparse, native
from lrmc.observations.base import Sample, most_frequent
from lrmc.row_systems import inverse_rows, packed, pairs, times_rows, unpacked
from lrmc.weights import Threshold

TYPES = [np.float32, np.float64]
both_types = each("dtype", TYPES)


@both_types
@each("n", [1, 2, 7, 5000])
def test_ordered_numbers_are_those_of_a_sort(n, dtype):
    rng = np.random.default_rng(n)
    x = (rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)).astype(dtype)
    x[rng.random(n) < 0.3] = x[0]  # many that are alike
    x[rng.random(n) < 0.05] = -0.0
    x[rng.random(n) < 0.05] = np.inf
    x[rng.random(n) < 0.05] = -np.nan  # NaN of either sign come last, as NumPy has them
    places = np.unique(rng.integers(0, n, 9))
    out = np.empty(len(places))
    _kernels.ordered(x, places=places, out=out)
    np.testing.assert_array_equal(out, np.sort(x)[places])


@both_types
@each("shares", [(0.0,), (1.0,), (0.3, 0.81), (0.9, 0.1), (0.5, 0.5)], ids=str)
def test_quantiles_are_numpys(shares, dtype):
    x = np.random.default_rng(1).exponential(size=1001).astype(dtype)
    wanted = np.quantile(x.astype(float), shares)
    np.testing.assert_allclose(quantiles(x, shares), wanted, rtol=1e-12)


@both_types
@each("n", [1, 2, 1999, 2001, 5000])
def test_medians_are_numpys(n, dtype):
    x = np.random.default_rng(n).standard_normal(n).astype(dtype)
    assert median_of(x) == pytest.approx(np.median(x.astype(float)), rel=1e-12)
    assert median_of(x[::-1]) == median_of(x)  # not contiguous
    x[n // 2] = np.nan
    assert np.isnan(median_of(x))


@both_types
def test_the_most_frequent_value_is_the_least_of_several(dtype):
    rng = np.random.default_rng(0)
    for size in (1, 3, 40, 3000):
        x = rng.integers(-9, 9, size).astype(dtype) / 8
        x[rng.random(size) < 0.1] = -0.0
        values, counts = np.unique(x, return_counts=True)
        want = values[counts.argmax()], counts.max()
        assert most_frequent(x) == want
    assert most_frequent(np.empty(0, dtype)) == (0.0, 0)
    alone = rng.standard_normal(3000).astype(dtype)
    assert most_frequent(np.unique(alone)) == (alone.min(), 1)
    with pytest.raises(ValueError, match="NaN"):
        most_frequent(np.array([1, np.nan], dtype))


@each("dtype", [np.float32, np.float64, np.uint8, np.int16, np.uint16])
@each("masked", [False, True])
def test_observed_entries_at_places(dtype, masked):
    rng = np.random.default_rng(0)
    Y = (100 * rng.random((30, 20))).astype(dtype)
    if Y.dtype.kind == "f":
        Y[rng.random(Y.shape) < 0.4] = np.nan
    mask = rng.random(Y.shape) < 0.7 if masked else None
    obs = as_observations(Y, mask).scaled(0.25)
    assert isinstance(obs, Dense)
    rows, cols = rng.integers(0, 30, 99), rng.integers(0, 20, 99)
    want = obs.lookup(rows, cols)
    seen = ~np.isnan(want)
    found = native.observed_at(obs.data, rows, cols, obs.dtype)
    for got, all_of in zip(found, (rows, cols, want), strict=True):
        np.testing.assert_array_equal(got, all_of[seen])
    with pytest.raises(ValueError, match="outside"):
        native.observed_at(obs.data, rows + 1, cols, obs.dtype)


def test_places_outside_are_refused():
    for places in ([5], [-1], [3, 2]):
        out = np.empty(len(places))
        with pytest.raises(ValueError, match=r"outside|fall"):
            _kernels.ordered(np.ones(5), places=np.array(places), out=out)


@both_types
@each("rank", [1, 2, 5, 8, 9, 20])
def test_inverses_and_products_of_rows(rank, dtype):
    rng = np.random.default_rng(rank)
    A = rng.standard_normal((37, rank + 4, rank))
    full = np.swapaxes(A, 1, 2) @ A
    used, ridge = rng.random(37) < 0.8, 0.1 * np.eye(rank)
    H = inverse_rows(packed(full).astype(dtype), ridge, used)
    want = np.linalg.inv(full + ridge) * used[:, None, None]
    assert_close(unpacked(H, rank), want, dtype)
    B, scale = rng.standard_normal((37, rank)).astype(dtype), rng.random(37)
    want = scale[:, None] * np.einsum("nab,nb->na", want, B)
    assert_close(times_rows(H, B, scale), want, dtype)


@both_types
def test_sizes_at_places(dtype):
    rng = np.random.default_rng(0)
    for rank in (1, 4, 5, 9):
        L, R = (rng.standard_normal((n, rank)).astype(dtype) for n in (30, 20))
        rows, cols = rng.integers(0, 30, 99), rng.integers(0, 20, 99)
        some = Sample(rows, cols, rng.standard_normal(99).astype(dtype))
        want = np.abs(some.values - (L @ R.T)[rows, cols])
        assert_close(some.sizes(Factors(L, R)), want, dtype)


@both_types
def test_entries_are_counted_by_column(dtype):
    rng = np.random.default_rng(0)
    indices, values = rng.integers(0, 9, 500), rng.standard_normal(500).astype(dtype)
    values[:30], values[30:50] = np.nan, -np.inf
    cols = np.ones(9, np.int64)
    assert native.survey_entries(indices, values, cols) == (30, 20)
    np.testing.assert_array_equal(cols, 1 + np.bincount(indices[30:], minlength=9))
    with pytest.raises(ValueError, match="names no column"):
        native.survey_entries(indices, values, cols[:8])


def test_entries_are_found_in_rows_of_every_length():
    rng = np.random.default_rng(0)
    seen = rng.random((40, 50)) < rng.random((40, 1))
    seen[0], seen[1] = False, True
    obs = as_observations(sp.csr_array(seen * rng.standard_normal(seen.shape)))
    rows, cols = (x.ravel() for x in np.indices(seen.shape))
    mixed = rng.permutation(len(rows))
    found = obs.lookup(rows[mixed], cols[mixed])
    np.testing.assert_array_equal(np.isnan(found), ~seen.ravel()[mixed])


def sparse_problem(dtype, rank, *, n1=61, n2=37):
    """Rows of 0 to 30 entries; half of them are outliers by the threshold."""
    rng = np.random.default_rng(rank)
    Y = rng.standard_normal((n1, n2)).astype(dtype)
    seen = rng.random((n1, n2)) < 0.4
    seen[rng.random(n1) < 0.2] = False
    L, R = (rng.standard_normal((n, rank)).astype(dtype) for n in (n1, n2))
    obs = as_observations(
        sp.csr_array((Y[seen], np.nonzero(seen)), shape=Y.shape), threads=3
    )
    assert isinstance(obs, Sparse)
    return obs, np.where(seen, Y, np.nan), L, R


def even(shape, z):
    """One threshold for all."""
    n1, n2 = shape
    return Threshold(
        np.full(n1, z), np.full(n2, z), np.zeros(n1), np.zeros(n2), rough=True
    )


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@both_types
@each("rank", [1, 2, 3, 4, 5, 7, 8, 12])
def test_rough_gram_matrices(name, dtype, rank):
    """Every entry by itself, in double precision, against what single precision tells."""
    _kernels.use_instruction_set(name)
    obs, Y, L, R = sparse_problem(dtype, rank)
    rule = even(Y.shape, 1.0)
    pull = obs.products(L, R, rule, P=OWN, Q=OWN, Pw=pairs(L), Qw=pairs(R))
    E = Y - L.astype(float) @ R.T
    W = (np.abs(E) <= 1.0).astype(float)
    C = np.where(W > 0, E, 0.0)
    assert_close(pull[0], C @ R, dtype)
    assert_close(pull[1], C.T @ L, dtype)
    np.testing.assert_array_equal(pull.row_inliers, W.sum(1))
    np.testing.assert_array_equal(pull.col_inliers, W.sum(0))
    assert_close(pull.grams[0], W @ pairs(R.astype(float)), np.float32)
    assert_close(pull.grams[1], W.T @ pairs(L.astype(float)), np.float32)


def test_large_numbers_have_gram_matrices_in_their_own_precision():
    """Squares of 1e25 are beyond single precision."""
    obs, Y, L, R = sparse_problem(np.float64, 5)
    L[3] *= 1e25
    rule = even(Y.shape, np.inf)
    pull = obs.products(L, R, rule, P=OWN, Q=OWN, Pw=pairs(L), Qw=pairs(R))
    want = (~np.isnan(Y)).astype(float).T @ pairs(L)
    np.testing.assert_allclose(pull.grams[1], want, rtol=1e-12)


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@both_types
@each("rank", [1, 2, 3, 5, 7, 8])
def test_entries_within_a_border_are_counted(name, dtype, rank):
    """As the certificate asks: no product is wanted."""
    _kernels.use_instruction_set(name)
    obs, Y, L, R = sparse_problem(dtype, rank)
    rule, none = even(Y.shape, 1.0), np.zeros((Y.shape[1], 1), dtype)
    for Q in (none, none + 1):  # one that is asked for is made
        pull = obs.products(L, R, rule, Q=Q)
        E = Y - L.astype(float) @ R.T
        met = np.abs(E) <= 1.0
        np.testing.assert_array_equal(pull.row_inliers, met.sum(1))
        np.testing.assert_array_equal(pull.col_inliers, met.sum(0))
        np.testing.assert_array_equal(pull.row_weight, met.sum(1))
        np.testing.assert_array_equal(pull.col_weight, met.sum(0))
        assert_close(pull[0], np.where(met, E, 0.0) @ Q, dtype)

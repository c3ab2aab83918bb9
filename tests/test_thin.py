"""Sparse passes with few columns in the factors, what they are made from, and products beside them."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from comparing import assert_close, assert_pull
from each import each
from rules import rules

from lrmc import _kernels, as_observations
from lrmc._kernels import cross, times
from lrmc._rows import equal
from lrmc.observations import Dense, Sparse, native
from lrmc.observations._door import CACHED_COLUMNS, compressed
from lrmc.observations.transposed import Transposed
from lrmc.weights import Threshold

KINDS = [np.uint8, np.int16, np.uint16, np.float32, np.float64]


def made(shape, p, kind=np.float32, seed=0):
    """Numbers up to 20 that all types hold, and which are seen: some rows have none."""
    rng = np.random.default_rng(seed)
    Y = rng.integers(0, 20, shape).astype(kind)
    seen = rng.random(shape) < p
    seen[rng.random(shape[0]) < 0.2] = False
    seen[-1, -1] = True
    return Y, seen


def factors(shape, rank, dtype):
    rng = np.random.default_rng(rank)
    return tuple(rng.standard_normal((n, rank)).astype(dtype) for n in shape)


def csr(Y, seen):
    return sp.csr_array((Y[seen], np.nonzero(seen)), shape=Y.shape)


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("rank", [1, 2, 3, 4, 5, 7, 8, 9])
def test_pull_of_every_type(name, rank):
    """Rows of 0 to 30 entries, so that vectors are whole, broken and missing; several threads."""
    _kernels.use_instruction_set(name)
    for kind in KINDS:
        Y, seen = made((61, 37), 0.4, kind)
        obs = as_observations(csr(Y, seen), threads=3)
        assert isinstance(obs, Sparse)
        L, R = factors(Y.shape, rank, obs.dtype)
        for rule in ("clip", "threshold, by row", "threshold, nearly even"):
            weight, slow = dict(rules)[rule](*Y.shape, 6.0)
            want = reference.pull(Y.astype(float), seen, L, R, slow)
            assert_pull(obs.pull(L, R, weight), want, obs.dtype)


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("shape", [(1, 1), (1, 9), (9, 1), (2, 8), (3, 15), (17, 3)], ids=str)
def test_one_product_without_a_model(name, shape):
    _kernels.use_instruction_set(name)
    Y, seen = made(shape, 0.45)
    indptr = np.concatenate([[0], np.cumsum(seen.sum(1))])
    obs = Sparse(
        shape=shape,
        dtype=np.dtype(np.float32),
        row_observed=seen.sum(1),
        col_observed=seen.sum(0),
        indptr=indptr,
        indices=np.nonzero(seen)[1].astype(np.int32),
        values=Y[seen],
    )
    P, Q = factors(shape, 7, np.float32)
    want = reference.products(Y, seen, None, None, reference.clip(6.0), P, Q)
    assert_close(obs.products(None, None, 6.0, Q=Q)[0], want.CQ, np.float32)
    assert_close(obs.products(None, None, 6.0, P=P)[1], want.CtP, np.float32)


def test_a_factor_that_is_not_finite_reaches_its_own_row_only():
    Y, seen = made((40, 30), 0.4)
    seen[:, 0] = True
    L, R = factors(Y.shape, 2, np.float32)
    obs = as_observations(csr(Y, seen), threads=1)
    clean = obs.pull(L, R, 6.0)[0]
    L[7] = np.nan
    spoiled = obs.pull(L, R, 6.0)[0]
    others = np.arange(40) != 7
    np.testing.assert_array_equal(spoiled[others], clean[others])


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("rank", [1, 2, 4])
def test_the_end_of_a_row_and_the_next_rows_of_the_same_columns(name, rank):
    """All rows have the same few columns: what is read beyond a row must not be lost or added."""
    _kernels.use_instruction_set(name)
    for n in range(1, 10):
        Y = np.arange(1.0, 40 * n + 1, dtype=np.float32).reshape(40, n) % 7
        seen = np.ones((40, 10), bool)
        seen[:, n:] = False
        obs = as_observations(csr(np.pad(Y, ((0, 0), (0, 10 - n))), seen), threads=1)
        obs = compressed(obs) if isinstance(obs, Dense) else obs
        L, R = factors((40, 10), rank, np.float32)
        for rule in ("clip", "threshold, by row"):
            weight, slow = dict(rules)[rule](40, 10, 3.0)
            wanted = np.pad(Y.astype(float), ((0, 0), (0, 10 - n)))
            want = reference.pull(wanted, seen, L, R, slow)
            assert_pull(obs.pull(L, R, weight), want, np.float32)


def test_counts_of_columns_stay_exact_in_single_precision():
    """One full column, with more rows than sums are made of before they are settled."""
    n = 300_000
    column = sp.csr_array(np.ones((n, 1), np.float32))
    obs = as_observations(
        sp.hstack([column, sp.csr_array((n, 3), dtype=np.float32)]).tocsr()
    )
    assert isinstance(obs, Sparse)
    z = equal(2.0, n), equal(2.0, 4), equal(0.0, n), equal(0.0, 4)
    pull = obs.pull(
        np.zeros((n, 1), np.float32), np.zeros((4, 1), np.float32), Threshold(*z)
    )
    np.testing.assert_array_equal(pull.col_inliers, [n, 0, 0, 0])
    assert pull.n_inliers == n


@each("kind", KINDS)
def test_compressed_by_row_and_by_column(kind):
    """Longer than the blocks that the kernel goes by."""
    Y, seen = made((7, 5000), 0.1, kind)
    obs = as_observations(np.where(seen, Y, np.nan) if kind is np.float64 else Y, seen)
    dense = Dense(
        shape=Y.shape,
        dtype=obs.dtype,
        row_observed=seen.sum(1),
        col_observed=seen.sum(0),
        Y=Y,
        mask=seen.view(np.uint8),
    )
    want = csr(Y, seen)
    for found, matrix in (
        (compressed(dense), want),
        (compressed(dense, by_column=True), want.T.tocsr()),
    ):
        for a, b in (
            (found.indptr, matrix.indptr),
            (found.indices, matrix.indices),
            (found.values, matrix.data),
        ):
            np.testing.assert_array_equal(a, b)
        assert found.shape == matrix.shape


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("shape", [(1, 1), (3, 63), (5, 64), (300, 65), (2, 17_000)], ids=str)
def test_what_a_mask_of_integers_shows(name, shape):
    """More rows, and more columns, than bytes can count at once; any number but 0 is observed."""
    _kernels.use_instruction_set(name)
    Y, seen = made(shape, 0.7, np.int16)
    mask = seen.astype(np.uint8) * np.random.default_rng(0).integers(
        1, 256, shape, np.uint8
    )
    counts = native.survey(Y, mask, 2)
    np.testing.assert_array_equal(counts.rows, seen.sum(1))
    np.testing.assert_array_equal(counts.cols, seen.sum(0))
    assert counts.infinite == 0


def test_the_longer_side_becomes_rows():
    """Of few entries, however they came; the answers are those of the data as they are."""
    Y, seen = made((40, CACHED_COLUMNS + 5), 0.04)
    gaps = np.where(seen, Y, np.float32(np.nan))
    L, R = factors(Y.shape, 2, np.float32)
    weight, slow = dict(rules)["clip"](*Y.shape, 6.0)
    want = reference.pull(Y.astype(float), seen, L, R, slow)
    for data in (gaps, csr(Y, seen)):
        obs = as_observations(data, threads=1)
        assert isinstance(obs, Transposed)
        assert_pull(obs.pull(L, R, weight), want, np.float32)


def test_what_is_stored_is_what_costs_less():
    rng = np.random.default_rng(0)
    for shape, p, form in (
        ((400, 300), 0.1, Sparse),
        ((400, 300), 0.3, Dense),
        ((3000, 60), 0.1, Sparse),
        ((3000, 60), 0.18, Dense),
    ):
        Y = rng.integers(0, 99, shape).astype(np.uint8)
        assert isinstance(as_observations(Y, rng.random(shape) < p), form)


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("dtype", [np.float32, np.float64])
def test_products_of_long_matrices(name, dtype):
    _kernels.use_instruction_set(name)
    rng = np.random.default_rng(0)
    for n in (1000, 1025, 2050):
        for k, m in ((1, 1), (2, 2), (3, 5), (5, 3), (8, 8), (9, 17), (32, 32)):
            X, S, Z = (  # positive: sums that cancel are no measure of rounding
                rng.random(shape).astype(dtype) for shape in ((n, k), (k, m), (n, m))
            )
            assert_close(times(X, S), X.astype(float) @ S.astype(float), dtype)
            found = cross(X, Z)
            assert found.dtype == np.float64
            assert_close(found, X.T.astype(float) @ Z.astype(float), dtype)


def test_products_of_other_matrices_are_those_of_numpy():
    rng = np.random.default_rng(0)
    X, S = rng.standard_normal((1500, 3)), rng.standard_normal((3, 2))
    assert_close(times(X[::2], S), X[::2] @ S)
    assert_close(times(np.asfortranarray(X), S.T.copy().T), X @ S)
    assert times(X.astype(np.float32), S).dtype == np.float64
    assert times(X, S[:, :0]).shape == (1500, 0)

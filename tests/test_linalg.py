"""Algebra on factors, against the same thing done with the whole matrix."""

import numpy as np
import pytest
import reference
from comparing import assert_close
from each import each

from lrmc.linalg import (
    Factors,
    balanced,
    change,
    distance,
    divide,
    entries_at,
    gram,
    median_of,
    norm,
    orthonormal,
    qr,
    quantiles,
)

SHAPES = [(30, 20, 3), (20, 30, 1), (7, 5, 5), (1, 9, 1), (200, 3, 2)]
every_shape = each("shape", SHAPES, ids=str)


def factors(shape, seed=0, dtype=np.float64):
    n1, n2, rank = shape
    rng = np.random.default_rng(seed)
    return Factors(*(rng.standard_normal((n, rank)).astype(dtype) for n in (n1, n2)))


def product(X):
    return X.L @ X.R.T


@every_shape
def test_norm_and_distance(shape):
    A, B = factors(shape, 1), factors(shape, 2)
    assert norm(A) == pytest.approx(np.linalg.norm(product(A)), rel=1e-12)
    assert distance(A, B) == pytest.approx(
        np.linalg.norm(product(A) - product(B)), rel=1e-12
    )


@each("step", [1e-2, 1e-6, 1e-9, 1e-12])
@every_shape
def test_change_and_distance_of_near_matrices(shape, step):
    """No cancellation: what is far below the square root of the machine's precision is
    still seen.
    """
    old, move = factors(shape, 1), factors(shape, 2)
    new = Factors(old.L + step * move.L, old.R + step * move.R)
    want = reference.change(old, new)
    assert change(old, new) == pytest.approx(want, rel=1e-3)
    assert distance(new, old) / norm(old) == pytest.approx(want, rel=1e-2)


def test_change_in_float32():
    old, move = (
        factors((300, 200, 4), 1, np.float32),
        factors((300, 200, 4), 2, np.float32),
    )
    for step in (1e-2, 1e-4, 1e-5):
        new = Factors(
            old.L + np.float32(step) * move.L, old.R + np.float32(step) * move.R
        )
        assert change(old, new) == pytest.approx(reference.change(old, new), rel=1e-3)


def test_change_from_and_to_nothing():
    X, zero = factors((6, 5, 2)), Factors(np.zeros((6, 2)), np.zeros((5, 2)))
    assert change(zero, zero) == 0
    assert change(zero, X) == np.inf
    assert change(X, zero) == pytest.approx(1)
    assert change(X, X) == 0


def test_what_is_not_a_number_is_not_called_zero():
    X = factors((6, 5, 2))
    bad = Factors(X.L * np.nan, X.R)
    assert np.isnan(norm(bad))
    assert not np.isfinite(change(X, bad))
    assert not np.isfinite(change(bad, bad))


@every_shape
def test_distance_sees_matrices_not_factors(shape):
    A = factors(shape)
    turn = np.random.default_rng(3).standard_normal((shape[2], shape[2])) + 3 * np.eye(
        shape[2]
    )
    B = Factors(A.L @ turn, A.R @ np.linalg.inv(turn).T)
    assert distance(A, B) < 1e-12 * norm(A)


@each("dtype", [np.float32, np.float64])
@every_shape
def test_divide(shape, dtype):
    A = factors(shape, dtype=dtype)
    G = gram(A.R) + np.eye(shape[2])
    assert gram(A.R).dtype == np.float64
    got = divide(A.L, G)
    assert got.dtype == dtype
    assert_close(got @ G, A.L, dtype, factor=100)


def test_divide_leaves_out_what_is_not_there():
    """A factor with linearly dependent columns: the pseudo-inverse, not noise divided by noise."""
    rng = np.random.default_rng(0)
    R = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 4))
    B = rng.standard_normal((30, 50)) @ R
    assert_close(
        divide(B, gram(R)), B @ np.linalg.pinv(R.T @ R, rcond=1e-10), factor=1e4
    )
    assert not divide(B, np.zeros((4, 4))).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_orthonormal(dtype):
    rng = np.random.default_rng(0)
    # rank 3
    X = (rng.standard_normal((400, 3)) @ rng.standard_normal((3, 5))).astype(dtype)
    Q = orthonormal(X)
    assert Q.dtype == dtype
    assert Q.shape[1] >= 3
    if dtype == np.float64:
        assert Q.shape[1] == 3
        assert_close(Q.T @ Q, np.eye(3), factor=1e3)
        assert_close(Q @ (Q.T @ X), X, factor=1e3)
    full = rng.standard_normal((400, 5)).astype(dtype)
    Q = orthonormal(full)
    assert_close(Q.T @ Q, np.eye(5), dtype, factor=10)
    assert_close(Q @ (Q.T @ full), full, dtype, factor=10)


@every_shape
def test_balanced(shape):
    A = factors(shape)
    B = balanced(*A)
    assert_close(product(B), product(A), factor=100)
    assert_close(B.L.T @ B.L, B.R.T @ B.R, factor=100)
    s = np.linalg.svd(product(A), compute_uv=False)[: min(shape)]
    assert_close(np.sort(np.diag(B.L.T @ B.L))[::-1][: len(s)], s, factor=100)


@each("shape", [(60, 5), (5, 5), (3, 5)])
def test_single_precision_is_made_orthonormal_as_double_is(shape):
    X = np.random.default_rng(8).standard_normal(shape) * np.geomspace(1, 1e-4, 5)
    X[:, 3] = X[:, 1]  # fewer directions than columns
    Q, T = qr(X.astype(np.float32))
    assert Q.dtype == np.float32
    assert_close(Q @ T, X, np.float32)
    wanted = np.linalg.svd(X)[1]
    sizes = np.linalg.svd(T)[1]
    np.testing.assert_allclose(sizes, wanted, atol=1e-6 * wanted[0])


@each("rank", [1, 4, 5, 8, 23])
@each(
    "types",
    [(np.float32, np.float32), (np.float64, np.float64), (np.float32, np.float64)],
)
@each("order", ["C", "F"])
def test_entries_at_places(rank, types, order):
    rng = np.random.default_rng(0)
    X = Factors(
        *(
            np.asarray(rng.standard_normal((n, rank)), dtype, order=order)
            for n, dtype in zip((7, 5), types, strict=True)
        )
    )
    rows, cols = rng.integers(0, 7, 30), rng.integers(0, 5, 30)
    got = entries_at(X, rows, cols)
    assert got.dtype == np.result_type(*types)
    assert_close(got, (X.L @ X.R.T)[rows, cols], got.dtype)
    with pytest.raises((ValueError, IndexError), match=r"outside|out of bounds"):
        entries_at(X, rows, cols + 1)


@each("n", [1, 2, 7, 1000])
@each("dtype", [np.float32, np.float64])
def test_quantiles_are_those_of_numpy(n, dtype):
    x = np.random.default_rng(n).standard_normal(n).astype(dtype)
    shares = (0.0, 0.3, 0.5, 0.81, 1.0)
    expected = np.quantile(x.astype(np.float64), shares)
    assert_close(np.array(quantiles(x, shares)), expected)


def test_medians_are_those_of_numpy():
    rng = np.random.default_rng(0)
    for shape in (1, 2, 7, 10, (3, 4)):
        x = rng.standard_normal(shape)
        assert median_of(x) == np.median(x)
    assert np.isnan(median_of(np.array([1.0, np.nan, 2.0])))
    assert np.isnan(median_of(np.empty(0)))

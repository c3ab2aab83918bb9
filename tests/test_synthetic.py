"""The paper's generator: what it promises, counted."""

import numpy as np
import pytest
import scipy.sparse as sp
from each import each

from lrmc.synthetic import Problems, problem


@each("form", ["dense", "sparse"])
@each(("p", "alpha"), [(1.0, 0.1), (0.3, 0.2), (0.05, 0.0)])
def test_the_parts_add_up(p, alpha, form):
    made = problem(n=300, n2=200, rank=4, alpha=alpha, p=p, seed=1, form=form)
    assert made.shape == made.Y.shape == (300, 200)
    assert sp.issparse(made.Y) == sp.issparse(made.outliers) == (form == "sparse")
    rows, cols = np.nonzero(made.mask)
    y, s = (np.asarray(A[rows, cols]).ravel() for A in (made.Y, made.outliers))
    np.testing.assert_allclose(y, made.X[rows, cols] + s, atol=1e-15)
    assert np.linalg.matrix_rank(made.X) == 4
    count = len(rows)
    assert abs(count - p * 60_000) <= 5 * np.sqrt(p * (1 - p) * 60_000)
    assert np.count_nonzero(s) == int(alpha * count)
    if alpha:
        bound = np.abs(made.X[rows, cols]).mean()
        assert np.abs(s).max() <= bound
        assert np.abs(s).max() > 0.95 * bound
        assert np.abs(s[s != 0]).mean() == pytest.approx(bound / 2, rel=0.1)
        assert np.mean(s[s != 0] > 0) == pytest.approx(0.5, abs=0.05)


def test_factors_have_the_scale_of_the_paper():
    L, R = problem(n=2000, n2=1000, rank=5, p=0.01).X_factors
    assert L.std() == pytest.approx(1 / np.sqrt(2000), rel=0.05)
    assert R.std() == pytest.approx(1 / np.sqrt(1000), rel=0.05)


def test_forms():
    assert isinstance(problem(n=50, p=1.0).Y, np.ndarray)
    assert problem(n=50, p=0.5).Y.format == "csr"
    dense, sparse = (problem(n=50, p=0.5, form=form) for form in ("dense", "sparse"))
    assert np.isnan(dense.Y).any()
    np.testing.assert_array_equal(np.nan_to_num(dense.Y), sparse.Y.toarray())
    np.testing.assert_array_equal(dense.mask, sparse.mask)
    np.testing.assert_array_equal(dense.mask, ~np.isnan(dense.Y))
    assert problem(n=50, dtype=np.float32).Y.dtype == np.float32


def test_seeds():
    one, again, other = (
        problem(n=60, p=0.4, seed=seed).Y.toarray() for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("condition", [10, 100])
def test_condition(condition):
    s = np.linalg.svd(
        problem(n=80, n2=60, rank=4, condition=condition).X, compute_uv=False
    )
    assert s[0] == pytest.approx(1)
    assert s[0] / s[3] == pytest.approx(condition)


def test_noise_and_size_of_outliers():
    clean, noisy, large = (
        problem(n=400, p=1.0, **how)
        for how in ({}, {"noise": 0.1}, {"outlier_scale": 10})
    )
    mean = np.abs(clean.X).mean()
    assert np.std(noisy.Y - clean.Y) == pytest.approx(0.1 * mean, rel=0.02)
    np.testing.assert_allclose(large.outliers, 10 * clean.outliers)


@each(
    ("how", "said"),
    [
        ({"rank": 0}, "rank=0"),
        ({"rank": 51}, "1 to 50"),
        ({"rank": 11, "n2": 10}, "50 x 10"),
        ({"p": 0}, "p=0; a number above 0 and up to 1 is wanted"),
        ({"p": 1.1}, "p=1.1"),
        ({"p": float("nan")}, "p=nan"),
        ({"alpha": -0.1}, "alpha=-0.1; a number from 0 to 1 is wanted"),
        ({"n": 0}, "n=0; a whole number of at least 1"),
        ({"n": 50.0}, "n=50.0; a whole number"),
        ({"n": 10**30}, "n=10{30}; a whole number of at most 2147483647"),
        ({"n2": 0}, "n2=0; a whole number of at least 1 is wanted, or None"),
        ({"condition": 0}, "condition=0; a number of at least 1 is wanted"),
        ({"condition": float("inf")}, "condition=inf"),
        ({"noise": -1}, "noise=-1; a number that is not negative"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"outlier_scale": "large"}, "outlier_scale='large'; a number"),
        ({"seed": -1}, "seed=-1; a whole number of at least 0"),
        ({"rank": True}, "rank=True"),
        ({"rank": 2.5}, "rank=2.5"),
        ({"form": "csr"}, "form='csr'; one of auto, dense, sparse"),
        ({"dtype": int}, "dtype=.*int.*; float32 or float64 is wanted"),
        ({"dtype": "number"}, "dtype='number'; float32 or float64"),
    ],
)
def test_impossible_problems(how, said):
    with pytest.raises(ValueError, match=said):
        problem(**{"n": 50, **how})


@pytest.mark.parametrize(
    "how", [{"p": 2}, {"condition": 0}, {"n2": 0}, {"noise": float("inf")}], ids=str
)
def test_impossible_kinds_of_problems(how):
    with pytest.raises(ValueError, match=f"{next(iter(how))}="):
        Problems(**how)


def test_numbers_of_numpy():
    drawn = problem(
        np.int64(20),
        np.int32(2),
        np.float32(0.1),
        np.float64(1.0),
        np.uint8(3),
        n2=np.int16(10),
    )
    assert drawn.shape == (20, 10)

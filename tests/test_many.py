"""Many matrices at once: what `solve` gives for each, in order, whatever happens to the others."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import lrmc
from lrmc.methods.small import Solved


def matrices(count=6, n1=70, n2=40, rank=2, p=1.0, **options):
    made = [
        lrmc.synthetic.problem(
            n1, n2=n2, rank=rank, p=p, seed=seed, form="dense", **options
        )
        for seed in range(count)
    ]
    return np.stack([one.Y for one in made]), np.stack([one.X for one in made])


def relative(X, truth):
    return np.linalg.norm(X - truth) / np.linalg.norm(truth)


def alike(a, b):
    """Whether two results say the same."""
    same = a.status is b.status and a.rank == b.rank and a.regime == b.regime
    return same and a.warnings == b.warnings and a.n_iter == b.n_iter


@pytest.mark.parametrize("rank", [2, None])
@pytest.mark.parametrize("p", [1.0, 0.8])
def test_as_solve_does_it(rank, p):
    Y, X = matrices(p=p)
    results = lrmc.solve_many(Y, rank)
    assert results.converged.all()
    assert results.rank.tolist() == [2] * 6
    assert relative(results.completed(), X) < 1e-6
    for (L, R), truth in zip(results.factors(), X, strict=True):
        assert relative(L @ R.T, truth) < 1e-6
    for found, one in zip(results, Y, strict=True):
        want = lrmc.solve(one, rank)
        assert alike(found, want)
        assert relative(found.low_rank(), want.low_rank()) < 1e-12
        assert found.outlier_fraction == want.outlier_fraction


def test_the_kernel_does_it():
    Y, _ = matrices()
    assert all(isinstance(answer, Solved) for answer in lrmc.solve_many(Y, 2).answers)


def test_threads_change_nothing():
    Y, _ = matrices(p=0.8)
    one, two = (lrmc.solve_many(Y, 2, threads=n).completed() for n in (1, 2))
    assert np.array_equal(one, two)


def test_a_mask_for_each():
    Y, X = matrices()
    mask = np.random.default_rng(0).random(Y.shape) < 0.8
    results = lrmc.solve_many(np.where(mask, Y, 1e6), 2, mask=mask)
    assert relative(results.completed(), X) < 1e-6


def test_precisions_shapes_and_kinds_may_differ():
    (Y,), (X,) = matrices(1)
    (wide,), (wide_X,) = matrices(1, 50, 90)
    batch = [
        Y,
        Y.astype(np.float32),
        wide,
        np.asfortranarray(Y),
        Y.tolist(),
        sp.csr_array(Y),
    ]
    results = lrmc.solve_many(batch, 2)
    found = results.completed()
    assert isinstance(found, list)
    assert [one.dtype for one in found[:2]] == [np.float64, np.float32]
    for got, want in zip(found, [X, X, wide_X, X, X, X], strict=True):
        assert relative(got, want) < 1e-5


def test_what_is_noisy_is_fitted_as_solve_does_it():
    Y, _ = matrices(3)
    noisy = Y[1] + 0.02 * np.std(Y) * np.random.default_rng(0).standard_normal(
        Y[1].shape
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = lrmc.solve_many([Y[0], noisy, Y[2]], 2)
        want = lrmc.solve(noisy, 2, threads=1)
    assert [result.regime for result in results] == ["exact", "noisy", "exact"]
    assert np.array_equal(results[1].L, want.L)
    assert results.warnings[1] == want.warnings


def test_doubts_are_said_once_and_kept_for_each():
    """Of rank 4, and 2 are asked for."""
    Y, _ = matrices(1)
    other, _ = matrices(2, rank=4)
    with pytest.warns(lrmc.DoubtWarning, match="2 of 3 matrices: ") as said:
        results = lrmc.solve_many([Y[0], *other], 2)
    assert sum(w.category is lrmc.DoubtWarning for w in said) == 1
    assert [bool(texts) for texts in results.warnings] == [False, True, True]


def test_runs_that_are_cut_short():
    Y, _ = matrices(2)
    with pytest.warns(lrmc.ConvergenceWarning, match="2 of 2 matrices"):
        results = lrmc.solve_many(Y, 2, max_iter=2)
    assert results.status == (lrmc.Status.MAX_ITER,) * 2
    assert not results.converged.any()
    assert "2 matrices, 0 converged" in repr(results)


def test_as_a_sequence():
    Y, _ = matrices(4)
    results = lrmc.solve_many(Y, 2)
    assert len(results) == 4
    assert results[1] is results[1]
    assert results[-1].shape == (70, 40)
    assert [r.rank for r in results[1:3]] == [2, 2]
    with pytest.raises(IndexError):
        results[4]


def test_no_matrices():
    results = lrmc.solve_many([])
    assert len(results) == 0
    assert results.completed() == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batch": np.ones((3, 4))}, "One matrix is for lrmc.solve"),
        ({"batch": 3}, "a list of matrices is wanted"),
        ({"mask": [True]}, "1 masks, and the batch 2 matrices"),
        ({"mask": np.ones((2, 40, 70))}, "matrix 0 of the batch: mask has shape"),
        ({"rank": 41}, "matrix 0 of the batch: rank=41 for a 70 x 40 matrix"),
        ({"tol": -1}, "tol"),
        ({"threads": 0}, "threads"),
        ({"max_iter": 0}, "max_iter"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_makes_no_sense(change, text):
    Y, _ = matrices(2)
    with pytest.raises(ValueError, match=text):
        lrmc.solve_many(**({"batch": Y, "rank": 2} | change))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_matrix_that_cannot_be_solved_is_named(value):
    Y, _ = matrices(3)
    Y[2] = value
    with pytest.raises(ValueError, match="matrix 2 of the batch"):
        lrmc.solve_many(Y, 2)

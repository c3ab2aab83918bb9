import numpy as np
import pytest
import scipy.sparse as sp

from lrmc import _kernels, solve
from lrmc.linalg import Factors
from lrmc.methods.few_samples import (
    TRIES,
    all_entries,
    few_sampled,
    gauss_newton,
    likely_rank,
    rank_to_look_for,
    wants_newton,
)
from lrmc.methods.rested import start
from lrmc.observations import as_observations


def sparse_problem(n, rank, oversampling, alpha, seed):
    """Rows and columns with at least two more good entries than the rank; outliers are
    as large as the entries.
    """
    rng = np.random.default_rng([seed, 5])
    L, R = (rng.standard_normal((n, rank)) for _ in range(2))
    mask = np.zeros((n, n), bool)
    for k in range(rank + 2):
        # 7 and n have no factor in common
        mask[np.arange(n), (np.arange(n) * 7 + k * 11) % n] = True
    good = mask.copy()
    others = rng.permutation(np.flatnonzero(~mask))
    mask.ravel()[
        others[: int(oversampling * rank * (2 * n - rank)) - int(mask.sum())]
    ] = True
    X = L @ R.T
    places = rng.permutation(np.flatnonzero(mask & ~good))[: int(alpha * mask.sum())]
    Y = X.copy()
    Y.ravel()[places] += np.abs(X).mean() * rng.uniform(-1, 1, len(places))
    rows, cols = np.nonzero(mask)
    return sp.csr_array((Y[rows, cols], (rows, cols)), shape=(n, n)), X


@pytest.mark.parametrize(
    ("oversampling", "alpha"), [(1.8, 0.0), (2.1, 0.05), (2.4, 0.1), (3.2, 0.3)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore:of .* too few entries agree:UserWarning")
def test_few_entries_are_enough(oversampling, alpha, dtype):
    Y, X = sparse_problem(200, 4, oversampling, alpha, seed=0)
    result = solve(Y.astype(dtype), rank=4)
    assert result.converged
    assert result.regime == "exact"
    rows, cols = (
        np.setdiff1d(np.arange(200), x)
        for x in (result.undetermined_rows, result.undetermined_cols)
    )
    assert len(rows) > 195
    assert len(cols) > 195
    miss = (result.L @ result.R.T - X)[np.ix_(rows, cols)]
    assert np.linalg.norm(miss) < (
        1e-5 if dtype == np.float64 else 1e-3
    ) * np.linalg.norm(X)


@pytest.mark.parametrize(("oversampling", "alpha"), [(2.2, 0.0), (2.8, 0.1)])
def test_the_rank_is_found_from_few_entries(oversampling, alpha):
    Y, X = sparse_problem(200, 4, oversampling, alpha, seed=3)
    obs = as_observations(Y)
    most = rank_to_look_for(obs)
    assert most > 4
    assert likely_rank(obs, start(obs, most, 0)[0]) == 4
    result = solve(Y)
    assert result.regime == "exact"
    assert result.rank == 4
    assert np.linalg.norm(result.L @ result.R.T - X) < 1e-5 * np.linalg.norm(X)


def test_noise_has_no_rank_that_stands_out():
    Y, _ = sparse_problem(100, 3, 3.0, 0.0, seed=1)
    Y.data[:] = np.random.default_rng(0).standard_normal(len(Y.data))
    obs = as_observations(Y)
    assert likely_rank(obs, start(obs, rank_to_look_for(obs), 0)[0]) is None


def test_noise_is_not_called_exact():
    Y, _ = sparse_problem(100, 3, 3.0, 0.0, seed=1)
    Y.data += 0.05 * np.random.default_rng(0).standard_normal(len(Y.data))
    result = solve(Y, rank=3)
    assert result.regime == "noisy"


def step_by_dense_algebra(Y, U, V, weights, ridge):
    """(J'WJ + ridge) d = J'W e - ridge (U, V) with J written out."""
    Y = Y.tocoo()
    (n1, r), n2 = U.shape, len(V)
    J = np.zeros((Y.nnz, (n1 + n2) * r))
    for k, (i, j) in enumerate(zip(*Y.coords, strict=True)):
        J[k, i * r : (i + 1) * r] = V[j]
        J[k, (n1 + j) * r : (n1 + j + 1) * r] = U[i]
    e = Y.data - np.einsum("ij,ij->i", U[Y.coords[0]], V[Y.coords[1]])
    X = np.concatenate([U.ravel(), V.ravel()])
    d = np.linalg.solve(
        J.T @ (weights[:, None] * J) + ridge * np.eye(J.shape[1]),
        J.T @ (weights * e) - ridge * X,
    )
    return e, d.reshape(-1, r)


@pytest.mark.parametrize("rank", [1, 3, 7])  # 7 is not unrolled
def test_a_step_is_that_of_dense_algebra(rank):
    rng = np.random.default_rng(rank)
    Y = sp.random_array((14, 11), density=0.8, rng=rng, format="csr")
    U, V = rng.standard_normal((14, rank)), rng.standard_normal((11, rank))
    weights = rng.random(Y.nnz)
    e, want = step_by_dense_algebra(Y, U, V, weights, 0.1)
    got = np.empty_like(want)
    data = {
        "indptr": Y.indptr.astype(np.int64),
        "indices": Y.indices.astype(np.int32),
        "errors": e,
        "weights": weights,
    }
    settings = {"U": U, "V": V, "step": got, "ridge": 0.1, "tol": 1e-12}
    passes = _kernels.newton(**data, **settings, most=1000)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
    assert 1 < passes < 1000
    assert _kernels.newton(**data, **settings, most=2) == 2


def test_the_kernel_refuses_what_would_crash():
    data = {"indptr": np.array([0, 1, 2]), "indices": np.array([0, 5], np.int32)}
    entries = {"errors": np.ones(2), "weights": np.ones(2)}
    factors = {"U": np.ones((2, 1)), "V": np.ones((3, 1)), "step": np.empty((5, 1))}
    with pytest.raises(ValueError, match="names no row"):
        _kernels.newton(**data, **entries, **factors, ridge=0.0, tol=0.1, most=5)


def test_steps_end_where_nothing_is_left_to_fit():
    Y, X = sparse_problem(80, 2, 4.0, 0.0, seed=2)
    obs = as_observations(Y)
    rng = np.random.default_rng(0)
    begin = Factors(*(rng.standard_normal((80, 2)) for _ in range(2)))
    assert wants_newton(obs, 2)
    assert not wants_newton(obs, 1)  # more than six entries for each free number
    steps = list(gauss_newton(obs, all_entries(obs, begin), begin, TRIES[0]))
    last = steps[-1]
    assert len(steps) < 60
    assert np.linalg.norm(last.L @ last.R.T - X) < 1e-6 * np.linalg.norm(X)


def test_steps_of_a_fit_that_interpolates_end_early():
    """A noisy table: the ridge has hardly faded when too few entries are near to prove anything."""
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((80, 2)), rng.standard_normal((6, 2))
    Y = L @ R.T + 0.5 * rng.standard_normal((80, 6))
    obs = as_observations(np.where(rng.random(Y.shape) < 0.2, np.nan, Y))
    steps = list(few_sampled(obs, start(obs, 2, 0)[0], 1e-9))
    assert 1 < len(steps) < 60  # 150 to the end

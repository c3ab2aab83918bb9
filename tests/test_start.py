"""Where the iterations start."""

import numpy as np
import pytest
import reference
from comparing import assert_close
from each import each
from presentations import every_storage, small

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.start import (
    STARTS,
    cur,
    leading,
    leading_and_sizes,
    leading_of_whole,
    spectral,
)
from lrmc.weights import Huber

every_start = each("start", list(STARTS.values()), ids=list(STARTS))


def product(X):
    return X.L.astype(float) @ X.R.astype(float).T


def away(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


@each("shape", [(60, 40), (40, 60), (8, 300), (300, 8), (5, 5)], ids=str)
@each("rank", [1, 3, 5])
def test_spectral_is_exact_where_the_data_have_the_rank(shape, rank):
    X = product(
        lrmc.synthetic.problem(
            *shape[:1], n2=shape[1], rank=rank, alpha=0, p=1.0
        ).X_factors
    )
    start = spectral(lrmc.as_observations(X), rank, 1e9, 1.5)
    assert_close(product(start), 1.5 * X, factor=100)
    assert_close(start.L.T @ start.L, start.R.T @ start.R, factor=100)  # balanced
    assert_close(
        np.sort(np.diag(start.L.T @ start.L)),
        np.sort(np.linalg.svd(1.5 * X)[1][:rank]),
        factor=100,
    )


@pytest.mark.parametrize(("p", "near"), [(1.0, 0.002), (0.5, 0.05), (0.3, 0.15)])
def test_spectral_is_near_the_full_svd(p, near):
    """One power iteration: much nearer to the exact start than that is to the truth."""
    problem = lrmc.synthetic.problem(
        n=400, n2=300, rank=4, alpha=0.1, p=p, form="dense"
    )
    zeta = 3 * np.abs(problem.X).mean()
    L, R = reference.spectral(np.nan_to_num(problem.Y), problem.mask, 4, zeta, 1 / p)
    start = spectral(lrmc.as_observations(problem.Y), 4, zeta, 1 / p)
    assert away(product(start), L @ R.T) < near
    assert lrmc.relative_error(start, problem) < 1.1 * reference.relative_error(
        L, R, problem.X
    )


def test_spectral_clips():
    """One enormous outlier is worth no more than zeta."""
    X = product(lrmc.synthetic.problem(n=100, rank=2, alpha=0, p=1.0).X_factors)
    Y = X.copy()
    Y[3, 5] = 1e12
    zeta = np.abs(X).max()
    assert away(product(spectral(lrmc.as_observations(Y), 2, zeta, 1.0)), X) < 0.05
    # and it is the clip that does it
    assert away(product(spectral(lrmc.as_observations(Y), 2, 1e15, 1.0)), X) > 1e3


@every_start
@every_storage
def test_every_storage_gives_the_same_start(present, p, start, folder):
    s = small(n1=30, n2=41, p=p)
    obs = lrmc.as_observations(*present(s, folder))
    plain = start(lrmc.as_observations(s.nan), 3, 60.0, 1 / obs.fraction, seed=4)
    assert_close(
        product(start(obs, 3, 60.0, 1 / obs.fraction, seed=4)),
        product(plain),
        obs.dtype,
        factor=100,
    )


@every_start
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shapes_and_types(start, dtype):
    Y = np.random.default_rng(0).standard_normal((30, 20)).astype(dtype)
    for rank in (1, 7, 20):
        X = start(lrmc.as_observations(Y), rank, 2.0, 1.0)
        assert (X.L.shape, X.R.shape) == ((30, rank), (20, rank))
        assert X.L.dtype == X.R.dtype == dtype
        assert np.isfinite(X.L).all()
        assert np.isfinite(X.R).all()


@every_start
def test_a_rank_above_that_of_the_data_is_filled_with_nothing(start):
    X = np.outer(np.arange(1.0, 31), np.arange(1.0, 21))
    got = start(lrmc.as_observations(X), 4, 1e9, 1.0)
    assert got.L.shape == (30, 4)
    assert_close(product(got), X, factor=1e4)


@every_start
def test_of_nothing_but_zeros(start):
    got = start(lrmc.as_observations(np.zeros((30, 20))), 4, 1.0, 1.0)
    assert got.L.shape == (30, 4)
    assert not product(got).any()


@every_start
def test_seeds(start):
    obs = lrmc.as_observations(
        lrmc.synthetic.problem(n=200, rank=3, alpha=0.1, p=0.5).Y
    )
    one, again, other = (start(obs, 3, 1.0, 2.0, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.L, again.L)
    assert not np.array_equal(one.L, other.L)


@pytest.mark.parametrize("p", [1.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_lrmc_converges_from_cur(p, seed):
    problem = lrmc.synthetic.problem(n=300, n2=250, rank=3, alpha=0.1, p=p, seed=seed)
    result = lrmc.solve(problem.Y, rank=3, start="cur", seed=seed, tol=1e-7)
    assert result.converged
    assert lrmc.relative_error(result, problem) < 1e-6


def test_cur_is_exact_where_the_data_have_the_rank():
    X = product(lrmc.synthetic.problem(n=400, n2=350, rank=3, alpha=0, p=1.0).X_factors)
    assert_close(product(cur(lrmc.as_observations(X), 3, 1e9, 1.0)), X, factor=1e4)


def test_cur_reads_only_some_rows_and_columns():
    """What it does not read may be anything."""
    n, rank = 3000, 2
    X = product(
        lrmc.synthetic.problem(n=n, n2=400, rank=rank, alpha=0, p=1.0).X_factors
    )
    obs = lrmc.as_observations(X)
    asked = []
    spy = type(
        "Spy",
        (),
        {
            "shape": obs.shape,
            "dtype": obs.dtype,
            "block": lambda self, *part: asked.append(part) or obs.block(*part),
        },
    )
    cur(spy(), rank, 1e9, 1.0)
    read = sum(obs.block(*part).size for part in asked)
    assert 0 < read < X.size / 2


def test_a_start_without_its_last_pass_is_nearly_as_good():
    problem = lrmc.synthetic.problem(
        n=500, n2=400, rank=4, alpha=0.1, p=1.0, form="dense"
    )
    obs = lrmc.as_observations(problem.Y)
    zeta = 3 * np.abs(problem.X).mean()
    whole, rough = (
        lrmc.relative_error(leading(obs, 4, zeta, 1.0, one_sided=one), problem)
        for one in (False, True)
    )
    assert whole < rough < 1.2 * whole


@pytest.mark.parametrize("reject", [False, True])
def test_sizes_on_the_way(reject):
    problem = lrmc.synthetic.problem(
        n=90, n2=70, rank=2, alpha=0.1, p=0.5, form="dense"
    )
    obs, zeta = lrmc.as_observations(problem.Y), 1.5 * np.abs(problem.X).mean()
    X, sizes = leading_and_sizes(obs, 2, zeta, 2.0, model=None, reject=reject)
    same = leading(obs, 2, zeta, 2.0, reject=reject)
    assert_close(product(X), product(same), factor=100)
    Y = np.where(problem.mask, problem.Y, 0.0)
    inside = np.abs(Y) <= zeta
    C = np.where(inside, Y, 0.0 if reject else zeta * np.sign(Y))
    met = inside & problem.mask
    assert_close(sizes.rows, (C**2).sum(1))
    assert_close(sizes.cols, (C**2).sum(0))
    assert np.array_equal(sizes.row_inliers, met.sum(1))
    assert np.array_equal(sizes.col_inliers, met.sum(0))


@pytest.mark.parametrize("rank", [1, 3, 9])
def test_the_leading_part_of_a_narrow_table_is_that_of_its_clipped_residual(rank):
    rng = np.random.default_rng(rank)
    Y = rng.standard_normal((50, 8))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    model = Factors(rng.standard_normal((50, 2)), rng.standard_normal((8, 2)))
    rule = Huber(np.full(50, 1.2), np.ones(8))
    got = leading_of_whole(lrmc.as_observations(Y), rank, rule, 2.0, model)
    E = 2 * np.nan_to_num(np.clip(Y - product(model), -1.2, 1.2))
    U, s, Vt = np.linalg.svd(E, full_matrices=False)
    assert_close(product(got), (U[:, :rank] * s[:rank]) @ Vt[:rank], factor=100)
    assert_close(got.L.T @ got.L, got.R.T @ got.R, factor=100)
    assert got.L.shape[1] == got.R.shape[1] == rank

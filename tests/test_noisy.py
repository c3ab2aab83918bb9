"""Noisy data: how near to the best that could be done, and the parts that get there."""

from functools import cache

import numpy as np
import pytest
import reference
from comparing import assert_close
from each import each
from problems import made

import lrmc
from lrmc import as_observations
from lrmc.linalg import Factors, gauge
from lrmc.methods.noisy import Noise, sweeps, two_groups

LOSSES = ("mixture", "cauchy", "huber")
BARS = {0.1: 1.15, 0.3: 1.2, 0.5: 1.5}
slow = pytest.mark.slow
every_loss = pytest.mark.parametrize("loss", LOSSES)


@cache
def noisy(n=500, p=0.5, alpha=0.1, noise=0.05, size=1.0, seed=0):
    return lrmc.synthetic.problem(
        n=n,
        rank=5,
        alpha=alpha,
        p=p,
        noise=noise,
        outlier_scale=size,
        form="dense",
        seed=seed,
    )


@cache
def best(**setting):
    """The error of least squares on the true inliers, which nobody knows."""
    given = noisy(**setting)
    return reference.relative_error(
        *reference.least_squares(
            given.Y, given.mask & (given.outliers == 0), *given.X_factors
        ),
        given.X,
    )


@pytest.mark.parametrize(
    ("alpha", "bar"),
    [
        pytest.param(*pair, marks=slow if pair[0] == 0.5 else [])
        for pair in BARS.items()
    ],
)
@pytest.mark.parametrize(
    ("n", "p", "size", "noise"),
    [
        (500, 0.5, 1, 0.1),
        (500, 0.5, 10, 0.05),
        pytest.param(800, 0.3, 1, 0.1, marks=slow),
    ],
)
def test_error_against_least_squares_on_the_true_inliers(n, p, size, noise, alpha, bar):
    setting = {"n": n, "p": p, "alpha": alpha, "noise": noise, "size": size}
    given = noisy(**setting)
    for rank in (5, None) if size == 1 else (None,):
        result = lrmc.solve(given.Y, rank)
        assert result.converged
        assert result.regime == "noisy"
        assert result.rank == 5
        assert lrmc.relative_error(result, given) < bar * best(**setting)


@pytest.mark.parametrize("shape", [(3000, 100), (100, 3000)], ids=str)
def test_long_and_narrow(shape):
    given = made(shape, 3, p=0.5, noise=0.05)
    truth, mean = given.L @ given.R.T, given.typical
    oracle = reference.least_squares(
        given.Y, np.abs(given.Y - truth) < 5 * 0.05 * mean, given.L, given.R
    )
    result = lrmc.solve(given.Y, 3)
    assert lrmc.relative_error(
        result, (given.L, given.R)
    ) < 1.2 * reference.relative_error(*oracle, truth)


@every_loss
@pytest.mark.parametrize("rank", [5, None])
def test_each_loss(loss, rank):
    given = noisy()
    result = lrmc.solve(given.Y, rank, loss=loss)
    assert result.converged
    assert result.regime == "noisy"
    assert result.evidence["loss"] == loss
    assert lrmc.relative_error(result, given) < 1.3 * best()


@every_loss
def test_a_loss_does_no_harm_to_exact_data(loss):
    given = lrmc.synthetic.problem(n=300, rank=3, p=0.5)
    result = lrmc.solve(given.Y, 3, loss=loss)
    assert result.regime == "exact"
    assert lrmc.relative_error(result, given) < 1e-6


# ---- sweeps


def swept(given, noise, most=6, **how):
    """Factors before and after each sweep, from a start that is 20 % wrong."""
    obs, rng = as_observations(given.Y), np.random.default_rng(1)
    wrong = (F * (1 + 0.2 * rng.standard_normal(F.shape)) for F in given.X_factors)
    X = Factors(*(np.ascontiguousarray(F, obs.dtype) for F in wrong))
    return [
        X,
        *(Factors(step.L, step.R) for step in sweeps(obs, X, noise(obs), most, **how)),
    ]


@every_loss
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sweeps_lower_the_robust_loss(loss, dtype):
    given = lrmc.synthetic.problem(
        n=200, rank=3, alpha=0.1, p=0.5, noise=0.05, form="dense", dtype=dtype
    )
    z, one = 0.05 * np.abs(given.X).mean(), (np.ones(1), np.ones(1))
    rule = {
        "mixture": reference.mixture(z * one[0], one[1], 0.01),
        "cauchy": reference.cauchy(2 * z * one[0], one[1]),
        "huber": reference.huber(2 * z * one[0], one[1]),
    }[loss]
    path = swept(given, lambda obs: Noise.even(obs, loss))
    E = [(given.Y - X.L @ X.R.T)[given.mask] for X in path]
    losses = np.array([reference.robust_loss(e, rule) for e in E])
    assert losses[1] < losses[0] / 2
    assert np.all(np.diff(losses) < 2e-3 * losses[:-1])
    assert path[-1].L.dtype == dtype


def test_sweeps_of_plain_least_squares():
    """No outliers, and so little noise that the prior fades: what the reference makes of
    it, step by step.
    """
    given = lrmc.synthetic.problem(
        n=60, n2=50, rank=2, alpha=0, p=0.8, noise=1e-4, form="dense"
    )
    path = swept(given, lambda obs: Noise.even(obs, "squares"), most=30, settled=0.0)
    want = reference.least_squares(given.Y, given.mask, *given.X_factors)
    truth = given.X
    error, oracle = (reference.relative_error(*X, truth) for X in (path[-1], want))
    assert error < 1.1 * oracle


@every_loss
def test_rows_without_observations_are_filled_by_the_prior(loss):
    given = noisy(n=200, p=0.7)
    Y = given.Y.copy()
    Y[[3, 77]], Y[:, 11] = np.nan, np.nan
    with pytest.warns(
        UserWarning, match=r"2 row\(s\) and 1 column\(s\) have no observation"
    ):
        result = lrmc.solve(Y, 5, loss=loss)
    assert result.regime == "noisy"
    for F, empty in ((result.L, [3, 77]), (result.R, [11])):
        assert np.isfinite(F).all()
        others = np.delete(F, empty, axis=0)
        # the mean row
        assert np.abs(F[empty] - others.mean(0)).max() < 0.1 * others.std()
    X = result.low_rank()
    assert np.isnan(X[[3, 77]]).all()
    assert np.isnan(X[:, 11]).all()
    assert np.isnan(X).sum() == 2 * 200 + 198


def test_rows_with_few_observations_lean_on_the_others():
    """Fewer entries than the rank: the prior keeps them finite, and better than a row of zeros."""
    rng = np.random.default_rng(0)
    L, R = 1 + 0.3 * rng.standard_normal((300, 3)), rng.standard_normal((200, 3))
    X = L @ R.T
    Y = np.where(
        rng.random(X.shape) < 0.5, X + 0.1 * rng.standard_normal(X.shape), np.nan
    )
    Y[:20, 2:] = np.nan
    Y[:20, :2] = X[:20, :2]
    result = lrmc.solve(Y, 3)
    error = np.linalg.norm(result.L[:20] @ result.R.T - X[:20]) / np.linalg.norm(X[:20])
    assert error < 0.5


def test_noise_of_rows_and_columns():
    """Known to be uneven, it is better weighed than taken for even."""
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((200, 3)), rng.standard_normal((150, 3))
    scales = np.where(np.arange(200) % 2, 1.0, 20.0)
    Y = L @ R.T + 0.05 * scales[:, None] * rng.standard_normal((200, 150))
    obs, start = as_observations(Y), Factors(L.copy(), R.copy())
    even = Noise.even(obs, "huber")
    known = Noise(scales, np.ones(150), "huber")
    errors = []
    for noise in (even, known):
        *_, last = sweeps(obs, start, noise, 6)
        errors.append(
            np.linalg.norm(last.R @ np.linalg.lstsq(last.R, R, rcond=None)[0] - R)
        )
    assert errors[1] < errors[0]


# ---- the two groups


@each("deviation", [1e-12, 1.0, 3e8])
@each("widest", [10, 100, 1000])
@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 1.0])
def test_two_groups(share, widest, deviation):
    rng = np.random.default_rng(0)
    size = np.abs(rng.standard_normal(20_000))
    outlier = rng.random(20_000) >= share
    size[outlier] = widest * rng.random(outlier.sum())
    got, odds, noise = two_groups(
        deviation * size, deviation * float(np.quantile(size, 0.3))
    )
    # 12 % too large where half is uniform within 10 standard deviations
    near = 0.03 if widest >= 100 else 0.15
    assert got / deviation == pytest.approx(1, rel=near)
    assert noise == pytest.approx(share, abs=0.03)
    assert odds >= 0


def test_two_groups_of_exact_data():
    """Nothing is left of the good entries: all weights stay finite."""
    deviation, odds, share = two_groups(np.where(np.arange(100) < 60, 0.0, 5.0), 0.0)
    assert deviation > 0
    assert np.isfinite([deviation, odds, share]).all()


def test_weights_follow_the_residuals():
    """Twice the data, twice the thresholds."""
    given = noisy(n=200, p=0.7)
    obs, X = as_observations(given.Y), Factors(*given.X_factors)
    twice = Factors(X.L * 2, X.R)
    for loss in LOSSES:
        noise = Noise.even(obs, loss)
        one, two = (
            noise.weight(obs.draw(), X),
            noise.weight(obs.scaled(2.0).draw(), twice),
        )
        assert_close(two.rows, 2 * one.rows)
        assert_close(two.cols, one.cols)


def test_residuals_that_are_all_outliers_have_odds():
    """No share of noise is left: the odds are large, and finite."""
    deviation, odds, share = two_groups(np.ones(100), 1e-3, fixed=True)
    assert deviation == pytest.approx(1e-3 / 0.385)
    assert 1 < odds < np.inf
    assert 0 < share < 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_stay_in_balance(dtype):
    """In a bad gauge columns of a factor become parallel and huge, until float32 cannot tell them
    apart.

    Columns around 0 whose spreads differ, a fifth hidden, as a table of speeds with some zeros is
    scaled."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 8)) @ (
        rng.standard_normal((8, 30)) * 0.6 ** np.arange(8)[:, None]
    )
    Y = X + 0.2 * rng.standard_t(2, X.shape)
    hidden = rng.random(X.shape) < 0.2
    result = lrmc.solve(np.where(hidden, np.nan, Y).astype(dtype))
    sizes = [np.linalg.norm(F, axis=0) for F in (result.L, result.R)]
    assert max(np.concatenate(sizes)) < 1e3 * min(np.concatenate(sizes))
    assert np.sqrt(np.mean((result.low_rank() - X)[hidden] ** 2)) < 0.5 * X.std()


def test_gauge():
    """The same product, in factors whose columns are orthogonal and balanced."""
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((50, 3)), rng.standard_normal((40, 3))
    T = np.diag([1e-2, 1.0, 1e2]) @ (
        np.ones((3, 3)) + 0.3 * rng.standard_normal((3, 3))
    )
    X = Factors(L @ T, R @ np.linalg.inv(T).T)
    A, B = gauge(X)
    Z = Factors(X.L @ A, X.R @ B)
    np.testing.assert_allclose(Z.L @ Z.R.T, L @ R.T, atol=1e-7)
    for F in Z:
        G = F.T @ F
        np.testing.assert_allclose(G, np.diag(np.diag(G)), atol=1e-4 * G.max())
    assert gauge(Factors(L, R)) is None


@pytest.mark.parametrize(
    ("shape", "rank"), [pytest.param((300, 200), 12, marks=slow), ((400, 80), 4)]
)
def test_gaussian_residuals_do_not_decide_the_rank(shape, rank):
    """Components below the noise look like noise: entries set aside tell them."""
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((shape[0], rank))
        @ rng.standard_normal((rank, shape[1]))
        / np.sqrt(rank)
    )
    Y = X + 0.4 * rng.standard_normal(X.shape)
    result = lrmc.solve(np.where(rng.random(X.shape) < 0.6, np.nan, Y))
    # components that a prior has nearly taken away count too
    assert rank - 2 <= result.rank <= rank + 4
    assert np.linalg.norm(result.low_rank() - X) < 0.35 * np.linalg.norm(X)

"""What other columns say of an entry: against the textbook, row by row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from opinions import asked

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.normal import (
    ROUNDS,
    TINY,
    TO_SETTLE,
    Normal,
    normal_of,
    told_by_others,
)
from lrmc.methods.regression import PLAIN, SETTLED, plain_regression, regression


def told(row, j, mean, cov):
    """The mean of an entry given the other entries of its row that were seen."""
    others = [k for k in range(len(row)) if k != j and not np.isnan(row[k])]
    if not others:
        return mean[j]
    weights = np.linalg.lstsq(cov[np.ix_(others, others)], cov[others, j], rcond=None)
    return mean[j] + weights[0] @ (row[others] - mean[others])


def draws(n, across=5, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((across, across))
    mean = rng.uniform(-3, 3, across)
    Y = mean + rng.standard_normal((n, across)) @ root.T
    return Y, Normal(mean, root @ root.T), rng


def test_every_entry_is_what_the_others_of_its_row_say():
    Y, normal, rng = draws(40)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[3] = np.nan
    want = [[told(row, j, *normal) for j in range(5)] for row in Y]
    assert_allclose(told_by_others(Y, normal), want, rtol=1e-8, atol=1e-8)


def test_mean_and_covariance_are_found_through_gaps():
    Y, normal, rng = draws(4000)
    gaps = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    found = normal_of(gaps, np.broadcast_to(np.nanmean(gaps, 0), Y.shape), alone=5)
    assert_allclose(found.mean, normal.mean, atol=0.15)
    assert np.linalg.norm(found.cov - normal.cov) < 0.08 * np.linalg.norm(normal.cov)


@pytest.mark.parametrize("alone", [5, 0])
def test_a_distribution_is_that_of_expectation_and_maximisation(alone):
    """Round by round, as the textbook has it, with some rows more."""
    Y, _, rng = draws(50, seed=3)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    Z, left = np.where(np.isnan(Y), 0.5, Y), np.zeros((5, 5))
    for k in range(ROUNDS + 1):
        mean, off = Z.mean(0), Z - Z.mean(0)
        cov = (off.T @ off + left + np.diag(alone * (off**2).mean(0))) / (50 + alone)
        cov += TINY * cov.max() * np.eye(5)
        if k < ROUNDS:
            Z, left = Y.copy(), np.zeros((5, 5))
            for z in Z:
                gaps, seen = np.isnan(z), ~np.isnan(z)
                by = np.linalg.solve(cov[np.ix_(seen, seen)], cov[np.ix_(seen, gaps)])
                z[gaps] = mean[gaps] + by.T @ (z[seen] - mean[seen])
                left[np.ix_(gaps, gaps)] += (
                    cov[np.ix_(gaps, gaps)] - by.T @ cov[np.ix_(seen, gaps)]
                )
    found = normal_of(Y, np.full(Y.shape, 0.5), alone)
    assert_allclose(found.mean, mean, rtol=1e-7)
    assert_allclose(found.cov, cov, rtol=1e-7, atol=1e-9)


def test_relations_that_hold_nearly_exactly_are_found_after_more_rounds():
    """Where the ends of rows are missing, and the first guess is poor."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, (150, 4)) @ rng.standard_normal((4, 8))
    X *= 1 + 0.02 * rng.standard_t(3, X.shape)
    ends = rng.integers(0, 4, 150) * (rng.random(150) < 0.6)
    hidden = np.arange(8) >= 8 - ends[:, None]
    Y = np.where(hidden, np.nan, X)
    begin = np.broadcast_to(np.nanmedian(Y, 0), X.shape)
    first, last = (
        np.abs(told_by_others(Y, normal_of(Y, begin, 0, rounds)) - X)[hidden].mean()
        for rounds in (ROUNDS, TO_SETTLE)
    )
    assert last < 0.6 * first


def test_several_sums_that_hold_exactly_are_not_left_to_rounding():
    """The covariance is singular, and nearly so beside what columns are given."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((120, 9))
    X[:, 6] = X[:, 0] + X[:, 1]
    X[:, 7] = X[:, 8] = X[:, 6] - X[:, 2]
    Y = np.where(rng.random(X.shape) < 0.25, np.nan, X)
    begin = np.broadcast_to(np.nanmean(Y, 0), X.shape)
    said = told_by_others(Y, normal_of(Y, begin, 0, TO_SETTLE))
    assert np.abs(said - X)[np.isnan(Y)].max() < 5


@pytest.mark.parametrize("alone", [5, 0])
def test_columns_that_do_not_vary_do_no_harm(alone):
    Y, _, rng = draws(60)
    Y[:, 2] = 7.0
    Y[rng.random(Y.shape) < 0.2] = np.nan
    begin = np.broadcast_to(np.nanmean(Y, 0), Y.shape)
    said = told_by_others(Y, normal_of(Y, begin, alone))
    assert np.isfinite(said).all()
    assert_allclose(said[:, 2], 7.0, atol=1e-3)


@pytest.mark.parametrize("transposed", [False, True])
def test_it_is_the_same_of_the_transposed_table(transposed):
    Y, _, rng = draws(60)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    X = Factors(np.ones((60, 1)), np.nanmean(Y, 0)[:, None])
    rows, cols = (x.ravel() for x in np.indices(Y.shape))
    plain = asked(regression, Y, X, 100.0).at(rows, cols)
    turned = asked(regression, Y.T.copy(), Factors(X.R, X.L), 100.0)
    assert_allclose(turned.at(cols, rows), plain, rtol=1e-6, atol=1e-6)
    assert turned.transposed
    assert_allclose(turned.for_new(Y.T[:3], X.R[:3] @ X.L.T), X.R[:3] @ X.L.T)


def test_new_rows_are_told_like_those_that_were_fitted():
    Y, _, rng = draws(200)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    X = Factors(np.ones((200, 1)), np.nanmean(Y, 0)[:, None])
    part = asked(regression, Y, X, 100.0, 0.5)
    fit = X.L @ X.R.T
    rows, cols = (x.ravel() for x in np.indices(Y.shape))
    known = fit + part.at(rows, cols).reshape(Y.shape)
    assert_allclose(part.for_new(Y, fit), known, rtol=1e-6, atol=1e-6)


def test_a_table_of_few_columns_is_told_by_regression():
    """Columns that are all correlated, each with much of its own: nothing of low rank."""
    X, _, rng = draws(500, 6, seed=6)
    X = X / X.std(0)
    hidden = rng.random(X.shape) < 0.2
    result = lrmc.solve(np.where(hidden, np.nan, X), time=None)
    names = {part.name for part in result.beyond}
    assert names & {"regression", PLAIN}
    assert names <= {"regression", PLAIN, SETTLED, "regression among neighbors"}
    off = np.mean((result.completed() - X)[hidden] ** 2)
    truth = Normal(X.mean(0), np.cov(X.T))
    best = told_by_others(np.where(hidden, np.nan, X), truth)
    assert off < 1.1 * np.mean((best - X)[hidden] ** 2)


def parts_of_a_whole(n=60, seed=0):
    """Three shares that add up to 100, and two columns that have little to do with them."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([4.0, 3.0, 2.0], n) * 100
    others = rng.standard_normal((n, 2)) * 10 + 0.2 * shares[:, :2]
    return np.hstack([shares, others]), rng


def test_relations_that_hold_exactly_are_found_in_few_rows():
    X, rng = parts_of_a_whole()
    Y = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    begin = Factors(np.ones((len(Y), 1)), np.nanmean(Y, 0)[:, None])
    alone = np.isnan(Y[:, :3]) & (np.isnan(Y[:, :3]).sum(1) == 1)[:, None]
    rows, cols = np.nonzero(alone)
    said = {}
    for rule in (regression, plain_regression):
        moved = asked(rule, Y, begin, 1e9).at(rows, cols)
        said[rule] = np.abs(begin.R[cols, 0] + moved - X[rows, cols]).max()
    # it is found round by round, beginning with means
    assert said[plain_regression] < 0.1 * X[:, :3].std()
    assert said[regression] > 4 * said[plain_regression]


def test_a_table_with_parts_of_a_whole_is_told_by_plain_regression():
    X, rng = parts_of_a_whole()
    result = lrmc.solve(np.where(rng.random(X.shape) < 0.2, np.nan, X), time=None)
    name, *_ = max(result.evidence["plan"]["blends"], key=lambda blend: blend[1])
    assert name == PLAIN


def test_a_row_where_the_fit_runs_away_does_not_spoil_what_others_say():
    rng = np.random.default_rng(4)
    L, R = rng.standard_normal((200, 3)), rng.standard_normal((6, 3))
    Y = L @ R.T + 0.1 * rng.standard_normal((200, 6))
    Y[rng.random(Y.shape) < 0.2] = np.nan
    far = L.copy()
    far[7] *= 1000
    rest = np.arange(200) != 7
    near, spoilt = (asked(regression, Y, Factors(X, R), 3.0).said for X in (L, far))
    assert_allclose(spoilt[rest], near[rest], atol=0.3)
    assert np.abs(spoilt[7]).max() < 2 * np.nanmax(np.abs(Y))

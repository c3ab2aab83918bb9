"""One small system per row."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from comparing import assert_close, assert_pull
from each import each
from presentations import every_storage, small
from rules import rules

from lrmc import as_observations
from lrmc.observations import OWN
from lrmc.row_systems import (
    RowStep,
    packed,
    packed_trace,
    pairs,
    regressor_slopes,
    regressors,
    solve_rows,
    solve_rows_and_spread,
    symmetric,
)

both_types = each("dtype", [np.float32, np.float64])
every_rank = each("rank", [1, 2, 3, 7, 16, 33])


def systems(rank, n=41, dtype=np.float64, seed=0):
    """Full and packed matrices, right-hand sides, and a ridge that is no multiple of the
    identity.
    """
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, rank + 3, rank))
    full = np.einsum("nka,nkb->nab", A, A).astype(dtype)
    a, b = np.triu_indices(rank)
    C = rng.standard_normal((rank, rank))
    return (
        full,
        np.ascontiguousarray(full[:, a, b]),
        rng.standard_normal((n, rank)).astype(dtype),
        0.1 * (C @ C.T),
    )


def solved(full, B, ridge):
    return np.linalg.solve(full.astype(float) + ridge, B.astype(float)[..., None])[
        ..., 0
    ]


@every_rank
def test_pairs_are_packed_products(rank):
    X = np.random.default_rng(0).standard_normal((9, rank))
    a, b = np.triu_indices(rank)
    np.testing.assert_array_equal(pairs(X), np.einsum("na,nb->nab", X, X)[:, a, b])
    assert_close(packed_trace(pairs(X), rank), (X**2).sum(1))


@every_rank
@both_types
@each("threads", [1, 3])
def test_solve_rows(rank, dtype, threads):
    full, H, B, ridge = systems(rank, dtype=dtype)
    got = solve_rows(H, B, ridge, np.ones(len(B), bool), threads)
    assert got.dtype == dtype
    assert_close(got, solved(full, B, ridge), dtype, factor=1e2)


@both_types
@each("threads", [1, 2, 50, 100])
def test_the_spread_is_the_sum_of_inverses(dtype, threads):
    full, H, B, ridge = systems(4, dtype=dtype)
    used = np.arange(len(B)) % 3 != 0
    got, spread = solve_rows_and_spread(H, B, ridge, used, threads)
    np.testing.assert_array_equal(got, solve_rows(H, B, ridge, used, threads))
    assert spread.dtype == np.float64
    assert_close(
        spread, np.linalg.inv(full.astype(float) + ridge)[used].sum(0), dtype, factor=10
    )


def test_rows_that_are_not_used():
    full, H, B, ridge = systems(3)
    used = np.arange(len(B)) % 2 == 0
    H[~used], B[~used] = np.nan, np.nan
    got = solve_rows(H, B, ridge, used)
    assert not got[~used].any()
    assert_close(got[used], solved(full[used], B[used], ridge), factor=1e2)
    none, spread = solve_rows_and_spread(H, B, ridge, np.zeros(len(B), bool))
    assert not none.any()
    assert not spread.any()


def test_singular_systems_are_finite():
    """A direction that a row says nothing about is left out: a solution where there is one."""
    H, B = (
        pairs(np.array([[1.0, 2, 0], [0, 0, 0], [0, 1, 0]])),
        np.array([[2.0, 4, 0], [1, 2, 3], [0, 5, 0]]),
    )
    got, spread = solve_rows_and_spread(H, B, np.zeros((3, 3)), np.ones(3, bool))
    assert np.isfinite(got).all()
    assert np.isfinite(spread).all()
    # x x' g = B with x = (1, 2, 0), B = 2 x
    assert got[0] @ [1, 2, 0] == pytest.approx(2)
    assert not got[1].any()
    np.testing.assert_allclose(got[2], [0, 5, 0])


def test_a_ridge_makes_them_regular():
    x = np.array([[1.0, 2, 0], [0, 0, 0]])
    B = np.array([[1.0, 2, 3], [4, 5, 6]])
    got = solve_rows(pairs(x), B, 0.5 * np.eye(3), np.ones(2, bool))
    assert_close(
        got, solved(np.einsum("na,nb->nab", x, x), B, 0.5 * np.eye(3)), factor=10
    )


def test_arrays_that_are_not_contiguous():
    full, H, B, ridge = systems(3)
    got = solve_rows(
        np.asfortranarray(H),
        np.asfortranarray(B),
        ridge.T,
        np.ones(2 * len(B), bool)[::2],
    )
    assert got.flags.c_contiguous
    assert_close(got, solved(full, B, ridge), factor=1e2)


@each("wrong", ["H", "B", "ridge", "used"])
def test_shapes_are_checked(wrong):
    _, H, B, ridge = systems(3)
    given = {"H": H, "B": B, "ridge": ridge, "used": np.ones(len(B), bool)}
    given[wrong] = given[wrong][1:]
    with pytest.raises(ValueError, match="kernel: "):
        solve_rows(**given)


@every_storage
def test_gram_matrices_of_one_pass(present, p, folder):
    """Every storage and rule: the least-squares problem of each row, as the reference
    sets it up.
    """
    s, rng = small(p=p), np.random.default_rng(5)
    L, R = (rng.uniform(0.5, 3, (n, 3)) for n in s.values.shape)
    obs = as_observations(*present(s, folder))
    for _, rule in rules[2:]:
        weight, slow = rule(*s.values.shape, 11.3)
        want = reference.pull(s.values, s.mask, L, R, slow)
        both = obs.products(L, R, weight, P=OWN, Q=OWN, Pw=pairs(L), Qw=pairs(R))
        assert_pull(both, want, obs.dtype)
        assert_close(both.grams[0], want.W @ pairs(R), obs.dtype)
        assert_close(both.grams[1], want.W.T @ pairs(L), obs.dtype)
        rows = obs.products(L, R, weight, Q=OWN, Qw=pairs(R))
        cols = obs.products(L, R, weight, P=OWN, Pw=pairs(L))
        assert rows.grams[1] is None
        assert cols.grams[0] is None
        assert_close(rows.grams[0], both.grams[0], obs.dtype)
        assert_close(cols.grams[1], both.grams[1], obs.dtype)


# ---- a step for all rows of a factor, and its reverse


def row_step(rank, n=41, dtype=np.float64, seed=0):
    """Rows, some of which are not used, whose numbers are NaN then."""
    rng = np.random.default_rng(seed)
    _, H, pull, ridge = systems(rank, n, dtype, seed)
    weights = rng.uniform(1, 2, (n, 1)).astype(dtype)
    used = rng.random(n) < 0.8
    pull[~used] = np.nan
    C = rng.standard_normal((rank, rank))
    return RowStep(
        F=rng.standard_normal((n, rank)).astype(dtype),
        pull=pull,
        grams=np.hstack([H, weights]),
        used=used,
        precision=rng.uniform(0.5, 2, n),
        mean=rng.standard_normal(rank),
        ridge=ridge + 0.1 * np.eye(rank),
        coupling=0.1 * (C @ C.T),
        eta=1.3,
        threads=3,
    )


def naive_step(rows):
    """The same row by row, of complex numbers too."""
    rank = rows.F.shape[1]
    a, b = np.triu_indices(rank)
    after, steps = (np.zeros(rows.F.shape, rows.ridge.dtype) for _ in range(2))
    inverse = np.zeros(rows.ridge.shape, rows.ridge.dtype)
    for i in range(len(rows.F)):
        if not rows.used[i]:
            after[i] = rows.mean
            continue
        f, g = rows.F[i], rows.precision[i] * rows.grams[i]
        H = np.zeros_like(inverse)
        H[a, b] = H[b, a] = g[:-1]
        H = H + rows.ridge
        pulled = rows.precision[i] * rows.pull[i] - g[-1] * (rows.coupling @ f)
        steps[i] = np.linalg.solve(H, pulled - rows.ridge @ (f - rows.mean))
        after[i] = f + rows.eta * steps[i]
        inverse += np.linalg.inv(H)
    return after, steps, inverse


@every_rank
@both_types
def test_steps_of_rows(rank, dtype):
    rows = row_step(rank, dtype=dtype)
    for got, want in zip(rows.taken(), naive_step(rows), strict=True):
        assert_close(got, want, dtype, factor=1e2)


def test_covariances_of_many_rows_are_told_by_some():
    """All rows take their steps, with one thread or more; inverses of some stand for all of them."""
    rows = row_step(3, n=20_000)
    after, step, inverse = rows.taken()
    some = slice(4000, 4200)
    fields = {
        x: y[some] if x in ("F", "pull", "grams", "used", "precision") else y
        for x, y in vars(rows).items()
    }
    want = naive_step(RowStep(**fields))
    assert_close(after[some], want[0], factor=1e2)
    assert_close(step[some], want[1], factor=1e2)
    a, b = np.triu_indices(3)
    H = np.zeros((20_000, 3, 3))
    H[:, a, b] = H[:, b, a] = rows.precision[:, None] * rows.grams[:, :-1]
    exact = np.linalg.inv(H + rows.ridge)[rows.used].sum(0)
    assert 0 < np.abs(inverse - exact).max() < 0.03 * np.abs(exact).max()
    assert_close(replace(rows, threads=1).taken()[2], inverse, factor=100)


@every_rank
@each("spreads", [True, False])
def test_slopes_of_steps_are_derivatives(rank, spreads):
    """By a complex step: nothing is subtracted, so nothing cancels."""
    rows = row_step(rank)
    rng = np.random.default_rng(1)
    of_after = rng.standard_normal(rows.F.shape)
    of_inverse = float(spreads) * symmetric(rng.standard_normal((rank, rank)))
    got = rows.slopes(rows.taken()[1], of_after, of_inverse)
    assert not got.F[~rows.used].any()
    for name in got._fields:
        towards = rng.standard_normal(getattr(rows, name).shape)
        if name in ("ridge", "coupling"):
            towards = symmetric(towards)
        turned = {
            field: X + 0j if field != name else X + 1e-30j * towards
            for field, X in vars(rows).items()
            if isinstance(X, np.ndarray) and field not in ("used", "precision")
        }
        after, _, inverse = naive_step(replace(rows, **turned))
        want = ((of_after * after).sum() + (of_inverse * inverse).sum()).imag / 1e-30
        if name == "mean":  # rows that are not used become the mean
            want -= (of_after[~rows.used] @ towards).sum()
        slope, towards = (
            np.nan_to_num(X[rows.used] if len(X) == len(rows.F) else X)
            for X in (getattr(got, name), towards)
        )
        terms = np.abs(slope * towards).sum()
        assert np.sum(slope * towards) == pytest.approx(want, abs=1e-9 * terms + 1e-12)


@every_rank
@both_types
def test_slopes_in_single_precision(rank, dtype):
    rows = row_step(rank, dtype=dtype)
    exact = replace(
        rows,
        **{
            name: getattr(rows, name).astype(np.float64)
            for name in ("F", "pull", "grams")
        },
    )
    of_after = np.random.default_rng(1).standard_normal(rows.F.shape)
    given = (exact.taken()[1], of_after, np.eye(rank))
    got, want = rows.slopes(*given), exact.slopes(*given)
    for name in got._fields:
        assert_close(getattr(got, name), getattr(want, name), dtype, factor=1e2)


@every_rank
@both_types
@each("threads", [1, 3])
def test_regressors_and_their_slopes(rank, dtype, threads):
    rng = np.random.default_rng(0)
    F = rng.standard_normal((19, rank)).astype(dtype)
    precision = rng.uniform(0.5, 2, 19)
    coupling = symmetric(rng.standard_normal((rank, rank)))

    def naive(F, coupling):
        squares = np.hstack([pairs(F) + packed(coupling), np.ones_like(F[:, :1])])
        return F * precision[:, None], squares * precision[:, None]

    plain, squares = regressors(F, coupling, precision, threads)
    assert plain.dtype == squares.dtype == dtype
    for got, want in zip((plain, squares), naive(F, coupling), strict=True):
        assert_close(got, want, dtype)
    pull, grams = (rng.standard_normal(X.shape) for X in (plain, squares))
    of_F, of_coupling = regressor_slopes(F, precision, pull, grams, threads)
    dF, towards = rng.standard_normal(F.shape), symmetric(coupling[::-1])
    for got, moved in (
        (np.vdot(of_F, dF), naive(F + 1e-30j * dF, coupling)),
        (np.vdot(of_coupling, towards), naive(F, coupling + 1e-30j * towards)),
    ):
        want = (
            sum((g * x.imag).sum() for g, x in zip((pull, grams), moved, strict=True))
            / 1e-30
        )
        assert_close(got, want, dtype, factor=10)

"""as_observations: the same matrix, however it is handed over."""

from functools import cache

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from comparing import assert_close, assert_pull
from each import each
from presentations import every_input, every_storage, small, sparse
from rules import rules

from lrmc import as_observations
from lrmc.observations import OWN, Observations, Transposed
from lrmc.observations.base import Regression
from lrmc.observations.rows_from_disk import RowBlocks
from lrmc.weights import Cauchy

da = pytest.importorskip("dask.array")

# compressed, in between, sparse becomes dense, nothing missing
FRACTIONS = (0.08, 0.35, 0.7, 1.0)
every_fraction = each("p", FRACTIONS)
ZETA = 11.3


@cache
def case(p, rank=3):
    s, rng = small(p=p), np.random.default_rng(5)
    return s, *(rng.uniform(0.5, 3, (n, rank)) for n in s.values.shape)


@cache
def wanted(p, rule):
    s, L, R = case(p)
    return reference.pull(
        s.values, s.mask, L, R, dict(rules)[rule](*s.values.shape, ZETA)[1]
    )


@every_input
def test_every_input_is_the_same_matrix(present, folder):
    """Everything that can be handed over, crossed with all that can be missing."""
    for p in FRACTIONS:
        s, L, R = case(p)
        obs = as_observations(*present(s, folder))
        assert obs.shape == s.values.shape
        assert obs.n_observed == s.mask.sum()
        assert obs.fraction == pytest.approx(s.mask.mean())
        np.testing.assert_array_equal(obs.row_observed, s.mask.sum(1))
        np.testing.assert_array_equal(obs.col_observed, s.mask.sum(0))
        assert_pull(obs.pull(L, R, ZETA), wanted(p, "a number"), obs.dtype)


@every_storage
def test_pull_of_every_rule(present, p, folder):
    s, L, R = case(p)
    obs = as_observations(*present(s, folder))
    for name, rule in rules:
        assert_pull(
            obs.pull(L, R, rule(*s.values.shape, ZETA)[0]), wanted(p, name), obs.dtype
        )


@every_storage
def test_lookup_and_block(present, p, folder):
    s, _, _ = case(p)
    obs = as_observations(*present(s, folder))
    rows, cols = (i.ravel() for i in np.indices(s.values.shape))
    # whole numbers: exact in every type
    np.testing.assert_array_equal(obs.lookup(rows, cols), s.nan.ravel())
    filled = np.where(s.mask, s.values, 0)
    some_rows, some_cols = np.array([0, 3, 22]), np.array([1, 2, 30, 36])
    np.testing.assert_array_equal(
        obs.block(some_rows, some_cols), filled[np.ix_(some_rows, some_cols)]
    )
    np.testing.assert_array_equal(
        obs.block(slice(None), some_cols), filled[:, some_cols]
    )
    np.testing.assert_array_equal(obs.block(some_rows, slice(None)), filled[some_rows])


@every_storage
def test_draw_gives_the_same_entries_whatever_the_storage(present, p, folder):
    """Where few entries are observed they are drawn from those stored: the same ones for
    storage by the same axis.
    """
    s, _, _ = case(p)
    obs, by_rows, by_columns = (
        as_observations(*x)
        for x in (present(s, folder), (s.nan,), (np.asfortranarray(s.nan),))
    )
    sample = obs.draw(500, seed=3)
    np.testing.assert_array_equal(sample.values, s.nan[sample.rows, sample.cols])
    same = by_columns if p < 0.2 and isinstance(obs, Transposed) else by_rows
    for a, b in zip(sample, same.draw(500, seed=3), strict=True):
        np.testing.assert_array_equal(a, b)


@every_fraction
def test_draw_is_a_fair_sample(p):
    s, _, _ = case(p)
    size = 20_000 if p >= 0.2 else 50
    rows, cols, values = as_observations(s.nan).draw(size)
    assert len(values) == pytest.approx(size, rel=0.05)
    times = np.zeros(s.values.shape)
    np.add.at(times, (rows, cols), 1)
    expected = size / s.mask.sum()
    assert np.all(times[~s.mask] == 0)
    assert np.abs(times[s.mask] - expected).max() < 6 * np.sqrt(expected)


@each("p", [0.08, 0.7])  # compressed, dense
@every_input
def test_outliers_are_in_the_form_of_the_input(present, p, folder):
    s, L, R = case(p)
    Y, mask = present(s, folder)
    obs = as_observations(Y, mask)
    S = obs.outliers(L, R, ZETA)
    E = s.values - L @ R.T
    want = np.where(np.abs(E) > ZETA, E, 0)
    # only what stands out: the rest would not fit into memory
    if isinstance(getattr(obs, "of", obs), RowBlocks):
        assert S.nnz == np.count_nonzero(want[s.mask])
        assert_close(S.toarray(), np.where(s.mask, want, 0), obs.dtype)
        return
    # of scipy or of torch
    if sp.issparse(Y) or "sparse" in str(getattr(Y, "layout", "")):
        assert sp.issparse(S)
        assert S.format == ("csc" if isinstance(obs, Transposed) else "csr")
        seen = np.zeros(S.shape, bool)
        seen[S.tocoo().coords] = True
        S = S.toarray()
    elif isinstance(Y, np.ma.MaskedArray):
        assert isinstance(S, np.ma.MaskedArray)
        seen, S = ~np.ma.getmaskarray(S), S.filled(0)
    else:
        lazy = isinstance(getattr(Y, "data", Y), da.Array)
        assert type(S).__name__ == (
            "Tensor" if isinstance(Y, Observations) else "Array" if lazy else "ndarray"
        )
        S = np.asarray(S)
        seen, S = ~np.isnan(S), np.nan_to_num(S)
    np.testing.assert_array_equal(seen, s.mask)
    assert_close(S, np.where(s.mask, want, 0), obs.dtype)
    np.testing.assert_array_equal(S != 0, (want != 0) & s.mask)


@every_storage
def test_residuals_are_those_of_the_observed_entries(present, p, folder):
    s, L, R = case(p)
    obs = as_observations(*present(s, folder))
    blocks = list(obs.residuals(L, R))
    rows, cols, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    E = np.full(s.values.shape, np.nan)
    E[rows, cols] = values
    assert len(values) == s.mask.sum()
    np.testing.assert_array_equal(~np.isnan(E), s.mask)
    assert_close(E[s.mask], (s.values - L @ R.T)[s.mask], obs.dtype)


@pytest.mark.parametrize(
    "form",
    [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array],
    ids=lambda f: f.__name__,
)
def test_residuals_come_in_blocks(form):
    """More entries than one block has."""
    rng = np.random.default_rng(0)
    # no zeros, which a sparse matrix would not store
    Y = rng.standard_normal((1300, 1000)) + 3
    if form.__name__.startswith("cs"):
        Y = Y * (rng.random(Y.shape) < 0.9)
    L, R = (rng.standard_normal((n, 2)) for n in Y.shape)
    blocks = list(as_observations(form(Y)).residuals(L, R))
    assert len(blocks) > 1
    rows, cols, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    np.testing.assert_allclose(values, (Y - L @ R.T)[rows, cols])
    times = np.bincount(rows * Y.shape[1] + cols, minlength=Y.size)
    np.testing.assert_array_equal(times, Y.ravel() != 0)


@every_storage
def test_scaled_reads_multiples(present, p, folder):
    s, L, R = case(p)
    obs = as_observations(*present(s, folder))
    twice = obs.scaled(0.5).scaled(4.0)
    want = reference.pull(2 * s.values, s.mask, L, R, reference.clip(ZETA))
    assert_pull(twice.pull(L, R, ZETA), want, obs.dtype)
    rows, cols = np.nonzero(s.mask)
    np.testing.assert_array_equal(twice.lookup(rows, cols), 2 * s.values[s.mask])
    np.testing.assert_array_equal(
        twice.block(slice(None), slice(None)), np.where(s.mask, 2 * s.values, 0)
    )
    assert twice.scale == 2 * obs.scale
    # the original is as it was
    assert_pull(obs.pull(L, R, ZETA), wanted(p, "clip"), obs.dtype)


@every_storage
def test_products_with_other_or_missing_factors(present, p, folder):
    s, L, R = case(p)
    obs = as_observations(*present(s, folder))
    rng = np.random.default_rng(1)
    P, Q = (rng.standard_normal((n, 7)) for n in s.values.shape)
    others = (
        (L, R, P, Q),
        (L, R, None, Q),
        (L, R, P, None),
        (None, None, P, Q),
        (None, None, None, Q),
    )
    for name in ("clip", "threshold", "cauchy", "huber", "mixture"):  # one of each kind
        weight, slow = dict(rules)[name](*s.values.shape, ZETA)
        for L_, R_, P_, Q_ in others:
            want = reference.products(s.values, s.mask, L_, R_, slow, P_, Q_)
            assert_pull(obs.products(L_, R_, weight, P=P_, Q=Q_), want, obs.dtype)


@cache
def wanted_of(name, own, p):
    """The reference with the model's own factors, or others, on the sides that `own` says."""
    s, L, R = case(p)
    P, Q = (
        mine if of_model else 1 - mine
        for mine, of_model in zip((L, R), own, strict=True)
    )
    return (
        P,
        Q,
        reference.products(
            s.values, s.mask, L, R, dict(rules)[name](*s.values.shape, ZETA)[1], P, Q
        ),
    )


@every_storage
def test_a_factor_of_the_model_by_name_or_as_it_is(present, p, folder):
    """OWN is the model's factor, in one product or both, and not one that was given: a
    copy of it does the same.
    """
    s, L, R = case(p)
    obs = as_observations(*present(s, folder))
    for name in ("clip", "threshold", "cauchy, positive"):
        weight, _ = dict(rules)[name](*s.values.shape, ZETA)
        for own in ((True, True), (True, False), (False, True)):
            P, Q, want = wanted_of(name, own, p)
            named = {"P": OWN if own[0] else P, "Q": OWN if own[1] else Q}
            assert_pull(obs.products(L, R, weight, **named), want, obs.dtype)
            assert_pull(
                obs.products(L, R, weight, P=P.copy(), Q=Q.copy()), want, obs.dtype
            )
        only = obs.products(L, R, weight, Q=OWN)
        assert only[1] is None
        assert_close(only[0], wanted_of(name, (True, True), p)[2].CQ, obs.dtype)


def test_products_are_asked_for_by_name():
    obs, L, R = as_observations(np.ones((4, 5))), np.ones((4, 2)), np.ones((5, 2))
    with pytest.raises(TypeError, match="positional"):
        obs.products(L, R, 1.0, L, R)


def test_a_storage_without_all_methods_cannot_be_made():
    class Half(Observations):
        def lookup(self, rows, cols):
            return np.full(len(rows), np.nan)

    nothing = np.zeros(1, np.int64)
    with pytest.raises(TypeError, match="abstract"):
        Half(
            shape=(1, 1),
            dtype=np.dtype(float),
            row_observed=nothing,
            col_observed=nothing,
        )


@every_storage
def test_parts_and_counts(present, p, folder):
    """What applications ask of the data: some rows and columns as they are, how many
    there are, and in what order.
    """
    s, _, _ = case(p)
    obs = as_observations(*present(s, folder))
    for rows, cols in (
        (slice(None), slice(None)),
        (slice(3, 9), slice(None)),
        (slice(None), slice(1, 30)),
    ):
        Y, mask, gain = obs.scaled(0.5).part(rows, cols)
        got = np.where(
            True if mask is None else mask, gain * np.asarray(Y, float), np.nan
        )
        np.testing.assert_array_equal(got, 0.5 * s.nan[rows, cols])
    counts = obs.survey()
    np.testing.assert_array_equal(counts.rows, s.mask.sum(1))
    np.testing.assert_array_equal(counts.cols, s.mask.sum(0))
    assert counts.infinite == 0
    borders, by_columns = obs.stripes()
    assert (borders[0], borders[-1]) == (0, s.values.shape[by_columns])
    assert (np.diff(borders) > 0).all()
    assert obs.in_blocks == (obs.entries_read > 0)
    assert obs.stored.kind in "fiu"
    obs.check_unchanged()
    given = np.arange(s.values.shape[0]), np.arange(s.values.shape[1])
    counted = obs.with_counts(*given)
    np.testing.assert_array_equal(counted.row_observed, given[0])
    np.testing.assert_array_equal(counted.col_observed, given[1])


@every_storage
def test_regressions_of_rows_and_columns(present, p, folder):
    """Each line by itself, whatever the storage; data in blocks have no lines across them."""
    s, _, _ = case(p)
    obs, rng = as_observations(*present(s, folder)), np.random.default_rng(3)
    for axis in (0, 1):
        n = s.values.shape[1 - axis]
        V = np.linalg.qr(rng.standard_normal((n, 2)))[0]
        settings = {
            "widest": 100.0,
            "lowest": 1.0,
            "rule": Cauchy.rule,
            "odds": 0.0,
            "reach": 3.0,
        }
        model = Regression(
            V=V,
            offset=np.full(n, 5.0),
            mean=np.zeros(2),
            prior=0.01 * np.eye(2),
            **settings,
        )
        if obs.in_blocks and axis != obs.stripes().by_columns:
            with pytest.raises(ValueError, match="chunks of whole rows"):
                obs.regress(model, axis)
            continue
        Y = np.ascontiguousarray(s.nan.T if axis else s.nan)
        for got, want in zip(
            obs.regress(model, axis), as_observations(Y).regress(model), strict=True
        ):
            assert_close(np.asarray(got), want, obs.dtype, factor=20)


@every_storage
def test_the_two_products_are_adjoint(present, p, folder):
    s, L, R = case(p)
    obs = as_observations(*present(s, folder))
    rng = np.random.default_rng(2)
    P, Q = (rng.uniform(0.5, 1, (n, 4)) for n in s.values.shape)
    for _, rule in rules:
        CQ, CtP = obs.products(L, R, rule(*s.values.shape, ZETA)[0], P=P, Q=Q)
        size = np.linalg.norm(CQ) * np.linalg.norm(P)
        assert (
            abs(np.vdot(CQ, P) - np.vdot(CtP, Q))
            < (1e-12 if obs.dtype == np.float64 else 1e-5) * size
        )


def test_scale_is_the_typical_size_and_never_zero():
    rng = np.random.default_rng(0)
    assert as_observations(
        -np.exp(rng.standard_normal((200, 300)))
    ).scale == pytest.approx(1, rel=0.05)
    assert as_observations(np.zeros((5, 6))).scale == 1
    mostly_zero = np.zeros((50, 60))
    mostly_zero[0, 0] = 3000.0
    assert 0 < as_observations(mostly_zero).scale <= 3000


def test_observations_pass_through():
    obs = as_observations(np.ones((3, 4)))
    assert as_observations(obs) is obs


def test_the_input_is_neither_copied_nor_changed():
    s = small(p=0.9)
    for Y in (s.nan, np.asfortranarray(s.nan), s.nan.astype(np.float32)):
        before = Y.copy()
        obs = as_observations(Y)
        stored = getattr(obs, "of", obs).Y
        assert np.shares_memory(stored, Y)
        obs.outliers(*(np.ones((n, 1)) for n in Y.shape), 1.0)
        np.testing.assert_array_equal(Y, before)


def test_duplicates_in_the_users_matrix_stay():
    Y = sp.csr_array(
        (np.array([1.0, 2, 3]), np.array([1, 0, 1]), np.array([0, 3, 3])), shape=(2, 3)
    )
    obs = as_observations(Y)
    assert Y.nnz == 3
    np.testing.assert_array_equal(Y.indices, [1, 0, 1])
    np.testing.assert_array_equal(
        obs.block(slice(None), slice(None)), [[2, 4, 0], [0, 0, 0]]
    )


def test_stored_zeros_are_observed_and_stored_nan_are_not():
    Y = sparse(small(p=0.3), sp.csr_array)
    Y.data[:5], Y.data[7:10] = 0, np.nan
    obs = as_observations(Y)
    assert obs.n_observed == Y.nnz - 3
    seen = np.zeros(Y.shape, bool)
    seen[Y.tocoo().coords] = ~np.isnan(Y.data)
    np.testing.assert_array_equal(obs.row_observed, seen.sum(1))
    np.testing.assert_array_equal(obs.col_observed, seen.sum(0))


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_huge_matrix_with_few_entries(form):
    rng, n = np.random.default_rng(0), 100_000
    rows, cols = rng.choice(n, (2, 300), replace=False)
    values = rng.standard_normal(300)
    obs = as_observations(
        sp.coo_array((values, (rows, cols)), shape=(n, n)).asformat(form)
    )
    assert len(obs.draw(200).values) == 200
    # all, where there are no more
    assert sorted(obs.draw(1000).values) == sorted(values)
    assert obs.scale == pytest.approx(np.median(np.abs(values)), rel=0.2)


def test_nan_where_the_mask_says_observed_is_missing():
    s = small(p=0.7)
    Y = s.values.copy()
    Y[2, :9] = np.nan
    seen = s.mask & ~np.isnan(Y)
    obs = as_observations(Y, s.mask)
    np.testing.assert_array_equal(obs.row_observed, seen.sum(1))
    np.testing.assert_array_equal(
        obs.block(slice(None), slice(None)), np.where(seen, Y, 0)
    )
    L, R = np.ones((23, 2)), np.ones((37, 2))
    assert_pull(
        obs.pull(L, R, 5.0),
        reference.pull(Y, seen, L, R, reference.clip(5.0)),
        obs.dtype,
    )


def table(**columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def test_tables_of_integers_and_missing_values():
    np.testing.assert_array_equal(
        as_observations(table(a=[1, 2], b=[3, 4])).block([0, 1], [0, 1]),
        [[1, 3], [2, 4]],
    )
    mixed = as_observations(table(a=[1.5, None], b=[3, 4]))
    assert mixed.n_observed == 3
    np.testing.assert_array_equal(mixed.block([0, 1], [0, 1]), [[1.5, 3], [0, 4]])


@pytest.mark.parametrize("other", ["boolean", "Int64", "Float64", "bool"])
def test_tables_of_nullable_or_mixed_columns(other):
    pandas = pytest.importorskip("pandas")
    missing = None if other != "bool" else True
    obs = as_observations(
        table(a=pandas.array([1, missing], dtype=other), b=[1.5, 2.5])
    )
    assert obs.n_observed == (3 if missing is None else 4)
    np.testing.assert_array_equal(
        obs.block([0, 1], [0, 1]), [[1, 1.5], [float(missing or 0), 2.5]]
    )


def test_data_array_with_columns():
    Y = pytest.importorskip("xarray").DataArray(
        np.ones((2, 3)), dims=("rows", "columns"), coords={"columns": [1, 2, 3]}
    )
    assert as_observations(Y).n_observed == 6


def test_negative_int16():
    s = small(p=0.8)
    Y = (s.values - 100).astype(np.int16)
    L, R = np.ones((23, 2)), -np.ones((37, 2))
    obs = as_observations(Y, s.mask)
    assert_pull(
        obs.pull(L, R, 9.5),
        reference.pull(s.values - 100, s.mask, L, R, reference.clip(9.5)),
        obs.dtype,
    )


def test_booleans():
    Y = np.random.default_rng(0).random((20, 30)) < 0.4
    L, R = np.full((20, 2), 0.3), np.ones((30, 2))
    obs = as_observations(Y)
    assert_pull(
        obs.pull(L, R, 0.5),
        reference.pull(Y * 1.0, np.ones_like(Y), L, R, reference.clip(0.5)),
        obs.dtype,
    )

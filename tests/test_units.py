import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from lrmc import solve
from lrmc.complete import in_memory as completion
from lrmc.complete.table import as_dense
from lrmc.units import Units, chosen_units, column_units


def table(n=300, rank=3, noise=0.1, far=3.0, span=3.0, seed=0):
    """Columns in units between 10^-span and 10^span, of a pattern with noise: exact
    values, and what was seen.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, 12))
    X /= X.std(0)
    spread = 10 ** rng.uniform(-span, span, 12)
    full = (
        X + noise * rng.standard_normal(X.shape) + far * rng.standard_normal(12)
    ) * spread
    Y, wrong = full.copy(), rng.random(X.shape) < 0.03
    Y[wrong] += (rng.choice([-1, 1], X.shape) * rng.uniform(5, 15, X.shape) * spread)[
        wrong
    ]
    Y[rng.random(X.shape) < 0.2] = np.nan
    return full, Y, wrong & ~np.isnan(Y), spread


def test_middles_and_spreads_are_robust():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((2001, 3)) * [1e-3, 1.0, 1e6] + [5e-3, -7.0, 8e6]
    Y[:300] = 1e12
    Y[300:600, 1] = np.nan
    units = column_units(Y)
    np.testing.assert_allclose(units.centre, [5e-3, -7.0, 8e6], rtol=0.1)
    np.testing.assert_allclose(units.spread, [1e-3, 1.0, 1e6], rtol=0.4)


def test_a_column_far_from_0_is_centred_by_itself():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((200, 6))
    Y[:, 1] += 2000  # a year, say
    units = chosen_units(Y, "auto", table=True)
    assert np.count_nonzero(units.centre) == 1
    np.testing.assert_allclose(units.centre[1], 2000, rtol=1e-3)
    assert chosen_units(Y - units.centre, "auto", table=True) is None


def test_every_form_has_the_same_units():
    _, Y, *_ = table()
    seen = ~np.isnan(Y)
    sparse = sp.coo_array((Y[seen], np.nonzero(seen)), shape=Y.shape)
    halves = sp.coo_array(
        (np.tile(Y[seen] / 2, 2), np.tile(np.nonzero(seen), 2)), shape=Y.shape
    )
    masked = np.ma.MaskedArray(np.nan_to_num(Y), mask=~seen)
    want = column_units(Y)
    removed = want.removed(Y)
    for same in (sparse, sparse.tocsr(), sparse.tocsc(), halves, masked):
        units = column_units(same)
        np.testing.assert_array_equal(units, want)
        np.testing.assert_allclose(as_dense(units.removed(same)), removed, rtol=1e-12)


@given(
    centre=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
    spread=st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3),
    seed=st.integers(0, 100),
)
def test_what_is_removed_is_put_back(centre, spread, seed):
    units = Units(np.array(centre), np.array(spread))
    Y = (
        np.random.default_rng(seed).standard_normal((5, 3)) * units.spread
        + units.centre
    )
    there = units.removed(Y)
    size = np.abs(units.centre) + units.spread
    assert np.all(np.abs(units.put_back(there) - Y) <= 1e-14 * 10 * size)
    np.testing.assert_array_equal(
        units.put_back(there[:, 1], 1), units.put_back(there)[:, 1]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, bool])
def test_types(dtype):
    Y = np.random.default_rng(0).integers(0, 2, (30, 4)).astype(dtype)
    wide = np.float32 if dtype == np.float32 else np.float64
    for form in (Y, sp.csr_array(Y)):
        assert column_units(form).removed(form).dtype == wide


def test_columns_of_one_value_and_of_none():
    Y = np.random.default_rng(0).standard_normal((50, 5)) * 2
    Y[:, 1], Y[:, 2], Y[:, 3] = 1e6, 0.0, np.nan
    Y[:49, 4] = 0  # a median distance of 0
    units = column_units(Y)
    assert np.all(np.isfinite(units))
    assert np.all(units.spread > 0)
    assert units.spread[1] == 1e6
    assert 0 < units.spread[4] < 2


def test_when_columns_are_scaled():
    rng = np.random.default_rng(0)
    like, unlike = (
        rng.standard_normal((200, 4)),
        rng.standard_normal((200, 4)) * [1, 1, 1, 10],
    )
    assert chosen_units(like, "auto", table=True) is None
    assert chosen_units(unlike, "auto", table=True) is not None
    assert chosen_units(unlike, "auto", table=False) is None
    # of like size: one unit, some vary more
    assert chosen_units(unlike + 60, "auto", table=True) is None
    assert (
        chosen_units(unlike * [1, 1, 1, 10] + [0, 60, 600, 0], "auto", table=True)
        is not None
    )
    assert chosen_units(like, "columns", table=False) is not None
    assert chosen_units(unlike, "none", table=True) is None
    with pytest.raises(ValueError, match="one of auto, columns, none"):
        chosen_units(like, "rows", table=True)


def test_columns_of_few_entries_do_not_differ_by_chance():
    """Marks of 1 to 5, of which most columns have a handful."""
    rng = np.random.default_rng(3)
    marks = np.clip(np.round(rng.normal(3.5, 1.2, (400, 150))), 1, 5)
    seen = rng.random(marks.shape) < np.clip(rng.pareto(1.0, 150) / 50, 0.003, 0.9)
    Y = np.where(seen, marks, np.nan)
    assert np.sum(seen.sum(0) < 10) > 50
    assert chosen_units(Y, "auto", table=True) is None
    Y[:, 0] *= 100
    Y[:30, 0] = rng.normal(350, 100, 30)
    assert chosen_units(Y, "auto", table=True) is not None


def test_a_matrix_of_exact_low_rank_keeps_its_rank():
    """Medians that are near 0 anyway stay."""
    _, Y, *_ = table(noise=0, far=0)
    units = column_units(Y)
    assert not units.centre.any()
    result = solve(units.removed(Y))
    assert (result.rank, result.regime) == (3, "exact")


@pytest.mark.parametrize("far", [0.0, 3.0])
def test_scaling_is_what_unlike_columns_need(far):
    full, Y, wrong, spread = table(far=far)
    units = chosen_units(Y, "auto", table=True)
    result = solve(units.removed(Y))
    assert result.converged
    found = completion.outlying(result, units, Y)
    # nearly all
    assert np.count_nonzero(wrong[found.rows, found.cols]) >= 0.98 * np.count_nonzero(
        wrong
    )
    assert len(found.rows) < 1.05 * np.count_nonzero(wrong)  # and hardly any other
    X = completion.filled(result, Y, "missing+outliers", found, units)
    miss = (X - full) / spread
    assert np.sqrt(np.mean(miss[np.isnan(Y)] ** 2)) < 0.25  # 0.1 of it is noise
    assert np.median(np.abs(miss[wrong])) < 0.2
    np.testing.assert_allclose(found.expected, X[found.rows, found.cols], rtol=1e-12)
    np.testing.assert_array_equal(found.values, Y[found.rows, found.cols])


def test_columns_whose_differences_are_lost_beside_their_size_are_centred():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((200, 6))  # of one unit: not scaled for that
    assert chosen_units(Y + 1e3, "auto", table=True) is None
    units = chosen_units(Y + 1e6, "auto", table=True)
    np.testing.assert_allclose(units.centre, 1e6, rtol=1e-3)

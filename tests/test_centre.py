"""The additive centre of data far from zero."""

import numpy as np
import scipy.sparse as sp

from lrmc.methods.centre import centre
from lrmc.observations import as_observations


def table(gaps, seed=0):
    rng = np.random.default_rng(seed)
    Y = (
        100
        + 10 * rng.standard_normal((40, 1))
        + 5 * rng.standard_normal((1, 30))
        + rng.standard_normal((40, 30))
    )
    Y[rng.random(Y.shape) < gaps] = np.nan
    Y[3] = np.nan
    return Y


def test_medians_of_rows_and_then_of_columns():
    for gaps in (0.0, 0.3, 0.6):
        Y = table(gaps)
        X = centre(as_observations(Y))
        seen = ~np.isnan(Y).all(1)
        rows = np.nanmedian(Y[seen], axis=1)
        np.testing.assert_allclose(X.L[seen, 0], rows)
        np.testing.assert_allclose(
            X.R[:, 1], np.nanmedian(Y[seen] - rows[:, None], axis=0), atol=1e-12
        )
        assert np.isfinite(X.L[3]).all()


def test_the_same_from_sparse_data():
    Y = table(0.9)
    rows, cols = np.nonzero(~np.isnan(Y))
    sparse = centre(
        as_observations(sp.csr_array((Y[rows, cols], (rows, cols)), shape=Y.shape))
    )
    dense = centre(as_observations(Y))
    np.testing.assert_allclose(sparse.L, dense.L)
    np.testing.assert_allclose(sparse.R, dense.R)


def test_data_around_zero_have_none():
    assert (
        centre(as_observations(np.random.default_rng(0).standard_normal((40, 30))))
        is None
    )


def test_long_columns_are_looked_at_less(monkeypatch):
    monkeypatch.setattr("lrmc.observations.medians.LOOKS", 30 * 70)
    rng = np.random.default_rng(0)
    Y = 100 + 5 * rng.standard_normal((1, 30)) + rng.standard_normal((2000, 30))
    X = centre(as_observations(Y))
    assert (
        np.abs(X.R[:, 1] - np.median(Y - np.median(Y, axis=1)[:, None], axis=0)).max()
        < 0.8
    )

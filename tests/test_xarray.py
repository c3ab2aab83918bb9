"""What `da.lrmc` gives back."""

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("lrmc.xarray")


def test_what_is_not_determined_is_nan():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((12, 2)) @ rng.standard_normal((30, 2)).T
    Y[:, 4] = np.nan  # a place that was never seen
    Y[3] = np.nan  # a day without any
    da = xr.DataArray(Y, dims=("time", "place"))
    with pytest.warns(UserWarning, match="no observation"):
        low_rank = da.lrmc.decompose(rank=2)["low_rank"].values
    seen = np.ones(Y.shape, bool)
    seen[3] = seen[:, 4] = False
    np.testing.assert_array_equal(np.isnan(low_rank), ~seen)
    np.testing.assert_allclose(low_rank[seen], Y[seen], atol=1e-5)

"""What lies beyond low rank is added to it, at places, in blocks and in residuals."""

from dataclasses import replace

import numpy as np
import pytest

import lrmc
from lrmc.fit import Fit
from lrmc.linalg import Factors
from lrmc.observations.base import Sample


class Ramp:
    """A part that knows its places."""

    name = "ramp"

    def at(self, rows, cols):
        return 100.0 * rows + cols


def test_parts_are_added_wherever_entries_are_asked_for():
    rng = np.random.default_rng(0)
    X = Factors(rng.standard_normal((7, 2)), rng.standard_normal((5, 2)))
    whole = X.L @ X.R.T + 100.0 * np.arange(7)[:, None] + np.arange(5)
    fit = Fit(X, (Ramp(),))
    rows, cols = np.array([0, 6, 3]), np.array([4, 0, 2])
    np.testing.assert_allclose(fit.at(rows, cols), whole[rows, cols])
    some = Sample(rows, cols, np.ones(3))
    np.testing.assert_allclose(fit.residual(some), 1 - whole[rows, cols])


def test_completed_is_the_sum_and_low_rank_is_not():
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    Y[4] = np.nan
    with pytest.warns(lrmc.DoubtWarning, match="no observation"):
        plain = lrmc.solve(Y, 2)
    np.testing.assert_array_equal(plain.completed(), plain.low_rank())
    result = replace(plain, beyond=(Ramp(),))
    ramp = 100.0 * np.arange(30)[:, None] + np.arange(20)
    np.testing.assert_allclose(result.completed(), plain.low_rank() + ramp)
    np.testing.assert_allclose(
        result.completed(3, slice(2, 5)), plain.low_rank(3, slice(2, 5)) + ramp[3, 2:5]
    )
    assert np.isnan(result.completed()[4]).all()

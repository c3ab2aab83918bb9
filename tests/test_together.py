"""Entries that are missing together, and are set aside so."""

import numpy as np
import pytest

from lrmc.observations import as_observations
from lrmc.observations.together import aside_together, missing_together


def half_of_them_end_early(flip):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((60, 8))
    for i in range(0, 60, 2):
        Y[i, 3:] = np.nan
    return as_observations(Y.T if flip else Y)


@pytest.mark.parametrize("flip", [False, True])
def test_others_end_early_as_well(flip):
    obs = half_of_them_end_early(flip)
    assert missing_together(obs)
    rest, some = aside_together(obs, 0.2)
    samples, columns = (some.cols, some.rows) if flip else some[:2]
    assert (samples % 2 == 1).all()
    for sample in np.unique(samples):
        assert set(columns[samples == sample]) == set(range(3, 8))
    assert rest.n_observed == obs.n_observed - len(samples)
    assert np.isnan(rest.lookup(some.rows, some.cols)).all()
    np.testing.assert_array_equal(obs.lookup(some.rows, some.cols), some.values)
    assert 0.2 <= len(samples) / obs.n_observed < 0.35


def test_random_gaps_are_not_together():
    rng = np.random.default_rng(1)
    Y = np.where(rng.random((300, 8)) < 0.3, np.nan, 1.0)
    assert not missing_together(as_observations(Y))
    Y[:, :4] = 1  # nor those of some columns
    assert not missing_together(as_observations(Y))
    assert not missing_together(as_observations(np.ones((30, 4))))

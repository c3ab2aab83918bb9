"""Anomalous rows: as many false alarms as were asked for, on data that the model has not seen."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from lrmc import RobustPCA

N_FEATURES, NOISE = 40, 0.3
W = np.random.default_rng(99).standard_normal((4, N_FEATURES))


def rows(n, seed, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) @ W + NOISE * rng.standard_normal((n, N_FEATURES))
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.fixture(scope="module")
def fitted():
    """Of 600 rows, 60 are anomalous all over, and others have single outliers."""
    X = rows(600, 0, missing=0.1)
    rng = np.random.default_rng(1)
    X[:60] += 3 * NOISE * rng.standard_normal((60, N_FEATURES))
    X[100, 7] = 40.0
    return RobustPCA(4).fit(X), X


@pytest.mark.parametrize("missing", [0.0, 0.5])
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_false_alarms_are_as_many_as_were_asked_for(fitted, rate, missing):
    pca, _ = fitted
    pca.set_params(false_alarms=rate)
    alarms = np.mean(pca.predict(rows(3000, 5, missing)) == -1)
    assert rate / 3 < alarms < 3 * rate


def test_anomalous_rows_are_found(fitted):
    pca, X = fitted
    pca.set_params(false_alarms=0.01)
    found = pca.predict(X)
    assert set(found) == {-1, 1}
    assert np.mean(found[:60] == -1) > 0.95
    np.testing.assert_array_equal(pca.decision_function(X) < 0, found == -1)


def test_outlying_entries_are_marked(fitted):
    pca, X = fitted
    mask = pca.outlier_mask_
    assert mask.shape == X.shape
    assert mask[100, 7]
    assert not mask[np.isnan(X)].any()
    np.testing.assert_array_equal(mask, np.nan_to_num(np.asarray(pca.outliers_)) != 0)


def test_rows_without_observations_are_no_anomalies(fitted):
    pca, _ = fitted
    empty = np.full((2, N_FEATURES), np.nan)
    np.testing.assert_array_equal(pca.predict(empty), [1, 1])


@pytest.mark.parametrize("rate", [0, 1, -0.1, "x", None])
def test_a_rate_is_a_probability(rate):
    with pytest.raises(ValueError, match=r"false_alarms=.*a probability"):
        RobustPCA(2, false_alarms=rate).fit(rows(50, 0))

"""The steps after the end of a table: sensors of all units, and models that run away."""

import numpy as np
from numpy.testing import assert_allclose
from times import P, seasonal

from lrmc.methods.in_time import forecast as forecasts
from lrmc.methods.in_time.forecast import forecast
from lrmc.methods.in_time.plan import learn_plan
from lrmc.methods.in_time.simple import last_period, last_value

STEPS = 6


def walks():
    """A random walk, which the last value tells best, and sensors with a daily pattern."""
    rng = np.random.default_rng(0)
    _, Y = seasonal(days=16)
    walk = np.cumsum(rng.standard_normal(Y.shape[1]))
    return np.vstack([walk, Y[:4]]).astype(np.float32)


def test_a_sensor_of_a_large_unit_does_not_decide_for_the_others():
    Y = walks()
    plan = learn_plan(Y, P, None)
    plain = forecast(Y, plan, Y.shape[1], STEPS, 0.8)
    large = Y.copy()
    large[0] *= 1e5
    found = forecast(large, learn_plan(large, P, None), Y.shape[1], STEPS, 0.8)
    size = Y[1:].std(1, keepdims=True)
    for a, b in zip(plain, found, strict=True):
        assert np.abs((a - b)[1:] / size).max() < 0.3


def test_a_model_that_runs_away_has_no_part_in_a_forecast(monkeypatch):
    Y = walks()
    plan = learn_plan(Y, P, None)

    def running_away(*given, **others):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(forecasts, "fit", running_away)
    values, lower, upper = forecast(Y, plan, Y.shape[1], STEPS, 0.8)
    assert np.isfinite(values).all()
    assert (lower < upper).all()


def test_the_last_period_is_the_last_entry_of_each_slot():
    Y = np.array([[1.0, 2, 3, 4, np.nan, 6, np.nan], [np.nan] * 7])
    assert_allclose(last_period(Y, 3), [[1, 2, 3, 4, 2, 6, 4], [3.0] * 7])
    assert_allclose(last_period(Y[:1], 1), last_value(Y[:1]))

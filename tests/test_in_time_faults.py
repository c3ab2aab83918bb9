"""Sensors that fail for a while."""

import warnings

import numpy as np
import pytest
from times import P, hidden, rmse, seasonal

import lrmc
from lrmc.complete.in_memory import outlying
from lrmc.methods.in_time.faults import DRIFT, SHIFT, faulty, stretches
from lrmc.methods.in_time.kinds import stuck


def test_a_shift_is_found_from_edge_to_edge():
    e = np.random.default_rng(0).standard_normal(400)
    e[100:130] += 25
    e[250:256] -= 40
    assert sorted(stretches(e, (SHIFT,))) == [(100, 130), (250, 256)]


def test_a_drift_is_found_to_where_it_ends():
    e = np.random.default_rng(0).standard_normal(400)
    e[100:130] += np.linspace(0, 30, 30)
    (found,) = stretches(e, (DRIFT,))
    assert found[1] == 130
    assert abs(found[0] - 100) < 6


def test_what_comes_and_goes_by_and_by_is_no_shift():
    e = np.random.default_rng(0).standard_normal(400)
    e[100:130] += 20 * np.sin(np.pi * np.arange(30) / 29)
    e[250:280] += 20 * np.random.default_rng(1).random(30)
    assert not list(stretches(e, (SHIFT,)))
    assert not list(stretches(e, (DRIFT,)))


def test_a_step_is_no_stretch():
    """Nothing says which of both sides is wrong."""
    e = np.random.default_rng(0).standard_normal(400)
    e[200:] += 20
    assert not list(stretches(e, (SHIFT,)))
    assert not list(stretches(e, (DRIFT,)))


def test_short_series_have_no_stretches():
    assert not list(stretches(np.zeros(0), (SHIFT,), 1))
    assert not list(stretches(np.arange(7.0), (DRIFT,), 1))


def test_nights_and_dry_days_are_not_stuck():
    rng = np.random.default_rng(0)
    Y = rng.random((8, 20 * P))
    Y[:, np.arange(20 * P) % P < 5] = (
        0  # nights: a fifth of the entries, of all sensors
    )
    Y[0, rng.random(20 * P // 8).repeat(8) < 0.6] = 0.5  # what one of them often has
    assert not stuck(Y)[1:].any()
    assert not (stuck(Y)[0] & (Y[0] == 0.5)).any()
    Y[3, 110:125] = 0.7
    assert stuck(Y)[3, 110:125].all()


@pytest.fixture(scope="module")
def failing():
    """A table some of whose sensors fail for a while: the truth, what is shown, and where."""
    clean, Y = seasonal(sensors=24)
    wrong = np.zeros(Y.shape, bool)
    for s, begin, value in ((2, 50, 0.0), (7, 200, 0.0), (11, 90, 30.0)):
        wrong[s, begin : begin + 20] = True
        Y[s, begin : begin + 20] = value
    wrong[15, 130:160] = True
    Y[15, 130:160] += 40
    wrong[20, 130:160] = True
    Y[20, 130:160] += np.linspace(0, 40, 30)
    return clean, *hidden(Y, 0.3), wrong


@pytest.fixture(scope="module")
def solved(failing):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = lrmc.solve(failing[1], time="columns", period=P)
    return result, [str(w.message) for w in caught]


def test_failing_sensors_are_left_out(failing, solved):
    clean, _, missing, wrong = failing
    result, told = solved
    completed = result.completed()
    usual = rmse(completed, clean, missing & ~wrong)
    assert rmse(completed, clean, missing & wrong) < 3 * usual
    there = int((wrong & ~missing).sum())
    assert abs(result.evidence["time"]["faults"] - there) < 0.1 * there
    assert any("taken for faults" in text for text in told)


def test_failing_sensors_are_listed(failing, solved):
    _, _, missing, wrong = failing
    found = outlying(solved[0])
    listed = np.zeros(wrong.shape, bool)
    listed[found.rows, found.cols] = True
    assert listed[wrong & ~missing].mean() > 0.95
    assert (listed & ~wrong).sum() < 0.01 * (~missing).sum()
    kinds = {k for k, s in zip(found.kinds, found.rows, strict=True) if s in (2, 7, 11)}
    assert kinds <= {"stuck", "spike"}


def test_runs_for_intervals_leave_them_out_too(failing, solved):
    """What is set aside to tell widths is no fault, nor is a run fitted to one."""
    from lrmc.observations.heldout import Submatrix

    _, Y, missing, wrong = failing
    result = solved[0]
    rows, cols = (np.arange(n) for n in Y.shape)
    part = Submatrix(result.observations, rows, cols)
    rest, some = result.refit.set_aside(part, 0)
    faulty = result.beyond[0].timing.faulty
    assert not faulty[some.rows, some.cols].any()
    fit = result.refit(part._replace(obs=rest), 0)
    at = np.nonzero(wrong & missing)
    assert np.abs(fit.at(*at) - failing[0][at]).mean() < 3


def test_states_of_switches_are_no_faults():
    """They go from one level to another at once, stay there, and are all alike."""
    rng = np.random.default_rng(0)
    switched = np.cumsum(rng.random((6, 600)) < 1 / 15, axis=1) % 2
    Y = np.where(switched == 1, 5.0, 1.0)
    said = rng.uniform(1, 1.2, 600)  # what the others say of such a sensor
    assert faulty(Y, lambda s: said, None) is None
    noisy = Y + 0.1 * rng.standard_normal(Y.shape)
    found = faulty(noisy, lambda s: said, None)
    assert found is not None  # measured values of the same size are looked at as before


def test_switches_are_filled_in_by_time_although_most_of_them_are_off():
    """That one value is usual in most rows made the others outliers, whatever is known of times."""
    rng = np.random.default_rng(1)
    own = np.zeros((10, 336))
    for k in range(1, 336):
        own[:, k] = 0.93 * own[:, k - 1] + rng.normal(0, 0.37, 10)
    slot = np.arange(336) % 24
    work = (slot >= 8) & (slot < 18)
    Y = (2.2 * work - 1.6 + own > 0).astype(float)
    Z, where = hidden(Y, 0.2)
    result = lrmc.solve(Z, time="columns")
    assert rmse(result.completed(), Y, where) < 0.3
    assert result.warnings == ()

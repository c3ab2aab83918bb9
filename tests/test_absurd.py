"""Codes for missing values that nobody named, and slips of many digits."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

import lrmc
from lrmc.observations import as_observations
from lrmc.observations.absurd import Reach, absurd, without_absurd
from lrmc.report.words import done

CODES = [-999.0, 1e20, 9.96921e36]


def made(seed=0, shape=(120, 6), noise=0.1):
    """Columns of unlike units with two components in common, gaps, and places for codes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    X = (X + noise * rng.normal(size=shape)) * np.geomspace(0.1, 10, shape[1]) + 5
    gaps = rng.random(shape) < 0.12
    places = ~gaps & (rng.random(shape) < 0.06)
    return X, gaps, places


def missed(F, X, gaps):
    return np.sqrt(np.mean(((F - X) / X.std(0))[gaps] ** 2))


@pytest.mark.parametrize("code", CODES)
def test_codes_are_found_and_nothing_else(code):
    X, gaps, places = made()
    Y = np.where(gaps, np.nan, np.where(places, code, X))
    assert_array_equal(absurd(Y), places)


def test_what_is_measured_is_not_absurd():
    rng = np.random.default_rng(1)
    tails = np.exp(2 * rng.normal(size=(300, 8)))
    large_row = np.vstack([rng.random((50, 6)), 1e4 * rng.random((1, 6))])
    often_on = np.where(rng.random((90, 5)) < 0.3, 500, 0.01) * rng.random((90, 5))
    events = np.where(rng.random((90, 5)) < 0.1, 7.0, 0.0)
    for Y in (tails, large_row, often_on, events, rng.normal(size=(1, 5))):
        assert not absurd(Y).any()


def test_a_slip_is_absurd():
    Y = np.random.default_rng(2).random((50, 6))
    Y[7, 3] = 1e3
    assert_array_equal(np.argwhere(absurd(Y)), [[7, 3]])


def test_data_without_codes_are_not_copied():
    obs = as_observations(np.random.default_rng(3).random((30, 5)))
    assert without_absurd(obs) is obs


@pytest.mark.parametrize("code", CODES[1:])
def test_codes_do_no_harm_to_a_table(code):
    X, gaps, places = made(shape=(60, 5))
    Y = np.where(gaps, np.nan, np.where(places, code, X))
    filled = lrmc.RobustImputer(time=None).fit_transform(Y)
    assert missed(filled, X, gaps) < 0.5


def test_a_result_has_them_as_outliers_and_its_report_names_them():
    X, gaps, places = made(shape=(60, 8))
    Y = np.where(gaps, np.nan, np.where(places, -9999.0, X))
    result = lrmc.solve(Y, time=None)
    rows, cols = np.nonzero(places)
    listed = result.outliers()
    assert (np.abs(np.asarray(listed[rows, cols])) > 1e3).all()
    assert result.evidence["beyond_reason"] == places.sum()
    assert "taken as missing" in " ".join(done(result, None, None))


def test_codes_in_new_rows():
    X, gaps, places = made(shape=(90, 5))
    Y = np.where(gaps, np.nan, np.where(places, 1e20, X))
    imputer = lrmc.RobustImputer(time=None).fit(Y[:60])
    assert missed(imputer.transform(Y[60:]), X[60:], gaps[60:]) < 1
    imputer.partial_fit(Y[60:])
    assert missed(imputer.transform(Y[60:]), X[60:], gaps[60:]) < 1


def test_reach_of_a_column_that_is_constant():
    reach = Reach.of(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 5.0]]))
    assert_array_equal(
        reach.kept(np.array([[9.0, 4.0], [1.0, 99.0]])), [[9, 4], [1, np.nan]]
    )


def test_good_entries_of_a_clean_table_are_not_replaced():
    # the fit follows flowers closely, and second opinions less so: a border that is drawn by the
    # residuals of the fit alone lies within what these miss
    X = load_iris().data
    Y = np.where(np.random.default_rng(0).random(X.shape) < 0.15, np.nan, X)
    filled = lrmc.RobustImputer(fill="missing+outliers", time=None).fit_transform(Y)
    assert_array_equal(filled[~np.isnan(Y)], X[~np.isnan(Y)])

"""Quantiles of errors for each line of a table."""

import numpy as np
import pytest

import lrmc
from lrmc.evidence.by_line import (
    LENT,
    common_values,
    lines_differ,
    named_alike,
    quantiles_by_line,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_quantiles_of_lines_are_those_of_their_errors_and_a_few_of_all(rng):
    size, weight = rng.exponential(size=60), rng.random(60)
    lines = rng.integers(0, 4, 60)
    found = quantiles_by_line(size, weight, lines, 0.8, np.arange(6))
    for line, border in enumerate(found):
        own = weight * (lines == line)
        each = own + LENT * weight / weight.sum()
        wanted = 0.8 * (LENT + own.sum() + own.sum() / (own.sum() + LENT))
        below = [each[size <= x].sum() for x in size]
        assert border == size[np.array(below) >= wanted].min()


def test_lines_differ_where_their_errors_do(rng):
    size, good = np.abs(rng.standard_normal(2000)), np.ones(2000)
    lines, sets = rng.integers(0, 10, 2000), rng.integers(0, 5, 2000)
    assert not lines_differ(size, good, lines, sets)
    rarely = np.where(rng.random(2000) < 0.15, 6.0, 0.5)  # missed by all or nothing
    assert lines_differ(np.where(lines < 3, rarely, size), good, lines, sets)


def test_values_that_come_again_in_their_line_are_common():
    lines = np.repeat([0, 1], 40)
    values = np.concatenate([np.arange(40.0) % 2, np.arange(40.0)])
    others = np.tile(np.arange(40), 2)
    np.testing.assert_array_equal(common_values(lines, others, values), lines == 0)
    # the same entry, set aside again and again, is one
    again = np.zeros(40, int)
    assert not common_values(again, again, np.full(40, 7.0)).any()


def test_lines_of_a_part_are_those_of_all_data_if_it_has_all_of_them():
    assert named_alike((9000, 60), (1000, 60))
    assert named_alike((60, 9000), (60, 1000))
    assert not named_alike((9000, 6000), (1000, 600))
    assert not named_alike((2000, 1500), (1000, 1500))


def held(Y, rng):
    """Which of the hidden entries are in their intervals, and where these are."""
    hidden = rng.random(Y.shape) < 0.2
    result = lrmc.solve(np.where(hidden, np.nan, Y), time=None)
    low, high = result.interval(*np.nonzero(hidden))
    inside = (low <= Y[hidden]) & (Y[hidden] <= high)
    return inside, np.nonzero(hidden)[1], result


def test_the_rarer_answer_is_no_gross_error(rng):
    """Who says no where most say yes was one, and intervals of such columns held 75 %."""
    size = rng.standard_normal((300, 1))
    numbers = size + rng.standard_normal((300, 3))
    answers = size + 2 * rng.standard_normal((300, 3)) > 1.2
    inside, cols, _ = held(np.hstack([numbers, 2 * answers]), rng)
    assert inside[cols >= 3].mean() > 0.86
    assert inside[cols < 3].mean() > 0.84


def test_numbers_between_two_limits_have_no_gross_errors(rng):
    """The density of their errors hardly falls, as that of gross ones: intervals held 75 %."""
    inside, _, result = held(rng.uniform(-1, 1, (400, 12)), rng)
    assert 0.87 < inside.mean() < 0.93
    assert result.calibration.good.min() == 1


@pytest.mark.filterwarnings("ignore:the mean absolute error")
@pytest.mark.parametrize("flip", [False, True])
def test_intervals_by_line_are_saved(rng, tmp_path, flip):
    Y = np.hstack([rng.standard_normal((200, 3)), 3.0 * (rng.random((200, 3)) < 0.15)])
    Y = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    result = lrmc.solve(Y.T if flip else Y, time=None)
    assert result.calibration.lines is not None
    result.save(tmp_path / "run.npz")
    again = lrmc.Result.load(tmp_path / "run.npz")
    rows, cols = np.nonzero(np.isnan(Y.T if flip else Y))
    widths = (np.diff(x.interval(rows, cols), axis=0) for x in (again, result))
    np.testing.assert_allclose(*widths)

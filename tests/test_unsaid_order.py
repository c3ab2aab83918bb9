"""Tables that are times though nobody says so in words: dates of an index, rows in order; and what
is then said of rows that come later."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import lrmc
from lrmc.methods.in_time.clock import read_clock
from lrmc.methods.in_time.improve import Asked, _axis
from lrmc.methods.in_time.sweeps import first_model
from lrmc.report.words import in_time

STEPS, COLUMNS = 150, 6


def walks(steps=STEPS, columns=COLUMNS, seed=5):
    """Slow waves of several lengths: a straight line is near, other columns say little."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)[:, None]
    waves = np.sin(t / rng.uniform(4, 9, columns) + rng.uniform(0, 6, columns))
    return 5 * waves + 0.02 * rng.normal(size=(steps, columns))


def spoilt(X, seed=1):
    hidden = np.random.default_rng(seed).random(X.shape) < 0.2
    return np.where(hidden, np.nan, X), hidden


def error(filled, X, hidden):
    return float(np.sqrt(np.mean((np.asarray(filled) - X)[hidden] ** 2)))


def by_lines(Y):
    return pd.DataFrame(Y).interpolate(limit_direction="both").to_numpy()


def test_what_stays_on_one_side_is_no_order():
    """A sensor that reads too much for a while goes on from step to step as a process does."""
    rng = np.random.default_rng(3)
    t = np.linspace(0, 6, 120)
    X = rng.uniform(0.2, 1, (40, 2)) @ np.stack([np.ones_like(t), np.sin(t)])
    Y = X + 0.05 * rng.standard_normal(X.shape)
    for row in Y:
        begin = rng.integers(0, 90)
        row[begin : begin + 24] += rng.uniform(0.2, 1.0)
    found = lrmc.solve(Y, rank=2, outliers="positive")
    assert found.beyond == ()
    off = [np.sqrt(np.mean((Z - X) ** 2)) for Z in (found.completed(), Y)]
    assert off[0] < 0.6 * off[1]


DATES = {
    "dates": pd.date_range("2024-03-01", periods=STEPS, freq="h"),
    "months as periods": pd.period_range("2001-01", periods=STEPS, freq="M"),
    "seconds since": pd.timedelta_range(0, periods=STEPS, freq="s"),
}


@cache
def unaware():
    """What is filled in without time."""
    return lrmc.RobustImputer(time=None).fit_transform(spoilt(walks())[0])


@pytest.mark.parametrize("index", DATES.values(), ids=DATES)
def test_an_index_of_times_tells_the_imputer(index):
    X = walks()
    Y, hidden = spoilt(X)
    imputer = lrmc.RobustImputer()
    filled = imputer.fit_transform(pd.DataFrame(Y, index))
    assert error(filled, X, hidden) < error(by_lines(Y), X, hidden)
    assert error(filled, X, hidden) < 0.2 * error(unaware(), X, hidden)


@pytest.mark.parametrize("transposed", [False, True])
def test_order_is_found_on_either_side(transposed):
    X = walks()
    Y, hidden = spoilt(X)
    result = lrmc.solve(Y.T if transposed else Y)
    assert result.evidence["time"]["axis"] == ("columns" if transposed else "rows")
    filled = result.completed()
    filled = filled.T if transposed else filled
    assert error(filled, X, hidden) < error(by_lines(Y), X, hidden)


def households(seed=0, each=8, count=100, columns=5):
    """People one after another, those of a household alike, but not nearly the same."""
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.normal(size=(count, columns)), each, axis=0)
    return shared + rng.normal(size=shared.shape)


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_and_columns_that_are_alike_beyond_chance_have_an_order(transposed):
    """Neighbors differ by three quarters of what any two do: neither side is smooth."""
    X = households()
    Y = spoilt(X.T if transposed else X)[0]
    assert _axis(Y, Asked()) == ("columns" if transposed else "rows")
    shuffled = X[np.random.default_rng(1).permutation(len(X))]
    assert _axis(spoilt(shuffled.T if transposed else shuffled)[0], Asked()) is None


def test_rows_without_order_are_left_alone():
    X = walks()[np.random.default_rng(3).permutation(STEPS)]
    Y, _ = spoilt(X)
    assert "time" not in lrmc.solve(Y).evidence


def test_later_rows_are_next_if_their_dates_are():
    X = walks(STEPS + 20)
    index = pd.date_range("2024-03-01", periods=len(X), freq="h")
    Y, hidden = spoilt(X)
    table = pd.DataFrame(Y, index)
    imputer = lrmc.RobustImputer().fit(table[:STEPS])
    later = table[STEPS:]
    filled = imputer.transform(later)
    next_steps = error(filled, X[STEPS:], hidden[STEPS:])
    elsewhere = later.set_axis(later.index + pd.Timedelta("400D"))
    alone = error(imputer.transform(elsewhere), X[STEPS:], hidden[STEPS:])
    assert next_steps < 0.5 * alone
    # no dates, no time
    assert np.isfinite(imputer.transform(later.to_numpy())).all()


def test_shuffled_dates_do_no_harm():
    X = walks()
    Y, hidden = spoilt(X)
    index = pd.date_range("2024-03-01", periods=STEPS, freq="h")
    order = np.random.default_rng(2).permutation(STEPS)
    table = pd.DataFrame(Y, index).iloc[order]
    imputer = lrmc.RobustImputer()
    filled = imputer.fit_transform(table[:100])
    assert error(filled, X[order[:100]], hidden[order[:100]]) < 1
    assert np.isfinite(imputer.transform(table[100:])).all()


BAD = {
    "all the same": pd.to_datetime(["2020-01-01"] * STEPS),
    "some are no time": pd.to_datetime([None, *DATES["dates"][1:]]),
}


@pytest.mark.parametrize("index", BAD.values(), ids=BAD)
def test_dates_that_make_no_clock_are_left_out_and_said(index):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(STEPS, 2)) @ rng.normal(size=(2, 8))
    Y, _ = spoilt(X + 0.2 * rng.normal(size=X.shape))
    with pytest.warns(lrmc.DoubtWarning, match="dates of the table are left out"):
        result = lrmc.solve(pd.DataFrame(Y, index))
    assert np.isfinite(np.asarray(result.completed())).all()


def test_one_series_is_filled_in_time():
    X = walks(400, 1)
    Y, hidden = spoilt(X)
    index = pd.date_range("2024-03-01", periods=len(X), freq="h")
    result = lrmc.solve(pd.DataFrame(Y, index))
    assert error(result.completed(), X, hidden) < error(by_lines(Y), X, hidden)
    rows, cols = np.nonzero(hidden)
    low, high = result.interval(rows, cols, 0.9)
    assert 0.75 < np.mean((X[hidden] >= low) & (X[hidden] <= high)) <= 1


def totals(seed):
    """Columns of noise, and their totals: exact, though the table is not."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(size=(120, 12)), 0) + rng.normal(size=12) * 20
    parts = walk[:, :4].sum(1), walk[:, 4:8].sum(1), walk[:, 8:].sum(1)
    return np.column_stack([walk, *parts, walk.sum(1)])


@pytest.mark.parametrize("seed", range(3))
def test_a_table_with_totals_is_no_exact_one(seed):
    X = totals(seed)
    X = X[np.random.default_rng(seed).permutation(len(X))]
    X = (X - X.mean(0)) / X.std(0)
    Y, hidden = spoilt(X, seed)
    result = lrmc.solve(Y)
    assert result.converged
    assert error(result.completed(), X, hidden) < 0.6


CALENDARS = {
    "months": (pd.date_range("1999-02-01", periods=40, freq="MS"), 12),
    "ends of months": (pd.date_range("1999-02-01", periods=40, freq="ME"), 12),
    "quarters": (pd.date_range("1999-02-01", periods=40, freq="QS"), 4),
    "years": (pd.date_range("1960", periods=40, freq="YS"), None),
    "weeks": (pd.date_range("1999", periods=160, freq="7D"), 52),
    "days": (pd.date_range("1999", periods=40, freq="D"), 7),
    "hours": (pd.date_range("1999", periods=60, freq="h"), 24),
}


@pytest.mark.parametrize(("index", "period"), CALENDARS.values(), ids=CALENDARS)
def test_steps_of_the_calendar_are_even(index, period):
    clock = read_clock(index, len(index))
    assert clock.is_plain
    assert clock.period == period


def test_a_month_that_is_not_there_is_a_gap():
    index = pd.date_range("1999-01-31", periods=40, freq="ME").delete(7)
    np.testing.assert_array_equal(
        read_clock(index, 39).cells, np.delete(np.arange(40), 7)
    )


def test_the_report_says_that_time_was_used():
    Y, _ = spoilt(walks())
    index = pd.date_range("2024-03-01", periods=STEPS, freq="h")
    (said,) = in_time(lrmc.solve(pd.DataFrame(Y, index)))
    assert said.startswith("The rows are times")
    assert not in_time(lrmc.solve(Y, time=None))


def test_lines_are_not_left_for_want_of_gaps():
    """Few series with few gaps: the gain is no larger than its error, and still the best guess."""
    ratios = []
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        X = 50 + np.cumsum(rng.standard_normal((120, 4)), axis=0)
        hidden = np.repeat(rng.random((15, 4)) < 0.2, 8, axis=0)
        Y = np.where(hidden, np.nan, X)
        found = lrmc.solve(Y).completed()
        ratios.append(error(found, X, hidden) / error(by_lines(Y), X, hidden))
    assert np.mean(ratios) < 1.15


def cloudy_stack(seed, side=24, dates=12):
    """Pixels x dates of a smooth scene with round clouds: gaps inside of them, outliers around."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    phases = [[rng.uniform(-0.5, 0.5, 2), rng.uniform(0, 6)] for _ in range(24)]
    waves = np.stack([np.sin(x * a + y * b + c).ravel() for (a, b), c in phases], 1)
    ground = 10 + waves @ rng.normal(size=(24, 2)) @ rng.normal(size=(2, dates))
    ground += 0.05 * rng.normal(size=ground.shape)
    beyond = np.full((side, side, dates), np.inf)  # the edge of the nearest cloud
    for date in np.repeat(np.arange(0, dates, 2), 2):
        i, j = rng.uniform(0, side, 2)
        away = np.hypot(y - i, x - j) - side / 6
        beyond[..., date] = np.minimum(beyond[..., date], away)
    beyond = beyond.reshape(-1, dates)
    Y = np.where(beyond < 2, ground + 15, ground)
    return np.where(beyond < 0, np.nan, Y), ground, beyond < 0


@pytest.mark.filterwarnings("ignore:by root mean squares")  # clouds are large
@pytest.mark.parametrize("seed", range(2))
def test_what_stands_around_gaps_is_not_filled_in(seed):
    """Pixels along a raster are smooth, and lines between the edges of a cloud are cloud."""
    Y, ground, hidden = cloudy_stack(seed)
    with pytest.warns(lrmc.DoubtWarning, match="entries beside gaps are unlike"):
        result = lrmc.solve(Y)
    assert error(result.completed(), ground, hidden) < 2


def test_medians_of_a_single_day_leave_some_noise():
    """They are its entries: nothing is left to tell noise by, and it is a divisor."""
    Y = np.random.default_rng(0).normal(size=(30, 1, 5))
    assert first_model(Y, np.full(Y.shape, True)).noise > 0


@pytest.mark.parametrize("score", ["auto", "rmse"])
def test_medians_are_no_order(score):
    """Of answers that are coded as columns of 0 and 1 most entries are their median, however a
    median filter goes along them."""
    rng = np.random.default_rng(1)
    F = rng.normal(size=(80, 2))
    made = [F @ rng.normal(size=(2, 4)) + rng.normal(size=(80, 4)) for _ in range(15)]
    X = np.hstack([np.eye(4)[Z.argmax(1)] for Z in made])
    gaps = rng.random(X.shape) < 0.2
    Y = np.where(gaps, np.nan, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrmc.DoubtWarning)
        answer = lrmc.solve(Y, score=score).completed()
    means = np.broadcast_to(np.nanmean(Y, 0), X.shape)
    assert np.square(answer - X)[gaps].mean() < 0.9 * np.square(means - X)[gaps].mean()


@pytest.mark.parametrize("seen", [1.0, 0.9])
def test_outliers_that_lie_beside_each_other_are_no_order(seen):
    """Three rows have the same clouds: what is hidden of one the next tells."""
    rng = np.random.default_rng(1)
    X = np.abs(rng.standard_normal((600, 3))) @ np.abs(rng.standard_normal((3, 40)))
    clouds = (rng.random((200, 40)) < 0.2) * rng.uniform(0, 3, (200, 40))
    Y = X + 0.05 * rng.standard_normal(X.shape) + np.repeat(clouds, 3, axis=0)
    Y = np.where(rng.random(Y.shape) < seen, Y, np.nan)
    result = lrmc.solve(Y)
    assert result.evidence["time"]["gain"] > 0
    error = np.abs(result.completed() - X)
    assert np.sqrt(np.mean(error**2)) < 0.06

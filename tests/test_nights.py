"""Nights that a table leaves out: the last slot of a day and the first of the next."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from times import P, hidden, rmse, seasonal

from lrmc.methods.in_time.clock import read_clock, without_nights
from lrmc.methods.in_time.improve import Asked, clock_of
from lrmc.methods.in_time.nights import Nights, between, find_nights
from lrmc.methods.in_time.plan import learn_plan
from lrmc.methods.in_time.processes import Process, folded
from lrmc.methods.in_time.sweeps import fit

SLOTS, DAYS = 12, 40


def opened(seed=0, sensors=8, days=DAYS):
    """Sensors that walk by day and begin anew every morning."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.standard_normal((sensors, days, SLOTS)), axis=2)
    morning = 8 * rng.standard_normal((sensors, days, 1))
    return (50 + morning + walk).reshape(sensors, -1)


def by_day(first=8, days=DAYS, begin=0):
    """So many hours of each day, from one on."""
    hours = np.arange(first, first + SLOTS) + 24 * np.arange(days)[:, None]
    return np.datetime64("2024-03-01T00") + hours.ravel()[begin:]


@pytest.mark.parametrize("first", [0, 5])
def test_times_are_spread_and_gathered_again(first):
    nights = Nights(SLOTS, first, steps=3)
    x = np.arange(4.0 * SLOTS)[None]
    wide = nights.spread(x)
    assert_array_equal(nights.gathered(wide, x.shape[1]), x)
    at = np.flatnonzero(np.isnan(wide[0]))
    assert len(at) == 3 * (4 if first else 3)
    day = first or SLOTS
    assert_array_equal(at[:3], np.arange(day, day + 3))
    assert wide[0, at[2] + 1] == day  # the morning after


@pytest.mark.parametrize("begin", [0, 5])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_nights_are_found_where_they_are(begin, share):
    Y = hidden(opened(), 0.3)[0][:, begin:]
    Y = np.where(hidden(Y, share, seed=2)[1] & ~np.isnan(Y), 0.0, Y)  # gross errors
    found = find_nights(Y, SLOTS)
    assert found is not None
    assert found.first == (SLOTS - begin) % SLOTS
    assert found.steps >= 4


@pytest.mark.parametrize("seed", range(5))
def test_no_nights_where_there_are_none(seed):
    assert find_nights(hidden(seasonal(seed)[1])[0], P) is None
    noise = np.random.default_rng(seed).standard_normal((3, 60))
    assert find_nights(noise, SLOTS) is None
    assert find_nights(noise, None) is None


def test_no_nights_where_no_steps_follow_each_other():
    Y = opened()
    Y[:, ::2] = np.nan
    assert find_nights(Y, SLOTS) is None


def test_a_line_takes_its_time_at_night():
    Y = np.array([[0.0, 1.0, 2.0, 3.0]])
    assert between(Y, None)[0, 1] == 1.0
    assert between(Y, Nights(2, 0, steps=2))[0, 1] == pytest.approx(0.5)


def test_the_end_of_a_day_is_not_joined_to_the_next_morning():
    truth = opened(seed=3).astype(np.float32)
    Y, mask = hidden(truth, 0.15)
    slot = np.arange(Y.shape[1]) % SLOTS
    beside = mask & np.isin(slot, (0, SLOTS - 1))

    def missed(nights):
        p = Process(None, False, nights)
        model = fit(p.days_of(Y), robust=False)
        return rmse(p.times_of(model.values(), Y.shape[1]), truth, beside)

    assert missed(find_nights(Y, SLOTS)) < 0.7 * missed(None)


def test_a_plan_has_nights(monkeypatch):
    monkeypatch.setattr("lrmc.methods.in_time.trials.MOST_TRIALS", 1)
    Y = hidden(opened(sensors=3, days=12), 0.2)[0].astype(np.float32)
    plan = learn_plan(Y, SLOTS, None)
    assert plan.nights == find_nights(Y, SLOTS)
    assert plan.plain()["nights"] > 0
    assert all((p.nights is None) == (p.period is not None) for p in plan.models)


@pytest.mark.parametrize("begin", [0, 5])
def test_dates_leave_out_the_slots_that_no_day_has(begin):
    clock = without_nights(read_clock(by_day(begin=begin), DAYS * SLOTS - begin))
    assert clock.period == SLOTS
    assert clock.is_plain
    times = np.delete(by_day(), [3, 40])
    gone = without_nights(read_clock(times, len(times)))
    assert_array_equal(gone.cells, np.delete(np.arange(DAYS * SLOTS), [3, 40]))


def test_slots_that_are_missing_by_chance_stay():
    rng = np.random.default_rng(0)
    some = np.sort(rng.permutation(72)[:40])  # of three days
    times = np.datetime64("2024-03-01T00") + some
    clock = read_clock(times, len(times))
    assert without_nights(clock).period == clock.period == 24


def test_a_period_that_was_given_is_counted_by_the_clock():
    times = by_day(days=10)
    for period, want in ((24, 24), ("auto", SLOTS)):
        asked = Asked("columns", period, times)
        assert clock_of(asked, len(times)).period == want


def test_lengths_without_a_period_are_fast_ones():
    Y = np.ones((2, 997), np.float32)
    days = folded(Y, None)
    assert days.shape == (2, 1, 1000)
    assert_array_equal(Process(None, True).times_of(days, 997), Y)

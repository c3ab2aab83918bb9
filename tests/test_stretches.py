"""Entries that were seen in stretches of sensors: whole stretches are set aside."""

import numpy as np
import pytest
from real_data import DATA

import lrmc
from lrmc.methods.in_time import improve
from lrmc.methods.in_time.gaps import gaps_elsewhere, in_stretches, runs

SHAPE = 60, 300


def passing(rng, share=0.6):
    """What some cars see that pass all sensors in stretches, other ones at each time."""
    seen = np.zeros(SHAPE, bool)
    for t in range(SHAPE[1]):
        borders = np.sort(rng.choice(SHAPE[0], 6, replace=False))
        for k, part in enumerate(np.split(np.arange(SHAPE[0]), borders)):
            seen[part, t] = rng.random() < share if k else False
    return seen


def by_chance(rng):
    return rng.random(SHAPE) < 0.5


def days_of_sensors(rng):
    return np.repeat(rng.random((SHAPE[0], 10)) < 0.6, 30, axis=1)


def all_at_once(rng):
    some = np.repeat(rng.random(50) < 0.7, 6)
    return np.broadcast_to(some, SHAPE).copy()


def groups_at_once(rng):
    """Groups of neighboring sensors that fail for a while."""
    return np.repeat(np.repeat(rng.random((6, 30)) < 0.7, 10, axis=0), 10, axis=1)


def test_stretches_are_told_by_the_mask():
    rng = np.random.default_rng(0)
    assert in_stretches(passing(rng))
    assert not in_stretches(np.ones(SHAPE, bool))


@pytest.mark.parametrize(
    "mask", [by_chance, days_of_sensors, all_at_once, groups_at_once]
)
def test_other_gaps_are_no_stretches(mask):
    assert not in_stretches(mask(np.random.default_rng(0)))


def test_a_stretch_is_set_aside_as_a_whole():
    seen = passing(np.random.default_rng(0))
    held = gaps_elsewhere(seen, seed=0)
    assert 0.05 * seen.sum() < held.sum() < 0.2 * seen.sum()
    assert not (held & ~seen).any()
    times, begins, lengths = runs(seen.T)
    for t, begin, length in zip(times, begins, lengths, strict=True):
        assert len(np.unique(held[begin : begin + length, t])) == 1


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
def test_intervals_of_a_road_know_that_cars_differ():
    with np.load(DATA / "traffic" / "ngsim_speed_field.npz") as fields:
        Y, full = fields["speed_80missing"], fields["speed_full"]
    missing = np.isnan(Y) & ~np.isnan(full)
    low, high = lrmc.solve(Y).interval(*np.nonzero(missing), level=0.9)
    value = full[missing]
    assert 0.86 < np.mean((low <= value) & (value <= high)) < 0.94


def test_a_part_without_a_plan_of_its_own_takes_that_of_all(monkeypatch):
    def none(*_):
        raise np.linalg.LinAlgError("no process in time fits these data")

    rng = np.random.default_rng(0)
    Y = np.cumsum(rng.standard_normal((6, 120)), axis=1)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    result = lrmc.solve(Y, time="columns", period=None)
    assert result.refit.timing.plan.is_of_few
    monkeypatch.setattr(improve, "learn_plan", none)
    low, high = result.interval([0], [5])
    assert low < high

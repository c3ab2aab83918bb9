"""Dates of which nothing but shadow is left."""

import numpy as np
import pytest

from lrmc.apps import clouds
from lrmc.apps.clouds import learn
from lrmc.apps.clouds.ground import CLEAR, Sample
from lrmc.apps.clouds.screen import Screened, _as_shadow, screened
from lrmc.apps.clouds.shades import shades, without_overcast

RED, INFRARED = 2, 3
LEAVES = np.array([300.0, 500.0, 300.0, 3500.0])


def forest(T=12, side=20, seed=0):
    """T x 4 x side x side: leaves whose infrared changes a little from date to date."""
    rng = np.random.default_rng(seed)
    pixels = LEAVES[:, None, None] * rng.uniform(0.7, 1.3, (4, side, side))
    dates = rng.uniform(0.92, 1.08, (T, 1, 1, 1))
    return pixels * dates + rng.normal(0, 10, (T, 4, side, side))


def darkened(Y, dates, light=0.35, haze=80.0):
    """The same with some dates in a shadow, under a little haze."""
    Y = Y.copy()
    Y[dates] = light * Y[dates] + haze
    return Y


def found(Y, there=None, given=None):
    """Of dates ten days apart: numbers of those that are sure, unsure, bright."""
    there = np.ones((len(Y), *Y.shape[2:]), bool) if there is None else there
    days, sample = 10.0 * np.arange(len(Y)), Sample(Y, there, None)
    answer = shades(sample, days, sample.share if given is None else given)
    kinds = (answer.sure, answer.unsure | answer.scarce, answer.bright)
    return [np.flatnonzero(one).tolist() for one in kinds]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("dark", [[], [5], [4, 5, 6], [2, 5, 6, 9]])
def test_shadows_are_found_and_nothing_else(dark, seed):
    assert found(darkened(forest(seed=seed), dark)) == [dark, [], []]


@pytest.mark.parametrize("factor", [1e-4, 0.02])
def test_units_do_not_matter(factor):
    assert found(darkened(forest(), [4, 5]) * factor)[0] == [4, 5]


def test_haze_before_and_after_is_no_shadow_between():
    Y = forest()
    Y[[3, 5]] += 400
    assert found(Y)[:2] == [[], []]


def test_leaves_that_fall_are_no_shadow():
    """Darker in the infrared, brighter in red: not a word."""
    Y = forest()
    for t in (5, 11):
        Y[t, INFRARED] *= 0.5
        Y[t, RED] *= 2
    assert found(Y) == [[], [], []]


def test_spring_between_clouds_and_summer_is_no_shadow():
    """Darker than both in the infrared, but as red as before leaves came: not a cloud's shadow."""
    Y = forest()
    Y[5:] += 200 * np.array([0, 0, -1, 0])[:, None, None]
    Y[4, INFRARED] *= 0.6
    Y[:4] += 1000
    assert found(Y)[0] == []
    Y[4, RED] *= 0.4
    assert found(Y)[0] == [4]


def test_ground_beside_a_shadow_that_the_screen_took_for_it(monkeypatch):
    """It is as far above the shadow as clouds are; without the shadow it is found."""
    Y = forest(T=9)
    Y[4, :, :10] = darkened(Y, [4])[4, :, :10]
    shadow = np.zeros((9, 20, 20), bool)
    shadow[4, :10] = True

    def darkest(sample, *_):
        hidden = ~shadow & shadow.any((1, 2))[:, None, None]
        return all_left(sample.without(hidden & (sample.there & shadow).any()))

    monkeypatch.setattr(learn, "screened", darkest)
    sample = Sample(Y, np.ones((9, 20, 20), bool), None)
    days = 10.0 * np.arange(9)
    found, _, covered = learn._shown(sample, days, sample.share, lenient=False)
    assert not covered.any()
    assert np.array_equal(~found.left.there, shadow)
    # Where there is none, the date shows nothing.
    sample = sample.without(~shadow & shadow.any((1, 2))[:, None, None])
    _, _, covered = learn._shown(sample, days, np.ones(9), lenient=False)
    assert np.flatnonzero(covered).tolist() == [4]


def test_a_season_that_goes_on_is_no_shadow():
    """A fifth of the light goes from date to date: each is without the contrast of the one before, but
    brighter than the next, and the last tells of the one before it.
    """
    Y = np.repeat(forest(T=1), 12, axis=0)
    Y[4:] *= (0.8 ** np.arange(1, 9))[:, None, None, None]
    assert found(Y) == [[], [], []]


def test_ends_of_a_series_are_only_named():
    """A shadow takes the contrast of every band; a season that begins does not."""
    Y = darkened(forest(), [0, 11])
    assert found(Y) == [[], [0, 11], []]
    Y = forest()
    Y[[0, 11]] -= 0.4 * LEAVES[:, None, None]
    assert found(Y) == [[], [], []]
    there = np.ones((12, 20, 20), bool)
    there[11, 4:] = False
    assert found(Y, there) == [[], [], []]  # by masks: these know of shadows
    assert found(Y, there, np.ones(12)) == [[], [11], []]  # by clouds that were found


def test_a_shadow_as_a_season_ends():
    """As dark as the dates after it, but without their contrast."""
    Y = forest()
    Y[6:, RED] *= 1.5
    Y[6:, INFRARED, :, :12] *= 0.3  # leaves fall, needles do not
    dark = darkened(Y, [5], light=0.4)
    assert found(dark) == [[5], [], []]
    assert found(Y)[0] == []


def test_bright_dates_are_named_and_do_not_tell():
    Y = darkened(forest(), [6])
    Y[[2, 7]] += 3000
    assert found(Y) == [[6], [], [2, 7]]


def overcast(Y, dates, share, seed=0):
    """The same with clouds over a share of some dates."""
    rng = np.random.default_rng(seed)
    Y = Y.copy()
    lines = round(share * Y.shape[2])
    Y[dates, :, :lines] = rng.uniform(5000, 8000, (len(dates), 4, lines, Y.shape[3]))
    return Y


def taken_out(Y):
    """T x side x side: what is left out before anything is learned."""
    there = np.ones((len(Y), *Y.shape[2:]), bool)
    left = without_overcast(Sample(Y, there, None), 10.0 * np.arange(len(Y)))
    return ~left.there


@pytest.mark.parametrize("dates", [[], [3], [3, 4], [1, 5, 6, 10]])
def test_clouds_over_most_of_a_date_are_taken_out(dates):
    """Beside dates with snow at the end, which are as bright, and last."""
    Y = overcast(forest(), dates, 0.7)
    Y[9:] += 2000
    out = taken_out(Y)[:9]
    truth = np.zeros_like(out)
    truth[[t for t in dates if t < 9], :14] = True
    assert np.array_equal(out, truth)


def test_what_is_overcast_is_no_season():
    """Leaves that come are brighter in one band, and snow that stays is no cloud."""
    leaves, snow = forest(), forest()
    leaves[4:7, INFRARED] *= 2.5
    snow[5:] += 3000
    assert not taken_out(leaves).any()
    assert not taken_out(snow).any()


def test_what_is_no_light_has_no_shadow():
    assert found(forest() - 5000) == [[], [], []]
    assert not taken_out(overcast(forest(), [4], 0.7) - 20000).any()


def test_ground_between_clouds_and_their_shadow():
    """Three such dates in a row: filled as bright as before and after."""
    truth = forest(seed=4)
    Y = darkened(truth, [5, 6, 7])
    Y[5:8, :, :12] = np.random.default_rng(0).uniform(5000, 8000, (3, 4, 12, 20))
    done = clouds.remove_clouds(Y.astype(np.uint16), dates=10 * np.arange(12))
    assert not done.warnings
    assert done.ground.estimated[5:8].all()
    assert not np.any(done.mask[5:8] == CLEAR)
    level = np.median(done.scenes[5:8] / truth[5:8], axis=(2, 3))
    np.testing.assert_allclose(level, 1, atol=0.15)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_date_that_lies_in_a_shadow_in_part(seed):
    """Clouds over most of it, and a shadow over nearly half of the rest: what is left is ground."""
    Y = overcast(forest(T=8, seed=seed), [4], 0.6, seed)
    Y[4, :, 12:15] = darkened(Y, [4])[4, :, 12:15]
    there = np.ones((8, 20, 20), bool)
    left, shadow, _ = screened(Sample(Y, there, None), 10.0 * np.arange(8))
    truth = np.zeros((2, 8, 20, 20), bool)
    truth[0, 4, :12], truth[1, 4, 12:15] = True, True
    assert np.array_equal(~left.there, truth[0])
    assert np.array_equal(shadow, truth[1])


def all_left(sample):
    """By a screen that finds nothing."""
    return Screened(sample, *np.zeros((2, *sample.there.shape), bool))


def test_a_cloudy_date_may_hide_another_one(monkeypatch):
    """The next is found once the one before is gone, and the screen was run again."""
    cloudy = (1, 4, 6)

    def brightest_only(sample, days):
        hidden = np.zeros(sample.there.shape, bool)
        for t in [t for t in cloudy if sample.there[t].any()][:1]:
            hidden[t] = True
        return sample.without(hidden)

    monkeypatch.setattr(learn, "screened", lambda sample, *_: all_left(sample))
    monkeypatch.setattr(learn, "without_overcast", brightest_only)
    sample = Sample(forest(T=8), np.ones((8, 20, 20), bool), None)
    found = learn._without_clouds(sample, np.arange(8.0), lenient=False)
    assert np.flatnonzero(found.left.share == 0).tolist() == list(cloudy)


def test_a_shadow_takes_as_much_of_the_brightest_band():
    """The ground beside a cloud that is taken for ground is darkest in bands in which it is dark."""
    ground = np.array([[300.0], [500.0], [3000.0]])
    cloud = np.array([[2300.0], [2400.0], [4500.0]])
    assert _as_shadow(0.4 * ground, ground).all()
    assert _as_shadow(0.4 * ground + 100, ground).all()  # with haze
    assert not _as_shadow(ground, cloud).any()


def leafless(Y, dates, share=0.7):
    """The same in spring: most pixels have lost much of their light, others hardly any."""
    Y = Y.copy()
    bare = np.random.default_rng(7).random(Y.shape[2:]) < share
    Y[dates] *= np.where(bare, 0.6, 0.9)
    return Y


def test_dark_dates_that_tell_of_those_beside_them_are_ground():
    """Leafless ground is dark and flat between summers, as a shadow is, but so are the dates beside it:
    a line predicts these better with it.
    """
    Y = np.repeat(forest(T=1), 9, axis=0)
    spring = leafless(Y, [4])
    for beside in (3, 5):
        spring[beside] = 0.5 * (spring[4] + Y[beside])
    assert found(darkened(Y, [4]))[0] == [4]
    assert found(spring)[:2] == [[], []]

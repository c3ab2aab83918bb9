"""Haze that is darker than leaves in the infrared, ground that hardly any date shows, and what is told."""

from types import SimpleNamespace

import numpy as np
import pytest

from lrmc._work import SOUND
from lrmc.apps import clouds
from lrmc.apps.clouds import learn, model
from lrmc.apps.clouds.ground import CLEAR, CLOUD, Sample
from lrmc.apps.clouds.screen import screened
from lrmc.apps.outcome import Limits

LEAVES = np.array([300.0, 500.0, 300.0, 3500.0])
HAZE = np.array([2500.0, 2400.0, 2400.0, 2200.0])
DAYS = 10.0 * np.arange(8)


def forest(T=8, side=20, seed=0, apart=0.3):
    """T x 4 x side x side: leaves that change a little from date to date."""
    rng = np.random.default_rng(seed)
    pixels = LEAVES[:, None, None] * rng.uniform(1 - apart, 1 + apart, (4, side, side))
    dates = rng.uniform(0.92, 1.08, (T, 1, 1, 1))
    return pixels * dates + rng.normal(0, 10, (T, 4, side, side))


def hazy(Y, t, lines):
    """The same with haze over the first lines of a date: a third of the way to its colour."""
    Y = Y.copy()
    Y[t, :, :lines] += (HAZE[:, None, None] - Y[t, :, :lines]) / 3
    return Y


def test_a_lenient_screen_finds_haze_over_leaves():
    """It is brighter in what is dark, and darker in the infrared; a strict one asks for no band below."""
    sample = Sample(hazy(forest(), 4, 12), np.ones((8, 20, 20), bool), None)
    strict, lenient = (screened(sample, DAYS, one) for one in (False, True))
    assert np.array_equal(strict.left.there, sample.there)
    haze = np.zeros(sample.there.shape, bool)
    haze[4, :12] = True
    assert np.array_equal(~lenient.left.there, haze)
    assert np.array_equal(strict.maybe, haze)


def learning(lenient, likely):
    """What was learned by a screen."""
    judged = SimpleNamespace(clear=np.ones((8, 2, 2), bool))
    return learn.Learned(None, None, judged, np.zeros(8, bool), likely, lenient)


@pytest.mark.parametrize(
    ("promised", "gain", "agreed", "taken"),
    [
        (0.1, 0.1, 1.1, True),
        (0.01, 0.1, 1.1, False),
        (0.1, -0.1, 1.1, False),
        (0.1, 0.1, 0.9, False),
    ],
)
def test_a_lenient_screen_is_believed_where_it_tells_more(
    monkeypatch, promised, gain, agreed, taken
):
    """Of all that was seen on average, and of what both call clear."""
    likely = np.ones((8, 2, 2), bool)
    likely[3] = False
    strict, lenient = learning(False, likely), learning(True, likely)
    monkeypatch.setattr(learn, "_learned", lambda *_, **asked: lenient)
    monkeypatch.setattr(learn, "_gains_without", lambda *_: np.full(8, promised))
    monkeypatch.setattr(learn, "gains", lambda *_: np.full(8, gain))
    monkeypatch.setattr(learn, "agreed", lambda *_: agreed)
    sample = Sample(np.ones((8, 1, 2, 2)), likely, None)
    assert learn._without_haze(sample, strict, None).lenient == taken
    nothing = learning(False, np.ones_like(likely))
    assert learn._without_haze(sample, nothing, None) is nothing


def test_water_that_one_date_shows_is_no_shadow():
    """Masks took it for a shadow on all others: nothing says that it is bright there."""
    Y, seen = forest(apart=0.1), np.ones((8, 20, 20), bool)
    seen[:, 5, 5] = False
    seen[3, 5, 5] = True
    Y[3, :, 5, 5] = 200, 190, 180, 150
    done = clouds.remove_clouds(Y.astype(np.uint16), seen, dates=DAYS)
    assert done.mask[3, 5, 5] == CLEAR
    assert np.all(done.scenes[:, 3, 5, 5] < 500)


def test_a_cloud_that_one_date_shows_is_a_cloud():
    Y, seen = forest(), np.ones((8, 20, 20), bool)
    seen[:, 5, 5:8] = False
    seen[3, 5, 5:8] = True
    Y[3, :, 5, 5:8] = 8000
    done = clouds.remove_clouds(Y.astype(np.uint16), seen, dates=DAYS)
    assert np.all(done.mask[3, 5, 5:8] == CLOUD)


def test_pixels_that_nobody_called_missing_are_told():
    """0 in all bands over a tenth of a date; not where a value is named for it, or in one band only."""
    Y = forest().astype(np.uint16)
    Y[2, :, :2] = 0
    with pytest.warns(UserWarning, match="scenes 3: many pixels are 0"):
        clouds.remove_clouds(Y, dates=DAYS)
    Y[2, 1:, :2] = 300
    for values, nodata in ((forest().astype(np.uint16), None), (Y, None), (Y, 0)):
        said = clouds.remove_clouds(values, nodata=nodata, dates=DAYS).warnings
        assert not any("many pixels" in text for text in said)


def test_dates_that_are_cloud_by_what_was_learned_are_guessed():
    """Pages and tables say so of them, too."""
    few, hidden = np.array([1, 0, 0], bool), np.array([1, 1, 0], bool)
    filling = SimpleNamespace(ways=SimpleNamespace(hidden=hidden))
    nothing = [None] * 6
    ground = clouds.ground.Ground(*nothing, few, filling=filling)
    assert ground.guessed.tolist() == [True, True, False]
    assert clouds.ground.Ground(*nothing, few).guessed.tolist() == [True, False, False]


def test_a_few_values_that_were_clipped_are_not_worth_a_word():
    limits = Limits(np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    assert not model.held(SOUND, 1, 10_000, limits).warnings
    with pytest.warns(UserWarning, match="clipped"):
        assert model.held(SOUND, 100, 10_000, limits).warnings

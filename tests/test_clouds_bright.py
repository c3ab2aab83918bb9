"""Series of which clouds are most of what was seen, and no mask says so."""

from types import SimpleNamespace

import numpy as np
import pytest

from lrmc._work import SOUND
from lrmc.apps.clouds import contest, learn, remove_clouds
from lrmc.apps.clouds.bright import (
    Judged,
    agreed,
    bright_limit,
    convincing,
    gaining,
    gains,
    outshines,
)
from lrmc.apps.clouds.ground import Sample
from lrmc.apps.clouds.shades import Shades

SHARES = (1.0, 0.6, 0.5, 0.7, 1.0, 0.7, 0.3, 0.6)  # of each date, under clouds


def overcast(n=16, seed=1):
    """Values, the ground, and where it is covered."""
    rng = np.random.default_rng(seed)
    T, bands = len(SHARES), 4
    level = np.array([300, 500, 400, 2500])[:, None, None]
    season = np.linspace(0.8, 1.2, T)[:, None, None, None]
    noise = 0.02 * rng.standard_normal((T, bands, n, n))
    ground = level * rng.uniform(0.5, 1.5, (bands, n, n)) * season * (1 + noise)
    y, x = np.mgrid[:n, :n] / n
    covered = np.zeros((T, n, n), bool)
    for t, share in enumerate(SHARES):
        turn = rng.uniform(0, 2 * np.pi)
        across = np.cos(turn) * x + np.sin(turn) * y
        covered[t] = across <= np.quantile(across, share)
    light = 6000 + 2500 * np.sin(3 * x + 2 * y + np.arange(T)[:, None, None])
    clouds = light[:, None] * (1 + 1.5 * noise)
    return np.where(covered[:, None], clouds, ground), ground, covered


def test_clouds_over_most_of_a_series_are_not_its_ground():
    data, ground, covered = overcast()
    data[2, :, :2] = np.nan
    with pytest.warns(UserWarning, match="bright in all bands was taken for cloud"):
        done = remove_clouds(data)
    seen = done.mask != 2
    assert np.mean((done.mask == 1)[seen] == covered[seen]) > 0.99
    off = np.abs(done.scenes - ground)
    assert np.median(off) < 50  # of 2500; 4000 where clouds are taken for ground


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_whatever_the_clouds(seed):
    data, _, covered = overcast(seed=seed)
    with pytest.warns(UserWarning, match="bright in all bands was taken for cloud"):
        done = remove_clouds(data.astype(np.uint16))
    assert np.mean((done.mask == 1) == covered) > 0.99


def test_a_bright_ground_is_believed():
    """Sand has half of the pixels: it is bright, and tells of itself on other dates."""
    _, ground, covered = overcast()
    ground[..., :8] += 5000
    data = np.where(
        covered[:, None] & (np.arange(8) == 6)[:, None, None, None], 9000, ground
    )
    done = remove_clouds(data.astype(np.uint16))
    assert done.ground.bright is None
    clear = np.ones_like(covered)
    clear[6] = ~covered[6]
    assert np.mean((done.mask == 0) == clear) > 0.99


def test_the_light_between_two_groups():
    rng = np.random.default_rng(0)
    Y = rng.uniform(100, 300, (3, 2, 10, 10))
    Y[1, :, :5] += 5000
    Y[2, 0] += 5000  # bright in one band: leaves
    limit = bright_limit(Y, np.ones((3, 10, 10), bool), 0.5)
    assert 300 < limit < 5100
    found = outshines(Y, np.array([limit, limit, limit]))
    assert found[1, :5].all()
    assert not found[0].any()
    assert not found[2].any()
    assert not outshines(Y, np.array([limit, np.inf, limit])).any()


def said(values, clear):
    """Of a series: what is predicted of it, whatever is clear."""
    filling = SimpleNamespace(predicted=lambda y, clear: values, least=0.5)
    return Judged(filling, clear)


def test_what_is_called_a_cloud_has_a_price():
    """Else the strictest mask would win: what is left is predicted well by any."""
    rng = np.random.default_rng(0)
    Y = rng.uniform(0, 1000, (2, 1, 10, 10))
    every = np.ones((2, 10, 10), bool)
    near = Y.reshape(2, 1, -1) + 10
    some = every.copy()
    some[0, :5] = False
    gain = gains(Y, every, said(near, every), said(near, some))
    assert gain[0] < -1
    assert gain[1] == pytest.approx(0)
    # Clouds that are not predicted cost nothing more, and what is left is told better.
    far = near.copy()
    far[0, :, :50] += 5000
    far[0, :, 50:] += 500
    gain = gains(Y, every, said(far, every), said(near, some))
    assert gaining(gain).tolist() == [True, False]
    assert agreed(Y, said(far, every), said(near, some)) > 2
    assert convincing(gain, 1.0)
    assert not convincing(-gain, 1.0)
    assert convincing(-gain, 5.0)


def test_dates_of_which_the_others_tell_something_are_not_named():
    """Dates 1 and 2 are dark between clouds, 3, 4 and 6 far worse predicted than others; of 1, 3 and 6, one
    value for all pixels says as much. Clouds were found on 6. Of date 5, what is bright may be cloud.
    """
    rng = np.random.default_rng(0)
    Y = rng.uniform(0, 1000, (6, 1, 10, 10))
    clear, none = np.ones((6, 10, 10), bool), np.zeros(6, bool)
    all_seen = clear.copy()
    near = Y.reshape(6, 1, -1) + 10
    near[[0, 2, 5]] += 2000
    clear[5, 0] = False
    judged = said(near, clear)
    judged.filling.doubtful = np.array([0, 0, 1, 1, 0, 1], bool)
    judged.filling.ways = SimpleNamespace(hidden=none)
    assert (judged.untold(Y) > 1).tolist() == [True, False, True, False, False, True]
    dark = Shades(none, none, np.array([1, 1, 0, 0, 0, 0], bool), none)
    undecided = np.array([0, 0, 0, 0, 1, 0], bool)
    ground = SimpleNamespace(outcome=SOUND, bright=None, estimated=none)
    learned = learn.Learned(ground, dark, judged, undecided, clear, lenient=False)
    with pytest.warns(UserWarning, match="scenes"):
        told = learn._warned(learned, Sample(Y, all_seen, None), masked=False)
    assert [text.split(":")[0] for text in told.warnings] == ["scenes 3, 5", "scenes 1"]
    # Nothing of the second is believed: whether it looked like ground before.
    judged.filling.ways.hidden = np.array([0, 1, 0, 0, 0, 0], bool)
    for named in (True, False):
        learned.likely[1, 1:] = named
        with pytest.warns(UserWarning, match="scenes"):
            told = learn._warned(learned, Sample(Y, all_seen, None), masked=False)
        assert any("a part looks like ground" in one for one in told.warnings) == named


def test_dates_are_doubtful_beside_the_one_that_is_told_best():
    """Most of a series may have clouds that were not found: what is typical is no yardstick."""
    nothing = SimpleNamespace(hidden=np.array([0, 0, 0, 0, 1], bool))
    error = np.array([[10.0, 30], [100, 300], [20, 60], [100, 300], [900, 900]])
    filling = contest.Filling(nothing, None, error, None, 0.5)
    assert filling.doubtful.tolist() == [False, True, False, True, False]

"""Clouds: a landscape with a known answer, what is told, and real scenes."""

from pathlib import Path

import numpy as np
import pytest
from clouded import cleared_once, clouded, rmse
from each import each
from made.landscape import NODATA, landscape
from real_data import DATA

from lrmc.apps.clouds import ground as learned
from lrmc.apps.clouds import look, screen, seasons
from lrmc.apps.clouds import model as clouds
from lrmc.result import Status


@pytest.fixture(scope="module")
def scene():
    return clouded()


@pytest.fixture(scope="module")
def cleared():
    return cleared_once()


def test_the_ground_comes_back(scene, cleared):
    """Under clouds, far better than the median of the dates; noise of the scene is 12."""
    covered = (scene.clouds > 0.1)[:, None] & np.ones((1, 3, 1, 1), bool)
    covered[3], covered[8] = False, False  # dates without ground are a guess
    values = np.where(scene.data == NODATA, np.nan, scene.data.astype(float))
    median = np.broadcast_to(np.nanmedian(values, axis=0), values.shape)
    off = rmse(cleared.scenes[covered], scene.ground[covered])
    assert off < 0.5 * rmse(median[covered], scene.ground[covered])
    assert off < 120


def test_clouds_are_found_and_clear_pixels_kept(scene, cleared):
    thick, clear = scene.clouds > 0.5, cleared.mask == learned.CLEAR
    assert (
        np.mean(cleared.mask[thick & (scene.data[:, 0] != NODATA)] == learned.CLOUD)
        > 0.99
    )
    assert np.mean(cleared.mask[0] == learned.CLEAR) > 0.97  # a clear date
    assert np.array_equal(
        np.moveaxis(cleared.scenes, 1, -1)[clear], np.moveaxis(scene.data, 1, -1)[clear]
    )
    assert cleared.scenes.dtype == scene.data.dtype
    missing = (scene.data == NODATA).any(1)
    assert np.array_equal(cleared.mask == learned.MISSING, missing)
    assert not (cleared.scenes == NODATA).any()


def test_dates_without_ground_are_estimated(scene, cleared):
    assert cleared.ground.estimated[[3, 8]].all()  # nodata; overcast
    assert cleared.ground.estimated.sum() == 2
    for t in (3, 8):
        year = np.median(scene.ground, axis=0)
        assert rmse(cleared.scenes[t], scene.ground[t]) < rmse(year, scene.ground[t])
    assert (cleared.mask[8] == learned.CLOUD).mean() > 0.95


def test_bands_share_their_fate(scene):
    """A pixel is bad in all bands or in none: the mask has no bands, and one band that
    is off is enough.
    """
    data = scene.data.copy()
    data[0, 1, 20:24, 20:24] += 3000
    found = clouds.remove_clouds(data, nodata=NODATA, dates=scene.dates, rank=4)
    assert (found.mask[0, 20:24, 20:24] == learned.CLOUD).all()
    assert (
        rmse(found.scenes[0, :, 20:24, 20:24], scene.ground[0, :, 20:24, 20:24]) < 150
    )


def test_blocks_do_not_matter(scene, cleared, monkeypatch):
    monkeypatch.setattr(look, "BLOCK", 16 * 3 * 44 * 5)  # five lines at a time
    whole = look.Look(scene.data, None, NODATA, 1.0, 0)
    asked = clouds.Asked("clouds", uncertainty=False, threads=1)
    again = clouds.cleared_scenes(whole, cleared.ground, asked)
    assert np.abs(again.scenes.astype(int) - cleared.scenes).max() <= 1
    assert np.mean(again.mask != cleared.mask) < 1e-3


def test_pixels_are_fitted_as_a_naive_loop_would(cleared, scene):
    """Iterated weighed least squares, one pixel at a time, with plain numpy."""
    ground = cleared.ground
    Y, there = scene.data[:, :, :2, :3], (scene.data[:, :, :2, :3] != NODATA).all(1)
    got = learned.fit_pixels(Y, there, ground).reshape(3, 6, -1)
    R = ground.R
    for pixel in range(6):
        i, j = divmod(pixel, 3)
        seen = there[:, i, j]
        l = ground.mean.copy()
        for wider in learned.WIDER:
            e = Y[:, :, i, j] - R @ l.T  # dates x bands
            q = np.max(np.abs(e) / (wider * 1.54 * ground.deviation), axis=1)
            w = seen / (1 + q**2)
            for b in range(3):
                H = (R * w[:, None]).T @ R + ground.ridge[b]
                l[b] += np.linalg.solve(
                    H, R.T @ (w * e[:, b]) - ground.ridge[b] @ (l[b] - ground.mean[b])
                )
        scale = np.abs(R @ l.T).max()
        assert np.abs(R @ (got[:, pixel] - l).T).max() < 1e-3 * scale


@pytest.mark.slow
def test_a_share_of_the_pixels_is_enough(scene, cleared):
    some = clouds.remove_clouds(
        scene.data, nodata=NODATA, dates=scene.dates, rank=4, sample=0.85
    )
    covered = np.broadcast_to((scene.clouds > 0.1)[:, None], scene.data.shape).copy()
    covered[[3, 8]] = False
    assert (
        rmse(cleared.scenes[covered], scene.ground[covered])
        < rmse(some.scenes[covered], scene.ground[covered])
        < 200
    )


def test_a_mostly_cloudy_date_does_not_become_ground():
    """Clouds over seven tenths of a date, told nothing: what lies under them comes back."""
    made = landscape(14, 24, 24, seed=3)
    date = 10 - 5  # a clear one
    covered = np.zeros((24, 24), bool)
    covered[:17] = True
    cloudy = made.data.copy()
    rng = np.random.default_rng(0)
    cloudy[date][:, covered] = 6000 + 500 * rng.standard_normal((3, covered.sum()))
    done = clouds.remove_clouds(cloudy, nodata=NODATA, dates=made.dates)
    found = done.mask[date] == learned.CLOUD
    assert found[covered].mean() > 0.99
    assert found[~covered].mean() < 0.05
    others = np.delete(made.data, date, 0)
    median = np.median(others, axis=0)
    truth = made.ground[date][:, covered]
    off = rmse(done.scenes[date][:, covered], truth)
    assert off < 0.5 * rmse(median[:, covered], truth)


def test_the_screen_finds_clouds_and_nothing_else():
    """Of dates that are mostly cloud; those with few clouds are left to the fit."""
    made = landscape(20, 40, 40, seed=4)
    covered = np.zeros(made.clouds.shape, bool)
    covered[7, 16:], covered[11, :20] = True, True
    bright = np.random.default_rng(0).integers(4000, 7000, made.data.shape)
    data = np.where(covered[:, None], bright, made.data).astype(np.uint16)
    sample = learned.Sample(data, np.ones(covered.shape, bool), None)
    days = (made.dates - made.dates[0]).astype(float)
    gone = ~screen.screened(sample, days, np.zeros(20, bool)).left.there
    assert gone[covered].mean() > 0.99
    assert gone[~covered & (made.clouds < 0.02)].mean() < 0.01


def test_few_dates_are_warned_of(scene):
    with pytest.warns(UserWarning, match="only 4 dates show ground"):
        done = clouds.remove_clouds(scene.data[9:13], nodata=NODATA, rank=1)
    assert any("give more dates, or masks" in one for one in done.warnings)
    assert done.status is Status.UNDETERMINED  # exit code 1


# One date of this corner is half cloud, and nearly half of the rest lies in its shadow.
@pytest.mark.filterwarnings("ignore:.*shadow")
@pytest.mark.parametrize(
    "dtype",
    ["float32", "int16"]
    + [pytest.param(t, marks=pytest.mark.slow) for t in ("float64", "int32", "uint8")],
)
def test_types_stay(scene, dtype):
    scale = 40 if dtype == "uint8" else 1
    data = (scene.data[:, :, :12, :12] // scale).astype(dtype)
    done = clouds.remove_clouds(data, nodata=0, dates=scene.dates, rank=3)
    assert done.scenes.dtype == data.dtype
    assert np.isfinite(done.scenes).all()


def test_one_band_without_that_axis(scene):
    one = scene.data[:, 0, :12, :12]
    done = clouds.remove_clouds(one, nodata=NODATA, rank=3)
    assert done.scenes.shape == (16, 1, 12, 12)


@pytest.mark.parametrize(
    "stack",
    [
        np.full((12, 2, 8, 8), 7.0),
        np.zeros((12, 2, 8, 8), np.int16),
        5 + np.random.default_rng(0).random((12, 3, 1, 1)),
    ],
)
def test_scenes_with_next_to_nothing_in_them_stay(stack):
    done = clouds.remove_clouds(stack)
    assert done.status == "converged"
    assert np.array_equal(done.scenes, stack)
    assert not done.mask.any()


@each(
    ("change", "words"),
    [
        ({"stack": np.zeros((5, 4))}, "time x bands"),
        ({"stack": np.zeros((2, 3, 4, 4))}, "at least 3 dates"),
        ({"stack": np.zeros((5, 3, 4, 4), complex)}, "integers or floats"),
        ({"seen": np.ones((5, 4, 5), bool)}, "seen has shape"),
        ({"seen": np.zeros((5, 4, 4), bool)}, "no pixel of the scenes is observed"),
        ({"fill": "some"}, "one of clouds, all"),
        ({"sample": 0}, "a share of 0"),
        ({"sample": "most"}, "a share of 'most'"),
        ({"rank": 5}, "rank=5 for 5 dates; a whole number from 1 to 4"),
        ({"rank": 1.5}, "a whole number from 1 to 4"),
        ({"seed": -1}, "seed=-1"),
        ({"dates": [1, 2]}, "2 dates for 5 scenes"),
        ({"dates": ["yesterday"] * 5}, "cannot be read"),
    ],
)
def test_bad_input_is_told(change, words):
    stack = np.random.default_rng(0).random((5, 3, 4, 4))
    with pytest.raises(ValueError, match=words):
        clouds.remove_clouds(**({"stack": stack} | change))


# ---- seasons


def test_a_date_in_between_is_interpolated():
    days = np.arange(0, 700, 20.0)
    noise = np.random.default_rng(0).normal(0, 0.03, (len(days), 2))
    R = np.c_[np.ones(len(days)), np.sin(2 * np.pi * days / 365)] + noise
    known = np.ones(len(days), bool)
    known[[7, 20]] = False
    seen = np.where(known[:, None], R, 0)
    found = seasons.seasons(seen, days, known.astype(float), np.eye(2))
    assert np.abs(found.expected[~known] - R[~known]).max() < 0.25
    assert not found.far_off.any()
    odd = seen.copy()
    odd[12] += 8
    found = seasons.seasons(odd, days, known.astype(float), np.eye(2))
    assert np.flatnonzero(found.far_off).tolist() == [12]
    assert np.abs(found.expected[12] - R[12]).max() < 0.25


def test_leaving_one_out_is_what_it_says():
    """The closed form against fits without each date."""
    rng = np.random.default_rng(1)
    days, R = np.sort(rng.uniform(0, 300, 9)), rng.normal(size=(9, 2))
    kind = (60.0, 0.0, 0.1)
    fast = seasons._interpolated(R, days, np.ones(9, bool), np.ones(9), *kind).expected
    K = 0.9 * np.exp(-np.abs(days[:, None] - days) / 60)
    mean = np.median(R, axis=0)
    for t in range(9):
        rest = np.arange(9) != t
        slow = mean + K[t, rest] @ np.linalg.solve(
            K[np.ix_(rest, rest)] + 0.1 * np.eye(8), R[rest] - mean
        )
        assert np.allclose(fast[t], slow)


@pytest.mark.data
@pytest.mark.filterwarnings(
    "ignore:.*shadow",
    "ignore:.*far from what the other dates",
    "ignore:.*differs from what the other dates",
)
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
def test_real_clouds(monkeypatch):
    """One pair of task A, every eighth pixel: at least 4 dB above the median."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "experiments")
    tasks = pytest.importorskip("tasks")
    problem = next(tasks.satellite(tasks.Source(DATA, 0, 8)))
    T = problem.Y.shape[1]
    stack, seen = (
        problem.Y.T.reshape(T, 3, 32, 32),
        problem.mask.T.reshape(T, 3, 32, 32).all(1),
    )
    done = clouds.remove_clouds(stack, seen, rank=5)
    answers = (
        done.scenes.reshape(T, -1).T.astype(float),
        tasks.row_median(problem.values, problem.columns),
    )
    ours, median = (tasks.satellite_scores(problem.score(X))["PSNR"] for X in answers)
    assert ours > median + 4


# ---- how sure it is


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_deviations_hold_the_ground_under_clouds(seed):
    """The ground has the noise of the pixels; where a date was hardly seen, nobody knows."""
    scene = landscape(20, 48, 48, seed=seed)
    done = clouds.remove_clouds(
        scene.data, dates=scene.dates, uncertainty=True, seed=seed
    )
    hidden = (done.mask == learned.CLOUD) & (scene.clouds > 0.5)
    hidden &= ~done.ground.estimated[:, None, None]
    error = np.abs(done.scenes.astype(float) - scene.ground)
    noise = done.ground.deviation[:, None, None]
    ratio = (error / np.hypot(done.deviation, noise)).transpose(0, 2, 3, 1)[hidden]
    assert 0.8 < np.mean(ratio < 1.645) < 0.98
    kept = done.mask == learned.CLEAR
    noise = done.deviation.transpose(0, 2, 3, 1)[kept]
    np.testing.assert_allclose(
        noise, np.tile(done.ground.deviation, (len(noise), 1)), rtol=1e-6
    )

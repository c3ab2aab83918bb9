"""What a clip shows of its background besides a picture: looks, swaying, colours, shadows."""

import numpy as np
import pytest
from each import each
from made.street import Kind, street
from scipy import ndimage as ndi

from lrmc.apps.video import foreground, modes, shadows, traits
from lrmc.apps.video import model as video
from lrmc.linalg import Factors
from lrmc.methods.noisy import Noise, sweeps
from lrmc.observations import as_observations
from lrmc.subspace import learn_as_fitted, learn_factors


def f_measure(found, truth):
    return 2 * np.sum(found & truth) / max(1, found.sum() + truth.sum())


def with_and_without(made):
    """F with and without traits."""
    parts = video.separate(made.frames)
    pictures = parts.model.pictures(parts.scores)
    plain = foreground.masks(made.frames, pictures, parts.model.threshold)
    return f_measure(parts.masks(), made.truth), f_measure(plain, made.truth), parts


# ---- looks


def naive_mode(values, reach):
    """The middle of a window of this reach that holds most values, tried one by one."""
    counts = [np.sum(np.abs(values - c) < reach) for c in np.arange(-250, 250)]
    return np.arange(-250, 250)[int(np.argmax(counts))], max(counts) / len(values)


def test_peaks_are_where_most_values_are():
    rng = np.random.default_rng(0)
    x = rng.uniform(-150, 150, (120, 30))
    x[:50] = rng.normal(40, 2, (50, 30)) - np.arange(30)
    where, share = modes._peaks(x, 6.0)
    for k in range(30):
        middle, most = naive_mode(x[:, k], 6.0)
        assert abs(where[k] - middle) < 6
        assert 0.75 * most <= share[k] <= most + 0.05


@each("colour", [False, True])
def test_a_road_that_is_seldom_free(colour):
    """60 % of the frames show other things there: the median is none of its looks."""
    rng = np.random.default_rng(1)
    frames = np.clip(rng.normal(90, 2, (100, 40, 50, 3)), 0, 255)
    truth = np.zeros((100, 40, 50), bool)
    truth[rng.permutation(100)[:60], 10:30, 15:35] = True
    colours = rng.uniform(120, 250, (100, 1, 1, 3))
    frames = np.where(truth[..., None], colours, frames).astype(np.uint8)
    parts = video.separate(frames if colour else frames[..., 0])
    back = parts.background(slice(0, 1))
    assert np.abs(back.astype(float) - 90).max() < 6


def test_few_frames_have_no_mode():
    frames, V = np.zeros((10, 4, 4), np.uint8), np.ones((16, 1))
    assert modes.most_common(V, frames, np.ones((10, 1)), 1.0) is V


# ---- swaying


@pytest.mark.parametrize(("kind", "colour"), [("leaves", True), ("water", False)])
def test_what_sways_is_not_in_front_and_walkers_are(kind, colour):
    made = street(kind, n=80, colour=colour, seed=4)
    found, plain, parts = with_and_without(made)
    assert found > plain + 0.03
    # walkers stay where the background sways
    where = parts.model.traits.sways > parts.model.threshold
    assert where.mean() > 0.02
    there = made.truth & ndi.binary_dilation(where, iterations=5)
    assert parts.masks()[there].mean() > 0.6


def test_nothing_sways_before_a_wall():
    parts = video.separate(street("stops", n=80, seed=5).frames)
    sways = parts.model.traits.sways
    assert sways is None or np.mean(sways > parts.model.threshold) < 0.01


# ---- shadows


@pytest.mark.parametrize(("left", "colour"), [(0.6, True), (0.75, False)])
def test_shadows_are_found_where_there_are_some(left, colour):
    made = street(Kind(shadow=left), n=80, colour=colour, seed=6)
    found, plain, parts = with_and_without(made)
    assert found > plain + 0.02
    ratios = parts.model.traits.ratios.reshape(2, -1).any(axis=0)
    bright = shadows.EDGES[np.flatnonzero(ratios) - 1]
    assert np.abs(np.log(bright / left)).min() < 0.15


@pytest.mark.parametrize("seed", range(2))
def test_walkers_are_no_shadows(seed):
    found, plain, _ = with_and_without(street("plain", n=80, seed=10 + seed))
    assert found > plain - 0.005


def test_shares_of_shadows_are_slopes():
    """Half of the windows keep the ground, half hide it: the share is about a half."""
    rng = np.random.default_rng(2)
    ground = 120 + 3 * rng.standard_normal((240, 320))
    evidence = shadows.Evidence(2.0)
    for part in range(shadows.PARTS):
        frame = 0.6 * ground + rng.normal(0, 2, ground.shape)
        frame[:, 160:] = 72 + rng.normal(0, 2, (240, 160))
        evidence.add(part, frame, ground, np.ones(ground.shape, bool))
    share, error, parts = evidence.shares()
    k = int(np.digitize(0.6, shadows.EDGES))
    assert abs(share[k] - 0.5) < 4 * error[k] + 0.05
    assert error[k] < 0.1
    assert parts[k] > 8
    assert evidence.ratios()[k]


def test_nothing_is_said_without_evidence():
    assert not shadows.Evidence(2.0).ratios().any()


# ---- colours


def test_colours_with_equal_noise_are_a_plain_distance():
    rng = np.random.default_rng(3)
    off = [2 * rng.standard_normal((60, 80, 3)) for _ in range(5)]
    root = traits._colours(off, 20.0)
    np.testing.assert_allclose(root @ root.T, np.eye(3), atol=0.15)
    # brightness that varies in all colours at once counts less than a change of colour
    off = [x + 6 * rng.standard_normal((60, 80, 1)) for x in off]
    weights = np.linalg.inv(traits._colours(off, 40.0))
    root = np.linalg.inv(weights)
    grey, red = np.full(3, 10.0), np.array([10.0, -10.0, 0.0])
    assert np.linalg.norm(red @ root) > np.linalg.norm(red)
    assert np.linalg.norm(grey @ root) < np.linalg.norm(grey)
    assert np.linalg.norm(grey @ root) > 0.9 * 10


def test_traits_are_saved(tmp_path):
    parts = video.separate(street("shadows and leaves", n=80, colour=True).frames)
    parts.model.save(tmp_path / "model.npz")
    loaded = video.Background.load(tmp_path / "model.npz")
    for name in video.KNOWN_TRAITS:
        np.testing.assert_array_equal(
            getattr(loaded.traits, name), getattr(parts.model.traits, name)
        )
    content = dict(np.load(tmp_path / "model.npz"))
    np.savez(tmp_path / "bad.npz", **content | {"sways": np.zeros((3, 3), np.uint8)})
    with pytest.raises(ValueError, match="its sways are not those of such frames"):
        video.Background.load(tmp_path / "bad.npz")


# ---- how sure


@each("colour", [False, True])
@each("sample", [1.0, 0.5])
def test_the_standard_error_of_a_background(colour, sample):
    rng = np.random.default_rng(7)
    wall = ndi.gaussian_filter(rng.uniform(40, 200, (40, 50, 3)), (3, 3, 0))
    noise = np.linspace(2, 5, 50)[:, None]
    frames = np.rint(wall + noise * rng.standard_normal((90, 40, 50, 3)))
    frames[:25, 5:20, 5:20] = 255
    frames = (frames if colour else frames[..., 0]).astype(np.uint8)
    parts = video.separate(frames, sample=sample)
    sd = parts.model.traits.sd
    off = parts.model.pictures(parts.scores[-1:])[0] - (
        wall if colour else wall[..., 0]
    )
    within = np.abs(off) < 1.645 * sd
    assert 0.8 < within.mean() < 0.97
    spread = parts.model.traits.spread
    assert abs(np.median(spread[25:, -1]) / 5 - 1) < 0.15


# ---- the model


def test_scores_of_the_fit_are_those_of_a_regression():
    """Frames keep the brightness that they were fitted with: another regression finds the same."""
    rng = np.random.default_rng(3)
    light = rng.uniform(0.8, 1.2, (40, 1))
    film = light * rng.uniform(40, 180, (1, 900)) + rng.normal(0, 2, (40, 900))
    film[rng.random(film.shape) < 0.1] = 250
    obs = as_observations(np.clip(film, 0, 255).astype(np.uint8))
    back = video.learn(np.clip(film, 0, 255).astype(np.uint8), (30, 30))
    V = back.model.V
    X = Factors(film @ V / (V * V).sum() ** 0.5, V)
    *_, last = sweeps(obs, X, Noise.even(obs, "huber"), 8)
    model, memory = learn_as_fitted(obs, last.X, "huber")
    again = learn_factors(obs, last.X, "huber", most=1)
    np.testing.assert_allclose(model.V, again.model.V, rtol=1e-3, atol=1e-5)
    assert model.noise == pytest.approx(again.model.noise, rel=0.02)
    np.testing.assert_allclose(memory.rows, again.memory.rows, rtol=1e-3)
    np.testing.assert_allclose(memory.cols, again.memory.cols, rtol=0.02)

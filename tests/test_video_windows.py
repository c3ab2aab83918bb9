"""Windows and medians of whole pictures, against loops and SciPy."""

import numpy as np
import pytest
import shadow_reference as reference
from scipy import ndimage as ndi

from lrmc import _kernels
from lrmc.apps.video import (
    camera,
    foreground,
    grid,
    medians,
    pixels,
    shadows,
    stays,
    traits,
    windows,
)
from lrmc.apps.video.foreground import CLOSED
from lrmc.apps.video.shadows import SMALL
from lrmc.observations._door import as_observations

SIZES = [1, 2, 3, 5, 8, 13]


@pytest.mark.parametrize("size", SIZES)
def test_windows_are_those_of_scipy(size):
    rng = np.random.default_rng(size)
    mask = rng.random((3, 21, 17)) < 0.3
    # SciPy puts the middle of an even window after the middle, as here
    near = {"size": (1, size, size), "mode": "nearest"}
    np.testing.assert_array_equal(
        windows.any_in(mask, size), ndi.maximum_filter(mask, **near)
    )
    np.testing.assert_array_equal(
        windows.all_in(mask, size), ndi.minimum_filter(mask, **near)
    )


@pytest.mark.parametrize(("height", "width"), [(48, 60), (240, 31), (600, 700)])
def test_masks_are_cleaned_as_majorities_and_closings_do(height, width):
    rng = np.random.default_rng(width)
    smooth = ndi.gaussian_filter(rng.standard_normal((2, height, width)), (0, 3, 3))
    found = (smooth > 0.5 * smooth.std()) ^ (rng.random(smooth.shape) < 0.1)
    side = min(height, width)
    near, gap = windows.odd(side / SMALL), windows.odd(side / CLOSED)
    counts = ndi.uniform_filter(found.astype(float), (0, near, near), mode="nearest")
    most = counts * near**2 > near**2 / 2
    room = [(0, 0), (gap, gap), (gap, gap)]
    closed = ndi.binary_closing(np.pad(most, room), np.ones((1, gap, gap)))
    want = closed[:, gap:-gap, gap:-gap]
    np.testing.assert_array_equal(foreground.cleaned(found), want)


def test_what_hangs_together_is_what_scipy_labels():
    rng = np.random.default_rng(0)
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        mask = rng.random((40, 55)) < share
        labels, _ = ndi.label(mask, np.ones((3, 3)))
        areas = np.bincount(labels.ravel())
        areas[0] = 0
        want = (areas >= traits.LARGE * mask.size)[labels]
        found = np.empty_like(mask)
        _kernels.connected(mask, traits.smallest_thing(mask), out=found)
        np.testing.assert_array_equal(found, want)


def crowd(colours, seed):
    """A frame, what is behind, and where they differ: shadows of all kinds, coats and noise."""
    rng = np.random.default_rng(seed)
    behind = ndi.gaussian_filter(rng.uniform(20, 230, (80, 90, colours)), (1, 1, 0))
    frame = behind.copy()
    for top in range(5, 60, 18):
        for left in range(4, 70, 17):
            some = (slice(top, top + 14), slice(left, left + 13))
            frame[some] *= rng.choice([0.4, 0.6, 0.8, 1.3])
            frame[some] += rng.choice([0, 0, 9, 60]) * rng.random(frame[some].shape)
    frame += rng.normal(0, 2, frame.shape)
    mask = ndi.binary_opening(np.abs(frame - behind).max(axis=2) > 12, np.ones((3, 3)))
    shape = frame.shape[: 3 if colours > 1 else 2]
    frame = np.clip(frame, 0, 255).astype(np.uint8).reshape(shape)
    return frame, behind.astype(np.float32).reshape(shape), mask


@pytest.mark.parametrize(("colours", "size"), [(1, 5), (3, 3), (3, 7)])
def test_shadows_are_those_of_the_reference(colours, size, monkeypatch):
    monkeypatch.setattr(shadows, "window_of", lambda _: size)
    frame, behind, mask = crowd(colours, seed=size)
    noise = 2.0
    evidence = shadows.Evidence(noise)
    evidence.add(3, frame, behind, mask)
    want = reference.slopes(frame, behind, mask, noise, size)
    assert np.count_nonzero(want) > 6
    np.testing.assert_allclose(evidence.sums[3], want, rtol=1e-4, atol=1e-2)
    ratios = np.random.default_rng(1).random(2 * shadows.BINS) < 0.5
    kind = foreground.Traits(noise, ratios=ratios)
    found = foreground.masks(frame[None], behind[None], 12.0, kind)[0]
    far = foreground.distance(frame[None], behind[None])[0] > 12.0
    left = far & ~reference.shadowed(frame, behind, far, size, ratios, noise)
    assert 0 < found.sum() < foreground.cleaned(far[None]).sum()
    np.testing.assert_array_equal(found, foreground.cleaned(left[None])[0])


@pytest.mark.parametrize(("colours", "rank"), [(1, 1), (3, 2)])
def test_pixels_one_by_one(colours, rank):
    rng = np.random.default_rng(colours)
    frames = rng.integers(0, 256, (67, 30, 41, colours)).astype(np.uint8)
    V = rng.uniform(0, 100, (30 * 41 * colours, rank))
    scores = rng.uniform(0.5, 1, (67, rank))
    rest = frames.reshape(67, -1) - scores @ V.T
    grey = rest.reshape(67, -1, colours).mean(axis=2)
    near = np.empty(30 * 41, np.int32)
    given = pixels.pixels(V, frames, scores)
    _kernels.near_background(*given, colours=colours, reach=60.0, out=near)
    # at the very border, single precision may decide otherwise
    assert np.abs(near - np.sum(np.abs(grey) < 60.0, axis=0)).max() <= 1
    looks = stays._looks(V, frames, scores).reshape(stays.PARTS, -1)
    parts = np.array_split(rest, stays.PARTS)
    want = [np.median(part, axis=0) for part in parts]
    np.testing.assert_allclose(looks, want, atol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_medians_of_few(n):
    x = np.random.default_rng(n).standard_normal((n, 40)).astype(np.float32)
    np.testing.assert_allclose(medians.of_few(x), np.median(x, axis=0), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 101, 255])
def test_medians_of_bytes(n):
    x = np.random.default_rng(n).integers(0, 256, (n, 50)).astype(np.uint8)
    x[:, :3] = (0, 255, 128)
    want = np.sort(x, axis=0)[(n - 1) // 2]
    np.testing.assert_array_equal(medians.of_bytes(x), want)
    before = np.arange(50) % n
    want = np.take_along_axis(np.sort(x, axis=0), before[None], axis=0)[0]
    np.testing.assert_array_equal(medians.of_bytes(x, middle=before), want)


def test_smooth_pictures_are_those_of_scipy():
    x = np.random.default_rng(0).integers(0, 256, (19, 7)).astype(np.uint8)
    found = np.empty(x.shape, np.float32)
    _kernels.smooth(x, camera._gaussian(1.5), out=found)
    want = ndi.gaussian_filter(x.astype(np.float32), 1.5)
    np.testing.assert_allclose(found, want, rtol=1e-4)


def test_a_grid_tells_how_bright_frames_are():
    rng = np.random.default_rng(0)
    light = rng.uniform(0.5, 1, 30)
    frames = light[:, None] * rng.uniform(50, 250, 900) + rng.normal(0, 2, (30, 900))
    frames[:, :90] = 255  # in front
    places = grid.grid_of((30, 30), 1.0)
    np.testing.assert_array_equal(places, np.arange(900))
    obs = as_observations(np.rint(frames).clip(0, 255).astype(np.uint8))
    found = grid.brightness(obs, np.median(frames, axis=0), 1, 0)[:, 0]
    np.testing.assert_allclose(found / found.mean(), light / light.mean(), rtol=0.02)
    assert len(grid.grid_of((240, 320, 3), 0.5)) == 3 * 60 * 80

"""The kernels of ultrasound, on every instruction set: steps of registration, pictures moved there and
back, and the tissue of patches.
"""

import numpy as np
import pytest
from each import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage

from lrmc import _kernels
from lrmc.apps.ultrasound import motion, patches
from lrmc.solve import ConvergenceWarning


@pytest.fixture(autouse=True, params=_kernels.instruction_sets())
def instruction_set(request, restore_instruction_set):
    _kernels.use_instruction_set(request.param)


def slow_step(reference, picture, down, right, length):
    """One least-squares step by NumPy and SciPy; displacements on the grid."""
    height, width = reference.shape
    y, x = (np.arange(n, dtype=np.float32) for n in reference.shape)
    at_y = y[:, None] + motion.spread(down, motion.BLOCK, y, x)
    at_x = x + motion.spread(right, motion.BLOCK, y, x)
    moved = ndimage.map_coordinates(picture, (at_y, at_x), order=1, mode="nearest")
    inside = (at_y >= 0) & (at_y <= height - 1) & (at_x >= 0) & (at_x <= width - 1)
    dy, dx = np.gradient((moved + reference) / 2)
    off = reference - moved
    differs = np.sort(np.abs(off)[np.abs(off) > motion.GREY])
    far = motion.REJECTION * differs[len(differs) // 2]
    weight = inside * far / np.maximum(np.abs(off), far)
    sums = []
    for product in (dy * dy, dx * dx, dy * dx, dy * off, dx * off):
        padded = np.pad(weight * product, [(0, -n % motion.BLOCK) for n in off.shape])
        rows, columns = (n // motion.BLOCK for n in padded.shape)
        means = padded.reshape(rows, motion.BLOCK, columns, motion.BLOCK).mean((1, 3))
        window = motion.WINDOW / motion.BLOCK
        sums.append(ndimage.gaussian_filter(means, window, mode="nearest"))
    yy, xx, yx, ye, xe = sums
    ridge = motion.RIDGE * np.mean(yy + xx)
    yy, xx = yy + ridge, xx + ridge
    per = length / (yy * xx - yx * yx)
    return down + per * (xx * ye - yx * xe), right + per * (yy * xe - yx * ye)


def test_steps_are_those_of_least_squares(monkeypatch):
    """Three on one size of the picture, whose last blocks the edge cuts off."""
    rng = np.random.default_rng(0)
    scene = ndimage.gaussian_filter(rng.random((60, 60)), 2).astype(np.float32)
    reference, picture = scene[4:47, 4:42], scene[4:47, 5:43]
    monkeypatch.setattr(motion, "ROUNDS", 3)
    monkeypatch.setattr(motion, "SETTLED", 0.0)
    monkeypatch.setattr(motion, "LONGEST", 100.0)
    monkeypatch.setattr(motion, "GREY", 0.0)
    free = np.ones_like(reference)
    found = motion._against(reference, free, picture[None], lambda _: None)
    down = right = np.zeros(found.down.shape[1:], np.float32)
    for length in (1, 2, 2):
        down, right = slow_step(reference, picture, down, right, length)
    assert_allclose(found.down[0], down, atol=1e-4)
    assert_allclose(found.right[0], right, atol=1e-4)


def test_pictures_move_by_cubic_splines():
    """As SciPy has them, wherever a frame shows something."""
    rng = np.random.default_rng(0)
    cine = ndimage.gaussian_filter(rng.random((2, 40, 50)), (0, 1, 1)).astype("f4")
    down = (1.3 + rng.normal(0, 0.1, (2, 5, 7))).astype(np.float32)
    moved = motion.Motion((40, 50), down, -down / 2)
    fixed = np.zeros((40, 50), bool)
    fixed[10:12, 20:25] = True
    found, seen = moved.registered(cine, fixed)
    y, x = (
        np.arange(-moved.margin, n + moved.margin, dtype=np.float32) for n in (40, 50)
    )
    for t in range(2):
        at = (
            y[:, None] + motion.spread(down[t], motion.BLOCK, y, x),
            x + motion.spread(-down[t] / 2, motion.BLOCK, y, x),
        )
        inside = (at[0] >= 0) & (at[0] <= 39) & (at[1] >= 0) & (at[1] <= 49)
        hidden = ndimage.map_coordinates(fixed.astype("f4"), at, order=1)
        wanted = ndimage.map_coordinates(cine[t], at, order=3, mode="nearest")
        assert_array_equal(seen[t], inside & (hidden < 0.01))
        assert_allclose(found[t][inside], wanted[inside], atol=2e-6)


@each("outliers", ["positive", "both"])
def test_gains_are_those_of_the_general_fit(outliers):
    """Rank 1 has a kernel of its own; ranks above go through the solver, and must agree with it."""
    rng = np.random.default_rng(0)
    brightness, gains = rng.uniform(1, 2, (40, 40)), rng.uniform(0.9, 1.1, 24)
    cine = gains[:, None, None] * brightness + rng.normal(0, 0.02, (24, 40, 40))
    hit = rng.random(cine.shape) < 0.1
    sign = 1 if outliers == "positive" else rng.choice([-1, 1], cine.shape)
    cine = (cine + hit * sign * rng.uniform(0.3, 1, cine.shape)).astype(np.float32)
    cine[:, 3, 4] = 1.5  # at rest
    seen = rng.random(cine.shape) < 0.8
    fit = patches.Fit(1, outliers, 0, 1e-3)
    found = patches.patchwise(cine, seen, fit, None, lambda _: None)
    general = patches.Fit(1, outliers, 0, 1e-3)(cine, seen, 1)
    assert_allclose(found, general, atol=0.01)
    true = gains[:, None, None] * brightness
    true[:, 3, 4] = 1.5
    assert np.sqrt(np.mean((found - true) ** 2)) < 0.006
    assert fit.fitted == 1599
    blended = patches.patchwise(cine, seen, fit, 32, lambda _: None)
    assert np.sqrt(np.mean((blended - true) ** 2)) < 0.008


def test_too_few_values_are_medians():
    """Two of eight frames of a pixel cannot tell gains as well."""
    rng = np.random.default_rng(0)
    cine = rng.uniform(1, 2, (8, 20, 20)).astype(np.float32)
    seen = np.zeros(cine.shape, bool)
    seen[0] = True
    fit = patches.Fit(1, "positive", 0, 0.0)
    fit.least = -1.0  # all change
    found = patches.patchwise(cine, seen, fit, None, lambda _: None)
    assert_allclose(found, np.broadcast_to(cine[0], cine.shape), rtol=1e-6)
    with pytest.warns(ConvergenceWarning, match="fewer observations than"):
        assert fit.outcome().status == "undetermined"

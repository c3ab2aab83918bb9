"""What of a residual is blood: its kernels on every instruction set, and what each step is for."""

import numpy as np
import pytest
from each import each
from made.cine import slow_blood
from numpy.testing import assert_allclose, assert_array_equal

from lrmc import _kernels
from lrmc._work import SOUND
from lrmc.apps.ultrasound.blood import (
    BEYOND_NOISE,
    NEAR,
    Levels,
    beyond_surroundings,
    by_neighbours,
    found_blood,
    lopsided,
    too_bright,
)
from lrmc.solve import ConvergenceWarning


@pytest.fixture(autouse=True, params=_kernels.instruction_sets())
def instruction_set(request, restore_instruction_set):
    _kernels.use_instruction_set(request.param)


def spotted(shape, seed=0):
    """Noise, bright and dark spots, and gaps."""
    rng = np.random.default_rng(seed)
    rest = rng.standard_normal(shape).astype(np.float32)
    for sign in (9, -9):
        for t, y, x in rng.integers(0, shape, (30, 3)):
            rest[t, y : y + 3, x : x + 3] += sign
    rest[0, 3:6, 2:9] = np.nan
    return rest


@each("outliers", ["positive", "both"])
@each("shape", [(3, 50, 43), (2, 9, 70), (4, 8, 8)])
def test_neighbours_by_scipy(outliers, shape):
    rest = spotted(shape)
    rest[-1] = 0  # nothing there
    found = by_neighbours(rest, outliers, 2.5, 1.0, 1.2)
    wanted = slow_blood(rest, outliers, 2.5, 1.0, 1.2)
    assert_allclose(found, wanted, atol=1e-5)
    dark = by_neighbours(-rest, outliers, 2.5, 1.0, 1.2, sign=-1.0)
    assert_array_equal(np.abs(dark), np.abs(found))


def test_powers_over_time_by_numpy():
    """Also of pixels that are seldom lit, or never."""
    rng = np.random.default_rng(0)
    blood = rng.random((40, 11, 13)).astype(np.float32)
    blood *= rng.random(blood.shape) < rng.random(blood.shape[1:])
    blood[:, 2] = 0
    power, lasting = (np.empty(blood.shape[1:], np.float32) for _ in range(2))
    _kernels.lasting(blood, brightest=6, power=power, lasting=lasting, threads=2)
    squares = blood.astype(np.float64) ** 2
    assert_allclose(power, squares.mean(0), rtol=1e-6)
    assert_allclose(lasting, np.sort(squares, axis=0)[:-6].mean(0), rtol=1e-6)


def test_noise_is_what_lies_below():
    rng = np.random.default_rng(0)
    rest = 0.2 * rng.standard_normal((5, 60, 61)).astype(np.float32)
    rest[:, 10:14, 10:14] += 5
    rest[:, 50:] *= 0.001  # tells nothing
    tissue = rng.uniform(0.3, 0.5, rest.shape).astype(np.float32)
    least = 0.002
    for side in ("positive", "both"):
        found = Levels.of(rest, tissue, side, least)
        assert found.noise == pytest.approx(0.2, rel=0.08)
        assert found.beyond == BEYOND_NOISE * found.noise
        assert found.all_speckle  # half of the brightness
    below = rest[rest < -least].astype(np.float64)
    exact = Levels.of(rest, 2 * tissue, "positive", least)
    assert exact.noise == pytest.approx(np.sqrt(np.mean(below**2)), rel=1e-6)
    assert not exact.all_speckle
    assert Levels.of(0 * rest, tissue, "positive", least).beyond == least


def test_neighbours_tell_signal_from_noise():
    """Weights of a Gaussian by hand; a speck is shrunk more than a blob of the same height."""
    rest = np.zeros((1, 41, 41), np.float32)
    rest[0, 10, 10] = 3
    rest[0, 28:33, 28:33] = 3
    rest[0, 5, 30] = -3  # no blood, where that is bright
    gain = by_neighbours(rest, "positive", 2.5, 1.0, 1.0)[0] / 3
    assert gain[10, 10] < 0.5 < 0.85 < gain[30, 30]
    assert gain[5, 30] == 0
    along = np.exp(-0.5 * (np.arange(-4, 5) / NEAR) ** 2)
    power = 9 * (along[4] / along.sum()) ** 2
    by_hand = max(power - 1, 0) / (max(power - 1, 0) + 1)
    assert gain[10, 10] == pytest.approx(by_hand, rel=1e-4)
    both = by_neighbours(rest, "both", 2.5, 1.0, 1.0)[0]
    assert both[5, 30] == pytest.approx(-3 * by_hand, rel=1e-4)


def test_what_a_wide_neighbourhood_shares_is_a_wall():
    """Inside it and at its edge little is left; a bubble stays as it was."""
    rest = np.zeros((2, 64, 64), np.float32)
    rest[:, 30:33, 50:53] = 10
    alone = by_neighbours(rest, "positive", 2.5, 1.0, 1.0)
    rest[:, :, :30] = 10
    found = by_neighbours(rest, "positive", 2.5, 1.0, 1.0)
    assert found[0, 20, 10] == 0
    assert found[0, 20, 27] < 7
    assert_array_equal(found[0, 31, 51], alone[0, 31, 51])
    assert alone[0, 31, 51] > 9.5


def test_what_the_median_pixel_has_too_is_not_blood():
    """A vessel stays, flicker that is everywhere goes; both have the same brightness."""
    rng = np.random.default_rng(0)
    blood = np.zeros((40, 100, 100), np.float32)
    blood[:, 50:54, :] = rng.random((40, 4, 100)) < 0.7
    blood[5, :, ::2] = 1  # a bubble passes through every second pixel
    assert beyond_surroundings(blood).min() == 1
    blood += rng.random(blood.shape) < 0.3
    gain = beyond_surroundings(np.minimum(blood, 1))
    assert gain[51:53].mean() > 0.2
    assert gain[:45].mean() < 0.02
    assert gain[60:].mean() < 0.02


def test_what_is_dark_tells_what_of_the_blood_is_tissue():
    """Errors of the tissue lie on both sides, blood on one."""
    rng = np.random.default_rng(0)
    tissue = np.ones((20, 64, 64), np.float32)
    noise = 0.01 * rng.standard_normal(tissue.shape).astype(np.float32)
    errors = np.zeros_like(tissue)
    for sign in (1, -1):
        for y, x in rng.integers(4, 60, (30, 2)):
            errors[rng.integers(20), y : y + 3, x : x + 3] += sign * 0.3
    sound = found_blood(noise + np.abs(errors), tissue, "positive")
    assert sound.errors < 0.05
    assert sound.told(SOUND).status == "converged"
    doubtful = found_blood(noise + errors, tissue, "positive")
    assert doubtful.errors > 0.5
    with pytest.warns(ConvergenceWarning, match="darker than the tissue"):
        assert doubtful.told(SOUND).status == "undetermined"


def test_bubbles_are_taken_away_where_errors_are_as_strong():
    """Beside each other: errors on both sides, and bubbles where there are none."""
    rng = np.random.default_rng(0)
    rest = 0.01 * rng.standard_normal((40, 64, 96)).astype(np.float32)
    for y, x in rng.integers((4, 4), (58, 40), (10, 2)):
        for k in range(6):
            rest[rng.integers(40), y : y + 3, x : x + 3] += (-1) ** k * 0.3
    for y, x in rng.integers((4, 50), (58, 90), (150, 2)):
        rest[rng.integers(40), y : y + 3, x : x + 3] += 0.3
    blood = found_blood(rest, np.ones_like(rest), "positive").blood
    left, right = (np.square(x).sum() for x in (blood[:, :, :42], blood[:, :, 48:]))
    assert left < 0.3 * np.square(np.maximum(rest, 0)[:, :, :42]).sum()
    assert right > 0.5 * np.square(np.maximum(rest, 0)[:, :, 48:]).sum()


def test_errors_may_be_farther_above_than_below():
    rng = np.random.default_rng(0)
    size = np.abs(rng.standard_normal((5, 40, 40)))
    sign = rng.choice([-1, 1], size.shape)
    rest = np.where(sign > 0, 1.7 * size, -size)
    assert lopsided(rest, 0.0) == pytest.approx(1.7, rel=0.05)
    assert lopsided(-rest, 0.0) == 1
    assert lopsided(size, 0.0) == 1


def test_tissue_is_where_the_darkest_frames_are():
    """Pixels that bubbles light up but for a few frames; all others, dark or bright, stay."""
    rng = np.random.default_rng(0)
    tissue = np.broadcast_to(np.linspace(0.1, 1, 80), (40, 80, 80)).astype(np.float32)
    rest = 0.02 * (0.3 + tissue) * rng.standard_normal(tissue.shape)
    rest[:6, 30:36, 30:36] -= 0.3
    rest[:, 60:] = 0  # black, or text
    found = too_bright(rest.astype(np.float32), tissue, 1e-4)
    assert found[32:34, 32:34].min() > 0.15
    found[26:40, 26:40] = 0
    assert found.max() < 0.01
    assert not found[60:].any()

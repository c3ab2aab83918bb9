"""Values that were rounded to a scale as coarse as their noise: grey levels, whole degrees, counts.
The most frequent value of each line agrees exactly, and is no proof that the others are wrong."""

import numpy as np
import pytest

import lrmc
from lrmc.methods.chance import is_rounded_noise
from lrmc.observations.sample import Sample, step_of


def states(sd, seed=0, shape=(300, 200)):
    """Sensors with a level before and another one after some time, and 5 % gross errors."""
    rng = np.random.default_rng(seed)
    n1, n2 = shape
    X = np.repeat(rng.integers(20, 200, (n1, 1)).astype(float), n2, axis=1)
    X[:, n2 // 2 :] += rng.integers(-20, 20, (n1, 1))
    Y = np.round(X + rng.normal(0, sd, shape))
    Y[rng.random(shape) < 0.05] = 255
    Y[rng.random(shape) < 0.3] = np.nan
    return Y, X


@pytest.mark.parametrize("sd", [0.5, 0.8])
@pytest.mark.parametrize("unit", [1.0, 0.1])
def test_rounded_noise_is_noise(sd, unit):
    Y, X = states(sd)
    result = lrmc.solve(unit * Y, time=None)
    assert result.regime == "noisy"
    assert result.outlier_fraction == pytest.approx(0.05, abs=0.02)
    assert result.noise_level == pytest.approx(unit * np.hypot(sd, 0.29), rel=0.3)
    assert np.abs(result.completed() - unit * X).mean() < 0.2 * unit
    assert not result.warnings


def test_a_clip_with_hardly_any_noise_is_not_exact():
    """Rows of grey levels that drift: a third of them agreed, and the others were outliers."""
    rng = np.random.default_rng(1)
    drift = np.outer(rng.normal(size=2000), np.linspace(0, 6, 100))
    X = rng.integers(20, 200, (2000, 1)) + np.round(drift)
    Y = np.round(X + rng.normal(0, 0.5, X.shape))
    result = lrmc.solve(Y, 3, time=None)
    assert result.regime == "noisy"
    assert np.sqrt(np.mean((result.completed() - X) ** 2)) < 0.35


@pytest.mark.parametrize("kind", ["anything", "far"])
def test_whole_numbers_with_outliers_stay_exact(kind):
    rng = np.random.default_rng(2)
    X = rng.integers(-3, 4, (200, 2)) @ rng.integers(-3, 4, (2, 150)).astype(float)
    wrong = rng.random(X.shape) < 0.25
    other = {
        "anything": rng.integers(-18, 19, X.shape),
        "far": np.full(X.shape, 40.0),
    }[kind]
    result = lrmc.solve(np.where(wrong, other, X))
    assert result.regime == "exact"
    assert np.abs(result.completed() - X).max() < 1e-3


def judged(model, residual):
    rows = np.arange(len(residual))
    return is_rounded_noise(Sample(rows, rows, model + residual), residual, 1e-4)


def test_what_lies_beside_on_both_sides_is_noise():
    rng = np.random.default_rng(3)
    model = rng.integers(0, 2, 5000).astype(float)
    noise = np.round(rng.normal(0, 0.7, 5000))
    assert judged(model, noise)
    assert not judged(model, np.where(noise != 0, 1 - 2 * model, 0))  # flips of 0 and 1
    assert not judged(model, np.where(noise != 0, rng.integers(-9, 10, 5000), 0))
    assert not judged(model, np.where(rng.random(5000) < 0.1, noise, 0))
    assert not judged(model, np.zeros(5000))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.arange(400) % 7, 1.0),
        (0.1 * (np.arange(400) % 7) + 3, 0.1),
        ((np.float32(1 / 255) * (np.arange(400) % 90)).astype(np.float32), 1 / 255),
        (np.arange(400) % 2, 0.0),
        (np.arange(400.0), 0.0),
        (np.sqrt(np.arange(400) % 7), 0.0),
        (np.ones(400), 0.0),
        (np.empty(0), 0.0),
    ],
)
def test_steps_between_values(values, step):
    assert step_of(values) == pytest.approx(step, rel=1e-4)

"""Lines between the nearest entries along rows and columns."""

import numpy as np
import pytest
from opinions import asked
from scipy import ndimage

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.interpolation import (
    along_rows,
    between,
    can_interpolate,
    growth,
    interpolation,
    last_before,
)
from lrmc.observations import as_observations


def picture(n1=60, n2=50, seed=0):
    """Discs of different brightness, and noise: edges in all directions, and no low rank."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:n1, :n2]
    image = 0.5 * x + 0.3 * y
    for _ in range(12):
        b, a, size = rng.random(3) * (n1, n2, 12)
        image += rng.uniform(-60, 60) * ((y - b) ** 2 + (x - a) ** 2 < size**2)
    return image + rng.standard_normal(image.shape)


def with_gaps(X, share=0.5, seed=1):
    hidden = np.random.default_rng(seed).random(X.shape) < share
    return np.where(hidden, np.nan, X), hidden


def test_values_are_on_the_line_between_others_also_where_they_are_known():
    Y, _ = with_gaps(np.random.default_rng(0).standard_normal((8, 30)))
    said, steps = along_rows(Y)
    for row, told, apart in zip(Y, said, steps, strict=True):
        for j in range(len(row)):
            known = np.flatnonzero(~np.isnan(row) & (np.arange(len(row)) != j))
            assert told[j] == pytest.approx(np.interp(j, known, row[known]))
            a, b = j - known[known < j], known[known > j] - j
            if len(a) and len(b):
                a, b = a[-1], b[0]
                assert apart[j] == pytest.approx(a * b / (a + b))
            else:
                assert apart[j] == (a[-1] if len(a) else b[0])


def test_nothing_is_before_the_first():
    Y = np.array([[np.nan, 1.0, np.nan, 3.0]])
    value, steps = last_before(Y)
    np.testing.assert_array_equal(value, [[np.nan, np.nan, 1.0, 1.0]])
    np.testing.assert_array_equal(steps[0, 2:], [1, 2])


def test_a_plane_is_met_exactly_and_gaps_without_others_are_left_to_the_fit():
    y, x = np.mgrid[:20, :30]
    Y, hidden = with_gaps(2.0 * x - 3.0 * y)
    inside = np.zeros(Y.shape, bool)
    inside[5:-5, 5:-5] = True
    np.testing.assert_allclose(
        between(Y, np.zeros(Y.shape))[inside & hidden],
        (2.0 * x - 3.0 * y)[inside & hidden],
        atol=1e-9,
    )
    nothing = np.full((4, 5), np.nan)
    np.testing.assert_array_equal(between(nothing, np.ones((4, 5))), 1.0)


@pytest.mark.parametrize(("kind", "power"), [("noise", 0), ("walk", 1), ("slope", 2)])
def test_variances_grow_as_they_should(kind, power):
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((200, 200))
    slope = np.arange(200) * noise[:, :1]
    Y = {"noise": noise, "walk": noise.cumsum(1), "slope": slope}[kind]
    assert growth(with_gaps(Y)[0]).power == pytest.approx(power, abs=0.1)


def test_only_where_lines_beside_each_other_are_alike():
    X = picture()
    rng = np.random.default_rng(2)
    assert can_interpolate(as_observations(with_gaps(X)[0]))
    for mixed in (X[rng.permutation(60)], X[:, rng.permutation(50)], X[:10]):
        assert not can_interpolate(as_observations(with_gaps(mixed)[0]))
    table = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 20))
    assert not can_interpolate(as_observations(with_gaps(table)[0]))


def test_a_noisy_picture_is_a_picture_too_and_a_shuffled_one_is_not():
    """Faint stars: entries beside each other differ by 0.7 of what others differ by."""
    rng = np.random.default_rng(5)
    field = ndimage.gaussian_filter(rng.standard_normal((300, 240)), 4)
    Y = field / field.std() + rng.standard_normal(field.shape)
    assert can_interpolate(as_observations(Y))
    for shuffled in (rng.permutation(Y), rng.permutation(Y, axis=1)):
        assert not can_interpolate(as_observations(shuffled))


def test_outliers_are_clipped_at_the_fit():
    X = picture()
    Y, _ = with_gaps(X)
    Y[30, 20:24] = 1e4
    zero = Factors(np.zeros((60, 1)), np.zeros((50, 1)))
    clipped = asked(interpolation, Y, zero, 100.0)
    assert np.abs(clipped.said).max() <= 100
    half = asked(interpolation, Y, zero, 1e6, 0.5)
    at = np.array([3]), np.array([4])
    assert half.at(*at) == pytest.approx(0.5 * half.said[at])


def test_a_picture_is_filled_in_better_than_by_low_rank_or_by_lines_alone():
    X = picture(90, 80)
    Y, hidden = with_gaps(X)
    result = lrmc.solve(Y)
    assert "interpolation" in {part.name for part in result.fit.beyond}
    rows, cols = np.nonzero(hidden)
    truth = X[hidden]

    def missed(said):
        return np.sqrt(np.mean((said - truth) ** 2))

    ours = missed(result.fit.at(rows, cols))
    low_rank = (result.fit.X.L @ result.fit.X.R.T)[hidden]
    lines = (along_rows(Y)[0] + along_rows(Y.T)[0].T)[hidden] / 2
    assert ours < 0.8 * missed(low_rank)
    assert ours < missed(lines)

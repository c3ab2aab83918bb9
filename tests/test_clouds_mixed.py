"""What stands out and cannot be a cloud, and shadows beside clouds."""

import numpy as np
import pytest

from lrmc.apps.clouds.mixed import learned_clouds, nearest_mixture

GROUND = np.array([230.0, 410.0, 210.0, 3600.0])
DEVIATION = np.array([40.0, 100.0, 50.0, 500.0])
SOIL = np.array([900.0, 1300.0, 1400.0, 4200.0])


def dates(thin_cloud=False):
    """T x bands x n of two dates: opaque clouds over half of one, some bare fields, or thin clouds in their
    place, on the other.
    """
    rng = np.random.default_rng(0)
    n = 200
    Y = GROUND[:, None] + 0.3 * DEVIATION[:, None] * rng.standard_normal((2, 4, n))
    opacity = rng.uniform(0.7, 1, 100)
    white = rng.uniform(5000, 8000, 100) * rng.uniform(0.97, 1.03, (4, 100))
    Y[0, :, :100] = (1 - opacity) * Y[0, :, :100] + opacity * white
    thin = 0.85 * GROUND + 0.15 * 6000
    Y[1, :, :10] = (thin if thin_cloud else SOIL)[:, None] * rng.uniform(0.98, 1.02, 10)
    sd = np.broadcast_to(DEVIATION[:, None], Y.shape)
    away = (Y - GROUND[:, None]) / sd
    return Y, away, sd, np.abs(away).max(1) > 5


def learned(Y, away, sd, out):
    return learned_clouds(Y, np.ones(out.shape, bool), away, sd, out)


@pytest.mark.parametrize("thin_cloud", [False, True])
def test_a_bare_field_is_no_cloud_and_a_thin_cloud_is(thin_cloud):
    Y, away, sd, out = dates(thin_cloud)
    assert out[0, :100].all()
    assert out[1, :10].all()
    clouds = learned(Y, away, sd, out)
    np.testing.assert_array_equal(clouds.clouded, [True, False])
    some = (one[1][:, :10] for one in (Y, away, sd))
    assert np.all(clouds.possible(*some, np.ones(10, int)) == thin_cloud)
    some = (one[0][:, :100] for one in (Y, away, sd))
    assert clouds.possible(*some, np.zeros(100, int)).all()


def test_opacity_is_the_share_of_the_cloud():
    cloud = np.full(4, 6000.0)
    share = np.array([0.1, 0.5, 1.0])
    y = (1 - share) * GROUND[:, None] + share * cloud[:, None]
    sd = np.broadcast_to(DEVIATION[:, None], y.shape)
    away = (y - GROUND[:, None]) / sd
    opacity, misfit = nearest_mixture(cloud[None], y, away, sd)
    np.testing.assert_allclose(opacity, share, rtol=1e-5)
    assert misfit.max() < 1e-2


def test_a_shadow_needs_a_cloud_on_its_date():
    """Less than the five deviations of a cloud are enough beside one."""
    Y, _, sd, out = dates()
    Y[:, :, 150] = 0.5 * GROUND
    away = (Y - GROUND[:, None]) / sd
    assert -5 < away[0, :, 150].min() < -3
    clouds = learned(Y, away, sd, out)
    found = clouds.shadows(*(one[:, :, None] for one in (Y, away, sd)))[:, 0]
    np.testing.assert_array_equal(np.argwhere(found), [[0, 150]])


def test_without_clouds_there_are_no_colours_of_them():
    Y, away, sd, out = dates()
    assert learned(Y[1:], away[1:], sd[1:], out[1:]) is None

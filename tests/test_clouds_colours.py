"""Colours of the ground: fields that change look like other fields, clouds like none."""

from types import SimpleNamespace

import numpy as np
import pytest

from lrmc.apps.clouds.believe import harmful, helpful
from lrmc.apps.clouds.colours import NEIGHBORS, USUAL, familiar, palettes
from lrmc.apps.clouds.contest import contested

FIELD, FOREST = np.array([400.0, 900.0, 3500.0]), np.array([200.0, 300.0, 2500.0])


def scene(seed=0, side=30):
    """1 x 3 x side x side: fields and forest."""
    rng = np.random.default_rng(seed)
    kind = np.where(np.arange(side) < side // 2, 1.0, 0.0)
    base = kind * FIELD[:, None] + (1 - kind) * FOREST[:, None]
    return base[None, :, None] * rng.uniform(0.8, 1.2, (1, 3, side, side))


def asked_of(Y, colours):
    """Whether the pixel in the middle of a date is familiar."""
    middle = np.zeros((1, *Y.shape[2:]), bool)
    middle[0, 15, 20] = True
    return bool(familiar(Y, middle, colours)[0, 15, 20])


@pytest.mark.parametrize("factor", [1.0, 1e-4])
def test_a_field_is_familiar_and_a_cloud_is_not(factor):
    Y = scene() * factor
    clear = np.ones((1, 30, 30), bool)
    clear[0, 15, 20] = False
    for y, expected in (
        (FIELD, True),
        (FOREST, True),
        (FOREST + 3000, False),  # a cloud is white
        ((FIELD + FOREST) / 8, False),  # a shadow is dark
    ):
        Y[0, :, 15, 20] = y * factor if y.max() < 6000 else y
        assert asked_of(Y, palettes(Y, clear, 0.5 * factor)) is expected


def test_it_is_what_all_distances_say():
    """One by one, in whitened logarithms."""
    Y = scene(1)
    clear = np.random.default_rng(2).random((1, 30, 30)) < 0.5
    other = np.random.default_rng(3).uniform(0.7, 1.4, (np.count_nonzero(~clear), 3))
    Y[0, :, ~clear[0]] *= other
    got = familiar(Y, ~clear, palettes(Y, clear, 0.5))
    x, ref = np.log(Y[0][:, ~clear[0]]).T, np.log(Y[0][:, clear[0]]).T
    inverse = np.linalg.inv(np.cov(ref.T))

    def distances(z):
        away = z[:, None] - ref
        return np.sort(np.sqrt(np.einsum("nmi,ij,nmj->nm", away, inverse, away)), 1)

    unit = np.quantile(distances(ref)[:, NEIGHBORS], USUAL)
    want = distances(x)[:, NEIGHBORS - 1] < unit
    assert 0 < want.mean() < 1
    assert np.mean(got[~clear] == want) > 0.99


def test_few_clear_pixels_tell_nothing():
    Y, clear = scene(), np.zeros((1, 30, 30), bool)
    clear[0, 0, :10] = True
    assert palettes(Y, clear, 0.5) == (None,)
    assert not familiar(Y, ~clear, (None,)).any()


def test_values_that_are_no_light():
    """Temperatures below 0: compared as they are."""
    Y = scene() - 5000
    clear = np.ones((1, 30, 30), bool)
    clear[0, 15, 20] = False
    assert asked_of(Y, palettes(Y, clear, 0.5))


@pytest.fixture(scope="module")
def mown_and_hazy():
    """A field that was mown and a haze, masked both, have colours of fields; only the field tells of
    other dates."""
    rng = np.random.default_rng(4)
    wandering = np.cumsum(rng.normal(0, 0.1, (9, 3, 30, 30)), axis=0)
    ground = scene() * np.exp(wandering)
    mown = (slice(4, 9), slice(None), slice(0, 8), slice(16, 28))
    ground[mown] = ground[4:, :, 0:8, 2:14]  # a forest becomes a field
    hazy = (2, slice(None), slice(20, 28), slice(16, 28))
    ground[hazy] = scene(6)[0, :, 20:28, 2:14]
    Y = ground + rng.normal(0, 10, ground.shape)
    mask = np.zeros((9, 30, 30), np.uint8)
    mask[5, 0:8, 16:28] = mask[2, 20:28, 16:28] = 1
    T, bands = Y.shape[:2]
    clear = (mask == 0).reshape(T, -1)
    days, none = 20.0 * np.arange(T), np.zeros(T, bool)
    filling = contested(Y.reshape(T, bands, -1), clear, days, none, least=0.5)
    return Y, mask, filling


def test_what_lasts_is_believed_and_a_thin_cloud_is_not(mown_and_hazy):
    Y, mask, filling = mown_and_hazy
    found = helpful(Y, mask, palettes(Y, mask == 0, 0.5), filling)
    assert found[5] is not None
    assert [t for t, one in enumerate(found) if one is not None] == [5]


def test_a_haze_that_was_let_in_does_harm(mown_and_hazy):
    """What the mask no longer has makes the other dates harder to predict."""
    Y, mask, filling = mown_and_hazy
    found = harmful(Y, mask, np.zeros_like(mask), filling)
    assert [t for t, does in enumerate(found) if does] == [2]


@pytest.mark.parametrize(("days", "harms"), [(5.0, False), (90.0, True)])
def test_dates_that_are_near_tell_most(days, harms):
    """A field that was bare on two dates, one of which was let in: it tells of the other one, and of
    nothing in autumn.
    """
    Y = np.zeros((5, 1, 4, 5))
    Y[:2] = 10.0

    def mean_of_others(y, believed):
        total, count = (y * believed[:, None]).sum(0), believed.sum(0)
        return (total - y * believed[:, None]) / (count - believed)[:, None]

    filling = SimpleNamespace(
        predicted=mean_of_others,
        error=np.ones((5, 1)),
        least=1.0,
        ways=SimpleNamespace(days=np.array([0.0, days, 100.0, 120.0, 140.0])),
    )
    mask = np.zeros((5, 4, 5), np.uint8)
    mask[0] = 1
    assert harmful(Y, mask, np.zeros_like(mask), filling)[0] == harms


@pytest.mark.parametrize(("spread", "harms"), [(1.0, True), (30.0, False)])
def test_a_harm_that_may_be_chance_is_none(spread, harms):
    """Twenty pixels, with which the date beside is predicted worse by 2 on average."""
    more = 2.0 + spread * np.tile([-0.5, 0.5], 10)

    def predicted(y, believed):
        return np.where(believed[0], 20.0 + more, 20.0) * np.ones_like(y)

    filling = SimpleNamespace(
        predicted=predicted,
        error=np.full((3, 1), 2.0),
        least=1.0,
        ways=SimpleNamespace(days=np.arange(3.0)),
    )
    mask = np.zeros((3, 4, 5), np.uint8)
    mask[0] = 1
    Y = np.zeros((3, 1, 4, 5))
    assert harmful(Y, mask, np.zeros_like(mask), filling)[0] == harms

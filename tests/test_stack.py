"""Stacks of frames <-> matrices."""

import numpy as np
import pytest

from lrmc.apps.stack import Stack, as_type, band_groups, chosen
from lrmc.observations import as_observations


@pytest.fixture
def frames():
    return np.random.default_rng(0).integers(0, 256, (7, 12, 10, 3), dtype=np.uint8)


def test_the_matrix_is_a_view(frames):
    matrix = Stack(frames).matrix
    assert matrix.shape == (360, 7)
    assert np.shares_memory(matrix, frames)
    np.testing.assert_array_equal(matrix[:, 3], frames[3].ravel())
    assert np.shares_memory(as_observations(matrix).of.Y, frames)


def test_a_mask_per_frame_or_one_for_all(frames):
    seen = np.random.default_rng(1).random(frames.shape) < 0.5
    np.testing.assert_array_equal(Stack(frames, seen).mask[:, 2], seen[2].ravel())
    np.testing.assert_array_equal(Stack(frames, seen[0]).mask[:, 2], seen[0].ravel())
    assert Stack(frames).mask is None


@pytest.mark.parametrize("masked", [False, True])
def test_sampled_entries_are_entries_of_the_stack(frames, masked):
    seen = np.random.default_rng(1).random(frames.shape) < 0.5 if masked else None
    stack = Stack(frames, seen)
    some = stack.sampled(0.3, seed=2)
    assert some.shape == stack.matrix.shape
    assert some.dtype == np.uint8
    coo = some.tocoo()
    np.testing.assert_array_equal(coo.data, stack.matrix[coo.row, coo.col])
    if masked:
        assert stack.mask[coo.row, coo.col].all()
    share = some.nnz / (seen.sum() if masked else frames.size)
    assert abs(share - 0.3) < 0.05
    obs = as_observations(some)
    np.testing.assert_array_equal(obs.row_observed, np.bincount(coo.row, minlength=360))


def test_every_place_is_chosen_alike_and_once():
    places = np.concatenate(
        [np.concatenate(list(chosen(50, 0.2, seed))) for seed in range(4000)]
    )
    share = np.bincount(places, minlength=50) / 4000
    assert np.abs(share - 0.2).max() < 0.03
    one = np.concatenate(list(chosen(10_000, 0.5, 0)))
    assert (np.diff(one) > 0).all()
    np.testing.assert_array_equal(
        np.concatenate(list(chosen(100, 1.0, 0))), np.arange(100)
    )


def test_chosen_in_several_draws(monkeypatch):
    monkeypatch.setattr("lrmc.apps.stack.GAPS_AT_ONCE", 7)
    some = list(chosen(1000, 0.3, 0))
    assert len(some) > 10
    places = np.concatenate(some)
    assert (np.diff(places) > 0).all()
    assert places[-1] < 1000
    assert 200 < len(places) < 400


def test_integers_are_rounded_and_kept_in_range():
    np.testing.assert_array_equal(
        as_type(np.array([-3, 1.6, 300, np.nan]), np.dtype(np.uint8)), [0, 2, 255, 0]
    )
    assert as_type(np.array([1.5]), np.dtype(np.float32)) == np.float32(1.5)


def test_bands_of_a_pixel_share_a_label():
    stack = Stack(np.zeros((4, 3, 2, 2)))
    labels = band_groups(3, 4).reshape(stack.frame_shape)
    assert (labels == labels[0]).all()
    assert len(np.unique(labels[0])) == 4


def test_bad_shapes_and_shares(frames):
    for bad in (np.zeros(5), np.zeros((0, 4, 4))):
        with pytest.raises(ValueError, match="stack of frames"):
            Stack(bad)
    with pytest.raises(ValueError, match="at most 1"):
        Stack(frames).sampled(1.5)

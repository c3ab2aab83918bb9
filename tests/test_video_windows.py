"""Windows and medians of whole pictures, against loops and SciPy."""

import numpy as np
import pytest
from scipy import ndimage as ndi

from lrmc.apps.video import medians, windows

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
    x = rng.standard_normal((2, 19, 23)).astype(np.float32)
    np.testing.assert_allclose(
        windows.mean(x, size), ndi.uniform_filter(x, **near), atol=1e-6
    )


def test_counts_of_large_windows_do_not_overflow():
    full = np.ones((1, 60, 60), bool)
    for size in (windows.BYTE_SIDE, windows.BYTE_SIDE + 2, 49):
        assert (windows.count(full, size) == size**2).all()


@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_medians_of_few(n):
    x = np.random.default_rng(n).standard_normal((n, 40)).astype(np.float32)
    np.testing.assert_allclose(medians.of_few(x), np.median(x, axis=0), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 101, 300])
def test_medians_of_bytes(n):
    x = np.random.default_rng(n).integers(0, 256, (n, 50)).astype(np.uint8)
    x[:, :3] = (0, 255, 128)
    want = np.sort(x, axis=0)[(n - 1) // 2]
    np.testing.assert_array_equal(medians.of_bytes(x), want)

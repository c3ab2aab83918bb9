"""What tables with time do fast, against what says the same slowly."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrmc.methods.in_time.products import product
from lrmc.methods.in_time.simple import filtered


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((10, 500), (500, 3, 700)),
        ((500, 10), (10, 2100)),
        ((2100, 500), (500, 10)),
        ((0, 20), (20, 40)),
        ((20, 0), (0, 4, 5)),
    ],
)
def test_products_in_parts(left, right):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal(left), rng.standard_normal(right)
    assert_allclose(product(A, B), np.tensordot(A, B, 1), atol=1e-12)
    assert product(A.astype("f4"), B.astype("f4")).dtype == np.float32


@pytest.mark.parametrize("length", [7, 8, 60])
def test_a_median_filter_against_sorted_windows(length):
    rng = np.random.default_rng(length)
    Y = rng.standard_cauchy((4, length))
    Y[0, 3] = np.nan
    for y, found in zip(Y, filtered(Y), strict=True):
        left = y[~np.isnan(y)]
        wide = np.pad(left, 3, mode="reflect") if len(left) > 6 else left
        around = [wide[k : k + 7] for k in range(len(left))]
        middle = np.array([np.median(x) for x in around])
        away = zip(around, middle, strict=True)
        spread = 1.4826 * np.array([np.median(np.abs(x - m)) for x, m in away])
        spread = np.maximum(spread, np.median(spread))
        far = np.abs(left - middle) > 3 * spread
        expected = np.where(far & (len(left) > 6), np.nan, left)
        assert_allclose(found[~np.isnan(y)], expected)

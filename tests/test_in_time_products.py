"""What tables with time do fast, against what says the same slowly."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrmc
from lrmc.methods.in_time.products import product
from lrmc.methods.in_time.simple import filtered
from lrmc.methods.in_time.sizes import not_too_small


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


def test_units_are_held_against_values():
    rows = np.array([1e-6, 0.5, 1.0, 2.0])
    usual = np.array([10.0, 1.0, 2.0, 4.0])
    assert_allclose(not_too_small(rows, usual), [0.05, 0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    "column", [np.tile([0.0, 1.0], 100), np.tile(np.arange(25), 8)]
)
def test_a_column_that_repeats_exactly_leaves_the_others_alone(column):
    rng = np.random.default_rng(6)
    t = np.arange(200)
    wave = np.stack([np.sin(t * 0.08 * np.pi), np.cos(t * 0.08 * np.pi)])
    walk = np.cumsum(rng.standard_normal(200)) / 8
    shared = np.vstack([wave, walk])
    X = (rng.standard_normal((6, 3)) @ shared + 0.3 * rng.standard_normal((6, 200))).T
    hidden = np.random.default_rng(6).random((200, 7)) < 0.2
    Y = np.where(hidden, np.nan, np.c_[X, column] + 10)
    missed = {}
    for name, Z in (("with", Y), ("without", Y[:, :6])):
        found = lrmc.solve(Z, time="rows").completed()[:, :6]
        missed[name] = np.sqrt(np.mean((found - X - 10)[hidden[:, :6]] ** 2))
    assert missed["with"] < 1.07 * missed["without"]

"""How near is near enough."""

import numpy as np

import lrmc

ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-5}


def assert_close(got, want, dtype=np.float64, factor=1.0):
    """Equal up to rounding in `dtype`, measured against the largest number in `want`."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape
    size = np.max(np.abs(want), initial=0.0)
    np.testing.assert_allclose(
        got, want, rtol=0, atol=factor * ROUNDING[np.dtype(dtype)] * size + 1e-300
    )


def assert_pull(got, want, dtype):
    """A Pull of the package and the Products of the reference agree. For a clip only the
    total count is promised.
    """
    for a, b in zip(got, want[:2], strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.dtype == dtype
            assert_close(a, b, dtype)
    assert got.n_inliers == want.row_inliers.sum()
    if got.energy is not None:
        assert_close(got.energy, want.row_energy.sum(), dtype)
        assert_close(got.row_energy, want.row_energy, dtype)
        assert_close(got.col_energy, want.col_energy, dtype)
    if got.col_inliers is not None:
        np.testing.assert_array_equal(got.row_inliers, want.row_inliers)
        np.testing.assert_array_equal(got.col_inliers, want.col_inliers)
        assert_close(got.row_weight, want.row_weight, dtype)
        assert_close(got.col_weight, want.col_weight, dtype)


def same_bits(a, b):
    """Whether two pulls are the same to the last bit."""
    pairs = [
        *zip(a, b, strict=True),
        *(
            (getattr(a, n), getattr(b, n))
            for n in ("row_inliers", "col_inliers", "row_weight")
        ),
    ]
    return all((x is None and y is None) or np.array_equal(x, y) for x, y in pairs)


def by_steps(Y, *given, **named):
    """As data in blocks are solved: of those in memory, a kernel solves small ones at once."""
    return lrmc.solve(Y, *given, progress=lambda it: None, **named)

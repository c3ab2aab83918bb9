"""What follows a pass of the closed loop by one kernel, against the plain form that data in blocks
go through."""

import numpy as np
import pytest
import scipy.sparse as sp
from each import each
from problems import made

from lrmc import _kernels, as_observations
from lrmc.methods.closed_loop import AtOnce, Loop, closed_loop
from lrmc.methods.rested import start
from lrmc.methods.thresholds import LOW
from lrmc.observations.grouped import grouped

TYPES = [np.float32, np.float64]


def stored(Y, kind):
    """The same data in other storage."""
    if kind == "sparse":
        seen = ~np.isnan(Y)
        return as_observations(sp.csr_array((Y[seen], np.nonzero(seen)), shape=Y.shape))
    obs = as_observations(np.asfortranarray(Y) if kind == "transposed" else Y)
    if kind == "groups":
        return grouped(obs, np.arange(len(Y)) // 2)
    return obs


def both(obs, rank, *, grams, steps=6, outliers="both"):
    """Steps of both forms from the same start."""
    X, zeta = start(obs, rank, 0)
    loops = [form(obs, X, grams, outliers, LOW) for form in (Loop, AtOnce)]
    for loop in loops:
        loop.begin(zeta)
    for _ in range(steps):
        yield tuple((loop, loop.step()) for loop in loops)


def assert_alike(pair, rtol):
    """Everything that a step says, and all that the next one needs."""
    (plain, want), (kernel, got) = pair
    for a, b in ((got.L, want.L), (got.R, want.R), (got.LL, want.LL)):
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(b).max())
    for name in ("zeta", "inliers", "residual", "behind", "moved"):
        np.testing.assert_allclose(
            getattr(got, name), getattr(want, name), rtol=30 * rtol, err_msg=name
        )
    for name in ("change", "widest", "far", "zeta", "inliers", "ridge"):
        np.testing.assert_allclose(
            getattr(kernel, name), getattr(plain, name), rtol=30 * rtol, err_msg=name
        )
    sides = [loop.cols.side for loop in (kernel, plain)]
    np.testing.assert_allclose(sides[0].multiple, sides[1].multiple, rtol=30 * rtol)
    assert (sides[0].widest, sides[0].far) == pytest.approx(
        (sides[1].widest, sides[1].far), rel=30 * rtol
    )
    np.testing.assert_allclose(
        kernel.rows.multiple, plain.rows.multiple, rtol=30 * rtol
    )


@each("dtype", TYPES)
@each("grams", [False, True])
@each("kind", ["dense", "sparse", "transposed", "groups"])
@each("rank", [1, 5, 9])
def test_a_step_at_once_is_the_plain_one(rank, kind, grams, dtype):
    rate = np.where(np.arange(140) % 10 == 0, 0.5, 0.05)
    p = made((140, 110), rank, p=0.6, rate=rate, size=10.0, seed=rank)
    obs = stored(p.Y.astype(dtype), kind)
    for pair in both(obs, rank, grams=grams, steps=3):
        assert_alike(pair, 100 * float(np.finfo(dtype).eps))


@each("grams", [False, True])
def test_lines_that_fall_behind_are_the_same(grams):
    """Rows of outliers get wider thresholds, and those far behind teach nothing."""
    rate = np.where(np.arange(300) % 10 == 0, 0.6, 0.02)
    p = made((300, 200), 4, p=0.5, rate=rate, size=30.0)
    widest = []
    for pair in both(as_observations(p.Y), 4, grams=grams, steps=8):
        assert_alike(pair, 1e-9)
        widest.append(pair[0][0].widest)
    assert max(widest) > 4


def test_rows_without_entries_and_one_sided_outliers():
    p = made((60, 50), 2, p=0.7, low=0.0, size=10.0)
    p.Y[[0, 7]], p.Y[:, 3] = np.nan, np.nan
    obs = as_observations(p.Y)
    for pair in both(obs, 2, grams=True, outliers="positive"):
        assert_alike(pair, 1e-9)


def test_of_many_rows_those_of_the_sample_tell_what_is_typical():
    p = made((20_100, 8), 1, p=0.9, size=10.0)
    for pair in both(as_observations(p.Y), 1, grams=True, steps=2):
        assert_alike(pair, 1e-9)


@each("rank", [1, 2, 6])
def test_the_gap_between_components(rank):
    p = made((90, 70), rank, p=0.9, seed=rank)
    *_, (_, (_, step)) = both(as_observations(p.Y), rank, grams=True, steps=3)
    values = np.linalg.svd(step.L @ step.R.T, compute_uv=False)[:rank]
    want = max((values[:-1] / values[1:]) ** 2, default=1.0)
    assert step.gap == pytest.approx(want, rel=1e-9)


def test_which_data_take_which_form():
    p = made((60, 50), 2)
    obs = as_observations(p.Y)
    X, zeta = start(obs, 2, 0)
    steps = closed_loop(obs, X, zeta)
    next(steps)
    assert type(steps.gi_frame.f_locals["loop"]) is AtOnce


def test_what_does_not_fit_is_refused():
    """Instead of reading or writing beyond the arrays."""
    p = made((60, 50), 2)
    obs = as_observations(p.Y)
    X, zeta = start(obs, 2, 0)
    loop = AtOnce(obs, X, True, "both", LOW)
    loop.begin(zeta)
    some = obs.sample
    for rows in (some.rows + 60, some.rows - 60):
        loop.sample = _kernels.LoopSample(
            rows=rows, cols=some.cols, values=some.values, judged=None
        )
        with pytest.raises(ValueError, match="outside of the matrix"):
            loop.step()
    loop = AtOnce(obs, X, True, "both", LOW)
    loop.begin(zeta)
    loop.lines = loop.lines[::-1]
    with pytest.raises(ValueError, match="has another"):
        loop.step()

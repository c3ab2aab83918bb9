"""What must hold for any shape, type, mask and layout."""

from dataclasses import replace

import numpy as np
import reference
import scipy.sparse as sp
from comparing import assert_close, assert_pull
from hypothesis import given
from hypothesis import strategies as st
from rules import rules

from lrmc import as_observations
from lrmc.weights import Clip


def strided(Y):
    return np.repeat(np.repeat(Y, 2, 0), 3, 1)[::2, ::3]


def stored(kind):
    def make(Y, mask):
        # scipy has no such types
        Y = Y.astype(np.float64) if Y.dtype.char == "e" or not Y.dtype.isnative else Y
        return kind(sp.coo_array((Y[mask], np.nonzero(mask)), shape=Y.shape)), None

    return make


LAYOUTS = {
    "C": lambda Y, mask: (Y, mask),
    "F": lambda Y, mask: (np.asfortranarray(Y), mask),
    "strided": lambda Y, mask: (strided(Y), np.asfortranarray(mask)),
    "reversed": lambda Y, mask: (Y[::-1].copy()[::-1], mask),
    "masked": lambda Y, mask: (np.ma.array(Y, mask=~mask), None),
    "csr": stored(sp.csr_array),
    "csc": stored(sp.csc_array),
}


@st.composite
def cases(draw):
    n1, n2, rank = (
        draw(st.integers(1, 40)),
        draw(st.integers(1, 70)),
        draw(st.integers(1, 9)),
    )
    dtype = np.dtype(
        draw(st.sampled_from(["f4", "f8", "u1", "i2", "u2", ">f8", ">i2", "i8", "f2"]))
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    Y = rng.integers(0, 100, (n1, n2)).astype(dtype)
    mask = rng.random((n1, n2)) < draw(st.sampled_from([0.05, 0.3, 0.7, 1.0]))
    mask[rng.integers(n1), rng.integers(n2)] = True
    L, R = (rng.uniform(0, 3, (n, rank)).astype(np.float32) for n in (n1, n2))
    return Case(
        Y,
        mask,
        L,
        R,
        draw(st.sampled_from(rules))[1],
        LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))],
    )


class Case:
    def __init__(self, Y, mask, L, R, rule, layout):
        self.Y, self.mask, self.L, self.R, self.layout = Y, mask, L, R, layout
        weight, self.slow = rule(*Y.shape, 12.3)
        self.weight = Clip(weight) if isinstance(weight, float) else weight

    def __repr__(self):
        rank, observed = self.L.shape[1], self.mask.sum()
        return f"Case({self.Y.shape}, {self.Y.dtype}, rank {rank}, {self.weight}, observed {observed})"

    def observations(self, Y=None, mask=None):
        return as_observations(
            *self.layout(
                self.Y if Y is None else Y, self.mask if mask is None else mask
            ),
            threads=2,
        )


@given(cases())
def test_pull_is_that_of_the_reference(case):
    obs = case.observations()
    want = reference.pull(
        case.Y.astype(float),
        case.mask,
        case.L.astype(float),
        case.R.astype(float),
        case.slow,
    )
    assert_pull(obs.pull(case.L, case.R, case.weight), want, obs.dtype)


@given(cases(), st.integers(-20, 20))
def test_scale(case, k):
    """Data times 4^k, factors and products times 2^k and 8^k: exact, for only exponents change."""
    obs = case.observations()
    one = obs.pull(case.L, case.R, case.weight)
    scaled = obs.scaled(4.0**k).pull(
        case.L * 2.0**k, case.R * 2.0**k, case.weight.scaled(4.0**k)
    )
    for a, b in zip(one, scaled, strict=True):
        np.testing.assert_array_equal(a * 8.0**k, b)
    assert one.n_inliers == scaled.n_inliers


@given(cases())
def test_transpose(case):
    one = case.observations().pull(case.L, case.R, case.weight)
    flipped = case.observations(case.Y.T, case.mask.T).pull(
        case.R, case.L, case.weight.flipped()
    )
    for a, b in zip(one, flipped[::-1], strict=True):
        assert_close(a, b, a.dtype)
    assert one.n_inliers == flipped.n_inliers
    if one.col_inliers is not None:
        np.testing.assert_array_equal(one.col_inliers, flipped.row_inliers)
        np.testing.assert_array_equal(one.row_inliers, flipped.col_inliers)
        assert_close(one.col_weight, flipped.row_weight, one[0].dtype)
        assert_close(one.row_weight, flipped.col_weight, one[0].dtype)
    if one.energy is not None:
        assert_close(one.col_energy, flipped.row_energy, one[0].dtype)
        assert_close(one.row_energy, flipped.col_energy, one[0].dtype)


@given(cases(), st.integers(0, 2**32))
def test_row_permutation(case, seed):
    order = np.random.default_rng(seed).permutation(len(case.Y))
    weight = case.weight
    if not isinstance(weight, Clip):
        changed = {"rows": weight.rows[order]}
        if hasattr(weight, "protect_rows") and weight.rule == 1:
            changed["protect_rows"] = weight.protect_rows[order]
        weight = replace(weight, **changed)
    one = case.observations().pull(case.L, case.R, case.weight)
    moved = case.observations(case.Y[order], case.mask[order]).pull(
        case.L[order], case.R, weight
    )
    assert_close(moved[0], one[0][order], one[0].dtype)
    assert_close(moved[1], one[1], one[1].dtype)
    if one.col_inliers is not None:
        np.testing.assert_array_equal(moved.row_inliers, one.row_inliers[order])
        np.testing.assert_array_equal(moved.col_inliers, one.col_inliers)


@given(cases())
def test_no_more_is_pulled_than_the_threshold_allows(case):
    """|C_ij| <= zeta, seen through products with unit vectors; an unbounded threshold
    pulls the whole residual.
    """
    n1, n2 = case.Y.shape
    C = case.observations().products(case.L, case.R, 2.5, Q=np.eye(n2))[0]
    assert np.abs(C).max() <= 2.5
    assert not C[~case.mask].any()
    E = np.where(
        case.mask,
        case.Y.astype(float) - case.L.astype(float) @ case.R.astype(float).T,
        0,
    )
    whole = case.observations().products(case.L, case.R, 1e9, P=np.eye(n1))[1].T
    assert_close(whole, E, C.dtype, factor=10)

"""Chains of observed entries, against scipy's connected components."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

import lrmc
from lrmc.methods.connected import unconnected


def expected(seen):
    """Rows and columns outside the component of the first column with the most entries."""
    n1 = len(seen)
    _, label = connected_components(
        sp.bmat([[None, sp.csr_array(seen)], [sp.csr_array(seen.T), None]]),
        directed=False,
    )
    main = label[n1 + np.argmax(seen.sum(0))]
    rows, cols = (label[:n1] != main) & seen.any(1), (label[n1:] != main) & seen.any(0)
    return int(rows.sum()), int(cols.sum())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 12), st.floats(0.02, 0.6), st.integers(0, 2**31)
)
def test_against_scipy(n1, n2, share, seed):
    rng = np.random.default_rng(seed)
    seen = rng.random((n1, n2)) < share
    seen[0, 0] = True
    Y = np.where(seen, rng.standard_normal((n1, n2)), np.nan)
    assert unconnected(lrmc.as_observations(Y)) == expected(seen)


def test_a_chain_through_all():
    """Every entry but the corner's neighbours is needed."""
    Y = np.full((20, 20), np.nan)
    Y[np.arange(20), np.arange(20)] = 1.0
    Y[np.arange(19), np.arange(1, 20)] = 1.0
    assert unconnected(lrmc.as_observations(Y)) == (0, 0)


def test_the_warning_counts():
    Y = lrmc.synthetic.problem(n=60, rank=1, alpha=0.0, p=1.0).Y
    Y[:20, 25:], Y[20:, :25] = np.nan, np.nan
    with pytest.warns(
        UserWarning, match=r"20 row\(s\) and 25 column\(s\) share no entry"
    ):
        lrmc.solve(Y, 1)


def patterns(seed):
    """Larger than a sample; in the second, ten lines of each side are apart, in the third
    one column hangs on a single entry.
    """
    rng = np.random.default_rng(seed)
    seen = rng.random((320, 200)) < 0.05
    apart = seen.copy()
    apart[:10], apart[:, :10] = False, False
    apart[:10, :10] = True
    hanging = seen.copy()
    hanging[:, 3] = False
    hanging[7, 3] = True
    return seen, apart, hanging


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("turned", [False, True])
def test_more_entries_than_a_sample_has(seed, turned):
    for seen in patterns(seed):
        seen = seen.T if turned else seen
        Y = np.where(seen, 1.0, np.nan)
        for form in (Y, np.asfortranarray(Y)):
            assert unconnected(lrmc.as_observations(form)) == expected(seen)


def test_random_gaps_take_no_pass(monkeypatch):
    """The sample and a few entries tell."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((900, 700)) < 0.2, 1.0, np.nan)
    obs = lrmc.as_observations(Y)
    monkeypatch.setattr(type(obs), "products", None)
    assert unconnected(obs) == (0, 0)

"""Rows that share one weight per column: against a plain reference, and what it is good for."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from each import each
from numpy.testing import assert_allclose

import lrmc
from lrmc.methods.second_opinions import opinions_for
from lrmc.observations import OWN
from lrmc.observations.grouped import grouped
from lrmc.weights import Cauchy, Clip, Huber, Mixture, Power, Threshold

BANDS, PIXELS, DATES = 3, 20, 11


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((BANDS * PIXELS, DATES))
    Y[rng.random(Y.shape) < 0.2] = np.nan
    L, R = rng.standard_normal((len(Y), 2)), rng.standard_normal((DATES, 2))
    return Y, L, R


def rules(n1, n2):
    one, other = np.linspace(0.5, 1.5, n1), np.linspace(0.8, 1.2, n2)
    yield Clip(0.9), lambda q: np.minimum(1, 1 / q)
    yield Threshold(one, other, 0 * one, 0 * other), lambda q: (q <= 1) * 1.0
    yield Cauchy(one, other), lambda q: 1 / (1 + q**2)
    yield Huber(one, other), lambda q: np.minimum(1, 1 / q)
    yield Mixture(one, other, odds=0.1), lambda q: 1 / (1 + 0.1 * (1 + q**2 / 32) ** 16)
    yield Power(one, other, shape=0.7), lambda q: (1 + q**2) ** -0.7
    yield Power(one, other, "positive", shape=1.4), lambda q: (1 + q**2) ** -1.4
    yield Power(one, other, "negative", shape=0.3), lambda q: (1 + q**2) ** -0.3


def thresholds(rule, shape):
    if isinstance(rule, Clip):
        return np.full(shape, rule.zeta)
    rows, cols = rule.rows[:, None], rule.cols[None, :]
    return np.maximum(rows, cols) if isinstance(rule, Threshold) else rows * cols


def size(E, rule):
    """0 on a side that has no outliers."""
    outliers = getattr(rule, "outliers", "both")
    one_sided = {"positive": np.maximum(E, 0), "negative": np.maximum(-E, 0)}
    return one_sided.get(outliers, np.abs(E))


def naive(Y, L, R, rule, weight, labels):
    """The worst residual of a group, entry by entry."""
    E = Y - L @ R.T
    ratio, W = size(E, rule) / thresholds(rule, Y.shape), np.zeros(Y.shape)
    for label in set(labels):
        members = np.flatnonzero(labels == label)
        for j in range(Y.shape[1]):
            seen = members[~np.isnan(Y[members, j])]
            if len(seen):
                W[seen, j] = weight(ratio[seen, j].max())
    return W * np.nan_to_num(E), W


@pytest.mark.parametrize("layout", ["stacked", "beside each other", "mixed"])
@each("order", ["C", "F"])
@each("which", range(8))
def test_products(data, layout, order, which):
    Y, L, R = data
    labels = {
        "stacked": np.tile(np.arange(PIXELS), BANDS),
        "beside each other": np.repeat(np.arange(PIXELS), BANDS),
        "mixed": np.random.default_rng(1).permutation(
            np.repeat(np.arange(PIXELS), BANDS)
        ),
    }[layout]
    rule, weight = list(rules(*Y.shape))[which]
    C, W = naive(Y, L, R, rule, weight, labels)
    obs = grouped(lrmc.as_observations(np.asarray(Y, order=order)), labels)
    if isinstance(rule, Clip):  # keeps no weights
        for got, want in zip(obs.pull(L, R, rule), (C @ R, C.T @ L), strict=True):
            assert_allclose(got, want, atol=1e-12)
        return
    pull = obs.products(L, R, rule, P=OWN, Q=OWN, Pw=L**2, Qw=R**2)
    for got, want in zip(
        (*pull, *pull.grams), (C @ R, C.T @ L, W @ R**2, W.T @ L**2), strict=True
    ):
        assert_allclose(got, want, atol=1e-12)
    assert_allclose(pull.row_weight, W.sum(1))
    assert_allclose(pull.col_weight, W.sum(0))
    if not isinstance(rule, Cauchy):
        return
    energy = np.where(W > 0, W * np.nan_to_num(Y - L @ R.T) ** 2, 0)
    assert_allclose(pull.row_energy, energy.sum(1))
    assert_allclose(pull.col_energy, energy.sum(0))
    assert_allclose(pull.energy, energy.sum())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_cloud_covers_all_bands():
    """Where outliers are plain in one band and small in another, groups find them in both."""
    rng = np.random.default_rng(0)
    ground = (
        np.abs(rng.standard_normal((BANDS * 300, 2)))
        @ np.abs(rng.standard_normal((2, 25)))
        + 1
    )
    clouds = (rng.random((300, 25)) < 0.25) * rng.uniform(0.5, 1, (300, 25))
    Y = ground + np.vstack([strength * clouds for strength in (3.0, 0.25, 0.1)])
    Y += 0.05 * rng.standard_normal(Y.shape)
    labels = np.tile(np.arange(300), BANDS)
    alone, together = (
        lrmc.solve(Y, 3, loss="cauchy", groups=g) for g in (None, labels)
    )
    errors = [
        np.linalg.norm(result.low_rank() - ground) for result in (alone, together)
    ]
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_follows_clouds_is_not_asked():
    """Clouds that come with others are predictable: hidden entries would speak for them."""
    rng = np.random.default_rng(1)
    ground = np.abs(rng.standard_normal((BANDS * 300, 2))) @ rng.random((2, 25)) + 1
    weather = rng.random((300, 1)) < 0.3  # places that are covered on the same dates
    cover = weather & (rng.random(25) < 0.4)
    Y = ground + np.tile(3.0 * cover, (BANDS, 1))
    Y += 0.05 * rng.standard_normal(Y.shape)
    gone = np.tile(rng.random((300, 25)) < 0.2, (BANDS, 1))
    labels = np.tile(np.arange(300), BANDS)
    obs = grouped(lrmc.as_observations(np.where(gone, np.nan, Y)), labels)
    assert opinions_for(obs) == ()
    assert lrmc.solve(np.where(gone, np.nan, Y), 3, groups=labels).beyond == ()


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.arange(5), "a label for each of the 60 rows"),
        ([0] * 59 + [1], "as many in each are wanted"),
    ],
)
def test_labels_that_do_not_fit(data, labels, said):
    with pytest.raises(ValueError, match=said):
        lrmc.solve(data[0], 2, groups=labels)


@pytest.mark.parametrize("order", ["C", "F"])
def test_few_entries_take_little_memory(order):
    """A sample of them is drawn from them, not from all places: the same one as without groups."""
    rng = np.random.default_rng(0)
    Y = np.full((400, 400), np.nan, order=order)
    Y[rng.integers(0, 400, 60), rng.integers(0, 400, 60)] = rng.standard_normal(60)
    plain = lrmc.as_observations(Y)
    obs = grouped(plain, np.repeat(np.arange(100), 4))
    tracemalloc.start()
    got = obs.sample
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
    assert_allclose(obs.lookup(got.rows, got.cols), got.values)
    assert len(got.values) == 60
    places = set(zip(got.rows.tolist(), got.cols.tolist()))
    assert places == set(zip(*np.nonzero(~np.isnan(Y))))
    if order == "C":
        assert_allclose(got.values, plain.sample.values)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_a_group_of_very_many_rows():
    """Its rows times the columns of a tile are more than 2^31: where memory is short,
    that is a sentence.
    """
    code = """
import resource, numpy as np
from lrmc import as_observations
from lrmc.observations.grouped import grouped
n = 2**23 + 4
obs = grouped(as_observations(np.ones((n, 1), np.uint8)), np.zeros(n, np.uint8))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)
try:
    obs.products(None, None, 0.5, Q=np.ones((1, 1), np.float32))
except MemoryError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "no memory for 8.59e+03 MB" in done.stdout

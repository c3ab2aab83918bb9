"""lrmc.solve(Y) and nothing else: what it must not depend on, and what it says about the data."""

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import made

import lrmc
from lrmc import Status

NOISES = st.sampled_from([0.0, 0.05])
RANKS = st.sampled_from([2, None])


def problem(seed, noise, **more):
    return made((140, 110), 2, p=0.7, noise=noise, seed=seed, **more)


def apart(one, other):
    """How far two results are from each other, in units of the first."""
    return np.linalg.norm(other - one) / np.linalg.norm(one)


def same(noise):
    """How near answers to the same question are: to the tolerance, or to a part of the
    error that noise makes.
    """
    return 1e-5 if noise == 0 else 5e-3


@settings(max_examples=5)
@given(st.integers(0, 99), NOISES, RANKS, st.sampled_from([1e-6, 255.0, 1e6, -1.0]))
def test_units_do_not_matter(seed, noise, rank, factor):
    Y = problem(seed, noise).Y
    one, scaled = (lrmc.solve(f * Y, rank) for f in (1, factor))
    assert scaled.rank == one.rank
    assert scaled.regime == one.regime
    assert scaled.outlier_fraction == pytest.approx(one.outlier_fraction, abs=0.01)
    assert apart(one.low_rank(), scaled.low_rank() / factor) < (
        1e-5 if noise == 0 else 1e-4
    )
    if noise:
        assert scaled.noise_level == pytest.approx(
            abs(factor) * one.noise_level, rel=0.01
        )


@settings(max_examples=8)
@given(st.integers(0, 99), NOISES, RANKS)
def test_transposed_and_in_another_order(seed, noise, rank):
    Y, rng = problem(seed, noise).Y, np.random.default_rng(seed)
    rows, cols = (rng.permutation(n) for n in Y.shape)
    one, moved = lrmc.solve(Y, rank), lrmc.solve(Y[rows][:, cols].T, rank)
    assert moved.rank == one.rank
    assert moved.regime == one.regime
    assert apart(one.low_rank()[rows][:, cols], moved.low_rank().T) < same(noise)


@pytest.mark.parametrize(("seed", "noise"), [(1, 0.0), (2, 0.05)])
def test_the_form_of_the_data(seed, noise):
    """NaN, a mask, a sparse matrix and storage by columns."""
    Y = problem(seed, noise).Y
    seen = ~np.isnan(Y)
    stored = sp.csr_array((Y[seen], np.nonzero(seen)), shape=Y.shape)
    one = lrmc.solve(Y)
    for form, mask in (
        (np.asfortranarray(Y), None),
        (stored, None),
        (stored.tocsc(), None),
        (np.nan_to_num(Y), seen),
    ):
        result = lrmc.solve(form, mask=mask)
        assert result.rank == one.rank
        assert apart(one.low_rank(), result.low_rank()) < 1e-6


# ---- what it says


@pytest.mark.parametrize("rank", [3, None])
@pytest.mark.parametrize("rate", [0.05, 0.3])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1])
def test_findings(noise, rate, rank):
    given = made((400, 300), 3, p=0.5, rate=rate, size=10, noise=noise)
    result = lrmc.solve(given.Y, rank)
    assert result.status is Status.CONVERGED
    assert result.regime == ("noisy" if noise else "exact")
    assert result.outlier_fraction == pytest.approx(rate, abs=0.02)
    if noise:
        assert result.noise_level == pytest.approx(noise * given.typical, rel=0.1)
        assert result.evidence["loss"] in ("mixture", "cauchy", "huber", "squares")
    else:
        assert result.noise_level < 1e-6 * given.typical
    assert bool(result.evidence["rank_tests"]) == (rank is None)
    assert result.regime in repr(result)


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize(("side", "low"), [("positive", 1), ("negative", -1)])
def test_one_sided_outliers(side, low, noise):
    """As good as without the hint at least; with the wrong hint, far worse."""
    given = made((400, 300), 3, p=0.5, rate=0.4, size=3, low=0, noise=noise)
    truth, errors = low * given.L @ given.R.T, {}
    for asked in ("both", "positive", "negative"):
        result = lrmc.solve(low * given.Y, 3, outliers=asked)
        errors[asked] = apart(truth, result.low_rank())
    wrong = "negative" if side == "positive" else "positive"
    assert errors[side] < (1e-5 if noise == 0 else 1.05 * errors["both"])
    assert errors[wrong] > 10 * errors["both"]


@pytest.mark.parametrize("loss", ["auto", "mixture", "cauchy", "huber", "squares"])
@pytest.mark.parametrize("outliers", ["both", "positive"])
def test_each_loss_on_heavy_tails(loss, outliers):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 150))
    Y = X + 0.2 * rng.standard_t(2, X.shape)
    result = lrmc.solve(Y, 2, loss=loss, outliers=outliers)
    assert result.regime == "noisy"
    assert result.evidence["loss"] == loss or loss == "auto"
    assert apart(X, result.low_rank()) < 0.1


@pytest.mark.parametrize(
    ("name", "said"),
    [("loss", "auto, mixture, cauchy, huber, squares"), ("outliers", "both, positive")],
)
def test_unknown_words(name, said):
    with pytest.raises(ValueError, match=f"{name}='magic'; one of {said}"):
        lrmc.solve(np.ones((5, 5)), 1, **{name: "magic"})


# ---- what cannot be done


def complaints(Y, rank, **how):
    """The result, and what was said about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = lrmc.solve(Y, rank, **how)
    return result, [str(warning.message) for warning in caught]


def test_too_few_entries_for_the_rank():
    given = lrmc.synthetic.problem(n=200, rank=20, p=0.15)
    _, said = complaints(given.Y, 20)
    assert any("unknowns: not determined" in text for text in said)


def test_more_rejected_than_can_be():
    """The data are fitted exactly because most of them were thrown away."""
    given = lrmc.synthetic.problem(n=300, rank=5, p=0.06)
    result, said = complaints(given.Y, 5)
    assert lrmc.relative_error(result, given) < 1e-5 or not result.converged or said


def test_blocks_that_nothing_connects():
    given = lrmc.synthetic.problem(n=200, rank=2, p=1.0, alpha=0.05)
    Y = given.Y.copy()
    Y[:100, 100:], Y[100:, :100] = np.nan, np.nan
    result, said = complaints(Y, 2)
    assert not result.converged or said


@pytest.mark.parametrize("rank", [5, None])
def test_mostly_outliers_are_not_called_exact(rank):
    given = lrmc.synthetic.problem(n=300, rank=5, p=0.3, alpha=0.9)
    result, said = complaints(given.Y, rank)
    assert result.regime != "exact" or not result.converged or said


@pytest.mark.parametrize("rank", [3, None])
def test_pure_noise(rank):
    """Nothing of low rank is there: called noisy, with the noise that there is."""
    Y = np.random.default_rng(0).standard_normal((300, 200))
    result, _ = complaints(Y, rank)
    assert result.regime == "noisy"
    assert result.noise_level == pytest.approx(1, rel=0.1)
    if rank is None:
        assert result.rank == 1


# ---- the page


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_plot(tmp_path, noise):
    figure_module = pytest.importorskip("matplotlib.figure")
    result = lrmc.solve(problem(0, noise).Y)
    figure = result.plot(tmp_path / "page.png")
    assert isinstance(figure, figure_module.Figure)
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    # nothing left behind
    assert [path.name for path in tmp_path.iterdir()] == ["page.png"]
    titles = [ax.get_title() for ax in figure.axes]
    assert len(titles) == 4
    assert all(titles)
    assert result.regime in figure.get_suptitle()
    assert f"rank {result.rank}" in figure.get_suptitle()
    assert isinstance(result.plot(), figure_module.Figure)


def test_plot_of_the_other_method_and_of_a_loaded_result(tmp_path):
    figure_module = pytest.importorskip("matplotlib.figure")
    result = lrmc.solve(problem(0, 0.0).Y, 2, method="lrmc")
    result.save(tmp_path / "result.npz")
    for one in (result, lrmc.Result.load(tmp_path / "result.npz")):
        assert isinstance(one.plot(), figure_module.Figure)


def test_plot_without_matplotlib(monkeypatch):
    result = lrmc.solve(problem(0, 0.0).Y, 2)
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "matplotlib"
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError,
        match=r'^this needs matplotlib, which is not installed: pip install "lrmc\[plot\]"$',
    ):
        result.plot()


@pytest.mark.parametrize("rank", [None, 2])
def test_nothing_but_outliers(rank):
    """X = 0: every step makes it smaller by the same part, and the run ends when it is
    nothing beside the data.
    """
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 150)) < 0.1) * rng.standard_normal((200, 150))
    with pytest.warns(UserWarning, match="nearly all entries have one value"):
        result = lrmc.solve(Y, rank)
    assert result.converged
    assert result.n_iter < 30
    assert np.abs(result.low_rank()).max() < 1e-6
    assert np.count_nonzero(result.outliers()) == np.count_nonzero(Y)


@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("known", [True, False])
def test_four_fifths_are_outliers(rank, known):
    """More than the quantile of good residuals allows for: a second run takes a lower one."""
    p = lrmc.synthetic.problem(600, rank, 0.8, 1.0, seed=3, form="dense")
    result = lrmc.solve(p.Y, rank=rank if known else None)
    assert result.regime == "exact"
    assert result.rank == rank
    assert np.linalg.norm(result.L @ result.R.T - p.X) < 1e-5 * np.linalg.norm(p.X)


def test_rows_that_meet_many_entries_by_chance_are_not_called_right():
    """Of 200 entries, some agree with one of thousands of wrong fits."""
    p = lrmc.synthetic.problem(400, 5, 0.75, 0.5, seed=1, form="dense")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = lrmc.solve(p.Y, rank=5)
    rows = np.setdiff1d(np.arange(400), result.undetermined_rows)
    cols = np.setdiff1d(np.arange(400), result.undetermined_cols)
    miss = (result.L @ result.R.T - p.X)[np.ix_(rows, cols)]
    assert result.regime == "noisy" or np.linalg.norm(miss) < 1e-4 * np.linalg.norm(p.X)

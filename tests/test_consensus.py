from itertools import combinations

import numpy as np
import pytest
from presentations import every_storage, small

from lrmc import _kernels, solve, synthetic
from lrmc.linalg import Factors
from lrmc.methods.certificate import certify
from lrmc.methods.consensus import finished, gathered, promising, sharpened
from lrmc.observations import as_observations


def lines_with_outliers(seed, n=40, length=9, rank=2, share=0.35):
    """Lines of a matrix by their entries: y = G f, but for outliers."""
    rng = np.random.default_rng(seed)
    G, F = rng.standard_normal((30, rank)), rng.standard_normal((n, rank))
    places = np.array(
        [rng.choice(30, length, replace=False) for _ in range(n)], np.int32
    )
    Y = np.einsum("nlr,nr->nl", G[places], F)
    bad = rng.random(Y.shape) < share
    return G, F, places, np.where(bad, rng.uniform(-3, 3, Y.shape), Y), bad


def refit(G, places, Y, *, draws=3000, threads=1, start=None):
    n, length = Y.shape
    F = np.zeros((n, G.shape[1])) if start is None else start.copy()
    agreeing = np.empty(n, np.int64)
    indptr = np.arange(n + 1, dtype=np.int64) * length
    entries = {"indptr": indptr, "indices": places.ravel(), "values": Y.ravel()}
    _kernels.consensus(
        **entries,
        G=G,
        F=F,
        agreeing=agreeing,
        border=1e-8,
        draws=draws,
        seed=0,
        threads=threads,
    )
    return F, agreeing


def most_agreeing(G, places, y):
    """By trying every pair of entries."""
    fits = (
        np.linalg.solve(G[places[list(pair)]], y[list(pair)])
        for pair in combinations(range(len(y)), 2)
    )
    return max(int((np.abs(y - G[places] @ f) <= 1e-8).sum()) for f in fits)


@pytest.mark.parametrize("draws", [3000, 25], ids=["all subsets", "random ones"])
def test_a_line_is_fitted_to_what_most_of_its_entries_agree_on(draws):
    G, F, places, Y, bad = lines_with_outliers(0)
    found, agreeing = refit(G, places, Y, draws=draws)
    # of 9: two entries are met by any fit
    told = (~bad).sum(1) >= 5 if draws == 25 else (~bad).sum(1) >= 3
    assert told.sum() > 20
    np.testing.assert_allclose(found[told], F[told], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(agreeing[told], (~bad).sum(1)[told])
    if draws == 3000:
        best = [most_agreeing(G, *line) for line in zip(places, Y, strict=True)]
        np.testing.assert_array_equal(np.maximum(agreeing, 2), best)


def test_a_line_that_is_right_is_kept_and_threads_make_no_difference():
    G, F, places, Y, bad = lines_with_outliers(1, share=0.5)
    kept, agreeing = refit(G, places, Y, start=F)
    assert (agreeing >= (~bad).sum(1)).all()
    right = (~bad).sum(1) > 4
    np.testing.assert_allclose(kept[right], F[right], rtol=1e-9)
    one, several = (refit(G, places, Y, draws=20, threads=t) for t in (1, 3))
    for a, b in zip(one, several, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("what", ["index", "length", "order"])
def test_the_kernel_refuses_what_would_crash(what):
    indptr, indices = np.array([0, 2, 4]), np.array([0, 1, 2, 0], np.int32)
    if what == "index":
        indices[2] = 3
    elif what == "length":
        indptr[2] = 5
    else:
        indptr[1] = 7
    entries = {"indptr": indptr, "indices": indices, "values": np.ones(4)}
    room = {"F": np.zeros((2, 1)), "agreeing": np.zeros(2, np.int64)}
    with pytest.raises(ValueError, match="kernel: "):
        _kernels.consensus(
            **entries,
            **room,
            G=np.ones((3, 1)),
            border=1e-6,
            draws=10,
            seed=0,
            threads=1,
        )


@every_storage
def test_entries_are_gathered_from_every_storage(present, p, folder):
    s = small(p=p)
    obs = as_observations(*present(s, folder))
    X = Factors(*(np.ones((n, 2), obs.dtype) for n in obs.shape))
    for axis, Y in enumerate((s.nan, s.nan.T)):
        lines, known = np.array([5, 1]), np.arange(Y.shape[1]) != 4
        indptr, places, values = gathered(obs, X, axis, lines, known)
        for k, line in enumerate(lines):
            seen = np.flatnonzero(~np.isnan(Y[line]) & known)
            here = slice(*indptr[k : k + 2])
            order = np.argsort(places[here])
            np.testing.assert_array_equal(places[here][order], seen)
            np.testing.assert_allclose(values[here][order], Y[line, seen], rtol=1e-5)


def wrong_rows(p, result):
    miss = np.abs(result.L @ result.R.T - p.X).max(1)
    return miss > 1e-3 * np.median(np.abs(p.X))


@pytest.mark.parametrize(
    ("n1", "n2", "rank", "alpha", "share", "dtype"),
    [
        (4000, 5, 1, 0.1, 1.0, np.float64),
        (4000, 5, 1, 0.1, 1.0, np.float32),
        (3000, 12, 2, 0.2, 1.0, np.float64),
        (3000, 30, 3, 0.1, 0.5, np.float64),
    ],
)
@pytest.mark.filterwarnings("ignore:of .* too few entries agree:UserWarning")
def test_rows_of_tall_matrices_are_right_or_listed(n1, n2, rank, alpha, share, dtype):
    p = synthetic.problem(
        n1, rank, alpha, share, n2=n2, seed=11, form="dense", dtype=dtype
    )
    result = solve(p.Y, rank=rank)
    assert result.converged
    assert result.regime == "exact"
    clean = ((p.outliers == 0) & ~np.isnan(p.Y)).sum(1)
    wrong = wrong_rows(p, result)
    # with fewer, nothing tells the truth from an outlier
    assert not (wrong & (clean > rank)).any()
    assert set(np.flatnonzero(wrong)) <= set(result.undetermined_rows)
    assert len(result.undetermined_rows) < 0.02 * n1


@pytest.mark.filterwarnings("ignore:of .* too few entries agree:UserWarning")
def test_columns_of_wide_matrices_as_well():
    p = synthetic.problem(5, 1, 0.1, 1.0, n2=4000, seed=12, form="dense")
    result = solve(p.Y, rank=1)
    assert result.regime == "exact"
    wrong = np.abs(result.L @ result.R.T - p.X).max(0) > 1e-3 * np.median(np.abs(p.X))
    clean = (p.outliers == 0).sum(0)
    assert not (wrong & (clean > 1)).any()
    assert set(np.flatnonzero(wrong)) <= set(result.undetermined_cols)


def test_noise_is_not_taken_for_something_to_mend():
    p = synthetic.problem(300, 3, 0.1, 0.5, seed=0, noise=0.01, form="dense")
    obs = as_observations(p.Y)
    assert not promising(obs, p.X_factors, 1e-6)


def test_a_certificate_that_comes_early_is_followed_by_sweeps_over_what_agrees():
    p = synthetic.problem(150, 3, 0.2, 0.6, seed=5, form="dense")
    obs = as_observations(p.Y)
    rng = np.random.default_rng(0)
    size = 1e-5 * np.sqrt(obs.scale)
    near = Factors(*(F + size * rng.standard_normal(F.shape) for F in p.X_factors))
    certificate = certify(obs, near, 1e-6)
    steps = finished(obs, near, certificate, 1e-6)
    last = None
    while True:
        try:
            last = next(steps)
        except StopIteration as end:
            X, after = end.value
            break
    assert after.holds
    assert after.agreeing >= certificate.agreeing
    np.testing.assert_array_equal(last.L, X.L)
    assert np.linalg.norm(X.L @ X.R.T - p.X) < 1e-8 * np.linalg.norm(p.X)


def test_an_outlier_that_is_hardly_one_does_not_spoil_a_short_line():
    """It took part in the least squares of its column: others are missed by a little,
    and it by hardly more.
    """
    rng = np.random.default_rng(4)
    L, R = rng.standard_normal((80, 2)), rng.standard_normal((60, 2))
    Y = L @ R.T
    Y[rng.random(Y.shape) < 0.1] += 3.0
    Y[:, 5] = np.nan
    Y[:7, 5] = L[:7] @ R[5]
    Y[3, 5] += 3e-4
    fitted = R.copy()
    fitted[5] = np.linalg.lstsq(L[:7], Y[:7, 5], rcond=None)[0]
    obs, X = as_observations(Y), Factors(L, fitted)
    certificate = certify(obs, X, 1e-6)
    assert certificate.holds
    assert 5 not in certificate.cols
    better, again = _end(sharpened(obs, X, certificate, 1e-6))
    assert again.holds
    np.testing.assert_allclose(better.R[5], R[5], atol=1e-9)
    untouched = Factors(L, R)
    proof = certify(obs, untouched, 1e-6)
    assert _end(sharpened(obs, untouched, proof, 1e-6)) == (untouched, proof)


def _end(steps):
    """What a run of steps gives."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value

"""Exact is a claim that must be proven: what is, what is not, and what is said about the rest."""

import warnings

import numpy as np
import pytest
from each import each

import lrmc
from lrmc import _kernels, synthetic
from lrmc._answer import _not_vouched_for
from lrmc.linalg import Factors
from lrmc.methods.certificate import Certificate, certify
from lrmc.methods.chance import by_chance, proving
from lrmc.observations import as_observations


def factors(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    return Factors(*(rng.standard_normal((n, rank)) for n in shape))


def matrix(X):
    return X.L @ X.R.T


def spoilt(X, share, seed=1):
    """Outliers of all sizes up to three times the data."""
    rng = np.random.default_rng(seed)
    Y = matrix(X)
    bad = rng.random(Y.shape) < share
    return np.where(bad, Y + 3 * rng.uniform(-1, 1, Y.shape) * np.abs(Y).mean(), Y)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_the_truth_is_proven(share):
    X = factors((120, 90), 3)
    proof = certify(as_observations(spoilt(X, share)), X, 1e-6)
    assert proof.holds
    assert proof.agreeing == pytest.approx(1 - share, abs=0.02)
    assert not len(proof.rows)
    assert not len(proof.cols)


def test_interpolation_is_not_proven():
    """With the rank of the shorter side any data are met exactly."""
    Y = np.random.default_rng(0).standard_normal((200, 4))
    U, s, Vt = np.linalg.svd(Y, full_matrices=False)
    proof = certify(as_observations(Y), Factors(U * s, Vt.T), 1e-6)
    assert proof.oversampling < 1.01
    assert "no more entries agree" in proof.why_not


def test_one_value_in_many_places_proves_nothing():
    """Half of the entries read 0, and X = 0 agrees with these."""
    Y = matrix(factors((100, 80), 3))
    Y[np.random.default_rng(0).random(Y.shape) < 0.5] = 0
    proof = certify(
        as_observations(Y), Factors(np.zeros((100, 3)), np.zeros((80, 3))), 1e-6
    )
    assert proof.agreeing > 0.4
    assert not proof.holds


def test_rows_that_are_wrong_are_listed():
    X = factors((150, 60), 2)
    Y = matrix(X)
    Y[[3, 70]] = np.random.default_rng(0).standard_normal((2, 60))
    proof = certify(as_observations(Y), X, 1e-6)
    assert proof.holds
    assert proof.rows.tolist() == [3, 70]


def test_columns_alike_tell_one_number_of_a_row():
    """Ten columns are alike: a row that agrees there, and in as few others as can be
    made to, hangs on those.
    """
    L = np.hstack([np.random.default_rng(0).standard_normal((100, 3))])
    R = np.random.default_rng(1).standard_normal((20, 3))
    R[:10] = [1, 0, 0]
    Y = L @ R.T
    wrong = L.copy()
    # meets columns 10 and 11 of what follows
    wrong[5, 1:] += np.linalg.solve(R[[10, 11]][:, 1:], [1.0, 2.0])
    Y[5, [10, 11]] += [1.0, 2.0]
    proof = certify(as_observations(Y), Factors(wrong, R), 1e-6)
    assert 5 in proof.rows


def test_half_of_a_matrix_with_the_wrong_sign():
    """A fit can meet some rows in some columns, and others in others: the same matrix
    but for signs in between.
    """
    X = factors((150, 150), 3)
    rng = np.random.default_rng(2)
    signs = [np.sign(rng.standard_normal(150))[:, None] for _ in range(2)]
    flipped = Factors(signs[0] * X.L, signs[1] * X.R)
    Y = np.where(rng.random((150, 150)) < 0.7, matrix(X), 9 * rng.random((150, 150)))
    proof = certify(as_observations(Y), flipped, 1e-6)
    assert "in blocks" in proof.why_not
    assert certify(as_observations(Y), X, 1e-6).holds


# ---- what `solve` makes of it


def test_zeros_are_no_outliers():
    """Rows of zeros (a dark border, dead sensors) are met at once: that neither ends a
    run nor makes outliers.
    """
    X = factors((400, 400), 3)
    X.L[:160] = 0
    for rank in (3, None):
        result = lrmc.solve(matrix(X), rank)
        assert lrmc.relative_error(result, X) < 1e-6
        assert result.outlier_fraction == 0


def test_digits_are_not_exact():
    """45 % zeros: they were called exact, with 63 % outliers, and filled worse than by
    column means.
    """
    digits = pytest.importorskip("sklearn.datasets").load_digits().data[:250]
    hidden = np.random.default_rng(0).random(digits.shape) < 0.2
    Y = np.where(hidden, np.nan, digits)
    result = lrmc.solve(Y, 10)
    means = np.broadcast_to(np.nanmean(Y, 0), Y.shape)
    misses = [
        np.sqrt(np.mean((Z - digits)[hidden] ** 2)) for Z in (result.low_rank(), means)
    ]
    assert result.regime == "noisy"
    assert misses[0] < 0.8 * misses[1]


@pytest.mark.parametrize(("n", "n2", "rank"), [(300, 30, 5), (60, 60, 5), (100, 20, 3)])
def test_small_steps_below_a_high_threshold_are_no_end(n, n2, rank):
    given = lrmc.synthetic.problem(n, rank, 0.2, 1.0, seed=0, n2=n2)
    result = lrmc.solve(given.Y, rank)
    assert result.regime == "exact"
    assert lrmc.relative_error(result, given) < 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_components_too_many_are_dropped_again(seed):
    """Condition 100, all observed, rank unknown: rank 7 and an error of 1e-4 were called exact."""
    given = lrmc.synthetic.problem(600, 5, 0.1, 1.0, seed=seed, condition=100)
    result = lrmc.solve(given.Y)
    assert result.regime == "exact"
    assert result.rank == 5
    assert lrmc.relative_error(result, given) < 1e-5


@pytest.mark.parametrize("rank", [16, 30])
def test_high_ranks_are_found(rank):
    given = lrmc.synthetic.problem(300, rank, 0.1, 1.0, seed=0)
    result = lrmc.solve(given.Y)
    assert result.rank == rank
    assert lrmc.relative_error(result, given) < 1e-5


def test_rows_wrong_as_a_whole():
    """A tenth of the rows is all wrong: the others are recovered, those are listed and
    not filled in.
    """
    X = factors((200, 150), 3)
    Y = matrix(X)
    Y[:20] = 5 * np.random.default_rng(0).standard_normal((20, 150))
    with pytest.warns(UserWarning, match=r"of 20 row\(s\) too few entries agree"):
        result = lrmc.solve(Y, 3)
    assert result.regime == "exact"
    assert result.undetermined_rows.tolist() == list(range(20))
    assert np.isnan(result.low_rank()[:20]).all()
    np.testing.assert_allclose(result.low_rank()[20:], matrix(X)[20:], atol=1e-4)


def test_clean_data_have_no_outliers():
    """3 to 9 % were reported beside a list of none."""
    for seed in range(3):
        result = lrmc.solve(
            lrmc.synthetic.problem(200, 3, 0.0, 0.5, seed=seed, form="dense").Y
        )
        assert result.outlier_fraction < 1e-3
        assert np.count_nonzero(np.nan_to_num(result.outliers())) == 0


def test_a_fit_that_follows_what_it_was_shown_is_told():
    """Hardly more entries than unknowns: entries set aside are missed by far more than
    those that were fitted.
    """
    given = lrmc.synthetic.problem(200, 5, 0.1, 0.07, seed=0)
    with pytest.warns(UserWarning, match="set aside|free numbers"):
        result = lrmc.solve(given.Y, 5)
    assert lrmc.relative_error(result, given) > 1e-2
    assert result.warnings


def test_the_certificate_is_saved(tmp_path):
    result = lrmc.solve(lrmc.synthetic.problem(100, 2, 0.1, 0.8, seed=0).Y)
    result.save(tmp_path / "result.npz")
    loaded = lrmc.Result.load(tmp_path / "result.npz")
    assert loaded.certificate == result.certificate
    assert loaded.certificate["oversampling"] > 5
    assert loaded.warnings == result.warnings


# ---- how many entries must agree


def agreeing_by_chance(n, length, rank, border, draws, seed=0):
    """How many entries of lines that follow no pattern agree with the best of many fits."""
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((length, rank))
    values = rng.uniform(-1, 1, n * length)
    indptr = length * np.arange(n + 1)
    F, agreeing = np.zeros((n, rank)), np.empty(n, np.int64)
    places = np.tile(np.arange(length, dtype=np.int32), n)
    entries = {"indptr": indptr, "indices": places, "values": values}
    _kernels.consensus(
        **entries,
        G=G,
        F=F,
        agreeing=agreeing,
        border=border,
        draws=draws,
        seed=seed,
        threads=1,
    )
    return agreeing


@pytest.mark.parametrize(("length", "rank"), [(300, 3), (60, 2), (2000, 1)])
def test_lines_that_follow_nothing_do_not_prove_themselves(length, rank):
    border, n = 1e-3, 60
    agreeing = agreeing_by_chance(n, length, rank, border, 3000)
    # of numbers up to 1, so many are within the border
    needed = proving(np.full(n, length), rank, border)
    assert (agreeing < needed).all()
    assert (agreeing > rank + 1).mean() > 0.1  # two more than the rank would not do


def test_short_lines_need_two_more_than_the_rank_and_long_ones_more():
    length = np.array([5, 12, 10**3, 10**5, 10**7])
    needed = proving(length, 1, 2e-4)
    np.testing.assert_array_equal(needed[:2], 3)
    assert (np.diff(needed[1:]) > 0).all()
    assert needed[-1] > 1.05 * 2e-4 * length[-1]
    assert (needed[2:] < 0.01 * length[2:]).all()


def test_what_agrees_by_chance_is_taken_from_the_residuals():
    p = synthetic.problem(300, 2, 0.5, 1.0, seed=0, form="dense")
    obs = as_observations(p.Y)
    size = np.abs(obs.sample.residual(p.X_factors))
    border = 1e-3 * obs.scale
    off = np.abs(p.outliers[p.outliers != 0])
    want = border / off.max()  # outliers are uniform
    assert by_chance(obs, size, border) == pytest.approx(want, rel=0.35)


def test_a_component_that_one_column_has_to_itself_proves_nothing_there():
    """It meets all entries of the column, outliers too."""
    p = synthetic.problem(60, 1, 0.1, 1.0, n2=20, seed=2, form="dense")
    L, R = p.X_factors
    own = (p.Y - L @ R.T)[:, [7]]
    X = Factors(np.hstack([L, own]), np.hstack([R, np.eye(20)[:, [7]]]))
    obs = as_observations(p.Y)
    assert 7 in certify(obs, X, 1e-6).cols
    right = certify(obs, Factors(L, R), 1e-6)
    assert right.holds
    assert len(right.cols) == 0


@pytest.mark.parametrize(("rank", "share"), [(1, 0.1), (2, 0.05)])
def test_rows_of_a_tall_matrix_are_right_or_listed(rank, share):
    """Of five entries sometimes four are wrong: such rows cannot be told, and no other
    is missed.
    """
    shape = (20_000, 5)
    X = matrix(factors(shape, rank))
    rng = np.random.default_rng(1)
    bad = rng.random(X.shape) < share
    Y = np.where(bad, X + np.abs(X).mean() * rng.uniform(-1, 1, X.shape), X)
    with pytest.warns(lrmc.DoubtWarning, match="to vouch for it"):
        result = lrmc.solve(Y, rank)
    untold = (~bad).sum(1) < rank + 1
    off = (
        np.abs(result.low_rank(undetermined="keep") - X).max(1)
        > 1e-3 * np.abs(X).mean()
    )
    assert result.regime == "exact"
    assert not (off & ~untold).any()
    assert np.isin(np.flatnonzero(off), result.undetermined_rows).all()
    assert off.any()


@pytest.mark.parametrize("at_once", [True, False])
def test_what_no_other_entry_tells_is_listed(at_once):
    """Columns in pairs of equals: where both of a pair are missing, nothing tells them."""
    rng = np.random.default_rng(2)
    X = np.repeat(rng.standard_normal((400, 3)), 2, axis=1)
    Y = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    looked_at = None if at_once else (lambda it: None)
    with pytest.warns(lrmc.DoubtWarning, match="to vouch for it"):
        result = lrmc.solve(Y, time=None, progress=looked_at)
    pairs = np.isnan(Y).reshape(400, 3, 2).all(2)
    untold = np.flatnonzero(pairs.any(1))
    assert result.regime == "exact"
    assert np.isin(untold, result.undetermined_rows).all()
    told = np.setdiff1d(np.arange(400), result.undetermined_rows)
    assert len(told) > 250
    np.testing.assert_allclose(result.completed()[told], X[told], atol=1e-4)


def test_on_a_cluster_lines_are_left_as_they_are_and_that_is_said():
    open_rows = Certificate(0.9, 2.0, 0.0, np.array([3, 4]), np.array([], int), 1e-6)
    (here,), (away,) = (
        _not_vouched_for(open_rows, is_here) for is_here in (True, False)
    )
    assert here in away
    assert "on a cluster such lines are not fitted anew" in away


@pytest.mark.parametrize(("shape", "seed"), [((435, 16), 2), ((200, 8), 1)])
def test_votes_with_noise_are_not_exact(shape, seed):
    """Any fit whose entries are yes and no meets half of them."""
    rng = np.random.default_rng(seed)
    F, A = rng.normal(size=(shape[0], 2)), rng.normal(size=(shape[1], 2))
    votes = (F @ A.T + rng.normal(size=shape) > 0).astype(float)
    gaps = rng.random(shape) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrmc.DoubtWarning)
        result = lrmc.solve(np.where(gaps, np.nan, votes))
    assert result.regime == "noisy"
    assert np.isfinite(result.completed()).all()


def test_two_values_are_exact_where_rows_are_long():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(200, 1)) * rng.normal(size=200) > 0).astype(float)
    flipped = rng.random(X.shape) < 0.1
    gaps = rng.random(X.shape) < 0.2
    result = lrmc.solve(np.where(gaps, np.nan, np.where(flipped, 1 - X, X)))
    assert result.regime == "exact"
    assert np.abs(result.completed() - X).max() < 1e-4


@each("turned", [False, True])
def test_how_entries_far_from_0_differ_is_found_or_that_it_is_lost(turned):
    """All of them agree with one value, which proves nothing of their differences."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 30))
    X += 0.1 * rng.standard_normal(X.shape)
    X = X.T if turned else X
    hidden = rng.random(X.shape) < 0.2
    Y = np.where(hidden, np.nan, X)
    usual = np.sqrt(np.mean((lrmc.solve(Y).completed() - X)[hidden] ** 2))
    for dtype, far in ((np.float64, 1e6), (np.float32, 1e5)):
        found = lrmc.solve((Y + far).astype(dtype))
        assert found.regime == "noisy"
        error = np.sqrt(np.mean((found.completed() - far - X)[hidden] ** 2))
        assert error < 1.1 * usual + far * np.finfo(dtype).eps
    for dtype, far in ((np.float64, 1e9), (np.float32, 1e6)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = lrmc.solve((Y + far).astype(dtype))
        assert any("typically differ by" in text for text in found.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lrmc.solve(np.where(hidden, np.nan, 1e7))  # nothing differs

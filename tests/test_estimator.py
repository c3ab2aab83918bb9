"""RobustPCA and RobustImputer: truths that scikit-learn's own checks do not look at."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

import lrmc
from lrmc import RobustImputer, RobustPCA
from lrmc.evidence import NotCalibrated
from lrmc.subspace import Subspace, fit_rows


def rows(
    n, n2=100, rank=4, *, noise=0.0, wrong=0.2, seen=0.5, mean=0.0, size=5.0, seed=0
):
    """Low-rank rows, and what is observed of them; all seeds share one subspace."""
    shared, rng = np.random.default_rng(1000), np.random.default_rng(seed)
    X = rng.standard_normal((n, rank)) @ shared.standard_normal(
        (rank, n2)
    ) + mean * shared.standard_normal(n2)
    unit = np.abs(X).mean()
    Y = X + noise * unit * rng.standard_normal(X.shape)
    Y += (rng.random(X.shape) < wrong) * rng.uniform(-size, size, X.shape) * unit
    return X, np.where(rng.random(X.shape) < seen, Y, np.nan)


def error(Z, X):
    return np.linalg.norm(Z - X) / np.linalg.norm(X)


@pytest.fixture(scope="module")
def fitted():
    X, Y = rows(600, noise=0.05, mean=2.0)
    return RobustPCA(4).fit(Y), X, Y


# ---- what a PCA gives


def test_clean_data_give_what_pca_gives():
    from sklearn.decomposition import PCA

    X, _ = rows(300, 30, 3, mean=5.0)
    X *= np.linspace(1, 3, 30)
    ours, theirs = RobustPCA(3).fit(X), PCA(3).fit(X)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, atol=1e-5)
    np.testing.assert_allclose(
        np.abs(ours.components_ @ theirs.components_.T), np.eye(3), atol=1e-4
    )
    np.testing.assert_allclose(
        ours.explained_variance_, theirs.explained_variance_, rtol=1e-4
    )
    np.testing.assert_allclose(
        ours.singular_values_, theirs.singular_values_, rtol=1e-4
    )
    np.testing.assert_allclose(ours.explained_variance_ratio_.sum(), 1, atol=1e-6)
    np.testing.assert_allclose(
        np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=1e-3
    )
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, atol=1e-3)


def test_components_are_orthonormal_and_ordered(fitted):
    model, _, _ = fitted
    np.testing.assert_allclose(
        model.components_ @ model.components_.T, np.eye(4), atol=1e-10
    )
    assert (np.diff(model.singular_values_) <= 0).all()
    assert (
        np.take_along_axis(
            model.components_, np.abs(model.components_).argmax(1)[:, None], 1
        )
        > 0
    ).all()


@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_the_rank_is_found_without_the_mean(mean):
    _, Y = rows(400, mean=mean)
    assert RobustPCA().fit(Y).n_components_ == 4


def test_without_centring_the_mean_is_a_component():
    X, Y = rows(400, mean=3.0)
    model = RobustPCA(5, center=False).fit(Y)
    assert not model.mean_.any()
    assert error(model.low_rank_, X) < 1e-5


# ---- out of sample


@pytest.mark.parametrize(("noise", "bar"), [(0.0, 1e-5), (0.05, 0.03)])
def test_new_rows_are_fitted_as_well_as_old_ones(noise, bar):
    X, Y = rows(1500, 200, noise=noise)
    new_X, new_Y = rows(1000, 200, noise=noise, seed=1)
    model = RobustPCA(4).fit(Y)
    within = error(lrmc.solve(Y, 4).low_rank(), X)
    assert within < bar
    assert error(model.low_rank_, X) < 1.5 * within
    assert error(model.inverse_transform(model.transform(new_Y)), new_X) < 1.5 * within


def reference(y, V, mean, precision, deviation, t, rounds=200):
    """One row by plain iterated least squares with Cauchy weights, from a start."""
    seen = ~np.isnan(y)
    y, V, z = y[seen], V[seen], 4 * 0.385 * deviation
    for _ in range(rounds):
        e = y - V @ t
        w = 1 / (1 + (e / z) ** 2) / deviation**2
        t = np.linalg.solve(
            (V * w[:, None]).T @ V + precision,
            (V * w[:, None]).T @ y + precision @ mean,
        )
    return t


@settings(max_examples=30)
@given(
    n2=st.integers(1, 60),
    rank=st.integers(1, 11),
    seen=st.floats(0.1, 1.0),
    dtype=st.sampled_from([np.float64, np.float32]),
    layout=st.sampled_from(["C", "F", "sparse", "masked", "step", "uint8"]),
    seed=st.integers(0, 2**31),
)
def test_rows_are_where_plain_iterations_stay(n2, rank, seen, dtype, layout, seed):
    """The kernel's answer is a fixed point of a naive reference, whatever the shape,
    type, gaps and memory layout.
    """
    rng, rank = np.random.default_rng(seed), min(rank, n2)
    V = np.linalg.qr(rng.standard_normal((n2, rank)))[0]
    mean, offset = rng.standard_normal(rank), 0 * rng.standard_normal(n2)
    T = mean + 5 * rng.standard_normal((9, rank))
    Y = T @ V.T + 0.3 * rng.standard_normal((9, n2)) + 20 * (rng.random((9, n2)) < 0.05)
    Y = np.round(8 * Y + 128).clip(0, 255)  # what every type holds
    V, offset = V, offset + 128.0
    hidden = rng.random(Y.shape) >= seen
    hidden[0] = True  # a row without entries
    hidden[1:, 0] = False
    Y = np.where(hidden, np.nan, Y).astype(dtype)
    model = Subspace(V, offset, 8 * mean, 1600 * np.eye(rank), 2.4, 0.01, "cauchy")
    given_ = {
        "C": lambda: lrmc.as_observations(Y),
        "F": lambda: lrmc.as_observations(np.asfortranarray(Y)),
        "sparse": lambda: lrmc.as_observations(
            sp.csr_array(sp.coo_array((Y[~hidden], np.nonzero(~hidden)), Y.shape))
        ),
        "masked": lambda: lrmc.as_observations(
            np.ma.array(np.nan_to_num(Y, nan=np.inf), mask=hidden)
        ),
        "step": lambda: lrmc.as_observations(
            np.repeat(np.repeat(Y, 2, 0), 3, 1)[::2, ::3]
        ),
        "uint8": lambda: lrmc.as_observations(
            np.nan_to_num(Y).astype(np.uint8), ~hidden
        ),
    }[layout]()
    got = fit_rows(given_, model)
    assert got.T.dtype == given_.dtype
    np.testing.assert_allclose(got.T[0], model.mean, rtol=1e-6)
    precision = np.linalg.inv(model.covariance)
    assert np.isfinite(got.T).all()
    for y, t, deviation in list(
        zip(Y.astype(float) - offset, got.T.astype(float), got.deviation)
    )[1:]:
        if np.sum(~np.isnan(y)) < 3 * rank:
            continue  # hardly determined: iterations go on for long
        near = reference(y, V, model.mean, precision, deviation, t, 1)
        assert np.linalg.norm(near - t) < 0.5 * deviation  # steps end at 0.3 deviations


def test_no_row_looks_at_another(fitted):
    model, _, Y = fitted
    together = model.transform(Y[:50])
    np.testing.assert_allclose(
        np.vstack([model.transform(y[None]) for y in Y[:50]]),
        together,
        rtol=1e-9,
        atol=1e-9,
    )


def test_all_ways_to_hand_over_the_same_rows(fitted):
    model, _, Y = fitted
    Y = Y[:40]
    want, seen = model.transform(Y), ~np.isnan(Y)
    stored = sp.coo_array((Y[seen], np.nonzero(seen)), Y.shape)
    for same in (
        np.asfortranarray(Y),
        np.ma.array(np.nan_to_num(Y, nan=np.inf), mask=~seen),
        sp.csr_array(stored),
        sp.csc_matrix(stored),
        Y.tolist(),
        pytest.importorskip("pandas").DataFrame(Y).to_numpy(),
    ):
        np.testing.assert_allclose(model.transform(same), want, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        model.transform(Y.astype(np.float32)), want, rtol=1e-3, atol=1e-2
    )


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_any_unit(unit):
    X, Y = rows(300, noise=0.05)
    model = RobustPCA(4).fit((unit * Y).astype(np.float32))
    assert error(model.low_rank_ / np.float32(unit), X) < 0.05


# ---- anomalies


def test_scores_find_odd_rows_and_entries():
    X, Y = rows(600, noise=0.05, wrong=0.02)
    model = RobustPCA(4).fit(Y)
    new_X, new_Y = rows(100, noise=0.05, wrong=0.02, seed=1)
    new_Y[:20] += (
        3 * np.random.default_rng(2).standard_normal((20, 100)) * np.abs(new_X).mean()
    )
    scores = model.score_samples(new_Y)
    assert scores[:20].max() < scores[20:].min()
    np.testing.assert_allclose(model.row_scores_, -model.score_samples(Y))
    far = np.abs(Y - X) > 12 * model.noise_level_
    assert (model.outlier_scores_[far] > 6).all()
    assert (
        np.mean(model.outlier_scores_[np.abs(Y - X) < 3 * model.noise_level_] < 6)
        > 0.999
    )
    np.testing.assert_array_equal(np.isnan(model.outlier_scores_), np.isnan(Y))
    np.testing.assert_array_equal(model.outliers_[far] != 0, True)
    assert sp.issparse(model.outlier_scores(sp.csr_array(np.nan_to_num(new_Y))))


# ---- streams


def stream(batches=50, n=80, n2=40, rank=3, angle=90):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((n2, 2 * rank)))[0]
    for turn in np.deg2rad(np.linspace(0, angle, batches)):
        V = np.cos(turn) * Q[:, :rank] + np.sin(turn) * Q[:, rank:]
        X = rng.standard_normal((n, rank)) @ V.T
        unit = np.abs(X).mean()
        Y = X + 0.02 * unit * rng.standard_normal(X.shape)
        Y += (rng.random(X.shape) < 0.1) * rng.uniform(-10, 10, X.shape) * unit
        yield X, np.where(rng.random(X.shape) < 0.7, Y, np.nan)


def test_a_stream_is_followed():
    model, frozen, errors, sizes = RobustPCA(3), None, [], []
    for X, Y in stream():
        frozen = frozen or clone(model).fit(Y)
        model.partial_fit(Y)
        errors.append(error(model.inverse_transform(model.transform(Y)), X))
        sizes.append(len(pickle.dumps(model)))
    assert max(errors[1:]) < 0.05
    assert error(frozen.inverse_transform(frozen.transform(Y)), X) > 0.3
    assert max(sizes[1:]) < 1.02 * min(sizes[1:])  # what is kept does not grow
    assert model.n_samples_seen_ == 50 * 80
    np.testing.assert_allclose(
        model.components_ @ model.components_.T, np.eye(3), atol=1e-9
    )


def test_a_steady_stream_learns_more():
    model, noise = RobustPCA(4, forgetting=1.0), 0.3
    for seed in range(12):
        model.partial_fit(rows(100, noise=noise, wrong=0.05, seed=seed)[1])
    X, Y = rows(500, noise=noise, wrong=0.05, seed=99)
    first = RobustPCA(4).fit(rows(100, noise=noise, wrong=0.05, seed=0)[1])
    best = RobustPCA(4).fit(
        np.vstack([rows(100, noise=noise, wrong=0.05, seed=s)[1] for s in range(12)])
    )
    after, before, all_ = (
        error(m.inverse_transform(m.transform(Y)), X) for m in (model, first, best)
    )
    assert after < 0.9 * before
    assert after < 1.15 * all_


# ---- the imputer


def table(n=300, noise=0.05, wrong=0.0, seed=0):
    """Columns in units that differ by powers of ten, far from zero."""
    X, Y = rows(n, 12, 2, noise=noise, wrong=wrong, seen=0.8, seed=seed)
    units, middle = np.logspace(-3, 5, 12), np.logspace(-2, 7, 12)
    return X * units + middle, Y * units + middle, units


def test_missing_entries_are_filled_and_others_kept():
    X, Y, units = table()
    Z = RobustImputer(2).fit_transform(Y)
    seen = ~np.isnan(Y)
    np.testing.assert_array_equal(Z[seen], Y[seen])
    spread = np.abs((X - X.mean(0)) / units).mean()
    assert np.abs((Z - X) / units)[~seen].mean() < 0.2 * spread


@pytest.mark.parametrize("far", [400.0, 1e4, 1e7])
def test_a_column_far_from_0_does_not_rule_the_others(far):
    X, Y = rows(200, 8, 2, noise=0.3, wrong=0.05, seen=0.8)
    away = np.zeros(8)
    away[2] = far * X[:, 2].std()
    gaps = np.isnan(Y)
    missed = [
        np.abs(RobustImputer().fit_transform(Y + x) - x - X)[gaps].mean()
        for x in (0.0, away)
    ]
    assert missed[1] < 1.05 * missed[0]


def test_outliers_are_cleaned_on_request():
    X, Y, units = table(wrong=0.05)
    far = np.abs(Y - X) / units > 3
    cleaned = RobustImputer(2, fill="missing+outliers").fit_transform(Y)
    assert np.median(np.abs(cleaned - X)[far] / np.abs(Y - X)[far]) < 0.2
    usual = np.abs(Y - X) / units < 0.2
    np.testing.assert_array_equal(np.mean(cleaned[usual] == Y[usual]) > 0.95, True)
    assert (RobustImputer(2, fill="all").fit_transform(Y) != Y).all()


def test_new_rows_are_completed():
    _, Y, units = table()
    X, new, _ = table(100, seed=1)
    new[0] = np.nan
    model = RobustImputer(2).fit(Y)
    Z = model.transform(new)
    assert np.isfinite(Z).all()
    mean = model.pca_.mean_ * model.scale_ + model.center_
    np.testing.assert_allclose(Z[0], mean, rtol=1e-10)
    assert np.abs((Z - X) / units)[1:][np.isnan(new)[1:]].mean() < 0.5


@pytest.mark.parametrize("keep", [False, True])
def test_columns_without_entries(keep):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table()[1], columns=[f"c{j}" for j in range(12)])
    frame["c3"] = np.nan
    Z = (
        RobustImputer(2, keep_empty_features=keep)
        .set_output(transform="pandas")
        .fit_transform(frame)
    )
    assert list(Z.columns) == [name for name in frame.columns if keep or name != "c3"]
    assert not Z.isna().any().any()
    assert not keep or (Z["c3"] == 0).all()


def test_pandas_keeps_names_and_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table()[1], columns=list("abcdefghijkl")).astype("Float64")
    frame.index = frame.index + 7
    Z = RobustImputer(2).set_output(transform="pandas").fit_transform(frame)
    assert Z.columns.equals(frame.columns)
    assert Z.index.equals(frame.index)
    frame = (frame - frame.mean()) / frame.std()
    scores = RobustPCA(2).set_output(transform="pandas").fit(frame).transform(frame)
    assert list(scores.columns) == ["robustpca0", "robustpca1"]


# ---- in scikit-learn's company


def test_pipeline_grid_search_and_pickle():
    _, Y = rows(150, 30, 3, noise=0.1, wrong=0.05, seen=0.8)
    search = GridSearchCV(RobustPCA(), {"n_components": [1, 3]}, cv=2).fit(Y)
    assert search.best_params_ == {"n_components": 3}
    pipe = make_pipeline(RobustScaler(), RobustPCA(3)).fit(Y)
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.transform(Y), pipe.transform(Y))
    with pytest.raises(AttributeError, match="not pickled"):
        _ = again[-1].outliers_
    assert len(pickle.dumps(pipe[-1])) < Y.nbytes
    again[-1].partial_fit(pipe[0].transform(Y))


def test_rows_without_entries_get_the_mean(fitted):
    model, _, Y = fitted
    for given_ in (
        np.full((2, 100), np.nan),
        sp.csr_array((2, 100)),
        np.vstack([Y[:1], np.full((1, 100), np.nan)]),
    ):
        with pytest.warns(UserWarning, match="have no observation"):
            T = model.transform(given_)
        np.testing.assert_allclose(model.inverse_transform(T)[-1], model.mean_)
        assert model.score_samples(given_)[-1] == 0


@each(
    ("make", "message"),
    [
        (lambda Y: RobustPCA(0).fit(Y), "n_components=0"),
        (lambda Y: RobustPCA(101).fit(Y), "up to 100 is wanted"),
        (lambda Y: RobustPCA(2.0).fit(Y), "whole number"),
        (lambda Y: RobustPCA(4, forgetting=0).fit(Y), "forgetting=0"),
        (lambda Y: RobustPCA(4, loss="square").fit(Y), "loss='square'"),
        (lambda Y: RobustPCA(4).fit(np.full((9, 9), np.nan)), "nothing is observed"),
        (lambda Y: RobustPCA(4).fit(np.where(np.isnan(Y), np.inf, Y)), "infinite"),
        (
            lambda Y: RobustPCA(4).fit(Y).inverse_transform(np.ones((2, 3))),
            "4 are wanted",
        ),
        (lambda Y: RobustPCA(4).fit(Y).transform(Y[:, :50]), "expecting 100 features"),
        (
            lambda Y: RobustPCA(4, forgetting=np.nan).fit(Y),
            "forgetting=nan; a number above 0 and up to 1",
        ),
        (lambda Y: RobustPCA(4, center="no").fit(Y), "center='no'; True or False"),
        (
            lambda Y: RobustPCA(4, outliers="above").fit(Y),
            "outliers='above'; one of both",
        ),
        (lambda Y: RobustPCA(4, tol=0).fit(Y), "tol=0; a positive, finite number"),
        (
            lambda Y: RobustPCA(4, max_iter=10**30).fit(Y),
            "max_iter=10{30}; a whole number of at most",
        ),
        (lambda Y: RobustPCA(4, threads=np.inf).fit(Y), "threads=inf; a whole number"),
        (
            lambda Y: RobustPCA(4, random_state=-1).fit(Y),
            "random_state=-1; a whole number of at least 0",
        ),
        (lambda Y: RobustPCA(True).fit(Y), "n_components=True; a whole number"),
        (lambda Y: RobustImputer(4, threads=0).fit(Y), "threads=0; a whole number"),
        (
            lambda Y: RobustImputer(4, scale="columns").fit(Y),
            "scale='columns'; True or False",
        ),
        (
            lambda Y: RobustImputer(4, keep_empty_features=None).fit(Y),
            "keep_empty_features=None; True or False",
        ),
        (lambda Y: RobustImputer(2.5).fit(Y), "n_components=2.5; a whole number"),
        (lambda Y: RobustImputer(4, fill="some").fit(Y), "fill='some'"),
        (lambda Y: RobustImputer().fit(np.full((9, 9), np.nan)), "nothing is observed"),
    ],
)
def test_bad_input(make, message, fitted):
    with pytest.raises(ValueError, match=message):
        make(fitted[2])


def test_integers_are_read_as_they_are():
    X, Y = rows(300, noise=0.05, seen=1.0, wrong=0.05)
    levels = np.round(20 * Y / np.abs(X).max() * 5 + 128).clip(0, 255).astype(np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RobustPCA(4).fit(levels)
    assert model.transform(levels).dtype == np.float32
    assert error(model.low_rank_ - 128, (X / np.abs(X).max()) * 100) < 0.1


PRESENTED = {
    "array": lambda Y: Y,
    "float32": lambda Y: Y.astype(np.float32),
    "masked": lambda Y: np.ma.MaskedArray(Y, np.isnan(Y)),
    "sparse": lambda Y: sp.csr_array(
        (Y[~np.isnan(Y)], np.nonzero(~np.isnan(Y))), shape=Y.shape
    ),
}


@cache
def sound():
    """A table, and both estimators fitted to it."""
    _, Y = rows(60, noise=0.05, seen=0.8)
    return Y, RobustImputer(2).fit(Y), RobustPCA(2).fit(Y)


@each("present", PRESENTED.values(), ids=PRESENTED)
@each("sign", [1, -1])
def test_infinite_entries_are_refused_everywhere(present, sign):
    Y, imputer, pca = sound()
    bad = Y.copy()
    bad[3, np.flatnonzero(~np.isnan(Y[3]))[0]] = sign * np.inf
    doors = [
        RobustImputer(2).fit,
        RobustPCA(2).fit,
        RobustImputer(2).fit_transform,
        imputer.transform,
        pca.transform,
    ]
    for door in (
        *doors,
        pca.partial_fit,
        RobustPCA(2).partial_fit,
        pca.score,
        pca.score_samples,
        pca.outlier_scores,
    ):
        with pytest.raises(
            ValueError, match="1 observed entries are infinite; set them to NaN"
        ):
            door(present(bad))


def test_what_is_masked_may_be_infinite():
    _, Y = rows(60, noise=0.05, seen=0.8)
    masked = np.ma.MaskedArray(np.where(np.isnan(Y), np.inf, Y), np.isnan(Y))
    assert np.isfinite(RobustImputer(2).fit_transform(masked)).all()


@pytest.mark.parametrize("make", [RobustPCA, RobustImputer])
def test_dates_and_text_are_refused(make):
    pandas = pytest.importorskip("pandas")
    _, Y = rows(60, noise=0.05, seen=1.0)
    table = pandas.DataFrame(Y[:, :4], columns=list("abcd"))
    dates = pandas.DataFrame(
        {name: pandas.date_range("2024", periods=60) for name in "ab"}
    )
    for bad in (table.assign(when=dates["a"]), table.assign(text="3.5"), dates):
        with pytest.raises(
            ValueError,
            match=r"columns that are not numbers.*These are not: '(when|text|a)'",
        ):
            make(2).fit(bad)
    with pytest.raises(ValueError, match="dates"):
        make(2).fit(dates.to_numpy())
    with pytest.raises(ValueError, match="X holds text"):
        make(2).fit(table.astype(str).to_numpy(object))


# ---- intervals


@pytest.mark.parametrize("keep", [False, True])
def test_intervals_of_what_is_filled_in(keep):
    X, Y = rows(150, 40, 3, noise=0.0, wrong=0.0, seen=1.0)
    rng = np.random.default_rng(5)
    units = np.geomspace(0.1, 100, 40)  # of columns
    values = (X + 0.3 * rng.standard_normal(X.shape)) * units
    wrong = rng.random(X.shape) < 0.05
    Y = np.where(rng.random(X.shape) < 0.6, np.where(wrong, 20 * units, values), np.nan)
    # a column of which nothing is known
    Y = np.hstack([Y[:, :10], np.full((150, 1), np.nan), Y[:, 10:]])
    imputer = RobustImputer(3, keep_empty_features=keep).fit(Y)
    low, high = imputer.predict_interval(Y)
    filled = imputer.transform(Y)
    assert low.shape == high.shape == filled.shape
    np.testing.assert_allclose(
        (low + high) / 2, filled, rtol=1e-6, atol=1e-6 * units.max()
    )
    if keep:
        low, high, Y = (np.delete(x, 10, axis=1) for x in (low, high, Y))
    else:
        Y = np.delete(Y, 10, axis=1)
    missing = np.isnan(Y)
    assert (
        abs(np.mean((low <= values)[missing] & (values <= high)[missing]) - 0.9) < 0.025
    )
    np.testing.assert_array_equal(low[~missing], Y[~missing])
    np.testing.assert_array_equal(high[~missing], Y[~missing])
    assert np.all((high - low)[missing] > 0)


def test_new_rows_have_intervals_and_they_are_pickled():
    X, _ = rows(400, 30, 3, noise=0.0, wrong=0.0, seen=1.0)
    rng = np.random.default_rng(5)
    values = X + 0.3 * rng.standard_normal(X.shape)
    Y = np.where(rng.random(X.shape) < 0.6, values, np.nan)
    imputer = RobustImputer(3, scale=False).fit(Y[:200])
    with pytest.raises(NotCalibrated, match="not pickled"):
        pickle.loads(pickle.dumps(imputer)).predict_interval(Y[200:])
    low, high = imputer.predict_interval(Y[200:])
    missing = np.isnan(Y[200:])
    held = ((low <= values[200:]) & (values[200:] <= high))[missing]
    assert abs(held.mean() - 0.9) < 0.025
    again = pickle.loads(pickle.dumps(imputer))
    np.testing.assert_array_equal(again.predict_interval(Y[200:])[0], low)
    # a row has the same interval whoever is beside it
    alone = imputer.predict_interval(Y[200:201])[1]
    np.testing.assert_allclose(alone, high[:1], rtol=0.15, atol=0.1)


def test_intervals_follow_second_opinions():
    """Shares that add up to 100: a regression tells what is missing alone in its row, and components
    do not. Widths are those of what is filled in, not of what components miss."""
    rng = np.random.default_rng(3)
    parts = rng.gamma(rng.uniform(0.5, 4, 6), size=(300, 6))
    X = 100 * parts / parts.sum(1, keepdims=True)
    Y = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    imputer = RobustImputer(time=None).fit(Y)
    low, high = imputer.predict_interval(Y)
    missing = np.isnan(Y)
    assert np.mean(((low <= X) & (high >= X))[missing]) > 0.87
    rows, cols = np.nonzero(missing)
    half = imputer._calibration.half_width(rows, cols, 0.9) * imputer.scale_[cols]
    np.testing.assert_allclose((high - low)[missing] / 2, half, rtol=1e-6)


def test_intervals_want_a_level_and_data():
    _, Y = rows(60, 20, 2, noise=0.1)
    imputer = RobustImputer(2).fit(Y)
    with pytest.raises(ValueError, match="level=2"):
        imputer.predict_interval(Y, 2)
    # the mean row, as `transform` has it, with intervals as wide as rows differ
    low, high = imputer.predict_interval(Y[:2] * np.nan)
    assert np.all(high - low > 0)


def test_rows_that_nothing_tells_are_filled_by_the_others():
    """Columns in pairs of equals, of which both are missing in some rows."""
    rng = np.random.default_rng(3)
    common = rng.standard_normal((300, 1))
    X = np.repeat(common + 0.5 * rng.standard_normal((300, 3)), 2, axis=1)
    Y = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    with pytest.warns(lrmc.DoubtWarning, match="to vouch for it"):
        filled = RobustImputer(time=None).fit_transform(Y)
    pairs = np.isnan(Y).reshape(300, 3, 2).all(2)
    lost = np.repeat(pairs, 2, axis=1)
    off = np.sqrt(np.mean((filled - X)[lost] ** 2))
    assert off < 0.9 * np.sqrt(np.mean((np.nanmedian(Y, 0) - X)[lost] ** 2))
    alone = np.isnan(Y) & ~lost & ~pairs.any(1)[:, None]
    np.testing.assert_allclose(filled[alone], X[alone], atol=1e-4)


@pytest.mark.filterwarnings("ignore:the mean absolute error on entries that were set")
def test_the_score_is_that_of_solve():
    """By squares of skewed numbers, mean errors may be as large as those of medians."""
    rng = np.random.default_rng(2)
    common = rng.standard_normal((90, 1))
    X = np.exp(1.5 * (common + 0.7 * rng.standard_normal((90, 5))))
    X[rng.random(X.shape) < 0.2] = np.nan
    filled = {}
    for score in ("mae", "rmse"):
        imputer = RobustImputer(scoring=score, time=None)
        filled[score] = imputer.fit_transform(X)
        result = lrmc.solve(X / imputer.scale_, score=score, time=None)
        want = np.where(np.isnan(X), result.completed() * imputer.scale_, X)
        np.testing.assert_allclose(filled[score], want, rtol=1e-6)
    assert not np.allclose(filled["mae"], filled["rmse"], rtol=0.01)
    with pytest.raises(ValueError, match="scoring='mse'"):
        RobustImputer(scoring="mse").fit(X)

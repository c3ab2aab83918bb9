"""DataFrames in and out, with their labels."""

import numpy as np
import pytest

import lrmc


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.outer(rng.uniform(1, 2, 40), rng.uniform(1, 2, 6))
    return X, np.where(rng.random(X.shape) < 0.15, np.nan, X)


def test_pandas_labels_come_back(data):
    pd = pytest.importorskip("pandas")
    X, Y = data
    days = pd.date_range("2024-01-01", periods=40, name="day")
    given = pd.DataFrame(Y, index=days, columns=list("abcdef"))
    frame = lrmc.solve(given, 1).frame()
    pd.testing.assert_index_equal(frame.index, days)
    assert list(frame.columns) == list("abcdef")
    np.testing.assert_allclose(frame, X, rtol=1e-5)
    seen = given.notna()
    assert frame[seen].equals(given[seen])


def test_polars_frames_in_and_out(data):
    pl = pytest.importorskip("polars")
    X, Y = data
    given = pl.DataFrame(Y, schema=list("abcdef")).fill_nan(None)
    frame = lrmc.solve(given, 1).frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == list("abcdef")
    np.testing.assert_allclose(frame.to_numpy(), X, rtol=1e-5)
    pytest.importorskip("sklearn")
    imputer = lrmc.RobustImputer(1).set_output(transform="polars")
    np.testing.assert_allclose(imputer.fit_transform(given).to_numpy(), X, rtol=0.02)


def test_arrays_have_no_labels(data, tmp_path):
    result = lrmc.solve(data[1], 1)
    with pytest.raises(ValueError, match=r"no labels: frame\(\) is for a DataFrame"):
        result.frame()


def test_a_column_of_dates_comes_back(data):
    pd = pytest.importorskip("pandas")
    given = pd.DataFrame(data[1], columns=list("abcdef"))
    days = pd.date_range("2024-01-01", periods=40, tz="UTC")
    given.insert(2, "day", days)
    frame = lrmc.solve(given, 1).frame()
    assert frame.dtypes.equals(given.dtypes)
    assert list(frame["day"]) == list(days)


def test_a_lazy_frame_is_refused_in_words():
    pl = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"collect\(\) it first"):
        lrmc.solve(pl.DataFrame({"a": [1.0, 2.0]}).lazy())

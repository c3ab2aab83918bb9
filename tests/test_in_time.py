"""Tables with time, from the doors to the answer."""

import copy
import warnings

import numpy as np
import pytest
from each import each
from real_data import DATA
from times import D, P, S, hidden, rmse, seasonal

import lrmc
from lrmc.methods.in_time.gaps import gaps_elsewhere
from lrmc.methods.in_time.improve import _few_begin_late
from lrmc.methods.in_time.kinds import kinds_of, stuck
from lrmc.methods.in_time.simple import (
    last_value,
    linear,
)
from lrmc.observations import as_observations
from lrmc.observations.base import Sample
from lrmc.observations.heldout import Submatrix


def test_data_with_time_are_not_looked_at_for_long_as_exact_ones(monkeypatch):
    def asked(*_):
        raise AssertionError("other ways to exact data take longest")

    # this one first: imported after the other was changed, it would keep that
    monkeypatch.setattr("lrmc.methods.default.other_ways", asked)
    monkeypatch.setattr("lrmc.methods.exactly.other_ways", asked)
    Z = hidden(seasonal(days=8, sensors=8)[1])[0]
    with pytest.raises(AssertionError, match="other ways"):
        lrmc.solve(Z, time=None)
    assert lrmc.solve(Z, time="columns", period=P).regime == "noisy"


@pytest.fixture(scope="module")
def solved():
    clean, Y = seasonal()
    Z, mask = hidden(Y)
    return clean, Z, mask, lrmc.solve(Z, time="columns")


def test_solve_with_time(solved):
    clean, Z, mask, result = solved
    told = result.evidence["time"]
    assert told["period"] == P
    assert [part.name for part in result.beyond] == ["time"]
    found = result.completed()
    assert rmse(found, clean, mask) < 0.8 * rmse(linear(Z), clean, mask)
    assert rmse(found, clean, mask) < 0.8 * rmse(result.low_rank(), clean, mask)
    rows, cols = np.nonzero(mask)
    np.testing.assert_allclose(
        result.beyond[0].at(rows, cols), (found - result.low_rank())[mask], atol=1e-4
    )
    assert told["held_out"]["blend"] <= 1.02 * min(told["held_out"].values())


def test_noise_and_outliers_are_those_of_the_model_in_time(solved):
    """Low rank alone misses what is a sensor's own, and would call it noise and outliers."""
    _clean, Z, mask, result = solved
    missed = rmse(result.completed(), seasonal()[1], mask)
    assert 0.8 * missed < result.noise_level < 1.2 * missed
    assert result.outlier_fraction < 0.02
    gross = (np.random.default_rng(4).random(Z.shape) < 0.05) & ~mask
    wrong = lrmc.solve(np.where(gross, 0.0, Z), time="columns")
    assert abs(wrong.outlier_fraction - gross[~mask].mean()) < 0.01
    assert wrong.noise_level < 1.3 * missed


def test_order_is_found_unasked_and_can_be_refused(solved):
    _clean, Z, _mask, _result = solved
    found = lrmc.solve(Z)
    assert [part.name for part in found.beyond] == ["time"]
    refused = lrmc.solve(Z, time=None)
    assert "time" not in refused.evidence


def test_time_in_rows_is_the_same_table_lying(solved):
    clean, Z, mask, result = solved
    lying = lrmc.solve(np.ascontiguousarray(Z.T), time="rows")
    own, other = (
        rmse(x, clean, mask) for x in (result.completed(), lying.completed().T)
    )
    assert other == pytest.approx(own, rel=0.1)


def test_three_dimensions_are_sensors_days_slots(solved):
    _clean, Z, _mask, _result = solved
    found = lrmc.solve(Z.reshape(S, D, P))
    assert found.shape == Z.shape
    assert found.evidence["time"]["period"] == P
    with pytest.raises(ValueError, match="sensors x days x slots"):
        lrmc.solve(Z.reshape(S, D, P), period=7)


def test_a_file_keeps_the_part_in_time(solved, tmp_path):
    result = solved[-1]
    result.save(tmp_path / "a.npz")
    loaded = lrmc.Result.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(loaded.completed(), result.completed())
    with pytest.raises(ValueError, match="no model of time"):
        loaded.forecast(2)
    places = np.arange(S), np.arange(S) + 5
    wanted = result.interval(*places)
    result.save(tmp_path / "b.npz")
    found = lrmc.Result.load(tmp_path / "b.npz").interval(*places)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_intervals_of_single_entries_are_not_those_of_long_gaps():
    _, Y = seasonal(seed=6)
    single = np.random.default_rng(6).random(Y.shape) < 0.15
    long = np.zeros_like(single)
    for s in range(S):
        long[s, (s % (D - 2) + 1) * P : (s % (D - 2) + 2) * P] = True
    Z = np.where(single | long, np.nan, Y)
    result = lrmc.solve(Z, time="columns", period=P)
    held = []
    for some in (single & ~long, long & ~single):
        lower, upper = result.interval(*np.nonzero(some))
        held.append(np.mean((Y[some] >= lower) & (Y[some] <= upper)))
    of_single, of_long = held  # the latter of a dozen gaps
    assert 0.84 < of_single < 0.96
    assert 0.75 < of_long < 0.98


def test_a_forecast_is_about_as_good_as_the_last_value_or_better(solved):
    _clean, Y = seasonal(days=16)
    result = lrmc.solve(hidden(Y[:, :-P], 0.2)[0], time="columns", period=P)
    found = result.forecast(P, level=0.9)
    truth = Y[:, -P:]
    last = np.repeat(last_value(Y[:, :-P])[:, -1:], P, axis=1)
    everywhere = np.ones_like(truth, bool)
    assert rmse(found.values, truth, everywhere) < 1.05 * rmse(last, truth, everywhere)
    assert np.mean((truth >= found.lower) & (truth <= found.upper)) > 0.7


def test_a_forecast_wants_a_model_of_time():
    rng = np.random.default_rng(0)
    exact = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 40))
    with pytest.raises(ValueError, match="no model of time"):
        lrmc.solve(exact).forecast(3)


def test_unordered_data_are_left_alone():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 50))
    Y = hidden(X + 0.3 * rng.standard_normal(X.shape), 0.3)[0]
    result = lrmc.solve(Y)
    assert "time" not in result.evidence
    # asked for, it is judged; what it gains by chance is taken, and costs next to nothing
    asked = lrmc.solve(Y, time="columns", period=None)
    assert "held_out" in asked.evidence["time"]
    missing = np.isnan(Y)
    with_time, without = (
        np.linalg.norm((some.completed() - X)[missing]) for some in (asked, result)
    )
    assert with_time < 1.05 * without


def test_times_without_an_entry_are_filled(solved):
    clean, Y = seasonal(seed=4)
    Y[:, 100:104] = np.nan
    Y[3, 0:40] = np.nan  # a sensor that starts late
    with pytest.warns(lrmc.DoubtWarning, match="12 series are too few"):
        result = lrmc.solve(Y, time="columns")
    found = result.completed()
    assert np.isfinite(found).all()
    gap = np.zeros_like(Y, bool)
    gap[:, 100:104] = True
    assert rmse(found, clean, gap) < 2.0
    assert not any("have no observation" in text for text in result.warnings)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"time": "sideways"}, "time"),
        ({"time": "columns", "period": 1}, "period"),
        ({"time": "columns", "period": 10_000}, "two periods"),
        ({"time": None, "times": [1, 2]}, "time=None"),
        ({"time": "columns", "times": [1, 2]}, "one time for each"),
    ],
)
def test_what_cannot_be_meant_is_refused(solved, options, what):
    with pytest.raises(ValueError, match=what):
        lrmc.solve(solved[1], **options)


def test_a_frame_with_dates_says_it_by_itself(solved):
    pandas = pytest.importorskip("pandas")
    clean, Z, mask, result = solved
    dates = pandas.date_range("2024-01-01", periods=Z.shape[1], freq="h")
    indexed = pandas.DataFrame(Z.T, index=dates)
    column = pandas.DataFrame(Z.T)
    column.insert(0, "when", dates)
    for frame in (indexed, column):
        found = lrmc.solve(frame)
        assert found.evidence["time"]["axis"] == "rows"
        assert found.evidence["time"]["period"] == 24
        assert rmse(found.completed().T, clean, mask) < 1.1 * rmse(
            result.completed(), clean, mask
        )


def test_an_array_with_a_dimension_time(solved):
    xarray = pytest.importorskip("xarray")
    _clean, Z, _mask, _ = solved
    found = lrmc.solve(xarray.DataArray(Z, dims=("sensor", "time")))
    assert found.evidence["time"]["axis"] == "columns"
    with pytest.raises(ValueError, match="dimension 'time'"):
        lrmc.solve(xarray.DataArray(Z, dims=("sensor", "time")), time="rows")


def test_the_column_of_dates_of_a_file(solved, tmp_path):
    pandas = pytest.importorskip("pandas")
    from lrmc.complete.in_memory import complete

    clean, Z, mask, _ = solved
    frame = pandas.DataFrame(Z.T, columns=[f"s{i}" for i in range(S)])
    frame.insert(
        0, "when", pandas.date_range("2024-01-01", periods=len(frame), freq="h")
    )
    frame.to_csv(tmp_path / "in.csv", index=False)
    done = complete(tmp_path / "in.csv", tmp_path / "out.csv")
    assert done.dated == "when"
    out = pandas.read_csv(tmp_path / "out.csv")
    np.testing.assert_array_equal(out["when"], frame["when"].astype(str))
    found = out.drop(columns="when").to_numpy().T
    assert rmse(found, clean, mask) < 0.8 * rmse(linear(Z), clean, mask)
    with pytest.raises(ValueError, match="no column 'then'"):
        complete(tmp_path / "in.csv", tmp_path / "out.csv", time="then")
    assert (
        complete(tmp_path / "in.csv", tmp_path / "out.csv", time="none").dated is None
    )


@pytest.fixture(scope="module")
def imputer():
    """Fitted to the first 12 of 15 days; rows are times."""
    pytest.importorskip("sklearn")
    clean, Y = seasonal(seed=5)
    Z, mask = hidden(Y, 0.3)
    Z[:, 50] = Z[:, 90] = np.nan  # two times without an entry: rows that look the same
    rows = Z.T
    return clean.T, rows, mask.T, lrmc.RobustImputer(time="rows").fit(rows[: 12 * P])


def test_an_imputer_in_time_fills_what_it_was_fitted_to(imputer):
    clean, rows, mask, fitted = imputer
    n = 12 * P
    found = fitted.transform(rows[:n])
    with pytest.warns(lrmc.DoubtWarning, match="no observation"):
        plain = lrmc.RobustImputer(time=None).fit_transform(rows[:n])
    assert rmse(found, clean[:n], mask[:n]) < 0.8 * rmse(plain, clean[:n], mask[:n])
    # a stretch of it is what it was, and times without entries are not confused
    np.testing.assert_array_equal(fitted.transform(rows[40:100]), found[40:100])
    assert np.abs(found[50] - clean[50]).mean() < 2
    assert np.abs(found[90] - clean[90]).mean() < 2


def test_new_steps_need_no_new_solve(imputer):
    clean, rows, mask, fitted = imputer
    follower = copy.deepcopy(fitted)
    again = lrmc.RobustImputer(time="rows").fit_transform(rows)
    found = []
    for day in range(12, 15):
        new = rows[day * P : (day + 1) * P]
        follower.partial_fit(new)
        found.append(follower.transform(new))
    end = slice(12 * P, 15 * P)
    own, other = (
        rmse(x, clean[end], mask[end]) for x in (np.vstack(found), again[end])
    )
    assert own < 1.25 * other
    assert len(follower._steps.keys) <= 12 * P  # memory does not grow


def test_more_new_steps_than_a_window_holds(imputer):
    _, rows, _, fitted = imputer
    short = fitted._steps.end._replace(width=2 * P)
    n = 3 * P
    new, by_rows = rows[-n:].T, np.zeros((S, n))
    stream, estimate = short.followed(new, by_rows)
    assert [x.shape for x in estimate] == [(S, n)] * 2
    assert stream.seen.shape[1] <= 2 * P
    np.testing.assert_array_equal(stream.seen[:, -P:], new[:, -P:].astype(np.float32))


def test_new_rows_of_uneven_times_are_refused(imputer):
    pandas = pytest.importorskip("pandas")
    _, rows, _, _ = imputer
    dates = pandas.date_range("2024-01-01", periods=len(rows), freq="h")
    kept = np.delete(np.arange(len(rows)), [30, 31, 32])
    frame = pandas.DataFrame(rows, index=dates).iloc[kept]
    fitted = lrmc.RobustImputer(time="rows").fit(frame)
    assert np.isfinite(fitted.transform(frame)).all()
    with pytest.raises(ValueError, match="not even steps"):
        fitted.partial_fit(frame.iloc[:5] + 1)


def test_stuck_values_against_chance():
    rng = np.random.default_rng(11)
    Y = rng.standard_normal((6, 400)).round(2)
    Y[5] = np.minimum(Y[5], 0)  # saturated half of the time: it often repeats itself
    Y[rng.random(Y.shape) < 0.2] = np.nan
    assert not stuck(Y).any()
    Y[2, 100:115] = np.where(np.isnan(Y[2, 100:115]), np.nan, 0.37)
    found = stuck(Y)
    assert found[2, 100:115].sum() == (~np.isnan(Y[2, 100:115])).sum()
    assert (
        found.sum() <= found[2, 100:115].sum() + 1
    )  # the next may have that value too


def test_kinds_of_faults_are_told_apart():
    rng = np.random.default_rng(12)
    Y = rng.standard_normal((4, 200))
    residual = np.zeros_like(Y)
    residual[0, [20, 90, 91]] = 9, -8, 7
    residual[1, 50:80] = -6 + 0.3 * rng.standard_normal(30)
    residual[2, 100:130] = np.linspace(1, 9, 30) + 0.3 * rng.standard_normal(30)
    residual[3, 10:16] = [5, -5, 6, -6, 5, -7]
    Y[0, 150:170] = 1.5
    residual[0, 155:165] = 4.0
    sensors, times = np.nonzero(residual)
    mixed = rng.permutation(len(sensors))  # the list is ordered by score
    sensors, times = sensors[mixed], times[mixed]
    kinds = kinds_of(sensors, times, residual[sensors, times], Y)
    for s, t, kind in zip(sensors, times, kinds, strict=True):
        late = "stuck" if t >= 150 else "spike"
        want = {0: late, 1: "shift", 2: "drift", 3: "spike"}[int(s)]
        assert kind == want, (s, t)


def test_the_list_of_a_file_has_a_kind(solved, tmp_path):
    pandas = pytest.importorskip("pandas")
    from lrmc.complete.in_memory import complete

    frame = pandas.DataFrame(solved[1].T.round(2), columns=[f"s{i}" for i in range(S)])
    spikes = frame["s3"].notna() & (frame.index % 40 == 7)
    frame.loc[spikes, "s3"] += 60
    frame.loc[100:130, "s5"] = frame["s5"].dropna().iloc[60]
    dates = pandas.date_range("2024-01-01", periods=len(frame), freq="h")
    frame.insert(0, "when", dates)
    frame.to_csv(tmp_path / "in.csv", index=False)
    out = tmp_path / "outliers.csv"
    with pytest.warns(lrmc.DoubtWarning, match="taken for faults"):
        complete(tmp_path / "in.csv", tmp_path / "out.csv", outliers_to=out)
    listed = pandas.read_csv(out)
    assert set(listed.loc[listed["column"] == "s5", "kind"]) == {"stuck"}
    assert (listed["column"] == "s5").sum() == 31
    of_spikes = listed[listed["column"] == "s3"]
    assert len(of_spikes) >= spikes.sum()
    assert (of_spikes["kind"] == "spike").all()


def ratings():
    return np.load(DATA / "ratings" / "jester5k.npz")["ratings"][:1000]


def pixels():
    images = np.load(DATA / "faces" / "extyaleb_yaleB01.npz")["images"][:, ::12, ::12]
    return hidden(images.reshape(len(images), -1).T.astype(float), 0.2)[0]


def cells():
    datasets = pytest.importorskip("sklearn.datasets")
    X = datasets.load_breast_cancer().data
    return hidden(X / X.std(0), 0.2)[0]


def test_few_series_that_begin_late_are_a_warning():
    Y = seasonal(13, days=8)[1]
    Y[:4, :60] = np.nan
    assert any("too few" in text for text in _few_begin_late(Y))
    assert not any(_few_begin_late(np.concatenate([Y, Y])))
    Y[:, 100:160] = np.nan  # now most gaps are between entries
    assert not any(_few_begin_late(Y))


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository")
@pytest.mark.parametrize("table", [ratings, pixels, cells])
def test_no_order_is_found_where_there_is_none(table):
    result = lrmc.solve(table())
    assert "time" not in result.evidence
    assert not any(part.name == "time" for part in result.beyond)


def test_intervals_are_learned_from_other_gaps_than_the_plan_is():
    """A plan that was learned from the same gaps misses less of them than of what is missing."""
    Z = hidden(seasonal(days=8, sensors=4)[1])[0]
    again = lrmc.solve(Z, time="columns", period=P).refit
    assert again.timing.plan.is_of_few
    part = Submatrix(as_observations(Z), *map(np.arange, Z.shape))
    _, some = again.set_aside(part, 0)
    held = gaps_elsewhere(~np.isnan(Z), 0, P)
    assert held[some.rows, some.cols].mean() < 0.5


def test_errors_of_one_gap_come_together():
    """Sensors that fail at the same times are one gap."""
    Z = seasonal(days=8, sensors=4)[1]
    Z[:, 30:36] = Z[:, 90:96] = np.nan
    part = lrmc.solve(Z, time="columns", period=P).beyond[0]
    held = np.zeros(Z.shape, bool)
    held[:, 10:16] = held[:, 60:66] = True
    rows, cols = np.nonzero(held)
    found = part.gaps(Sample(rows, cols, Z[rows, cols]))
    np.testing.assert_array_equal(found == found[0], cols < 16)
    assert len(np.unique(found)) == 2


@each("alike", [False, True])
def test_times_that_many_rows_share(alike):
    """Rows of one date are a logger that sends twice, or several series below each other: the mean
    of the latter is none of them."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8))
    X = np.concatenate([X, X if alike else X[::-1]])
    X += 0.1 * rng.standard_normal(X.shape)
    hidden = rng.random(X.shape) < 0.2
    dates = pd.date_range("2024-01-01", periods=60)
    frame = pd.DataFrame(np.where(hidden, np.nan, X), index=dates.append(dates))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = np.asarray(lrmc.solve(frame).completed())
    plain = np.asarray(lrmc.solve(frame.to_numpy()).completed())
    error, usual = (np.sqrt(np.mean((x - X)[hidden] ** 2)) for x in (found, plain))
    assert error < 1.1 * usual
    said = any("there more than once" in str(w.message) for w in told)
    assert said is not alike

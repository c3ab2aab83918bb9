import csv
import os

import numpy as np
import pytest
import scipy.sparse as sp
from each import each
from real_data import DATA

from lrmc import DoubtWarning, solve, synthetic
from lrmc.complete import in_memory as completion
from lrmc.complete import lists
from lrmc.complete.tables import Table, read
from lrmc.outofcore import write_completed

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def problem():
    return synthetic.problem(60, 2, alpha=0.05, p=0.8, seed=1, n2=40, form="dense")


@pytest.fixture(scope="module", params=[0.0, 0.1], ids=["exact", "noisy"])
def result(request):
    return solve(
        synthetic.problem(
            200, 2, alpha=0.05, p=0.7, seed=1, n2=90, noise=request.param, form="dense"
        ).Y
    )


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_fill_says_what_the_model_replaces(problem):
    result = solve(problem.Y, 2)
    found = completion.outlying(result)
    missing, wrong = np.isnan(problem.Y), np.nan_to_num(problem.outliers) != 0
    model, seen = result.low_rank(), np.nan_to_num(problem.Y)
    for fill, replaced in (
        ("missing", missing),
        ("missing+outliers", missing | wrong),
        ("all", missing | True),
    ):
        got = completion.filled(result, problem.Y, fill, found)
        np.testing.assert_array_equal(got, np.where(replaced, model, seen))


def test_sparse_and_masked_are_filled_alike(problem):
    mask = np.isnan(problem.Y)
    values = np.nan_to_num(problem.Y)
    duplicated = sp.coo_array(
        (np.tile(values[~mask] / 2, 2), np.tile(np.nonzero(~mask), 2)), shape=mask.shape
    )

    def filled(Y):
        result = solve(Y, 2)
        return completion.filled(
            result, Y, "missing+outliers", completion.outlying(result)
        )

    want = filled(problem.Y)
    for same in (np.ma.MaskedArray(values, mask=mask), duplicated, duplicated.tocsc()):
        np.testing.assert_allclose(filled(same), want, atol=1e-10)


def test_the_list_is_that_of_the_result(result):
    """The same entries as `Result.outliers`, the highest score first, scores by noise or
    by threshold.
    """
    found = completion.outlying(result)
    S = np.nan_to_num(result.outliers())
    assert set(zip(found.rows, found.cols, strict=True)) == set(
        zip(*np.nonzero(S), strict=True)
    )
    np.testing.assert_allclose(
        found.values - found.expected, S[found.rows, found.cols], atol=1e-12
    )
    np.testing.assert_allclose(
        found.expected, result.low_rank()[found.rows, found.cols]
    )
    assert np.all(np.diff(found.scores) <= 0)
    listed = result.listing()
    noisy = result.regime == "noisy"
    unit = listed.rows[found.rows] * listed.cols[found.cols]
    unit = unit * (result.noise_level if noisy else listed.threshold)
    np.testing.assert_allclose(
        found.scores, np.abs(found.values - found.expected) / unit, rtol=1e-6
    )
    assert found.scores.min() > (2 if noisy else 1)


@pytest.fixture(scope="module")
def open_row():
    """Row 3 is noise, and no pattern tells what belongs into its gaps."""
    Y = synthetic.problem(60, 2, alpha=0.05, p=0.8, seed=1, n2=40, form="dense").Y
    rng = np.random.default_rng(0)
    Y[3] = np.where(
        rng.random(40) < 0.8, np.nanmax(Y) * rng.standard_normal(40), np.nan
    )
    return Y


def test_what_was_observed_in_a_row_that_is_not_vouched_for_stays(open_row, tmp_path):
    """In memory and block by block: its gaps are left, or filled in with a guess."""
    with pytest.warns(DoubtWarning, match=r"of 1 row\(s\) too few entries agree"):
        result = solve(open_row, 2)
    found, seen = completion.outlying(result), np.isfinite(open_row[3])
    for undetermined, gaps in (
        ("nan", np.nan),
        ("keep", (result.L[3] @ result.R.T)[~seen]),
    ):
        X = completion.filled(
            result, open_row, "missing+outliers", found, undetermined=undetermined
        )
        write_completed(
            result,
            tmp_path / "out.npy",
            fill="missing+outliers",
            undetermined=undetermined,
        )
        np.testing.assert_array_equal(X, np.load(tmp_path / "out.npy"))
        np.testing.assert_allclose(X[3, ~seen], gaps)
        if undetermined == "nan":
            np.testing.assert_array_equal(X[3, seen], open_row[3, seen])


@pytest.mark.parametrize(
    ("undetermined", "said"), [("nan", "values stay empty"), ("keep", "is a guess")]
)
def test_the_report_says_what_became_of_a_row_that_is_not_vouched_for(
    open_row, tmp_path, undetermined, said
):
    np.save(tmp_path / "in.npy", open_row)
    places = {"report_to": tmp_path / "report.html", "undetermined": undetermined}
    with pytest.warns(DoubtWarning, match="too few entries agree"):
        done = completion.complete(
            tmp_path / "in.npy", tmp_path / "out.npy", 2, **places
        )
    gaps = int(np.isnan(open_row[3]).sum())
    assert (
        done.left
        == np.isnan(np.load(tmp_path / "out.npy")).sum()
        == (gaps if undetermined == "nan" else 0)
    )
    assert said in (tmp_path / "report.html").read_text()


def test_a_result_without_outliers():
    found = completion.outlying(
        solve(np.outer(np.arange(1.0, 9), np.arange(1.0, 7)), 1)
    )
    assert found.kinds is None  # without time there are no kinds
    assert [len(x) for x in found if x is not None] == [0] * 5


def table_file(folder, name="in.csv", **columns):
    """A table of 120 rows in different units, named s0, s1, ...: with an outlier in row
    s7, column `b`.
    """
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((120, 1))
        @ (rng.standard_normal((1, 8)) + 2)
        * 10.0 ** np.arange(-3, 5)
    )
    X += 0.01 * rng.standard_normal(X.shape) * 10.0 ** np.arange(-3, 5)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    frame.loc[7, "b"] = 9.0
    frame.loc[3:5, "c"] = np.nan
    frame.insert(0, "station", [f"s{i}" for i in range(120)])
    for key, value in columns.items():
        frame[key] = value
    path = folder / name
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_all_three_files_have_the_names_of_the_table(tmp_path, suffix):
    source = table_file(tmp_path, f"in.{suffix}")
    listed, page = tmp_path / f"list.{suffix}", tmp_path / "page.html"
    done = completion.complete(
        source, tmp_path / "out.csv", outliers_to=listed, report_to=page
    )
    assert done.units is not None
    lines = pd.read_csv(listed) if suffix == "csv" else pd.read_parquet(listed)
    assert tuple(lines.columns) == lists.COLUMNS
    assert lines.iloc[0][["row", "column", "value"]].tolist() == ["s7", "b", 9.0]
    assert abs(lines.iloc[0]["expected"]) < 0.2  # in the unit of column b
    text = page.read_text("utf-8")
    assert "s7" in text
    assert "in spreads" in " ".join(text.split()) or "such spreads" in text
    assert "Passed through unchanged: station" in text
    assert files(tmp_path) == sorted(
        ["in." + suffix, "list." + suffix, "out.csv", "page.html"]
    )
    out = pd.read_csv(tmp_path / "out.csv")
    assert not out.isna().any().any()
    assert abs(out.loc[7, "b"]) < 0.2
    assert out["station"].tolist() == [f"s{i}" for i in range(120)]


def test_nothing_is_beside_the_output_unless_asked_for(tmp_path):
    completion.complete(table_file(tmp_path), tmp_path / "out.parquet")
    assert files(tmp_path) == ["in.csv", "out.parquet"]


@pytest.mark.parametrize("broken", ["write_outliers", "report_sections"])
def test_all_files_or_none(tmp_path, monkeypatch, broken):
    """The disk is full when the last file is written: what was there before is still
    there, and nothing else.
    """

    def fails(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(completion, broken, fails)
    source, places = (
        table_file(tmp_path),
        [tmp_path / name for name in ("out.csv", "list.csv", "page.html")],
    )
    places[0].write_text("before")
    with pytest.raises(OSError, match="No space"):
        completion.complete(
            source, places[0], outliers_to=places[1], report_to=places[2]
        )
    assert files(tmp_path) == ["in.csv", "out.csv"]
    assert places[0].read_text() == "before"


@each(
    ("side", "sentence"),
    [
        (
            {"outliers_to": "list.txt"},
            "list.txt: the list of outliers is written as .csv or .parquet",
        ),
        ({"report_to": "page.pdf"}, "page.pdf: the report is written as .html"),
        ({"outliers_to": "in.csv"}, "in.csv is also the place of another file"),
        ({"outliers_to": "out.csv"}, "out.csv is also the place of another file"),
        ({"outliers_to": "no/such/list.csv"}, "there is no such directory"),
        ({"report_to": "folder.html"}, "is a directory"),
    ],
)
def test_places_are_looked_at_before_the_work(tmp_path, monkeypatch, side, sentence):
    monkeypatch.chdir(tmp_path)
    table_file(tmp_path)
    os.mkdir("folder.html")
    monkeypatch.setattr(
        completion, "read", lambda *a, **b: pytest.fail("the work has begun")
    )
    with pytest.raises((ValueError, OSError), match=sentence):
        completion.complete("in.csv", "out.csv", **side)


def test_names_are_distinct():
    frame = pd.DataFrame(
        [["x", 1.0, 2.0, 3.0], ["x", 4.0, 5.0, 6.0]], columns=["k", "a", "a", ""]
    )
    table = Table(frame.iloc[:, 1:].to_numpy(), frame=frame, columns=[1, 2, 3])
    assert table.col_names() == ["a [0]", "a [1]", "[2]"]
    assert table.row_names() is None  # x is no name for a row
    assert table.others() == ["k"]
    frame.index = pd.MultiIndex.from_tuples([("p", 1), ("q", 2)])
    assert table.row_names() == ["p / 1", "q / 2"]
    assert (Table(np.ones((2, 2))).row_names(), Table(np.ones((2, 2))).col_names()) == (
        None,
        None,
    )


def test_an_index_names_rows(tmp_path):
    rng = np.random.default_rng(0)
    Y = pd.DataFrame(
        rng.standard_normal((40, 1)) @ rng.standard_normal((1, 6)),
        pd.date_range("2024-01-01", periods=40),
    )
    Y.to_csv(tmp_path / "a.csv")
    Y.columns = [f"c{j}" for j in range(6)]
    Y.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        assert read(tmp_path / name).row_names()[1].startswith("2024-01-02")


@pytest.mark.filterwarnings("ignore::lrmc.solve.ConvergenceWarning")
def test_what_is_said_about_a_table(tmp_path):
    """Columns that count rows, and rows about which too little is known."""
    with pytest.warns(UserWarning, match="'year' counts the rows, and passes through"):
        completion.complete(
            table_file(tmp_path, year=np.arange(1900, 2020)), tmp_path / "out.csv"
        )
    problem = synthetic.problem(80, 4, alpha=0, p=1, n2=30)
    problem.Y[3, 2:] = np.nan
    np.save(tmp_path / "a.npy", problem.Y)
    with pytest.warns(
        UserWarning,
        match=r"of 1 row\(s\) too few entries agree with the fit to vouch for it: NaN",
    ):
        completion.complete(
            tmp_path / "a.npy", tmp_path / "b.npy", 4, report_to=tmp_path / "b.html"
        )
    assert "Of 1 row(s) too few entries agree" in (tmp_path / "b.html").read_text(
        "utf-8"
    )


@pytest.mark.filterwarnings("ignore:.*no observation")
def test_hostile_names_stay_names(tmp_path):
    """What a header says is neither HTML nor a second cell."""
    names = ["<script>alert(1)</script>", 'a,"b"\nc', "=1+1", "[bold]x", "\x07bell"]
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((50, 1)) @ (1 + rng.random((1, 5)))
    Y[4, 1], Y[8, 0] = 50.0, 90.0
    pd.DataFrame(Y, columns=names).to_csv(tmp_path / "a.csv", index=False)
    completion.complete(
        tmp_path / "a.csv",
        tmp_path / "b.csv",
        outliers_to=tmp_path / "c.csv",
        report_to=tmp_path / "d.html",
    )
    assert pd.read_csv(tmp_path / "b.csv").columns.tolist() == names
    with open(tmp_path / "c.csv", newline="", encoding="utf-8") as file:
        assert [line[1] for line in csv.reader(file)][1:3] == names[:2]
    text = (tmp_path / "d.html").read_text("utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


LABELS = {  # as they stand in the table, and in the list
    "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
    "+1": "'+1",
    "-1+2": "'-1+2",
    "@SUM(A1:A9)": "'@SUM(A1:A9)",
    "-3": "-3",
    "-2.5e-3": "-2.5e-3",
    "a=b": "a=b",
}


def test_labels_that_a_spreadsheet_would_execute_are_text_in_the_list(tmp_path):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((40, 1)) @ (1 + rng.random((1, len(LABELS))))
    at = np.arange(len(LABELS))
    Y[at, at] = 50.0 + at
    frame = pd.DataFrame(Y, columns=list(LABELS))
    frame.insert(0, "who", [*LABELS, *(f"r{i}" for i in range(40 - len(LABELS)))])
    frame.to_csv(tmp_path / "in.csv", index=False)
    completion.complete(
        tmp_path / "in.csv",
        tmp_path / "out.csv",
        1,
        outliers_to=tmp_path / "list.csv",
        scale="none",
    )
    with open(tmp_path / "list.csv", newline="") as file:
        rows, cols = zip(*(line[:2] for line in list(csv.reader(file))[1:]))
    assert set(rows) == set(cols) == set(LABELS.values())
    out = pd.read_csv(tmp_path / "out.csv")
    # the user's own cells are left alone
    assert out.columns.tolist() == ["who", *LABELS]
    assert out["who"].tolist() == frame["who"].tolist()


@pytest.mark.parametrize("label", ["\tx", "\rx", "\nx"])
def test_labels_that_begin_with_white_space(label):
    assert lists._harmless(label) == "'" + label


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n5\n7\n2\n", r"one column of numbers \('a'\); low rank .* --rows NAME"),
        (
            "id,name,value\n1,x,4\n2,y,6\n3,z,1\n",
            r"one column of numbers \('value'\); 'id', 'name' are passed through",
        ),
        ("who,when,value\na,x,4\nb,y,6\n", r"'who', 'when' are passed through"),
        ("a,b,c\n1,2,\n", "has one row"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*counts the rows")
def test_a_long_table_is_refused(tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        completion.complete(tmp_path / "a.csv", tmp_path / "b.csv")
    np.save(tmp_path / "a.npy", np.ones((9, 1)))
    with pytest.raises(ValueError, match="one column of numbers; low rank"):
        completion.complete(tmp_path / "a.npy", tmp_path / "b.npy")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_two_columns_may_be_a_long_table(tmp_path):
    frame = pd.DataFrame({"item": [3.0, 1, 2] * 10, "value": np.arange(30.0) ** 2})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(
        UserWarning, match="only two columns of numbers; if it is a long one.* --rows"
    ):
        completion.complete(tmp_path / "a.csv", tmp_path / "b.csv")


@pytest.mark.data
@pytest.mark.skipif(
    not (DATA / "cases").is_dir(), reason="needs real data beside the repository"
)
def test_speeds_in_single_precision(tmp_path):
    """Filled with -324 to 268 mph, once, since factors were out of balance."""
    source = DATA / "cases" / "traffic_float32.parquet"
    with pytest.warns(UserWarning, match="0 stands far from all other values"):
        completion.complete(source, tmp_path / "out.parquet")
    before, after = (
        pd.read_parquet(path).to_numpy() for path in (source, tmp_path / "out.parquet")
    )
    filled = after[np.isnan(before)]
    assert filled.min() >= 0
    assert filled.max() <= 80


# ---- intervals


@pytest.fixture
def measured():
    """Hidden and shown values of a table whose columns have names and units."""
    rng = np.random.default_rng(3)
    units = np.geomspace(0.1, 100, 20)
    values = (
        rng.standard_normal((80, 2)) @ rng.standard_normal((2, 20))
        + 0.2 * rng.standard_normal((80, 20))
    ) * units
    shown = np.where(rng.random(values.shape) < 0.7, values, np.nan)
    names = [f"s{k}" for k in range(20)]
    return pd.DataFrame(values, columns=names), pd.DataFrame(shown, columns=names)


def test_intervals_of_all_that_was_missing(measured, tmp_path):
    values, shown = measured
    shown.to_csv(tmp_path / "in.csv", index=False)
    out, listed = tmp_path / "out.csv", tmp_path / "out.intervals.csv"
    completion.complete(
        tmp_path / "in.csv", out, 2, intervals_to=listed, level=0.8, limits=False
    )
    found = pd.read_csv(listed)
    assert tuple(found.columns) == lists.INTERVALS
    assert len(found) == int(shown.isna().to_numpy().sum())
    filled = pd.read_csv(out)
    truth, middle = (
        [frame[c][r] for r, c in zip(found.row, found.column)]
        for frame in (values, filled)
    )
    np.testing.assert_allclose(found.value, middle, rtol=1e-6)
    assert abs(np.mean((found.lower <= truth) & (truth <= found.upper)) - 0.8) < 0.06


@pytest.mark.filterwarnings("ignore:.*fewer observations than the rank")
def test_no_intervals_where_gaps_are_like_nothing_seen(tmp_path):
    rng = np.random.default_rng(5)
    Y = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 140))
    Y += 0.1 * rng.standard_normal((120, 140))
    Y[:30][rng.random((30, 140)) < 0.95] = np.nan
    np.save(tmp_path / "in.npy", Y)
    with pytest.warns(
        UserWarning, match="no intervals are written: the gaps are unlike"
    ):
        completion.complete(
            tmp_path / "in.npy",
            tmp_path / "out.npy",
            3,
            intervals_to=tmp_path / "ends.csv",
        )
    assert files(tmp_path) == ["in.npy", "out.npy"]


def test_intervals_have_a_place_of_their_own(tmp_path):
    np.save(tmp_path / "in.npy", np.eye(5))
    for name, match in (
        ("a.txt", "list of intervals is written as .csv"),
        ("o.csv", "place of another file"),
    ):
        with pytest.raises(ValueError, match=match):
            completion.complete(
                tmp_path / "in.npy", tmp_path / "o.csv", intervals_to=tmp_path / name
            )


@pytest.fixture(scope="module")
def noisy_table(tmp_path_factory):
    """A noisy table of ids, dates and measurements that are never negative, with gaps; completed."""
    folder = tmp_path_factory.mktemp("noisy")
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 2, (150, 2)) @ rng.uniform(0, 2, (2, 8))
    X = np.abs(X + rng.normal(size=X.shape) * 0.3).round(2)
    X[:, 3] *= 1000
    gaps = rng.random(X.shape) < 0.2
    frame = pd.DataFrame(np.where(gaps, np.nan, X), columns=list("abcdefgh"))
    frame.insert(0, "station", [f"ST-{100 + k % 3}" for k in range(len(frame))])
    frame.insert(1, "day", pd.date_range("2024-01-01", periods=len(frame)).astype(str))
    frame.to_csv(folder / "in.csv", index=False)
    done = completion.complete(
        folder / "in.csv",
        folder / "out.csv",
        outliers_to=folder / "out.outliers.csv",
        intervals_to=folder / "out.intervals.csv",
        report_to=folder / "out.html",
    )
    return folder, X, gaps, done


@pytest.mark.slow
def test_intervals_are_within_the_plausible_range(noisy_table):
    folder, X, gaps, _ = noisy_table
    listed = pd.read_csv(folder / "out.intervals.csv")
    filled = pd.read_csv(folder / "out.csv")
    assert len(listed) == gaps.sum()
    assert (listed.lower <= listed.value).all()
    assert (listed.value <= listed.upper).all()
    assert (listed.lower >= 0).all()
    assert (listed.lower == 0).any()  # noise alone would go below
    for name, some in listed.groupby("column"):
        k = "abcdefgh".index(name)
        assert some.upper.max() <= 1.1 * np.nanmax(X[:, k]) + 0.01
        rows = filled.day.searchsorted(some.row)
        np.testing.assert_allclose(filled[name].to_numpy()[rows], some.value)


def test_ids_are_no_dates(noisy_table):
    folder, *_, done = noisy_table
    assert done.dated == "day"
    assert pd.read_csv(folder / "out.intervals.csv").row[0].startswith("2024-")


def test_errors_of_columns_are_those_of_filling_them(noisy_table):
    _, X, gaps, done = noisy_table
    filled = pd.read_csv(done.files[0])[list("abcdefgh")].to_numpy()
    off = np.abs(filled - X)
    truth = np.array([off[gaps[:, k], k].mean() for k in range(8)])
    assert done.errors.n_hidden > 80
    # a dozen hidden entries per column: right within a factor, in each column's units
    assert (done.errors.model < 2.5 * truth).all()
    assert (done.errors.model > truth / 2.5).all()
    median = np.array([np.abs(x - np.median(x)).mean() for x in X.T])
    assert (done.errors.median < 2 * median).all()
    assert (done.errors.median > median / 2).all()


def test_the_report_has_columns_and_links(noisy_table):
    folder, *_ = noisy_table
    page = (folder / "out.html").read_text()
    assert "hidden from one more fit" in page
    for name in ("out.csv", "out.outliers.csv", "out.intervals.csv"):
        assert f'<a href="{name}">{name}</a>' in page


def test_too_few_entries_have_no_errors(tmp_path):
    X = np.outer([3.5, 1.2, 7.1, 2.9, 5.3], [1.0, 2.0, 3.0])
    X[1, 1] = np.nan
    pd.DataFrame(X, columns=list("abc")).to_csv(tmp_path / "in.csv", index=False)
    places = tmp_path / "in.csv", tmp_path / "out.csv"
    done = completion.complete(*places, report_to=tmp_path / "out.html")
    assert done.errors is None
    assert "Column by column" in (tmp_path / "out.html").read_text()


def test_one_column_with_dates_is_a_series(tmp_path):
    t = np.arange(120)
    value = 10 + 3 * np.sin(t * 2 * np.pi / 7)
    dates = pd.date_range("2024-01-01", periods=len(t))
    frame = pd.DataFrame({"day": dates, "value": np.where(t % 11 == 3, np.nan, value)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    completion.complete(tmp_path / "a.csv", tmp_path / "b.csv")
    found = pd.read_csv(tmp_path / "b.csv")["value"]
    assert np.abs(found - value).max() < 0.5

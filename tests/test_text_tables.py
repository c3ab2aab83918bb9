"""Tables as people have them: decimal commas, codes for missing values, labels, long tables."""

import gzip

import numpy as np
import pytest

from lrmc.complete import in_memory, tables
from lrmc.complete.codes import odd_value
from lrmc.complete.labels import label
from lrmc.complete.limits import limited, plausible, rounded
from lrmc.complete.long import plainly_long
from lrmc.complete.places import beside
from lrmc.complete.table import Long
from lrmc.complete.text_tables import looks_numeric

pd = pytest.importorskip("pandas")
NAN = np.nan


def written(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


# ---- how numbers are written


def test_semicolons_and_decimal_commas_come_back(tmp_path):
    lines = ["who;a;b", "x;1,25;3,5", "y;;4", "z;-0,5;5,25"]
    table = tables.read(written(tmp_path / "a.csv", lines))
    np.testing.assert_array_equal(table.values, [[1.25, 3.5], [NAN, 4], [-0.5, 5.25]])
    tables.write(tmp_path / "b.csv", table, np.nan_to_num(table.values, nan=7.125))
    lines[2] = "y;7,12;4"  # two decimals, as the column has
    assert (tmp_path / "b.csv").read_text().splitlines() == lines
    tables.write(tmp_path / "b.tsv", table, np.nan_to_num(table.values, nan=7.125))
    assert (tmp_path / "b.tsv").read_text().splitlines()[2] == "y\t7,12\t4"


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["a;b", "1,5;2", "2;3"], 1.5),
        (["a,b", '"1,5",2', "2,3"], 1.5),
        (["a;b", "1.5;2", "2;3"], 1.5),
    ],
)
def test_decimal_marks(tmp_path, lines, value):
    assert tables.read(written(tmp_path / "a.csv", lines)).values[0, 0] == value


def test_thousands_are_not_taken_for_decimals(tmp_path):
    lines = ["a,b,c", '"1,500",2,1', '"2,300",3,2', '"1,100",5,3.5']
    with pytest.warns(UserWarning, match="'a' passes through as text, but looks like"):
        table = tables.read(written(tmp_path / "a.csv", lines))
    assert table.others() == ["a"]
    with pytest.warns(UserWarning, match="commas are read as decimal commas"):
        table = tables.read(written(tmp_path / "a.csv", ["a;b", "1,500;2", "2,300;4"]))
    assert table.values[0, 0] == 1.5


@pytest.mark.parametrize(
    ("cells", "looks"),
    [
        (["12 kg", "7 kg", "9.5 kg"], True),
        (["$5", "$12.50"], True),
        (["40%", "50%"], True),
        (["1 200", "3 400"], True),
        (["2024-01-02", "2024-01-03"], False),
        (["12:30", "13:45"], False),
        (["1a", "2b", "3c", "4d"], False),
        (["north", "south"], False),
    ],
)
def test_text_that_looks_like_numbers(cells, looks):
    assert looks_numeric(cells) is looks


def test_compressed_tables(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("a,b\n1.5,2\n,4\n2.5,7\n")
    table = tables.read(tmp_path / "a.csv.gz")
    tables.write(tmp_path / "b.csv.gz", table, np.nan_to_num(table.values, nan=3.0))
    with gzip.open(tmp_path / "b.csv.gz", "rt") as file:
        assert file.read() == "a,b\n1.5,2\n3.0,4\n2.5,7\n"
    assert beside(tmp_path / "b.csv.gz", "report.html").name == "b.report.html"


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("a,b\n" + "1,2\n" * 10000)
    monkeypatch.setattr("lrmc.complete.csv_files.memory_there_is", lambda: 1000)
    with pytest.raises(ValueError, match="unpacks to more than the memory"):
        tables.read(tmp_path / "a.csv.gz")


# ---- what is missing


def test_codes_for_missing(tmp_path):
    lines = ["a,b", "1,-999", "-999.0,2.5", "None given,4", "7,1"]
    source = written(tmp_path / "a.csv", lines)
    table = tables.read(source, missing=["-999", "none given"])
    np.testing.assert_array_equal(
        table.values, [[1, NAN], [NAN, 2.5], [NAN, 4], [7, 1]]
    )
    np.save(tmp_path / "a.npy", np.array([[1, -9], [3, 4]]))
    values = tables.read(tmp_path / "a.npy", missing=["-9"]).values
    np.testing.assert_array_equal(values, [[1, NAN], [3, 4]])


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ([1, 2, 3, 4, 5, 6, -999, -999], -999),
        ([1.5, 2, 3, 4, 5, 6, 99, 99, 99], 99),
        ([91, 92, 93, 94, 95, 96, 97, 98, 99, 99], None),  # the end of a full range
        ([1, 2, 3, 4, 5, 6, -999], None),  # once: an outlier
        ([0, 1, 0, 1, 0, 1, 0], None),
        ([0, 0, 0, 0, 0.5, 3, 9, 17, 40, 22], None),  # rain
    ],
)
def test_values_that_may_mean_missing(values, odd):
    assert odd_value(np.array(values, float)) == odd


# ---- what is no data


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("row", [1, 2, 3, 4], "counts"),
        ("user_id", [17, 4, 99, 12], "identifiers"),
        ("userId", [17, 4, 99, 12], "identifiers"),
        ("zip", [10115, 20095, 80331], "identifiers"),
        ("year", [1990, 1995, 2020, 1990], "years"),
        ("when", [20240131, 20240201, 20240301], "dates"),
        ("timestamp", [1.7e9, 1.7e9 + 60, 1.7e9 + 180], "times"),
        ("speed", [60, 65, 61, 60], ""),
        ("humid", [17, 4, 99, 12], ""),
        ("price", [1990.5, 1995, 2020], ""),
        ("year", [0.5, 1.5, 2.5], ""),
    ],
)
def test_labels(name, values, why):
    found = label(name, np.array(values, float))
    assert found == "" if not why else why in found


def test_labels_pass_through_unless_they_are_data(tmp_path):
    lines = ["id,a,b", "7,1.5,2", "3,2,", "9,2.5,3"]
    source = written(tmp_path / "a.csv", lines)
    with pytest.warns(UserWarning, match="'id' holds identifiers, .* --data id"):
        assert tables.read(source).others() == ["id"]
    assert tables.read(source, data=["id"]).others() == []
    with pytest.raises(ValueError, match="no column 'x' to take as data"):
        tables.read(source, data=["x"])


# ---- long tables


def long_lines(seed=0):
    rng = np.random.default_rng(seed)
    X = np.outer(rng.uniform(1, 2, 20), rng.uniform(1, 2, 9))
    lines = [
        f"u{i},{j},{X[i, j]:.6f}"
        for i in range(20)
        for j in range(9)
        if rng.random() < 0.8
    ]
    return X, ["user,item,rating", *lines]


def test_a_long_table_becomes_a_matrix_if_it_is_said_how(tmp_path):
    X, lines = long_lines()
    source = written(tmp_path / "a.csv", lines)
    how = Long("user", "item", "rating")
    in_memory.complete(source, tmp_path / "b.csv", 1, long=how)
    after = pd.read_csv(tmp_path / "b.csv", index_col="user")
    after = after.loc[[f"u{i}" for i in range(20)], [str(j) for j in range(9)]]
    np.testing.assert_allclose(after.to_numpy(), X, atol=2e-6)
    with pytest.raises(
        ValueError, match=r"is a long table.* --rows 'user' --columns 'item'"
    ):
        in_memory.complete(source, tmp_path / "c.csv", 1)
    frame = pd.read_csv(source)
    frame.to_parquet(tmp_path / "a.parquet")
    wide = tables.read(tmp_path / "a.parquet", long=how)
    assert wide.values.shape == (20, 9)


def test_cells_of_a_long_table_have_the_decimals_of_their_column(tmp_path):
    _, lines = long_lines()
    wide = tables.read(
        written(tmp_path / "a.csv", lines), long=Long("user", "item", "rating")
    )
    assert wide.decimals() == [6] * 9


def test_names_of_rows_that_are_numbers_are_no_data(tmp_path):
    _, lines = long_lines()
    numbered = [line.replace("u", "10") if k else line for k, line in enumerate(lines)]
    source = written(tmp_path / "a.csv", numbered)
    pd.read_csv(source).to_parquet(tmp_path / "a.parquet")
    how = Long("user", "item", "rating")
    for path in (source, tmp_path / "a.parquet"):
        wide = tables.read(path, long=how)
        assert wide.values.shape == (20, 9)
        assert wide.others() == ["user"]


@pytest.mark.parametrize(
    ("long", "sentence"),
    [
        (Long("user", "item", "x"), "no column 'x' to pivot by"),
        (Long("user", "user", "rating"), "more than one line, such as 'u0', 'u0'"),
    ],
)
def test_long_tables_that_cannot_be_pivoted(tmp_path, long, sentence):
    source = written(tmp_path / "a.csv", long_lines()[1])
    with pytest.raises(ValueError, match=sentence):
        tables.read(source, long=long)


def test_a_wide_table_is_not_long(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["a,b,c", *(f"{x},{y},{z}" for x, y, z in rng.integers(0, 5, (60, 3)))]
    assert plainly_long(tables.read(written(tmp_path / "a.csv", lines))) is None


# ---- what is filled in


def test_a_scale_ends_where_its_entries_recur():
    marks = np.repeat([1.0, 2.0, 4.0, 5.0], [5, 20, 20, 1])[:, None]
    low, high = plausible(np.hstack([marks, 2 * marks]))
    np.testing.assert_allclose(low, [1, 2])
    np.testing.assert_allclose(high, [5.4, 10.8])


def test_limits_are_those_of_the_column():
    Y = np.array([[0.0, -5, -4], [10, 5, NAN], [NAN, NAN, -2]])
    low, high = plausible(Y)
    np.testing.assert_allclose(low, [0, -6, -4.2])
    np.testing.assert_allclose(high, [11, 6, -1.8])
    X = np.array([[0.0, -5, -4], [10, 5, 3], [99, -3, -2]])
    within, beyond = limited(X, np.isnan(Y), plausible(Y))
    assert beyond == 2
    np.testing.assert_allclose(within, [[0, -5, -4], [10, 5, -1.8], [11, -3, -2]])


def test_new_entries_have_the_decimals_of_their_column():
    X = np.array([[1.234, 5.678], [2.345, 6.789]])
    new = np.array([[True, True], [False, True]])
    np.testing.assert_array_equal(
        rounded(X, new, [1, None]), [[1.2, 5.678], [2.345, 6.789]]
    )


def test_limits_are_said_and_can_be_left_out(tmp_path):
    """A row that is far beyond all others, of which one entry is missing."""
    rng = np.random.default_rng(0)
    X = np.outer(rng.uniform(1, 2, 80), rng.uniform(10, 20, 7))
    X += 0.2 * rng.standard_normal(X.shape)
    X[5] *= 4
    truth, X[5, 2] = X[5, 2], NAN
    pd.DataFrame(X).rename(columns="c{}".format).to_csv(tmp_path / "a.csv", index=False)
    source, page = tmp_path / "a.csv", tmp_path / "b.html"
    done = in_memory.complete(
        source, tmp_path / "b.csv", 1, fill="missing", report_to=page
    )
    assert done.limited == 1
    assert "at the end of the plausible range" in page.read_text("utf-8")
    inside = pd.read_csv(tmp_path / "b.csv")["c2"]
    assert inside[5] == pytest.approx(1.1 * inside.drop(5).max(), rel=0.2)
    in_memory.complete(
        tmp_path / "a.csv", tmp_path / "b.csv", 1, limits=False, fill="missing"
    )
    assert pd.read_csv(tmp_path / "b.csv")["c2"][5] == pytest.approx(truth, rel=0.1)

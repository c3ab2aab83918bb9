import contextlib
import cProfile
import gc
import re
import signal

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from each import each

from lrmc import synthetic
from lrmc.complete import in_memory as completion
from lrmc.complete import tables
from lrmc.complete.table import as_dense

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def problem():
    return synthetic.problem(60, 2, alpha=0.05, p=0.8, seed=1, n2=40, form="dense")


def save(path, Y):
    """The same matrix in the format of the suffix, missing entries as that format says them."""
    stored = sp.coo_array((Y[~np.isnan(Y)], np.nonzero(~np.isnan(Y))), shape=Y.shape)
    match tables.suffix_of(path):
        case ".npy":
            np.save(path, Y)
        case ".npz":
            sp.save_npz(path, stored.tocsr())
        case ".mat":
            scipy.io.savemat(path, {"measured": Y, "rate": 50.0})
        case ".mtx":
            scipy.io.mmwrite(path, stored)
        case ".xlsx":
            pd.DataFrame(Y).to_excel(path, header=False, index=False)
        case text if text.startswith((".csv", ".tsv")):
            tabs = "\t" if text.startswith(".tsv") else ","
            pd.DataFrame(Y).to_csv(path, header=False, index=False, sep=tabs)
        case ".parquet":
            pd.DataFrame(Y, columns=[f"c{j}" for j in range(Y.shape[1])]).to_parquet(
                path
            )
    return path


@pytest.mark.parametrize("suffix", tables.READERS)
def test_every_format_gives_the_same_matrix(tmp_path, problem, suffix):
    values = tables.read(save(tmp_path / f"a{suffix}", problem.Y)).values
    np.testing.assert_allclose(as_dense(values), problem.Y, rtol=1e-12)


@each("target", tables.WRITERS)
@pytest.mark.parametrize("source", [".csv", ".npz", ".mat"])
def test_a_completion_comes_back_from_every_format(tmp_path, problem, source, target):
    out = tmp_path / f"out{target}"
    done = completion.complete(save(tmp_path / f"in{source}", problem.Y), out, 2)
    assert done.result.converged
    assert len(done.outliers.rows) == np.count_nonzero(np.nan_to_num(problem.outliers))
    assert done.observed == pytest.approx(np.mean(~np.isnan(problem.Y)))
    np.testing.assert_allclose(as_dense(tables.read(out).values), problem.X, atol=1e-4)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_no_number_passes_through(tmp_path, problem):
    lines = ["station;2001;2002;2002;note;code"]
    for i, row in enumerate(problem.Y[:, :3]):
        cells = ["" if np.isnan(x) else f"{x:.17e}" for x in row]
        lines.append(";".join([f"S{i}", *cells, "ok" if i % 2 else "", f"00{i}"]))
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("\n".join(lines) + "\n")
    tables.write(
        target,
        table := tables.read(source, keep=["code"]),
        np.where(np.isnan(table.values), 7, table.values),
    )
    assert table.values.shape == (60, 3)
    for before, after in zip(lines, target.read_text().splitlines(), strict=True):
        want = before.split(";")
        want[1:4] = [cell or "7.0" for cell in want[1:4]]
        assert after.split(";") == want  # cells that were observed letter for letter


@pytest.mark.parametrize("index", [True, False])
def test_what_pandas_writes_is_read_as_it_was(tmp_path, index):
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3))
    frame.iloc[1, 1] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=index, header=index)
    np.testing.assert_array_equal(
        tables.read(tmp_path / "a.csv").values, frame.to_numpy()
    )


def test_the_words_for_missing(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1, NA\nnan,2\nNULL,#N/A\n,4\n")
    want = [[1, np.nan], [np.nan, 2], [np.nan, np.nan], [np.nan, 4]]
    np.testing.assert_array_equal(tables.read(tmp_path / "a.csv").values, want)


def test_markers_beside_numbers_are_missing_and_told(tmp_path):
    lines = ["who,a,b,c", "x,1,?,?", "y, - ,2,odd", "z,3,?,?", "u,4.50,5,-"]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="is taken as missing") as caught:
        table = tables.read(tmp_path / "a.csv")
    np.testing.assert_array_equal(
        table.values, [[1, np.nan], [np.nan, 2], [3, np.nan], [4.5, 5]]
    )
    assert [str(w.message).partition(";")[0] for w in caught] == [
        "'-' is taken as missing, in 1 cells: column 'a' (1)",
        "'?' is taken as missing, in 2 cells: column 'b' (2)",
    ]
    with pytest.warns(UserWarning, match="'-' is taken as missing") as caught:
        tables.read(tmp_path / "a.csv", keep=["b"])
    assert len(caught) == 1
    assert table.others() == ["who", "c"]  # a column without any number is text
    X = np.where(np.isnan(table.values), 7, table.values)
    X[1, 0] = np.nan  # is not determined
    tables.write(tmp_path / "b.csv", table, X)
    want = ["who,a,b,c", "x,1,7,?", "y, - ,2,odd", "z,3,7,?", "u,4.50,5,-"]
    assert (tmp_path / "b.csv").read_text().splitlines() == want


def test_a_first_row_with_markers_is_no_header(tmp_path):
    (tmp_path / "a.csv").write_text("1,?\n3,4\n")
    with pytest.warns(
        UserWarning, match=r"'\?' is taken as missing, in 1 cells: column 1 \(from 0\)"
    ):
        np.testing.assert_array_equal(
            tables.read(tmp_path / "a.csv").values, [[1, np.nan], [3, 4]]
        )


def test_columns_with_some_text_are_named(tmp_path):
    cells = [[str(i)] * 10 for i in range(12)]
    cells[3] = ["n.d."] * 9 + ["3"]
    (tmp_path / "a.csv").write_text(
        "\n".join(",".join(row) for row in [list("abcdefghij"), *cells])
    )
    with pytest.warns(UserWarning, match="pass(es)? through") as caught:
        assert tables.read(tmp_path / "a.csv").values.shape == (12, 1)
    said = [str(w.message) for w in caught]
    assert said[1].startswith(
        "column 'b' passes through: 1 of its 12 cells are no numbers, such as 'n.d.'"
    )
    assert said[8:] == [
        "1 more columns pass through: a few of their cells are no numbers"
    ]


def test_time_grows_with_the_number_of_columns_and_not_faster(tmp_path):
    """Ten times the columns are read and written with about ten times the calls, and
    hardly any for each cell.
    """
    calls = []
    for n in (300, 3000):
        path = tmp_path / f"{n}.csv"
        path.write_text(
            "\n".join(
                ",".join(row)
                for row in [[f"c{j}" for j in range(n)], *[["1.5"] * n] * 3]
            )
        )
        profile = cProfile.Profile()
        with profile:
            table = tables.read(path)
            tables.write(tmp_path / "out.csv", table, table.values + 1)
            names = table.row_names(), table.col_names(), table.others()
        assert (names[0], len(names[1]), names[2]) == (None, n, [])
        calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert calls[1] < 15 * calls[0]
    assert calls[1] < 1000 * 3000


def test_parquet_keeps_types_and_index(tmp_path):
    days = pd.date_range("2024-01-01", periods=4, name="day")
    frame = pd.DataFrame(
        {
            "who": list("abcd"),
            "full": [1, 2, 4, 5],
            "gaps": pd.array([1, None, 3, 4], "Int16"),
            "flag": [True] * 4,
        },
        days,
    )
    frame.to_parquet(tmp_path / "in.parquet")
    table = tables.read(tmp_path / "in.parquet")
    np.testing.assert_array_equal(table.values, [[1, 1], [2, np.nan], [4, 3], [5, 4]])
    assert table.decimals() == [0, 0]
    tables.write(tmp_path / "out.parquet", table, np.nan_to_num(table.values, nan=2))
    after = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(
        after[["who", "full", "flag"]], frame[["who", "full", "flag"]], check_freq=False
    )
    assert after["gaps"].tolist() == [1, 2, 3, 4]
    assert after["gaps"].dtype == "Int16"
    tables.write(tmp_path / "out.csv", table, table.values)
    assert (tmp_path / "out.csv").read_text().splitlines()[2].endswith(",b,2,,True")


def test_a_mask_beside_integers(tmp_path):
    Y = np.arange(6, dtype=np.uint8).reshape(2, 3)
    np.savez(tmp_path / "a.npz", Y=Y, mask=Y != 4)
    table = tables.read(tmp_path / "a.npz")
    assert (table.name, table.values.dtype, table.values.mask.sum()) == (
        "Y",
        np.uint8,
        1,
    )


@pytest.mark.parametrize(
    "mask",
    [
        np.full((2, 3), "no"),
        np.full((2, 3), np.nan),
        np.ones((2, 3)) * 1j,
        np.full((2, 3), 2),
    ],
    ids=str,
)
def test_a_mask_that_is_none(tmp_path, mask):
    np.savez(tmp_path / "a.npz", Y=np.ones((2, 3)), mask=mask)
    with pytest.raises(
        ValueError, match=r"a.npz: mask (has type|holds) .*; booleans are wanted"
    ):
        tables.read(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", tables.READERS)
@each("content", [b"", b"\x00\xff\xfe junk", b"PK\x03\x04 damaged"])
def test_damaged_files_are_refused_in_a_sentence(tmp_path, suffix, content):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"could not be read as|no numbers|is not UTF-8 text"
    ):
        tables.read(path)


@pytest.mark.parametrize("entry", [b"2.5\x00", b"2.\x005", b"1,5", b"2.5x"])
def test_numbers_in_mtx_files_that_are_none(entry, tmp_path):
    """scipy crashes at the first two, and reads the others as 1 and 2.5."""
    path = tmp_path / "a.mtx"
    path.write_bytes(
        b"%%MatrixMarket matrix coordinate real general\n% caf\xe9, \n2 2 1\n1 1 "
        + entry
        + b"\n"
    )
    with pytest.raises(
        ValueError,
        match=r"a.mtx could not be read as mtx: among its numbers is '(\\x00|,|x)'",
    ):
        tables.read(path)
    path.write_bytes(
        b"%%MatrixMarket matrix coordinate real general\n% caf\xe9, \n2 2 1\r\n1\t1 -2.5e-1\n"
    )
    assert tables.read(path).values.toarray()[0, 0] == -0.25


@each("end", [b"", b"\n"])
@each("entry", [b"2.5E", b"2.5e-", b"1.5.2", b"2.5-"])
def test_broken_numbers_in_mtx_files(entry, end, tmp_path):
    """scipy crashes at them in a last line without an end, and elsewhere reads a part of them."""
    path = tmp_path / "a.mtx"
    path.write_bytes(
        b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 " + entry + end
    )
    with pytest.raises(ValueError, match="one of its numbers is broken"):
        tables.read(path)


def test_a_last_line_without_an_end(tmp_path):
    path = tmp_path / "a.mtx"
    for entry in (b"2.5", b"2.5 3"):  # scipy crashes at more numbers than are wanted
        path.write_bytes(
            b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 " + entry
        )
        assert tables.read(path).values.toarray()[0, 0] == 2.5


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".mat"])
def test_a_damaged_file_is_named(suffix, tmp_path, problem):
    """Some readers have errors of the system of their own, without the name of the file."""
    path = tmp_path / f"a{suffix}"
    tables.write(path, tables.Table(problem.Y), np.nan_to_num(problem.Y))
    whole = path.read_bytes()
    for end in range(1, len(whole), len(whole) // 60):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"a\.\w+ could not be read as"):
            tables.read(path)


def test_nothing_in_a_file_is_executed(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[object()]]), allow_pickle=True)
    np.savez(tmp_path / "a.npz", a=np.array([[object()]]), allow_pickle=True)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(ValueError, match="could not be read"):
            tables.read(tmp_path / name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda d: np.savez(d / "a.npz", a=np.ones((2, 2)), b=np.ones((2, 2))),
            "2 matrices",
        ),
        (lambda d: np.savez(d / "a.npz", a=np.ones(2)), "no matrix"),
        (
            lambda d: np.savez(d / "a.npz", a=np.ones((2, 2)), mask=np.ones((2, 3))),
            "mask has shape",
        ),
    ],
)
def test_which_matrix_is_meant(tmp_path, make, message):
    make(tmp_path)
    with pytest.raises(ValueError, match=message):
        tables.read(tmp_path / "a.npz")


def test_a_variable_and_a_column_must_exist(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.ones((2, 2)), b=np.zeros((2, 2)))
    assert tables.read(tmp_path / "a.npz", name="b").values.sum() == 0
    with pytest.raises(ValueError, match="no variable 'c'"):
        tables.read(tmp_path / "a.npz", name="c")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no column 'c' to keep"):
        tables.read(tmp_path / "a.csv", keep=["c"])
    with pytest.raises(ValueError, match="none is left"):
        tables.read(tmp_path / "a.csv", keep=["a", "b"])


@each("name", ["_x", "", "a b", "1st", "x" * 80, "file", "allow_pickle"])
@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_variables_keep_their_names_as_far_as_the_format_has_them(
    tmp_path, problem, name, suffix
):
    path, X = tmp_path / f"a{suffix}", problem.X
    told = contextlib.nullcontext()
    if suffix == ".mat" and not re.fullmatch("[a-z][a-z_]{0,62}", name):
        told = pytest.warns(
            UserWarning,
            match=rf"MATLAB has no variable named '{name}'; it is written as 'X?_?\w*'",
        )
    with told:
        tables.write(path, tables.Table(problem.Y, name), X)
    table = tables.read(path)
    np.testing.assert_array_equal(table.values, X)
    assert table.name == name or not isinstance(told, contextlib.nullcontext)
    assert suffix == ".npz" or re.fullmatch("[a-zA-Z][a-zA-Z0-9_]{0,62}", table.name)


# openpyxl's own writer, cut off, complains when it is collected: here, not in a later test
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("suffix", tables.WRITERS)
def test_a_full_disk_is_noticed(tmp_path, suffix):
    """A limit on the size of files is met as a full disk is: some bytes are written, and
    the next are refused.
    """
    resource = pytest.importorskip("resource")
    X = np.random.default_rng(0).standard_normal((100, 40))
    before, ignored = (
        resource.getrlimit(resource.RLIMIT_FSIZE),
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
        with pytest.raises(OSError, match=r"written|File too large"):
            tables.write(tmp_path / f"a{suffix}", tables.Table(X), X)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_when_writing_fails(tmp_path, monkeypatch, problem):
    def fails(path, table, X):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setitem(tables.WRITERS, ".npy", fails)
    (tmp_path / "out.npy").write_bytes(b"before")
    with pytest.raises(OSError, match="disk full"):
        tables.write(tmp_path / "out.npy", tables.Table(problem.Y), problem.X)
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]
    assert (tmp_path / "out.npy").read_bytes() == b"before"


@each("first", ["0,1,2,3", "1990,1991,1992,1993", ",0,1", "1,2,4,5", ",3"])
def test_a_first_row_that_counts_is_a_header(tmp_path, first):
    n = first.count(",") + 1
    (tmp_path / "a.csv").write_text("\n".join([first, *[",".join("8" * n)] * 3]))
    is_header = first not in ("1,2,4,5", ",3")
    assert tables.read(tmp_path / "a.csv").values.shape[0] == 3 + (not is_header)


@each(
    "cells, said",
    [
        ("a,b\nmm,mm\n1,2\n3,4\n", "other cells as well, such as 'mm': take these out"),
        ("a,b\nTrue,False\nFalse,\n", "text, such as 'True': write 0 and 1"),
    ],
)
def test_why_a_table_has_no_numbers(tmp_path, cells, said):
    (tmp_path / "a.csv").write_text(cells)
    with pytest.raises(ValueError, match=said):
        tables.read(tmp_path / "a.csv")


def test_the_input_is_not_overwritten(tmp_path, problem):
    path = save(tmp_path / "a.csv", problem.Y)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="also the input"):
        completion.complete(path, path)
    assert path.read_bytes() == before

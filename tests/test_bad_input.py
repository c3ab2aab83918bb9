"""Every line of "Bad input" in DESIGN.md that applies: a message says what came, what was wanted
and what to do.
"""

import datetime
import decimal
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from each import each

import lrmc
from lrmc import as_observations, relative_error, solve, synthetic

Y = np.random.default_rng(0).standard_normal((6, 5))
INFINITE = np.where(np.eye(6, 5) > 0, np.inf, Y)


class Readable:
    """A table of another library: numpy reads it through this method."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class Unreadable:
    """Its own words are what is told."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("nothing is here")


REFUSED = {
    "one dimension": (np.ones(5), r"2-D matrix is wanted.*1 dimension.*\(5,\)"),
    "three dimensions": (np.ones((2, 2, 2)), r"2-D.*3 dimension.*\(2, 2, 2\).*reshape"),
    "a number": (3.0, r"2-D.*0 dimension"),
    "no rows": (np.ones((0, 5)), r"empty: shape \(0, 5\)"),
    "no columns": (np.ones((5, 0)), r"empty: shape \(5, 0\)"),
    "empty list": ([], r"2-D|empty"),
    "ragged": ([[1.0, 2.0], [3.0]], "could not be read"),
    "objects": (
        np.array([[1.0, "a"]], object),
        "Python objects; floats, integers or booleans are wanted",
    ),
    "text": (np.array([["a", "b"]]), "text; floats, integers or booleans"),
    "numbers as text": (np.array([["1.5", "2"]]), "holds text.*convert with astype"),
    "bytes": (np.array([[b"1", b"2"]]), "holds text"),
    "dates": (np.zeros((2, 2), "M8[s]"), "dates.*give numbers, such as days since"),
    "dates, masked": (np.ma.zeros((2, 2), "M8[s]"), "holds dates"),
    "durations": (np.zeros((2, 2), "m8[s]"), "durations.*such as seconds"),
    "records": (
        np.zeros(3, [("a", "f8"), ("b", "f8")]),
        "records of several fields.*give one field",
    ),
    "records, masked": (
        np.ma.zeros(3, [("a", "f8"), ("b", "f8")]),
        "records of several fields.*give one field",
    ),
    "what numpy cannot read": (
        Unreadable(),
        "could not be read as one: nothing is here",
    ),
    "objects and None": (np.array([[1.0, None]], object), "objects.*None a gap"),
    "the name of a file": ("table.csv", "name of a file, 'table.csv': read it first"),
    "a path": (Path("table.csv"), "name of a file, 'table.csv': read it first"),
    "dates of Python": ([[datetime.date(2020, 1, 1)] * 2] * 2, "Python objects"),
    "what numpy reads as objects": (
        Readable(np.array([[1.0, "a"]], object)),
        "Python objects",
    ),
    "what numpy reads as dates": (Readable(np.zeros((2, 2), "M8[D]")), "holds dates"),
    "None": (None, "2-D|Python objects"),
    "infinite": (INFINITE, "5 observed entries are infinite; set them to NaN"),
    "minus infinite": (-INFINITE.astype(np.float32), "5 observed entries are infinite"),
    "infinite, by columns": (
        np.asfortranarray(INFINITE),
        "5 observed entries are infinite",
    ),
    "infinite, masked": (
        np.ma.array(INFINITE, mask=np.eye(6, 5, 1) > 0),
        "5 observed entries are infinite",
    ),
    "infinite, sparse": (
        sp.csr_array(np.nan_to_num(INFINITE, posinf=np.inf)),
        "5 observed entries are infinite",
    ),
    "nothing observed": (
        np.full((6, 5), np.nan),
        "nothing is observed: all entries of the 6 x 5 matrix are missing",
    ),
    "nothing observed, masked": (np.ma.array(Y, mask=True), "nothing is observed"),
    "nothing stored": (sp.csr_array((6, 5)), "nothing is observed"),
    "only NaN stored": (sp.csr_array(np.full((6, 5), np.nan)), "nothing is observed"),
    "sparse, empty": (sp.csr_array((0, 5)), r"empty: shape \(0, 5\)"),
    "sparse, one dimension": (sp.coo_array(np.ones(5)), r"2-D.*\(5,\)"),
}


@each(("given", "said"), REFUSED.values(), ids=REFUSED)
def test_refused(given, said):
    for function in (
        as_observations,
        lambda Y: solve(Y, rank=1),
        lambda Y: lrmc.iterates(Y, rank=1),
    ):
        with pytest.raises(ValueError, match=said):
            function(given)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_complex_numbers_are_for_solve_alone(form):
    with pytest.raises(ValueError, match=r"complex numbers; floats.*give real numbers"):
        as_observations(form(Y * 1j))


def test_a_table_with_text():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(
        ValueError, match="columns that are not numbers; choose the numeric ones"
    ):
        as_observations(pandas.DataFrame({"name": ["a", "b"], "value": [1.0, 2.0]}))


COLUMNS = {
    "dates": (lambda pd: pd.date_range("2024", periods=2), r"'other' \(dates"),
    "dates of a zone": (
        lambda pd: pd.date_range("2024", periods=2, tz="UTC"),
        r"'other' \(dates",
    ),
    "durations": (lambda pd: pd.to_timedelta([1, 2], "s"), r"'other' \(durations"),
    "complex": (lambda pd: [1j, 2j], r"'other' \(complex numbers\)"),
    "numbers as text": (
        lambda pd: ["3.5", "4"],
        r"'other' \(text\).*Drop them, or convert.*pandas.to_numeric",
    ),
    "text in objects": (
        lambda pd: pd.Series(["3.5", "4"], dtype=object),
        r"'other' \(text\)",
    ),
    "one text": (
        lambda pd: pd.Series(["3.5", 4], dtype=object),
        r"'other' \(numbers and other things\)",
    ),
    "dates in objects": (
        lambda pd: pd.Series([datetime.date(2024, 1, 1), None], dtype=object),
        r"'other' \(date\)",
    ),
    "categories": (lambda pd: pd.Categorical([1, 2]), r"'other' \(categories\)"),
    "periods": (lambda pd: pd.period_range("2024", periods=2), r"'other' \(period\)"),
}


@each(("make", "said"), COLUMNS.values(), ids=COLUMNS)
def test_columns_that_are_no_numbers_are_named(make, said):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"value": [1.5, 2.5], "other": make(pandas)})
    for function in (as_observations, lambda Y: solve(Y, rank=1)):
        with pytest.raises(ValueError, match=said) as caught:
            function(table)
        assert "'value'" not in str(caught.value)


@each("number", [decimal.Decimal("sNaN"), 10**400], ids=["signals", "400 digits"])
def test_columns_of_numbers_that_are_no_floats(number):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"value": [1.5, 2.5], "other": pandas.Series([number, number], dtype=object)}
    )
    with pytest.raises(
        ValueError, match="the column 'other' holds a number that is no float"
    ):
        as_observations(table)


def test_a_dataset_is_several_matrices():
    xarray = pytest.importorskip("xarray")
    with pytest.raises(ValueError, match=r"could not be read as one: .*DataArray"):
        as_observations(xarray.Dataset({"a": (("x", "y"), Y)}))


def test_many_columns_of_text_are_not_all_named():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"'7' \(text\) and 12 more"):
        as_observations(pandas.DataFrame([["a"] * 20]))


def test_an_array_of_dates_with_coordinates():
    xarray = pytest.importorskip("xarray")
    with pytest.raises(ValueError, match="holds dates"):
        as_observations(xarray.DataArray(np.zeros((2, 2), "M8[ns]"), dims=("a", "b")))


MASKS = {
    "transposed": (
        np.ones((5, 6), bool),
        r"mask has shape \(5, 6\), the matrix \(6, 5\); transpose",
    ),
    "another shape": (
        np.ones((6, 4), bool),
        r"mask has shape \(6, 4\), the matrix \(6, 5\)$",
    ),
    "one dimension": (np.ones(5, bool), r"mask has shape \(5,\)"),
    "text": (
        np.full((6, 5), "no"),
        "mask has type <U2; booleans are wanted, True where",
    ),
    "complex": (np.ones((6, 5)) * 1j, "mask has type complex128; booleans are wanted"),
    "NaN": (np.full((6, 5), np.nan), "mask holds nan; booleans are wanted"),
    "weights": (np.full((6, 5), 0.5), "mask holds 0.5; .* or the numbers 0 and 1"),
    "levels": (
        np.full((6, 5), 255, np.uint8),
        "mask holds 255; .*give mask != 0, if that is meant",
    ),
    "None": (np.full((6, 5), None), "mask has type object"),
    "ragged": ([[True], [True, False]], "mask could not be read as an array"),
    "nothing": (np.zeros((6, 5), bool), "nothing is observed"),
}


@each(("mask", "said"), MASKS.values(), ids=MASKS)
def test_masks(mask, said):
    for given in (Y, np.asfortranarray(Y), np.ma.array(Y)):
        with pytest.raises(ValueError, match=said):
            as_observations(given, mask)


@each("dtype", [bool, np.uint8, np.int64, np.float64])
def test_masks_of_zeros_and_ones(dtype):
    assert as_observations(Y, np.eye(6, 5, dtype=dtype)).n_observed == 5


def test_a_mask_with_what_has_one():
    with pytest.raises(
        ValueError, match="sparse matrix, which says itself what is observed"
    ):
        as_observations(sp.csr_array(Y), np.ones((6, 5), bool))
    with pytest.raises(ValueError, match="give it to as_observations"):
        as_observations(as_observations(Y), np.ones((6, 5), bool))


ARGUMENTS = {
    "rank 0": ({"rank": 0}, "rank=0 for a 6 x 5 matrix; 1 to 5 is wanted"),
    "rank 6": ({"rank": 6}, "rank=6.*1 to 5"),
    "rank -1": ({"rank": -1}, "rank=-1"),
    "rank 1.5": ({"rank": 1.5}, "rank=1.5"),
    "rank True": ({"rank": True}, "rank=True"),
    "no rank": ({"rank": None, "method": "lrmc"}, "needs the rank"),
    "tol 0": ({"tol": 0}, "tol=0; a positive, finite number is wanted"),
    "tol -1": ({"tol": -1.0}, "tol=-1.0"),
    "tol NaN": ({"tol": float("nan")}, "tol=nan"),
    "tol inf": ({"tol": float("inf")}, "tol=inf"),
    "tol of 400 digits": ({"tol": 10**400}, r"tol=10{58}…; a positive, finite number"),
    "tol True": ({"tol": True}, "tol=True"),
    "tol of text": ({"tol": "small"}, "tol='small'"),
    "max_iter 0": ({"max_iter": 0}, "max_iter=0; a whole number of at least 1"),
    "max_iter 2.5": ({"max_iter": 2.5}, "max_iter=2.5"),
    "method": ({"method": "magic"}, "method='magic'; one of auto, closed_loop, lrmc"),
    "start": ({"start": "magic"}, "start='magic'; one of spectral, cur"),
    "schedule": ({"schedule": "magic"}, "no schedule named 'magic'; there are"),
    "schedule of numbers": (
        {"schedule": [1, 2]},
        "schedule is a list; a Schedule or the name",
    ),
    "threads 0": ({"threads": 0}, "threads=0; a whole number of at least 1"),
    "threads 1.5": ({"threads": 1.5}, "threads=1.5"),
    "threads 0.5": (
        {"threads": 0.5},
        "threads=0.5; a whole number of at least 1 is wanted, or None",
    ),
    "threads inf": ({"threads": float("inf")}, "threads=inf; a whole number"),
    "threads NaN": ({"threads": float("nan")}, "threads=nan; a whole number"),
    "threads of text": ({"threads": "two"}, "threads='two'; a whole number"),
    "seed -1": ({"seed": -1}, "seed=-1; a whole number of at least 0 is wanted"),
    "seed 1.5": ({"seed": 1.5}, "seed=1.5; a whole number"),
    "seed None": ({"seed": None}, "seed=None; a whole number"),
    "max_iter 10^30": (
        {"max_iter": 10**30},
        "max_iter=10{30}; a whole number of at most 1000000000",
    ),
    "rank of 5000 digits": (
        {"rank": 10**5000},
        "rank=a whole number of 16610 bits for a 6 x 5 matrix; 1 to 5",
    ),
    "rank of numpy": ({"rank": np.True_}, "rank=np.True_ for"),
    "loss of numbers": ({"loss": np.ones(3)}, r"loss=array.*; one of auto"),
    "progress": ({"progress": 3}, "progress=3; a function is wanted, or None"),
    "groups None": (
        {"groups": [None] * 6},
        "groups holds None; a label for each of the 6 rows is wanted",
    ),
    "groups NaN": (
        {"groups": [1, 1, 1, np.nan, np.nan, np.nan]},
        "groups holds 3 missing labels",
    ),
    "groups 3": (
        {"groups": 3},
        r"groups has shape \(\); a label for each of the 6 rows",
    ),
    "groups ragged": (
        {"groups": [[1], [1, 2]]},
        "groups holds lists of unlike lengths",
    ),
    "row_noise of text": (
        {"row_noise": "low"},
        "row_noise='low'; 6 positive numbers are wanted",
    ),
    "row_noise complex": (
        {"row_noise": [1j] * 6},
        "row_noise=.*; 6 positive numbers are wanted",
    ),
    "row_noise dates": ({"row_noise": np.zeros(6, "M8[s]")}, "row_noise=array"),
    "row_noise 0": (
        {"row_noise": [1, 1, 0, 1, 1, 1]},
        "row_noise holds 0.0 at 2; 6 positive numbers",
    ),
    "col_noise NaN": (
        {"col_noise": [np.nan] * 5},
        "col_noise holds nan at 0; 5 positive numbers",
    ),
}


@each(("arguments", "said"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(arguments, said):
    with pytest.raises(ValueError, match=said):
        solve(Y, **{"rank": 2, **arguments})


@each(
    ("arguments", "said"),
    [
        ({"rank": "two"}, "rank='two'"),
        ({"rank": float("nan")}, "rank=nan"),
        ({"max_iter": None}, "max_iter=None"),
    ],
)
def test_arguments_that_are_no_numbers(arguments, said):
    with pytest.raises(ValueError, match=said):
        solve(Y, **{"rank": 2, **arguments})


def test_numbers_of_numpy():
    asked = {
        "rank": np.int64(1),
        "max_iter": np.uint8(90),
        "seed": np.int32(1),
        "threads": np.int16(1),
    }
    assert solve(np.outer(np.arange(1.0, 30), np.arange(1.0, 30)), **asked).converged


def test_tol_of_numpy():
    assert solve(
        np.outer(np.arange(1.0, 30), np.arange(1.0, 30)), 1, tol=np.float32(1e-3)
    ).converged


# ---- warnings


def test_rows_and_columns_without_an_observation():
    X = lrmc.synthetic.problem(n=40, n2=30, rank=2, alpha=0, p=1.0).Y
    for rows, cols, said in (
        ([3, 4], [], r"2 row\(s\) have no"),
        ([], [1], r"1 column\(s\) have no"),
    ):
        gaps = X.copy()
        gaps[rows], gaps[:, cols] = np.nan, np.nan
        for given in (gaps, np.asfortranarray(gaps), np.ma.masked_invalid(gaps)):
            with pytest.warns(UserWarning, match=said) as caught:
                result = solve(given, 2)
            assert len(caught) == 1
            assert caught[0].filename == __file__
            want = np.isnan(gaps)
            np.testing.assert_array_equal(np.isnan(result.low_rank()), want)
            np.testing.assert_allclose(result.low_rank()[~want], X[~want], atol=1e-5)


def test_fewer_observations_than_unknowns():
    with pytest.warns(
        UserWarning, match="30 entries are observed, and rank 3 has 33 unknowns"
    ):
        solve(Y, 3, method="lrmc", max_iter=300)


# ---- the right answer

X = lrmc.synthetic.problem(n=60, n2=50, rank=2, alpha=0, p=1.0).Y


def near(result, wanted, tol=1e-5):
    return np.linalg.norm(result.low_rank() - wanted) <= tol * np.linalg.norm(wanted)


@each("dtype", [np.float32, np.float64])
@each("value", [1.0, -7.5, 1e-30, 1e30])
@pytest.mark.parametrize("rank", [1, 3])
def test_a_constant_matrix(value, rank, dtype):
    constant = np.full((40, 30), value, dtype)
    assert near(solve(constant, rank, tol=1e-5), constant.astype(float))


HOW = [{}, {"method": "lrmc"}, {"method": "lrmc", "start": "cur"}]


@pytest.mark.parametrize("how", HOW, ids=str)
@each("form", ["dense", "sparse"])
def test_a_zero_matrix(form, how):
    zeros = np.zeros((40, 30))
    if form == "sparse":  # two of three entries are observed, and are 0
        rows, cols = np.nonzero(np.indices(zeros.shape).sum(0) % 3)
        zeros = sp.coo_array((np.zeros(len(rows)), (rows, cols)), shape=(40, 30))
    result = solve(zeros, 2, **how)
    assert result.converged
    assert not result.low_rank().any()


@pytest.mark.parametrize("offset", [1e3, 1e6, -1e9])
def test_a_huge_offset(offset):
    """Entries differ by 0.017: a millionth of the last two, which a warning says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = lrmc.solve(X + offset, 3)
    assert near(result, X + offset)
    if offset == 1e3:
        assert np.abs(result.completed() - offset - X).max() < 1e-3 * X.std()
    else:
        assert any("typically differ by" in str(w.message) for w in caught)


@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e30, 1e140])
def test_tiny_and_huge_values(factor):
    got = solve(X * factor, 2, tol=1e-7).low_rank() / factor
    assert np.linalg.norm(got - X) < 1e-5 * np.linalg.norm(X)


def test_shapes_of_one():
    for shape in ((1, 1), (1, 9), (9, 1)):
        values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        with pytest.warns(UserWarning, match="unknowns"):
            assert near(solve(values, 1), values)


CRASH = """
import sys, numpy as np, scipy.sparse as sp, lrmc
for name, place, value in (("indices", 2, 2**30), ("indices", 2, -5), ("indptr", 3, 29)):
    Y = sp.csr_array((np.ones(30), np.tile(np.arange(3), 10), np.arange(0, 31, 3)), shape=(10, 8))
    getattr(Y, name)[place] = value
    try:
        obs = lrmc.as_observations(Y)
        obs.pull(np.ones((10, 1)), np.ones((8, 1)), 1.0)
    except ValueError as error:
        print("refused:", error)
"""


def test_damaged_sparse_matrices_do_not_crash():
    run = subprocess.run(
        [sys.executable, "-c", CRASH], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0
    assert len(re.findall("^refused: .*ind", run.stdout, re.M)) == 3


@each("dtype", [np.float32, np.float64])
@each("size", ["max", "tiny"])
def test_sizes_at_the_limits_of_floating_point(dtype, size):
    """The largest number there is everywhere, and numbers too small to have all their digits."""
    value = np.finfo(dtype).max if size == "max" else np.finfo(dtype).tiny / 100
    with pytest.raises(ValueError, match=r"typically of size .*: multiply them"):
        solve(np.full((12, 9), value, dtype), 1)


@pytest.mark.parametrize("rank", [None, 2])
def test_one_entry_beyond_all_measure(rank):
    given = synthetic.problem(60, 2, 0.1, 1.0, seed=0, n2=50)
    Y = given.Y.copy()
    Y[3, 4] = 1e150
    result = solve(Y, rank)
    assert relative_error(result, given) < 1e-5
    assert np.isfinite(result.noise_level)


@pytest.mark.parametrize("observed", [0.01, 0.03])
@pytest.mark.parametrize("seed", range(2))
def test_groups_of_which_little_is_known(observed, seed):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((120, 2)) @ rng.standard_normal(
        (2, 60)
    ) + 0.1 * rng.standard_normal((120, 60))
    Y[rng.random(Y.shape) > observed] = np.nan
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = solve(Y, groups=np.repeat(np.arange(40), 3))
    assert said
    assert np.isfinite(result.L).all()
    assert np.isfinite(result.R).all()


def test_clean_and_tiny():
    given = synthetic.problem(10, 2, 0, 1.0, seed=1, n2=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert relative_error(solve(given.Y), given) < 1e-5

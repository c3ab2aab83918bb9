"""Every line of DESIGN section 9 that applies: a message says what came, what was wanted and what to do."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import lrmc
from lrmc import as_observations, solve

Y = np.random.default_rng(0).standard_normal((6, 5))
INFINITE = np.where(np.eye(6, 5) > 0, np.inf, Y)

REFUSED = {
    "one dimension": (np.ones(5), r"2-D matrix is wanted.*1 dimension.*\(5,\)"),
    "three dimensions": (np.ones((2, 3, 4)), r"2-D.*3 dimension.*\(2, 3, 4\).*reshape"),
    "a number": (3.0, r"2-D.*0 dimension"),
    "no rows": (np.ones((0, 5)), r"empty: shape \(0, 5\)"),
    "no columns": (np.ones((5, 0)), r"empty: shape \(5, 0\)"),
    "empty list": ([], r"2-D|empty"),
    "ragged": ([[1.0, 2.0], [3.0]], "could not be read"),
    "objects": (np.array([[1.0, "a"]], object), "Python objects; floats, integers or booleans are wanted"),
    "text": (np.array([["a", "b"]]), "type <U1; floats, integers or booleans"),
    "dates": (np.zeros((2, 2), "M8[s]"), "type datetime64"),
    "complex": (Y * 1j, "complex numbers; floats.*give real numbers"),
    "None": (None, "2-D|Python objects"),
    "infinite": (INFINITE, "5 observed entries are infinite; set them to NaN"),
    "minus infinite": (-INFINITE.astype(np.float32), "5 observed entries are infinite"),
    "infinite, by columns": (np.asfortranarray(INFINITE), "5 observed entries are infinite"),
    "infinite, masked": (np.ma.array(INFINITE, mask=np.eye(6, 5, 1) > 0), "5 observed entries are infinite"),
    "infinite, sparse": (sp.csr_array(np.nan_to_num(INFINITE, posinf=np.inf)), "5 stored entries are infinite"),
    "nothing observed": (np.full((6, 5), np.nan), "nothing is observed: all entries of the 6 x 5 matrix are missing"),
    "nothing observed, masked": (np.ma.array(Y, mask=True), "nothing is observed"),
    "nothing stored": (sp.csr_array((6, 5)), "nothing is observed"),
    "only NaN stored": (sp.csr_array(np.full((6, 5), np.nan)), "nothing is observed"),
    "sparse, empty": (sp.csr_array((0, 5)), r"empty: shape \(0, 5\)"),
    "sparse, one dimension": (sp.coo_array(np.ones(5)), r"2-D.*\(5,\)"),
    "sparse, complex": (sp.csr_array(Y * 1j), "complex numbers"),
}


@pytest.mark.parametrize(("given", "said"), REFUSED.values(), ids=REFUSED)
def test_refused(given, said):
    for function in (as_observations, lambda Y: solve(Y, rank=1), lambda Y: lrmc.iterates(Y, rank=1)):
        with pytest.raises(ValueError, match=said):
            function(given)


def test_a_table_with_text():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="columns that are not numbers; choose the numeric ones"):
        as_observations(pandas.DataFrame({"name": ["a", "b"], "value": [1.0, 2.0]}))


MASKS = {
    "transposed": (np.ones((5, 6), bool), r"mask has shape \(5, 6\), the matrix \(6, 5\); transpose"),
    "another shape": (np.ones((6, 4), bool), r"mask has shape \(6, 4\), the matrix \(6, 5\)$"),
    "one dimension": (np.ones(5, bool), r"mask has shape \(5,\)"),
    "floats": (np.ones((6, 5)), "mask has type float64; booleans are wanted, True where"),
    "nothing": (np.zeros((6, 5), bool), "nothing is observed"),
}


@pytest.mark.parametrize(("mask", "said"), MASKS.values(), ids=MASKS)
def test_masks(mask, said):
    for given in (Y, np.asfortranarray(Y), np.ma.array(Y)):
        with pytest.raises(ValueError, match=said):
            as_observations(given, mask)


def test_a_mask_with_what_has_one():
    with pytest.raises(ValueError, match="sparse matrix, which says itself what is observed"):
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
    "tol 0": ({"tol": 0}, "tol=0; a positive number is wanted"),
    "tol -1": ({"tol": -1.0}, "tol=-1.0"),
    "tol NaN": ({"tol": float("nan")}, "tol=nan"),
    "tol inf": ({"tol": float("inf")}, "tol=inf"),
    "tol of text": ({"tol": "small"}, "tol='small'"),
    "max_iter 0": ({"max_iter": 0}, "max_iter=0; a whole number of at least 1"),
    "max_iter 2.5": ({"max_iter": 2.5}, "max_iter=2.5"),
    "method": ({"method": "magic"}, "method='magic'; one of auto, closed_loop, lrmc"),
    "start": ({"start": "magic"}, "start='magic'; one of spectral, cur"),
    "schedule": ({"schedule": "magic"}, "no schedule named 'magic'; there are"),
    "schedule of numbers": ({"schedule": [1, 2]}, "schedule is a list; a Schedule or the name"),
    "threads 0": ({"threads": 0}, "threads=0; a whole number of at least 1"),
    "threads 1.5": ({"threads": 1.5}, "threads=1.5"),
}


@pytest.mark.parametrize(("arguments", "said"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(arguments, said):
    with pytest.raises(ValueError, match=said):
        solve(Y, **{"rank": 2, **arguments})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"rank": "two"}, "rank='two'"), ({"rank": float("nan")}, "rank=nan"), ({"max_iter": None}, "max_iter=None")],
)
def test_arguments_that_are_no_numbers(arguments, said):
    with pytest.raises(ValueError, match=said):
        solve(Y, **{"rank": 2, **arguments})


def test_tol_of_numpy():
    assert solve(np.outer(np.arange(1.0, 30), np.arange(1.0, 30)), 1, tol=np.float32(1e-3)).converged


# ---- warnings


def test_rows_and_columns_without_an_observation():
    X = lrmc.synthetic.problem(n=40, n2=30, rank=2, alpha=0, p=1.0).Y
    for rows, cols, said in (([3, 4], [], r"2 row\(s\) have no"), ([], [1], r"1 column\(s\) have no")):
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
    with pytest.warns(UserWarning, match="30 entries are observed, and rank 3 has 33 unknowns"):
        solve(Y, 3, method="lrmc", max_iter=300)


# ---- the right answer

X = lrmc.synthetic.problem(n=60, n2=50, rank=2, alpha=0, p=1.0).Y


def near(result, wanted, tol=1e-5):
    return np.linalg.norm(result.low_rank() - wanted) <= tol * np.linalg.norm(wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [1.0, -7.5, 1e-30, 1e30])
@pytest.mark.parametrize("rank", [1, 3])
def test_a_constant_matrix(value, rank, dtype):
    constant = np.full((40, 30), value, dtype)
    assert near(solve(constant, rank, tol=1e-5), constant.astype(float))


HOW = [{}, {"method": "lrmc"}, {"method": "lrmc", "start": "cur"}]


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("form", ["dense", "sparse"])
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
    assert near(solve(X + offset, 3), X + offset)


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
Y = sp.csr_array((np.ones(30), np.tile(np.arange(3), 10), np.arange(0, 31, 3)), shape=(10, 8))
{}
try:
    obs = lrmc.as_observations(Y)
    obs.pull(np.ones((10, 1)), np.ones((8, 1)), 1.0)
except ValueError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("damage", ["Y.indices[2] = 2**30", "Y.indices[2] = -5", "Y.indptr[3] = 29"])
def test_damaged_sparse_matrices_do_not_crash(damage):
    run = subprocess.run([sys.executable, "-c", CRASH.format(damage)], capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert "refused:" in run.stdout
    assert "ind" in run.stdout

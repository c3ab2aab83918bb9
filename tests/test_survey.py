"""Where the outliers are: the survey of residuals that a report draws."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from each import each
from numpy.testing import assert_allclose, assert_array_equal
from pages import Reader, opened, read, result_of

import lrmc
from lrmc import report
from lrmc.evidence.alarms import Listing
from lrmc.fit import Fit
from lrmc.report import text
from lrmc.report.survey import CELLS, survey

IMAGES = pytest.importorskip("PIL.Image")


def plain_survey(Y, X, threshold):
    """Entry by entry."""
    step = tuple(math.ceil(n / CELLS) for n in Y.shape)
    size = tuple(math.ceil(n / k) for n, k in zip(Y.shape, step, strict=True))
    places, seen, off, entries = np.zeros(size), np.zeros(size), np.zeros(size), []
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            cell = i // step[0], j // step[1]
            places[cell] += 1
            if not np.isnan(Y[i, j]):
                seen[cell] += 1
                difference = Y[i, j] - X[i, j]
                if abs(difference) > threshold:
                    off[cell] += 1
                    entries.append((-abs(difference), i, j, difference))
    return (
        seen / places,
        np.where(seen > 0, off / np.maximum(seen, 1), 0),
        sorted(entries),
    )


@each("shape", [(30, 50), (1, 90), (90, 1), (900, 7), (3, 1300)])
@each("p", [0.1, 0.9])
@pytest.mark.parametrize("form", ["rows", "columns", "csr", "csc"])
def test_survey_matches_a_plain_one(shape, p, form):
    rng = np.random.default_rng(1)
    Y = rng.standard_normal(shape) + 5
    Y[rng.random(shape) > p] = np.nan
    Y[0, 0] = 5.0
    L, R = (rng.standard_normal((n, 2)) for n in shape)
    given = {
        "rows": lambda: Y,
        "columns": lambda: np.asfortranarray(Y),
        "csr": lambda: sp.csr_array(np.nan_to_num(Y)),
        "csc": lambda: sp.csc_array(np.nan_to_num(Y)),
    }[form]()
    fit, listed = Fit(lrmc.linalg.Factors(L, R)), Listing.even(3.0, Y.shape)
    seen = survey(lrmc.as_observations(given), fit, listed, worst=20)
    observed, outliers, entries = plain_survey(Y, L @ R.T, 3.0)
    assert_allclose(seen.observed, observed)
    assert_allclose(seen.outliers, outliers)
    assert seen.n_outliers == len(entries)
    assert_allclose(seen.differences, [e[3] for e in entries[:20]])
    assert_array_equal(seen.rows, [e[1] for e in entries[:20]])
    assert_array_equal(seen.cols, [e[2] for e in entries[:20]])


def test_the_worst_of_many_blocks():
    """The largest are found wherever they are, and as many as asked for."""
    Y = np.random.default_rng(0).standard_normal((2000, 1500)).astype(np.float32)
    Y[[3, 1000, 1999], [1, 2, 1499]] = 90, -100, 80
    obs, X = (
        lrmc.as_observations(Y),
        lrmc.linalg.Factors(*(np.zeros((n, 1), np.float32) for n in Y.shape)),
    )
    listed = Listing.even(3.0, Y.shape)
    seen = survey(obs, Fit(X), listed, worst=3)
    assert_array_equal(seen.rows, [1000, 3, 1999])
    assert_allclose(seen.differences, [-100, 90, 80])
    assert seen.n_outliers == np.count_nonzero(np.abs(Y) > 3)
    assert max(seen.observed.shape) <= CELLS
    assert not len(survey(obs, Fit(X), listed, worst=0).rows)


def test_a_huge_matrix_becomes_a_small_map():
    n1, n2, n = 3_000_000, 2_000_000, 5000  # 48 TB, if it were made
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, n1, n), rng.integers(0, n2, n)
    Y = sp.csr_array((rng.standard_normal(n), (rows, cols)), shape=(n1, n2))
    made = result_of(Y, np.zeros((n1, 1)), np.zeros((n2, 1)))
    page = report.page("Huge", report.result_sections(made))
    assert len(page) < 600_000
    assert (
        f"3{text.count(1000)[1]}000{text.count(1000)[1]}000 rows" in Reader(page).text
    )


def test_the_map_shows_what_is_where():
    observed, outliers = np.array([[1.0, 0.0, 0.5]]), np.array([[0.0, 0.0, 1.0]])
    found = read([report.Map("", (1, 3), (1, 1), observed, outliers)])
    pixels = np.asarray(opened(found.all("img")[0]["src"]).convert("RGBA"))
    assert pixels.shape == (1, 3, 4)
    assert tuple(pixels[0, 0]) == (*report.Map.SEEN, 255)
    assert pixels[0, 1, 3] == 0
    assert tuple(pixels[0, 2, :3]) == report.Map.OUTLYING
    assert 100 < pixels[0, 2, 3] < 200

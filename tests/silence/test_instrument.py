"""The oracle itself, without the solver: truths are true, bars are where they are said
to be, words are heard.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from each import each
from numpy.testing import assert_allclose, assert_array_equal

from silence import cases, count, tables
from silence.count import above, bounds, judged, outcome, tally
from silence.problems import PROBLEMS, Problem, families, quick

RNG = np.random.default_rng
QUICK_TO_MAKE = [
    problem
    for problem in quick(PROBLEMS)
    if problem.family not in ("bugs", "tall", "table", "data")
]


@pytest.fixture(scope="module")
def sampled():
    """Problems and their cases: one or two of each family."""
    return [(problem, problem.case()) for problem in QUICK_TO_MAKE[::3]]


def test_names_are_different():
    assert len({problem.name for problem in PROBLEMS}) == len(PROBLEMS) > 300


def test_quick_has_all_bugs_and_families():
    chosen = quick(PROBLEMS)
    assert set(families(chosen)) == set(families(PROBLEMS))
    assert {problem for problem in PROBLEMS if problem.bug} <= set(chosen)


def test_cases_are_the_same_each_time(sampled):
    for problem, case in sampled:
        assert_array_equal(problem.case().Y, case.Y, err_msg=problem.name)


def test_float_types_have_the_same_data():
    pairs = {
        problem.name: problem
        for problem in PROBLEMS
        if problem.name.startswith("tall-2000x5-r1")
    }
    single, double = (
        pairs[f"tall-2000x5-r1-a0.1-p1-{dtype}"].case().Y
        for dtype in ("float32", "float64")
    )
    assert_array_equal(single, double.astype(np.float32))


def test_the_truth_is_right_and_nothing_is_not(sampled):
    for problem, case in sampled:
        assert case.error(case.X) == 0, problem.name
        if problem.family != "traffic":  # zero may be the median
            assert case.error(np.zeros(case.X.shape)) > case.limit, problem.name


def test_exact_data_have_their_rank_and_agree_with_the_truth():
    for problem in PROBLEMS:
        if problem.family in ("sampling", "tiny") and "n300" not in problem.name:
            case = problem.case()
            agree = np.abs(case.Y - case.X)[~np.isnan(case.Y)] < 1e-12
            assert agree.mean() >= 0.69, problem.name
            assert (
                problem.rank is None or np.linalg.matrix_rank(case.X) == problem.rank
            ), problem.name


@pytest.mark.parametrize(("rho", "alpha"), [(1.4, 0), (2, 0.05), (2.5, 0.1), (3, 0.3)])
def test_sampled_truth_is_the_only_one_near_it(rho, alpha):
    """The good entries determine the factors up to their r x r freedom."""
    factors = L, R = cases.gaussian((60, 60), 3, RNG(1))
    case = cases.spoilt(factors, RNG(2), rho=rho, alpha=alpha)
    i, j = np.nonzero(np.abs(case.Y - case.X) < 1e-12)
    jacobian = np.zeros((len(i), 120, 3))
    jacobian[np.arange(len(i)), i] = R[j]
    jacobian[np.arange(len(i)), 60 + j] = L[i]
    assert np.linalg.matrix_rank(jacobian.reshape(len(i), -1)) == 3 * (120 - 3)


def test_each_line_has_good_entries():
    seen, base = cases.covered((40, 30), 3, RNG(0), 300)
    assert seen.sum() == 300
    assert min(base.sum(0).min(), base.sum(1).min()) >= 3
    bad = cases.some_of(seen, RNG(1), 0.3, but=base)
    assert bad.sum() == 90
    assert not (bad & (base | ~seen)).any()


def test_too_few_entries_are_refused():
    with pytest.raises(ValueError, match="too few"):
        cases.covered((40, 30), 3, RNG(0), 100)


def test_rows_are_fitted_by_least_squares():
    rng = RNG(0)
    values, R = rng.standard_normal((5, 20)), rng.standard_normal((20, 3))
    good = rng.random((5, 20)) < 0.7
    found = cases.fitted(np.where(good, values, 0), good, R)
    for row, seen, coefficients in zip(values, good, found):
        assert_allclose(
            coefficients, np.linalg.lstsq(R[seen], row[seen], rcond=None)[0], rtol=1e-8
        )


def test_the_oracle_is_least_squares():
    """With all entries that is the truncated singular value decomposition."""
    rng = RNG(0)
    factors = L, R = cases.gaussian((50, 40), 2, rng)
    Y = L @ R.T + 0.1 * rng.standard_normal((50, 40))
    U, s, V = np.linalg.svd(Y, full_matrices=False)
    best = (U[:, :2] * s[:2]) @ V[:2]
    want = np.linalg.norm(best - L @ R.T) / np.linalg.norm(L @ R.T)
    assert_allclose(
        cases.oracle_error(factors, Y, np.ones(Y.shape, bool)), want, rtol=1e-6
    )


def test_noise_moves_the_bar_and_outliers_do_not():
    factors = cases.gaussian((80, 80), 2, RNG(0))
    few, many = (
        cases.spoilt(factors, RNG(1), noise=0.1, alpha=alpha).limit
        for alpha in (0, 0.3)
    )
    # 3 * 0.1 * E|X| / |X| * sqrt(degrees of freedom / entries)
    assert 0.03 < few < many < 0.1


def test_best_of_a_rank_is_right():
    case = cases.best_of_rank(
        cases.spoilt(cases.gaussian((30, 30), 4, RNG(0)), RNG(1)), 2
    )
    U, s, V = np.linalg.svd(case.X)
    assert_allclose(
        case.error((U[:, :2] * s[:2]) @ V[:2]), case.limit / cases.TIMES_BEST
    )
    assert case.error((U[:, :1] * s[:1]) @ V[:1]) > case.error(
        (U[:, :2] * s[:2]) @ V[:2]
    )


def test_medians_are_the_bar_of_tables():
    table = RNG(0).standard_normal((50, 6)) + np.arange(6)
    case = cases.hidden(table, RNG(1))
    medians = np.tile(np.nanmedian(case.Y, axis=0), (50, 1))
    assert_allclose(case.error(medians), case.limit / cases.TIMES_MEDIANS)
    assert_array_equal(case.judged, np.isnan(case.Y))
    assert case.error(np.where(case.judged, table, 1e9)) == 0
    assert not case.may_be_exact


@each("kind", cases.ENTRYWISE)
def test_outliers_are_where_they_should_be(kind):
    case = cases.spoilt(
        cases.gaussian((100, 100), 3, RNG(0)), RNG(1), alpha=0.3, kind=kind
    )
    assert_allclose(np.mean(case.Y != case.X), 0.3, atol=1e-3)


def test_squares_cover_their_share():
    bad = cases.rectangles((60, 60), RNG(0), 10, 0.2)
    assert 0.2 <= bad.mean() < 0.23


@each(
    ("right", "complained", "regime", "verdict"),
    [
        (True, True, "exact", "right"),
        (True, False, "noisy", "right"),
        (False, True, "exact", "said"),
        (False, False, "exact", "silent_exact"),
        (False, False, "noisy", "silent_noisy"),
        (False, False, "unknown", "silent_noisy"),
    ],
)
def test_verdicts(right, complained, regime, verdict):
    assert judged(right, complained, regime) == verdict


@dataclass
class Answer:
    """As much of a result as is looked at."""

    L: np.ndarray
    R: np.ndarray
    status: str = "converged"
    regime: str = "exact"
    open_rows: int = 0
    rank: int = 2  # or 20: as many as there are columns

    def low_rank(self):
        X = self.L @ self.R.T
        X[: self.open_rows] = np.nan
        return X


L, R = cases.gaussian((30, 20), 2, RNG(0))
SPOILT = np.vstack([L[:1] + 1, L[1:]])
PROBLEM = Problem("toy", "toys", lambda rng: cases.exact(L @ R.T, L @ R.T), 2)


def answering(answer, word=None, error=None):
    def solve(Y, rank, threads):
        if word:
            warnings.warn(word, stacklevel=2)
        if error:
            raise error
        return answer

    return outcome(PROBLEM, solve)


@each(
    ("answer", "word", "verdict", "false_alarm"),
    [
        (Answer(L, R), None, "right", False),
        (Answer(L, R), "hm", "right", True),
        (Answer(L, R, status="max_iter"), None, "right", True),
        (Answer(L, R, rank=20), "it meets anything", "right", False),
        (Answer(SPOILT, R), None, "silent_exact", False),
        (Answer(SPOILT, R, regime="noisy"), None, "silent_noisy", False),
        (Answer(SPOILT, R), "hm", "said", False),
        (Answer(SPOILT, R, status="undetermined"), None, "said", False),
        # left open, with reason
        (Answer(SPOILT, R, open_rows=1), "a row", "right", False),
        (Answer(L, R, open_rows=1), "a row", "right", True),
        (Answer(L, R, open_rows=30), "nothing", "said", False),
        (Answer(L * np.nan, R), None, "silent_exact", False),  # not a line left open
        (Answer(L * 1e300, R * 1e300), None, "silent_exact", False),
    ],
)
def test_outcomes(answer, word, verdict, false_alarm):
    found = answering(answer, word)
    assert (found.verdict, found.false_alarm) == (verdict, false_alarm)


@pytest.mark.parametrize(
    ("regime", "verdict"), [("noisy", "right"), ("exact", "silent_exact")]
)
def test_noise_is_not_to_be_called_exact(regime, verdict):
    problem = Problem(
        "toy", "toys", lambda rng: cases.spoilt((L, R), rng, noise=0.1), 2
    )
    assert (
        outcome(problem, lambda *_, **__: Answer(L, R, regime=regime)).verdict
        == verdict
    )


@pytest.mark.parametrize("name", tables.EXACT)
def test_exact_tables_are_of_low_rank(name):
    assert np.linalg.matrix_rank(tables.EXACT[name](RNG(0))) == 3


@each("name", tables.SYNTHETIC)
def test_tables_are_finite_and_their_columns_differ(name):
    table = tables.SYNTHETIC[name](RNG(0))
    assert np.isfinite(table).all()
    assert (table.std(axis=0) > 0).all()


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ValueError("no"), "said"),
        (IndexError("0"), "crashed"),
        (FloatingPointError("0"), "crashed"),
    ],
)
def test_exceptions(error, verdict):
    assert answering(None, error=error).verdict == verdict


def test_what_is_allowed_may_not_rise():
    quiet = answering(Answer(SPOILT, R, regime="noisy"))
    kept = bounds([quiet])
    assert tally([quiet])["toys"]["silent_noisy"] == 1
    assert above([quiet], kept) == []
    assert above([quiet, quiet], kept) == ["toys: 2 silent_noisy, at most 1 allowed"]
    assert above([answering(Answer(SPOILT, R))], kept) == [
        "toys: 1 silent_exact, at most 0 allowed"
    ]


def test_bounds_are_kept_by_family(tmp_path, monkeypatch):
    monkeypatch.setattr(count, "ALLOWED", tmp_path / "allowed.json")
    assert count.allowed("full") == {}
    first, other = PROBLEMS[0].name, {"family": "others", "verdict": "right"}
    quiet = answering(Answer(SPOILT, R, regime="noisy"))._replace(name=first)
    count.write_allowed([quiet], "full")
    count.write_allowed([quiet._replace(**other)], "quick")
    assert count.allowed("full") == {"toys": {"silent_noisy": 1, "false_alarm": 0}}
    assert set(count.allowed("quick")) == {"toys", "others"}


def test_changes_name_the_worse_first(tmp_path):
    good, bad = answering(Answer(L, R)), answering(Answer(SPOILT, R))
    before = [good._replace(name="a"), bad._replace(name="b"), good._replace(name="c")]
    after = [
        good._replace(name="c"),
        good._replace(name="b"),
        bad._replace(name="a"),
        good._replace(name="new"),
    ]
    count.write_csv(before, tmp_path / "before.csv")
    assert [
        line.split()[:2] for line in count.changes(after, tmp_path / "before.csv")
    ] == [
        ["worse", "a"],
        ["better", "b"],
    ]


def test_silent_answers_are_listed_worst_first():
    answers = [
        Answer(L, R),
        Answer(SPOILT, R, regime="noisy"),
        Answer(SPOILT, R),
        Answer(SPOILT, R, "stalled"),
    ]
    found = [answering(answer) for answer in answers]
    lines = count.silent([*found, answering(None, error=IndexError("0"))])
    assert [line.split()[0] for line in lines] == [
        "crashed",
        "silent_exact",
        "silent_noisy",
    ]

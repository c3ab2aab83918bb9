"""Intervals, gross errors and false alarms, where the truth is known."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import lrmc
from lrmc.evidence import NotCalibrated
from lrmc.evidence.alarms import (
    FALSE,
    Alarms,
    Border,
    Listing,
    border_of,
    dominated,
)
from lrmc.evidence.calibration import LEVELS, calibrate, fitted_again
from lrmc.evidence.kinds import (
    USUAL,
    quantile_of,
    quantiles_by_kind,
    sizes_of,
    unheard_of,
)
from lrmc.evidence.scales import learned_law, learned_powers, leverage, line_noise
from lrmc.evidence.tails import Shape, fit_tails
from lrmc.evidence.unlike import HARDER, UNLIKE
from lrmc.fit import Fit, Kept
from lrmc.linalg import Factors
from lrmc.observations import as_observations, heldout
from lrmc.outofcore import blocks
from lrmc.report.words import false_alarms

SHAPE = (200, 120)


def gaussian(rng):
    return 0.3 * rng.standard_normal(SHAPE)


def heavy(rng):
    return 0.3 * rng.standard_t(3, SHAPE)


def uneven(rng):
    rows, cols = (np.exp(0.6 * rng.standard_normal(n)) for n in SHAPE)
    return 0.2 * np.outer(rows, cols) * rng.standard_normal(SHAPE)


def made(noise=gaussian, gross=0.1, seed=0):
    """Data with half of the entries hidden, all values without gross errors, and where
    there are some.
    """
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((SHAPE[0], 3)) @ rng.standard_normal(
        (SHAPE[1], 3)
    ).T + noise(rng)
    wrong = rng.random(SHAPE) < gross
    Y = np.where(wrong, values + rng.uniform(-10, 10, SHAPE), values)
    return np.where(rng.random(SHAPE) < 0.5, Y, np.nan), values, wrong


@cache
def solved(noise=gaussian, gross=0.1):
    """A result, the data, all values without gross errors, and where there are some."""
    Y, values, wrong = made(noise, gross)
    return lrmc.solve(Y, 3), Y, values, wrong


@pytest.fixture
def known():
    return solved()


def cover(result, values, level, **how):
    rows, cols = np.nonzero(np.isnan(result.observations.grid(*map(np.arange, SHAPE))))
    low, high = result.interval(rows, cols, level, **how)
    return float(
        np.mean((low <= values[rows, cols]) & (values[rows, cols] <= high))
    ), float(np.mean(high - low))


@pytest.mark.parametrize("gross", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
@pytest.mark.parametrize("noise", [gaussian, heavy, uneven])
def test_hidden_values_are_covered(noise, gross):
    result, Y, values, _ = solved(noise, gross)
    missing = np.isnan(Y)
    error = np.abs(values - result.low_rank())[missing]
    for level, slack in ((0.9, 0.02), (0.95, 0.015)):
        covered, width = cover(result, values, level)
        assert abs(covered - level) < slack
        assert width < 1.15 * 2 * np.quantile(error, level)


def test_widths_follow_the_noise_of_rows_and_columns():
    result, Y, values, _ = solved(uneven, 0.1)
    rows, cols = np.nonzero(np.isnan(Y))
    error, scale = (
        np.abs(values - result.low_rank())[rows, cols],
        result.standard_error(rows, cols),
    )
    half = np.diff(result.interval(rows, cols, 0.9), axis=0)[0] / 2
    quarters = np.array_split(np.argsort(scale), 4)
    own = [np.mean(error[part] <= half[part]) for part in quarters]
    same = [np.mean(error[part] <= np.quantile(error, 0.9)) for part in quarters]
    # about the same everywhere, not only in the mean
    assert np.ptp(own) < 0.5 * np.ptp(same)
    assert half.mean() < 0.95 * np.quantile(error, 0.9)


def test_observations_may_be_gross_errors(known):
    result, _, values, wrong = known
    new = np.where(
        wrong, values + np.random.default_rng(9).uniform(-10, 10, SHAPE), values
    )
    assert abs(cover(result, new, 0.95, of="observation")[0] - 0.95) < 0.015
    assert cover(result, values, 0.95, of="observation")[0] > 0.99
    with pytest.raises(ValueError, match="of='both'"):
        result.interval(0, 0, of="both")


def test_draws_are_spread_like_the_intervals(known):
    result = known[0]
    rows, cols = np.arange(20), np.arange(20)
    drawn = result.sample(rows, cols, 2000, seed=1)
    low, high = result.interval(rows, cols, 0.8)
    assert drawn.shape == (2000, 20)
    assert abs(np.mean((low <= drawn) & (drawn <= high)) - 0.8) < 0.01
    assert np.allclose(drawn.std(0) / result.standard_error(rows, cols), 1, atol=0.15)
    np.testing.assert_array_equal(drawn, result.sample(rows, cols, 2000, seed=1))


def test_gross_errors_are_found_and_good_entries_are_not(known):
    result, Y, _, wrong = known
    rows, cols = np.nonzero(~np.isnan(Y))
    chance = result.outlier_probability(rows, cols)
    for low, high in ((0.0, 0.1), (0.9, 1.01)):
        some = (low <= chance) & (chance < high)
        assert abs(wrong[rows, cols][some].mean() - chance[some].mean()) < 0.02
    assert abs(chance.mean() - 0.1) < 0.02
    assert np.isnan(
        result.outlier_probability(*(x[:1] for x in np.nonzero(np.isnan(Y))))
    )


@pytest.mark.parametrize("threshold", [None, 0.9, 1.2])
def test_false_alarms_are_as_many_as_expected(known, threshold):
    result, Y, _, wrong = known
    listed = np.nan_to_num(result.outliers(threshold=threshold)) != 0
    alarms = result.false_alarms(threshold=threshold)
    false, missed = (listed & ~wrong).sum(), (wrong & ~np.isnan(Y) & ~listed).sum()
    assert alarms.found == listed.sum()
    # rather too many than too few
    assert false < 1.3 * alarms.false + 8
    assert alarms.false < 2 * false + FALSE * listed.sum()
    assert abs(alarms.missed - missed) < 0.3 * missed + 10
    assert alarms.rate == alarms.false / alarms.found


@pytest.mark.parametrize("noise", [gaussian, heavy, uneven])
def test_a_list_of_outliers_keeps_what_it_promises(noise):
    result, Y, _, wrong = solved(noise, 0.1)
    listed = np.nan_to_num(result.outliers()) != 0
    false = (listed & ~wrong).sum() / listed.sum()
    # heavy tails can hardly be told from few gross errors: more is expected then
    assert result.false_alarms().rate <= (4 if noise is heavy else 1) * FALSE + 1e-9
    assert false < FALSE + 3 * np.sqrt(FALSE / listed.sum())
    # and it is not short: most that could be told are there
    assert (listed & wrong).sum() > 0.55 * (wrong & ~np.isnan(Y)).sum()


def test_good_entries_are_not_listed_however_heavy_their_tails():
    rng = np.random.default_rng(3)
    for noise in (rng.standard_normal(20_000), rng.standard_t(3, 20_000)):
        border = border_of(noise, np.ones(len(noise)), len(noise)).threshold
        assert (np.abs(noise) > border).sum() <= 5
        few = np.concatenate([noise, 1000 + rng.random(5)])
        border = border_of(few, np.ones(len(few)), len(few)).threshold
        assert (np.abs(few) > border).sum() >= 5
    assert border_of(np.zeros(10), np.ones(10), 10) == Border(0.0)


def small_table(kind, seed):
    """Residuals of a small table, of which a tenth are gross, and which are."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(300, 3000))
    good = {
        "gaussian": rng.standard_normal(n),
        "heavy": rng.standard_t(3, n),
        # most are met, some are not, as where a few columns are of another kind
        "two kinds": rng.standard_normal(n) * rng.choice([1.0, 8.0], n, p=[0.95, 0.05]),
    }[kind]
    gross = rng.random(n) < 0.1
    return np.where(gross, rng.uniform(-60, 60, n), good), gross


@pytest.mark.parametrize("kind", ["gaussian", "heavy", "two kinds"])
def test_no_more_good_entries_are_listed_than_are_said_to_be_at_most(kind):
    """Of few residuals no shape tells how many."""
    for seed in range(4):
        residual, gross = small_table(kind, seed)
        n = len(residual)
        border, ones = border_of(residual, np.ones(n), n), np.ones(1)
        listed = Listing(border.threshold, ones, ones, ones, border.tails, border.reach)
        beyond = np.abs(residual) > border.threshold
        alarms = listed.alarms(int(beyond.sum()), n)
        false = (beyond & ~gross).sum()
        assert false <= alarms.most <= alarms.found
        assert alarms.false <= alarms.most


def test_a_report_says_how_many_may_be_good_at_most():
    assert "at most 7" in false_alarms(Alarms(8, 0.1, 0.0, 7.0))
    assert "10 by the shape" in false_alarms(Alarms(100, 10.0, 5.0, 40.0))
    assert "at most 40" in false_alarms(Alarms(100, 10.0, 5.0, 40.0))
    assert "None" in false_alarms(Alarms(8, 0.1, 0.0, 0.8))


def test_lines_with_heavy_tails_of_their_own_are_expected_in_the_list():
    """A tenth of the columns falls slowly: what fits the others says nothing of these."""
    rng = np.random.default_rng(4)
    good = rng.standard_normal(20_000)
    good[:2000] *= np.exp(1.2 * np.abs(rng.standard_normal(2000)))
    gross = rng.random(20_000) < 0.05
    residual = np.where(gross, rng.uniform(-60, 60, 20_000), good)
    found = border_of(residual, np.ones(20_000), 20_000)
    listed = np.abs(residual) > found.threshold
    assert found.reach is not None
    expected = 20_000 * float(found.reach.good_beyond(np.array(found.threshold)))
    false = (listed & ~gross).sum()
    assert false < 2 * expected + 5
    assert expected < 0.1 * listed.sum()
    assert (listed & gross).sum() > 0.6 * gross.sum()


def test_lines_of_one_value_are_not_judged():
    rng = np.random.default_rng(5)
    lines = np.repeat([0, 1, 2], 20)
    values = rng.standard_normal(60)
    values[:11] = 3.0
    values[20:29] = 3.0
    order = rng.permutation(60)
    found = dominated(lines[order], values[order], 4)
    np.testing.assert_array_equal(found, [True, False, False, False])


def test_the_coverage_is_measured(known):
    result, _, values, _ = known
    assert [x.level for x in result.calibration.coverage] == list(LEVELS)
    for level, value, observation in result.calibration.coverage:
        assert abs(value - level) < 0.01
        assert abs(observation - level) < 0.01
        assert abs(cover(result, values, level)[0] - value) < 0.02


def test_shapes_are_those_of_known_distributions():
    x = np.linspace(-9, 9, 41)
    one = np.ones_like(x)
    for shape, unit, other in (
        # Student's with 5 degrees of freedom, Laplace's and the Gaussian
        (Shape(2, 2.5), np.sqrt(2), stats.t(5)),
        (Shape(1, 1e7), 1.0, stats.laplace()),
        (Shape(2, 1e7), np.sqrt(2), stats.norm()),
    ):
        got = np.exp(shape.log_density(x, unit * one))
        np.testing.assert_allclose(got, other.pdf(x), rtol=1e-4, atol=1e-12)
        beyond = shape.beyond(np.abs(x) / unit)
        np.testing.assert_allclose(beyond, 2 * other.sf(np.abs(x)), atol=1e-6)


def test_powers_are_learned_from_errors():
    rng = np.random.default_rng(0)
    logs = rng.standard_normal((20_000, 3))
    want = np.array([1.2, 0.0, 0.4])
    errors = 0.3 * np.exp(logs @ want) * rng.standard_normal(len(logs))
    unit, powers, _ = learned_powers(errors, logs, np.ones(len(logs)))
    np.testing.assert_allclose(powers, want, atol=0.1)
    assert abs(np.median(np.abs(errors) / (unit * np.exp(logs @ powers))) - 1) < 0.1
    # what is known to be wrong does not speak
    bad = rng.random(len(logs)) < 0.2
    wrong = np.where(bad, 1e3 * np.exp(-3 * logs[:, 1]), errors)
    _, again, _ = learned_powers(wrong, logs, np.where(bad, 1e-6, 1.0))
    np.testing.assert_allclose(again, powers, atol=0.15)


def test_what_a_fit_leaves_open_adds_to_the_noise():
    rng = np.random.default_rng(1)
    logs = np.column_stack([np.zeros((20_000, 2)), 1.5 * rng.standard_normal(20_000)])
    want = 0.3 * np.sqrt(1 + np.exp(logs[:, 2]) / 4)
    errors, each = want * rng.standard_normal(len(logs)), np.ones(len(logs))
    _, power, _ = learned_powers(errors, logs, each)
    alone, law = np.exp(logs @ power), learned_law(errors, logs, each).at(logs)
    off = [np.ptp(np.quantile(np.log(x / want), [0.01, 0.99])) for x in (law, alone)]
    assert off[0] < 0.15
    assert off[0] < 0.4 * off[1]  # by a power alone


@pytest.mark.filterwarnings("ignore:.*have no observation")
def test_intervals_hold_where_little_is_known():
    """Ratings: a few rows and columns have most entries, and most gaps are in the others."""
    rng = np.random.default_rng(20)
    shape = (500, 200)
    X = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 200)) / 2
    values = X + 0.3 * rng.standard_normal(shape)
    rows, cols = rng.pareto(1.5, 500) + 0.2, rng.pareto(1.2, 200) + 0.1
    chance = 0.15 * np.outer(rows / rows.mean(), cols / cols.mean())
    seen = rng.random(shape) < np.clip(chance, 0, 0.9)
    result = lrmc.solve(np.where(seen, values, np.nan), time=None)
    i, j = np.nonzero(~seen)
    low, high = result.interval(i, j)
    told = np.isfinite(low)
    held = ((low <= values[i, j]) & (values[i, j] <= high))[told]
    assert held.mean() > 0.85
    # also where least is known
    open_ = result.calibration.scales.lines.leverage.at(i[told], j[told])
    assert held[open_ > np.quantile(open_, 0.9)].mean() > 0.84


def test_heavy_tails_are_not_gross_errors():
    rng = np.random.default_rng(0)
    scale = np.exp(rng.standard_normal(8000))
    for noise in (
        rng.standard_t(2, 8000),
        rng.standard_t(1.5, 8000),
        rng.standard_normal(8000),
    ):
        assert fit_tails(scale * noise, scale).share < 0.02
    bad = rng.random(8000) < 0.1
    for relative, size in ((False, 1.0), (True, scale)):
        residual = np.where(
            bad, rng.uniform(-200, 200, 8000) * size, scale * rng.standard_t(3, 8000)
        )
        found = fit_tails(residual, scale)
        assert abs(found.share - 0.1) < 0.02
        assert found.relative == relative
    residual[0] = 1e9  # one that is far beyond all others changes little
    assert abs(fit_tails(residual, scale).share - 0.1) < 0.02


def test_noise_of_lines_is_found_and_even_noise_is_left_alone():
    rng = np.random.default_rng(3)
    rows, cols = (np.exp(0.5 * rng.standard_normal(n)) for n in SHAPE)
    zero = Factors(np.zeros((SHAPE[0], 1)), np.zeros((SHAPE[1], 1)))
    E = rng.standard_normal(SHAPE)
    found = line_noise(as_observations(E * np.outer(rows, cols)), Fit(zero))
    for got, want in zip(found, (rows, cols), strict=True):
        assert np.std(np.log(got) - np.log(want)) < 0.15
    for got in line_noise(as_observations(E), Fit(zero)):
        assert np.std(np.log(got)) < 0.05


def test_quiet_lines_stay_quiet_beside_outliers():
    """Which are larger there in units of the noise; means of logarithms are 0.15 off and more."""
    rng = np.random.default_rng(4)
    rows, cols = (np.exp(0.6 * rng.standard_normal(n)) for n in SHAPE)
    zero = Factors(np.zeros((SHAPE[0], 1)), np.zeros((SHAPE[1], 1)))
    E = 0.3 * np.outer(rows, cols) * rng.standard_normal(SHAPE)
    E = np.where(rng.random(SHAPE) < 0.1, rng.uniform(-10, 10, SHAPE), E)
    found = line_noise(as_observations(E), Fit(zero))
    for got, want in zip(found, (rows, cols), strict=True):
        assert np.std(np.log(got) - np.log(want)) < 0.13


def test_lines_of_four_entries_have_no_noise_of_their_own():
    """What they show is chance: in some rows all entries happen to be met."""
    rng = np.random.default_rng(6)
    met = rng.random((1000, 4)) < 0.4
    E = np.where(met, 0.01, 1.0) * rng.standard_normal((1000, 4))
    zero = Factors(np.zeros((1000, 1)), np.zeros((4, 1)))
    rows, _ = line_noise(as_observations(E), Fit(zero))
    assert np.std(np.log(rows)) < 0.02


def test_less_is_known_where_less_was_seen():
    rng = np.random.default_rng(4)
    L, R = (rng.standard_normal((n, 3)) for n in SHAPE)
    seen = rng.random(SHAPE) < np.where(np.arange(SHAPE[0]) < 20, 0.1, 0.6)[:, None]
    Y = np.where(seen, L @ R.T + 0.3 * rng.standard_normal(SHAPE), np.nan)
    obs = as_observations(Y)
    found = leverage(obs, Factors(L, R))
    assert found.rows[:20].min() > 2 * np.median(found.rows[20:])
    # least squares with known R: in units of the noise, the variance of row i is
    # r' (R_seen' R_seen)^-1 r; here with a prior, and robust weights
    wanted = [np.trace(np.linalg.inv(R[s].T @ R[s]) @ R.T @ R) / len(R) for s in seen]
    rows = found.rows * np.mean(found.col_lean)
    assert np.median(np.abs(np.log(rows / wanted))) < 0.4


def test_each_kind_of_place_has_its_own_width():
    rng = np.random.default_rng(0)
    kinds = rng.choice([0, 3, 9], 30_000, p=[0.7, 0.295, 0.005]).astype(np.int8)
    # nine times as large, and with other tails
    errors = np.where(kinds == 3, 9 * rng.standard_t(2, len(kinds)), 0)
    errors[kinds != 3] = rng.uniform(-1, 1, (kinds != 3).sum())
    sizes = sizes_of(errors, kinds)
    assert sizes[3] / sizes[0] == pytest.approx(9 * 0.816 / 0.5, rel=0.1)
    ratio = np.abs(errors) / sizes[kinds]
    learn = np.arange(len(kinds)) % 2 == 0
    weight = np.ones(learn.sum())
    each = np.arange(len(weight))
    border = quantiles_by_kind(ratio[learn], weight, kinds[learn], 0.9, each)
    inside = ratio <= border[kinds]
    for k in (0, 3):
        assert inside[~learn & (kinds == k)].mean() == pytest.approx(0.9, abs=0.02)
    # few: the quantile of all, in its own units
    assert (
        border[9]
        == quantiles_by_kind(ratio[learn], weight, 0 * kinds[learn], 0.9, each)[0]
    )


def test_kinds_of_places_that_nothing_was_set_aside_of_are_counted():
    Y = np.ones((4, 30))
    Y[0, :6] = Y[:, 10:12] = Y[3] = np.nan
    places = np.zeros(Y.shape, np.int8)
    places[:, 10:12], places[3] = 5, 7
    X = Factors(np.ones((4, 1)), np.ones((30, 1)))
    of_times = Fit(X, (Kept(X, Y, "columns"),))
    obs, enough = as_observations(Y), np.zeros(USUAL, np.int8)
    # columns without an entry are filled in, rows without one are not
    assert unheard_of(obs, of_times, places, enough) == pytest.approx(6 / 12)
    few = np.append(enough, np.int8(5))  # where 21 / 20 are a tenth of what is wanted
    assert unheard_of(obs, of_times, places, few) == pytest.approx(6 / 12)
    few = np.append(few, np.int8(5))
    assert unheard_of(obs, of_times, places, few) == 0
    assert unheard_of(obs, Fit(X), places, enough) == 0


def hardly_seen(n1, n2):
    """A table, and the same with rows of which next to nothing is seen: all that is missing."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n1, 3)) @ rng.standard_normal((n2, 3)).T
    Y = X + 0.1 * rng.standard_normal(X.shape)
    seen = Y.copy()
    seen[:30][rng.random((30, n2)) < 0.95] = np.nan
    return Y, seen


def test_gaps_unlike_anything_observed_are_refused():
    result = lrmc.solve(hardly_seen(120, 140)[1], 3)
    with pytest.raises(NotCalibrated, match="unlike anything"):
        result.interval(0, 0)
    assert result.calibration.gaps.unlike > UNLIKE


def test_what_is_missing_together_is_set_aside_together():
    """Samples that lack most of their entries: others without these tell how far off they are."""
    Y, seen = hardly_seen(120, 100)
    result, places = lrmc.solve(seen, 3), np.nonzero(np.isnan(seen))
    low, high = result.interval(*places)
    assert 0.83 < np.mean((low <= Y[places]) & (Y[places] <= high)) < 0.96


def test_gaps_that_are_harder_in_one_piece_are_refused():
    """A fit that knows single entries, and nothing of a row that has lost many."""
    rng = np.random.default_rng(8)
    L, R = (rng.standard_normal((n, 1)) for n in (60, 400))
    Y = L @ R.T + 0.3 * rng.standard_normal((60, 400))
    for i in range(60):
        for begin in rng.integers(0, 360, 1 + i % 5):
            Y[i, begin : begin + 40] = np.nan
    obs = as_observations(Y)

    def refit(part, seed):
        left = part.obs.row_observed > 0.9 * obs.row_observed
        return Fit(Factors(L * left[:, None], R))

    found = calibrate(obs, Fit(Factors(L, R)), fitted_again(obs, refit, 1))
    assert found.gaps.harder > HARDER
    with pytest.raises(NotCalibrated, match="times as much as single ones"):
        found.quantile(0.9)


def test_even_gaps_are_like_what_was_observed():
    """Although less is known of every place, where fewer entries are left."""
    rng = np.random.default_rng(6)
    Y = rng.standard_normal((90, 1)) * rng.standard_normal(
        60
    ) + 0.3 * rng.standard_normal((90, 60))
    # as many in every line
    Y[np.arange(90)[:, None], (np.arange(20) + np.arange(90)[:, None]) % 60] = np.nan
    result = lrmc.solve(Y, 1)
    low, high = result.interval(0, 0)
    assert low < high
    assert result.calibration.gaps.unlike < 0.15


def test_what_was_saved_gives_the_same_intervals(known, tmp_path):
    result, Y, _, _ = known
    low, high = result.interval([0, 1], [[2], [3]])
    result.save(tmp_path / "a.npz")
    again = lrmc.Result.load(tmp_path / "a.npz")
    for got, want in zip(again.interval([0, 1], [[2], [3]]), (low, high), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(again.sample(0, 0, 3), result.sample(0, 0, 3))
    assert again.false_alarms(Y) == result.false_alarms()
    again.save(tmp_path / "b.npz")
    assert lrmc.Result.load(tmp_path / "b.npz").calibrated is not None


def test_what_was_saved_without_intervals_says_so(tmp_path):
    Y, _, _ = made(seed=6)
    lrmc.solve(Y, 3).save(tmp_path / "a.npz")
    with pytest.raises(NotCalibrated, match="before the result is saved"):
        lrmc.Result.load(tmp_path / "a.npz").interval(0, 0)


def test_a_damaged_file_is_refused(known, tmp_path):
    result = known[0]
    result.interval(0, 0)
    result.save(tmp_path / "a.npz")
    content = dict(np.load(tmp_path / "a.npz"))
    np.savez(
        tmp_path / "b.npz",
        **(content | {"interval_row_noise": content["interval_row_noise"][1:]}),
    )
    with pytest.raises(ValueError, match="row_noise of intervals"):
        lrmc.Result.load(tmp_path / "b.npz")


def test_questions_that_have_no_answer(known):
    result = known[0]
    with pytest.raises(ValueError, match="level=90"):
        result.interval(0, 0, 90)
    with pytest.raises(ValueError, match=f"integers from 0 to {SHAPE[1] - 1}"):
        result.interval(0, SHAPE[1])
    with pytest.raises(ValueError, match="rows holds what is no index"):
        result.interval(0.5, 0)
    with pytest.raises(NotCalibrated, match=r"level=0\.99999"):
        result.interval(0, 0, 0.99999)
    np.testing.assert_array_equal(
        result.interval(-1, -1), result.interval(SHAPE[0] - 1, SHAPE[1] - 1)
    )


def test_what_is_not_determined_has_no_interval():
    Y, _, _ = made(seed=7)
    Y[5] = np.nan
    with pytest.warns(lrmc.DoubtWarning, match="no observation"):
        result = lrmc.solve(Y, 3)
    low, high = result.interval([5, 6], [0, 0])
    assert np.isnan([low[0], high[0]]).all()
    assert low[1] < high[1]
    assert np.isnan(result.standard_error(5, 0))


def test_exact_data_have_next_to_no_width():
    s = lrmc.synthetic.problem(200, 2, alpha=0.1, p=0.5, seed=0, form="dense")
    result = lrmc.solve(s.Y)
    low, high = result.interval(np.arange(50), np.arange(50))
    assert np.all(high - low < 1e-4 * np.abs(s.X).mean())


def test_too_few_entries():
    obs = as_observations(np.arange(6.0).reshape(2, 3))
    with pytest.raises(NotCalibrated, match="6 entries are observed"):
        fitted_again(obs, lambda part, seed: None, 1)


def test_a_large_matrix_is_calibrated_on_a_part(monkeypatch):
    """Refits are made of some rows; intervals hold for all."""
    monkeypatch.setattr(heldout, "ENOUGH_CELLS", 10_000)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2000, 2)) @ rng.standard_normal((30, 2)).T
    values = X + 0.3 * rng.standard_normal(X.shape)
    Y = np.where(rng.random(X.shape) < 0.7, values, np.nan)
    result = lrmc.solve(Y, 2)
    assert {some.rest.shape for some in result.fitted_again} == {(1000, 30)}
    rows, cols = np.nonzero(np.isnan(Y))
    low, high = result.interval(rows, cols)
    held = (low <= values[rows, cols]) & (values[rows, cols] <= high)
    assert abs(held.mean() - 0.9) < 0.02


def by_blocks(Y):
    return blocks(Y, memory=200_000)


def by_columns_of_dask(Y):
    """Blocks of Dask, and the transposed matrix, in one."""
    da = pytest.importorskip("dask.array")
    return da.from_array(Y, chunks=(-1, 50))


def by_torch(Y):
    torch = pytest.importorskip("torch")
    return torch.tensor(Y)


@pytest.mark.parametrize("present", [by_blocks, by_columns_of_dask, by_torch])
def test_data_elsewhere_have_intervals(present, known):
    """The same numbers come out as in memory, up to where entries are set aside."""
    here, Y, values, _ = known
    result = lrmc.solve(present(Y), 3)
    rows, cols = np.nonzero(np.isnan(Y))
    low, high = result.interval(rows, cols)
    held = (low <= values[rows, cols]) & (values[rows, cols] <= high)
    assert abs(held.mean() - 0.9) < 0.02
    width, wanted = (
        (b - a).mean() for a, b in ((low, high), here.interval(rows, cols))
    )
    assert abs(width / wanted - 1) < 0.1
    alarms = result.false_alarms()
    assert abs(alarms.found - here.false_alarms().found) < 0.02 * alarms.found
    S = result.outliers()
    S = S.toarray() if sp.issparse(S) else np.nan_to_num(np.asarray(S))
    assert np.count_nonzero(S) == alarms.found


def test_errors_that_come_together_make_intervals_wider():
    """Of 20 gaps with 8 errors each, 90 % needs 19 of them; of 5 it has no answer."""
    size = np.repeat(np.arange(20.0), 8)
    each, gaps = np.arange(160), np.repeat(np.arange(20), 8)
    assert quantile_of(size, np.ones(160), 0.9, each) == 18
    assert quantile_of(size, np.ones(160), 0.9, gaps // 2) == 19
    assert quantile_of(size[:40], np.ones(40), 0.9, gaps[:40]) == np.inf


def test_few_errors_of_a_kind_in_each_gap_are_as_few():
    """The ends of 100 gaps are a kind of two errors each, however long the gaps are."""
    kinds = np.tile(np.repeat([0, 1], [8, 2]), 200)
    size, gaps = (
        np.tile(np.arange(200.0)[:, None], 10).ravel(),
        np.repeat(range(200), 10),
    )
    found = quantiles_by_kind(size, np.ones(2000), kinds, 0.9, gaps)
    assert found[0] == found[1] == 180

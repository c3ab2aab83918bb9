"""What a table with time is filled in by: gaps, clocks, simple ways, and the weights of all."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import ndimage
from times import P, hidden, rmse, seasonal

from lrmc.methods.in_time import plan as planning
from lrmc.methods.in_time.check import checked
from lrmc.methods.in_time.clock import even_clock, read_clock
from lrmc.methods.in_time.gaps import (
    fail_together,
    gaps_elsewhere,
    gaps_for,
    runs,
)
from lrmc.methods.in_time.periods import (
    correlation,
    find_period,
    is_ordered,
    longer_period,
    order_score,
)
from lrmc.methods.in_time.plan import carried_out, learn_plan, weighed_by_all
from lrmc.methods.in_time.processes import (
    folded,
    told_entries,
    unfolded,
)
from lrmc.methods.in_time.simple import (
    filtered,
    last_value,
    linear,
    slot_mean,
    slot_medians,
)
from lrmc.methods.in_time.stack import (
    DISTANCES,
    N_CLASSES,
    beside_class,
    blended,
    class_of,
    good_ones,
    kind_of,
    learned_weights,
    plausible,
    weighted_median,
)
from lrmc.methods.in_time.sweeps import fit
from lrmc.methods.in_time.trials import _useful_models
from lrmc.methods.in_time.windows import in_windows, middle_window, windows


def test_one_estimate_that_runs_away_does_not_decide_for_time():
    rng = np.random.default_rng(5)
    truth = np.cumsum(rng.standard_normal((6, 300)), axis=1)
    Y, _ = hidden(truth + rng.standard_normal(truth.shape), seed=5)

    def nearly_right(held, judged):
        said = truth[judged][held[judged]]
        said[0] = 1e4
        return said

    assert not learn_plan(Y, None, nearly_right).is_worth_it(clearly=True)


def test_simple_fits_against_loops():
    rng = np.random.default_rng(6)
    Y, _ = hidden(rng.standard_normal((4, 30)), seed=6)
    lines, last, means = linear(Y), last_value(Y), slot_mean(Y, 7)
    for i, y in enumerate(Y):
        seen = np.flatnonzero(~np.isnan(y))
        for t in range(30):
            before, after = seen[seen <= t], seen[seen >= t]
            a = before[-1] if len(before) else after[0]
            b = after[0] if len(after) else before[-1]
            share = 0 if a == b else (t - a) / (b - a)
            assert lines[i, t] == pytest.approx(y[a] + share * (y[b] - y[a]))
            assert last[i, t] == y[a]
            slot = [y[u] for u in range(t % 7, 30, 7) if not np.isnan(y[u])]
            if slot:
                assert means[i, t] == pytest.approx(np.mean(slot))


def test_a_median_filter_takes_spikes_out():
    Y = np.sin(np.arange(100) / 9)[None] + 5
    Y[0, [20, 60]] = 50, -50
    found = filtered(Y)
    assert np.flatnonzero(np.isnan(found[0])).tolist() == [20, 60]


def test_classes_by_distance_by_who_else_is_there_and_beyond_the_ends():
    seen = np.random.default_rng(7).random((5, 40)) < 0.3
    seen[0] = False
    found = class_of(seen)
    counts = [seen[:, t].sum() - seen[s, t] for s, t in np.ndindex(seen.shape)]
    counts = np.reshape(counts, seen.shape)
    usual = np.median(counts[:, seen.any(0)])
    for s, t in np.ndindex(seen.shape):
        others = [abs(t - u) for u in np.flatnonzero(seen[s]) if u != t]
        near = min(others, default=40)
        want = sum(near >= limit for limit in DISTANCES)
        want += 4 * (counts[s, t] < 0.5 * usual)
        there = np.flatnonzero(seen[s])
        want += 8 * (len(there) > 0 and not there[0] <= t <= there[-1])
        assert found[s, t] == want


def test_one_estimate_that_runs_away_is_held():
    rng = np.random.default_rng(8)
    Z = list(rng.standard_normal((3, 2, 50)))
    weights = np.tile([0.5, 0.3, 0.2], (8, 1))
    classes = np.zeros((2, 50), int)
    one = np.ones((2, 50))
    plain = 0.5 * Z[0] + 0.3 * Z[1] + 0.2 * Z[2]
    np.testing.assert_allclose(blended(Z, weights, classes, 1e3 * one), plain)
    Z[2][1, 7] = 1e6
    found = blended(Z, weights, classes, one)
    assert np.abs(found - plain).max() < 4


def test_weighted_median_against_repeated_numbers():
    rng = np.random.default_rng(9)
    Z, counts = rng.standard_normal((5, 30)), rng.integers(1, 9, (5, 30))
    found = weighted_median(Z, counts)
    for k in range(30):
        every = np.sort(np.repeat(Z[:, k], counts[:, k]))
        assert found[k] == every[(len(every) - 1) // 2]


def test_what_has_more_than_half_of_the_weight_is_the_weighted_median():
    Z = np.array([[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]])
    found = weighted_median(Z, np.array([[0.6, 0.5], [0.1, 0.3], [0.3, 0.2]]))
    assert found.tolist() == [3.0, 2.0]


def test_weights_are_convex_and_do_best():
    rng = np.random.default_rng(8)
    n = 3000
    a, b = rng.standard_normal((2, n))
    errors = np.stack([a, b, 10 + a], axis=1)
    errors[::50] += 1000  # outliers among the entries that were set aside
    classes = np.zeros(n, int)
    w = learned_weights(errors, classes)
    np.testing.assert_allclose(w.sum(1), 1)
    np.testing.assert_allclose(w[0], [0.5, 0.5, 0], atol=0.06)


def test_a_class_with_few_entries_leans_on_the_others():
    rng = np.random.default_rng(8)
    errors = np.array([[1.0, 3.0]]) * rng.standard_normal((4000, 2))
    classes = np.zeros(4000, int)
    errors[2000:] = errors[2000:, ::-1]  # the other way round there
    classes[2000:] = 1
    many = learned_weights(errors, classes)
    assert min(many[0, 0], many[1, 1]) > 0.85
    few = learned_weights(errors[:2010], classes[:2010])
    assert few[1, 0] > 0.8  # ten entries of its own say little
    np.testing.assert_allclose(few[2], few[7], atol=0.05)  # of these nothing is known


def test_runs():
    missing = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]], bool)
    rows, starts, lengths = runs(missing)
    assert rows.tolist() == [0, 0, 2]
    assert starts.tolist() == [0, 4, 1]
    assert lengths.tolist() == [2, 1, 4]


def test_whole_days_are_set_aside_as_whole_days():
    rng = np.random.default_rng(9)
    days = rng.random((30, 20)) < 0.7
    seen = np.repeat(days, 10, axis=1)
    held = gaps_elsewhere(seen, 0, period=10)
    assert not (held & ~seen).any()
    assert 0.03 < held.sum() / seen.sum() < 0.3
    by_day = held.reshape(30, 20, 10)
    assert np.array_equal(by_day.any(2), by_day.all(2))


def test_late_beginnings_are_laid_over_other_sensors():
    seen = np.ones((20, 200), bool)
    seen[:3, :80] = False
    held = gaps_elsewhere(seen, 0)
    some = held.any(1)
    assert some[3:].any()
    assert held[some, :80].all()
    assert not held[:3].any()
    assert not held[:, 80:].any()


def test_where_all_sensors_fail_all_are_set_aside():
    seen = np.ones((20, 200), bool)
    seen[:, ::17] = seen[:, 1::17] = False
    held = gaps_elsewhere(seen, 0)
    columns = held[:, seen.all(0)]
    assert columns.any()
    assert np.array_equal(columns.any(0), columns.all(0))


def test_periods():
    _, Y = seasonal(days=20)
    assert find_period(hidden(Y)[0]) == P
    assert find_period(np.random.default_rng(0).standard_normal((20, 300))) is None
    week = np.where(np.arange(20 * P) // P % 7 < 5, 0, 12.0)
    assert longer_period(Y + week, P) == 7 * P
    assert longer_period(Y, P) is None


def test_order_is_seen_and_no_order_is_not():
    _, Y = seasonal()
    shuffled = Y[:, np.random.default_rng(0).permutation(Y.shape[1])]
    assert order_score(Y) > 12 > 6 > order_score(shuffled)
    assert is_ordered(Y)
    assert not is_ordered(shuffled)


def test_a_faint_order_of_a_large_table_is_left_alone():
    """Neighbors are alike beyond any doubt, but tell a hundredth of the variance."""
    rng = np.random.default_rng(2)
    drift = ndimage.gaussian_filter1d(rng.standard_normal((300, 900)), 3, axis=1)
    Y = rng.standard_normal(drift.shape) + 0.4 * drift / drift.std()
    Y[rng.random(Y.shape) < 0.3] = np.nan
    assert order_score(Y) > 12
    assert 0.05 < correlation(Y) < 0.2
    assert not is_ordered(Y)


def test_clocks():
    even = read_clock(np.arange(5) * 0.5, 5)
    assert even.is_plain
    np.testing.assert_array_equal(even.cells, even_clock(5).cells)
    gap = read_clock([0, 1, 2, 7], 4)
    assert gap.cells.tolist() == [0, 1, 2, 7]
    Y = np.arange(8.0).reshape(2, 4)
    grid = gap.on_grid(Y)
    assert np.isnan(grid[:, 3:7]).all()
    np.testing.assert_array_equal(gap.off_grid(grid), Y)


def test_days_are_those_of_the_local_clock():
    pandas = pytest.importorskip("pandas")
    hours = pandas.date_range("2024-10-25", periods=96, freq="h", tz="Europe/Berlin")
    clock = read_clock(hours, 96)
    assert clock.period == 24
    assert clock.n == 95  # an hour is lived twice
    noon = [c for c, h in zip(clock.cells, hours, strict=True) if h.hour == 12]
    assert {int(c) % 24 for c in noon} == {12}


@pytest.mark.parametrize(
    ("times", "what"),
    [
        ([0, 1], "shape"),
        ([0, 1, np.nan], "no time"),
        ([1, 1, 1], "the same"),
        (["a", "b", "c"], "dates"),
        ([0, 1, 1000], "too far apart"),
    ],
)
def test_bad_times(times, what):
    with pytest.raises(ValueError, match=what):
        read_clock(times, 3)


def test_windows_cover_everything_and_begin_with_a_period():
    spans = list(windows(1000, 240, 24))
    assert spans[0][0] == 0
    assert spans[-1][1] == 1000
    assert all(begin % 24 == 0 for begin, _ in spans)
    assert all(b < e for (_, e), (b, _) in itertools.pairwise(spans))


def test_a_plan_holds_in_windows_that_it_was_not_learned_in():
    clean, Y = seasonal(seed=6, days=60, sensors=20)
    Z, mask = hidden(Y.astype(np.float32), 0.2)
    width = 15 * P
    plan = learn_plan(np.ascontiguousarray(Z[:, :width]), P, None)
    found = in_windows(Z, plan, None, width).values
    assert np.isfinite(found).all()
    there, elsewhere = slice(0, width - P), slice(2 * width, None)
    own, other = (
        rmse(found[:, part], clean[:, part], mask[:, part])
        for part in (there, elsewhere)
    )
    assert other < 1.15 * own


def test_medians_of_slots_over_days_of_all_of_a_table():
    rng = np.random.default_rng(11)
    Y = rng.standard_normal((3, 100 * 6 + 2))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    Y[1, 4::6] = np.nan  # a slot without an entry
    chosen = np.linspace(0, 99, 64).astype(int)
    found = slot_medians(Y, 6)
    days = Y[:, :600].reshape(3, 100, 6)[:, chosen]
    np.testing.assert_allclose(found[0], np.nanmedian(days[0], axis=0))
    assert found[1, 4] == pytest.approx(np.nanmedian(days[1]))


def test_a_plan_that_is_worse_than_something_simple_is_told():
    rng = np.random.default_rng(12)
    shape = 10 * rng.standard_normal((6, P))
    Y = np.tile(shape, 40) + rng.standard_normal((6, 40 * P))
    whole = np.repeat(rng.random((6, 40)) < 0.1, P, axis=1)
    Z = np.where(whole, np.nan, Y).astype(np.float32)
    width = 10 * P
    window = Z[:, middle_window(Z.shape[1], width, P)]
    plan = learn_plan(window, P, None, all_days=slot_medians(Z, P))
    assert not checked(Z, plan, width, 0).warning
    lines_only = np.zeros_like(plan.weights)
    lines_only[:, plan.estimates.index("linear")] = 1
    check = checked(Z, replace(plan, weights=lines_only), width, 0)
    assert check.errors["lrmc"] > 2 * check.errors["slot mean"]
    assert "something simple" in check.warning


def test_folding_and_back():
    Y = np.arange(22.0).reshape(2, 11)
    G = folded(Y, 4)
    assert G.shape == (2, 3, 4)
    np.testing.assert_array_equal(unfolded(G, 11), Y)


def test_estimates_stay_in_the_range_of_good_entries():
    Y = np.random.default_rng(0).uniform(1, 9, (3, 100))
    good = np.ones_like(Y)
    Y[0, 0], good[0, 0] = 1e6, 0  # an outlier
    found = plausible(np.full_like(Y, 1e9), Y, good)
    assert found.max() < 10
    assert plausible(np.full_like(Y, -5.0), Y, good).min() >= 0


def test_a_robust_process_is_the_mean_of_two_beginnings():
    _, Y = seasonal(seed=4)
    Z = hidden(Y)[0].astype(np.float32)
    Z[np.random.default_rng(4).random(Z.shape) < 0.1] = 0.0
    plan = learn_plan(Z, P, None)
    only = replace(
        plan,
        estimates=(plan.best.name,),
        weights=np.ones((N_CLASSES, 1)),
        models={plan.best: plan.models[plan.best]},
    )
    assert plan.best.robust
    entries = told_entries(Z, P, plan.told)
    G = folded(entries.good, plan.best.period)
    begun = fit(G, robust=False, begin=plan.models[plan.best])
    anew = fit(G, robust=False)
    mean = unfolded((begun.values() + anew.values()) / 2, Z.shape[1])
    good = unfolded(begun.weights, Z.shape[1])
    found = carried_out(Z, only, None).values
    assert_allclose(found, plausible(mean, Z, good), rtol=1e-4)


def test_kinds_are_classes_and_lengths_of_gaps():
    seen = np.ones((3, 40), bool)
    seen[0, 5] = seen[0, 10:13] = seen[1, 5:20] = False
    found = kind_of(seen)
    assert np.array_equal(found % N_CLASSES, class_of(seen))
    lengths = found // N_CLASSES
    assert (lengths[0, 5], lengths[0, 11], lengths[1, 5]) == (0, 1, 3)
    assert (lengths[seen] == 0).all()


def test_gaps_of_single_sensors_are_moved_alone_beside_common_ones():
    rng = np.random.default_rng(4)
    seen = rng.random((30, 600)) > 0.1
    seen[:, 100:130] = False
    held = gaps_elsewhere(seen, 0)
    share = held.mean(0) / np.maximum(seen.mean(0), 1e-9)
    # times that are hidden whole, and single entries: a tenth of those seen there
    assert (share == 1).sum() >= 10
    assert 0.02 < share[(share < 1) & seen.any(0)].mean() < 0.12


def test_gaps_that_sensors_share_at_all_times_are_moved_together():
    """A road that few cars see: neighbors fail together, here more of them and there fewer."""
    rng = np.random.default_rng(6)
    first, last = np.sort(rng.integers(0, 31, (2, 60)), axis=0)
    sensor = np.arange(30)[:, None]
    seen = np.repeat((sensor >= first) & (sensor < last), 10, axis=1)
    held = gaps_elsewhere(seen, 0)
    both = seen[1:] & seen[:-1]
    alike = (held[1:] == held[:-1])[both].mean()
    share = held.sum() / seen.sum()
    assert 0.03 < share < 0.5
    assert alike > 1 - share * (1 - share)  # half of the disagreement by chance


def test_hard_gaps_do_not_decide_for_easy_ones():
    """Classes have weights of their own, however large errors of others are."""
    rng = np.random.default_rng(5)
    classes = np.repeat([0, 3], [400, 4000])
    errors = rng.standard_normal((4400, 2))
    errors[:400] *= 0.1, 1.0  # the first estimate is better at easy gaps,
    errors[400:] *= 1000.0, 100.0  # the second at hard ones
    relative = beside_class(errors, classes)
    assert np.median(np.abs(relative[:400, 0])) == pytest.approx(1)
    assert np.median(np.abs(relative[400:, 1])) == pytest.approx(1)
    easy, _ = learned_weights(relative, classes)[[0, 3], 0]
    assert easy > learned_weights(errors, classes)[0, 0] + 0.1


def test_held_out_gross_errors_do_not_hide_what_estimates_are_worth():
    rng = np.random.default_rng(6)
    errors = rng.standard_normal((5000, 3))
    gross = rng.random(5000) < 0.1
    errors[gross] += rng.choice([-300.0, 200.0], gross.sum())[:, None]
    good = good_ones(errors)
    assert not good[gross].any()
    assert good[~gross].mean() > 0.98


def test_what_fails_together_is_set_aside_together():
    """Where only some sensors are judged, the others must not tell what is hidden."""
    seen = np.ones((30, 400), bool)
    judged = np.arange(0, 30, 3)
    seen[:, np.repeat(np.random.default_rng(2).random(100) < 0.3, 4)] = False
    held = gaps_for(seen, judged, 0, None)
    assert held[judged].any()
    assert (held == held[0]).all()
    alone = np.random.default_rng(3).random(seen.shape) > 0.3
    held = gaps_for(alone, judged, 0, None)
    assert held[judged].any()
    assert not held[1::3].any()


def test_where_all_sensors_fail_the_weights_are_those_of_all(monkeypatch):
    """Weights that suit some sensors only do not stay; where sensors fail apart, they do."""
    X, noisy = seasonal(3)
    begins = np.random.default_rng(1).choice(len(X.T) // 8, 12, replace=False) * 8
    away = np.isin(np.arange(X.shape[1]), begins[:, None] + np.arange(4))
    Y = np.where(away, np.nan, noisy)
    monkeypatch.setattr(planning, "some_sensors", lambda S, T, seed: np.arange(6))

    def nothing(held, sensors):
        return np.zeros(int(held[sensors].sum()))

    plan = learn_plan(Y, P, nothing)
    worst = max(plan.used, key=lambda name: plan.errors[name])
    one = np.zeros_like(plan.weights)
    one[:, plan.estimates.index(worst)] = 1
    plan = replace(plan, weights=one)
    assert weighed_by_all(plan, hidden(noisy)[0], nothing, 0) is plan
    anew = weighed_by_all(plan, Y, nothing, 0)
    assert anew.errors["blend"] < 0.9 * anew.errors[worst]
    off = [rmse(carried_out(Y, p, None).values, X, np.isnan(Y)) for p in (plan, anew)]
    assert off[1] < 0.95 * off[0]


def test_kinds_of_processes_that_are_of_no_use_are_not_tried_again():
    _, X = seasonal()
    Y, _ = hidden(X, share=0.2, seed=3)
    Y[np.random.default_rng(3).random(Y.shape) < 0.1] = 20 * np.abs(X).max()
    rest = np.where(gaps_elsewhere(~np.isnan(Y), 0, P), np.nan, Y)
    models = _useful_models(told_entries(rest, P), Y, P, None)
    assert {p.robust for p in models if p.period == P} == {True, False}
    assert {p.robust for p in models if p.period != P} == {True}


def test_entries_set_aside_are_not_remembered_by_a_plan():
    _, X = seasonal()
    Y, _ = hidden(X, share=0.1)
    day = slice(5 * P, 6 * P)
    Y[0, day] += 30 * np.sin(np.arange(P))
    plan = learn_plan(Y, P, None)
    rest = Y.copy()
    rest[0, day] = np.nan
    found = carried_out(rest, plan.without_values(), None).values
    at = np.zeros(Y.shape, bool)
    at[0, day] = True
    # with what its models knew of this day it is 7.0
    assert rmse(found, X, at) < 4


@pytest.mark.parametrize("sensors", [2, 3, 6])
def test_a_few_sensors_fail_together_as_many_do(sensors):
    """The variance of their share is no more than as many times that of chance as there are sensors."""
    rng = np.random.default_rng(sensors)
    times = np.repeat(rng.random(60) < 0.2, 6)
    times[:6] = times[-6:] = False
    together = np.broadcast_to(~times, (sensors, 360))
    assert fail_together(together)
    held = gaps_for(together, np.arange(sensors), 0, None)
    alone = held.any(0) & ~held.all(0)
    assert alone.sum() < 0.1 * held.any(0).sum()
    assert not fail_together(rng.random((sensors, 360)) < 0.8)
    assert not fail_together(np.broadcast_to(~times, (1, 360)))

"""The model of tables with time, against slow references that share no code with it."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from real_data import DATA
from scipy import fft

import lrmc
from lrmc.methods.in_time import processes
from lrmc.methods.in_time.basis import Basis, by_distance, by_likeness, cosines
from lrmc.methods.in_time.check import checked
from lrmc.methods.in_time.clock import even_clock, read_clock
from lrmc.methods.in_time.gaps import gaps_elsewhere, gaps_for, runs
from lrmc.methods.in_time.improve import _few_begin_late
from lrmc.methods.in_time.kinds import kinds_of, stuck
from lrmc.methods.in_time.periods import find_period, longer_period, order_score
from lrmc.methods.in_time.plan import carried_out, learn_plan
from lrmc.methods.in_time.prior import (
    Prior,
    directions,
    not_taken_up,
    separable,
    smoothed,
)
from lrmc.methods.in_time.processes import (
    Process,
    folded,
    more_models,
    told_entries,
    unfolded,
)
from lrmc.methods.in_time.robust import (
    Recurring,
    around,
    fitted_mixture,
    weights_of,
)
from lrmc.methods.in_time.simple import (
    filtered,
    last_value,
    linear,
    slot_mean,
    slot_medians,
)
from lrmc.methods.in_time.sizes import median
from lrmc.methods.in_time.smooth import reconsidered
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
from lrmc.methods.in_time.sweeps import fit, fit_moved, of_more_sensors, refolded
from lrmc.methods.in_time.systems import System, White, regressed
from lrmc.methods.in_time.windows import in_windows, middle_window, windows
from lrmc.observations import as_observations
from lrmc.observations.base import Sample
from lrmc.observations.heldout import Submatrix

S, D, P = 12, 15, 24


def seasonal(seed=0, days=D, noise=0.3, sensors=S):
    """Sensors that share a day's shape, each with a slow process of its own."""
    rng = np.random.default_rng(seed)
    t = np.arange(days * P)
    shapes = np.stack([np.sin(2 * np.pi * t / P), np.cos(4 * np.pi * t / P)])
    shared = rng.standard_normal((sensors, 2)) @ shapes * 3
    own = np.cumsum(rng.standard_normal((sensors, len(t))), axis=1)
    own -= own.mean(1, keepdims=True)
    level = 40 + 10 * rng.random((sensors, 1))
    clean = level + shared + 0.4 * own
    return clean, clean + noise * rng.standard_normal(clean.shape)


def hidden(Y, share=0.4, seed=1):
    mask = np.random.default_rng(seed).random(Y.shape) < share
    return np.where(mask, np.nan, Y), mask


def rmse(A, B, where):
    return float(np.sqrt(np.mean((A - B)[where] ** 2)))


# ---- the pieces


@pytest.mark.parametrize("slots", [8, 80])
@pytest.mark.parametrize("days", [1, 5])
def test_basis_is_orthonormal(days, slots):
    rng = np.random.default_rng(0)
    basis = Basis(np.linalg.qr(rng.standard_normal((days, days)))[0])
    x, y = rng.standard_normal((2, 3, days, slots))
    c = basis.coefficients(x)
    np.testing.assert_allclose(basis.values(c), x, atol=1e-12)
    np.testing.assert_allclose(np.vdot(c, basis.coefficients(y)), np.vdot(x, y))


def test_few_slots_have_the_cosines_of_the_transform():
    want = fft.dct(np.eye(18), norm="ortho", axis=0)
    np.testing.assert_allclose(cosines(18, np.dtype(np.float32)), want, atol=1e-6)


def test_days_by_likeness():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((4, 4))
    C = A @ A.T
    means = [np.mean([C[i, i + k] for i in range(4 - k)]) for k in range(4)]
    want = np.array([[means[abs(i - j)] for j in range(4)] for i in range(4)])
    np.testing.assert_allclose(by_distance(C), want)
    days = by_likeness(C, samples=1e12).days
    diagonal = days.T @ C @ days
    np.testing.assert_allclose(diagonal, np.diag(np.diag(diagonal)), atol=1e-6)
    assert np.all(np.diff(np.diag(diagonal)) <= 1e-9)


def small_system(seed=2):
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    own = rng.uniform(0.5, 2, (3, 4))
    prior = Prior(A, own, own + rng.uniform(1, 3, (2, 3, 4)))
    basis = Basis(np.linalg.qr(rng.standard_normal((3, 3)))[0])
    weights = rng.uniform(0, 1, (5, 3, 4)) * (rng.random((5, 3, 4)) < 0.6)
    return System(basis, prior, weights, 0.3), rng


def dense_of(apply, shape):
    """The matrix of a linear map, column by column."""
    n = int(np.prod(shape))
    return np.stack([apply(e.reshape(shape)).ravel() for e in np.eye(n)], axis=1)


def test_a_system_is_what_it_says():
    system, _ = small_system()
    shape = system.weights.shape
    Q = dense_of(system.basis.values, shape)
    covariance = np.zeros((60, 60))
    index = np.arange(60).reshape(shape)
    A, own, along = system.prior
    for j in range(3):
        for f in range(4):
            at = index[:, j, f]
            mode = own[j, f] * (np.eye(5) - A @ A.T) + A @ np.diag(along[:, j, f]) @ A.T
            covariance[np.ix_(at, at)] = mode
    want = Q.T @ np.diag(system.weights.ravel()) @ Q
    want += system.noise * np.linalg.inv(covariance)
    np.testing.assert_allclose(dense_of(system.times, shape), want, atol=1e-10)


def test_conjugate_gradients_solve_it():
    system, rng = small_system()
    b = rng.standard_normal(system.weights.shape)
    H = dense_of(system.times, b.shape)
    want = np.linalg.solve(H, b.ravel()).reshape(b.shape)
    np.testing.assert_allclose(system.solved(b, None, small=1e-24), want, atol=1e-8)
    from_near = system.solved(b, want + 0.1, small=1e-24)
    np.testing.assert_allclose(from_near, want, atol=1e-8)


def test_draws_have_the_covariance_of_the_posterior():
    system, rng = small_system()
    H = dense_of(system.times, system.weights.shape)
    want = system.noise * np.linalg.inv(H)
    draws = []
    for _ in range(2000):
        white = White.of(rng, system.weights)
        draws += [system.drawn(x).ravel() for x in (white, white.dealt(rng))]
    draws = np.stack(draws)
    found = draws.T @ draws / len(draws)
    assert np.linalg.norm(found - want) < 0.15 * np.linalg.norm(want)


def test_directions_separable_and_smoothed():
    rng = np.random.default_rng(3)
    parts = list(rng.standard_normal((2, 6, 3, 7)))
    flat = np.concatenate([x.reshape(6, -1) for x in parts], axis=1)
    U = np.linalg.svd(flat)[0][:, :2]
    A = directions(parts, 2)
    np.testing.assert_allclose(A @ A.T, U @ U.T, atol=1e-10)
    many = 100 * np.outer(rng.random(60), rng.random(20))[:, None, :]
    many = many + rng.standard_normal(many.shape)
    near = np.linalg.qr(rng.standard_normal((60, 1)))[0]
    U = np.linalg.svd(many[:, 0])[0][:, :1]
    np.testing.assert_allclose(np.abs(directions([many], 1, near).T @ U), 1, atol=1e-6)
    a, b = rng.random(3), rng.random(7)
    np.testing.assert_allclose(separable(np.outer(a, b)), np.outer(a, b))
    np.testing.assert_allclose(smoothed(np.full((2, 30), 4.0)), 4.0)


def test_what_is_around_leaves_the_entry_out():
    rng = np.random.default_rng(4)
    e = rng.standard_normal((3, 2, 20))
    seen = rng.random(e.shape) < 0.7
    typical = np.median(np.abs(e[seen]))
    found = around(e, seen)
    for s, d, p in np.ndindex(e.shape):
        near = [q for q in range(p - 4, p + 5) if q != p and 0 <= q < 20]
        sizes = sorted(abs(e[s, d, q]) for q in near if seen[s, d, q])
        want = typical
        if len(sizes) >= 3:
            half = sizes[(len(sizes) - 1) * 2 // 5] / 2
            want = min(max(half, typical), 5 * typical)
        assert found[s, d, p] == pytest.approx(want)


def test_the_mixture_tells_gross_errors():
    rng = np.random.default_rng(5)
    e = rng.standard_normal(20_000)
    gross = rng.random(len(e)) < 0.1
    e[gross] = rng.uniform(20, 200, gross.sum())
    found = fitted_mixture(np.abs(e))
    assert found.deviation == pytest.approx(1, rel=0.05)
    assert found.good(np.abs(e[gross])).max() < 0.01
    assert found.good(np.abs(e[~gross])).mean() > 0.95


def test_what_became_of_the_same_value_elsewhere_counts():
    rng = np.random.default_rng(6)
    Y = rng.standard_normal((6, 10, 20))
    Y[rng.random(Y.shape) < 0.1] = 50.0
    Y[0, 0, :3] = Y[1, 1, 1], np.nan, 50.0
    seen = ~np.isnan(Y)
    good = rng.random(int(seen.sum()))
    alike = Recurring.of(Y)
    shares, values = alike.shares(good, 0.9), Y[seen]
    for i in range(len(values)):
        others = good[(values == values[i]) & (np.arange(len(values)) != i)]
        want = (9 + others.sum()) / (10 + len(others))
        assert shares[i] == pytest.approx(want)
    # two of them that the fit follows: residuals of nothing, all others are far off
    residual = np.where(Y == 50.0, 50.0, 0.3 * Y)
    followed = (Y == 50.0) & (np.cumsum(Y.ravel() == 50.0).reshape(Y.shape) <= 2)
    residual[followed] = 0.0
    residual[~seen] = 0.0
    found = weights_of(residual, seen, alike)
    assert found[followed].max() < 0.5
    assert found[seen & (Y != 50.0)].mean() > 0.9
    assert (found[~seen] == 0).all()


def test_a_day_unlike_all_others_is_no_gross_error():
    rng = np.random.default_rng(7)
    residual = rng.standard_normal((6, 10, 20))
    Y = 100 + residual
    gross = rng.random(Y.shape) < 0.1
    residual[gross] = rng.choice([-80, 60], gross.sum())
    residual[2, 3] += 40 + 5 * np.sin(np.arange(20) / 4)  # a day that is another
    residual[4, 5] -= 40  # a sensor that is stuck
    Y = Y + residual
    Y[4, 5] = 60.0
    gross[4, 5] = True
    found = weights_of(residual, np.ones(Y.shape, bool), Recurring.of(Y))
    assert found[2, 3][~gross[2, 3]].min() > 0.5
    assert found[gross].max() < 0.5
    assert found[~gross].mean() > 0.9


# ---- what anybody would try first


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


# ---- gaps, periods, clocks


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


def test_whole_days_begin_with_what_other_sensors_say():
    rng = np.random.default_rng(14)
    slots, days = 96, 6
    walks = np.cumsum(rng.standard_normal((3, days * slots)), axis=1)
    walks *= 5 / walks.std(1, keepdims=True)
    clean = rng.standard_normal((40, 3)) @ walks
    whole = np.repeat(rng.random((40, days)) < 0.1, slots, axis=1)
    Y = clean + 0.5 * rng.standard_normal(clean.shape)
    G = folded(np.where(whole, np.nan, Y).astype(np.float32), slots)
    some = np.arange(0, 40, 2)
    of_all, of_some = fit(G, robust=False), fit(G[some], robust=False)
    for found in (
        fit_moved(G, of_all, robust=False),
        of_more_sensors(of_some, G, some, robust=False),
    ):
        # from nothing, about 0.5 and 0.4
        missed = rmse(unfolded(found.values(), days * slots), clean, whole)
        assert missed < 0.25 * clean.std()


def test_weighted_regressions_against_a_loop():
    rng = np.random.default_rng(14)
    F, w, Z = rng.random((9, 3)), rng.random((9, 5)), rng.random((9, 5))
    ridge = np.array([0.1, 0.2, 0.3])
    for k, found in enumerate(regressed(F, w, Z, ridge).T):
        normal = F.T @ (w[:, k, None] * F) + np.diag(ridge)
        np.testing.assert_allclose(normal @ found, F.T @ (w[:, k] * Z[:, k]))


def test_two_sensors_share_no_direction():
    _, Y = seasonal(sensors=2)
    Z, _ = hidden(Y.astype(np.float32))
    model = fit(folded(Z, P), robust=False)
    assert model.prior.A.shape == (2, 0)
    assert np.isfinite(fit_moved(folded(Z, P), model, robust=True).values()).all()


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


# ---- the fit


def test_the_fit_beats_lines_and_slot_means():
    clean, Y = seasonal()
    Z, mask = hidden(Y)
    model = fit(folded(Z.astype(np.float32), P), robust=False)
    found = rmse(unfolded(model.values(), Z.shape[1]), clean, mask)
    assert found < 0.8 * rmse(linear(Z), clean, mask)
    assert found < 0.5 * rmse(slot_mean(Z, P), clean, mask)
    assert model.noise > 0


def test_outliers_are_weighed_down():
    clean, Y = seasonal(seed=3)
    Z, mask = hidden(Y, 0.3)
    gross = (np.random.default_rng(3).random(Z.shape) < 0.1) & ~mask
    Z[gross] = 0.0
    model = fit(folded(Z.astype(np.float32), P), robust=True)
    weights = unfolded(model.weights, Z.shape[1])
    assert weights[gross].mean() < 0.05
    assert weights[~gross & ~mask].mean() > 0.97
    found = rmse(unfolded(model.values(), Z.shape[1]), clean, mask)
    assert found < 0.3 * rmse(linear(Z), clean, mask)


def test_an_earlier_model_is_taken_up():
    clean, Y = seasonal()
    Z, mask = hidden(Y)
    begin = fit(folded(Z.astype(np.float32), P), robust=True)
    again = fit(folded(Z.astype(np.float32), P), robust=True, begin=begin)
    cold, warm = (
        rmse(unfolded(m.values(), Z.shape[1]), clean, mask) for m in (begin, again)
    )
    assert warm < 1.05 * cold


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


def test_nothing_begins_with_a_model_that_ran_away(monkeypatch):
    """Speeds with 3 % zeros: the model that told gross errors ran away, and all others after it."""
    Z = hidden(seasonal(days=6, sensors=6)[1])[0].astype(np.float32)
    G = folded(Z, P)
    model = fit(G, robust=False)
    assert model.is_sound(G)
    for c in (1e6 * model.c, np.full_like(model.c, np.nan)):
        away = replace(model, c=c)
        assert not away.is_sound(G)
        told = processes.believed(G)[0], away
        monkeypatch.setattr(processes, "believed", lambda *_, told=told: told)
        assert told_entries(Z, P).told is None
        assert processes.more_models(told_entries(Z, P), [Process(P, True)], {})


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


def test_gross_errors_are_told_once_for_all_processes():
    """By the days of a table: a process without days takes what it cannot foresee for an error."""
    _, Y = seasonal(seed=5)
    Z = hidden(Y)[0].astype(np.float32)
    gross = np.random.default_rng(5).random(Z.shape) < 0.1
    Z[gross & ~np.isnan(Z)] = 0.0
    entries = told_entries(Z, P)
    some = [Process(period, True) for period in (P, None)]
    daily, plain = (
        unfolded(m.weights, Z.shape[1]) for m in more_models(entries, some, {}).values()
    )
    assert_allclose(daily, ~np.isnan(entries.good))
    assert_allclose(daily, plain)


def test_what_goes_on_from_entries_around_it_is_no_gross_error():
    rng = np.random.default_rng(0)
    Y = np.cumsum(rng.standard_normal((6, 10, 24)), axis=2).astype(np.float32)
    Y[0, 0, 5] += 30.0
    Y[1, 1, ::6] = 40.0  # an end of the scale, here and there
    good = np.ones_like(Y)
    # doubted: a gross error, those that come again, and entries that are like those around
    good[0, 0, 5] = good[1, 1, ::6] = good[2, 2, 8:12] = 0.0
    found = reconsidered(Y, good, Recurring.of(Y))
    assert found[0, 0, 5] == 0
    assert (found[1, 1, ::6] == 0).all()
    assert (found[2, 2, 8:12] == 1).all()
    good[2, 2, 8:12] = 1
    assert_allclose(found, good)


def test_a_model_of_other_times_or_of_some_sensors_is_taken_up():
    clean, Y = seasonal(days=30, sensors=24)
    truth, some = clean[:, 15 * P :], np.arange(0, 24, 2)
    ratios = []
    for seed in (1, 2, 3):  # one mask is a matter of chance
        Z, mask = hidden(Y, seed=seed)
        Z[3, 20 * P : 22 * P], mask[3, 20 * P : 22 * P] = np.nan, True
        first, last = (folded(x.astype(np.float32), P) for x in np.hsplit(Z, 2))
        moved = fit_moved(last, fit(first, robust=True), robust=True)
        # double precision would take twice the time
        for x in (moved.c, moved.draw, moved.prior.own):
            assert x.dtype == np.float32
        of_some = fit(last[some], robust=True)
        begin = of_more_sensors(of_some, last, some, robust=True)
        models = fit(last, robust=True), moved, fit(last, robust=True, begin=begin)
        own, *others = (
            rmse(unfolded(m.values(), 15 * P), truth, mask[:, 15 * P :]) for m in models
        )
        ratios.append([x / own for x in others])
    assert np.mean(ratios, axis=0).max() < 1.15


def test_directions_do_not_take_up_all_of_a_slow_mode():
    rng = np.random.default_rng(0)
    total = np.exp(rng.standard_normal((4, 50)))
    own = 0.3 * total
    alike = not_taken_up(own, total - own)
    np.testing.assert_allclose(alike, own)
    own[0, 1] *= 1e-3  # what was seen once, and taken for shared
    found = not_taken_up(own, total - own)
    assert 0.25 * total[0, 1] < found[0, 1] < 0.3 * total[0, 1]
    assert (found >= own).all()
    assert (found <= total * (1 + 1e-12)).all()


def test_medians_leave_out_what_is_missing():
    x = np.random.default_rng(0).standard_normal((7, 9, 6))
    x[x > 0.8] = np.nan
    x[2, :, 3] = np.nan
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        want = np.nanmedian(x, axis=1)
    np.testing.assert_allclose(median(x, axis=1), want)


def test_processes_have_names():
    assert Process(24, True).name == "process, period 24, robust"
    assert Process(None, False).name == "process, no period, all entries"


# ---- solve


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


def test_intervals_hold_what_is_missing(solved):
    _, _Z, mask, result = solved
    _, Y = seasonal()
    rows, cols = np.nonzero(mask)
    lower, upper = result.interval(rows, cols, 0.9)
    inside = np.mean((Y[mask] >= lower) & (Y[mask] <= upper))
    assert 0.85 < inside < 0.95


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


def test_kinds_are_classes_and_lengths_of_gaps():
    seen = np.ones((3, 40), bool)
    seen[0, 5] = seen[0, 10:13] = seen[1, 5:20] = False
    found = kind_of(seen)
    assert np.array_equal(found % N_CLASSES, class_of(seen))
    lengths = found // N_CLASSES
    assert (lengths[0, 5], lengths[0, 11], lengths[1, 5]) == (0, 1, 3)
    assert (lengths[seen] == 0).all()


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
    # asked for, it is judged, and not used where it is of no use
    asked = lrmc.solve(Y, time="columns", period=None)
    assert not any(part.name == "time" for part in asked.beyond)
    assert "held_out" in asked.evidence["time"]


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


# ---- doors


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


# ---- streams


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


# ---- kinds of faults


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
    complete(tmp_path / "in.csv", tmp_path / "out.csv", outliers_to=out)
    listed = pandas.read_csv(out)
    assert set(listed.loc[listed["column"] == "s5", "kind"]) == {"stuck"}
    assert (listed["column"] == "s5").sum() == 31
    of_spikes = listed[listed["column"] == "s3"]
    assert len(of_spikes) >= spikes.sum()
    assert (of_spikes["kind"] == "spike").all()


# ---- real tables without an order


def ratings():
    return np.load(DATA / "ratings" / "jester5k.npz")["ratings"][:1000]


def pixels():
    images = np.load(DATA / "faces" / "extyaleb_yaleB01.npz")["images"][:, ::12, ::12]
    return hidden(images.reshape(len(images), -1).T.astype(float), 0.2)[0]


def cells():
    datasets = pytest.importorskip("sklearn.datasets")
    X = datasets.load_breast_cancer().data
    return hidden(X / X.std(0), 0.2)[0]


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


def test_a_process_begins_with_what_one_of_another_period_says():
    _, Y = seasonal(seed=6)
    Z = hidden(Y)[0].astype(np.float32)
    model = fit(folded(Z, P), robust=False)
    for period in (None, 2 * P):
        other = refolded(model, folded(Z, period))
        T = Z.shape[1]
        mine, theirs = (unfolded(m.values(), T) for m in (model, other))
        assert_allclose(theirs, mine, rtol=1e-3, atol=1e-3 * np.nanstd(Z))


def test_sweeps_end_where_the_noise_is_steady(monkeypatch):
    sweeps = []
    one = lrmc.methods.in_time.sweeps.swept
    monkeypatch.setattr(
        "lrmc.methods.in_time.sweeps.swept",
        lambda *args, **more: sweeps.append(one(*args, **more)) or sweeps[-1],
    )
    Z = folded(hidden(seasonal(seed=7)[1])[0].astype(np.float32), P)
    begin = fit(Z, robust=False)
    first = len(sweeps)
    fit(Z, robust=False, begin=begin)
    assert first <= 12
    assert len(sweeps) - first < first


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
    assert part.together(Sample(rows, cols, Z[rows, cols])) == 6 * len(Z)

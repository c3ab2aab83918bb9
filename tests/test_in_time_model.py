"""The model of tables with time, against slow references that share no code with it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import fft
from times import P, hidden, rmse, seasonal

import lrmc
from lrmc import _kernels
from lrmc.methods.in_time import processes
from lrmc.methods.in_time.basis import Basis, by_distance, by_likeness, cosines
from lrmc.methods.in_time.nights import Nights
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
    linear,
    slot_mean,
)
from lrmc.methods.in_time.sizes import median
from lrmc.methods.in_time.smooth import reconsidered
from lrmc.methods.in_time.sweeps import fit, fit_moved, of_more_sensors, refolded
from lrmc.methods.in_time.systems import System, White, regressed


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_passes_over_coefficients_are_what_they_say(dtype):
    rng = np.random.default_rng(0)
    shape = (5, 7, 83)  # neither whole vectors nor whole blocks of them
    x, y, z = (rng.standard_normal(shape).astype(dtype) for _ in range(3))
    times = rng.random(shape[1:]).astype(dtype)
    tol = 20 * np.finfo(dtype).eps
    for of, more in ((None, y), (times, times * y)):
        found = x.copy()
        product = _kernels.add(found, y, toward=z, times=of)
        assert_allclose(found, x + more, atol=tol)
        exact = np.vdot((x + more).astype(float), z.astype(float))
        assert_allclose(product, exact, atol=tol * x.size**0.5)
    found = x.copy()
    _kernels.mix(found, y, a=0.5, b=-2.0)
    assert_allclose(found, 0.5 * x - 2 * y, atol=tol)
    with pytest.raises(ValueError, match="another size"):
        _kernels.mix(found, y[:4], a=1.0, b=1.0)


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
    """In the mean of three tables: what is drawn at random in a fit is some percent of its error."""
    missed = []
    for seed in range(3):
        clean, Y = seasonal(seed, days=8)
        Z, mask = hidden(Y, seed=seed + 1)
        G = folded(Z.astype(np.float32), P)
        begin = fit(G, robust=True)
        again = fit(G, robust=True, begin=begin)
        found = (unfolded(m.values(), Z.shape[1]) for m in (begin, again))
        missed.append([rmse(X, clean, mask) for X in found])
    cold, warm = np.mean(missed, axis=0)
    assert warm < 1.05 * cold


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


def test_a_process_begins_with_what_one_of_another_period_says():
    _, Y = seasonal(seed=6)
    Z = hidden(Y)[0].astype(np.float32)
    days, T = Process(P, False), Z.shape[1]
    model = fit(days.days_of(Z), robust=False)
    nights = Nights(P, first=0, steps=3)
    for p in (
        Process(None, False),
        Process(2 * P, False),
        Process(None, False, nights),
    ):
        other = refolded(model, p.days_of(Z), partial(p.begun, other=days, T=T))
        mine, theirs = days.times_of(model.values(), T), p.times_of(other.values(), T)
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

"""What is put under clouds: the factor model, and the contest of the ways to fill."""

import numpy as np
import pytest

from lrmc.apps.clouds import contest, factors, ways

YEAR = 365.25


def series(T=12, bands=2, n=200, rank=2, noise=0.02, seed=0):
    """Values of low rank, T x bands x n, a third of them hidden."""
    rng = np.random.default_rng(seed)
    R = 1 + 0.5 * rng.standard_normal((T, rank))
    L = 1 + 0.5 * rng.standard_normal((bands, n, rank))
    truth = np.einsum("ti,bni->tbn", R, L)
    there = rng.random((T, n)) < 0.67
    return truth, truth + noise * rng.standard_normal(truth.shape), there


def naive_pixel(y, there, model, b):
    """The mean of l given the values of one pixel, by the formula of the normal distribution."""
    R, S = model.R[there], np.diag(model.variance[there, b])
    C, m = model.covariance[b], model.mean[b]
    gain = C @ R.T @ np.linalg.inv(R @ C @ R.T + S)
    return m + gain @ (y[there] - R @ m)


def test_pixels_are_those_of_the_normal_distribution():
    _, Y, there = series()
    model = factors.learned(Y, there, 2, rounds=5)
    kinds = factors.Kinds.of(there)
    assert kinds.dates.shape[1] < 200  # some are of the same kind
    pixels = factors.pixels(Y, kinds, model)
    without = factors.without_itself(Y, kinds, model)
    says = factors.left_out(Y, kinds, model, model.R)
    for b in range(2):
        found, left, said = pixels.mean[b], without[:, b], says[:, b]
        for n in range(0, 200, 40):
            expected = naive_pixel(Y[:, b, n], there[:, n], model, b)
            np.testing.assert_allclose(found[n], expected, rtol=1e-5)
            for t in np.flatnonzero(there[:, n])[:3]:
                others = there[:, n].copy()
                others[t] = False
                expected = naive_pixel(Y[:, b, n], others, model, b)
                np.testing.assert_allclose(left[t, n], expected, rtol=1e-4, atol=1e-6)
                assert said[t, n] == pytest.approx(model.R[t] @ expected, rel=1e-4)


def test_likelihood_rises_from_round_to_round():
    """What expectation and maximization promise, of the values that were seen."""
    _, Y, there = series(T=8, n=60, noise=0.3)
    likelihoods = []
    for rounds in (1, 3, 6, 12, 24):
        model = factors.learned(Y, there, 2, rounds=rounds)
        total = 0.0
        for b in range(2):
            for n in range(60):
                some = there[:, n]
                R = model.R[some]
                S = R @ model.covariance[b] @ R.T + np.diag(model.variance[some, b])
                away = Y[some, b, n] - R @ model.mean[b]
                total -= np.linalg.slogdet(S)[1] + away @ np.linalg.solve(S, away)
        likelihoods.append(total)
    # the noise of a date is drawn to that of all, so that the last rounds may lose a little
    assert np.all(np.diff(likelihoods) > -1e-3 * abs(likelihoods[0]))
    assert likelihoods[-1] > likelihoods[0]


def test_a_noisy_date_hardly_counts():
    truth, Y, there = series(T=10, noise=0.01)
    rng = np.random.default_rng(1)
    Y[4] += 3 * rng.standard_normal(Y[4].shape)
    model = factors.learned(Y, there, 2)
    noise = np.sqrt(model.variance)
    assert np.all(noise[4] > 20 * np.median(noise, axis=0))
    found = factors.fitted(Y, factors.Kinds.of(there), model, model.R)
    others = np.arange(10) != 4
    off = (found - truth)[others]
    hidden = np.repeat(~there[others, None], 2, axis=1)
    assert np.sqrt(np.mean(off[hidden] ** 2)) < 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_the_median_of_others_is_that_of_a_naive_loop(seed):
    rng = np.random.default_rng(seed)
    Y = rng.integers(0, 9, (7, 2, 30)).astype(float)  # with ties
    clear = rng.random((7, 30)) < 0.5
    found = ways.median_of_others(Y, clear)
    for t, b, n in np.ndindex(Y.shape):
        some = clear[:, n].copy()
        some[t] = False
        expected = np.median(Y[some, b, n]) if some.any() else 0.0
        assert found[t, b, n] == expected


@pytest.mark.parametrize("seed", [0, 1])
def test_the_line_is_that_of_a_naive_loop(seed):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((9, 2, 12))
    clear = rng.random((9, 12)) < 0.4
    days = rng.permutation(40)[:9].astype(float)
    found = ways.line(Y, clear, days)
    for t, b, n in np.ndindex(Y.shape):
        known = sorted((s for s in range(9) if clear[s, n] and s != t), key=days.item)
        ends = [s for s in known if days[s] < days[t]][-1:]
        ends += [s for s in known if days[s] > days[t]][:1]
        expected = np.interp(days[t], days[ends], Y[ends, b, n]) if ends else 0.0
        assert found[t, b, n] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_the_best_of_a_grid(seed):
    errors = np.random.default_rng(seed).standard_normal((3, 50)) + 0.3
    gram = errors @ errors.T
    w = contest._weights(gram[None])[0]
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1)
    steps = np.linspace(0, 1, 41)
    grid = [
        np.array([a, b, 1 - a - b]) for a in steps for b in steps if a + b <= 1 + 1e-12
    ]
    assert w @ gram @ w <= min(x @ gram @ x for x in grid) + 1e-6


def test_the_contest_is_won_by_what_is_true():
    """Low rank where that is how values are made; nor worse than a line where pixels wander."""
    rng = np.random.default_rng(0)
    days = np.arange(12.0) * 10
    nothing = np.zeros(12, bool)
    _, Y, there = series()
    filling = contest.contested(Y, there, days, nothing, least=1e-4)
    assert filling.weights[..., ways.OF_UNSEEN :].sum(-1).min() > 0.9
    T, n = 24, 400
    walk = np.cumsum(rng.standard_normal((T, 1, n)), axis=0)
    there = rng.random((T, n)) < 0.7
    days, nothing = np.arange(T) * 1.0, np.zeros(T, bool)
    filling = contest.contested(walk, there, days, nothing, least=1e-4)
    off = (filling.predicted(walk, there) - walk)[:, 0][~there]
    line = (filling.ways.predictions(walk, there, 0) - walk)[:, 0][~there]
    assert np.mean(off**2) < 1.05 * np.mean(line**2)


def test_each_band_has_weights_of_its_own():
    """Of two bands, pixels wander in one, and are of low rank in the other."""
    rng = np.random.default_rng(1)
    T, n = 24, 300
    walk = np.cumsum(rng.standard_normal((T, n)), axis=0)
    low = rng.standard_normal((T, 2)) @ rng.standard_normal((2, n))
    Y = np.stack([walk, low + 0.05 * rng.standard_normal((T, n))], axis=1)
    there = rng.random((T, n)) < 0.7
    nothing = np.zeros(T, bool)
    filling = contest.contested(Y, there, np.arange(T) * 1.0, nothing, least=1e-4)
    of_line = filling.weights[..., ways.LINE].mean(0)
    assert of_line[0] > 0.3
    assert of_line[1] < 0.05


@pytest.mark.parametrize("seed", range(2))
def test_a_hidden_date_is_as_good_as_the_best_simple_way(seed):
    """A season that comes and goes: whole dates that nobody saw."""
    rng = np.random.default_rng(seed)
    days = np.sort(rng.choice(720, 30, replace=False)).astype(float)
    angle = 2 * np.pi * days / YEAR
    shape = rng.standard_normal((3, 2, 300))
    truth = 5 + shape[0] + np.multiply.outer(np.cos(angle), shape[1])
    Y = truth + 0.05 * rng.standard_normal(truth.shape)
    there = rng.random((30, 300)) < 0.7
    hidden = np.zeros(30, bool)
    hidden[[7, 15, 22]] = True
    filling = contest.contested(Y, there, days, hidden, least=1e-4)
    assert not filling.weights[hidden][..., ways.OF_UNSEEN :].any()
    answers = [filling.predicted(Y, there)]
    clear = there & ~hidden[:, None]
    answers += [filling.ways.predictions(Y, clear, k) for k in range(3)]
    ours, *simple = (np.mean((X - truth)[hidden] ** 2) for X in answers)
    assert ours < 1.25 * min(simple)
    unsure = filling.deviations(Y, there, np.full(2, 0.05))[hidden]
    assert unsure.min() > 0


def test_how_far_away_a_value_is_comes_in_standard_deviations():
    """Each date has its own: one is ten times as noisy as the others."""
    _, Y, there = series(T=10, n=400)
    rng = np.random.default_rng(1)
    Y[3] += 0.2 * rng.standard_normal(Y[3].shape)
    spoiled = Y.copy()
    spoiled[:, :, ::40] += 0.4  # twenty deviations of most dates, two of the fourth
    days, nothing = np.arange(10.0), np.zeros(10, bool)
    filling = contest.contested(spoiled, there, days, nothing, least=1e-4)
    away = np.abs(filling.away(Y, there)[0])
    within = [np.mean(away[t][:, there[t]] < 1) for t in range(10)]
    assert np.all(np.abs(np.array(within) - 0.68) < 0.12)
    one = Y.copy()
    one[:, :, 0] += 0.4
    seen = there.copy()
    seen[:, 0] = True
    for t in range(10):
        alone = np.where(np.arange(10)[:, None, None] == t, one, Y)[..., :1]
        far = np.abs(filling.away(alone, seen[:, :1])[0])[t].max() > 5
        assert far == (t != 3)


def test_what_nobody_saw_is_the_usual_value():
    _, Y, there = series(T=5, n=40)
    there[:, 0] = False
    filling = contest.contested(Y, there, np.arange(5.0), np.zeros(5, bool), least=1e-4)
    assert np.isfinite(filling.predicted(Y, there)).all()
    median = filling.ways.predictions(Y, there, 1)[:, :, 0]
    usual = [np.median(Y[:, b][there]) for b in range(2)]
    np.testing.assert_allclose(median, np.tile(usual, (5, 1)))

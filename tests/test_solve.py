"""solve and iterates: the contract, how a run ends, and what it must not depend on."""

import warnings
from itertools import islice

import numpy as np
import pytest
import reference
from comparing import assert_close
from each import each

import lrmc
from lrmc import ConvergenceWarning, DoubtWarning, Schedule, Status

GEOMETRIC = Schedule.named("geometric")


every_method = pytest.mark.parametrize("method", ["closed_loop", "lrmc"])


@pytest.fixture(scope="module")
def problem():
    return lrmc.synthetic.problem(n=200, n2=150, rank=3, alpha=0.1, p=0.5)


def forever(eta, zeta=3.0, phi=1.0):
    """Constant steps, in relative units."""
    return Schedule((zeta,), (), tail=(phi, 1.0), eta_0=eta)


@pytest.mark.parametrize("shape", [(300, 300), (500, 60), (60, 500)], ids=str)
@pytest.mark.parametrize("p", [0.5, 1.0])
@every_method
def test_recovers(method, shape, p):
    problem = lrmc.synthetic.problem(n=shape[0], n2=shape[1], rank=2, alpha=0.05, p=p)
    result = lrmc.solve(problem.Y, rank=2, method=method, tol=1e-7)
    assert result.status is Status.CONVERGED
    assert result.converged
    assert lrmc.relative_error(result, problem) < 1e-6


@every_method
def test_the_contract(method, problem):
    result = lrmc.solve(
        problem.Y, rank=3, method=method, tol=1e-5, max_iter=100, seed=0
    )
    assert (result.L.shape, result.R.shape, result.rank) == ((200, 3), (150, 3), 3)
    assert result.shape == (200, 150)
    assert result.n_iter == result.history[-1].k
    assert result.tol == 1e-5
    assert result.method == method
    assert [record.k for record in result.history] == list(range(result.n_iter + 1))
    assert np.isnan(result.history[0].change)
    assert np.isnan(result.history[0].inliers)
    assert all(0 <= record.inliers <= 1 for record in result.history[1:])
    seconds = [record.seconds for record in result.history]
    assert seconds == sorted(seconds)
    assert "CONVERGED" in repr(result)
    assert len(repr(result)) < 300  # no arrays


def test_thresholds_and_end_of_lrmc(problem):
    history = lrmc.solve(problem.Y, rank=3, method="lrmc", tol=1e-5).history
    zetas = [record.zeta for record in history]
    assert np.divide(zetas[1:], zetas[:-1]) == pytest.approx(0.85)
    assert zetas[0] == pytest.approx(3 * lrmc.as_observations(problem.Y).scale)
    assert history[-1].change < 1e-5 <= history[-2].change


@every_method
def test_iterates_are_those_of_solve(method, problem):
    """Where somebody looks: otherwise a kernel solves small matrices at once."""
    result = lrmc.solve(problem.Y, rank=3, method=method, progress=print)
    its = list(
        islice(lrmc.iterates(problem.Y, rank=3, method=method), result.n_iter + 1)
    )
    assert its[0].k == 0
    assert [it.change for it in its[1:]] == [
        record.change for record in result.history[1:]
    ]
    np.testing.assert_array_equal(its[-1].L, result.L)
    np.testing.assert_array_equal(its[-1].R, result.R)
    change = reference.change((its[-2].L, its[-2].R), (its[-1].L, its[-1].R))
    assert its[-1].change == pytest.approx(change, rel=1e-6)


def test_progress_sees_every_iterate(problem):
    seen = []
    result = lrmc.solve(problem.Y, rank=3, progress=seen.append)
    assert [it.k for it in seen] == [record.k for record in result.history]
    np.testing.assert_array_equal(seen[-1].L, result.L)


def test_schedules_by_name_and_by_value(problem):
    by_name, by_value = (
        lrmc.solve(problem.Y, 3, schedule=schedule)
        for schedule in ("geometric", GEOMETRIC)
    )
    np.testing.assert_array_equal(by_name.L, by_value.L)
    np.testing.assert_array_equal(by_name.L, lrmc.solve(problem.Y, 3, method="lrmc").L)
    assert by_name.method == "lrmc"
    assert lrmc.solve(problem.Y, 3).method == "closed_loop"
    with pytest.raises(
        ValueError, match=r"schedule= was given with method='closed_loop'"
    ):
        lrmc.solve(problem.Y, 3, method="closed_loop", schedule="geometric")


# ---- how runs end


def ended(how, *args, **kwargs):
    """Solve, and check that the one warning says how it ended, at the caller's line."""
    with pytest.warns(ConvergenceWarning, match="iterations") as caught:
        result = lrmc.solve(*args, **kwargs)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result.status is how
    assert not result.converged
    assert how.meaning in str(caught[0].message)
    assert f"after {result.n_iter} iterations" in str(caught[0].message)
    assert np.isfinite(result.L).all()
    assert np.isfinite(result.R).all()
    return result


def test_max_iter(problem):
    assert ended(Status.MAX_ITER, problem.Y, 3, method="lrmc", max_iter=4).n_iter == 4


def panel(seed, n=240):
    """A table as it is found: years, regions of very different size, prices."""
    rng = np.random.default_rng(seed)
    year, region = np.repeat(np.arange(n // 24), 24), np.arange(n) % 24
    size = np.exp(1.2 * rng.standard_normal(24))[region]
    tax = 20 + 2 * year + 4 * rng.standard_normal(n)
    e = rng.standard_normal((5, n))
    columns = [
        1985.0 + year,
        1 + 0.03 * year,
        size * 1e6 * np.exp(0.02 * e[0]),
        120 - tax + 8 * e[1],
        size * 1e7 * (1 + 0.05 * year) * np.exp(0.1 * e[2]),
        80 + 1.5 * tax + 3 * e[3],
        tax,
        tax + 1 + 0.5 * e[4],
    ]
    X = np.stack(columns, axis=1)
    return X / np.subtract(*np.quantile(X, [0.75, 0.25], axis=0))


@pytest.mark.parametrize("seed", [3, 4])
def test_a_loop_that_does_not_settle_gives_way_to_the_noisy_model(seed):
    """What it leaves after max_iter passes was up to 2,000 deviations off."""
    X = panel(seed)
    hidden = np.random.default_rng(seed).random(X.shape) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        result = lrmc.solve(np.where(hidden, np.nan, X), time=None)
    off, simple = (
        np.abs(guess - X)[hidden].mean()
        for guess in (result.completed(), np.median(X, 0))
    )
    assert off < 0.8 * simple
    assert result.regime == "noisy"
    assert [line.k for line in result.history] == list(range(len(result.history)))
    assert all(np.diff([line.seconds for line in result.history]) >= 0)


def test_schedule_ended(problem):
    assert (
        ended(
            Status.SCHEDULE_ENDED,
            problem.Y,
            3,
            schedule=Schedule((3, 2, 1), (0.5, 0.5)),
        ).n_iter
        == 2
    )
    assert (
        ended(Status.SCHEDULE_ENDED, problem.Y, 3, schedule=Schedule((3,), ())).n_iter
        == 0
    )


def test_stalled_on_noise():
    """The threshold falls below the noise: the steps become small, but not because the
    fit is good.
    """
    noisy = lrmc.synthetic.problem(n=150, rank=3, alpha=0.1, p=1.0, noise=0.3)
    result = ended(Status.STALLED, noisy.Y, 3, method="lrmc", max_iter=300)
    assert result.history[-1].inliers < 0.25


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_diverged(problem, dtype):
    """The last sound iterate is kept."""
    Y = problem.Y.astype(dtype)
    result = ended(
        Status.DIVERGED, Y, 3, method="lrmc", schedule=forever(eta=1e4, zeta=1e9)
    )
    start = next(lrmc.iterates(Y, 3, schedule=forever(1.0, zeta=1e9)))
    assert np.linalg.norm(result.low_rank()) <= 1e3 * np.linalg.norm(
        start.L @ start.R.T
    )


@pytest.mark.parametrize(
    ("dtype", "eta"), [(np.float32, 1e25), (np.float32, 1e200), (np.float64, 1e200)]
)
def test_diverged_beyond_all_numbers(problem, dtype, eta):
    ended(
        Status.DIVERGED,
        problem.Y.astype(dtype),
        3,
        method="lrmc",
        schedule=forever(eta, zeta=1e9),
    )


def test_one_column_far_beyond_the_others_is_no_divergence():
    """The first steps know nothing of it: the norm of the model grows a thousandfold."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1)) @ rng.standard_normal((1, 8))
    Y = X + 0.1 * rng.standard_normal(X.shape)
    Y[:, 2] += 1e6
    gaps = rng.random(X.shape) < 0.2
    with pytest.warns(DoubtWarning, match="plain regression alone"):
        result = lrmc.solve(np.where(gaps, np.nan, Y))
    assert result.status is Status.CONVERGED
    assert np.abs(result.completed() - Y)[gaps].mean() < 0.8  # entries are 0.6 in size


def test_a_schedule_made_for_other_data_is_noticed(problem):
    """Absolute thresholds a thousand times too small."""
    scale = lrmc.as_observations(problem.Y).scale
    schedule = Schedule((1e-3 * scale,), (), tail=(0.5, 1), eta_0=1.0, units="absolute")
    ended(Status.STALLED, problem.Y, 3, method="lrmc", schedule=schedule)
    with pytest.warns(ConvergenceWarning, match="schedule does not fit these data"):
        result = lrmc.solve(problem.Y, 3, schedule=schedule)
    assert result.method == "closed_loop"
    assert lrmc.relative_error(result, problem) < 1e-5


def test_statuses_have_words():
    assert str(Status.MAX_ITER) == "max_iter"
    assert len({status.meaning for status in Status}) == len(Status)


# ---- what it must not depend on


@each("k", [-100, -7, 1, 50, 200])
@every_method
def test_multiples_of_four_are_exact(method, problem, k):
    """Only exponents change: X times 4^k, each factor times 2^k, to the last bit."""
    one, scaled = (
        lrmc.solve(problem.Y * 4.0**power, 3, method=method) for power in (0, k)
    )
    np.testing.assert_array_equal(scaled.L, one.L * 2.0**k)
    np.testing.assert_array_equal(scaled.R, one.R * 2.0**k)
    assert [r.change for r in scaled.history[1:]] == [r.change for r in one.history[1:]]


@each("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1e-30, 1e30, 3.7, -1.0])
@every_method
def test_units_do_not_matter(method, problem, factor, dtype):
    Y = problem.Y.astype(dtype)
    one, scaled = (
        lrmc.solve(Y * dtype(f), 3, method=method, tol=1e-5) for f in (1, factor)
    )
    assert scaled.n_iter == one.n_iter
    assert_close(scaled.low_rank() / dtype(factor), one.low_rank(), dtype, factor=1e3)


@every_method
def test_transposed(method, problem):
    one, flipped = (
        lrmc.solve(Y, 3, method=method, tol=1e-8) for Y in (problem.Y, problem.Y.T)
    )
    assert lrmc.relative_error((flipped.R, flipped.L), (one.L, one.R)) < 1e-6
    assert flipped.shape == one.shape[::-1]


@every_method
def test_order_of_rows(method, problem):
    order = np.random.default_rng(0).permutation(200)
    one, moved = (
        lrmc.solve(Y, 3, method=method, tol=1e-8) for Y in (problem.Y, problem.Y[order])
    )
    assert lrmc.relative_error((moved.L, moved.R), (one.L[order], one.R)) < 1e-6


@every_method
def test_seed(method, problem):
    one, again, other = (
        lrmc.solve(problem.Y, 3, method=method, seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.L, again.L)
    assert not np.array_equal(one.L, other.L)
    assert lrmc.relative_error(other, one) < 1e-4


@every_method
def test_threads(method, problem):
    one, three = (
        lrmc.solve(problem.Y, 3, method=method, threads=threads, tol=1e-8)
        for threads in (1, 3)
    )
    assert lrmc.relative_error(three, one) < 1e-9


@every_method
def test_mask_and_nan_are_the_same(method, problem):
    dense = np.where(problem.mask, problem.Y.toarray(), np.nan)
    one = lrmc.solve(dense, 3, method=method)
    filled = np.nan_to_num(dense)
    np.testing.assert_array_equal(
        lrmc.solve(filled, 3, mask=problem.mask, method=method).L, one.L
    )
    one = lrmc.solve(dense, 3, method=method, progress=print)
    its = islice(
        lrmc.iterates(filled, 3, mask=problem.mask, method=method), one.n_iter + 1
    )
    np.testing.assert_array_equal(list(its)[-1].L, one.L)


def test_the_input_float_type_is_kept(problem):
    for dtype in (np.float32, np.float64):
        result = lrmc.solve(problem.Y.astype(dtype), 3, tol=1e-5)
        assert result.L.dtype == result.R.dtype == dtype
        assert lrmc.relative_error(result, problem) < 1e-4


def test_the_input_is_not_changed(problem):
    Y = problem.Y.toarray()
    before = Y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lrmc.solve(Y, 3, max_iter=5)
    np.testing.assert_array_equal(Y, before)

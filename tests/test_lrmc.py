"""Algorithm 1: the naive one, the theorem, the published schedules, every presentation."""

from itertools import islice

import numpy as np
import pytest
import reference
from comparing import assert_close
from each import each
from presentations import every_storage, small
from real_data import DATA

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.lrmc import lrmc as algorithm
from lrmc.methods.step import Start
from lrmc.schedule import Layer, Schedule

PUBLISHED = DATA / "official_schedules"


def layers(K, momentum):
    return [Layer(2.0 * 0.7**k, 0.6 + 0.02 * k, momentum * k / K) for k in range(K)]


@each("momentum", [0.0, 0.3])
@each("tangent", [False, True])
@each("p", [1.0, 0.6, 0.15])
def test_iterates_are_those_of_the_naive_algorithm(p, tangent, momentum):
    rng = np.random.default_rng(0)
    Y, mask = rng.standard_normal((50, 40)), rng.random((50, 40)) < p
    start = Factors(rng.standard_normal((50, 3)), rng.standard_normal((40, 3)))
    obs = lrmc.as_observations(np.where(mask, Y, np.nan))
    K = 8
    slow = list(reference.algorithm1(Y, mask, *start, layers(K, momentum), tangent))
    first, *fast = algorithm(obs, Start(start, 9.0), layers(K, momentum), tangent)
    assert first.L is start.L
    assert (first.zeta, len(fast)) == (9.0, K)
    for step, (L, R, S), layer in zip(fast, slow, layers(K, momentum), strict=True):
        assert_close(step.L, L, factor=1e3)
        assert_close(step.R, R, factor=1e3)
        assert step.zeta == layer.zeta
        assert step.inliers == pytest.approx(1 - np.count_nonzero(S) / mask.sum())


def test_tangent_and_momentum_do_something():
    """Otherwise the test above would compare a thing with itself."""
    rng = np.random.default_rng(0)
    start = Factors(rng.standard_normal((50, 3)), rng.standard_normal((40, 3)))
    obs = lrmc.as_observations(rng.standard_normal((50, 40)))
    ends = [
        list(algorithm(obs, Start(start, 9.0), layers(4, m), tangent))[-1].L
        for m in (0, 0.3)
        for tangent in (False, True)
    ]
    for i in range(4):
        for j in range(i):
            assert np.linalg.norm(ends[i] - ends[j]) > 1e-3 * np.linalg.norm(ends[i])


@pytest.mark.parametrize("tangent", [False, True])
@pytest.mark.parametrize("units", ["absolute", "relative"])
def test_lrmc_iterates_follow_the_schedule(units, tangent):
    """From the door to the factors: units, start, head and tail as in the naive algorithm."""
    problem = lrmc.synthetic.problem(
        n=80, n2=60, rank=3, alpha=0.05, p=0.6, form="dense"
    )
    obs, Y = lrmc.as_observations(problem.Y), np.nan_to_num(problem.Y)
    schedule = Schedule(
        (3, 1.5, 0.6),
        (0.5, 0.7),
        tail=(0.6, 0.9),
        momentum=(0.1, 0.2),
        tangent=tangent,
        units=units,
    )
    if units == "absolute":
        schedule = Schedule(
            tuple(z * obs.scale for z in schedule.zeta),
            (0.9, 1.2),
            (0.6, 0.9),
            tangent,
            (0.1, 0.2),
            units=units,
        )
    zeta_unit, eta_unit = (
        (1, 1) if units == "absolute" else (obs.scale, 1 / obs.fraction)
    )
    numbers = [
        (
            schedule.zeta[k] * zeta_unit,
            schedule.eta[k - 1] * eta_unit,
            (0.1, 0.2)[k - 1],
        )
        for k in (1, 2)
    ]
    for _ in range(4):
        numbers.append((numbers[-1][0] * 0.6, numbers[-1][1] * 0.9, 0.2))
    run = lrmc.iterates(problem.Y, rank=3, schedule=schedule)
    start = next(run)
    L, R = reference.spectral(
        Y, problem.mask, 3, schedule.zeta[0] * zeta_unit, 1 / obs.fraction
    )
    assert np.linalg.norm(start.L @ start.R.T - L @ R.T) < 0.1 * np.linalg.norm(L @ R.T)
    slow = reference.algorithm1(Y, problem.mask, start.L, start.R, numbers, tangent)
    before = start
    for k, (it, (L, R, S), (zeta, _, _)) in enumerate(
        zip(run, slow, numbers, strict=False), 1
    ):
        assert it.k == k
        assert it.zeta == pytest.approx(zeta)
        assert it.inliers == pytest.approx(1 - np.count_nonzero(S) / problem.mask.sum())
        assert_close(it.L, L, factor=1e4)
        assert_close(it.R, R, factor=1e4)
        assert it.change == pytest.approx(
            reference.change((before.L, before.R), (it.L, it.R)), rel=1e-6
        )
        before = it
    assert k == 6


def oracle_run(problem, eta, count):
    """Algorithm 1 with zeta_k = |L R' - X|_inf: yields the error in units of sigma_r, and S."""
    X, obs = problem.X, lrmc.as_observations(problem.Y)
    sigma = np.linalg.svd(X, compute_uv=False)[problem.rank - 1]
    last = Factors(
        *reference.spectral(
            problem.Y, np.ones(X.shape, bool), problem.rank, np.abs(X).max(), 1.0
        )
    )

    def oracle():
        while True:  # a hair above, for rounding in |Y - L R'|
            yield Layer(
                np.abs(last.L @ last.R.T - X).max() + 1e-15 * np.abs(X).max(), eta, 0.0
            )

    yield np.linalg.norm(last.L @ last.R.T - X) / sigma, np.zeros_like(X), 1.0
    for step in islice(algorithm(obs, Start(last, 0.0), oracle()), 1, count + 1):
        S = reference.soft(problem.Y - last.L @ last.R.T, step.zeta)
        last = step
        yield np.linalg.norm(last.L @ last.R.T - X) / sigma, S, step.inliers


THEOREM = {"n": 300, "rank": 2, "alpha": 0.002, "p": 1.0}


@pytest.mark.parametrize("eta", [1 / 4, 1 / 2, 2 / 3, 3 / 4])
@pytest.mark.parametrize("seed", range(3))
def test_theorem_of_the_paper(eta, seed):
    """|L_k R_k' - X| <= 0.03 (1 - 0.6 eta)^k sigma_r, and no false outliers."""
    problem = lrmc.synthetic.problem(**THEOREM, seed=seed)
    true_support = problem.outliers != 0
    first = None
    for k, (error, S, inliers) in enumerate(oracle_run(problem, eta, 30)):
        first = error if first is None else first
        if error < 1e-11:
            break
        assert error <= 0.03 * (1 - 0.6 * eta) ** k
        assert error <= first * (1 - 0.6 * eta) ** k * (1 + 1e-9)
        assert not (S != 0)[~true_support].any()
        assert inliers >= 1 - true_support.mean()
    assert k > 10
    assert (S != 0).any()


@pytest.mark.parametrize("seed", range(3))
def test_theorem_with_the_largest_step(seed):
    """eta = 8/9: the theorem's bound holds at first, but not for ever.

    Both factors take up the part of the residual that lies in the ranges of both, so that part is
    multiplied by 1 - 2 eta = -7/9, which is slower than 1 - 0.6 eta = 0.47. The bound can hold for
    all k only up to eta = 10/13."""
    problem, eta = lrmc.synthetic.problem(**THEOREM, seed=seed), 8 / 9
    errors, supports, _ = zip(*oracle_run(problem, eta, 30), strict=True)
    for k in range(9):
        assert errors[k] <= 0.03 * (1 - 0.6 * eta) ** k
    for S in supports:
        assert not (S != 0)[problem.outliers == 0].any()
    rates = np.divide(errors[1:], errors[:-1])
    assert np.all(rates < 0.8)
    assert rates[-5:] == pytest.approx(2 * eta - 1, abs=0.02)


@pytest.mark.data
@pytest.mark.parametrize(("p", "within"), [(0.1, 26), (1, 14)])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(k, marks=pytest.mark.slow) for k in range(2, 10))]
)
def test_published_schedules(p, within, seed):
    file = PUBLISHED / f"lrmc_n3000_r5_alpha0.1_p{p}.mat"
    if not file.exists():
        pytest.skip(f"{file.name} is not here")
    problem = lrmc.synthetic.problem(n=3000, rank=5, alpha=0.1, p=p, seed=seed)
    run = lrmc.iterates(problem.Y, rank=5, schedule=Schedule.from_mat(file))
    errors = [lrmc.relative_error(it, problem) for it in islice(run, within + 1)]
    assert min(errors) < 1e-6
    assert errors[0] > 1e-3


@every_storage
def test_every_storage_gives_the_same_iterates(present, p, folder):
    """Their products: the sign of a column of both factors is free."""
    s = small(n1=40, n2=45, p=p, rank=2)
    schedule = Schedule((100, 40), (0.5 / p,), tail=(0.85, 1), units="absolute")
    plain = list(islice(lrmc.iterates(s.nan, rank=2, schedule=schedule), 12))
    Y, mask = present(s, folder)
    for it, want in zip(
        lrmc.iterates(Y, rank=2, mask=mask, schedule=schedule), plain, strict=False
    ):
        single = it.L.dtype == np.float32
        assert_close(
            it.L @ it.R.T, want.L @ want.R.T, it.L.dtype, factor=50 if single else 1e4
        )

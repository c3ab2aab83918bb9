"""The tuner of the baselines."""

import math

import pytest

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.gd import gd
from lrmc.methods.scaled_gd import scaled_gd
from lrmc.methods.step import Step
from lrmc.methods.tune import ETAS, GAMMAS, iterations, tune
from lrmc.schedule import Tuning

PROBLEMS = [lrmc.synthetic.problem(80, 2, 0.05, 1.0, seed=seed) for seed in (0, 1)]


def counted(method, tuning, most=50):
    data = [lrmc.as_observations(problem.Y) for problem in PROBLEMS]
    return [
        iterations(method(obs, 2, tuning), problem, 1e-4, most)
        for obs, problem in zip(data, PROBLEMS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("method", [scaled_gd, gd])
def test_nothing_on_the_grid_is_better(method):
    best = tune(method, PROBLEMS, tol=1e-4, most=50)
    assert best.iterations == pytest.approx(sum(counted(method, best.tuning)) / 2)
    assert best.tuning.alpha == 0.05
    others = [(gamma, eta) for gamma in (*GAMMAS, 1.6) for eta in (*ETAS, 0.8)]
    others += [
        (best.tuning.gamma + 0.05, best.tuning.eta),
        (best.tuning.gamma, best.tuning.eta + 0.05),
    ]
    for gamma, eta in others:
        assert sum(counted(method, Tuning(0.05, gamma, eta))) / 2 >= best.iterations


def test_iterations_between_two_steps():
    """Errors of 1, 0.1, 0.01, ...: the error is 10^-2.5 after two steps and a half."""
    problem = PROBLEMS[0]
    L, R = problem.X_factors

    def steps():
        error = 1.0
        while True:
            yield Step(*Factors(L * (1 + error), R), math.nan, math.nan)
            error /= 10

    assert iterations(steps(), problem, 10**-2.5, 60) == pytest.approx(2.5)
    assert iterations(steps(), problem, 2.0, 60) == 0
    assert iterations(steps(), problem, 1e-9, 5) == math.inf
    assert (
        iterations((Step(L * 1e3, R, 0.0, 0.0) for _ in range(9)), problem, 1e-9, 60)
        == math.inf
    )
    assert (
        iterations(
            (Step(L * math.nan, R, 0.0, 0.0) for _ in range(9)), problem, 1e-9, 60
        )
        == math.inf
    )


def test_a_narrow_range_is_found_on_a_finer_grid():
    """Numbers that work only between the points of the coarse grid."""
    L, R = PROBLEMS[0].X_factors

    def method(obs, rank, tuning):
        good = abs(tuning.gamma - 1.5) < 0.06 and abs(tuning.eta - 0.7) < 0.06
        error = 1.0
        while True:
            yield Step(*Factors(L * (1 + error), R), math.nan, math.nan)
            error /= 10 if good else 1

    best = tune(method, PROBLEMS[:1], tol=1e-4, most=20)
    assert (best.tuning.gamma, best.tuning.eta) == (1.5, 0.7)
    assert best.iterations == pytest.approx(4)

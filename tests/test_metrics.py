import numpy as np
import pytest
import reference

import lrmc


def test_relative_error_of_whatever_has_factors():
    problem = lrmc.synthetic.problem(n=60, n2=40, rank=3, alpha=0.05, p=1.0)
    L, R = (
        F + 0.1 * np.random.default_rng(0).standard_normal(F.shape)
        for F in problem.X_factors
    )
    want = pytest.approx(reference.relative_error(L, R, problem.X), rel=1e-12)
    start = next(lrmc.iterates(problem.Y, rank=3))
    assert lrmc.relative_error((L, R), problem) == want
    assert lrmc.relative_error((L, R), problem.X_factors) == want
    assert lrmc.relative_error(start, problem) == pytest.approx(
        reference.relative_error(start.L, start.R, problem.X)
    )
    result = lrmc.solve(problem.Y, rank=3)
    assert lrmc.relative_error(result, problem) == pytest.approx(
        np.linalg.norm(result.low_rank() - problem.X) / np.linalg.norm(problem.X),
        rel=1e-3,
    )


@pytest.mark.parametrize("step", [1e-3, 1e-8, 1e-12])
def test_small_errors_are_seen(step):
    problem = lrmc.synthetic.problem(n=50, rank=2, alpha=0, p=1.0)
    L, R = problem.X_factors
    moved = (L * (1 + step), R)
    assert lrmc.relative_error(moved, problem) == pytest.approx(step, rel=1e-2)


def test_ranks_may_differ():
    problem = lrmc.synthetic.problem(n=50, rank=4, alpha=0, p=1.0)
    L, R = problem.X_factors
    got = lrmc.relative_error((L[:, :1], R[:, :1]), problem)
    assert got == pytest.approx(reference.relative_error(L[:, :1], R[:, :1], problem.X))


def test_float32_factors_are_measured_in_double():
    problem = lrmc.synthetic.problem(n=500, rank=3, alpha=0, p=1.0)
    rounded = [F.astype(np.float32) for F in problem.X_factors]
    want = reference.relative_error(*(F.astype(float) for F in rounded), problem.X)
    assert lrmc.relative_error(rounded, problem) == pytest.approx(want, rel=1e-6)


def test_rows_that_are_elsewhere():
    da = pytest.importorskip("dask.array")
    problem = lrmc.synthetic.problem(n=60, n2=40, rank=2, alpha=0.05, p=1.0)
    result = lrmc.solve(da.from_array(problem.Y, chunks=(20, -1)), 2)
    assert lrmc.relative_error(result, problem) < 1e-5

import numpy as np
import pytest

from lrmc import _kernels, synthetic
from lrmc.linalg import Factors
from lrmc.methods.certificate import by_chance, certify, proving
from lrmc.observations import as_observations


def agreeing_by_chance(n, length, rank, border, draws, seed=0):
    """How many entries of lines that follow no pattern agree with the best of many fits."""
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((length, rank))
    values = rng.uniform(-1, 1, n * length)
    indptr = length * np.arange(n + 1)
    F, agreeing = np.zeros((n, rank)), np.empty(n, np.int64)
    places = np.tile(np.arange(length, dtype=np.int32), n)
    _kernels.consensus(indptr, places, values, G, border, draws, seed, F, agreeing, 1)
    return agreeing


@pytest.mark.parametrize(("length", "rank"), [(300, 3), (60, 2), (2000, 1)])
def test_lines_that_follow_nothing_do_not_prove_themselves(length, rank):
    border, n = 1e-3, 60
    agreeing = agreeing_by_chance(n, length, rank, border, 3000)
    needed = proving(np.full(n, length), rank, border)  # of numbers up to 1, so many are within the border
    assert (agreeing < needed).all()
    assert (agreeing > rank + 1).mean() > 0.1  # two more than the rank would not do


def test_short_lines_need_two_more_than_the_rank_and_long_ones_more():
    length = np.array([5, 12, 10**3, 10**5, 10**7])
    needed = proving(length, 1, 2e-4)
    np.testing.assert_array_equal(needed[:2], 3)
    assert (np.diff(needed[1:]) > 0).all()
    assert needed[-1] > 1.05 * 2e-4 * length[-1]
    assert (needed[2:] < 0.01 * length[2:]).all()


def test_what_agrees_by_chance_is_taken_from_the_residuals():
    p = synthetic.problem(300, 2, 0.5, 1.0, seed=0, form="dense")
    obs = as_observations(p.Y)
    size = np.abs(obs.sample.residual(p.X_factors))
    border = 1e-3 * obs.scale
    off = np.abs(p.outliers[p.outliers != 0])
    want = border / off.max()  # outliers are uniform
    assert by_chance(obs, size, border) == pytest.approx(want, rel=0.35)


def test_a_component_that_one_column_has_to_itself_proves_nothing_there():
    """It meets all entries of the column, outliers too."""
    p = synthetic.problem(60, 1, 0.1, 1.0, n2=20, seed=2, form="dense")
    L, R = p.X_factors
    own = (p.Y - L @ R.T)[:, [7]]
    X = Factors(np.hstack([L, own]), np.hstack([R, np.eye(20)[:, [7]]]))
    obs = as_observations(p.Y)
    assert 7 in certify(obs, X, 1e-6).cols
    right = certify(obs, Factors(L, R), 1e-6)
    assert right.holds
    assert len(right.cols) == 0

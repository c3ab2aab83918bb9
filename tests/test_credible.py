"""Lists of outliers with few false alarms, on noise with heavy tails that differs by column."""

import numpy as np
import pytest

import lrmc
from lrmc.complete.in_memory import credible_ones, outlying
from lrmc.evidence.credible import RATE, credible
from lrmc.observations.base import Sample


def table(seed):
    """Rank 2, Student noise with 3 degrees of freedom and a level per column, 1 % slips."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 25))
    noise = 0.05 * rng.standard_t(3, X.shape) * rng.uniform(0.5, 3, 25)
    wrong = rng.random(X.shape) < 0.01
    slips = rng.choice([-1, 1], X.shape) * rng.uniform(3, 9, X.shape)
    return X + noise + np.where(wrong, slips, 0), wrong


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_the_list_keeps_what_it_states(seed):
    Y, wrong = table(seed)
    result = lrmc.solve(Y, 2)
    everything = outlying(result)
    listed, stated = credible_ones(result, everything)
    true = wrong[listed.rows, listed.cols]
    assert true.sum() >= 0.95 * wrong.sum()  # nearly all slips are far out
    false = np.count_nonzero(~true)
    assert false < np.count_nonzero(~wrong[everything.rows, everything.cols])
    assert false <= 3 * stated + 5
    assert stated <= RATE * len(listed.rows)


def test_exact_data_have_no_false_alarms():
    problem = lrmc.synthetic.problem(100, 2, 0.1, 0.8, form="dense")
    result = lrmc.solve(problem.Y)
    listed, stated = credible_ones(result, outlying(result))
    assert stated == 0
    assert len(listed.rows) == np.count_nonzero(np.nan_to_num(problem.outliers))


def test_an_empty_list():
    result = lrmc.solve(table(0)[0], 2)
    nothing = np.zeros(0, int)
    kept, stated = credible(
        result.observations, result.factors(), Sample(nothing, nothing, np.zeros(0))
    )
    assert (len(kept), stated) == (0, 0.0)

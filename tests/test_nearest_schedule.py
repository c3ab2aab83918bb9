"""Which trained schedule fits some data, and what happens where none does."""

import numpy as np
import pytest

import lrmc
from lrmc.methods.nearest_schedule import (
    entries_per_unknown,
    misfit,
    nearest,
    trained_for,
)
from lrmc.schedule import Schedule


def problem(alpha=0.1, p=0.5, n=400, rank=5, seed=0):
    return lrmc.synthetic.problem(
        n=n, rank=rank, alpha=alpha, p=p, seed=seed, form="dense"
    )


def test_matched_sampling_makes_sizes_alike():
    small = lrmc.synthetic.Problems(3000, p=0.1).shrunk(500)
    assert entries_per_unknown((500, 500), small.p, 5) == pytest.approx(
        entries_per_unknown((3000, 3000), 0.1, 5)
    )
    assert (
        entries_per_unknown((300, 300), 0.3, 10)
        == entries_per_unknown((300, 300), 0.3, 5) / 2
    )


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_the_nearest_is_for_as_many_outliers(alpha):
    name, estimated = nearest(lrmc.as_observations(problem(alpha).Y), 5)
    assert estimated == pytest.approx(alpha, abs=0.05)
    assert trained_for(Schedule.named(name))[1] == pytest.approx(alpha)


def test_the_nearest_recovers():
    given = problem(0.2, 1.0, n=1000)
    result = lrmc.solve(given.Y, 5, schedule="nearest")
    assert result.method == "lrmc"
    assert result.converged
    assert lrmc.relative_error(result, given) < 1e-6


def test_every_synthetic_schedule_of_the_zoo_says_what_it_is_for():
    names = [
        name for name in Schedule.names() if name.startswith(("synthetic", "paper"))
    ]
    assert len(names) >= 20
    for name in names:
        schedule = Schedule.named(name)
        alpha, p = (float(part[1:]) for part in name.split("-")[2:])
        assert trained_for(schedule) == (entries_per_unknown((3000, 3000), p, 5), alpha)
        assert {"recipe", "error", "checked_on", "seconds"} <= set(schedule.card)


def test_a_card_that_does_not_fit():
    """Trained with far more entries than there are: the closed loop is used, and a
    warning says why.
    """
    given = problem(p=0.3, n=300)
    schedule = Schedule.named("synthetic-r5-a0.1-p1")
    assert "as many entries per unknown" in misfit(
        schedule, lrmc.as_observations(given.Y), 5
    )
    with pytest.warns(
        lrmc.ConvergenceWarning, match="times as many entries per unknown"
    ):
        result = lrmc.solve(given.Y, 5, schedule=schedule)
    assert result.method == "closed_loop"
    assert lrmc.relative_error(result, given) < 1e-5


@pytest.mark.parametrize(
    "card", [{}, {"trained_on": "a text"}, {"trained_on": {"pairs": 3}}]
)
def test_a_card_that_says_nothing_is_no_obstacle(card):
    obs = lrmc.as_observations(np.random.default_rng(0).standard_normal((20, 20)))
    assert misfit(Schedule((1.0, 0.5), (1.0,), card=card), obs, 2) is None


def test_far_fewer_entries_than_a_schedule_was_trained_on():
    """Where its steps would be too long, it is not used, and that is said."""
    schedule = Schedule.named("ultrasound")
    assert trained_for(schedule)[0] > 1000
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 2, (1024, 1)) @ rng.uniform(0.9, 1.1, (1, 40))
    full = lrmc.as_observations(X.astype(np.float32))
    assert misfit(schedule, full, 1) is None
    some = np.where(rng.random(X.shape) < 0.1, X, np.nan).astype(np.float32)
    some[:, 0] = X[:, 0]  # every row has an entry
    with pytest.warns(lrmc.ConvergenceWarning, match="times as many entries"):
        result = lrmc.solve(some, 1, schedule=schedule)
    assert result.converged
    assert np.abs(result.low_rank() - X).max() < 1e-3

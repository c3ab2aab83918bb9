"""What hidden entries decide about noisy data, and that it goes to a file and back."""

import json
from dataclasses import replace

import numpy as np
import pytest
from test_noisy_layers import error, table

import lrmc
from lrmc import as_observations
from lrmc.methods.decide import decide
from lrmc.methods.growing import rank_for
from lrmc.methods.noisy import Noise
from lrmc.methods.plan import Plan
from lrmc.methods.planned import fit, parts_of
from lrmc.observations.heldout import THINNED


def decided(Y, rank=None, **options):
    obs = as_observations(Y)
    return obs, decide(obs, rank, noise=Noise.even(obs), **options)


def answer(obs, plan):
    *_, last = fit(obs, plan, noise=Noise.even(obs))
    return last.L @ last.R.T, last.L.shape[1]


def clusters(rng, n=300, kinds=12, width=30):
    """Rows of a few kinds that have nothing of low rank: what neighbors know."""
    middles = rng.standard_normal((kinds, width))
    return middles[rng.integers(0, kinds, n)] + 0.1 * rng.standard_normal((n, width))


def test_low_rank_with_noise_and_outliers():
    Y, X = table((120, 60))
    obs, found = decided(Y)
    Z, rank = answer(obs, found.plan)
    assert 3 <= rank <= 6
    assert error(Z, X) < 0.06
    low_rank, *simple = found.table
    assert low_rank.name == "low rank"
    assert low_rank.chosen
    assert all(low_rank.mae < 0.6 * line.mae for line in simple)
    assert found.error < 0.5 * found.simple
    assert found.typical < found.error


@pytest.mark.parametrize("shape", [(2000, 12), (12, 2000)])
def test_narrow_tables_have_no_components_for_their_outliers(shape):
    """Those help the layers a little, which follow outliers; a mixture with fewer of them is nearer."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    Y = X + 0.3 * rng.standard_normal(shape)
    Y = np.where(rng.random(shape) < 0.1, rng.uniform(-10, 10, shape), Y)
    Y = np.where(rng.random(shape) < 0.8, Y, np.nan)
    result, known = lrmc.solve(Y, time=None), lrmc.solve(Y, 2, loss="mixture")
    assert result.rank == 2
    errors = [float(np.square(x.completed() - X).mean()) for x in (result, known)]
    assert errors[0] < 1.05 * errors[1]


def test_a_table_of_rows_and_columns_is_found_to_be_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal(80)[:, None] + rng.standard_normal(30)
    Y = np.where(rng.random(X.shape) < 0.5, X + rng.standard_normal(X.shape), np.nan)
    result = lrmc.solve(Y)
    names = {line.name for line in result.evidence["table"]}
    assert {"row median", "column median", "row + column"} < names
    biases = next(
        line for line in result.evidence["table"] if line.name == "row + column"
    )
    chosen = next(line for line in result.evidence["table"] if line.chosen)
    assert chosen.mae < 1.02 * biases.mae


def test_neighbors_are_asked_where_they_know_more():
    rng = np.random.default_rng(1)
    X = clusters(rng)
    Y = np.where(rng.random(X.shape) < 0.7, X, np.nan)
    result = lrmc.solve(Y, aim="fill")
    assert {part.name for part in result.beyond} == {"neighbors"}
    hidden = np.isnan(Y)
    errors = [
        np.abs(Z - X)[hidden].mean() for Z in (result.completed(), result.low_rank())
    ]
    assert errors[0] < 0.9 * errors[1]


def test_noise_of_rows_is_noticed():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 60))
    loud = np.exp(rng.standard_normal(200))[:, None]
    Y = X + 0.3 * loud * rng.standard_normal(X.shape)
    Y[rng.random(X.shape) < 0.4] = np.nan
    obs, found = decided(Y)
    assert found.plan.powers[0] > 0
    even = Plan(found.plan.layers, found.plan.rank)
    assert error(answer(obs, found.plan)[0], X) < 0.95 * error(answer(obs, even)[0], X)


def test_uneven_noise_is_gaussian_in_its_own_units():
    """The mixture of noise and outliers is taken, as it is where noise is even."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 150))
    rows, cols = (np.exp(0.6 * rng.standard_normal(n)) for n in X.shape)
    Y = X + 0.3 * np.outer(rows, cols) * rng.standard_normal(X.shape)
    Y = np.where(rng.random(X.shape) < 0.1, rng.uniform(-10, 10, X.shape), Y)
    Y[rng.random(X.shape) < 0.5] = np.nan
    obs, found = decided(Y, 3)
    assert found.plan.powers == (1.0, 1.0)
    assert found.plan.polish
    plain = replace(found.plan, polish=False)
    assert error(answer(obs, found.plan)[0], X) < 0.95 * error(answer(obs, plain)[0], X)


def test_what_moves_is_no_background():
    """Without gaps there is nothing to fill: a spot that wanders over a still picture is left out."""
    rng = np.random.default_rng(3)
    still = np.outer(rng.uniform(50, 200, 900), np.ones(40))
    Y = still + rng.standard_normal(still.shape)
    for frame in range(40):
        Y[20 * frame : 20 * frame + 30, frame] += 100
    result = lrmc.solve(Y)
    assert result.evidence["aim"] == "separate"
    assert np.abs(result.low_rank() - still).max() < 20
    assert result.rank <= 2


def test_a_plan_goes_to_json_and_back():
    Y, _ = table((60, 40))
    _, found = decided(Y)
    plan = found.plan
    assert Plan.from_plain(json.loads(json.dumps(plan.plain()))) == plan


def test_a_schedule_serves_a_second_matrix(tmp_path):
    result = lrmc.solve(table((120, 60))[0])
    assert result.schedule.card["shape"] == [120, 60]
    result.schedule.save(tmp_path / "mine.json")
    schedule = lrmc.Schedule.load(tmp_path / "mine.json")
    assert schedule.plan == result.schedule.plan
    Y, X = table((120, 60), seed=5)
    again = lrmc.solve(Y, schedule=schedule)
    assert again.evidence["why"] == "as planned"
    assert error(again.low_rank(), X) < 0.07
    with pytest.raises(ValueError, match="for noisy data"):
        lrmc.solve(Y, 3, method="lrmc", schedule=schedule)
    with pytest.raises(ValueError, match="cannot be used"):
        lrmc.solve(Y, schedule=lrmc.Schedule(plan={"rank": 3}))
    with pytest.raises(ValueError, match="not both"):
        lrmc.Schedule((1.0,), (), plan=schedule.plan)


def test_narrow_tables_may_have_nearly_full_rank():
    rng = np.random.default_rng(4)
    obs = as_observations(rng.standard_normal((100, 20)))
    assert rank_for(obs) == 19


@pytest.mark.parametrize("loss", ["cauchy", "huber", "squares", "mixture"])
def test_a_loss_that_is_given_is_taken(loss):
    Y, X = table((80, 50), share=0.0)
    obs, found = decided(Y, loss=loss)
    shapes = {"cauchy": 1.0, "huber": 0.5, "squares": 0.02}
    if loss in shapes:
        assert set(found.plan.layers.shape) == {shapes[loss]}
    else:
        assert found.plan.polish
    assert error(answer(obs, found.plan)[0], X) < 0.08


@pytest.mark.parametrize("score", ["mae", "rmse"])
def test_scores(score):
    Y, X = table((80, 50))
    assert error(lrmc.solve(Y, score=score).low_rank(), X) < 0.08
    with pytest.raises(ValueError, match="score"):
        lrmc.solve(Y, score="worst")


def test_parts_of_plain_plans_are_none():
    Y, _ = table((60, 40))
    obs, found = decided(Y, 3)
    assert found.plan.fixed
    assert parts_of(Plan(found.plan.layers, 3), obs, None) == ()


@pytest.mark.parametrize("missing", [0.3, 0.6])
def test_gaps_are_hidden_whole_unless_most_is_missing(missing, monkeypatch):
    """There, whole ones would leave lines hardly any entries to be judged by."""
    rng = np.random.default_rng(0)
    Y, _ = table((60, 400), missing=0)
    Y[np.repeat(rng.random((60, 20)) < missing, 20, 1)] = np.nan
    lessons = []
    monkeypatch.setattr(
        "lrmc.methods.decide.decided_by",
        lambda compared, few, *_, **__: lessons.extend([*compared, *few(4)]),
    )
    obs, _ = decided(Y)
    lost = [1 - x.rest.row_observed / obs.row_observed for x in lessons]
    assert np.max(lost) > 0.1
    assert (np.max(lost) < THINNED + 1e-9) == (missing > 0.5)


def test_ranks_beyond_the_first_guess_are_found():
    """32 components were the most there were: with them, .34 deviations are left, in silence."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 40)) @ rng.standard_normal((40, 300))
    Y = X + 0.3 * X.std() * rng.standard_normal(X.shape)
    Y[rng.random(X.shape) < 0.1] = np.nan
    result = lrmc.solve(Y, time=None)
    assert result.rank >= 40
    # least squares: 0.15
    assert np.sqrt(np.mean((result.completed() - X) ** 2)) < 0.18 * X.std()

"""What others say beside low rank, and how much of it is blended in."""

from dataclasses import replace

import numpy as np
import pytest

from lrmc._answer import _few_decide
from lrmc.methods.blends import (
    Blend,
    Hearing,
    _column_units,
    best_blends,
    best_simple,
    best_weight,
    blends_for,
    mixing_weights,
    opinion_standings,
    reweighted,
    standings,
)
from lrmc.methods.learn import SHIPPED
from lrmc.methods.lessons import Tried, hidden_in
from lrmc.methods.noisy import Noise
from lrmc.methods.plan import Plan
from lrmc.observations import as_observations
from lrmc.observations.sample import telling


def heard_of(truth, fit, others):
    """What is said of hidden entries, as `hearing` has it."""
    return Hearing(truth, fit, others, telling(truth))


FIRST, SECOND = Blend("neighbors", 0.0, 3.0), Blend("regression", 0.0, 30.0)


@pytest.mark.parametrize("gain", [0.004, -0.004])
def test_what_is_simple_and_better_is_taken(gain):
    """By too little to be clear: the simple model needs no proof, and the fit does."""
    rng = np.random.default_rng(3)
    e = rng.standard_normal((2, 40))
    simple = Blend("column median")
    heard = [
        heard_of(np.zeros(40), off, {simple: (1 - gain) * off})
        for off in (e, e[::-1])
        for off in off
    ]
    assert (best_simple(heard, 3.0).name == "column median") is (gain > 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_gain_that_is_clear_entry_by_entry_is_one_on_a_single_set(seed):
    """Losses before and after are compared at the same entries, though the set is halved."""
    shared, own = np.random.default_rng(seed).normal(size=(2, 200))
    simple = Blend("column median")
    one = heard_of(np.zeros(200), shared + 0.45 * own, {simple: shared - 0.585 * own})
    assert best_simple([one], 3.0).weight > 0.3


def judged_table(width, seed=0):
    """What two opinions say of a table: the first knows all columns but one, which is so many times
    wider than the others, and of which the second knows more.
    """
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((200, 6))
    Y[:, 0] *= width
    obs = as_observations(Y)
    lessons = hidden_in(obs, 2, Noise.even(obs), 0, least=3, most=3)
    tried = Tried(lessons, [None] * len(lessons))
    hearings = []
    for lesson in lessons:
        wide = lesson.hidden.cols == 0
        y = lesson.hidden.values.astype(float)
        others = {
            FIRST: np.where(wide, 0.0, 0.9 * y),
            SECOND: np.where(wide, 0.5 * y, 0.0),
            Blend("column median"): 0 * y,
        }
        hearings.append(heard_of(y, 0 * y, others))
    return tried, hearings


@pytest.mark.parametrize("width", [1.0, 60.0])
def test_each_column_of_a_table_counts_alike(width):
    """A code with huge values does not decide for all columns."""
    tried, hearings = judged_table(width)
    weights = {x.name: x.weight for x in blends_for(tried, hearings, 1.0)}
    assert weights[FIRST.name] > 0.6
    if width > 1:
        by_size = {x.name: x.weight for x in best_blends(hearings, 1.0)}
        assert by_size[SECOND.name] > 0.6


def test_half_of_a_column_that_is_hidden_leaves_its_unit():
    """What is left of a column of two values may be one of them."""
    tried, _ = judged_table(1.0)
    first = tried.lessons[0]
    Y = first.rest.grid(*map(np.arange, first.rest.shape))
    Y[:, 3] = 1.0
    lesson = replace(first, rest=as_observations(Y))
    units = _column_units(lesson)[lesson.hidden.cols == 3]
    assert (units > 0.03).all()


def test_an_opinion_that_is_nearly_exact_has_nearly_all_of_the_weight():
    """Equal weights count as few entries."""
    rng = np.random.default_rng(2)
    truth, *noise = rng.standard_normal((5, 600))
    others = {
        Blend(f"opinion {k}"): truth + size * e
        for k, (size, e) in enumerate(zip((0.01, 0.5, 0.5), noise, strict=False))
    }
    heard = [heard_of(truth, truth + noise[-1], others)]
    assert mixing_weights(heard, list(others), 3.0)[0] > 0.9


def heard(rng, truth, fit, other):
    return heard_of(truth, fit, {Blend("other"): other})


def test_blends_are_found_and_chance_is_not():
    rng = np.random.default_rng(5)
    truth = rng.standard_normal((4, 500))
    noise = rng.standard_normal((2, 4, 500))
    sets = [heard(rng, y, y + a, y + b) for y, a, b in zip(truth, *noise, strict=True)]
    assert best_weight(sets, Blend("other"), 100.0).weight == pytest.approx(
        0.5, abs=0.05
    )
    assert best_simple(sets, 100.0).name == "other"
    worse = [
        heard(rng, y, y + a, y + a + 9 * b)
        for y, a, b in zip(truth, *noise, strict=True)
    ]
    assert best_blends(worse, 100.0) == ()


def opinions(noise, wrong=0, sets=4, entries=500, seed=7):
    """The fit and two opinions, each with errors of its own of this size, and of the truth some
    that is gross.
    """
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        truth = rng.standard_normal(entries)
        said = [truth + size * rng.standard_normal(entries) for size in noise]
        truth[:wrong] += 50 * rng.standard_normal(wrong)
        yield heard_of(truth, said[0], {FIRST: said[1], SECOND: said[2]})


@pytest.mark.parametrize("wrong", [0, 50])
def test_opinions_count_as_much_as_they_know(wrong):
    """Of independent errors the best weights are those of their inverse variances, also where some
    hidden entries are gross errors.
    """
    noise = np.array([1.0, 0.5, 0.7])
    heard = list(opinions(noise, wrong))
    weights = mixing_weights(heard, [FIRST, SECOND], 3.0)
    np.testing.assert_allclose(weights, (noise**-2 / (noise**-2).sum())[1:], atol=0.06)
    assert {x.name for x in best_blends(heard, 3.0)} == {"neighbors", "regression"}


def test_few_entries_leave_opinions_equal_and_many_do_not():
    few, many = (
        mixing_weights(
            list(opinions((0.1, 1, 1), sets=1, entries=n)), [FIRST, SECOND], 3.0
        )
        for n in (4, 4000)
    )
    assert few.sum() > 0.1
    assert many.sum() < 0.05


def test_opinions_that_know_less_are_not_asked():
    assert best_blends(list(opinions((0.1, 1, 1))), 3.0) == ()


@pytest.mark.parametrize("sets", [1, 2])
def test_opinions_on_few_entries_do_not_help_typically(sets):
    """They know the few that the fit misses by far, and are worse at all others."""
    rng = np.random.default_rng(4)
    heard = []
    for _ in range(sets):
        truth = rng.standard_normal(4000)
        off = np.where(rng.random(4000) < 0.005, 1.0, 0.01)
        fit = truth + off * rng.standard_normal(4000)
        heard.append(heard_of(truth, fit, {FIRST: truth + 0.1, SECOND: truth + 0.1}))
    assert best_blends(heard, 3.0)
    assert best_blends(heard, 3.0, typically=True) == ()
    better = list(opinions((1.0, 0.5, 0.7), sets=sets))
    assert best_blends(better, 3.0, typically=True) == best_blends(better, 3.0)


def test_weights_are_what_many_trials_do_not_better():
    """Squares, since the bend is far away; the fit itself has what is left of 1."""
    rng = np.random.default_rng(8)
    names = [Blend(name) for name in "abc"]
    for _ in range(20):
        fit, *said = rng.standard_normal((4, 30))
        sets = [heard_of(2 * rng.standard_normal(30), fit, dict(zip(names, said)))]
        best = reweighted(sets, names, 1e6, equal=0.0)
        assert (best >= 0).all()
        assert best.sum() <= 1 + 1e-9
        others = rng.dirichlet(np.full(4, 0.3), 2000)[:, 1:]
        toward = np.stack(said, 1) - fit[:, None]
        off = [sets[0].truth - fit - toward @ w for w in (best, *others)]
        squares = [e @ e for e in off]
        assert squares[0] <= min(squares) + 1e-9


def test_the_answer_stands_among_the_models_by_its_shares():
    heard = list(opinions((1.0, 0.5, 0.7)))
    blends = best_blends(heard, 3.0)
    *_, chosen = standings(heard, blends)
    assert chosen.chosen
    error = np.concatenate([x.errors(blends) for x in heard])
    assert chosen.mae == pytest.approx(np.abs(error).mean())
    low_rank = 1 - sum(x.weight for x in blends)
    assert chosen.name.startswith(f"{100 * low_rank:.0f} % low rank, ")


def test_plans_that_were_kept_with_one_blend_are_read():
    plain = Plan(SHIPPED, 3, blends=(SECOND._replace(weight=0.4),)).plain()
    assert Plan.from_plain(plain).plain() == plain
    older = {x: y for x, y in plain.items() if x != "blends"}
    assert (
        Plan.from_plain(older | {"blend": ["regression", 0.4, 30.0]}).plain() == plain
    )
    assert Plan.from_plain(older | {"blend": ["low rank", 0.0, 0.0]}).blends == ()


def test_opinions_are_shown_alone_with_how_sure_the_comparison_is():
    heard = list(opinions((1.0, 0.5, 0.7)))
    chosen = (FIRST._replace(weight=1.0),)
    first, second = opinion_standings(heard, chosen)
    assert (first.name, second.name) == ("neighbors", "regression")
    assert first.standard_error == 0
    truth = np.concatenate([x.truth for x in heard])
    own, other = (
        np.abs(truth - np.concatenate([x.others[name] for x in heard]))
        for name in (FIRST, SECOND)
    )
    assert second.mae == pytest.approx(other.mean())
    expected = (other - own).std() / np.sqrt(len(own))
    assert second.standard_error == pytest.approx(expected)
    assert second.times(3.0).standard_error == pytest.approx(3 * expected)


def test_of_several_reaches_the_best_is_shown():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(100)
    other = FIRST._replace(reach=30.0)
    said = {FIRST: truth + 2.0, other: truth + 1.0}
    (line,) = opinion_standings([heard_of(truth, 0 * truth, said)], ())
    assert line.rmse == pytest.approx(1.0)


@pytest.mark.parametrize("elephants", [0, 3])
def test_a_few_values_that_are_missed_by_far_are_told(elephants):
    """The fit is better on all but a few entries, which an opinion knows."""
    heard = list(opinions((0.5, 1.0, 1.0), sets=1))
    truth = heard[0].truth.copy()
    truth[:elephants] += 50
    said = {FIRST: heard[0].others[FIRST] + truth - heard[0].truth}
    heard = [heard_of(truth, heard[0].fit, said)]
    evidence = {"table": standings(heard, ()), "opinions": opinion_standings(heard, ())}
    told = list(_few_decide(evidence))
    assert len(told) == bool(elephants)
    assert not elephants or "less by neighbors alone" in told[0]

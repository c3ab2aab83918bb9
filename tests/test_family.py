"""Schedules that are learned on some matrices of a kind, for others."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from test_noisy_layers import error, table

import lrmc
from lrmc import Schedule, as_observations
from lrmc.methods import safety_net
from lrmc.methods.blends import all_heard, blends_for
from lrmc.methods.family import LEAP, Member, _lessons, decide_for_all
from lrmc.methods.learn import SHIPPED
from lrmc.methods.lessons import Tried, hidden_in
from lrmc.methods.likeness import Kind, Look
from lrmc.methods.nearest_schedule import nearest_of_all
from lrmc.methods.noisy import Noise
from lrmc.methods.noisy_layers import Layers, Numbers
from lrmc.methods.plan import Plan, Wanted
from lrmc.methods.safety_net import caught
from lrmc.observations import native


def few_entries(seed):
    """One component and a mean, clean, a fifth observed: not what the numbers that ship
    were learned on.
    """
    return table((60, 30), rank=1, share=0.0, missing=0.8, seed=seed)


@pytest.fixture(scope="module")
def schedule():
    return lrmc.train([few_entries(seed)[0] for seed in range(6)])


def planned(Y, **plan):
    """With the numbers that ship."""
    return lrmc.solve(Y, schedule=Schedule(plan=Plan(SHIPPED, **plan).plain()))


def test_what_was_learned_serves_matrices_that_were_not_seen(schedule):
    card = schedule.card
    assert card["trained_on"]["matrices"] == 6
    assert card["trained_on"]["judges"] == 2
    assert Layers.from_plain(schedule.plan["layers"]) != SHIPPED
    learned, plain = [], []
    for seed in range(100, 106):
        Y, X = few_entries(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = lrmc.solve(Y, schedule=schedule)
            old = planned(Y, rank=schedule.plan["rank"])
        learned.append(error(new.low_rank(undetermined="keep"), X))
        plain.append(error(old.low_rank(undetermined="keep"), X))
    assert np.mean(learned) < 0.97 * np.mean(plain)


def test_data_of_another_kind_are_told():
    kind = Kind.of([Look(0.5, 2.0, 1.5, 0.5), Look(0.6, 2.1, 1.5, 0.5)], False)
    assert Kind.from_plain(kind.plain()) == kind
    assert kind.unlike(Look(0.65, 1.8, 1.4, 0.6), False) == ""
    assert "0.50 to 0.60 times as much" in kind.unlike(Look(0.8, 2, 1.5, 0.5), False)
    assert "share was 0.50 to 0.50, here 0.20" in kind.unlike(
        Look(0.5, 2, 1.5, 0.2), False
    )
    assert "in no groups, here in some" in kind.unlike(Look(0.5, 2, 1.5, 0.5), True)
    # a family that varies much may vary more
    wide = Kind.of([Look(0.2, 2.0, 1.5, 0.5), Look(0.8, 2.0, 1.5, 0.5)], False)
    assert wide.unlike(Look(1.5, 2.0, 1.5, 0.5), False) == ""


def test_faces_without_gaps_are_of_the_kind_of_their_schedule():
    """As pictures mostly come: what yaleB01 looks like, of which nothing was learned."""
    plan = Plan.from_plain(lrmc.Schedule.named("faces").plan)
    assert plan.kind.unlike(Look(0.091, 2.168, 1.178, 1.0), False) == ""
    assert "another kind" in plan.kind.unlike(Look(0.4, 2.168, 1.178, 1.0), False)


def test_numbers_that_ship_on_data_of_another_kind():
    """Compared with what would be done without it, such a plan is compared with itself."""
    Y, _ = table((120, 60), rank=2, missing=0.3, seed=1)
    obs = as_observations(Y)
    plan = Plan(SHIPPED, rank=8)
    seen = safety_net.kind_of([obs], plan, 0)
    assert caught(obs, replace(plan, kind=seen), Noise.even(obs), 0).worse == ""
    noisy = as_observations(Y + np.random.default_rng(0).normal(0, 5, Y.shape))
    assert caught(noisy, plan, Noise.even(noisy), 0).worse == ""
    net = caught(noisy, replace(plan, kind=seen), Noise.even(noisy), 0)
    assert "learned on data of another kind" in net.worse


def test_it_goes_to_a_file_and_back(schedule, tmp_path):
    schedule.save(tmp_path / "mine.json")
    assert Schedule.load(tmp_path / "mine.json").plan == schedule.plan


def test_some_matrices_only_judge():
    members = [Member(as_observations(few_entries(seed)[0])) for seed in range(5)]
    for count, judges in ((5, {1, 4}), (3, {2})):
        lessons = _lessons(members[:count], 2, 0, 50_000)
        each = len(lessons) // count
        found = {k // each for k, lesson in enumerate(lessons) if lesson.judge}
        assert found == judges
    # of two matrices, hidden entries of both
    lessons = _lessons(members[:2], 2, 0, 50_000)
    assert 0 < sum(lesson.judge for lesson in lessons) < len(lessons)


def test_matrices_of_any_unit_count_alike():
    tables = [few_entries(seed)[0] for seed in range(3)]
    one = lrmc.train(tables)
    other = lrmc.train([10.0**k * Y for k, Y in enumerate(tables)])
    assert other.plan["rank"] == one.plan["rank"]
    for name, numbers in one.plan["layers"].items():
        np.testing.assert_allclose(other.plan["layers"][name], numbers, rtol=1e-3)


def test_with_the_truth_nothing_is_hidden():
    """Of dense data with half of them outliers, hidden entries would mostly be such."""
    pairs = []
    for seed in range(3):
        Y, X = table((80, 40), rank=2, share=0.3, missing=0.0, seed=seed)
        pairs.append((Y, X))
    found = lrmc.train(pairs, model="noisy", aim="fill")
    assert found.card["trained_on"]["truth"]
    assert found.card["held_out"]["low rank"]["mae"] < 0.2
    Y, X = table((80, 40), rank=2, share=0.3, missing=0.0, seed=9)
    assert error(lrmc.solve(Y, schedule=found).low_rank(), X) < 0.1
    factors = [(Y, tuple(np.linalg.qr(X))) for Y, X in pairs]
    factors = [(Y, (Q, R.T)) for Y, (Q, R) in factors]
    again = lrmc.train(factors, model="noisy", aim="fill")
    assert again.plan["rank"] == found.plan["rank"]


def test_the_rank_follows_the_size():
    """Learned on small tables, where a few components are all that can be known."""
    small = [table((60, 40), rank=6, missing=0.7, seed=seed)[0] for seed in range(3)]
    found = lrmc.train(small)
    Y, X = table((400, 200), rank=6, missing=0.7, seed=9)
    with pytest.warns(UserWarning, match="of another kind: there low rank missed"):
        result = lrmc.solve(Y, schedule=found)
    assert result.evidence["plan"]["rank"] > found.plan["rank"] or result.rank >= 6
    assert error(result.low_rank(), X) < 0.1


def test_a_new_matrix_takes_few_passes(monkeypatch):
    """And is fitted as well as by components that double in all of the data."""
    Y, X = table((500, 300), rank=6, missing=0.5, seed=4)
    plan = Plan(SHIPPED, rank=16)
    seen, plain = [], native.products

    def counting(of, *args, **options):
        seen.append(of.n_observed)
        return plain(of, *args, **options)

    monkeypatch.setattr(native, "products", counting)
    found = {}
    for times in (2, LEAP):
        seen.clear()
        result = planned(Y, rank=16, times=times)
        found[times] = (
            error(result.low_rank(), X),
            sum(seen) / np.isfinite(Y).sum(),
        )
    assert Plan.from_plain(plan.plain()) == plan
    assert found[LEAP][0] < 1.02 * found[2][0]
    assert found[LEAP][1] < 40 < found[2][1]


def test_what_is_to_be_done_may_be_said():
    """Gaps that a schedule was learned to fill, and data without any."""
    Y, _ = table((120, 60), missing=0.0)
    plan = Schedule(plan=Plan(SHIPPED, rank=8).plain())
    for aim in ("fill", "separate"):
        assert lrmc.solve(Y, schedule=plan, aim=aim).evidence["aim"] == aim
    assert lrmc.solve(Y, schedule=plan).evidence["aim"] == "fill"


def test_what_does_not_fit_is_noticed():
    Y, _ = table((120, 60))
    # shrunk to nothing
    numbers = Numbers(reach=3.0, shape=1.0, prior=20.0, kappa=20.0, eta=0.05)
    bad = Plan(Layers.same(numbers, 3), rank=8, fixed=True)
    obs = as_observations(Y)
    assert "times as much as without it" in caught(obs, bad, Noise.even(obs), 0).worse
    with pytest.warns(UserWarning, match="the schedule does not fit these data"):
        result = lrmc.solve(Y, schedule=Schedule(plan=bad.plain()))
    assert any("leave it out" in text for text in result.warnings)
    good = Plan(SHIPPED, rank=8)
    net = caught(obs, good, Noise.even(obs), 0)
    assert not net.worse
    assert net.decided.error < net.decided.simple


def test_a_component_costs_more_in_a_part():
    """Of rows that are all there: as much as their columns have entries less."""
    Y, _ = table((3000, 40), missing=0.0)
    obs = as_observations(Y)
    part, *_ = safety_net._part(obs, Plan(SHIPPED, rank=4), Noise.even(obs), 0)
    rows, _ = part.rest.shape
    assert rows < 1500
    price = safety_net._price_of_part(part, obs)
    assert price == pytest.approx(1 / rows - 1 / 3000, rel=1e-6)


def test_what_is_asked_for_is_what_is_looked_at(monkeypatch):
    Y, _ = table((120, 60))
    asked = []

    def noting(tried, heard, bend, **how):
        asked.append(bend)
        return blends_for(tried, heard, bend, **how)

    monkeypatch.setattr(safety_net, "blends_for", noting)
    for score in ("mae", "rmse"):
        lrmc.solve(
            Y, schedule=Schedule(plan=Plan(SHIPPED, rank=8).plain()), score=score
        )
    mae, *_, rmse = asked
    assert mae < 0.1 * rmse


def test_a_rank_that_is_far_too_low_is_raised():
    """Of a plan that was learned on data of another kind: never in silence, and no worse."""
    Y, X = table((150, 90), rank=8, seed=3)
    low, right = planned(Y, rank=1), planned(Y, rank=8)
    assert low.evidence["plan"]["rank"] >= 8
    assert error(low.low_rank(), X) < 1.1 * error(right.low_rank(), X)


def copies():
    """Rows that are copies of many others: neighbors know them, and low rank does not."""
    rng = np.random.default_rng(5)
    kinds = rng.standard_normal((30, 24))
    X = kinds[rng.integers(30, size=240)]
    Y = X + 0.1 * rng.standard_normal(X.shape)
    hidden = rng.random(X.shape) < 0.3
    return np.where(hidden, np.nan, Y), X, hidden


def test_what_separates_does_not_fill_in_silence():
    """Without a schedule, gaps would be filled with what neighbors say."""
    Y, *_ = copies()
    separate = Schedule(plan=Plan(SHIPPED, rank=8, aim="separate").plain())
    with pytest.warns(UserWarning, match="to separate outliers, not to fill gaps"):
        lrmc.solve(Y, schedule=separate)
    for aim in ("fill", "separate"):
        result = lrmc.solve(Y, schedule=separate, aim=aim)
        assert not any("schedule" in text for text in result.warnings)


def test_a_small_table_is_looked_at_as_a_whole():
    """Numbers for many components, on a table that carries one: it has one, as without a schedule."""
    for seed in range(3):
        Y, _ = few_entries(seed)
        obs = as_observations(Y)
        net = caught(obs, Plan(SHIPPED, rank=16), Noise.even(obs), 0)
        assert net.lesson.rest.shape == Y.shape
        assert net.decided.plan.rank <= 2


def test_what_simple_models_say_is_heard_once():
    Y, *_ = copies()
    obs = as_observations(Y)
    lessons = hidden_in(obs, 8, Noise.even(obs), 0, least=2, most=2)
    low, high = (
        Tried.of([x.lower() or x for x in lessons], SHIPPED),
        Tried.of(lessons, SHIPPED),
    )
    names = ("neighbors",)
    for again, plain in zip(
        all_heard(low, names, all_heard(high, names)),
        all_heard(low, names),
        strict=True,
    ):
        assert again.others.keys() == plain.others.keys()
        for other, said in plain.others.items():
            np.testing.assert_array_equal(again.others[other], said)


def test_second_opinions_are_asked_anew():
    Y, X, hidden = copies()
    result = planned(Y, rank=8)
    names = {name for name, *_ in result.evidence["plan"]["blends"]}
    # by completed rows, or by the entries that both have
    assert any(name.startswith("neighbors") for name in names)
    missed = (
        np.abs((Z - X)[hidden]).mean() for Z in (result.completed(), low_rank(result))
    )
    assert next(missed) < 0.7 * next(missed)


def low_rank(result):
    """Without what lies beyond."""
    X = result.factors()
    return X.L @ X.R.T


def test_evidence_of_new_data_is_shown():
    Y, _ = table((120, 60))
    result = planned(Y, rank=8)
    low_rank, *simple = result.evidence["table"]
    assert all(low_rank.mae < line.mae for line in simple)


def test_rows_in_groups():
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(200), 2)
    stacks = []
    for _ in range(3):
        X = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 30)) + 5
        Y = X + 0.05 * rng.standard_normal(X.shape)
        cloudy = rng.random((200, 30)) < 0.2
        Y[np.tile(cloudy, (2, 1))] = np.nan
        stacks.append(Y)
    found = lrmc.train(stacks, groups=[labels] * 3)
    result = lrmc.solve(stacks[0], groups=labels, schedule=found)
    assert result.rank <= 4
    with pytest.raises(ValueError, match="2 lists of labels for 3 matrices"):
        lrmc.train(stacks, groups=[labels] * 2)


def test_the_nearest_is_found_by_hidden_entries():
    Y, _ = table((120, 60))
    obs = as_observations(Y)
    assert nearest_of_all(obs, None, Noise.even(obs)).plan is not None
    exact = lrmc.synthetic.problem(400, 3, alpha=0.1, p=0.5, form="dense").Y
    obs = as_observations(exact)
    assert nearest_of_all(obs, 3, Noise.even(obs)).plan is None
    with pytest.warns(lrmc.DoubtWarning, match="learned on data of another kind"):
        assert lrmc.solve(Y, schedule="nearest").regime == "noisy"


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ([np.ones((3, 3))], {}, "too few"),
        (np.ones((30, 30)), {"model": "noisy"}, "learns on several matrices"),
        ([np.ones((30, 30))] * 2, {"mask": np.ones((30, 30), bool)}, "mask= is not"),
        ([np.ones((30, 30))] * 2, {"checkpoint": "x.json"}, "checkpoint= is not"),
        ([np.ones((30, 30))] * 2, {"aim": "guess"}, "one of fill, separate"),
        ([np.ones((30, 30))] * 2, {"rank": 40}, "rank"),
        (np.ones((30, 30)), {"aim": "fill"}, "are for model='noisy'"),
        (
            [(np.ones((30, 30)), np.ones((20, 30)))],
            {"model": "noisy"},
            r"shape \(20, 30\)",
        ),
    ],
)
def test_what_cannot_be_trained_on(data, options, said):
    with pytest.raises(ValueError, match=said):
        lrmc.train(data, **options)


def test_the_matrix_at_fault_is_named():
    good = few_entries(0)[0]
    with pytest.raises(ValueError, match=r"matrix 2 of 3: .* too few"):
        lrmc.train([good, np.ones((3, 3)), good])
    with pytest.raises(ValueError, match=r"matrix 2 of 2 has shape \(3, 4, 5\)"):
        lrmc.train([good, np.ones((3, 4, 5))])
    with pytest.raises(ValueError, match="matrix 2 of 2 is tuple"):
        lrmc.train([good, (good, good)])


def test_how_far_learning_has_come():
    told = []
    tables = [few_entries(seed)[0] for seed in range(3)]
    lrmc.train(tables, progress=told.append)
    stages = list(dict.fromkeys(state.stage for state in told))
    assert stages == ["hiding entries", "learning"]
    assert [state.step for state in told[:3]] == [1, 2, 3]
    assert all(0 < state.step <= state.steps for state in told)


def test_one_matrix_of_many_entries_judges_too():
    Y, _ = table((300, 200))
    decided, judges = decide_for_all([Member(as_observations(Y))], Wanted())
    assert judges == 0
    assert decided.plan.rank >= 3


def test_more_entries_than_a_schedule_was_learned_on_are_no_other_kind():
    kind = Kind.of([Look(0.5, 1.5, 1.4, share) for share in (0.15, 0.23)], False)
    assert not kind.unlike(Look(0.5, 1.5, 1.4, 0.9), False)
    assert "observed share" in kind.unlike(Look(0.5, 1.5, 1.4, 0.05), False)
    assert "row medians" in kind.unlike(Look(0.9, 1.5, 1.4, 0.2), False)

"""Learning the numbers of the layers from hidden entries of the data."""

import numpy as np
import pytest
from test_noisy_layers import error, table

from lrmc import as_observations
from lrmc.methods.learn import SHIPPED, learned
from lrmc.methods.lessons import (
    SAME,
    Losses,
    Tried,
    hidden_in,
    is_better,
    is_typically_better,
    loss_of,
    some_lines,
    with_scales,
)
from lrmc.methods.noisy import Noise
from lrmc.observations.grouped import grouped


def lessons(Y, rank, seed=0):
    obs = as_observations(Y)
    return hidden_in(obs, rank, Noise.even(obs), seed)


def fitted(given):
    return Tried.of(given, SHIPPED)


def few_entries(seed=0):
    """One component and a mean, clean, a fifth observed: not what the numbers that ship
    were learned on.
    """
    return table((60, 30), rank=1, share=0.0, missing=0.8, seed=seed)


def test_learning_helps():
    Y, X = few_entries()
    given = lessons(Y, 10)
    found = learned(fitted(given), 1.0)
    losses = [trial.loss for trial in found.trials]
    assert losses[0] == 1
    assert min(losses) < 0.97
    assert found.layers != SHIPPED
    new, old = (given[-1].fitted(layers) for layers in (found.layers, SHIPPED))
    assert error(new.L @ new.R.T, X) < error(old.L @ old.R.T, X)


def test_where_judges_have_the_last_word_a_gain_that_fades_ends_the_learning(
    monkeypatch,
):
    given = fitted(lessons(few_entries()[0], 10))
    patient, final = (learned(given, 1.0, final=x) for x in (False, True))
    assert final.layers == patient.layers != SHIPPED  # what comes late is not missed
    assert len(patient.trials) > 3
    fading = iter([0.2, 0.1])
    monkeypatch.setattr("lrmc.methods.learn.mean_gain", lambda *_: next(fading))
    monkeypatch.setattr("lrmc.methods.learn.is_better", lambda *_: False)
    assert len(learned(given, 1.0, final=True).trials) == 3


def test_a_gain_is_more_than_chance_and_no_trifle():
    rng = np.random.default_rng(0)
    each = rng.exponential(size=1000)
    before = all_telling(each)
    assert not is_better(before, before, SAME)
    assert not is_better(before, all_telling(0.999 * each), SAME)  # too little
    assert not is_better(before, all_telling(rng.permutation(each)), SAME)  # chance
    assert is_better(before, all_telling(0.9 * each), SAME)


def test_outliers_do_not_buy_what_typical_entries_pay_for():
    """A tenth of what is hidden are outliers, which a fit that bends to them misses by less."""
    rng = np.random.default_rng(0)
    before = rng.exponential(size=2000)
    before[:200] *= 20
    after = 1.05 * before
    after[:200] = 0.95 * before[:200]
    assert after.mean() < before.mean()
    assert not is_better(all_telling(before), all_telling(after), SAME)
    after[:200] = 0.5 * before[:200]  # large errors that can be avoided are signal
    assert is_better(all_telling(before), all_telling(after), SAME)


def test_zeros_that_everything_meets_do_not_say_what_is_usual():
    """Two thirds of the values are 0, and missed by next to nothing whatever the fit: what others
    gain counts, although nine tenths of all losses are far from the median of all."""
    rng = np.random.default_rng(0)
    values = np.where(rng.random(3000) < 0.67, 0.0, rng.normal(size=3000))
    errors = np.where(values == 0, 1e-3, 1.0) * rng.normal(size=3000)
    better = np.where(values == 0, 1.1, 0.8) * errors
    before, after = (Losses.of(e, values != 0, 3.0) for e in (errors, better))
    assert is_better(before, after, SAME)
    assert is_typically_better(before, after)
    all_alike = [x._replace(telling=np.ones(3000, bool)) for x in (before, after)]
    assert not is_typically_better(*all_alike)


def all_telling(losses):
    return Losses(losses, np.ones(len(losses), bool))


def test_a_shape_that_is_given_stays():
    Y, _ = few_entries()
    found = learned(fitted(lessons(Y, 5)), 1.0, shape=1.0)
    assert found.layers.shape == SHIPPED.shape


def test_lessons_hide_what_looks_like_the_gaps():
    """Whole stretches of columns are missing, and so are hidden."""
    Y, _ = table((100, 60), missing=0.0)
    for column in range(0, 60, 2):
        Y[30:80, column] = np.nan
    for lesson in lessons(Y, 3):
        counts = np.bincount(lesson.hidden.cols)
        assert np.median(counts[counts > 0]) > 20
        hidden = lesson.rest.lookup(lesson.hidden.rows, lesson.hidden.cols)
        assert np.isnan(hidden).all()


def test_lessons_know_lower_ranks():
    lesson = lessons(table()[0], 6)[0]
    ranks = []
    while lesson is not None:
        ranks.append(lesson.rank)
        lesson = lesson.lower()
    assert ranks == [6, 4, 2, 1]


def test_parts_have_about_as_many_entries_as_asked_for():
    Y, _ = table((3000, 40), missing=0.5)
    obs = as_observations(Y)
    rows, cols = some_lines(obs, np.random.default_rng(0), 10_000)
    assert len(cols) == 40
    assert len(rows) * 20 == pytest.approx(10_000, rel=0.1)


def test_parts_of_groups_have_whole_groups():
    Y, _ = table((3000, 20), missing=0.2)
    obs = grouped(as_observations(Y), np.arange(3000) % 1000)
    rows, _ = some_lines(obs, np.random.default_rng(0), 5_000)
    _, counts = np.unique(rows % 1000, return_counts=True)
    assert (counts == 3).all()
    assert len(rows) < 3000


def test_scales_of_lines_come_in_powers():
    noise = Noise(np.ones(3), np.array([1.0, 2.0]))
    lines = np.array([1.0, 4.0, 9.0]), np.array([5.0, 5.0])
    scaled = with_scales(noise, lines, (0.5, 1.0))
    np.testing.assert_allclose(scaled.rows, [0.5, 1, 1.5])
    np.testing.assert_allclose(scaled.cols / scaled.cols[0], [1, 2])


def test_losses_are_squares_and_then_sizes():
    assert loss_of(np.array([1e-3]), 1.0) == pytest.approx(0.5e-6)
    assert loss_of(np.array([1e3]), 1.0) == pytest.approx(1e3, rel=1e-2)

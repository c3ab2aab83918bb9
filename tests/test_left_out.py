"""What the other entries of a table in time tell of one that was seen."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrmc
from lrmc.methods.in_time import left_out
from lrmc.methods.in_time.processes import folded
from lrmc.methods.in_time.simple import FILTERED, filtered, simple_fits
from lrmc.methods.in_time.sweeps import fit

P = 12  # steps in a period


def table(sensors=12, days=20, noise=0.3, seed=0):
    """A day and a level for each sensor, and noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(days * P)
    level = 20 + 4 * rng.standard_normal((sensors, 1))
    walk = np.cumsum(rng.standard_normal(len(t))) * 0.3
    day = np.sin(2 * np.pi * t / P + rng.random((sensors, 1)))
    clean = level + 3 * day + walk * rng.uniform(0.5, 1.5, (sensors, 1))
    return clean, clean + noise * rng.standard_normal(clean.shape)


def with_errors(Y, missing=0.2, wrong=0.03, seed=1):
    """Some entries missing, and some 0; which these are."""
    rng = np.random.default_rng(seed)
    draw = rng.random(Y.shape)
    bad = draw < wrong
    return np.where(draw > 1 - missing, np.nan, np.where(bad, 0.0, Y)), bad


def test_simple_fits_are_those_without_the_entry():
    Y = with_errors(table(sensors=4, days=8)[1])[0]
    assert (~np.isnan(folded(Y, P))).sum(1).min() > 1
    names = ("linear", "last value", "slot mean")
    usual = simple_fits(Y, P, None, names)
    found = left_out.of_simple_fits(Y, P, None, usual)
    for s, t in zip(*np.nonzero(~np.isnan(Y)), strict=True):
        rest = Y[s : s + 1].copy()
        rest[0, t] = np.nan
        for name, x in simple_fits(rest, P, None, names).items():
            assert_allclose(found[name][s, t], x[0, t], err_msg=name)
    for name in names:
        there = np.isnan(Y)
        assert_allclose(found[name][there], usual[name][there])


def test_behind_a_filter_the_entries_that_it_left():
    Y = with_errors(table(sensors=4, days=4)[1])[0]
    name, kept = FILTERED + "linear", filtered(Y)
    found = left_out.of_simple_fits(Y, P, None, simple_fits(Y, P, None, [name]))[name]
    lines = left_out.of_simple_fits(
        kept, P, None, simple_fits(kept, P, None, ["linear"])
    )
    assert_allclose(found, lines["linear"])


def test_what_has_no_other_entry_is_as_usual():
    Y = np.full((2, 2 * P), np.nan)
    Y[0, 3], Y[1, :2] = 5.0, (1.0, 2.0)
    usual = simple_fits(Y, P, None, ("linear", "slot mean"))
    found = left_out.of_simple_fits(Y, P, None, usual)
    assert all(np.isfinite(x).all() for x in found.values())
    assert found["linear"][0, 3] == 5.0
    assert_allclose(found["linear"][1, :2], (2.0, 1.0))


def test_a_model_is_about_that_without_the_entry():
    Y = with_errors(table(sensors=8, days=8)[1], wrong=0.0)[0].astype(np.float32)
    G = folded(Y, P)
    model = fit(G, robust=False)
    told = left_out.of_model(model, G, model.values())
    rng = np.random.default_rng(3)
    aside = ~np.isnan(G) & (rng.random(G.shape) < 0.1)
    again = fit(np.where(aside, np.nan, G), robust=False).values()
    near, usual, truly = (
        np.sqrt(np.mean((x - G)[aside] ** 2)) for x in (told, model.values(), again)
    )
    assert 0.75 * truly < near < 1.25 * truly
    assert usual < 0.8 * truly  # an entry draws the model to itself
    assert_allclose(told[np.isnan(G)], model.values()[np.isnan(G)], rtol=1e-6)


@pytest.fixture(scope="module")
def solved():
    clean, Y = table()
    Z, bad = with_errors(Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lrmc.solve(Z, time="columns", period=P), clean, Z, bad


def test_the_list_has_few_good_entries_and_says_how_many(solved):
    result, _, _, bad = solved
    listed = result.outliers() != 0
    listed &= ~np.isnan(result.outliers())
    assert listed[bad].mean() > 0.9
    false = int((listed & ~bad).sum())
    alarms = result.false_alarms()
    assert false <= max(3 * alarms.false, 0.1 * listed.sum())
    assert false <= alarms.most + 1


def test_outliers_are_what_the_others_do_not_tell(solved):
    result, clean, Z, bad = solved
    S = result.outliers()
    listed = (S != 0) & ~np.isnan(S) & bad
    assert np.sqrt(np.mean((Z - S - clean)[listed] ** 2)) < 1.0


def test_gross_errors_are_completed_as_the_others_tell(solved):
    result, clean, Z, bad = solved
    found, good = result.completed(), ~bad & ~np.isnan(Z)
    assert np.sqrt(np.mean((found - clean)[bad & ~np.isnan(Z)] ** 2)) < 1.0
    told = np.sqrt(np.mean((found - Z)[good] ** 2))
    others = Z - result.fit.left_out.at(*np.indices(Z.shape).reshape(2, -1)).reshape(
        Z.shape
    )
    assert told < np.sqrt(
        np.mean(others[good] ** 2)
    )  # good ones have a say in their own


def test_lines_through_gross_errors_are_not_the_answer():
    """Where lines between entries have all of the weight."""
    rng = np.random.default_rng(2)
    clean = 50 + np.cumsum(rng.standard_normal((12, 400)), axis=1)
    Z, bad = with_errors(clean)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = lrmc.solve(Z, time="columns", period=None).completed()
    seen = bad & ~np.isnan(Z)
    assert np.sqrt(np.mean((found - clean)[seen] ** 2)) < 5.0


def test_a_file_keeps_it(solved, tmp_path):
    result, _, Z, _ = solved
    result.save(tmp_path / "result.npz")
    again = lrmc.Result.load(tmp_path / "result.npz")
    assert_allclose(again.outliers(Z), result.outliers(), rtol=1e-5, atol=1e-5)


def test_files_put_in_what_the_others_tell(solved, tmp_path):
    result, clean, Z, bad = solved
    lrmc.outofcore.write_completed(result, tmp_path / "X.npy", fill="missing+outliers")
    X = np.load(tmp_path / "X.npy")
    listed = (result.outliers() != 0) & ~np.isnan(Z)
    assert np.sqrt(np.mean((X - clean)[bad & listed] ** 2)) < 1.0
    assert np.array_equal(X[~listed & ~np.isnan(Z)], Z[~listed & ~np.isnan(Z)])


def test_an_imputer_puts_in_what_the_others_tell():
    clean, Y = table()
    Z, bad = with_errors(Y)
    imputer = lrmc.RobustImputer(fill="missing+outliers", time="rows", period=P)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = imputer.fit_transform(Z.T).T
    assert np.sqrt(np.mean((X - clean)[bad] ** 2)) < 1.0
    good = ~bad & ~np.isnan(Z)
    assert (X == Z)[good].mean() > 0.97

"""Entries set aside: the data without them, and that they look like what is missing."""

from functools import cache

import numpy as np
import pytest
import reference
from comparing import ROUNDING, assert_close
from presentations import every_storage, small
from rules import rules

from lrmc import as_observations
from lrmc.observations.base import Regression
from lrmc.observations.heldout import (
    MOST,
    THINNED,
    hold_out,
    part_of,
    set_aside,
)
from lrmc.row_systems import pairs
from lrmc.weights import Cauchy, Threshold


def held_out(present, p, folder):
    """The small problem with entries set aside, and the mask of what is left."""
    s = small(p=p)
    rest, judged = hold_out(as_observations(*present(s, folder)))
    left = s.mask.copy()
    left[judged.rows, judged.cols] = False
    return s, rest, judged, left


@every_storage
def test_what_is_left(present, p, folder):
    s, rest, judged, left = held_out(present, p, folder)
    # observed, and as observed
    np.testing.assert_array_equal(judged.values, s.nan[judged.rows, judged.cols])
    assert (
        len(np.unique(judged.rows * s.values.shape[1] + judged.cols))
        == len(judged.rows)
        > 0
    )
    assert rest.shape == s.values.shape
    assert rest.n_observed == left.sum() == s.mask.sum() - len(judged.rows)
    assert rest.fraction == pytest.approx(left.mean())
    np.testing.assert_array_equal(rest.row_observed, left.sum(1))
    np.testing.assert_array_equal(rest.col_observed, left.sum(0))
    rows, cols = (i.ravel() for i in np.indices(s.values.shape))
    np.testing.assert_array_equal(
        rest.lookup(rows, cols), np.where(left, s.values, np.nan).ravel()
    )


@every_storage
def test_draw(present, p, folder):
    """Only what is left, and all of that."""
    s, rest, _, left = held_out(present, p, folder)
    rows, cols, values = rest.draw(20_000, seed=3)
    assert left[rows, cols].all()
    np.testing.assert_array_equal(values, s.values[rows, cols])
    drawn = np.zeros_like(left)
    drawn[rows, cols] = True
    np.testing.assert_array_equal(drawn, left)
    assert rest.scale == pytest.approx(np.median(np.abs(s.values[left])), rel=0.1)


@cache
def wanted(rule, left):
    """The reference on what is left, given as bytes."""
    s, L, R, P, Q = factors()
    mask = np.frombuffer(left, bool).reshape(s.values.shape)
    return reference.products(
        s.values, mask, L, R, dict(rules)[rule](*s.values.shape, 11.3)[1], P, Q
    )


def factors():
    s, rng = small(), np.random.default_rng(5)
    L, R = (rng.uniform(0.5, 3, (n, 3)) for n in s.values.shape)
    return s, L, R, *(rng.standard_normal((n, 2)) for n in s.values.shape)


@every_storage
def test_products_of_every_rule(present, p, folder):
    """As if the entries had been removed. Sums are differences here, so that rounding is
    that of the whole.
    """
    s, rest, _, left = held_out(present, p, folder)
    _, L, R, P, Q = factors()
    for name, rule in rules:
        weight, _ = rule(*s.values.shape, 11.3)
        want = wanted(name, left.tobytes())
        grams = (
            {"Pw": pairs(L), "Qw": pairs(R)} if name not in ("clip", "a number") else {}
        )
        got = rest.products(L, R, weight, P=P, Q=Q, **grams)
        check(got, want, rest.dtype)
        if grams:
            check_grams(got.grams, (want.W @ pairs(R), want.W.T @ pairs(L)), rest.dtype)
            rows = rest.products(L, R, weight, Q=Q, Qw=pairs(R))
            assert rows[1] is None
            assert rows.grams[1] is None
            assert_close(rows.grams[0], want.W @ pairs(R), rest.dtype, factor=10)
            np.testing.assert_array_equal(got.row_inliers, want.row_inliers)
            np.testing.assert_array_equal(got.col_inliers, want.col_inliers)
            for a, b in (
                (got.row_weight, want.row_weight),
                (got.col_weight, want.col_weight),
            ):
                assert_close(a, b, rest.dtype, factor=10)
            assert (got.energy is None) == isinstance(weight, Threshold)
            if got.energy is not None:
                assert got.energy == pytest.approx(
                    want.row_energy.sum(), rel=100 * ROUNDING[rest.dtype]
                )
                for a, b in (
                    (got.row_energy, want.row_energy),
                    (got.col_energy, want.col_energy),
                ):
                    assert_close(a, b, rest.dtype, factor=10)


def check(got, want, dtype):
    for a, b in zip(got, want[:2], strict=True):
        assert a.dtype == dtype
        assert_close(a, b, dtype, factor=10)
    assert got.n_inliers == want.row_inliers.sum()


def check_grams(got, want, dtype):
    for a, b in zip(got, want, strict=True):
        assert_close(a, b, dtype, factor=10)


@every_storage
def test_scaled(present, p, folder):
    s, rest, judged, left = held_out(present, p, folder)
    twice, (_, L, R, P, Q) = rest.scaled(0.5).scaled(4.0), factors()
    rows, cols = np.nonzero(left)
    np.testing.assert_array_equal(twice.lookup(rows, cols), 2 * s.values[left])
    assert np.isnan(twice.lookup(judged.rows, judged.cols)).all()
    assert twice.scale == 2 * rest.scale
    want = reference.products(2 * s.values, left, L, R, reference.clip(11.3), P, Q)
    check(twice.products(L, R, 11.3, P=P, Q=Q), want, rest.dtype)


@every_storage
def test_all_that_can_be_asked(present, p, folder):
    """As of a matrix that never had the entries that were set aside."""
    s, rest, _, left = held_out(present, p, folder)
    _, L, R, *_ = factors()
    Y = np.where(left, s.values, np.nan)
    plain = as_observations(Y)
    np.testing.assert_array_equal(
        rest.block(slice(2, 9), np.arange(5)), np.where(left, s.values, 0)[2:9, :5]
    )
    np.testing.assert_array_equal(rest.grid(np.arange(4), np.arange(5)), Y[:4, :5])
    np.testing.assert_array_equal(rest.part(slice(2, 9)).Y, Y[2:9])
    counts = rest.survey()
    np.testing.assert_array_equal(counts.rows, left.sum(1))
    np.testing.assert_array_equal(counts.cols, left.sum(0))
    for got, want in zip(
        rest.magnitudes(L, R, 0.2), reference.magnitudes(Y - L @ R.T, 0.2), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    E = np.full(Y.shape, np.nan)
    for rows, cols, values in rest.residuals(L, R):
        E[rows, cols] = values
    np.testing.assert_allclose(E, Y - L @ R.T, atol=1e-4)
    out = rest.outliers(L, R, 11.3).toarray()
    np.testing.assert_allclose(out, np.where(np.abs(E) > 11.3, E, 0), atol=1e-4)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((Y.shape[1], 2)))[0]
    settings = {
        "widest": 100.0,
        "lowest": 1.0,
        "rule": Cauchy.rule,
        "odds": 0.0,
        "reach": 3.0,
    }
    model = Regression(
        V=V,
        offset=np.zeros(len(V)),
        mean=np.zeros(2),
        prior=0.01 * np.eye(2),
        **settings,
    )
    for got, want in zip(rest.regress(model), plain.regress(model), strict=True):
        assert_close(got, want, rest.dtype, factor=20)
    rest.check_unchanged()


# ---- which entries


def gaps(kind, shape=(300, 200), seed=0):
    """True where something is missing."""
    rng = np.random.default_rng(seed)
    missing = np.zeros(shape, bool)
    if kind == "random":
        return rng.random(shape) < 0.4
    lines = missing if kind == "columns" else missing.T
    # half of the lines lose a long stretch
    for j in rng.choice(lines.shape[1], lines.shape[1] // 2, replace=False):
        begin = int(rng.integers(0, lines.shape[0] // 2))
        lines[begin : begin + lines.shape[0] // 3, j] = True
    return missing


def field(kind, seed=0):
    Y = np.random.default_rng(1).standard_normal((300, 200))
    Y[gaps(kind, seed=seed)] = np.nan
    return Y


def runs(places, line, along):
    """The longest run of neighbouring places within a line, for each line."""
    longest = []
    for x in np.unique(line):
        at = np.sort(along[line == x])
        longest.append(
            max(len(part) for part in np.split(at, np.flatnonzero(np.diff(at) > 1) + 1))
        )
    return np.array(longest)


@pytest.mark.parametrize("kind", ["random", "nothing"])
def test_random_gaps(kind):
    """Random entries: spread over all rows and columns, hardly any neighbours."""
    Y = (
        field("random")
        if kind == "random"
        else np.random.default_rng(1).standard_normal((300, 200))
    )
    _, (rows, cols, _) = hold_out(as_observations(Y))
    assert len(np.unique(rows)) > 0.9 * 300
    assert len(np.unique(cols)) == 200
    assert runs(rows, cols, rows).max() < 10
    assert runs(rows, rows, cols).max() < 10


@pytest.mark.parametrize("flip", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize("kind", ["columns", "rows"])
def test_gaps_of_lines(kind, flip):
    """Long stretches of a few lines are missing, so such stretches are set aside."""
    Y = field(kind)
    _, (rows, cols, _) = hold_out(as_observations(np.asfortranarray(Y) if flip else Y))
    line, along = (cols, rows) if kind == "columns" else (rows, cols)
    lines, n = (200, 300) if kind == "columns" else (300, 200)
    assert 3 <= len(np.unique(line)) < lines / 2
    longest = runs(rows, line, along)
    assert np.mean(longest >= n // 12) > 0.8  # cut short where gaps meet
    assert longest.max() <= n // 3


def shares(kind):
    """Of the observed entries that are set aside, for some seeds."""
    fields = [as_observations(field(kind, seed)) for seed in range(8)]
    return np.array(
        [
            len(hold_out(obs, seed)[1].rows) / obs.n_observed
            for seed, obs in enumerate(fields)
        ]
    )


@pytest.mark.parametrize("kind", ["random", "columns", "rows"])
def test_about_a_tenth_is_set_aside(kind):
    assert np.all((shares(kind) > 0.08) & (shares(kind) < 0.12))


@pytest.mark.parametrize("kind", ["random", "columns", "rows"])
def test_at_most_a_tenth_is_set_aside(kind):
    assert shares(kind).max() <= 0.1


def test_columns_that_are_missing_together():
    """Laid over a column that is missing in the same places, a gap shows nothing: random
    entries then.
    """
    Y = np.random.default_rng(2).standard_normal((60, 5))
    Y[:40] = np.nan
    # its own entries are seen there, and it has no gap: no other column can take one over
    Y[:40, 4] = 1.0
    Y[40:, 4] = np.nan
    for seed in range(8):
        rest, judged = hold_out(as_observations(Y), seed)
        assert len(judged.rows) > 0
        assert rest.n_observed == 120 - len(judged.rows)


def test_large_data_are_judged_by_some():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((1000, 600)).astype(np.float32)
    rest, judged = hold_out(as_observations(Y))
    assert len(judged.values) <= MOST
    assert rest.n_observed >= 0.9 * Y.size


def test_seeds():
    obs = as_observations(field("random"))
    one, again, other = (hold_out(obs, seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.values, again.values)
    assert not np.array_equal(one.values[:50], other.values[:50])


@pytest.mark.parametrize("flip", [False, True], ids=["tall", "wide"])
def test_part_of_a_large_matrix(flip):
    """Whole rows of a tall matrix, whole columns of a wide one; small ones as they are."""
    Y = np.arange(90_000 * 100, dtype=np.float32).reshape(90_000, 100)
    Y[5::7, 3] = np.nan
    part = part_of(as_observations(Y.T if flip else Y))
    across, along = part.shape if flip else part.shape[::-1]
    assert across == 100
    assert 1000 <= along < 90_000
    lines = (
        part.block(slice(None), slice(None)).T
        if flip
        else part.block(slice(None), slice(None))
    )
    np.testing.assert_array_equal(np.diff(lines[:, 4:], axis=1), 1)
    assert np.all(np.diff(lines[:, 0]) > 0)
    little = as_observations(Y[:100])
    assert part_of(little) is little


def test_single_entries_are_set_aside_where_entries_are_missing():
    rng = np.random.default_rng(0)
    rates = np.repeat([0.1, 0.5], 100)[:, None]
    Y = np.where(
        rng.random((200, 300)) < rates, np.nan, rng.standard_normal((200, 300))
    )
    obs = as_observations(Y)
    rest, some = set_aside(obs, 0.02, seed=1)
    assert len(some.rows) == int(0.02 * obs.n_observed)
    np.testing.assert_array_equal(some.values, Y[some.rows, some.cols])
    assert np.isnan(rest.lookup(some.rows, some.cols)).all()
    assert rest.n_observed == obs.n_observed - len(some.rows)
    # five times as many gaps there: about five times as likely, and 0.5 / 0.9 as many entries
    there = (some.rows >= 100).mean()
    assert 0.65 < there < 0.85
    for lines, seen in ((some.rows, obs.row_observed), (some.cols, obs.col_observed)):
        lost = np.bincount(lines, minlength=len(seen))
        assert np.all(lost <= np.maximum(1, THINNED * seen + 1))


def test_no_line_loses_much():
    Y = np.arange(600.0).reshape(20, 30)
    Y[0, :25] = np.nan
    _, some = set_aside(as_observations(Y), 0.5)
    lost = np.bincount(some.rows, minlength=20)
    assert lost[0] == 1  # of five
    assert lost.max() <= 5  # of thirty


@pytest.mark.parametrize("kind", ["columns", "rows"])
def test_stretches_of_gaps_leave_lines_as_full_as_others(kind):
    """About as much is set aside, in pieces of a gap and in more lines, none of which loses much."""
    obs = as_observations(field(kind))
    _, whole = hold_out(obs)
    _, some = hold_out(obs, of_line=THINNED)
    line, along = (
        (some.cols, some.rows) if kind == "columns" else (some.rows, some.cols)
    )
    seen = obs.col_observed if kind == "columns" else obs.row_observed
    lost = np.bincount(line, minlength=len(seen))
    assert np.all(lost <= THINNED * seen)
    assert len(some.rows) > 0.7 * len(whole.rows)
    longest = runs(some.rows, line, along)
    assert np.median(longest) > 0.5 * THINNED * np.median(seen)

"""The layers against their formula, and what must not matter: units, order, orientation,
precision, storage.
"""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from lrmc import as_observations
from lrmc.linalg import Factors
from lrmc.methods.growing import (
    begin,
    from_part,
    grown,
    halves,
    leading_of,
    rank_for,
    supported,
)
from lrmc.methods.learn import SHIPPED
from lrmc.methods.noisy import Noise
from lrmc.methods.noisy_layers import Layers, State, half_layer, passes
from lrmc.observations.grouped import grouped


def table(shape=(90, 60), rank=3, share=0.05, missing=0.4, seed=0):
    """Low rank, noise, outliers and gaps; and the truth."""
    rng = np.random.default_rng(seed)
    X = (
        rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
        + 2
    )
    Y = X + 0.2 * rng.standard_normal(shape)
    wrong = rng.random(shape) < share
    Y[wrong] += rng.uniform(-20, 20, shape)[wrong]
    Y[rng.random(shape) < missing] = np.nan
    return Y, X


def fitted(Y, rank=8, layers=SHIPPED, outliers="both"):
    obs = as_observations(Y)
    noise = Noise.even(obs, outliers=outliers)
    *_, last = passes(obs, begin(obs, rank, noise), layers, noise)
    return last.after.X.L @ last.after.X.R.T


def error(X, truth):
    return np.linalg.norm(X - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "form", [np.asarray, lambda Y: sp.csr_array(np.nan_to_num(Y, nan=0.0))]
)
def test_half_a_layer_is_its_formula(side, form):
    rng = np.random.default_rng(1)
    Y = np.where(rng.random((7, 9)) < 0.6, rng.standard_normal((7, 9)), np.nan)
    obs = as_observations(form(Y))
    noise = Noise(rng.uniform(0.5, 2, 7), rng.uniform(0.5, 2, 9))
    V = [x @ x.T for x in rng.standard_normal((2, 2, 2))]
    state = State(
        Factors(rng.standard_normal((7, 2)), rng.standard_normal((9, 2))), (V[0], V[1])
    )
    numbers = SHIPPED.of(2, side)
    half = half_layer(obs, state, side, numbers, noise, size=0.8)
    F, other = state.X[side], state.X[1 - side]
    own, across = (noise.rows, noise.cols)[:: 1 - 2 * side]
    E = (Y - state.X.L @ state.X.R.T) if side == 0 else (Y - state.X.L @ state.X.R.T).T
    scale = np.outer(own, across)
    w = (1 + (E / (numbers.reach * 0.8 * scale)) ** 2) ** -numbers.shape / scale**2
    w, E = np.where(np.isnan(E), 0, w), np.nan_to_num(E)
    m, S = F.mean(0), np.cov(F.T, bias=True) + V[side]
    ridge = numbers.prior * half.variance * np.linalg.inv(S)
    inverses = []
    for i in range(len(F)):
        H = (
            sum(
                w[i, j] * (np.outer(o, o) + numbers.kappa * V[1 - side])
                for j, o in enumerate(other)
            )
            + ridge
        )
        g = sum(
            w[i, j] * (E[i, j] * o - numbers.kappa * V[1 - side] @ F[i])
            for j, o in enumerate(other)
        )
        step = np.linalg.solve(H, g - ridge @ (F[i] - m))
        np.testing.assert_allclose(
            half.after.X[side][i], F[i] + numbers.eta * step, rtol=1e-4, atol=1e-5
        )
        inverses.append(np.linalg.inv(H))
    np.testing.assert_allclose(
        half.after.unknown[side],
        half.variance * np.mean(inverses, axis=0),
        rtol=1e-4,
        atol=1e-5,
    )


def test_outliers_and_noise_are_got_rid_of():
    Y, X = table()
    assert error(fitted(Y), X) < 0.05


def test_the_rank_is_simply_high_enough():
    Y, X = table((200, 100))
    spread = np.linalg.svd(fitted(Y, 15), compute_uv=False)
    assert error(fitted(Y, 15), X) < 1.1 * error(fitted(Y, 4), X)
    # three components, a mean, and what is left of others
    assert spread[6] < 0.03 * spread[3]


@pytest.mark.parametrize("gain", [1e-6, 1e6])
def test_units_do_not_matter(gain):
    Y, _ = table()
    np.testing.assert_allclose(fitted(gain * Y) / gain, fitted(Y), rtol=1e-6, atol=1e-6)


def test_orientation_does_not_matter():
    Y, _ = table()
    np.testing.assert_allclose(
        fitted(np.ascontiguousarray(Y.T)).T, fitted(Y), atol=1e-6
    )


def test_order_does_not_matter():
    Y, X = table()
    rows, cols = (np.random.default_rng(2).permutation(n) for n in Y.shape)
    moved = fitted(Y[rows][:, cols])
    assert error(moved, fitted(Y)[rows][:, cols]) < 0.2 * error(fitted(Y), X)


def test_precision_hardly_matters():
    Y, X = table()
    assert (
        error(fitted(Y.astype(np.float32)), fitted(Y))
        < 1e-3 * error(fitted(Y), X) + 1e-4
    )


def test_a_row_without_entries_is_the_mean_row():
    Y, _ = table()
    Y[5] = np.nan
    obs = as_observations(Y)
    *_, before, last = passes(
        obs, begin(obs, 6, Noise.even(obs)), SHIPPED, Noise.even(obs)
    )
    assert before.side == 0
    used = np.arange(len(Y)) != 5
    np.testing.assert_allclose(before.after.X.L[5], before.before.X.L[used].mean(0))
    assert np.isfinite(last.after.X.R).all()


def test_outliers_on_one_side():
    """Told so, the side without outliers counts in full."""
    Y, X = table(share=0)
    Y[np.random.default_rng(3).random(Y.shape) < 0.1] += 15
    positive, both, negative = (
        error(fitted(Y, outliers=side), X) for side in ("positive", "both", "negative")
    )
    assert positive < both < 0.1 < negative


def test_rows_in_groups():
    Y, X = table((120, 40), missing=0.2)
    obs = grouped(as_observations(Y), np.repeat(np.arange(60), 2))
    *_, last = passes(obs, begin(obs, 5, Noise.even(obs)), SHIPPED, Noise.even(obs))
    assert error(last.after.X.L @ last.after.X.R.T, X) < 0.15


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_constant_data(constant):
    Y = np.full((30, 20), constant)
    Y[::3, ::2] = np.nan
    np.testing.assert_allclose(fitted(Y, 3), constant, atol=1e-6)


def test_the_rank_is_one_that_entries_can_carry():
    Y, _ = table((40, 30), missing=0.9)
    assert rank_for(as_observations(Y)) <= 2
    assert rank_for(as_observations(np.ones((2, 2)))) == 1


def test_the_start_grows():
    Y, X = table((200, 100))
    obs = as_observations(Y)
    states = grown(obs, 6, Noise.even(obs))
    assert [state.X.L.shape[1] for state in states] == [1, 2, 4, 6]
    errors = [error(state.X.L @ state.X.R.T, X) for state in states]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.2


def test_components_that_few_lines_carry_are_objects():
    rng = np.random.default_rng(0)
    wide, narrow = rng.standard_normal((300, 2)), np.zeros((300, 1))
    narrow[:20] = 3.0
    L = np.hstack([wide, narrow])
    state = State(Factors(L, rng.standard_normal((40, 3))), (np.zeros((3, 3)),) * 2)
    left = supported(state)
    assert left.X.L.shape[1] == 2
    missed = left.X.L @ left.X.R.T - wide @ state.X.R[:, :2].T
    truth = wide @ state.X.R[:, :2].T
    assert np.linalg.norm(missed[20:]) < 0.2 * np.linalg.norm(truth)


def test_lines_outside_a_part_begin_at_the_mean():
    rng = np.random.default_rng(0)
    X = Factors(rng.standard_normal((30, 2)), rng.standard_normal((8, 2)))
    state = from_part(State(X, (np.eye(2), np.eye(2))), 0, 100)
    assert state.X.L.shape == (100, 2)
    np.testing.assert_allclose(state.X.L, np.tile(X.L.mean(0), (100, 1)))
    np.testing.assert_allclose(
        state.unknown[0], np.cov(X.L.T, bias=True) + np.eye(2), rtol=1e-6
    )


def test_layers_go_to_json_and_back():
    assert Layers.from_plain(json.loads(json.dumps(SHIPPED.plain()))) == SHIPPED


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"eta": [1.0]}, "one number of each kind"),
        ({"eta": [-1.0] * 3}, "positive and finite"),
        ({"kappa": [np.nan] * 3}, "positive and finite"),
        ({"zeta": [1.0] * 3}, "layers have reach"),
    ],
)
def test_layers_that_are_none(wrong, said):
    with pytest.raises(ValueError, match=said):
        Layers.from_plain(SHIPPED.plain() | wrong)


def test_largest_components():
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((30, 6)), rng.standard_normal((20, 6))
    U, s, V = np.linalg.svd(L @ R.T)
    state = State.known(Factors(L, R))
    some = leading_of(state, 2).X
    np.testing.assert_allclose(some.L @ some.R.T, (U[:, :2] * s[:2]) @ V[:2])
    assert [x.rank for x in halves(state)] == [1, 2, 4, 6]
    assert halves(leading_of(state, 1))[0].rank == 1


def test_lines_that_are_known_stay():
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((5, 2)), rng.standard_normal((9, 2))
    known = np.array([7, 1, 3, 8, 0])
    whole = from_part(State.known(Factors(L, R)), 0, 10, known)
    np.testing.assert_array_equal(whole.X.L[known], L)
    others = np.delete(whole.X.L, known, axis=0)
    np.testing.assert_allclose(others, np.tile(L.mean(0), (5, 1)))
    # as wide as what was fitted
    spread = np.cov(whole.X.L.T, bias=True) + whole.unknown[0]
    np.testing.assert_allclose(spread, np.cov(L.T, bias=True))
    again = from_part(State.known(Factors(L, R)), 0, 5, np.arange(5))
    np.testing.assert_array_equal(again.unknown[0], 0)

"""Layers in one call: against halves one by one, for every storage that a kernel reads."""

import numpy as np
import pytest
from test_refit import FORMS, noise_of, state_of, table

from lrmc import as_observations
from lrmc.linalg import Factors
from lrmc.methods.learn import SHIPPED
from lrmc.methods.noisy import Noise
from lrmc.methods.noisy_layers import State, passes, settled
from lrmc.methods.settling import End, alive, settle, trimmed
from lrmc.observations.grouped import grouped


def assert_ends(end, half):
    """Both come from the same kernel, so that they are the same to the last digit."""
    assert end.variance == half.variance
    assert end.total == pytest.approx(half.total, rel=1e-6)
    pairs = zip(end.after.X, half.after.X, strict=True)
    unknown = zip(end.after.unknown, half.after.unknown, strict=True)
    for one, other in (*pairs, *unknown):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("uneven", [False, True])
def test_layers_at_once_are_halves_one_by_one(form, uneven):
    for dtype in (np.float32, np.float64):
        Y, rng = table(dtype=dtype)
        obs = FORMS[form](Y)
        state, noise = state_of(obs, 4, rng), noise_of(obs, uneven, "both", rng)
        asked = (obs, state, SHIPPED, noise)
        *_, half = settled(*asked)
        assert_ends(settle(*asked), half)
        *_, half = passes(*asked)
        assert_ends(settle(*asked, most_again=0), half)


@pytest.mark.parametrize("flip", [False, True])
def test_the_last_layer_is_made_again_while_residuals_fall(flip):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 40))
    obs = as_observations(Y.T.copy() if flip else Y)
    state, noise = state_of(obs, 3, rng), Noise.even(obs)
    halves = list(settled(obs, state, SHIPPED, noise))
    assert len(halves) > 2 * len(SHIPPED)
    assert_ends(settle(obs, state, SHIPPED, noise), halves[-1])


def test_groups_go_step_by_step():
    Y, rng = table()
    obs = as_observations(Y)
    state, noise = state_of(obs, 2, rng), Noise.even(obs)
    alone = grouped(obs, np.arange(71))  # each row is a group
    end, other = (settle(x, state, SHIPPED, noise) for x in (obs, alone))
    assert other.variance == pytest.approx(end.variance, rel=1e-6)


@pytest.mark.parametrize("times", [0.0, 1e-8, 1.0])
def test_what_is_alive_is_what_trimming_leaves(times):
    """In another gauge where nothing died; a component that is almost nothing did."""
    Y, rng = table()
    obs = as_observations(Y)
    L, R = (rng.standard_normal((n, 4)) for n in Y.shape)
    X = Factors(L * [1, 1, 1, times], R)
    end = End(State.known(X), variance=1e-4, total=float(obs.n_observed))
    kept, wanted = alive(obs, end), trimmed(obs, end)
    assert kept.L.shape == wanted.L.shape == (len(L), 4 if times == 1 else 3)
    assert (kept is X) == (times == 1)
    np.testing.assert_allclose(kept.L @ kept.R.T, wanted.L @ wanted.R.T, atol=1e-6)

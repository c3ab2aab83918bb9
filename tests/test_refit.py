"""Half a layer in one call: against the same step by step, for every storage that a kernel reads."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from each import each

from lrmc import _kernels, as_observations
from lrmc.linalg import Factors
from lrmc.methods.learn import SHIPPED
from lrmc.methods.noisy import Noise
from lrmc.methods.noisy_layers import State, half_by_rounds, half_layer
from lrmc.observations.grouped import grouped
from lrmc.observations.transposed import transposed

FORMS = {
    "nan": as_observations,
    "fortran": lambda Y: as_observations(np.asfortranarray(Y)),
    "transposed": lambda Y: transposed(as_observations(Y.T.copy())),
    "mask": lambda Y: as_observations(np.nan_to_num(Y), mask=~np.isnan(Y)),
    "sparse": lambda Y: as_observations(sp.csr_array(np.nan_to_num(Y))),
    "scaled": lambda Y: as_observations(Y / 3).scaled(3.0),
}


def table(shape=(71, 23), dtype=np.float64, seed=0):
    """Noise, outliers and gaps; a row and a column have no entries."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    Y += 0.3 * rng.standard_normal(shape)
    Y[rng.random(shape) < 0.1] += 5
    Y[rng.random(shape) < 0.3] = np.nan
    Y[3], Y[:, 5] = np.nan, np.nan
    return Y.astype(dtype), rng


def state_of(obs, rank, rng):
    L, R = (rng.standard_normal((n, rank)).astype(obs.dtype) for n in obs.shape)
    unknown = [x @ x.T for x in rng.standard_normal((2, rank, rank))]
    return State(Factors(L, R), (unknown[0], unknown[1]))


def noise_of(obs, uneven, outliers, rng):
    rows, cols = (rng.uniform(0.5, 2, n) if uneven else np.ones(n) for n in obs.shape)
    return Noise(rows, cols, outliers=outliers)


def assert_same(one, other, tol):
    for name in ("variance", "relative", "total", "mean", "covariance", "ridge"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=tol)
    assert one.pull.n_inliers == other.pull.n_inliers
    np.testing.assert_allclose(one.pull.energy, other.pull.energy, rtol=tol)
    np.testing.assert_allclose(one.weight.rows, other.weight.rows, rtol=tol)
    side = one.side
    pairs = [
        (one.pull[side], other.pull[side]),
        (one.pull.grams[side], other.pull.grams[side]),
        (one.step, other.step),
        (one.after.X[side], other.after.X[side]),
        (one.after.unknown[side], other.after.unknown[side]),
    ]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol * np.abs(b).max())
    assert one.after.X[1 - side] is one.before.X[1 - side]


@pytest.mark.parametrize("form", FORMS)
@each("side", [0, 1])
@each(("uneven", "outliers"), [(False, "both"), (True, "both"), (True, "positive")])
def test_it_is_the_same_as_step_by_step(form, side, uneven, outliers):
    for dtype, rank, tol in ((np.float32, 3, 2e-4), (np.float64, 9, 1e-8)):
        Y, rng = table(dtype=dtype)
        obs = FORMS[form](Y)
        state = state_of(obs, rank, rng)
        noise = noise_of(obs, uneven, outliers, rng)
        asked = (obs, state, side, SHIPPED.of(1, side), noise)
        assert_same(half_layer(*asked), half_by_rounds(*asked), tol)
        held = {"size": 0.7, "relative": 1.3}
        assert_same(half_layer(*asked, **held), half_by_rounds(*asked, **held), tol)


@pytest.mark.parametrize("name", _kernels.instruction_sets())
def test_every_instruction_set(name):
    usual = _kernels.instruction_set()
    Y, rng = table((200, 90))
    obs = as_observations(Y)  # more entries than the unit is told by
    asked = (obs, state_of(obs, 5, rng), 0, SHIPPED.of(0, 0), Noise.even(obs))
    _kernels.use_instruction_set(name)
    try:
        assert_same(half_layer(*asked), half_by_rounds(*asked), 1e-8)
    finally:
        _kernels.use_instruction_set(usual)


def test_where_half_of_all_residuals_are_0_the_mean_is_the_unit():
    Y = np.ones((20, 6))
    Y[:3] = 3.0
    obs = as_observations(Y)
    state = State.known(Factors(np.ones((20, 1)), np.ones((6, 1))))
    asked = (obs, state, 0, SHIPPED.of(0, 0), Noise.even(obs))
    assert half_layer(*asked).weight.rows[0] == pytest.approx(SHIPPED.reach[0] * 0.3)


def test_what_is_not_a_number_stays_so():
    Y, rng = table()
    obs = as_observations(Y)
    state = state_of(obs, 3, rng)
    state.X.L[4] = np.nan
    half = half_layer(obs, state, 0, SHIPPED.of(0, 0), Noise.even(obs))
    assert np.isnan(half.weight.rows).all()
    assert not np.isfinite(half.after.X.L[np.arange(71) != 3]).any()


def test_groups_and_other_precisions_are_left_to_others():
    Y, rng = table()
    obs = as_observations(Y)
    state = state_of(obs, 2, rng)
    single = state.of_type(np.dtype(np.float32))
    alone = grouped(obs, np.arange(71))  # each row is a group
    wanted = (0, SHIPPED.of(0, 0), Noise.even(obs))
    at_once = half_layer(obs, state, *wanted)
    assert_same(half_layer(alone, state, *wanted), at_once, 1e-8)
    assert_same(half_layer(obs, single, *wanted), at_once, 1e-3)
    given = SimpleNamespace(**state.X._asdict())
    assert alone.refit(given) is None


@each(
    ("name", "wrong"),
    [
        ("rows", np.array([71, 0])),
        ("cols", np.array([0, -1])),
        ("cols", np.array([0])),
        ("observed", np.ones(70, np.int64)),
        ("row_noise", np.ones(23)),
        ("unknown_R", np.ones((2, 3))),
        ("values", np.ones(2, np.float32)),
        ("side", 2),
        ("every", 0),
    ],
)
def test_what_does_not_fit_is_refused(name, wrong):
    Y, rng = table()
    obs = as_observations(Y)
    L, R = (rng.standard_normal((n, 2)) for n in obs.shape)
    room = {
        **{key: np.empty((71, 2)) for key in ("pull", "after", "step")},
        **{key: np.empty((2, 2)) for key in ("covariance", "ridge", "unknown")},
        "grams": np.empty((71, 4)),
        "col_weight": np.empty(23),
        "mean": np.empty(2),
    }
    two = np.array([0, 1])
    given = {
        **dict.fromkeys(("reach", "shape", "prior", "kappa", "eta", "up", "down"), 1.0),
        **dict.fromkeys(("size", "relative", "least", "tiny"), 0.0),
        **{key: np.eye(2) for key in ("unknown_L", "unknown_R")},
        "side": 0,
        "every": 1,
        "row_noise": np.ones(71),
        "col_noise": np.ones(23),
        "observed": np.ones(71, np.int64),
        "rows": two,
        "cols": two,
        "values": np.ones(2),
    }

    def run(**changed):
        _kernels.refit(
            obs.data,
            _kernels.Factors(L=L, R=R),
            _kernels.Layer(**(given | changed)),
            _kernels.LayerRoom(**room),
            threads=1,
            row_threads=1,
        )

    run()
    with pytest.raises(ValueError, match="kernel"):
        run(**{name: wrong})

"""rank=None: the right rank, and why."""

from itertools import product

import numpy as np
import pytest
from problems import concentrated

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.learn import SHIPPED
from lrmc.methods.rank import beyond
from lrmc.observations import as_observations

EXACT = [{"rank": r} for r in (1, 2, 5, 10)] + [
    {"condition": 10},
    {"condition": 100},
    {"rank": 2, "condition": 100},
    {"outlier_scale": 10},
    {"p": 1.0},
    {"alpha": 0.3},
]


def problem(seed=0, **setting):
    return lrmc.synthetic.problem(
        **{"n": 800, "rank": 5, "alpha": 0.1, "p": 0.3, "seed": seed, **setting}
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("setting", EXACT, ids=str)
def test_exact(setting, seed):
    given = problem(seed, **setting)
    result = lrmc.solve(given.Y)
    assert result.converged
    assert result.regime == "exact"
    assert result.rank == given.rank
    assert lrmc.relative_error(result, given) < 1e-6


@pytest.mark.parametrize(
    "setting",
    [{}, {"rank": 2}, {"alpha": 0.3}, {"outlier_scale": 10}, {"p": 1.0}],
    ids=str,
)
def test_noisy(setting):
    given = problem(n=400, noise=0.05, **{"p": 0.5, **setting})
    result = lrmc.solve(given.Y)
    assert result.converged
    assert result.regime == "noisy"
    assert result.rank == given.rank
    assert lrmc.relative_error(result, given) < 0.02


TOO_HIGH = pytest.param(
    10,
    0,
    1,
    marks=[
        pytest.mark.xfail(reason="bad rows keep a component: rank 6, error 0.2"),
        pytest.mark.slow,
    ],
)
CONCENTRATED = [
    case for case in product((1, 10), (-1, 0), (0, 1)) if case != (10, 0, 1)
]


@pytest.mark.parametrize(("size", "low", "seed"), [*CONCENTRATED, TOO_HIGH])
def test_concentrated_outliers(size, low, seed):
    """A tenth of the rows has 45 % outliers."""
    given = concentrated(size, low, seed)
    result = lrmc.solve(given.Y, tol=1e-7)
    assert result.rank == 5
    assert lrmc.relative_error(result, (given.L, given.R)) < 1e-6


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_evidence(noise):
    """Each look at what is left: singular values above the noise were added, those below
    were not.
    """
    result = lrmc.solve(problem(n=400, p=0.5, noise=noise, condition=10).Y)
    tests = result.evidence["rank_tests"]
    assert tests
    assert tests[0].rank == 0
    assert tests[0].added >= 1
    for test in tests[1:]:
        assert 1 <= test.rank <= 15
        assert sum(value > test.noise for value in test.singular_values) >= test.added
        assert test.noise > 0
        assert all(np.diff(test.singular_values) <= 1e-12 * test.singular_values[0])
    if noise:
        assert tests[-1].added == 0
        assert tests[-1].rank == result.rank
        assert tests[-1].singular_values[0] < tests[-1].noise


def test_the_evidence_of_held_out_entries():
    """Noise that is not Gaussian: numbers are learned by the error on entries set aside."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 200))
    Y = np.where(
        rng.random(X.shape) < 0.6, X + 0.3 * rng.standard_t(1.5, X.shape), np.nan
    )
    result = lrmc.solve(Y)
    assert result.regime == "noisy"
    layers = result.evidence["plan"]["layers"]
    assert {len(numbers) for numbers in layers.values()} == {len(SHIPPED)}
    assert min(trial.loss for trial in result.evidence["lessons"]) <= 1
    assert result.evidence["held_out"]["error"] < result.evidence["held_out"]["medians"]
    assert 3 <= result.rank <= 5
    assert np.linalg.norm(result.low_rank() - X) < 0.15 * np.linalg.norm(X)


@pytest.mark.parametrize("noise", ["none", "Gaussian", "heavy"])
@pytest.mark.parametrize("unit", [1e-6, 1e9])
def test_the_evidence_is_in_the_units_of_the_data(noise, unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 90))
    draws = {
        "none": lambda n: np.zeros(n),
        "Gaussian": rng.standard_normal,
        "heavy": lambda n: rng.standard_t(1.5, n),
    }
    Y = X + 0.2 * draws[noise](X.shape)
    Y[rng.random(X.shape) < 0.3] = np.nan
    plain, large = (lrmc.solve(gain * Y).evidence for gain in (1.0, unit))
    assert len(plain["rank_tests"]) == len(large["rank_tests"])
    for a, b in zip(plain["rank_tests"], large["rank_tests"], strict=True):
        assert (a.rank, a.added) == (b.rank, b.added)
        np.testing.assert_allclose(
            b.singular_values, np.multiply(unit, a.singular_values), rtol=1e-6
        )
        np.testing.assert_allclose(b.noise, unit * a.noise, rtol=1e-6)
    assert plain["rank_tests"][0].singular_values[0] == pytest.approx(
        np.linalg.norm(X, 2), rel=0.2
    )
    assert ("plan" in plain) == ("plan" in large) == (noise != "none")
    if noise != "none":
        plans = plain["plan"], large["plan"]
        assert plans[0]["rank"] == plans[1]["rank"]
        for name, numbers in plans[0]["layers"].items():
            np.testing.assert_allclose(plans[1]["layers"][name], numbers, rtol=1e-3)
    for name, missed in plain.get("held_out", {}).items():
        assert large["held_out"][name] == pytest.approx(unit * missed, rel=1e-3)
    for a, b in zip(plain.get("trials", ()), large.get("trials", ()), strict=True):
        assert a[:3] == b[:3]
        assert b.error == pytest.approx(unit * a.error, rel=1e-3)


def test_the_evidence_is_saved(tmp_path):
    result = lrmc.solve(problem(n=150, p=0.8, rank=2).Y)
    result.save(tmp_path / "result.npz")
    loaded = lrmc.Result.load(tmp_path / "result.npz")
    assert (
        loaded.evidence["rank_tests"][0]["added"]
        == result.evidence["rank_tests"][0].added
    )
    assert loaded.regime == result.regime == "exact"
    assert (loaded.noise_level, loaded.outlier_fraction) == (
        result.noise_level,
        result.outlier_fraction,
    )


def test_a_given_rank_is_kept():
    given = problem(n=200, p=0.8, rank=3, noise=0.05)
    for rank in (2, 3, 4):
        assert lrmc.solve(given.Y, rank).rank == rank


@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (2, 2), (60, 1)], ids=str)
@pytest.mark.filterwarnings("ignore:.*unknowns")
def test_tiny_matrices(shape):
    """The rank is at most the shorter side."""
    Y = np.outer(np.arange(1.0, 1 + shape[0]), np.arange(1.0, 1 + shape[1]))
    result = lrmc.solve(Y)
    assert 1 <= result.rank <= min(shape)
    np.testing.assert_allclose(result.low_rank(), Y, rtol=1e-4, atol=1e-4)


def test_a_residual_of_zero_is_rest():
    """The quantile that is watched may be 0 while steps still move something: that must
    not go on for ever.
    """
    from lrmc.methods.rank import Pace
    from lrmc.methods.step import Step

    pace, step = (
        Pace(lrmc.as_observations(np.ones((4, 3))), 1e-6),
        Step(np.ones((4, 1)), np.ones((3, 1)), 1.0, 1.0, 0.0),
    )
    assert any(pace.ended(step._replace(moved=1e-3)) for _ in range(30))


@pytest.mark.parametrize("given", [6, 8])
@pytest.mark.parametrize(
    "about",
    [{"n": 300, "n2": 60}, {"n": 300, "n2": 60, "p": 0.5}, {"n": 400, "alpha": 0.3}],
)
def test_a_rank_that_is_too_high_does_no_harm(about, given):
    problem = lrmc.synthetic.problem(
        **{"rank": 5, "alpha": 0.1, "p": 1.0, "seed": 1} | about
    )
    result = lrmc.solve(problem.Y, given)
    assert result.converged
    assert result.rank == 5
    assert result.L.shape[1] == result.R.shape[1] == 5
    assert lrmc.relative_error(result, problem) < 2e-6


def test_a_small_component_is_not_taken_for_one_too_many():
    problem = lrmc.synthetic.problem(
        400, rank=5, alpha=0.1, p=1.0, condition=300, seed=0
    )
    result = lrmc.solve(problem.Y, 5)
    assert result.rank == 5
    assert lrmc.relative_error(result, problem) < 1e-6


def test_noisy_data_have_the_rank_that_was_given():
    problem = lrmc.synthetic.problem(300, rank=3, alpha=0.1, p=1.0, noise=0.05, seed=0)
    assert lrmc.solve(problem.Y, 6).rank == 6


def low(rank, given, noise=0.0, p=1.0, shape=(200, 150)):
    """Data of a rank, solved with a lower one."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    Y = X + noise * np.abs(X).mean() * rng.standard_normal(shape)
    Y = np.where(rng.random(shape) < 0.1, Y + 3 * rng.uniform(-1, 1, shape), Y)
    return np.where(rng.random(shape) < p, Y, np.nan), given


@pytest.mark.parametrize("about", [low(5, 3), low(5, 4, p=0.5), low(6, 3, noise=0.01)])
def test_a_rank_that_is_too_low_is_said(about):
    Y, given = about
    with pytest.warns(
        lrmc.DoubtWarning, match=f"components beyond rank {given} stand out"
    ):
        result = lrmc.solve(Y, given)
    assert result.rank == given
    assert "is the rank too low?" in " ".join(result.warnings)


@pytest.mark.parametrize(
    "about", [low(4, 4, noise=0.1), low(4, 4, noise=0.5, p=0.5), low(2, 3, noise=0.1)]
)
def test_a_rank_that_is_not_too_low_is_not_doubted(about):
    assert lrmc.solve(*about).warnings == ()


def test_components_that_decay_are_left_out_without_a_word():
    """Real data have no rank: each more leaves a little less."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 60)))[0] for n in (200, 150))
    Y = (U * 100 / np.arange(1, 61)) @ V.T + 0.01 * rng.standard_normal((200, 150))
    assert lrmc.solve(Y, 3).warnings == ()


def test_what_is_left_of_noise_does_not_stand_out():
    (Y, _), (E, _) = low(5, 3), low(1, 1, noise=100.0)
    for data, fit, least, most in ((Y, 3, 2.0, 10.0), (E, 1, 0.5, 1.0)):
        U, s, Vt = np.linalg.svd(data, full_matrices=False)
        X = Factors(U[:, :fit] * s[:fit], Vt[:fit].T)
        assert least < beyond(as_observations(data), X) < most

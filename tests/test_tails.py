"""The kernel for mixtures of good residuals and gross errors, against plain NumPy."""

import math

import numpy as np
import pytest

from lrmc import _kernels
from lrmc.evidence.tails import Shape, fit_tails

SETTINGS = {"most_share": 0.6, "settled": 1e-6, "rounds": 300}


def made(n, begins, seed=0):
    """|x| of heavy-tailed noise with a tenth of gross errors, and densities of these."""
    rng = np.random.default_rng(seed)
    x = np.abs(rng.standard_t(3, n))
    bad = rng.random(n) < 0.1
    x[bad] = rng.uniform(0, 40, bad.sum())
    starts = np.arange(begins)[:, None] / 3
    within = (x / 40 >= starts) / (1 - starts) / 80
    return x, np.where(x > 40, 1e-4, within)


def expected(x, densities, p, q, rounds):
    """So many rounds of expectation-maximisation, and the mean logarithm of the likelihood."""
    peak = math.exp(Shape(p, q).log_constant)
    unit, gross = 1.0, np.full(len(densities), 0.05 / len(densities))

    def densities_of(unit, gross):
        good = peak / unit * (1 + (x / unit) ** p / q) ** -(q + 1 / p)
        return (1 - gross.sum()) * good, gross[:, None] * densities

    for _ in range(rounds):
        good, bad = densities_of(unit, gross)
        total = good + bad.sum(0)
        weight = good / total * (p * q + 1) / (q + (x / unit) ** p)
        unit = ((weight * x**p).sum() / (good / total).sum()) ** (1 / p)
        gross = (bad / total).mean(1)
        gross *= min(1, 0.6 / gross.sum())
    good, bad = densities_of(unit, gross)
    return unit, gross, np.log(good + bad.sum(0)).mean()


def found(x, densities, p, q, **settings):
    gross = np.full(len(densities), 0.05 / len(densities))
    unit, likelihood = _kernels.tails(
        (x**p).astype(np.float32),
        densities.astype(np.float32),
        gross=gross,
        p=p,
        q=q,
        peak=math.exp(Shape(p, q).log_constant),
        **SETTINGS | settings,
    )
    return unit, gross, likelihood


@pytest.mark.parametrize("isa", _kernels.instruction_sets())
@pytest.mark.parametrize("n", [1, 3, 8, 37, 1001])
def test_rounds_are_those_of_numpy(n, isa):
    before = _kernels.instruction_set()
    _kernels.use_instruction_set(isa)
    try:
        for begins, p, q in ((1, 2.0, 1.8), (3, 1.0, 0.5), (3, 3.0, 500.0)):
            x, densities = made(n, begins, seed=n)
            for rounds in (1, 5):
                got = found(x, densities, p, q, rounds=rounds, settled=0.0)
                want = expected(x, densities, p, q, rounds)
                for one, other in zip(got, want, strict=True):
                    np.testing.assert_allclose(one, other, rtol=2e-4, atol=5e-5)
    finally:
        _kernels.use_instruction_set(before)


def test_it_ends_where_nothing_moves():
    x, densities = made(2000, 3)
    got, want = found(x, densities, 2.0, 1.8), expected(x, densities, 2.0, 1.8, 3000)
    assert abs(got[0] - want[0]) < 1e-3
    assert abs(got[1].sum() - 0.1) < 0.02
    assert abs(got[2] - want[2]) < 1e-4


def test_extremes_stay_finite():
    x, _ = made(100, 3)
    x[0] = 1e9
    for residual in (x, np.full(100, 3.0), np.zeros(100), np.r_[np.zeros(60), x[:40]]):
        tails = fit_tails(residual, np.ones(100))
        assert np.isfinite((tails.unit, tails.width, *tails.gross)).all()
        assert 0 <= tails.share <= 0.6 + 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        {"densities": np.zeros((1, 3), np.float32)},
        {"densities": np.zeros((9, 4), np.float32)},
        {"gross": np.zeros(2)},
        {"power": np.zeros(0, np.float32)},
        {"p": 0.0},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(wrong):
    given = {
        "power": np.zeros(4, np.float32),
        "densities": np.zeros((1, 4), np.float32),
        "gross": np.zeros(1),
        "p": 2.0,
        **wrong,
    }
    power, densities = given.pop("power"), given.pop("densities")
    with pytest.raises(ValueError, match=r"has|is"):
        _kernels.tails(power, densities, q=1.0, peak=1.0, **SETTINGS, **given)

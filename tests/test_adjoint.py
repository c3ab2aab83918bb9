"""Gradients through a pass and through the layers: the naive ones, those of torch, and
differences.
"""

from functools import partial

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from comparing import ROUNDING, assert_close
from each import each
from presentations import every_storage, small

from lrmc import _kernels, as_observations
from lrmc.linalg import Factors
from lrmc.methods.lrmc import lrmc as algorithm
from lrmc.methods.step import Start
from lrmc.observations.grouped import grouped
from lrmc.observations.heldout import hold_out
from lrmc.observations.transposed import transposed
from lrmc.schedule import Layer
from lrmc.training.adjoint import backward, forward

# ---- one pass


def assert_adjoint(got, want, dtype, factor=1.0):
    for a, b in ((got.L, want.L), (got.R, want.R)):
        assert a.dtype == dtype
        assert_close(a, b, dtype, factor)
    assert isinstance(got.zeta, float)
    assert abs(got.zeta - want.zeta) <= factor * ROUNDING[np.dtype(dtype)] * want.size


def data(n1, n2, p=0.4, dtype=np.float64):
    """Gaussian Y with gaps (NaN). With p = 0.4, arrays stay dense and sparse matrices sparse."""
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((n1, n2)).astype(dtype)
    Y[rng.random((n1, n2)) >= p] = np.nan
    Y[0, 0] = 1.0  # never empty
    return Y


def four_factors(shape, rank, dtype=np.float64):
    """L, R, Ab, Bb."""
    rng = np.random.default_rng(rank)
    return tuple(
        (rng.standard_normal((n, rank)) / np.sqrt(rank)).astype(dtype)
        for n in (*shape, *shape)
    )


def stored(Y, kind=sp.csr_array):
    rows, cols = np.nonzero(~np.isnan(Y))
    return kind(sp.coo_array((Y[rows, cols], (rows, cols)), shape=Y.shape))


def check(Y, rank):
    """Dense, by columns and sparse, one thread or two: as the reference."""
    L, R, Ab, Bb = four_factors(Y.shape, rank, Y.dtype)
    wide = [X.astype(float) for X in (Y, L, R, Ab, Bb)]
    want = reference.adjoint(wide[0], ~np.isnan(Y), *wide[1:3], 0.8, *wide[3:])
    for form in (Y, np.asfortranarray(Y), stored(Y), stored(Y, sp.csc_array)):
        for threads in (1, 2):
            obs = as_observations(form, threads=threads)
            assert_adjoint(obs.adjoint(L, R, 0.8, Ab, Bb), want, Y.dtype)


@every_storage
def test_every_storage(present, p, folder):
    s = small(p=p)
    rng = np.random.default_rng(5)
    L, R = (rng.uniform(0.5, 3, (n, 3)) for n in s.values.shape)
    Ab, Bb = (rng.standard_normal((n, 3)) for n in s.values.shape)
    want = reference.adjoint(s.values, s.mask, L, R, 11.3, Ab, Bb)
    assert want.size > 0
    obs = as_observations(*present(s, folder))
    assert_adjoint(obs.adjoint(L, R, 11.3, Ab, Bb), want, obs.dtype)


@every_storage
def test_without_some_entries(present, p, folder):
    s = small(p=p)
    obs, judged = hold_out(as_observations(*present(s, folder)))
    left = s.mask.copy()
    left[judged.rows, judged.cols] = False
    L, R, Ab, Bb = four_factors(s.values.shape, 2)
    want = reference.adjoint(s.values, left, L, R, 11.3, Ab, Bb)
    assert_adjoint(obs.adjoint(L, R, 11.3, Ab, Bb), want, obs.dtype, factor=4)


@each("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [*range(1, 18), 33, 65])
def test_every_rank(rank, dtype):
    for p in (0.1, 0.4, 0.9):
        check(data(19, 45, p, dtype), rank)


SHAPES = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 40),
    (40, 1),
    (3, 5),
    (5, 17),
    (7, 255),
    (8, 256),
    (6, 257),
    (257, 6),
]
LONG = [(3, 511), (5, 512), (6, 513), (1, 3000), (3000, 1), (1100, 9), (9, 1537)]


@each("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES + LONG, ids=str)
def test_every_shape(shape, dtype):
    check(data(*shape, dtype=dtype), 1 if 1 in shape else 3)


def test_rows_longer_than_a_panel():
    check(data(5, 4700), 16)
    check(data(4700, 5), 16)


@pytest.mark.usefixtures("restore_instruction_set")
@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("dtype", [np.float32, np.float64, np.uint8, np.int16, np.uint16])
def test_every_instruction_set(name, dtype):
    _kernels.use_instruction_set(name)
    rng = np.random.default_rng(0)
    whole, mask = rng.integers(0, 9, (21, 530)), rng.random((21, 530)) < 0.4
    Y = whole.astype(dtype)
    for rank in (1, 5, 16, 18):
        L, R, Ab, Bb = four_factors(Y.shape, rank)
        want = reference.adjoint(whole.astype(float), mask, L, R, 3.3, Ab, Bb)
        csr = sp.csr_array((Y[mask], np.nonzero(mask)), shape=Y.shape)
        for given in ((Y, mask), (csr, None)):
            obs = as_observations(*given)
            assert_adjoint(obs.adjoint(L, R, 3.3, Ab, Bb), want, obs.dtype)


@pytest.mark.parametrize("shape", [(61, 700), (700, 61), (2, 3000)], ids=str)
@each("p", [0.1, 0.9])
def test_threads_agree_and_repeat_to_the_last_bit(shape, p):
    Y, factors = data(*shape, p), four_factors(shape, 4)

    def adjoint(threads):
        L, R, Ab, Bb = factors
        return as_observations(Y, threads=threads).adjoint(L, R, 0.8, Ab, Bb)

    one = adjoint(1)
    for threads in (1, 2, 3, 5):
        got, again = adjoint(threads), adjoint(threads)
        for a, b, c in zip(got, again, one, strict=True):
            assert np.array_equal(a, b)
            assert_close(a, c)


@pytest.mark.parametrize("form", [np.asarray, stored])
def test_it_is_the_adjoint_of_the_derivative(form):
    """<Ab, d(C R)> + <Bb, d(C' L)> = <GL, dL> + <GR, dR> + zeta_bar dzeta, by
    differences of `pull`.
    """
    Y, rng = data(30, 40), np.random.default_rng(1)
    L, R, Ab, Bb = four_factors(Y.shape, 3)
    dL, dR, dz, h = (
        rng.standard_normal(L.shape),
        rng.standard_normal(R.shape),
        0.3,
        1e-6,
    )
    obs = as_observations(form(Y))
    (A1, B1), (A0, B0) = (
        obs.pull(L + t * dL, R + t * dR, 0.8 + t * dz) for t in (h, -h)
    )
    forward = (np.vdot(Ab, A1 - A0) + np.vdot(Bb, B1 - B0)) / (2 * h)
    got = obs.adjoint(L, R, 0.8, Ab, Bb)
    assert np.vdot(got.L, dL) + np.vdot(got.R, dR) + got.zeta * dz == pytest.approx(
        forward, rel=1e-6
    )


def test_transposing_the_data_transposes_the_gradients():
    Y = data(23, 31)
    L, R, Ab, Bb = four_factors(Y.shape, 3)
    obs = as_observations(Y)
    want = obs.adjoint(L, R, 0.8, Ab, Bb)
    for other in (as_observations(Y.T), transposed(obs), as_observations(stored(Y.T))):
        got = other.adjoint(R, L, 0.8, Bb, Ab)
        assert_close(got.L, want.R)
        assert_close(got.R, want.L)
        assert got.zeta == pytest.approx(want.zeta)


@each("p", [0.1, 0.4])
@each("gain", [0.0, 0.25, -3.0])
def test_gain(gain, p):
    """As for data multiplied by it; zero leaves the model alone on the observed places."""
    Y = data(13, 50, p)
    L, R, Ab, Bb = four_factors(Y.shape, 3)
    want = reference.adjoint(gain * Y, ~np.isnan(Y), L, R, 0.8, Ab, Bb)
    for form in (Y, np.asfortranarray(Y), stored(Y)):
        obs = as_observations(form).scaled(gain)
        assert_adjoint(obs.adjoint(L, R, 0.8, Ab, Bb), want, np.float64)
    rest, _ = hold_out(as_observations(Y))
    again = hold_out(as_observations(gain * Y))[0].adjoint(L, R, 0.8, Ab, Bb)
    assert_close(rest.scaled(gain).adjoint(L, R, 0.8, Ab, Bb).L, again.L, factor=4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_border_is_that_of_the_pass(dtype):
    """|e| = zeta is inside, the next number is not."""
    zeta = dtype(0.75)
    above = np.nextafter(zeta, dtype(1))
    Y = np.array([[zeta, -zeta, above, -above, 0]], dtype)
    L, R, Ab, Bb = np.zeros((1, 1)), np.ones((5, 1)), np.ones((1, 1)), np.zeros((5, 1))
    for form in (Y, stored(Y)):
        for seen, zeta_bar in (
            (slice(None), 0.0),
            (slice(0, 3), 1.0),
            (slice(3, 5), -1.0),
        ):
            obs = as_observations(form[:, seen])
            inside = obs.pull(L, R[seen], float(zeta)).n_inliers
            got = obs.adjoint(L, R[seen], float(zeta), Ab, Bb[seen])
            assert got.zeta == zeta_bar
            assert got.L.item() == -inside


@pytest.mark.parametrize("form", [np.asarray, stored])
def test_the_border_is_that_of_the_pass_in_its_own_rounding(form):
    """zeta is some |e| of the pass itself. With Cb = 1, the first column of the gradient
    of L counts what is inside.
    """
    Y = data(9, 70, dtype=np.float32)
    L, R, Ab, Bb = four_factors(Y.shape, 6, np.float32)
    L[:, 0], R[:, 0] = 0, 1  # the model does not feel it
    Ab[:], Bb[:] = [1, 0, 0, 0, 0, 0], 0
    obs = as_observations(form(Y))
    E = obs.outliers(L, R, 0.0)
    for zeta in np.abs(E.data if sp.issparse(E) else E[~np.isnan(E)])[::5]:
        got = obs.adjoint(L, R, zeta, Ab, Bb)
        assert -got.L[:, 0].sum() == obs.pull(L, R, zeta).n_inliers


def test_nothing_beyond_the_threshold():
    """Then the pass is linear in the residual, and zeta is not felt."""
    Y = data(20, 30)
    L, R, Ab, Bb = four_factors(Y.shape, 3)
    for form in (Y, stored(Y)):
        got = as_observations(form).adjoint(L, R, 1e3, Ab, Bb)
        assert got.zeta == 0
        E, Cb = (
            np.nan_to_num(Y - L @ R.T),
            np.where(np.isnan(Y), 0, Ab @ R.T + L @ Bb.T),
        )
        assert_close(got.L, E @ Bb - Cb @ R)
        assert_close(got.R, E.T @ Ab - Cb.T @ L)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_missing_entries_stay_out(dtype):
    Y = data(9, 530, 0.5, dtype)
    Y[4], Y[:, 17] = np.nan, np.nan
    L, R, Ab, Bb = four_factors(Y.shape, 3, dtype)
    got = as_observations(Y).adjoint(L, R, 0.8, Ab, Bb)
    assert np.isfinite(got.zeta)
    assert not got.L[4].any()
    assert not got.R[17].any()
    seen = ~np.isnan(Y)
    for garbage in (0.0, 1e30, -np.inf):
        other = as_observations(np.where(seen, Y, garbage).astype(dtype), seen).adjoint(
            L, R, 0.8, Ab, Bb
        )
        assert all(np.array_equal(a, b) for a, b in zip(got, other, strict=True))


def test_groups_have_none():
    obs = grouped(as_observations(np.ones((4, 5))), [0, 0, 1, 1])
    with pytest.raises(NotImplementedError, match="without groups"):
        obs.adjoint(*four_factors((4, 5), 1)[:2], 1.0, *four_factors((4, 5), 1)[2:])


def test_what_would_crash_is_refused():
    L, R, Ab, Bb = four_factors((4, 5), 2)
    for form in (np.ones((4, 5)), sp.csr_array(np.eye(4, 5))):
        obs = as_observations(form)
        for bad in (
            (R, L, Ab, Bb),
            (L, R[:, :1], Ab, Bb),
            (L, R, Ab[:, :1], Bb[:, :1]),
            (L, R, Bb, Ab),
        ):
            with pytest.raises((ValueError, RuntimeError), match="kernel"):
                obs.adjoint(bad[0], bad[1], 1.0, bad[2], bad[3])


# ---- the layers

K = 4
LAYERS = tuple(Layer(1.6 * 0.75**k, 0.5 + 0.05 * k, 0.1 * k) for k in range(K))
PLAIN = tuple(layer._replace(momentum=0.0) for layer in LAYERS)
FORMS = {
    "dense": np.asarray,
    "by columns": np.asfortranarray,
    "CSR": stored,
    "CSC": partial(stored, kind=sp.csc_array),
}


def start_for(shape, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return Factors(*(rng.standard_normal((n, rank)) for n in shape))


def seeds_for(shape, rank=3, looked_at=range(K)):
    rng = np.random.default_rng(9)
    every = [tuple(rng.standard_normal((n, rank)) for n in shape) for _ in range(K)]
    return [seed if k in looked_at else None for k, seed in enumerate(every)]


def torch_gradients(Y, start, layers, tangent, seeds):
    """The same layers in plain torch with X formed, and autograd. The loss is the sum of
    <seed, factor>.
    """
    torch = pytest.importorskip("torch")
    numbers = [
        torch.tensor(x, dtype=torch.float64, requires_grad=True)
        for x in np.array(layers).T
    ]
    L0, R0 = (torch.tensor(X, requires_grad=True) for X in start)
    values, seen = torch.tensor(np.nan_to_num(Y)), torch.tensor(~np.isnan(Y))
    L, R, mL, mR, loss = L0, R0, 0 * L0, 0 * R0, 0
    for zeta, eta, gamma, seed in zip(*numbers, seeds, strict=True):
        E = torch.where(seen, values - L @ R.T, 0.0)
        C = E - torch.sign(E) * torch.relu(E.abs() - zeta)  # Y - X - S
        dL, dR = C @ R @ torch.linalg.inv(R.T @ R), C.T @ L @ torch.linalg.inv(L.T @ L)
        if tangent:
            M = torch.linalg.inv(L.T @ L) @ L.T @ dL
            dL, dR = dL - L @ M / 2, dR - R @ M.T / 2
        mL, mR = dL + gamma * mL, dR + gamma * mR
        L, R = L + eta * mL, R + eta * mR
        if seed is not None:
            loss = loss + sum(
                (torch.tensor(s) * X).sum() for s, X in zip(seed, (L, R), strict=True)
            )
    loss.backward()
    return [x.grad.numpy() for x in (*numbers, L0, R0)]


def assert_gradients(got, want, rel=1e-10):
    for a, b in zip((got.zeta, got.eta, got.momentum, *got.start), want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=rel * np.abs(b).max() + 1e-300)


@each("looked_at", [[K - 1], [0, 2], range(K)], ids=str)
@each("layers", [LAYERS, PLAIN], ids=["momentum", "plain"])
@pytest.mark.parametrize("tangent", [False, True])
@pytest.mark.parametrize("p", [1.0, 0.4, 0.15])
def test_gradients_are_those_of_torch(p, tangent, layers, looked_at):
    Y = data(50, 40, p)
    start, seeds = start_for(Y.shape), seeds_for(Y.shape, looked_at=looked_at)
    want = torch_gradients(Y, start, layers, tangent, seeds)
    seen = ~np.isnan(Y)
    for given in (
        *((form(Y), None) for form in FORMS.values()),
        (np.where(seen, Y, 7.0), seen),
    ):
        obs = as_observations(*given)
        assert_gradients(
            backward(obs, forward(obs, start, layers, tangent), seeds), want
        )


@each("tangent", [False, True])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_gradients_are_limits_of_differences(form, tangent):
    Y = data(40, 50)
    obs, start, seeds = (
        as_observations(form(Y)),
        start_for(Y.shape),
        seeds_for(Y.shape, looked_at=(1, 3)),
    )

    def loss(layers):
        ends = forward(obs, start, layers, tangent).iterates
        return sum(
            np.vdot(s, X)
            for end, seed in zip(ends, seeds, strict=True)
            if seed
            for s, X in zip(seed, end)
        )

    got = backward(obs, forward(obs, start, LAYERS, tangent), seeds)
    h = 1e-6
    for name in Layer._fields:
        gradient = getattr(got, name)
        for k in range(K):
            at = getattr(LAYERS[k], name)
            ends = [
                loss(
                    [
                        *LAYERS[:k],
                        LAYERS[k]._replace(**{name: at + step}),
                        *LAYERS[k + 1 :],
                    ]
                )
                for step in (h, -h)
            ]
            assert gradient[k] == pytest.approx(
                (ends[0] - ends[1]) / (2 * h),
                rel=1e-5,
                abs=1e-6 * np.abs(gradient).max(),
            )


@pytest.mark.parametrize("tangent", [False, True])
def test_forward_is_the_algorithm(tangent):
    Y = data(40, 50)
    obs, start = as_observations(Y), start_for(Y.shape)
    _, *steps = algorithm(obs, Start(start, 9.0), LAYERS, tangent)
    tape = forward(obs, start, iter(LAYERS), tangent)
    assert len(tape.iterates) == len(steps) == K
    for X, step in zip(tape.iterates, steps, strict=True):
        assert np.array_equal(X.L, step.L)
        assert np.array_equal(X.R, step.R)


@pytest.mark.parametrize("tangent", [False, True])
def test_transposing_the_data_transposes_everything(tangent):
    """The tangent correction too: (L'L)^-1 L' C R (R'R)^-1 is its own counterpart."""
    Y = data(30, 44)
    start, seeds = start_for(Y.shape), seeds_for(Y.shape)
    obs = as_observations(Y)
    got = backward(obs, forward(obs, start, LAYERS, tangent), seeds)
    for other in (as_observations(Y.T), as_observations(stored(Y.T))):
        flipped = Factors(start.R, start.L)
        back = backward(
            other,
            forward(other, flipped, LAYERS, tangent),
            [seed[::-1] for seed in seeds],
        )
        assert_gradients(
            back, (got.zeta, got.eta, got.momentum, got.start.R, got.start.L)
        )


@pytest.mark.parametrize("tangent", [False, True])
def test_single_precision_is_near_double(tangent):
    Y = data(60, 50)
    start, seeds = start_for(Y.shape), seeds_for(Y.shape)
    wide, narrow = as_observations(Y), as_observations(Y.astype(np.float32))
    want = backward(wide, forward(wide, start, LAYERS, tangent), seeds)
    single = Factors(*(X.astype(np.float32) for X in start))
    got = backward(narrow, forward(narrow, single, LAYERS, tangent), seeds)
    assert {X.dtype for X in got.start} == {np.dtype(np.float32)}
    assert_gradients(got, (want.zeta, want.eta, want.momentum, *want.start), rel=2e-3)


class Counting:
    """Observations that count their passes."""

    def __init__(self, obs):
        self.obs, self.passes = obs, []

    def round(self, work, rows, shared):
        return work(self, rows, shared)

    def pull(self, *arguments):
        self.passes.append("pull")
        return self.obs.pull(*arguments)

    def adjoint(self, *arguments):
        self.passes.append("adjoint")
        return self.obs.adjoint(*arguments)


def test_one_pass_per_layer_each_way():
    Y = data(20, 30)
    obs, start = Counting(as_observations(Y)), start_for(Y.shape)
    tape = forward(obs, start, LAYERS, True)
    assert obs.passes == ["pull"] * K
    backward(obs, tape, seeds_for(Y.shape))
    assert obs.passes == ["pull"] * K + ["adjoint"] * K
    got = backward(obs, tape, seeds_for(Y.shape, looked_at=[1]))
    assert obs.passes[2 * K :] == ["adjoint"] * 2
    assert not any(x[2:].any() for x in got[:3])
    whole = backward(obs, tape, seeds_for(Y.shape))
    last = backward(obs, tape, seeds_for(Y.shape), first=K - 1)
    assert obs.passes[2 * K + 2 :] == ["adjoint"] * (K + 1)
    for x, y in zip(last[:3], whole[:3], strict=True):
        assert not x[:-1].any()
        assert x[-1] == y[-1]
    del obs.passes[2 * K + 2 :]
    got = backward(obs, tape, [None] * K)
    assert len(obs.passes) == 2 * K + 2
    assert not any(x.any() for x in (*got[:3], *got.start))


def test_a_rank_too_high_does_no_harm():
    """A direction that both factors lack stays out, there and back: as if the rank were lower."""
    Y = data(30, 40)
    obs, low, seeds = as_observations(Y), start_for(Y.shape, 2), seeds_for(Y.shape, 2)
    want = backward(obs, forward(obs, low, LAYERS, True), seeds)
    padded = Factors(*(np.hstack([X, np.zeros((len(X), 1))]) for X in low))
    tall = [
        tuple(np.hstack([X, np.zeros((len(X), 1))]) for X in seed) for seed in seeds
    ]
    got = backward(obs, forward(obs, padded, LAYERS, True), tall)
    for name in Layer._fields:
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), rtol=1e-9)
    for a, b in zip(got.start, want.start, strict=True):
        assert_close(a[:, :2], b, factor=1e3)


def test_seeds_that_do_not_fit():
    Y = data(20, 30)
    obs = as_observations(Y)
    tape = forward(obs, start_for(Y.shape), LAYERS)
    seed = seeds_for(Y.shape)[0]
    with pytest.raises(ValueError, match="2 seeds came for 4 layers"):
        backward(obs, tape, [seed, None])
    with pytest.raises(
        ValueError,
        match=r"seed 3 has shapes \(30, 3\) and \(20, 3\), the factors \(20, 3\)",
    ):
        backward(obs, tape, [None, None, None, seed[::-1]])

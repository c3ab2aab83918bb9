"""Gradients through the layers: against finite differences, and against torch."""

import numpy as np
import pytest
import scipy.sparse as sp

from lrmc import as_observations
from lrmc.linalg import Factors
from lrmc.methods.gradients import gradient
from lrmc.methods.growing import begin
from lrmc.methods.noisy import Noise
from lrmc.methods.noisy_layers import TINY, Layers, half_layer, passes

K, RANK = 3, 3


def problem(shape, outliers, uneven, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((shape[0], 2)) @ rng.standard_normal(
        (2, shape[1])
    ) + 0.3 * rng.standard_normal(shape)
    Y[rng.random(shape) < 0.1] += 5
    seen = rng.random(shape) < 0.4
    seen[3] = False  # a row without entries: the mean row
    obs = as_observations(sp.csr_array((Y[seen], np.nonzero(seen)), shape=shape))
    scales = (rng.uniform(0.5, 2, n) if uneven else np.ones(n) for n in shape)
    layers = Layers(*rng.uniform(0.4, 1.2, (6, K)))
    return obs, Noise(*scales, outliers=outliers), layers, rng


def sizes_of(halves, noise):
    """The units that a run measured."""
    return [half.weight.rows[0] / noise.rows[0] / half.numbers.reach for half in halves]


@pytest.mark.parametrize("shape", [(24, 16), (16, 24)])
@pytest.mark.parametrize(("outliers", "uneven"), [("both", False), ("positive", True)])
def test_gradients_are_finite_differences(shape, outliers, uneven):
    obs, noise, layers, rng = problem(shape, outliers, uneven)
    first = begin(obs, RANK, noise)
    halves = list(passes(obs, first, layers, noise))
    sizes = sizes_of(halves, noise)
    towards = Factors(*(rng.standard_normal(F.shape) for F in halves[-1].after.X))

    def value(logs):
        state, now = first, Layers(*np.exp(logs))
        for at, size in enumerate(sizes):
            numbers = now.of(*divmod(at, 2))
            # what is held for the gradient
            held = {"size": size, "relative": halves[at].relative}
            half = half_layer(obs, state, halves[at].side, numbers, noise, **held)
            state = half.after
        return sum(np.vdot(F, T) for F, T in zip(state.X, towards, strict=True))

    logs, want = np.log(layers.array()), np.zeros((6, K))
    for at in np.ndindex(want.shape):
        little = np.zeros_like(logs)
        little[at] = 1e-5
        want[at] = (value(logs + little) - value(logs - little)) / 2e-5
    got = gradient(obs, halves, noise, towards)
    np.testing.assert_allclose(got, want, atol=1e-6 * np.abs(want).max())


def test_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    obs, noise, layers, rng = problem((24, 16), "both", uneven=False)
    first = begin(obs, RANK, noise)
    halves = list(passes(obs, first, layers, noise))
    towards = Factors(*(rng.standard_normal(F.shape) for F in halves[-1].after.X))
    logs = torch.tensor(np.log(layers.array()), requires_grad=True)
    Y = torch.tensor(obs.grid(*map(np.arange, obs.shape)))
    seen, Y = ~torch.isnan(Y), torch.nan_to_num(Y)
    X, unknown = (
        [torch.tensor(F) for F in first.X],
        [torch.tensor(V) for V in first.unknown],
    )
    for at, size in enumerate(sizes_of(halves, noise)):
        k, side = divmod(at, 2)
        reach, shape, *priors, kappa, eta = logs[:, k].exp()
        E, here = (
            (Y - X[0] @ X[1].T, seen) if side == 0 else ((Y - X[0] @ X[1].T).T, seen.T)
        )
        w = here * (1 + (E / (reach * size)) ** 2) ** -shape
        variance = (w * E**2).sum() / w.sum()
        used = here.any(1)
        F, other, V = X[side], X[1 - side], kappa * unknown[1 - side]
        mean = F[used].mean(0)
        away = F[used] - mean
        S = away.T @ away / used.sum() + unknown[side]
        S = S + TINY * torch.trace(S) / RANK * torch.eye(RANK)
        ridge = priors[side] * variance * torch.linalg.inv(S)
        H = (
            torch.einsum("ij,jab->iab", w, other[:, :, None] * other[:, None, :] + V)
            + ridge
        )
        pulled = (w * E) @ other - w.sum(1)[:, None] * (F @ V) - (F - mean) @ ridge
        step = torch.linalg.solve(H, pulled[..., None])[..., 0]
        unknown[side] = variance * torch.linalg.inv(H)[used].mean(0)
        X[side] = torch.where(used[:, None], F + eta * step, mean)
    for F, want in zip(X, halves[-1].after.X, strict=True):
        np.testing.assert_allclose(F.detach(), want, rtol=1e-8)
    sum((F * torch.tensor(T)).sum() for F, T in zip(X, towards, strict=True)).backward()
    got = gradient(obs, halves, noise, towards)
    np.testing.assert_allclose(got, logs.grad, atol=1e-9 * np.abs(got).max())

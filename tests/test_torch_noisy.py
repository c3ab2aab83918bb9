"""The layers for noisy data in torch, against the kernels and their adjoint."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

from lrmc import Schedule, as_observations
from lrmc.linalg import Factors
from lrmc.methods.gradients import gradient
from lrmc.methods.growing import begin
from lrmc.methods.learn import SHIPPED
from lrmc.methods.noisy import Noise
from lrmc.methods.noisy_layers import Layers, passes
from lrmc.methods.plan import Plan

torch = pytest.importorskip("torch")
lt = pytest.importorskip("lrmc.torch")
torch.set_num_threads(1)

RANK = 3
ODD = Layers(*np.random.default_rng(3).uniform(0.4, 1.2, (6, 2)))
SHAPES = pytest.mark.parametrize("shape", [(24, 16), (16, 24)])


def observed(shape=(24, 16), seed=0):
    """Low rank, noise, outliers, gaps, and a row without entries."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    Y = X + 0.3 * rng.standard_normal(shape)
    Y[rng.random(shape) < 0.1] += 5
    Y[rng.random(shape) < 0.6] = np.nan
    Y[3] = np.nan
    return Y


def module(layers=ODD, **options):
    schedule = Schedule(plan=Plan(layers, rank=RANK).plain())
    return lt.UnrolledLRMC(schedule, RANK, dtype=torch.float64, **options)


def by_kernels(Y, layers):
    """All halves of all layers; values in the order of rows, as gradients want them."""
    seen = ~np.isnan(Y)
    obs = as_observations(sp.csr_array((Y[seen], np.nonzero(seen)), shape=Y.shape))
    noise = Noise.even(obs)
    return obs, noise, list(passes(obs, begin(obs, RANK, noise), layers, noise))


@SHAPES
@pytest.mark.parametrize("layers", [ODD, SHIPPED])
def test_forward_is_that_of_the_kernels(shape, layers):
    Y = observed(shape)
    _, _, halves = by_kernels(Y, layers)
    found = list(module(layers).iterates(torch.as_tensor(Y)))
    assert len(found) == len(layers) + 1
    for k, X in enumerate(found[1:]):
        wanted = halves[2 * k + 1].after.X
        for F, G in zip(X, wanted, strict=True):
            np.testing.assert_allclose(F.detach(), G, rtol=1e-8, atol=1e-9)


@SHAPES
def test_gradients_are_those_of_the_kernels(shape):
    Y = observed(shape)
    obs, noise, halves = by_kernels(Y, ODD)
    rng = np.random.default_rng(1)
    towards = Factors(*(rng.standard_normal(F.shape) for F in halves[-1].after.X))
    wanted = gradient(obs, halves, noise, towards)
    model = module()
    L, R = model(torch.as_tensor(Y))
    value = (L * torch.as_tensor(towards.L)).sum()
    (value + (R * torch.as_tensor(towards.R)).sum()).backward()
    np.testing.assert_allclose(model.log_numbers.grad, wanted, rtol=1e-6, atol=1e-9)


def test_a_batch_is_each_alone():
    several = np.stack([observed(seed=seed) for seed in range(4)]).reshape(2, 2, 24, 16)
    model = module()
    L, R = model(torch.as_tensor(several))
    for at in np.ndindex(2, 2):
        X = model(torch.as_tensor(several[at]))
        torch.testing.assert_close(L[at] @ R[at].mT, X.L @ X.R.mT)


def test_layers_may_be_computed_again():
    Y = torch.as_tensor(observed())
    grads = []
    for checkpoint in (False, True):
        model = module(checkpoint=checkpoint)
        torch.linalg.norm(model(Y).L).backward()
        grads.append(model.log_numbers.grad)
    torch.testing.assert_close(*grads)


def test_a_start_of_ones_own():
    Y = observed()
    rng = np.random.default_rng(0)
    start = [rng.standard_normal((n, RANK)) for n in Y.shape]
    first, *_ = module().iterates(torch.as_tensor(Y), start=start)
    np.testing.assert_array_equal(first.L, start[0])


def test_numbers_that_learn_and_come_back():
    """Every kind of schedule by one name, and a schedule again."""
    model = lt.UnrolledLRMC("sensors", rank=2)
    assert isinstance(model, lt.UnrolledNoisy)
    began = Schedule.named("sensors")
    same = Plan.from_plain(model.schedule().plan)
    wanted = Plan.from_plain(began.plan)
    np.testing.assert_allclose(same.layers.array(), wanted.layers.array(), rtol=1e-6)
    assert same.rank == wanted.rank
    assert model.schedule().card["began_as"] == began.card
    assert copy.deepcopy(model).schedule() == model.schedule()

    clean = torch.as_tensor(np.nan_to_num(observed(seed=5))).float()
    noisy = torch.as_tensor(observed(seed=5)).float()
    descent = torch.optim.Adam(model.parameters(), 0.05)
    losses = []
    for _ in range(6):
        descent.zero_grad()
        L, R = model(noisy)
        loss = torch.where(noisy.isnan(), 0.0, (L @ R.mT - clean).abs()).mean()
        loss.backward()
        descent.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert model.schedule().plan["layers"] != began.plan["layers"]


def test_what_it_does_not_take():
    with pytest.raises(ValueError, match="has no plan"):
        lt.UnrolledNoisy("geometric")
    with pytest.raises(ValueError, match="rank=0"):
        lt.UnrolledLRMC("sensors", rank=0)
    with pytest.raises(ValueError, match="extra=3; layers for noisy data have none"):
        lt.UnrolledLRMC("sensors", rank=2, extra=3)

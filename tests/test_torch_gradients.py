"""Gradients through the layers in torch."""

from dataclasses import replace

import numpy as np
import pytest

import lrmc
from lrmc import Schedule

torch = pytest.importorskip("torch")
lt = pytest.importorskip("lrmc.torch")
layers_of_torch = pytest.importorskip("lrmc._torch_layers")

from unrolled import FULL, RANK, SCHEDULES, error, module, problem


def flat(model, Y, start, scale):
    """The module as a function of its parameters, for gradcheck."""
    names = [name for name, _ in model.named_parameters()]

    def function(Y, L, R, *parameters):
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(
            model, state, (Y,), {"start": (L, R), "scale": scale}
        )

    return function, (
        Y,
        *start,
        *(p.detach().clone().requires_grad_() for p in model.parameters()),
    )


@pytest.mark.parametrize(
    ("name", "checkpoint"), [("tail alone", False), ("tangent", False), ("all", True)]
)
def test_gradients(name, checkpoint):
    """With respect to the data, the start and every parameter, against differences."""
    rng = np.random.default_rng(0)
    Y = torch.tensor(rng.standard_normal((2, 5, 4)))
    Y[rng.random(Y.shape) < 0.2] = torch.nan
    Y, start = (
        Y.requires_grad_(),
        [torch.tensor(rng.standard_normal((n, 2))).requires_grad_() for n in (5, 4)],
    )
    model = module(
        replace(SCHEDULES[name], start_gain=None, units="absolute"),
        2,
        extra=0 if name == "tangent" else 2,
    )
    model.checkpoint = checkpoint
    seen = ~torch.isnan(Y)
    function, inputs = flat(model, Y, start, 1.0)

    def of_seen(values, *rest):  # differences of NaN would be NaN
        return function(
            torch.full_like(Y, torch.nan).masked_scatter(seen, values), *rest
        )

    values = Y.detach()[seen].requires_grad_()
    assert torch.autograd.gradcheck(of_seen, (values, *inputs[1:]), atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "rounds", "near"),
    [((120, 100), layers_of_torch.ROUNDS, 0.01), ((30, 25), 15, 1e-4)],
)
def test_gradients_through_the_spectral_start(shape, rounds, near, monkeypatch):
    """The start's subspace counts too. A small matrix has no clear gap after r singular
    values: more rounds there.
    """
    monkeypatch.setattr(layers_of_torch, "ROUNDS", rounds)
    data, rng = problem(*shape, p=0.7), np.random.default_rng(1)
    Y, seen = torch.tensor(data.Y).requires_grad_(), torch.tensor(data.mask)
    W, direction = (torch.tensor(rng.standard_normal(Y.shape)) for _ in range(2))
    model, scale = (
        module(Schedule((1.5, 1.0), (0.5,), start_gain=1.1)),
        lrmc.as_observations(data.Y).scale,
    )

    def loss(Y):
        L, R = model(Y, scale=scale)
        return (W * (L @ R.mT)).sum()

    loss(Y).backward()
    assert not Y.grad[~seen].any()
    h = 1e-8
    with torch.no_grad():
        slope = (loss(Y + h * direction) - loss(Y - h * direction)) / (2 * h)
        assert float((Y.grad * direction)[seen].sum()) == pytest.approx(
            float(slope), rel=near
        )
        for parameter in (model.log_zeta, model.log_start_gain):
            ends = []
            for step in (h, -h):
                parameter[0] += step
                ends.append(float(loss(Y)))
                parameter[0] -= step
            assert float(parameter.grad[0]) == pytest.approx(
                (ends[0] - ends[1]) / (2 * h), rel=near
            )


def test_gradients_are_finite_where_singular_values_are_equal():
    """An SVD has none there. Also a rank higher than that of the data, and data of zeros."""
    for Y, rank in ((torch.eye(8), 3), (torch.ones(6, 5), 3), (torch.zeros(6, 5), 2)):
        Y, model = Y.double().requires_grad_(), module(FULL, rank)
        sum(x.square().sum() for x in model(Y)).backward()
        for x in (Y, *model.parameters()):
            assert torch.isfinite(x.grad).all()


def test_checkpointing_changes_nothing_but_memory():
    data = problem()
    grads, kept = [], []
    for checkpoint in (False, True):
        Y, model, large = (
            torch.tensor(data.Y, requires_grad=True),
            module(FULL, checkpoint=checkpoint),
            {},
        )

        def note(x, large=large):
            if x.numel() >= data.Y.size:
                large[x.data_ptr()] = x
            return x

        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            X = model(Y)
        kept.append(len(large))
        sum(x.square().sum() for x in X).backward()
        grads.append([Y.grad, *(p.grad for p in model.parameters())])
    for a, b in zip(*grads, strict=True):
        assert torch.equal(a, b)
    # at least one of the size of the data for each of the seven layers
    assert kept[0] > 7
    assert kept[1] <= 2  # the data, and what is observed


@pytest.mark.parametrize("checkpoint", [False, True])
def test_training_helps(checkpoint):
    problems = [problem(80, 70, seed=i) for i in range(4)]
    Y = torch.stack([torch.tensor(x.Y, dtype=torch.float32) for x in problems])
    truth = torch.stack([torch.tensor(x.X, dtype=torch.float32) for x in problems])
    model = lt.UnrolledLRMC(
        Schedule((3.0, 3.0, 2.0, 1.0, 0.8), (0.5,) * 4), RANK, checkpoint=checkpoint
    )
    optimizer, errors = torch.optim.Adam(model.parameters(), lr=0.1), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = error(model(Y), truth)
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    assert errors[-1] < 0.6 * errors[0]
    held_out = problem(80, 70, seed=9)
    before, after = (
        lrmc.relative_error(
            list(lrmc.iterates(held_out.Y, RANK, schedule=schedule))[-1], held_out
        )
        for schedule in (model.began, model.schedule())
    )
    assert after < 0.7 * before  # what was trained here serves there

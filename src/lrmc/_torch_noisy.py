"""The layers for noisy data (`lrmc.methods.noisy_layers`) in torch, line by line.

All shapes may have leading dimensions of a batch. As in the gradients of the kernels, the unit of a
threshold (a median) counts as a constant; all else is differentiated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ._extras import optional
from .methods.growing import begin
from .methods.noisy import Noise
from .methods.noisy_layers import TINY
from .observations._door import as_observations
from .observations.base import LEAST
from .weights import Array

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = optional("torch", "torch")
    Tensor = torch.Tensor


class State(NamedTuple):
    """Both factors, and what is unknown of their rows in the mean: r x r each."""

    X: tuple[Tensor, Tensor]
    unknown: tuple[Tensor, Tensor]

    def replaced(self, side: int, F: Tensor, unknown: Tensor) -> State:
        """With another factor on one side."""
        if side == 0:
            return State((F, self.X[1]), (unknown, self.unknown[1]))
        return State((self.X[0], F), (self.unknown[0], unknown))


class Numbers(NamedTuple):
    """Of half a layer, as `lrmc.methods.noisy_layers.Numbers`."""

    reach: Tensor
    shape: Tensor
    prior: Tensor
    kappa: Tensor
    eta: Tensor


class Data(NamedTuple):
    """Matrices with 0 where nothing is seen, where something is, and what it typically is."""

    Y: Tensor
    seen: Tensor
    scale: Tensor  # ..., 1, 1

    def flipped(self) -> Data:
        """The transposed matrices."""
        return Data(self.Y.mT, self.seen.mT, self.scale)


def known(X: tuple[Tensor, Tensor]) -> State:
    """Factors of which nothing is unknown yet."""
    L, R = X
    rank = L.shape[-1]
    nothing = L.new_zeros(*L.shape[:-2], rank, rank)
    return State((L, R), (nothing, nothing))


@torch.no_grad()
def grown(Y: Tensor, seen: Tensor, rank: int, seed: int) -> State:
    """Where layers begin: components that are grown by the kernels, for one matrix at a time."""
    values = torch.where(seen, Y, torch.nan).cpu().numpy()
    states = []
    for one in values.reshape(-1, *Y.shape[-2:]):
        obs = as_observations(np.ascontiguousarray(one))
        states.append(begin(obs, rank, Noise.even(obs), seed))
    X = zip(*(state.X for state in states), strict=True)
    unknown = zip(*(state.unknown for state in states), strict=True)
    L, R = (_stacked(some, Y) for some in X)
    V, W = (_stacked(some, Y) for some in unknown)
    return State((L, R), (V, W))


def _stacked(arrays: Sequence[Array], Y: Tensor) -> Tensor:
    """Arrays as a tensor with the batch dimensions of Y."""
    batch = Y.shape[:-2]
    tensor = torch.as_tensor(np.stack(arrays)).to(Y)
    return tensor.reshape(*batch, *arrays[0].shape)


def passes(data: Data, state: State, layers: Tensor) -> Iterator[State]:
    """The states after each layer. `layers` are the numbers, 6 x K as `Layers.array`."""
    longer = int(data.Y.shape[-1] > data.Y.shape[-2])
    for reach, shape, of_longer, of_shorter, kappa, eta in layers.T:
        for turn, prior in enumerate((of_longer, of_shorter)):
            numbers = Numbers(reach, shape, prior, kappa, eta)
            state = half_layer(data, state, longer ^ turn, numbers)
        yield state


def half_layer(data: Data, state: State, side: int, numbers: Numbers) -> State:
    """One factor given the other."""
    Y, seen, scale = data.flipped() if side else data
    F = state.X[side]
    O = state.X[1 - side]
    V = numbers.kappa * state.unknown[1 - side]
    E = torch.where(seen, Y - F @ O.mT, 0.0)
    z = numbers.reach * _typical(E.detach(), seen, scale)
    w = (1 + (E / z) ** 2) ** -numbers.shape
    w = torch.where(seen, w, 0.0)
    sums = w.sum(-1, keepdim=True)  # ..., n, 1
    energy = (w * E**2).sum((-2, -1), keepdim=True)
    variance = energy / sums.sum(-2, keepdim=True)
    variance = torch.maximum(variance, (LEAST * scale) ** 2)

    used = seen.any(-1, keepdim=True)
    count = used.sum(-2, keepdim=True).clamp(min=1)
    mean, S = _prior(F, state.unknown[side], used, count)
    ridge = numbers.prior * variance * torch.linalg.inv(S)
    H = (
        _grams(w, O)  # ..., n, r, r
        + sums[..., None] * V[..., None, :, :]
        + ridge[..., None, :, :]
    )
    pull = (
        (w * E) @ O  # ..., n, r
        - sums * (F @ V)
        - (F - mean) @ ridge
    )
    inverse = torch.linalg.inv(H)
    step = (inverse @ pull[..., None])[..., 0]
    after = F + numbers.eta * step
    after = torch.where(used, after, mean)
    spread = torch.where(used[..., None], inverse, 0.0).sum(-3)
    return state.replaced(side, after, variance * spread / count)


def _prior(
    F: Tensor,
    unknown: Tensor,
    used: Tensor,
    count: Tensor,
) -> tuple[Tensor, Tensor]:
    """The mean and the covariance of the rows that have entries, with what is unknown of them."""
    mean = torch.where(used, F, 0.0).sum(-2, keepdim=True) / count
    away = torch.where(used, F - mean, 0.0)
    S = away.mT @ away / count + unknown
    rank = S.shape[-1]
    trace = torch.diagonal(S, dim1=-2, dim2=-1).sum(-1)[..., None, None]
    eye = torch.eye(rank, dtype=S.dtype, device=S.device)
    return mean, S + (TINY * trace / rank + 1e-30) * eye


def _grams(w: Tensor, O: Tensor) -> Tensor:
    """sum_j w_ij o_j o_j' for each row i."""
    rank = O.shape[-1]
    squares = (O[..., :, None] * O[..., None, :]).flatten(-2)
    sums = w @ squares
    return sums.reshape(*sums.shape[:-1], rank, rank)


def _typical(E: Tensor, seen: Tensor, scale: Tensor) -> Tensor:
    """The median of |e| of each matrix; where half are 0, the mean; never 0."""
    count = seen.sum((-2, -1))[..., None]
    size = torch.where(seen, E.abs(), torch.inf)
    size = size.flatten(-2).sort(-1).values
    low = size.gather(-1, (count - 1) // 2)
    high = size.gather(-1, count // 2)
    median = (low + high) / 2
    mean = E.abs().sum((-2, -1))[..., None] / count
    typical = torch.where(median > 0, median, mean)
    return torch.maximum(typical[..., None], LEAST * scale)

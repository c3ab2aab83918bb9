"""Gradients through the layers of LRMC, by hand: one pass over the data per layer back, and memory
for factors only.

A name with a trailing b is the gradient of the loss with respect to what the name stands for. Each
function quotes the lines of `methods.lrmc.take` that it reverses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..linalg import Factors, divide, gram
from ..methods.lrmc import Taken, at_rest, shared, take
from ..observations.base import Observations
from ..schedule import Layer
from ..weights import Array


@dataclass(frozen=True)
class Tape:
    """What a run through the layers keeps for the way back: per layer, three matrices of
    the size of each factor.
    """

    start: Factors
    layers: tuple[Layer, ...]
    tangent: bool
    taken: tuple[Taken, ...]  # one per layer

    @property
    def iterates(self) -> tuple[Factors, ...]:
        """The factors after each layer."""
        return tuple(taken.X for taken in self.taken)

    def before(self, k: int) -> tuple[Factors, Factors]:
        """The factors and the momentum that layer k (from 0) was given."""
        return self.taken[k - 1][:2] if k else (self.start, at_rest(self.start))


class Gradients(NamedTuple):
    """Of a loss, with respect to the numbers of each layer and to the factors that the
    run began with.
    """

    zeta: Array  # one per layer
    eta: Array
    momentum: Array
    start: Factors


def forward(
    obs: Observations,
    start: Factors,
    layers: Iterable[Layer],
    tangent: bool = False,
) -> Tape:
    """Run the layers as `methods.lrmc` does, and keep what `backward` needs. One pass
    over the data per layer.
    """
    X, momentum = start, at_rest(start)
    layers, every = tuple(layers), []
    for layer in layers:
        every.append(take(obs, X, momentum, layer, tangent))
        X, momentum = every[-1][:2]
    return Tape(start, layers, tangent, tuple(every))


def backward(
    obs: Observations,
    tape: Tape,
    seeds: Sequence[tuple[Array, Array] | None],
    *,
    first: int = 0,
) -> Gradients:
    """The gradients of a loss that looks at the factors after one or more of the layers. One pass
    per layer.

    `seeds` has one item per layer: the gradients with respect to the L and R after it, or None
    where the loss does not look. Layers after the last seed cost nothing, nor do those before the
    `first` (from 0), whose numbers get 0: the way back ends with the factors that it was given.
    Directions that `linalg.divide` left out stay out."""
    looked_at = _checked(seeds, tape)
    numbers = np.zeros((3, len(tape.layers)))
    Xb, mb = at_rest(tape.start), at_rest(tape.start)
    for k in reversed(range(first, max(looked_at, default=-1) + 1)):
        if k in looked_at:
            Xb = Factors(Xb.L + looked_at[k].L, Xb.R + looked_at[k].R)
        Xb, mb, numbers[:, k] = _reverse_layer(obs, tape, k, Xb, mb)
    zeta, eta, momentum = numbers
    return Gradients(zeta, eta, momentum, Xb)


def _checked(
    seeds: Sequence[tuple[Array, Array] | None], tape: Tape
) -> dict[int, Factors]:
    """The seeds that are there, by layer, in the precision of the run."""
    L, R = tape.start
    if len(seeds) != len(tape.layers):
        raise ValueError(
            f"{len(seeds)} seeds came for {len(tape.layers)} layers; give one each, or None"
        )
    found = {
        k: Factors(*(np.asarray(X, L.dtype) for X in seed))
        for k, seed in enumerate(seeds)
        if seed is not None
    }
    for k, (Lb, Rb) in found.items():
        if (Lb.shape, Rb.shape) != (L.shape, R.shape):
            raise ValueError(
                f"seed {k} has shapes {Lb.shape} and {Rb.shape}, the factors {L.shape} and {R.shape}"
            )
    return found


# for factors, momentum, and (zeta, eta, gamma) of a layer
Back = tuple[Factors, Factors, tuple[float, float, float]]


def _reverse_layer(
    obs: Observations,
    tape: Tape,
    k: int,
    X1b: Factors,
    m1b: Factors,
) -> Back:
    """L1 = L + eta mL1, mL1 = dL + gamma mL; the same for R."""
    X, (mL, mR) = tape.before(k)
    (zeta, eta, gamma), (_, (mL1, mR1), scaled, *_) = tape.layers[k], tape.taken[k]
    L1b, R1b = X1b
    etab = _dot(L1b, mL1) + _dot(R1b, mR1)
    dLb, dRb = m1b.L + eta * L1b, m1b.R + eta * R1b
    gammab = _dot(dLb, mL) + _dot(dRb, mR)
    Wb, Vb, Lb, Rb = dLb, dRb, L1b, R1b
    if tape.tangent:
        Wb, more_L, more_R = _reverse_tangent(X, scaled.L, dLb, dRb)
        Lb, Rb = Lb + more_L, Rb + more_R
    more_L, more_R, zetab = _reverse_scaled(obs, X, scaled, zeta, Wb, Vb)
    return (
        Factors(Lb + more_L, Rb + more_R),
        Factors(gamma * dLb, gamma * dRb),
        (zetab, etab, gammab),
    )


def _reverse_tangent(
    X: Factors,
    W: Array,
    dLb: Array,
    dRb: Array,
) -> tuple[Array, Array, Array]:
    """M = Q^-1 L'W with Q = L'L; dL = W - L M / 2, dR = V - R M' / 2. Gives Wb and the
    shares of Lb and Rb.
    """
    L, R = X
    M = shared(gram(L), gram(L, W), L.dtype)
    Mb = -(gram(L, dLb) + gram(dRb, R)) / 2
    Nb = divide(Mb.T, gram(L)).T.astype(L.dtype)  # of N = L'W
    Qb = -Nb @ M.T
    return dLb + L @ Nb, W @ Nb.T - dLb @ M.T / 2 + L @ (Qb + Qb.T), -dRb @ M / 2


def _reverse_scaled(
    obs: Observations,
    X: Factors,
    scaled: Factors,
    zeta: float,
    Wb: Array,
    Vb: Array,
) -> tuple[Array, Array, float]:
    """W = C R P^-1 with P = R'R, V = C'L Q^-1 with Q = L'L. Gives the shares of Lb and
    Rb, and zetab.
    """
    (L, R), (W, V) = X, scaled
    Ab, Bb = divide(Wb, gram(R)), divide(Vb, gram(L))  # of A = C R and B = C'L
    Pb, Qb = -W.T @ Ab, -V.T @ Bb
    pulled = obs.adjoint(L, R, zeta, Ab, Bb)
    return pulled.L + L @ (Qb + Qb.T), pulled.R + R @ (Pb + Pb.T), pulled.zeta


def _dot(A: Array, B: Array) -> float:
    return float(np.vdot(A, B))

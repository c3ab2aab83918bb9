"""The weighted least-squares problem of all coefficients, by conjugate gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from .basis import Basis
from .prior import Prior

MOST_STEPS = 40  # whole days without an entry take the most
OF_DRAWS = 3e-3  # of the first residual: a draw need not be exact


class System(NamedTuple):
    """(Q' W Q + noise Sigma^-1) c = b, Q the basis and W the weights of entries."""

    basis: Basis
    prior: Prior
    weights: Array
    noise: float

    def times(self, c: Array) -> Array:
        """The matrix times c."""
        return self._data(c) + self.prior.applied(
            c, self.noise / self.prior.own, self.noise / self.prior.along
        )

    def _data(self, c: Array) -> Array:
        x = self.basis.values(c)
        x *= self.weights
        return self.basis.coefficients(x)

    def solved(
        self,
        b: Array,
        c: Array | None,
        *,
        small: float = 0.0,
        relative: float = 0.0,
    ) -> Array:
        """c, from the one given, until the squared residual, as the preconditioner measures it, is
        small, or so small a part of that of c = 0.

        One step is enough where all weights are equal."""
        rest = b.copy() if c is None else b - self.times(c)
        c = np.zeros_like(b) if c is None else c.copy()
        _, own, along = self.prior
        mean = float(self.weights.mean())
        inverse = own / (mean * own + self.noise), along / (mean * along + self.noise)
        if relative:
            small = relative * float(np.vdot(b, self.prior.applied(b, *inverse)))
        p, Sp = np.zeros_like(b), np.zeros_like(b)
        before = 1.0
        for k in range(MOST_STEPS):
            z = self.prior.applied(rest, *inverse)
            now = float(np.vdot(rest, z))
            if now <= small:
                break
            beta = now / before if k else 0.0
            p *= beta
            p += z
            # noise Sigma^-1 z, without dividing by small variances
            Sp *= beta
            Sp += rest
            z *= mean
            Sp -= z
            Hp = self._data(p)
            Hp += Sp
            curvature = float(np.vdot(p, Hp))
            if not curvature > 0:  # rounding is all that is left
                break
            step = now / curvature
            np.multiply(p, step, out=z)
            c += z
            Hp *= step
            rest -= Hp
            before = now
        return c

    def drawn(self, white: White) -> Array:
        """Coefficients of what is unknown: a draw from the posterior, less its mean."""
        roots = (self.noise / np.sqrt(x) for x in (self.prior.own, self.prior.along))
        b = self.prior.applied(white.modes, *roots)
        e = np.sqrt(self.weights) * white.entries
        b += np.sqrt(self.noise) * self.basis.coefficients(e)
        return self.solved(b, None, relative=OF_DRAWS)


class White(NamedTuple):
    """The random numbers of a draw, sensors first."""

    modes: Array
    entries: Array

    @classmethod
    def of(cls, rng: np.random.Generator, like: Array) -> White:
        """For weights like these."""
        z, e = rng.standard_normal((2, *like.shape), np.float32).astype(like.dtype)
        return cls(z, e)

    def dealt(self, rng: np.random.Generator) -> White:
        """The same numbers for other sensors: cheaper than new ones. (With the same numbers again,
        what sensors share would follow them.)"""
        turn = int(rng.integers(len(self.modes)))
        sign = 1 if rng.random() < 0.5 else -1
        return White(*(sign * np.roll(x, turn, axis=0) for x in self))


def regressed(F: Array, w: Array, Z: Array, ridge: Array | float) -> Array:
    """Coefficients (r, m) of the columns of F (n, r) by weighted least squares, of each column of
    Z (n, m) with its own weights, held by a ridge."""
    n, r = F.shape
    products = (F[:, :, None] * F[:, None, :]).reshape(n, r * r)
    normal = (products.T @ w).T.reshape(Z.shape[1], r, r)
    normal = normal + (ridge * np.eye(r)).astype(F.dtype)
    return np.linalg.solve(normal, (F.T @ (w * Z)).T[:, :, None])[:, :, 0].T

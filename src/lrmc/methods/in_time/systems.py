"""The weighted least-squares problem of all coefficients, by conjugate gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ... import _kernels
from ...weights import Array
from .basis import Basis
from .prior import Prior
from .products import product

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
        return self._passed(c, self.weights) + self.prior.applied(
            c, self.noise / self.prior.own, self.noise / self.prior.along
        )

    def _passed(self, c: Array, weights: Array) -> Array:
        """Q' W Q c with these weights."""
        x = self.basis.values(c)
        x *= weights
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

        The preconditioner is the matrix M whose weights all are their mean: one step is enough
        where they are equal."""
        rest = b.copy() if c is None else b - self.times(c)
        c = np.zeros_like(b) if c is None else c.copy()
        mean = float(self.weights.mean())
        inverse = self._inverse(mean)
        if relative:
            small = relative * float(np.vdot(b, self.prior.applied(b, *inverse)))
        unequal = self.weights - mean
        p, Mp = np.zeros_like(b), np.zeros_like(b)
        before = 1.0
        for k in range(MOST_STEPS):
            z = self.prior.beyond_own(rest, *inverse)
            now = _kernels.add(z, rest, toward=rest, times=inverse[0])
            if now <= small:
                break
            beta = now / before if k else 0.0
            _kernels.mix(p, z, a=beta, b=1.0)
            _kernels.mix(Mp, rest, a=beta, b=1.0)  # M z is the residual
            Hp = self._passed(p, unequal)
            curvature = _kernels.add(Hp, Mp, toward=p)
            if not curvature > 0:  # rounding is all that is left
                break
            step = now / curvature
            _kernels.mix(c, p, a=1.0, b=step)
            _kernels.mix(rest, Hp, a=1.0, b=-step)
            before = now
        return c

    def _inverse(self, mean: float) -> tuple[Array, Array]:
        """Of the matrix where all weights are equal: on a sensor's own, and along directions."""
        _, own, along = self.prior
        return own / (mean * own + self.noise), along / (mean * along + self.noise)

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
    normal = product(products.T, w).T.reshape(Z.shape[1], r, r)
    normal = normal + (ridge * np.eye(r)).astype(F.dtype)
    return np.linalg.solve(normal, product(F.T, w * Z).T[:, :, None])[:, :, 0].T

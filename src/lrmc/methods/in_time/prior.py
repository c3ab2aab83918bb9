"""What coefficients of time are expected to be: variances of modes, and directions of sensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array
from .products import product

OVER = 1.6  # over-relaxation of `own`: expectation-maximisation alone creeps
LARGEST_STEP = 5.0  # times, of a variance in one sweep
PSEUDO = 10  # sensors that the separable fit of variances counts as
FLAT = 0.05  # quantile of smoothed variances that is taken for a flat part
WHITE = (
    0.8  # of the flat part that is noise: what has no structure in time is none of U
)
MANY = (
    8  # times as many sensors as directions: there these are followed, not found anew
)
STEPS = 2  # of each sweep
NEARBY = 2  # modes to both sides, at least; 1 to 4 make no difference
LEAST = 1e-4  # of the noise: the smallest variance, which single precision can still divide by


class Prior(NamedTuple):
    """The covariance of each mode: own I + A diag(shared - own) A'."""

    A: Array  # (S, r), orthonormal: the directions that sensors share
    own: Array  # (D, P)
    along: Array  # (r, D, P), the variance along each direction, `own` included

    def applied(self, x: Array, own: Array, along: Array) -> Array:
        """A function of the covariance times x: its values on `own` and on `along`."""
        y = self.beyond_own(x, own, along)
        y += own * x
        return y

    def beyond_own(self, x: Array, own: Array, along: Array) -> Array:
        """The same without what all directions have, own times x."""
        shared = product(self.A.T, x)
        shared *= along - own
        return product(self.A, shared)


def directions(parts: list[Array], rank: int, near: Array | None = None) -> Array:
    """The leading left singular vectors of these arrays (sensors first) side by side; of many
    sensors, from orthonormal ones that are near them if there are any."""
    flat = [x.reshape(len(x), -1) for x in parts]
    n = len(flat[0])
    if not rank:
        return np.zeros((n, 0), flat[0].dtype)
    if near is not None and near.shape[1] == rank and n > MANY * rank:
        return _followed(flat, near)
    G = np.zeros((n, n))
    for x in flat:
        G += product(x, x.T)
    return np.linalg.eigh(G)[1][:, ::-1][:, :rank].astype(flat[0].dtype)


def _followed(flat: list[Array], A: Array) -> Array:
    """The next step of a subspace iteration, turned to singular vectors: sweeps are many steps."""
    for _ in range(STEPS):
        A = np.linalg.qr(sum(product(x, product(x.T, A)) for x in flat))[0]
    along = np.concatenate([product(A.T, x) for x in flat], axis=1)
    return np.asarray(A @ np.linalg.eigh(along @ along.T)[1][:, ::-1])


def updated(
    before: Prior | None,
    moments: tuple[Array, ...],
    A: Array,
    noise: float,
    *,
    held: bool = True,
) -> tuple[Prior, float]:
    """The prior that fits coefficients (their mean and a draw of what is unknown), and the noise.

    What `own` has in all modes alike is noise: it is moved there. It is held to its part of the
    whole (`not_taken_up`), but not while gross errors are among the entries: they would be
    followed."""
    n, rank = A.shape
    squares = [product(A.T, x).astype(np.float64) ** 2 for x in moments]
    along = np.sum(squares, axis=0)
    total = sum(np.einsum("sdp,sdp->dp", x, x).astype(np.float64) for x in moments)
    own = np.maximum(total - along.sum(0), 0) / max(n - rank, 1)
    own = (own * n + PSEUDO * separable(own)) / (n + PSEUDO)
    if before is not None:
        ratio = own / before.own
        own = before.own * np.clip(ratio, 1 / LARGEST_STEP, LARGEST_STEP) ** OVER
    white = WHITE * float(np.quantile(smoothed(own), FLAT))
    own = np.maximum(own - white, LEAST * noise)
    shared = np.maximum(smoothed(separable(along)) - own, LEAST * noise)
    if held:
        own = not_taken_up(own, shared.sum(0) / n)
    return Prior(A, own.astype(A.dtype), (own + shared).astype(A.dtype)), white


def not_taken_up(own: Array, shared: Array) -> Array:
    """Variances of sensors' own, no smaller a part of the whole than at modes nearby.

    A slow mode is seen once. Directions can take up all that sensors did there; then the model is
    sure of what it has no reason to be, and runs away in long gaps and beyond the end."""
    total = own + shared
    part = smoothed((own / total).mean(0), NEARBY)
    return np.asarray(np.maximum(own, part * total))


def separable(V: Array) -> Array:
    """The product of sums along the last two axes that comes nearest."""
    total = np.maximum(V.sum((-1, -2), keepdims=True), 1e-300)
    return V.sum(-1, keepdims=True) * V.sum(-2, keepdims=True) / total


def smoothed(V: Array, least: int = 0) -> Array:
    """Running means along frequencies, wider at higher ones; at least so far to both sides."""
    n = V.shape[-1]
    begin = np.zeros((*V.shape[:-1], 1))
    total = np.concatenate([begin, np.cumsum(V, -1, dtype=np.float64)], -1)
    f = np.arange(n)
    reach = np.minimum(np.maximum(f // 4, least), n // 8 + 1)
    low, high = np.maximum(f - reach, 0), np.minimum(f + reach + 1, n)
    return (total[..., high] - total[..., low]) / (high - low)

"""A factor model of the ground: a pixel of a band is R l + noise, with l drawn around the mean of its
band, and the noise of each date and band is its own.

Dates under haze or snow get a large noise and hardly count for the others; so few dates are enough.
Learned by expectation and maximization: what is unknown of l is counted, so that a rank that is too
large is not made use of.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...weights import Array

ROUNDS = 30  # of expectation and maximization; twice as many change little
ROUNDS_AGAIN = 10  # from a model of nearly the same values
RIDGE = 1e-9  # of the mean variance, so that matrices can be inverted
# Pixels that the noise of all dates counts for in that of one.
AS_PIXELS = 10
FIRST_NOISE = 0.01  # of the mean square: a tenth of a typical value
LEAST_NOISE = 1e-4  # of the mean variance, that a date may have
SURE = 1e-6  # what a date may at least leave to the others to say


class Factored(NamedTuple):
    """What all pixels have in common."""

    R: Array  # T x r
    mean: Array  # bands x r: of l
    covariance: Array  # bands x r x r: of l
    variance: Array  # T x bands: of the noise

    @property
    def rank(self) -> int:
        """The number of components."""
        return int(self.R.shape[1])


class Kinds(NamedTuple):
    """Where values are there. What is unknown of a pixel hangs on its dates alone, and most pixels share
    theirs with others: each such kind is worked out once.
    """

    there: Array  # T x n
    dates: Array  # T x k: there, once of all pixels with the same dates
    counts: Array  # k: their number
    kind: Array  # n: which of these a pixel is

    @classmethod
    def of(cls, there: Array) -> Kinds:
        """Pixels, T x n, by their dates."""
        packed = np.ascontiguousarray(np.packbits(there, axis=0).T)
        names = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
        _, first, kind, counts = np.unique(
            names, return_index=True, return_inverse=True, return_counts=True
        )
        return cls(there, there[:, first], counts, kind)


class Pixels(NamedTuple):
    """What is known of the factors l of pixels."""

    mean: Array  # bands x n x r
    covariance: Array  # bands x k x r x r: of each kind of pixel


def learned(
    Y: Array,
    there: Array,
    rank: int,
    least: float = 0.0,
    rounds: int = ROUNDS,
) -> Factored:
    """The model of values, T x bands x n, where they are there, T x n. Noise is at least `least`, a
    standard deviation.
    """
    y, scale = _scaled(Y, there)
    R, own = _principal(y, there, rank)
    known = np.any(there, axis=1)
    begun = _begun(y, there, R, own)
    return _learned(y, Kinds.of(there), begun, known, (scale, least), rounds)


def learned_again(
    Y: Array,
    there: Array,
    model: Factored,
    least: float = 0.0,
    fixed: bool = False,
) -> Factored:
    """The same from a model of nearly the same values; time factors that are fixed stay."""
    y, scale = _scaled(Y, there)
    known = np.any(there, axis=1) & (not fixed)
    begun = _in_units(model, 1 / scale)
    return _learned(y, Kinds.of(there), begun, known, (scale, least), ROUNDS_AGAIN)


def learned_with(
    Y: Array,
    there: Array,
    R: Array,
    least: float = 0.0,
) -> Factored:
    """The same with time factors that stay what they are."""
    y, scale = _scaled(Y, there)
    first = _begun(y, there, R, np.zeros(len(R)))
    known = np.zeros(len(R), bool)
    return _learned(y, Kinds.of(there), first, known, (scale, least), ROUNDS)


def _scaled(Y: Array, there: Array) -> tuple[Array, float]:
    """Values of about 1, 0 where nothing is there; and the scale that was taken."""
    y = np.where(there[:, None], Y, 0.0)
    scale = float(np.sqrt(np.mean(y**2))) or 1.0
    return y / scale, scale


def _learned(
    y: Array,
    kinds: Kinds,
    model: Factored,
    known: Array,
    units: tuple[float, float],
    rounds: int,
) -> Factored:
    scale, least = units
    for _ in range(rounds):
        model = _improved(y, kinds, model, known, (least / scale) ** 2)
    return _in_units(model, scale)


def _in_units(model: Factored, scale: float) -> Factored:
    """The model of values that are so many times larger."""
    R, mean, covariance, variance = model
    return Factored(R, mean * scale, covariance * scale**2, variance * scale**2)


def _principal(
    y: Array,
    there: Array,
    rank: int,
) -> tuple[Array, Array]:
    """Time factors to begin with, T x r, and the variance of each date: principal components of
    values whose gaps are filled by the mean of the pixel and of the date, each date in units of what
    the others do not tell of it. Else a cloudy date would have a component for itself.
    """
    T = len(y)
    there = np.repeat(there[:, None], y.shape[1], axis=1).reshape(T, -1)
    y = y.reshape(T, -1)
    mean = y.sum(0) / np.maximum(there.sum(0), 1)
    away = np.where(there, y - mean, 0.0).sum(1) / np.maximum(there.sum(1), 1)
    filled = np.where(there, y, mean + away[:, None])
    S = filled @ filled.T / max(filled.shape[1], 1)
    least = LEAST_NOISE * np.diag(S) + RIDGE * np.trace(S) / T + 1e-30
    variance = 1 / np.diag(np.linalg.inv(S + np.diag(least)))
    own = np.sqrt(variance)
    _, vectors = np.linalg.eigh(S / np.outer(own, own))
    R = own[:, None] * vectors[:, ::-1][:, :rank]
    return R / np.maximum(np.sqrt(np.mean(R**2, axis=0)), 1e-300), variance


def _begun(
    y: Array,
    there: Array,
    R: Array,
    own: Array,
) -> Factored:
    """Nothing is known of the pixels but how large they are; dates have a noise of their own."""
    bands = y.shape[1]
    rank = R.shape[1]
    spread = np.array([np.mean(y[:, b][there] ** 2) for b in range(bands)]) + 1e-30
    covariance = spread[:, None, None] * np.eye(rank)
    variance = np.maximum(own[:, None], FIRST_NOISE * spread)
    return Factored(R.astype(np.float64), np.zeros((bands, rank)), covariance, variance)


def _improved(
    y: Array,
    kinds: Kinds,
    model: Factored,
    known: Array,
    least: float,
) -> Factored:
    """One round. Time factors of dates that are not known stay."""
    T, r = model.R.shape
    found = m, V = pixels(y, kinds, model)
    certain = 1 / model.variance.T[:, :, None]
    W = kinds.there * certain
    squares = (m[..., :, None] * m[..., None, :]).reshape(*m.shape[:2], -1)
    V = V.reshape(*V.shape[:2], -1)
    gram = W @ squares + (kinds.counts * kinds.dates * certain) @ V
    right = (W * np.moveaxis(y, 1, 0)) @ m
    some = kinds.there.any(0)
    used = np.asarray(some / max(int(np.count_nonzero(some)), 1))
    mean = used @ m
    away = m - mean[:, None]
    covariance = np.swapaxes(used[:, None] * away, 1, 2) @ away
    shares = np.bincount(kinds.kind, used)
    covariance += (shares @ V).reshape(covariance.shape)
    gram = _invertible(gram.sum(0).reshape(T, r, r)[known])
    R = model.R.copy()
    R[known] = np.linalg.solve(gram, right.sum(0)[known][..., None])[..., 0]
    model = Factored(R, mean, covariance, model.variance)
    return model._replace(variance=_noise(y, kinds, model, found, least))


def _noise(
    y: Array,
    kinds: Kinds,
    model: Factored,
    found: Pixels,
    least: float,
) -> Array:
    """T x bands: the variance of the residuals of each date; where little was seen, of all."""
    counts = kinds.there.sum(1)
    residual = (np.moveaxis(y, 1, 0) - values(model.R, found)) * kinds.there
    unsure = (spread(model.R, found) * kinds.dates) @ kinds.counts
    own = (np.einsum("btn,btn->bt", residual, residual) + unsure).T
    own /= np.maximum(counts, 1)[:, None]
    usual = np.median(own[counts > 0], axis=0)
    more = counts[:, None] * own + AS_PIXELS * usual
    own = more / (counts[:, None] + AS_PIXELS)
    return np.maximum(own, LEAST_NOISE * usual + least + 1e-30)


def pixels(y: Array, kinds: Kinds, model: Factored) -> Pixels:
    """The factors of pixels: what was seen of them, and what is known of all."""
    r = model.rank
    certain = 1 / model.variance.T
    precision = np.linalg.inv(_invertible(model.covariance))
    gram = (certain[:, None] * kinds.dates.T) @ _outer(model.R, model.R)
    V = np.linalg.inv(gram.reshape(*gram.shape[:2], r, r) + precision[:, None])
    seen = np.where(kinds.there[:, None], y, 0).transpose(1, 2, 0)
    right = seen @ (certain[..., None] * model.R)
    right += (precision @ model.mean[..., None])[:, None, :, 0]
    return Pixels(np.einsum("bnij,bnj->bni", V[:, kinds.kind], right), V)


def values(R: Array, one: Pixels) -> Array:
    """bands x T x n: R l."""
    return np.asarray(R @ np.swapaxes(one.mean, 1, 2))


def spread(R: Array, one: Pixels, S: Array | None = None) -> Array:
    """bands x T x k: the variance of R l; with S, the covariance of R l and S l."""
    outer = _outer(R, R if S is None else S)
    V = one.covariance
    return np.asarray(outer @ np.swapaxes(V.reshape(*V.shape[:2], -1), 1, 2))


def _outer(R: Array, S: Array) -> Array:
    """... x T x r * r: the products of two rows of factors."""
    return np.asarray((R[..., :, None] * S[..., None, :]).reshape(*R.shape[:-1], -1))


class Others(NamedTuple):
    """What the other dates say of a value."""

    pixels: Pixels  # by all dates
    # bands x T x n: of the value itself, which is taken out of least squares
    pull: Array
    variance: Array  # bands x T x n: of R l then


def others(y: Array, kinds: Kinds, model: Factored) -> Others:
    """Of all values, in closed form."""
    found = pixels(y, kinds, model)
    W = kinds.dates / model.variance.T[:, :, None]
    unsure = spread(model.R, found)
    left = np.maximum(1 - W * unsure, SURE)
    seen = np.where(kinds.there[:, None], y, 0)
    residual = np.moveaxis(seen, 1, 0) - values(model.R, found)
    pull = (W / left)[..., kinds.kind] * residual
    return Others(found, pull, (unsure / left)[..., kinds.kind])


def fitted(
    y: Array,
    kinds: Kinds,
    model: Factored,
    R: Array,
) -> Array:
    """T x bands x n: R l with the factors of all dates; R as for `left_out`."""
    return np.moveaxis(values(R, pixels(y, kinds, model)), 1, 0)


def left_out(
    y: Array,
    kinds: Kinds,
    model: Factored,
    R: Array,
) -> Array:
    """T x bands x n: R l, T x r or bands x T x r, with the factors that the other dates give a pixel."""
    found, pull, _ = others(y, kinds, model)
    own = spread(R, found, model.R)[..., kinds.kind] * pull
    return np.moveaxis(values(R, found) - own, 1, 0)


def without_itself(y: Array, kinds: Kinds, model: Factored) -> Array:
    """What the other dates say about the factors of pixels: T x bands x n x r."""
    found, pull, _ = others(y, kinds, model)
    VR = np.moveaxis(found.covariance @ model.R.T, -1, 0)
    return found.mean - VR[:, :, kinds.kind] * np.moveaxis(pull, 1, 0)[..., None]


def _invertible(A: Array) -> Array:
    """With a little more in every direction."""
    r = A.shape[-1]
    more = RIDGE * np.trace(A, axis1=-2, axis2=-1) / r + 1e-30
    return A + np.asarray(more)[..., None, None] * np.eye(r)

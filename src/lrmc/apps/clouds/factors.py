"""A factor model of the ground: a pixel of a band is R l + noise, with l drawn around the mean of its
band, and the noise of each date and band is its own.

Dates under haze or snow get a large noise and hardly count for the others; so few dates are enough.
Learned by expectation and maximization: what is unknown of l is counted, so that a rank that is too
large is not made use of.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...row_systems import pairs, solve_rows
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


class Pixels(NamedTuple):
    """What is known of the factors l of the pixels of a band."""

    mean: Array  # n x r
    covariance: Array  # n x r x r


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
    return _learned(y, there, _begun(y, there, R, own), known, (scale, least), rounds)


def learned_again(
    Y: Array,
    there: Array,
    model: Factored,
    least: float = 0.0,
) -> Factored:
    """The same from a model of nearly the same values."""
    y, scale = _scaled(Y, there)
    known = np.any(there, axis=1)
    begun = _in_units(model, 1 / scale)
    return _learned(y, there, begun, known, (scale, least), ROUNDS_AGAIN)


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
    return _learned(y, there, first, known, (scale, least), ROUNDS)


def _scaled(Y: Array, there: Array) -> tuple[Array, float]:
    """Values of about 1, 0 where nothing is there; and the scale that was taken."""
    y = np.where(there[:, None], Y, 0.0)
    scale = float(np.sqrt(np.mean(y**2))) or 1.0
    return y / scale, scale


def _learned(
    y: Array,
    there: Array,
    model: Factored,
    known: Array,
    units: tuple[float, float],
    rounds: int,
) -> Factored:
    scale, least = units
    for _ in range(rounds):
        model = _improved(y, there, model, known, (least / scale) ** 2)
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
    there: Array,
    model: Factored,
    known: Array,
    least: float,
) -> Factored:
    """One round. Time factors of dates that are not known stay."""
    T, bands = y.shape[:2]
    r = model.rank
    gram, right = np.zeros((T, r, r)), np.zeros((T, r))
    mean, covariance = model.mean.copy(), model.covariance.copy()
    used = there.any(0)
    found = [pixels(y, there, model, b) for b in range(bands)]
    for b, (m, V) in enumerate(found):
        W = there / model.variance[:, b, None]
        squares = V + m[:, :, None] * m[:, None, :]
        gram += (W @ squares.reshape(-1, r * r)).reshape(T, r, r)
        right += (W * y[:, b]) @ m
        mean[b] = m[used].mean(0)
        away = m[used] - mean[b]
        covariance[b] = V[used].mean(0) + away.T @ away / used.sum()
    R = model.R.copy()
    R[known] = np.linalg.solve(_invertible(gram[known]), right[known][..., None])[
        ..., 0
    ]
    model = Factored(R, mean, covariance, model.variance)
    return model._replace(variance=_noise(y, there, model, found, least))


def _noise(
    y: Array,
    there: Array,
    model: Factored,
    found: list[Pixels],
    least: float,
) -> Array:
    """T x bands: the variance of the residuals of each date; where little was seen, of all."""
    counts = there.sum(1)
    variance = np.empty(model.variance.shape)
    for b, one in enumerate(found):
        squares = (y[:, b] - model.R @ one.mean.T) ** 2 + spread(model.R, one)
        own = np.sum(squares * there, axis=1) / np.maximum(counts, 1)
        usual = float(np.median(own[counts > 0]))
        own = (counts * own + AS_PIXELS * usual) / (counts + AS_PIXELS)
        variance[:, b] = np.maximum(own, LEAST_NOISE * usual + least + 1e-30)
    return variance


def pixels(
    y: Array,
    there: Array,
    model: Factored,
    b: int,
) -> Pixels:
    """The factors of the pixels of a band: what was seen of them, and what is known of all."""
    T, r = model.R.shape
    W = there / model.variance[:, b, None]
    outer = (model.R[:, :, None] * model.R[:, None, :]).reshape(T, -1)
    gram = (W.T @ outer).reshape(-1, r, r)
    precision = np.linalg.inv(_invertible(model.covariance[b]))
    V = np.linalg.inv(gram + precision)
    right = (W * np.where(there, y[:, b], 0)).T @ model.R + precision @ model.mean[b]
    return Pixels(np.einsum("nij,nj->ni", V, right), V)


def spread(R: Array, one: Pixels, S: Array | None = None) -> Array:
    """T x n: the variance of R l; with S, the covariance of R l and S l."""
    outer = (R[:, :, None] * (R if S is None else S)[:, None, :]).reshape(len(R), -1)
    return outer @ one.covariance.reshape(len(one.covariance), -1).T


class Others(NamedTuple):
    """What the other dates say of a value."""

    pixels: Pixels  # by all dates
    pull: Array  # T x n: of the value itself, which is taken out of least squares
    variance: Array  # T x n: of R l then


def others(
    y: Array,
    there: Array,
    model: Factored,
    b: int,
) -> Others:
    """Of the values of a band, in closed form."""
    found = pixels(y, there, model, b)
    W = there / model.variance[:, b, None]
    unsure = spread(model.R, found)
    left = np.maximum(1 - W * unsure, SURE)
    residual = np.where(there, y[:, b], 0) - model.R @ found.mean.T
    return Others(found, W * residual / left, unsure / left)


def fitted(
    y: Array,
    there: Array,
    model: Factored,
    b: int,
    R: Array,
) -> Array:
    """T x n: R l with the factors of all dates."""
    precision = np.linalg.inv(_invertible(model.covariance[b]))
    W = there / model.variance[:, b, None]
    right = (W * np.where(there, y[:, b], 0)).T @ model.R + precision @ model.mean[b]
    every = np.ones(len(right), bool)
    return R @ solve_rows(W.T @ pairs(model.R), right, precision, every).T


def left_out(
    y: Array,
    there: Array,
    model: Factored,
    b: int,
    R: Array,
) -> Array:
    """T x n: R l with the factors that the other dates give a pixel."""
    found, pull, _ = others(y, there, model, b)
    return R @ found.mean.T - spread(R, found, model.R) * pull


def without_itself(
    y: Array,
    there: Array,
    model: Factored,
    b: int,
) -> Array:
    """What the other dates say about the factors of the pixels of a band: T x n x r."""
    found, pull, _ = others(y, there, model, b)
    VR = np.einsum("nij,tj->tni", found.covariance, model.R, optimize=True)
    return found.mean - VR * pull[..., None]


def _invertible(A: Array) -> Array:
    """With a little more in every direction."""
    r = A.shape[-1]
    more = RIDGE * np.trace(A, axis1=-2, axis2=-1) / r + 1e-30
    return A + np.asarray(more)[..., None, None] * np.eye(r)

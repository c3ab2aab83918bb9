"""Layers on noisy data, and what rows and columns add, each by one call of a kernel: of small tables,
calls take longer than what they compute.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import _kernels
from .._kernels import Factors, threads_for
from ..weights import Array
from .base import Levels, Refit, Refitted, Settle, Settled
from .native import Source, directions


def _serves(of: Source, given: Refit) -> bool:
    """Whether factors have the precision of the data, and there is a sample."""
    types = {given.L.dtype, given.R.dtype, of.dtype}
    return len(types) == 1 and len(given.sample.values) > 0


def refit(of: Source, given: Refit) -> Refitted | None:
    """See `Observations.refit`. Factors of another precision than the data are left to others."""
    if not _serves(of, given):
        return None
    L, R = given.L, given.R
    n, rank = (L, R)[given.side].shape
    width = rank * (rank + 1) // 2 + 1
    pull, grams, after, step = (
        np.empty((n, k), of.dtype) for k in (rank, width, rank, rank)
    )
    covariance, ridge, unknown = (np.empty((rank, rank)) for _ in range(3))
    made = {
        "pull": pull,
        "grams": grams,
        "after": after,
        "step": step,
        "mean": np.empty(rank),
        "covariance": covariance,
        "ridge": ridge,
        "unknown": unknown,
    }
    weights = np.empty(of.shape[1], of.dtype)
    size, variance, relative, energy, n_inliers = _kernels.refit(
        of.data,
        Factors(L=_kernels.ready(L, of.dtype), R=_kernels.ready(R, of.dtype)),
        _layer(of, given),
        _kernels.LayerRoom(**made, col_weight=weights),
        threads=threads_for(of.n_stored * (2 * rank + width), of.threads),
        row_threads=threads_for(n * rank**3, of.threads),
    )
    return Refitted(
        **made,
        size=size,
        variance=variance,
        relative=relative,
        energy=energy,
        total=max(float(np.sum(weights, dtype=np.float64)), 1e-300),
        n_inliers=n_inliers,
    )


def _layer(of: Source, given: Refit) -> _kernels.Layer:
    """What half a layer is given, as the kernels take it."""
    reach, shape, prior, kappa, eta = given.numbers
    some, (up, down) = given.sample, directions(given.outliers)
    row_noise, col_noise, *unknown = (
        _kernels.ready(x, np.float64) for x in (*given.noise, *given.unknown)
    )
    rows, cols, observed = (
        _kernels.ready(x, np.int64)
        for x in (some.rows, some.cols, (of.row_observed, of.col_observed)[given.side])
    )
    return _kernels.Layer(
        side=given.side,
        reach=reach,
        shape=shape,
        prior=prior,
        kappa=kappa,
        eta=eta,
        row_noise=row_noise,
        col_noise=col_noise,
        observed=observed,
        unknown_L=unknown[0],
        unknown_R=unknown[1],
        rows=rows,
        cols=cols,
        values=_kernels.ready(some.values, of.dtype),
        every=given.every,
        size=given.size,
        relative=given.relative,
        least=given.least,
        tiny=given.tiny,
        up=up,
        down=down,
    )


def settle(of: Source, given: Settle) -> Settled | None:
    """See `Observations.settle`."""
    first = given.first
    if not _serves(of, first):
        return None
    L, R = (_kernels.ready(F, of.dtype) for F in (first.L, first.R))
    rank = L.shape[1]
    after = Settled(
        np.empty_like(L),
        np.empty_like(R),
        (np.empty((rank, rank)), np.empty((rank, rank))),
    )
    width = rank * (rank + 1) // 2 + 1
    rows, cols = (threads_for(n * rank**3, of.threads) for n in of.shape)
    variance, total = _kernels.settle(
        of.data,
        Factors(L=L, R=R),
        _layer(of, replace(first, side=0)),
        numbers=np.array(given.numbers, np.float64),
        side=first.side,
        col_observed=_kernels.ready(of.col_observed, np.int64),
        L=after.L,
        R=after.R,
        unknown_L=after.unknown[0],
        unknown_R=after.unknown[1],
        most_again=given.most_again,
        falling=given.falling,
        threads=threads_for(of.n_stored * (2 * rank + width), of.threads),
        row_threads=(rows, cols),
    )
    return after._replace(variance=variance, total=max(total, 1e-300))


def levels(of: Source, given: Levels) -> tuple[Array, Array] | None:
    """See `Observations.levels`."""
    some = given.sample
    if not len(some.values):
        return None
    rows, cols = (np.zeros(n) for n in of.shape)
    _kernels.levels(
        of.data,
        at_rows=_kernels.ready(some.rows, np.int64),
        at_cols=_kernels.ready(some.cols, np.int64),
        values=_kernels.ready(some.values, of.dtype),
        rows=rows,
        cols=cols,
        middle=given.middle,
        scale=given.scale,
        reach=given.reach,
        rounds=given.rounds,
        threads=threads_for(3 * of.n_stored, of.threads),
    )
    return rows, cols

"""Gradients through the layers, for learning their numbers: the adjoint of each half, from the last
to the first.

For data in memory by row, as a part of a matrix is: what is needed at every entry are products of a
row on one side and one on the other, which the kernels make. The unit of the threshold (a median)
is held; all else is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..linalg import Factors
from ..observations.sparse import Sparse
from ..row_systems import RowStep, regressor_slopes
from ..weights import Array
from .noisy import Noise
from .noisy_layers import TINY, Half, regressors_of


class Slopes(NamedTuple):
    """The gradient of a loss with respect to a `State`."""

    X: tuple[Array, Array]
    unknown: tuple[Array, Array]


def gradient(obs: Sparse, halves: Sequence[Half], noise: Noise, X: Factors) -> Array:
    """With respect to the logarithms of the numbers, 6 x K as `Layers.array`; X is that
    of the last factors.
    """
    nothing = np.zeros((X.L.shape[1],) * 2)
    slopes = Slopes(
        (X.L.astype(np.float64), X.R.astype(np.float64)), (nothing, nothing)
    )
    out = np.zeros((6, len(halves) // 2))
    for at in reversed(range(len(halves))):
        k, turn = divmod(at, 2)
        slopes, logs = reverse(obs, halves[at], noise, slopes)
        out[[0, 1, 2 + turn, 4, 5], k] += logs
    return out


def reverse(
    obs: Sparse,
    half: Half,
    noise: Noise,
    late: Slopes,
) -> tuple[Slopes, Array]:
    """From the gradient after half a layer, that before it, and that of the logarithms
    of its five numbers.
    """
    side, numbers = half.side, half.numbers
    observed = (obs.row_observed, obs.col_observed)[side]
    scale = (noise.rows, noise.cols)[side]
    solved = _solved(half, observed > 0, scale, late)
    passed = _passed(obs, half, noise, solved)
    own = (solved.F + passed.own, solved.unknown)
    coupling = numbers.kappa * (solved.coupling + passed.coupling)
    other = (late.X[1 - side] + passed.other, late.unknown[1 - side] + coupling)
    of_kappa = float(np.vdot(coupling, half.before.unknown[1 - side]))
    logs = np.array([passed.reach, passed.shape, solved.prior, of_kappa, solved.eta])
    first, second = (other, own) if side else (own, other)
    return Slopes((first[0], second[0]), (first[1], second[1])), logs


class Solved(NamedTuple):
    """Gradients through the row systems: with respect to what goes into them."""

    F: Array  # the rows themselves
    unknown: Array  # what was unknown of them
    coupling: Array  # kappa V, where V is what was unknown of the other factor
    pull: Array  # n x r
    grams: Array  # n x (r(r+1)/2 + 1): Gram matrices, as triangles, and sums of weights
    variance: float
    prior: float  # of its logarithm
    eta: float  # of its logarithm


def _solved(half: Half, used: Array, scale: Array, late: Slopes) -> Solved:
    """f <- f + eta H^-1 (pull - kappa sums V f - ridge (f - m)) and V_f <- N mean H^-1,
    the other way.
    """
    side, (_, _, lam, kappa, eta) = half.side, half.numbers
    V, ridge, N = half.before.unknown[1 - side], half.ridge, half.variance
    F, slope = half.before.X[side], late.X[side]
    count = max(int(used.sum()), 1)
    rows = RowStep(
        F=F,
        pull=half.pull[side],
        grams=half.pull.grams[side],
        used=used,
        precision=1 / scale**2,
        mean=half.mean,
        ridge=ridge,
        coupling=kappa * V,
        eta=eta,
    )
    made = rows.slopes(half.step, slope, N / count * late.unknown[side])

    away = np.where(used[:, None], F - half.mean, 0.0)
    of_mean = slope[~used].sum(0) + made.mean
    root = np.linalg.inv(half.covariance)
    of_S = -lam * N * root @ made.ridge @ root  # ridge = lam N S^-1
    of_S += TINY * np.trace(of_S) / len(of_S) * np.eye(len(of_S))
    through_prior = (2 * away @ of_S + of_mean) / count

    of_prior = float(np.vdot(made.ridge, ridge))
    of_N = (of_prior + float(np.vdot(late.unknown[side], half.after.unknown[side]))) / N
    return Solved(
        F=made.F + np.where(used[:, None], through_prior, 0.0),
        unknown=of_S,
        coupling=made.coupling,
        pull=made.pull,
        grams=made.grams,
        variance=of_N,
        prior=of_prior,
        eta=eta * float(np.vdot(slope, half.step)),
    )


class Passed(NamedTuple):
    """Gradients through a pass: with respect to both factors, kappa V, and the numbers
    of the weights.
    """

    own: Array
    other: Array
    coupling: Array
    reach: float  # of its logarithm
    shape: float  # of its logarithm


def _passed(obs: Sparse, half: Half, noise: Noise, given: Solved) -> Passed:
    """The pull is C O and the Gram matrices are W Q; C = W E and W are functions of the
    residuals E.
    """
    side, X = half.side, half.before.X
    other, V = half.before.of(1 - side)
    scale = (noise.rows, noise.cols)[1 - side]
    plain, squares = regressors_of(other, V, half.numbers, scale, obs.threads)
    sums = half.total
    factors = (given.pull, plain, given.grams, squares)
    if side:
        factors = (plain, given.pull, squares, given.grams)
    back = obs.power_adjoint(
        *X,
        half.weight,
        factors=factors,
        side=side,
        energy=given.variance * half.relative / sums,
        total=-given.variance * half.variance / sums,
    )

    by_regressors, coupling = regressor_slopes(
        other, 1 / scale**2, back.pull, back.grams, obs.threads
    )
    by_factor = (back.L, back.R)
    return Passed(
        own=by_factor[side],
        other=by_regressors + by_factor[1 - side],
        coupling=coupling,
        reach=float(back.rows.sum()),
        shape=half.numbers.shape * back.shape,
    )

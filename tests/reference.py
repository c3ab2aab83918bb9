"""What the package computes, written the slow and obvious way. Nothing here comes from lrmc.

A rule says how a residual is weighed: a function (e, i, j) -> (weight, whether the entry is an
inlier)."""

from typing import NamedTuple

import numpy as np


def clip(zeta):
    def rule(e, i, j):
        return (1.0, True) if abs(e) <= zeta else (zeta / abs(e), False)

    return rule


def threshold(rows, cols, protect_rows, protect_cols, outliers="both"):
    def rule(e, i, j):
        z = max(rows[i], cols[j])
        if size(e, outliers) <= z:
            return 1.0, True
        return (z / abs(e) if protect_rows[i] or protect_cols[j] else 0.0), False

    return rule


def cauchy(rows, cols, outliers="both"):
    def rule(e, i, j):
        z = rows[i] * cols[j]
        return 1.0 / (1.0 + (size(e, outliers) / z) ** 2), size(e, outliers) <= z

    return rule


def huber(rows, cols, outliers="both"):
    def rule(e, i, j):
        z = rows[i] * cols[j]
        return (1.0, True) if size(e, outliers) <= z else (z / abs(e), False)

    return rule


def mixture(rows, cols, odds, outliers="both"):
    def rule(e, i, j):
        w = 1 / (
            1 + odds * (1 + (size(e, outliers) / (rows[i] * cols[j])) ** 2 / 32) ** 16
        )
        return w, w >= 0.5

    return rule


def power(rows, cols, shape, outliers="both"):
    def rule(e, i, j):
        q = size(e, outliers) / (rows[i] * cols[j])
        return (1 + q**2) ** -shape, q <= 1

    return rule


def size(e, outliers):
    """How far out a residual is, when only one side may be an outlier."""
    if (outliers == "positive" and e < 0) or (outliers == "negative" and e > 0):
        return 0.0
    return abs(e)


class Products(NamedTuple):
    CQ: np.ndarray
    CtP: np.ndarray
    row_inliers: np.ndarray
    col_inliers: np.ndarray
    row_weight: np.ndarray
    col_weight: np.ndarray
    row_energy: np.ndarray
    col_energy: np.ndarray
    W: np.ndarray
    C: np.ndarray


def products(Y, mask, L, R, rule, P, Q):
    """C @ Q and C.T @ P with C formed entry by entry, the sums over rows and columns,
    and what they are sums of.
    """
    n1, n2 = Y.shape
    E = Y - (0 if L is None else L @ R.T)
    C, W, inlier = np.zeros((n1, n2)), np.zeros((n1, n2)), np.zeros((n1, n2), int)
    for i, j in zip(*np.nonzero(mask), strict=True):
        W[i, j], inlier[i, j] = rule(E[i, j], i, j)
        C[i, j] = W[i, j] * E[i, j]
    return Products(
        None if Q is None else C @ Q,
        None if P is None else C.T @ P,
        inlier.sum(1),
        inlier.sum(0),
        W.sum(1),
        W.sum(0),
        np.where(mask, W * E**2, 0).sum(1),
        np.where(mask, W * E**2, 0).sum(0),
        W,
        C,
    )


def pull(Y, mask, L, R, rule):
    return products(Y, mask, L, R, rule, L, R)


class Adjoint(NamedTuple):
    L: np.ndarray
    R: np.ndarray
    zeta: float
    size: float  # the sum of the sizes of what zeta is the sum of


def adjoint(Y, mask, L, R, zeta, Ab, Bb):
    """The gradient of <Ab, C R> + <Bb, C' L> with respect to L, R and zeta, entry by entry; C is
    the clipped residual.

    An entry gives c (Ab_i . R_j + Bb_j . L_i), where c is e and e = y - L_i . R_j, or c is zeta or
    -zeta."""
    GL, GR, zeta_bar, size = np.zeros(L.shape), np.zeros(R.shape), 0.0, 0.0
    for i, j in zip(*np.nonzero(mask), strict=True):
        e = Y[i, j] - L[i] @ R[j]
        c = min(max(e, -zeta), zeta)
        slope = Ab[i] @ R[j] + Bb[j] @ L[i]  # of the loss in c
        GL[i] += c * Bb[j]
        GR[j] += c * Ab[i]
        if abs(e) <= zeta:
            GL[i] -= slope * R[j]
            GR[j] -= slope * L[i]
        else:
            zeta_bar += slope if e > 0 else -slope
            size += abs(slope)
    return Adjoint(GL, GR, zeta_bar, size)


def soft(E, zeta):
    return np.sign(E) * np.maximum(np.abs(E) - zeta, 0)


def spectral(Y, mask, rank, zeta, gain):
    """The start of Algorithm 1, with S formed and a full SVD."""
    Y = np.where(mask, Y, 0.0)
    U, s, Vt = np.linalg.svd(gain * (Y - soft(Y, zeta)), full_matrices=False)
    root = np.sqrt(s[:rank])
    return U[:, :rank] * root, Vt[:rank].T * root


def algorithm1(Y, mask, L, R, layers, tangent=False):
    """Algorithm 1 with X and S formed; yields (L, R, S). `layers` gives (zeta, eta, momentum).

    The tangent correction and the momentum are those of research/ALGORITHM.md.
    """
    mL, mR = np.zeros_like(L), np.zeros_like(R)
    for zeta, eta, momentum in layers:
        X = L @ R.T
        S = soft(np.where(mask, Y - X, 0.0), zeta)
        C = np.where(mask, Y - X - S, 0.0)
        PL, PR = np.linalg.inv(L.T @ L), np.linalg.inv(R.T @ R)
        dL, dR = C @ R @ PR, C.T @ L @ PL
        if tangent:
            M = PL @ L.T @ C @ R @ PR
            dL, dR = dL - L @ M / 2, dR - R @ M.T / 2
        mL, mR = dL + momentum * mL, dR + momentum * mR
        L, R = L + eta * mL, R + eta * mR
        yield L, R, S


def relative_error(L, R, X):
    return np.linalg.norm(L @ R.T - X) / np.linalg.norm(X)


def change(old, new):
    """|X_new - X_old| / |X_old| for two pairs of factors, in extended precision."""
    (L0, R0), (L1, R1) = (
        tuple(np.asarray(F, np.longdouble) for F in pair) for pair in (old, new)
    )
    X0 = L0 @ R0.T
    return float(np.sqrt(np.sum((L1 @ R1.T - X0) ** 2)) / np.sqrt(np.sum(X0**2)))


def least_squares(Y, inlier, L, R, sweeps=6):
    """Least squares on the entries that are True in `inlier`, each row of a factor by
    itself, from L and R.
    """

    def rows(Y, inlier, F):
        # the normal equations
        squares = np.tensordot(inlier.astype(float), F[:, :, None] * F[:, None, :], 1)
        return np.linalg.solve(squares, (np.where(inlier, Y, 0) @ F)[:, :, None])[
            :, :, 0
        ]

    for _ in range(sweeps):
        L = rows(Y, inlier, R)
        R = rows(Y.T, inlier.T, L)
    return L, R


def robust_loss(e, rule, points=4000):
    """The sum of rho(e) over residuals, where rho' = w(e) e for a rule that is the same
    everywhere.
    """
    size = np.abs(e)
    grid = np.linspace(0, size.max(), points)
    slope = np.array([rule(t, 0, 0)[0] * t for t in grid])
    rho = np.concatenate([[0], np.cumsum((slope[1:] + slope[:-1]) / 2 * np.diff(grid))])
    return float(np.interp(size, grid, rho).sum())


def magnitudes(E, share):
    """The k-th largest |e| of each row and column, by sorting; k is `share` of what is
    not NaN, rounded up.
    """

    def kth(line):
        size = np.sort(np.abs(line[~np.isnan(line)]))[::-1]
        k = min(int(np.ceil(share * len(size) - 1e-9)), len(size))
        return size[k - 1] if k else np.inf

    return np.array([kth(line) for line in E]), np.array([kth(line) for line in E.T])


def sparsified(E, share):
    """T(E): what is among the largest of its row and of its column, entry by entry; NaN
    stays NaN.
    """
    rows, cols = magnitudes(E, share)
    T = np.where(np.isnan(E), np.nan, 0.0)
    for i, j in zip(*np.nonzero(~np.isnan(E)), strict=True):
        if abs(E[i, j]) >= rows[i] and abs(E[i, j]) >= cols[j]:
            T[i, j] = E[i, j]
    return T


def scaled_gd(Y, L, R, share, eta):
    """Tong, Ma and Chi (2021), with 1/p; yields (L, R)."""
    p = np.mean(~np.isnan(Y))
    while True:
        E = Y - L @ R.T
        gradient = -np.nan_to_num(E - sparsified(E, share)) / p  # of X
        L, R = (
            L - eta * gradient @ R @ np.linalg.inv(R.T @ R),
            R - eta * gradient.T @ L @ np.linalg.inv(L.T @ L),
        )
        yield L, R


def gd(Y, L, R, share, eta):
    """Yi, Park, Chen and Caramanis (2016), without the projection; the step is eta /
    sigma_1 of the start.
    """
    p, sigma = np.mean(~np.isnan(Y)), np.linalg.svd(L @ R.T)[1][0]
    while True:
        E = Y - L @ R.T
        gradient = -np.nan_to_num(E - sparsified(E, share)) / p
        D = L.T @ L - R.T @ R
        L, R = (
            L - eta / sigma * (gradient @ R + L @ D / 2),
            R - eta / sigma * (gradient.T @ L - R @ D / 2),
        )
        yield L, R

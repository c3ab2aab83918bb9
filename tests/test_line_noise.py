"""The noise of single rows and columns."""

import numpy as np

import lrmc


def noisy_table(seed, shape=(300, 200), rank=4):
    """X, Y with gaps, and the deviation of the noise of each entry."""
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((n, rank)) for n in shape)
    rows, cols = (np.exp(0.6 * rng.standard_normal(n)) for n in shape)
    scale = 0.3 * np.outer(rows, cols)
    Y = L @ R.T + scale * rng.standard_normal(shape)
    rng.random(shape), rng.uniform(size=shape)  # as tables with outliers have them
    return L @ R.T, np.where(rng.random(shape) < 0.5, Y, np.nan), scale


def weighted_least_squares(Y, scale, rank, sweeps=40):
    """By whoever knows the noise of every entry and the rank: rows and columns in turn."""
    W = np.where(np.isnan(Y), 0, 1 / scale**2)
    Z = np.nan_to_num(Y)
    R = np.linalg.svd(Z, full_matrices=False)[2][:rank].T
    for _ in range(sweeps):
        L = _regressed(W, Z, R)
        R = _regressed(W.T, Z.T, L)
    return L @ R.T


def _regressed(W, Z, R):
    H = np.einsum("ij,ja,jb->iab", W, R, R, optimize=True)
    return np.linalg.solve(H, ((W * Z) @ R)[..., None])[..., 0]


def test_all_of_the_noise_of_lines_is_used_where_half_of_it_is_right():
    """By chance typical entries lose a little, and half of it was kept: 1.15 times the error."""
    X, Y, scale = noisy_table(2)
    best = np.linalg.norm(weighted_least_squares(Y, scale, 4) - X)
    result = lrmc.solve(Y)
    assert result.schedule.plan["powers"] == [1.0, 1.0]
    assert np.linalg.norm(result.completed() - X) < 1.05 * best

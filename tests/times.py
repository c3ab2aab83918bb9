"""Made tables with time: sensors that share a day."""

import numpy as np

S, D, P = 12, 15, 24


def seasonal(seed=0, days=D, noise=0.3, sensors=S):
    """Sensors that share a day's shape, each with a slow process of its own."""
    rng = np.random.default_rng(seed)
    t = np.arange(days * P)
    shapes = np.stack([np.sin(2 * np.pi * t / P), np.cos(4 * np.pi * t / P)])
    shared = rng.standard_normal((sensors, 2)) @ shapes * 3
    own = np.cumsum(rng.standard_normal((sensors, len(t))), axis=1)
    own -= own.mean(1, keepdims=True)
    level = 40 + 10 * rng.random((sensors, 1))
    clean = level + shared + 0.4 * own
    return clean, clean + noise * rng.standard_normal(clean.shape)


def hidden(Y, share=0.4, seed=1):
    mask = np.random.default_rng(seed).random(Y.shape) < share
    return np.where(mask, np.nan, Y), mask


def rmse(A, B, where):
    return float(np.sqrt(np.mean((A - B)[where] ** 2)))

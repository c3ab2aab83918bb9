"""Medians over time, which single bubbles do not move."""

from __future__ import annotations

import numpy as np

from ...weights import Array

TOLD_BY = 63  # frames, about: more tell a median no better than it is needed


def some_frames(count: int, at_most: int = TOLD_BY) -> Array:
    """Indices of frames, evenly over time."""
    return np.unique(np.linspace(0, count - 1, at_most).round().astype(int))


def median_frame(frames: Array) -> Array:
    """Of every pixel over time; NaN where nothing is."""
    rows = frames.reshape(len(frames), -1).T
    return row_median(rows).reshape(frames.shape[1:])


def row_median(rows: Array) -> Array:
    """Of what is not NaN; NaN where nothing is."""
    ordered = np.sort(rows, axis=1)  # NaN come last
    count = np.sum(np.isfinite(ordered), axis=1)
    lower = np.maximum(count - 1, 0) // 2
    upper = np.minimum(count // 2, rows.shape[1] - 1)
    low, high = (
        np.take_along_axis(ordered, at[:, None], 1)[:, 0] for at in (lower, upper)
    )
    return (low + np.where(count > 0, np.where(count % 2, low, high), low)) / 2


def dark_frame(frames: Array, share: float) -> Array:
    """What only this share of a pixel's frames is darker than; NaN where nothing is."""
    ordered = np.sort(frames.reshape(len(frames), -1).T, axis=1)  # NaN come last
    count = np.sum(np.isfinite(ordered), axis=1)
    at = np.rint(share * np.maximum(count - 1, 0)).astype(np.intp)
    found = np.take_along_axis(ordered, at[:, None], 1)
    return np.asarray(found.reshape(frames.shape[1:]))

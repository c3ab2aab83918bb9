"""Heads under lights, made up: ellipsoids with eyes and a mouth, for tests and the demo."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lrmc._extras import optional
from lrmc.weights import Array


class Heads(NamedTuple):
    """Pictures of one head."""

    images: Array  # n x height x width, uint8: with something in front of most
    truth: Array  # the same without it
    covered: Array  # n x height x width: where


def heads(n: int = 24, height: int = 64, width: int = 56, *, seed: int = 0) -> Heads:
    """A matt head under n lights; a square of noise in front of two pictures of three."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1.15 : 1.15 : height * 1j, -1.15 : 1.15 : width * 1j]
    inside = np.clip(1 - x**2 - y**2, 0, None)
    # with a nose
    z = np.sqrt(inside) + 0.25 * np.exp(-((x / 0.12) ** 2) - ((y - 0.1) / 0.25) ** 2)
    slope_y, slope_x = np.gradient(z, y[:, 0], x[0])
    normal = np.stack([-slope_x, -slope_y, np.ones_like(z)]) / np.sqrt(
        slope_x**2 + slope_y**2 + 1
    )
    skin = 0.75 + 0.05 * np.sin(9 * x + rng.random()) * np.cos(7 * y)
    for eye in (-0.35, 0.35):
        skin -= 0.5 * np.exp(-(((x - eye) / 0.12) ** 2) - ((y + 0.25) / 0.07) ** 2)
    skin -= 0.3 * np.exp(-((x / 0.25) ** 2) - ((y - 0.55) / 0.06) ** 2)
    lights = rng.normal(0, 0.28, (n, 3)) + np.array([0, 0, 1.0])
    shade = np.clip(
        np.einsum(
            "nk,kij->nij",
            lights / np.linalg.norm(lights, axis=1, keepdims=True),
            normal,
        ),
        0,
        None,
    )
    truth = np.where(inside > 0, 255 * skin * (0.15 + 0.8 * shade), 30) + rng.normal(
        0, 1.5, (n, height, width)
    )
    truth = np.clip(truth, 0, 255).astype(np.uint8)
    images, covered = truth.copy(), np.zeros(truth.shape, bool)
    side = height // 4
    for k in range(n):
        if k % 3:
            i, j = rng.integers(0, height - side), rng.integers(0, width - side)
            images[k, i : i + side, j : j + side] = rng.integers(0, 256, (side, side))
            covered[k, i : i + side, j : j + side] = True
    return Heads(images, truth, covered)


def write_heads(folder: str | os.PathLike[str], made: Heads) -> list[Path]:
    """A PNG for each picture."""
    pillow = optional("PIL.Image", "faces")
    paths = [Path(folder) / f"light{k:02d}.png" for k in range(len(made.images))]
    for path, image in zip(paths, made.images, strict=True):
        pillow.fromarray(image).save(path)
    return paths

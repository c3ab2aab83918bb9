"""A film that is mostly hidden: three days and nights at a lake, and its background as it is found
again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._progress import Tell, silent
from .._work import following
from ..linalg import Factors
from ..metrics import relative_error
from ..result import Iterate, Result
from ..solve import solve
from ..weights import Array
from .landscape import Colour, landscape
from .problems import TOL

HIDDEN, CORRUPTED = 0.7, 0.05  # fractions of the film's pixels
DAYS = 3  # that the film lasts
HALF_A_LEVEL = 0.5 / 255  # of grey, where white is 1


@dataclass(frozen=True, eq=False)
class Film:
    """Frames as the columns of a matrix: pixels and colours down, time across."""

    observed: Array = field(repr=False)  # NaN where hidden
    # The truth: pictures x how bright each is in each frame.
    background: Factors = field(repr=False)
    outliers: (
        float  # the fraction of the observed entries that does not show the background
    )
    size: tuple[int, int]  # height, width

    def frame(self, column: Array) -> Array:
        """A column as a picture."""
        return column.reshape(*self.size, 3)


def film(height: int = 144, width: int = 216, frames: int = 160, seed: int = 0) -> Film:
    """Three days and nights at a mountain lake, while balloons drift by: its background has rank
    3.
    """
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, frames)
    pictures = (
        np.stack(landscape(height, width, rng), axis=-1)
        .reshape(-1, 3)
        .astype(np.float32)
    )
    sun = np.cos(2 * np.pi * DAYS * t)  # its height; the film begins at noon
    day = np.maximum(sun, 0) ** 0.7
    dusk = np.exp(-((sun / 0.35) ** 2))
    night = np.maximum(-sun, 0) ** 0.7
    light = np.stack([day, dusk, night], axis=1).astype(np.float32)
    Y = pictures @ light.T  # (height * width * 3, frames)
    for k in range(frames):
        scene = Y[:, k].reshape(height, width, 3)
        daylight = 0.35 + 0.65 * max(0.0, float(sun[k]))
        for balloon in BALLOONS:
            _draw(balloon, scene, float(t[k]), daylight)
    places = (height * width, frames)
    seen, wrong, salt = (
        np.repeat(rng.random(places) < q, 3, axis=0)
        for q in (1 - HIDDEN, CORRUPTED, 0.5)
    )
    Y = np.where(wrong, salt.astype(np.float32), Y)
    differs = np.abs(Y - pictures @ light.T) > 1e-6
    fraction = float(np.count_nonzero(differs & seen) / np.count_nonzero(seen))
    return Film(
        np.where(seen, Y, np.float32(np.nan)),
        Factors(pictures, light),
        fraction,
        (height, width),
    )


class Balloon(NamedTuple):
    """Places and speed in parts of the picture's width and height."""

    x: float
    y: float
    radius: float
    speed: float
    colours: tuple[Colour, Colour]


BALLOONS = (
    Balloon(-0.15, 0.24, 0.13, 1.30, ((0.86, 0.16, 0.18), (0.98, 0.93, 0.84))),
    Balloon(0.10, 0.50, 0.085, 0.90, ((0.98, 0.72, 0.12), (0.15, 0.32, 0.62))),
    Balloon(1.10, 0.12, 0.060, -1.20, ((0.20, 0.62, 0.48), (0.96, 0.96, 0.90))),
)


def _draw(balloon: Balloon, scene: Array, t: float, daylight: float) -> None:
    """Put a balloon into a frame, in place."""
    height, width, _ = scene.shape
    y, x = np.mgrid[0:height, 0:width]
    radius = balloon.radius * width * 0.8
    u = (x - (balloon.x + balloon.speed * t) * width) / radius
    v = (y - (balloon.y + 0.02 * np.sin(9 * t + balloon.x)) * height) / radius
    envelope = np.where(
        v < 0.2, u**2 + v**2 < 1, (np.abs(u) < 1.10 - 0.72 * v) & (v < 1.25)
    )
    basket = (np.abs(u) < 0.20) & (v > 1.45) & (v < 1.75)
    stripe = (np.floor(np.arcsin(np.clip(u, -1, 1)) * 2.6) % 2).astype(int)
    round_ = np.clip(1.05 - 0.55 * (u + 0.35) ** 2 - 0.25 * v**2, 0.35, 1)
    colour = np.array(balloon.colours)[stripe] * round_[..., None] * daylight
    scene[envelope] = colour[envelope]
    scene[basket] = np.array([0.36, 0.22, 0.12]) * daylight


class Recovered(NamedTuple):
    """The film's background as it was found."""

    result: Result
    errors: tuple[float, ...]  # after each iteration, against the truth
    exact: float  # the fraction of entries within half a grey level of the truth
    lost: int  # pixels with an entry that is not
    seconds: float


def recovered(scene: Film, progress: Tell = silent) -> Recovered:
    """Find the background, and note the error on the way.

    It is told the rank: looked for, it comes out as 4 here, and the run does not come to rest in
    100 passes.
    """
    errors: list[float] = []
    follow = following(progress, TOL)

    def watch(it: Iterate) -> None:
        errors.append(relative_error(it, scene.background))
        follow(it)

    began = time.perf_counter()
    result = solve(
        scene.observed, scene.background.R.shape[1], time=None, progress=watch
    )
    seconds = time.perf_counter() - began
    truth = scene.background.L @ scene.background.R.T
    off = np.abs(result.low_rank() - truth) > HALF_A_LEVEL
    lost = off.any(axis=1).reshape(-1, 3).any(axis=1)
    return Recovered(
        result, tuple(errors), float(1 - off.mean()), int(lost.sum()), seconds
    )

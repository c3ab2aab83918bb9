"""A street with walkers, made up: shadows, people who stop, leaves, water, night, flicker, noise."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage as ndi


@dataclass(frozen=True)
class Kind:
    """What is hard about a clip."""

    shadow: float = 1.0  # what is left of the light in a cast shadow; 1 without
    stops: bool = False  # the first walker stands still for a third of the clip
    leaves: float = 0.0  # pixels by which the upper part sways
    water: float = 0.0  # share of the pixels that glitter in the lower left
    contrast: float = 1.0  # of the walkers with the street
    bright: float = 1.0  # of everything
    flicker: float = 0.0  # standard deviation of the light from frame to frame
    noise: float = 2.0  # grey levels
    walkers: int = 3
    busy: bool = False  # walkers follow each other along one line


KINDS = {
    "plain": Kind(),
    "shadows": Kind(shadow=0.6),
    "soft shadows": Kind(shadow=0.75),
    "stops": Kind(stops=True),
    "leaves": Kind(leaves=2.0),
    "water": Kind(water=0.08),
    "low contrast": Kind(contrast=0.35),
    "night": Kind(bright=0.25, noise=4.0),
    "flicker": Kind(flicker=0.06),
    "camera noise": Kind(noise=9.0),
    "busy": Kind(busy=True, walkers=9),
    "shadows and leaves": Kind(shadow=0.6, leaves=2.0, stops=True, noise=4.0),
}


@dataclass(frozen=True)
class Made:
    """A clip and what is true of it: all frames x height x width."""

    frames: np.ndarray
    truth: np.ndarray  # a walker is there
    shadow: np.ndarray  # a shadow is there, and no walker
    still: np.ndarray  # a walker is there who has stopped


def street(kind, n=120, height=120, width=160, *, colour=False, seed=0):
    """A clip of a kind, one of KINDS or a `Kind`."""
    kind = KINDS[kind] if isinstance(kind, str) else kind
    rng = np.random.default_rng(seed)
    wall = _wall(rng, height, width)
    sway = _sway(rng, wall, n, kind.leaves)
    people = [_walker(rng, k, kind, height, width) for k in range(kind.walkers)]
    shape = (n, height, width)
    truth, shadow, still = (np.zeros(shape, bool) for _ in range(3))
    frames = np.empty((*shape, 3), np.float32)
    for t in range(n):
        frame = sway[t] if kind.leaves else wall.copy()
        _glitter(rng, frame, kind.water)
        standing = [_place(p, t / n, width) for p in people]
        for p, (x, _) in zip(people, standing):
            shadow[t] |= _ellipse(
                x + 0.9 * p.half, p.foot, 1.3 * p.half, 0.6 * p.half, shape
            )
        lit = ndi.gaussian_filter(1 - (1 - kind.shadow) * shadow[t].astype(float), 0.7)
        frame *= lit[..., None] if kind.shadow < 1 else 1
        for p, (x, stopped) in zip(people, standing):
            _draw(frame, p, x, truth[t], still[t] if stopped else None, kind.contrast)
        frames[t] = frame * (1 + kind.flicker * rng.standard_normal())
    frames = kind.bright * frames + rng.normal(0, kind.noise, frames.shape)
    frames = np.clip(np.rint(frames), 0, 255).astype(np.uint8)
    shadow &= ~truth
    if not colour:
        frames = np.rint(frames @ [0.299, 0.587, 0.114]).astype(np.uint8)
    return Made(frames, truth, shadow & (kind.shadow < 1), still)


@dataclass(frozen=True)
class _Walker:
    foot: float
    half: float  # half of the width
    start: float
    speed: float  # widths of the picture in the clip
    stop: float  # where he stands still, as a share of the clip; above 1 never
    colours: np.ndarray  # of head, body, legs


def _wall(rng, height, width):
    """Plaster above, a textured floor below, some darker boxes: height x width x 3."""
    fine = ndi.gaussian_filter(rng.standard_normal((height, width)), 0.8)
    coarse = ndi.gaussian_filter(rng.standard_normal((height, width)), 12)
    picture = 130 + 25 * coarse / coarse.std() + 7 * fine / fine.std()
    picture[: height // 3] += 14 * np.sign(np.sin(np.arange(width) / 4))
    for _ in range(5):
        y, x = rng.integers(height * 0.7), rng.integers(width * 0.8)
        picture[y : y + height // 7, x : x + width // 9] *= rng.uniform(0.5, 1.3)
    tint = 1 + 0.12 * rng.standard_normal(3)
    return np.clip(picture[..., None] * tint, 25, 235).astype(np.float32)


def _sway(rng, wall, n, far):
    """The upper third of the wall goes to and fro."""
    if not far:
        return None
    height, width = wall.shape[:2]
    top = height // 3
    frames = np.repeat(wall[None], n, 0)
    y, x = np.mgrid[:top, :width]
    phase = ndi.gaussian_filter(rng.standard_normal((top, width)), 8)
    phase *= 3 / phase.std()
    for t in range(n):
        moved = x + far * np.sin(0.9 * t + phase) + rng.normal(0, 0.3)
        for c in range(3):
            frames[t, :top, :, c] = ndi.map_coordinates(
                wall[:top, :, c], [y, moved], order=1, mode="nearest"
            )
    return frames


def _glitter(rng, frame, share):
    height, width = frame.shape[:2]
    part = frame[height * 2 // 3 :, : width // 2]
    spots = rng.random(part.shape[:2]) < share
    strength = ndi.maximum_filter(spots, (1, 3)) * rng.uniform(30, 90, part.shape[:2])
    part += strength[..., None].astype(np.float32)


def _walker(rng, k, kind, height, width):
    half = width * rng.uniform(0.035, 0.06)
    foot = height * (0.8 if kind.busy else rng.uniform(0.5, 0.95))
    start = -0.15 - 0.16 * k if kind.busy else rng.uniform(-0.3, 0.3)
    speed = 2.2 if kind.busy else rng.uniform(1.0, 1.4)
    stop = 0.35 if kind.stops and k == 0 else 2.0
    colours = rng.choice([-1, 1], (3, 1)) * rng.uniform(50, 100, (3, 3))
    return _Walker(foot, half, start, speed, stop, colours)


def _place(p, time, width):
    """Where he is, and whether he stands still."""
    stopped = p.stop < time < p.stop + 1 / 3
    walked = min(time, p.stop) + max(0.0, time - p.stop - 1 / 3)
    return width * (p.start + p.speed * walked), stopped


def _ellipse(x, y, a, b, shape):
    rows, cols = np.ogrid[: shape[1], : shape[2]]
    return ((cols - x) / a) ** 2 + ((rows - y) / b) ** 2 < 1


def _draw(frame, p, x, truth, still, contrast):
    """A head, a body and legs, in colours that differ from what is behind by so much."""
    shape = (0, *frame.shape[:2])
    tall = 2.2 * p.half
    parts = [
        _ellipse(x, p.foot - 2.1 * tall, 0.5 * p.half, 0.3 * tall, shape),
        _ellipse(x, p.foot - 1.3 * tall, p.half, 0.6 * tall, shape),
        _ellipse(x, p.foot - 0.5 * tall, 0.7 * p.half, 0.6 * tall, shape),
    ]
    for part, colour in zip(parts, p.colours):
        if part.any():
            frame[part] = np.clip(130 + contrast * colour, 5, 250)
            truth |= part
            if still is not None:
                still |= part

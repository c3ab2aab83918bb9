"""Video of a camera that stands still: its background, and what moves in front of it.

A frame is a row of a matrix, a pixel (and colour) a column. The background is low rank: one picture
that gets brighter and darker, or a few. Huber's loss fits it, from a part of the pixels if asked
to; frames are then compared with it.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..._files import Format, opened_arrays, save_arrays
from ..._progress import Tell, silent
from ..._work import SOUND, Outcome
from ...formats.sparse import Matrix
from ...linalg import Factors
from ...methods.noisy import Noise, sweeps
from ...observations._door import as_observations
from ...report.text import percent
from ...subspace import Memory, Part, Subspace, follow, learn_as_fitted
from ...weights import Array
from ..outcome import Limits, Told, run_to_end, told
from ..stack import Stack, as_type, check_rank, check_seed, check_share, is_whole
from .camera import after_motion
from .foreground import Traits, in_front, masks, together
from .grid import brightness, grid_of, lit
from .medians import medians
from .modes import most_common
from .pixels import shifted
from .stays import after_few, behind_what_stays
from .stops import Stops
from .thresholds import threshold_of
from .traits import noise_of, traits_of

FORMAT = Format("lrmc-background", "a background")
FITS = 2  # of all pixels, from their medians: one step is nearly what many give
ENOUGH = 200  # frames to learn from; more are thinned out evenly
VIEWS = 20  # times that a sample is to show a pixel: a small one takes more frames
REMEMBERED = 1000  # frames that the background of a long film stands for
KNOWN_TRAITS = (
    "sways",
    "colours",
    "ratios",
    "spread",
    "sd",
    "quiet",
)  # that a file may have
BYTES = Limits(np.array(0.0), np.array(255.0))  # what a frame may hold


# ---- the background


@dataclass(frozen=True, eq=False)
class Background:
    """What the camera sees if nothing moves, and what is remembered of the frames that it was
    learned from.
    """

    model: Subspace
    memory: Memory
    shape: tuple[int, ...]  # of a frame
    outcome: Outcome = SOUND  # of the fit that it was learned by
    traits: Traits | None = None  # as far as they are known

    @property
    def threshold(self) -> float:
        """How far in grey levels a pixel is from the background that is not the background."""
        return self._thresholds[0]

    @property
    def light(self) -> float:
        """How many times a difference of brightness alone counts, whose noise is less; at least as
        much as among the colours.
        """
        among = None if self.traits is None else self.traits.colours
        alone = self.threshold / self._thresholds[1]
        return alone if among is None else max(alone, math.hypot(*among.sum(axis=0)))

    @cached_property
    def _thresholds(self) -> list[float]:
        """In all, and in brightness alone."""
        quiet = None if self.traits is None else self.traits.quiet
        bright = float(np.mean(self.model.V, axis=0) @ self.model.mean)
        levels = (None, None) if quiet is None else quiet.tolist()
        return [threshold_of(self.model.noise, x, bright) for x in levels]

    def scores(self, frames: Array) -> Array:
        """How bright each frame is: frames x rank. Each by its own robust regression on a grid of
        its pixels.
        """
        return self._grid(frames.reshape(len(frames), -1)).rows(self.model).T

    def _grid(self, seen: Matrix, observed: float = 1.0) -> Part:
        """The pixels that tell how bright frames are, of frames x pixels."""
        grid = grid_of(self.shape, observed)
        return Part(as_observations(seen[:, grid]), grid)

    @cached_property
    def _values(self) -> Array:
        """What all pictures are made of."""
        return self.model.V.astype(np.float32)

    def pictures(self, scores: Array) -> Array:
        """The background of the frames with these scores, as floats."""
        return self.counted(scores)[0]

    def counted(self, scores: Array) -> tuple[Array, int]:
        """The same, and how many values were clipped because no frame could hold them."""
        V = self._values
        # One component after another: BLAS takes ten times as long for a single one.
        pictures = scores[:, :1] * V[:, 0]
        for k in range(1, V.shape[1]):
            pictures += scores[:, k : k + 1] * V[:, k]
        pictures = pictures.reshape(len(scores), *self.shape)
        return BYTES.held(pictures, "the background")

    def followed(self, seen: Matrix) -> Background:
        """The background after more frames (frames x pixels): the last `REMEMBERED` count.

        How bright each frame is, is told by a grid of its pixels.
        """
        obs = as_observations(seen)
        kept = max(0.1, 1 - obs.shape[0] / REMEMBERED)
        part = self._grid(seen, obs.fraction)
        learned = follow(obs, self.model, self.memory, kept, center=False, part=part)
        return replace(self, model=learned.model, memory=learned.memory)

    def behind_what_stays(self, frames: Array) -> Background:
        """The background that pixels show most often, without things that stayed for most of these
        frames: see `modes` and `stays`.
        """
        scores = self.scores(frames)
        V = most_common(self.model.V, frames, scores, self.model.noise)
        V = behind_what_stays(V, frames, scores, self.threshold)
        return replace(self, model=replace(self.model, V=V))

    def with_traits(self, frames: Array, observed: float = 1.0) -> Background:
        """With what these frames, of which so much was observed, show besides: see `traits`."""
        scores = self.scores(frames)

        def picture(k: int) -> Array:
            return self.pictures(scores[k : k + 1])[0]

        first = noise_of(frames, picture, self.threshold, self.model.noise)
        known = replace(self, traits=first)
        traits, off = traits_of(
            frames, picture, known.threshold, known.light, first, observed
        )
        V = self.model.V if off is None else shifted(self.model.V, off, scores)
        return replace(self, traits=traits, model=replace(self.model, V=V))

    def watched(self, frames: Array, behind: Array | None = None) -> Background:
        """With a warning if the camera moves in these frames, or has moved since the background was
        as it is given.
        """
        if not self.outcome.sound:
            return self
        return replace(self, outcome=after_motion(self.outcome, frames, behind))

    def masks(self, frames: Array, pictures: Array) -> Array:
        """True where something is in front of these pictures of the background."""
        return masks(frames, pictures, self.threshold, self.traits, self.light)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz file."""
        model, memory = self.model, self.memory
        parts = {
            "shape": np.array(self.shape),
            "mean": model.mean,
            "covariance": model.covariance,
            "noise": np.array(model.noise),
            "odds": np.array(model.odds),
            "V": model.V.astype(np.float32),
            "rows": memory.rows,
            "cols": memory.cols.astype(np.float32),
        }
        traits = self.traits
        known = {} if traits is None else {k: getattr(traits, k) for k in KNOWN_TRAITS}
        parts |= {k: np.asarray(x) for k, x in known.items() if x is not None}
        save_arrays(path, FORMAT, parts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Background:
        """Read what `save` wrote. Nothing in the file is executed."""
        with opened_arrays(path, FORMAT) as (_, content):
            V, mean, covariance, rows, cols = (
                content[k].astype(np.float64)
                for k in ("V", "mean", "covariance", "rows", "cols")
            )
            shape = tuple(int(n) for n in content["shape"])
            noise, odds = float(content["noise"]), float(content["odds"])
            known = {k: content[k] for k in KNOWN_TRAITS if k in content}
            n, r = V.shape if V.ndim == 2 else (0, 0)
            shapes = (mean.shape, covariance.shape, rows.shape, cols.shape)
            wanted = ((r,), (r, r), (r + 1, r + 1), (n, (r + 1) * (r + 2) // 2))
            finite = np.isfinite([noise, odds, V.sum()]).all()
            if n == 0 or n != np.prod(shape) or shapes != wanted or not finite:
                raise ValueError("its parts do not belong together")
            traits = Traits(max(noise, 1.0), **known)
            traits.check(shape)
        model = Subspace(V, np.zeros(n), mean, covariance, noise, odds, loss="huber")
        return cls(model, Memory(rows, cols), shape, traits=traits)


def learn(
    seen: Matrix,
    shape: tuple[int, ...],
    rank: int = 1,
    seed: int = 0,
    tell: Tell = silent,
) -> Background:
    """The background of frames x pixels (bytes; if sparse, what is stored was observed).

    How bright frames are is told by a grid of pixels: a start around their medians, and sweeps with
    Huber's loss until they come to rest. All pixels are then fitted to that.
    """
    obs = as_observations(seen)
    check_rank(rank, obs.shape[0], "frames")
    picture = medians(seen).astype(np.float32)
    grid = grid_of(shape, obs.fraction)
    if not picture[grid].any():
        # Black times any brightness is black: that is told with 1 for 0.
        seen, picture = lit(seen), np.maximum(picture, 1)
        obs = as_observations(seen)
    bright = brightness(as_observations(seen[:, grid]), picture[grid], rank, seed)
    # as bright as the medians are
    even = np.linalg.lstsq(bright, np.ones(len(bright)), rcond=None)[0]
    X = Factors(bright, np.outer(picture, even).astype(bright.dtype))
    steps = sweeps(obs, X, Noise.even(obs, "huber"), FITS, sides=(1,))
    steps = told(steps, tell, "learning the background")
    X, outcome = run_to_end(obs, steps, "the background")
    unseen = float(np.mean(obs.col_observed == 0))
    if unseen > 0.01:
        text = (
            f"{percent(unseen)} of the pixels were never observed, and their background"
            " is a guess"
        )
        outcome = outcome.warned(f"{text}: give more frames, or a larger sample")
    model, memory = learn_as_fitted(obs, X, "huber")
    frames = REMEMBERED / obs.shape[0]  # those that were looked at stand for all
    memory = Memory(memory.rows * frames, memory.cols * frames)
    return Background(model, memory, shape, outcome)


# ---- arrays


@dataclass(frozen=True, eq=False)
class Separation(Told):
    """A clip in two layers, of which some frames are made when they are asked for; nothing but
    scores is stored.
    """

    frames: Array
    model: Background
    scores: Array  # frames x rank

    @property
    def outcome(self) -> Outcome:  # type: ignore[override]
        """Of the fit that the background was learned by."""
        return self.model.outcome

    def __len__(self) -> int:
        return len(self.frames)

    def background(self, some: slice = slice(None)) -> Array:
        """The background of some frames, as bytes."""
        return as_type(self.model.pictures(self.scores[some]), self.frames.dtype)

    def masks(self, some: slice = slice(None)) -> Array:
        """True where something is in front, (frames, height, width)."""
        frames, scores = self.frames[some], self.scores[some]
        step = together(self.frames[:1].size)
        each = [
            self.model.masks(
                frames[k : k + step], self.model.pictures(scores[k : k + step])
            )
            for k in range(0, len(frames), step)
        ]
        return np.concatenate(each) if each else np.empty(frames.shape[:3], bool)

    def stopped(self, rate: float = 25.0) -> Array:
        """True where something is in front that came and stands still, (frames, height, width);
        `rate` is in frames per second.
        """
        stops = Stops(rate, self.model.threshold)
        found = np.empty(self.frames.shape[:3], bool)
        for k, frame in enumerate(self.frames):
            picture = self.model.pictures(self.scores[k : k + 1])
            mask = self.model.masks(frame[None], picture)[0]
            found[k] = stops.add(frame, picture[0], mask)[1]
        return found

    def foreground(self, some: slice = slice(None)) -> Array:
        """What is in front, black elsewhere."""
        return in_front(self.frames[some], self.masks(some))


def separate(
    frames: ArrayLike,
    *,
    rank: int = 1,
    sample: float = 1.0,
    model: Background | None = None,
    seed: int = 0,
) -> Separation:
    """Separate background and foreground of a clip from a fixed camera.

    Parameters
    ----------
    frames : array of uint8
        (frames, height, width) or (frames, height, width, 3).
    rank : int, default 1
        Rank of the background: 1, or more if light moves.
    sample : float, default 1.0
        Fraction of the pixels that the background is learned from, drawn at random.
    model : Background, optional
        A background that is known already.
    seed : int, default 0
        Seed of the draw.

    Returns
    -------
    Separation
        `background()`, `foreground()`, `masks()`, `stopped(rate)`, `status` and `warnings`.

    Raises
    ------
    ValueError
        If frames or options cannot be used.
    lrmc.apps.outcome.FitFailed
        If the fit diverged.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import video
    >>> clip = np.full((20, 30, 40), 80, np.uint8)
    >>> for t in range(20):
    ...     clip[t, 10:18, t : t + 8] = 200  # a square that moves
    >>> done = video.separate(clip)
    >>> int(done.background().max()), bool(done.masks()[5, 14, 9])
    (80, True)
    """
    clip = _checked(frames)
    check_options(rank, sample, seed)
    check_rank(rank, len(clip), "frames")
    if model is None:
        some = clip[:: thinning(len(clip), sample)]
        model = learn_from(some, How(rank, sample, seed))
        return Separation(clip, model, model.scores(clip))
    check_shape(model, clip.shape[1:])
    scores = model.scores(clip)
    model = model.watched(clip, model.pictures(scores[:1])[0])
    return Separation(clip, model, scores)


class How(NamedTuple):
    """How a background is learned."""

    rank: int
    sample: float  # of the pixels
    seed: int


def learn_from(
    frames: Array,
    how: How,
    tell: Tell = silent,
    *,
    follows: bool = False,
) -> Background:
    """The background of frames, and its traits. One that is to follow a clip takes in what stays long
    enough; else, what stayed for most of the frames is left out.
    """
    seen = sampled(frames, how.sample, how.seed)
    back = learn(seen, frames.shape[1:], how.rank, how.seed, tell)
    if not follows:
        back = back.behind_what_stays(frames)
    back = replace(back, outcome=after_few(back.outcome, len(frames)))
    return back.with_traits(frames, how.sample).watched(frames)


def frames_enough(sample: float) -> int:
    """How many frames are enough to learn from."""
    return max(ENOUGH, math.ceil(VIEWS / sample))


def thinning(n: int, sample: float) -> int:
    """Every which of n frames is enough to learn from."""
    return max(1, math.ceil(n / frames_enough(sample)))


def sampled(frames: Array, sample: float, seed: int) -> Matrix:
    """Frames x pixels, sparse unless all are observed."""
    stack = Stack(frames)
    return (stack.matrix if sample == 1 else stack.sampled(sample, seed)).T


def _checked(frames: ArrayLike) -> Array:
    clip = np.asarray(frames)
    if (
        clip.ndim not in (3, 4)
        or (clip.ndim == 4 and clip.shape[3] != 3)
        or 0 in clip.shape
    ):
        raise ValueError(
            f"frames have shape {clip.shape}; (frames, height, width) or (..., 3) is"
            " wanted"
        )
    if clip.dtype != np.uint8:
        raise ValueError(
            f"frames have type {clip.dtype}; bytes (uint8, 0 is black and 255 white)"
            " are wanted"
        )
    if len(clip) < 2:
        raise ValueError("1 frame; a background needs at least 2")
    return clip


def check_options(rank: int, sample: float, seed: int) -> None:
    """What can be told before the frames are known."""
    if not is_whole(rank) or rank < 1:
        raise ValueError(
            f"rank={rank!r} for a background; 1 is wanted, or more if light moves"
        )
    check_share(sample)
    check_seed(seed)


def check_shape(model: Background, shape: tuple[int, ...]) -> None:
    """Refuse a background of other frames."""
    if model.shape != shape:
        here, there = (
            f"{s[1]} x {s[0]} pixels in {'colour' if len(s) == 3 else 'grey'}"
            for s in (shape, model.shape)
        )
        raise ValueError(f"the clip has {here}, and the model is for {there}")

"""Video of a camera that stands still: its background, and what moves in front of it.

A frame is a row of a matrix, a pixel (and colour) a column. The background is low rank: one picture that gets brighter
and darker, or a few. Huber's loss fits it, from a part of the pixels if asked to; frames are then compared with it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.ndimage as ndi
import scipy.sparse as sp

from ... import report
from ..._extras import optional
from ..._files import whole, whole_folder
from ...formats.arrays import opened_npz
from ...linalg import Factors
from ...methods.noisy import Noise, sweeps
from ...methods.start import leading
from ...observations._door import as_observations
from ...observations.base import Observations
from ...report.text import number, percent
from ...subspace import Memory, Subspace, fit_rows, follow, learn_factors
from ...weights import Array
from ..outcome import SOUND, Limits, Outcome, Told, after_clipping, run_to_end
from ..stack import Stack, as_type, check_rank, check_seed, check_share, is_whole
from .clips import Clip, film

SWEEPS = 4  # over the data, at most
MEDIAN_OF = 101  # frames, for the start
ENOUGH = 200  # times that a pixel is looked at for the background; more frames are thinned out evenly
TO_LEARN = 256 << 20  # bytes of frames that are held to learn a background from
AT_ONCE = 48 << 20  # bytes of frames that are held while a film is gone through
REMEMBERED = 1000  # frames that the background of a long film stands for
DEVIATIONS, LEAST, MOST = 8.0, 25.0, 40.0  # the threshold in deviations of the noise, and its limits in grey levels
BYTES = Limits(np.array(0.0), np.array(255.0))  # what a frame may hold
SHOWN = 24 << 20  # bytes of frames that are kept for the report, of each kind


# ---- the background


@dataclass(frozen=True, eq=False)
class Background:
    """What the camera sees if nothing moves, and what is remembered of the frames that it was learned from."""

    model: Subspace
    memory: Memory
    shape: tuple[int, ...]  # of a frame
    outcome: Outcome = SOUND  # of the fit that it was learned by

    @property
    def threshold(self) -> float:
        """How far in grey levels a pixel is from the background that is not the background."""
        return float(np.clip(DEVIATIONS * self.model.noise, LEAST, MOST))

    def scores(self, obs: Observations) -> Array:
        """How bright each frame is: frames x rank. Each frame by its own robust regression."""
        return fit_rows(obs, self.model).T

    def pictures(self, scores: Array) -> Array:
        """The background of the frames with these scores, as floats."""
        return self.counted(scores)[0]

    def counted(self, scores: Array) -> tuple[Array, int]:
        """The same, and how many values were clipped because no frame could hold them."""
        pictures = (scores @ self.model.V.T.astype(np.float32)).reshape(len(scores), *self.shape)
        return BYTES.held(pictures, "the background")

    def followed(self, obs: Observations) -> Background:
        """The background after more frames: the last `REMEMBERED` count."""
        kept = max(0.1, 1 - obs.shape[0] / REMEMBERED)
        learned = follow(obs, self.model, self.memory, kept, center=False)
        return replace(self, model=learned.model, memory=learned.memory)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz file."""
        m = self.model
        parts: dict[str, Any] = {"about": np.array("lrmc-background 1"), "shape": np.array(self.shape)}
        parts |= {"mean": m.mean, "covariance": m.covariance, "noise": m.noise, "odds": m.odds}
        parts |= {"V": m.V.astype(np.float32), "rows": self.memory.rows, "cols": self.memory.cols.astype(np.float32)}
        with whole(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **parts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Background:
        """Read what `save` wrote. Nothing in the file is executed."""
        try:
            with opened_npz(path) as content:
                if str(content["about"]) != "lrmc-background 1":
                    raise ValueError("it is not a background of this version of lrmc")
                V, mean, covariance, rows, cols = (
                    content[k].astype(np.float64) for k in ("V", "mean", "covariance", "rows", "cols")
                )
                shape = tuple(int(n) for n in content["shape"])
                noise, odds = float(content["noise"]), float(content["odds"])
        except FileNotFoundError:
            raise
        except Exception as error:  # zipfile and numpy each have their own
            raise ValueError(f"{path} could not be read as a background: {error}") from error
        n, r = V.shape if V.ndim == 2 else (0, 0)
        shapes = (mean.shape, covariance.shape, rows.shape, cols.shape)
        wanted = ((r,), (r, r), (r + 1, r + 1), (n, (r + 1) * (r + 2) // 2))
        if n == 0 or n != np.prod(shape) or shapes != wanted or not np.isfinite([noise, odds, V.sum()]).all():
            raise ValueError(f"{path} could not be read as a background: its parts do not belong together")
        model = Subspace(V, np.zeros(n), mean, covariance, noise, odds, "huber")
        return cls(model, Memory(rows, cols), shape)


def learn(seen: Any, shape: tuple[int, ...], rank: int = 1, seed: int = 0) -> Background:
    """The background of frames x pixels (bytes; if sparse, what is stored was observed).

    A start around the medians of the pixels, and sweeps with Huber's loss until they come to rest.
    """
    obs = as_observations(seen)
    check_rank(rank, obs.shape[0], "frames")
    picture = medians(seen).astype(np.float32)
    middle = Factors(np.ones((obs.shape[0], 1), np.float32), picture[:, None])
    zeta = 6 * float(np.median(np.abs(obs.sample.residual(middle)))) or 1.0
    X = leading(obs, rank, zeta, 1 / obs.fraction, model=middle, keep_model=True, seed=seed)
    X, outcome = run_to_end(obs, sweeps(obs, X, Noise.even(obs, "huber"), SWEEPS), "the background")
    unseen = float(np.mean(obs.col_observed == 0))
    if unseen > 0.01:
        text = f"{percent(unseen)} of the pixels were never observed, and their background is a guess"
        outcome = outcome.warned(f"{text}: give more frames, or a larger sample")
    learned = learn_factors(obs, X, "huber", most=rank)
    frames = REMEMBERED / obs.shape[0]  # those that were looked at stand for all
    memory = Memory(learned.memory.rows * frames, learned.memory.cols * frames)
    return Background(learned.model, memory, shape, outcome)


def medians(seen: Any) -> Array:
    """The lower median of each pixel in about `MEDIAN_OF` frames that show it; the median of all where none does."""
    sparse = sp.issparse(seen)
    share = seen.nnz / (seen.shape[0] * seen.shape[1]) if sparse else 1.0
    some = seen[:: max(1, int(seen.shape[0] * share / MEDIAN_OF))]
    if not sparse:
        return np.partition(some, (len(some) - 1) // 2, axis=0)[(len(some) - 1) // 2]
    some = some.tocsr()
    keys = np.sort(some.indices.astype(np.int64) * 256 + some.data)  # by pixel, then by value
    ends = np.searchsorted(keys, 256 * np.arange(some.shape[1] + 1))
    count = np.diff(ends)
    middle = keys[np.minimum(ends[:-1] + np.maximum(count - 1, 0) // 2, len(keys) - 1)] % 256
    return np.where(count > 0, middle, np.median(some.data)).astype(np.uint8)


# ---- arrays


@dataclass(frozen=True, eq=False)
class Separation(Told):
    """A clip in two layers, of which some frames are made when they are asked for; nothing but scores is stored."""

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
        return masks(self.frames[some], self.model.pictures(self.scores[some]), self.model.threshold)

    def foreground(self, some: slice = slice(None)) -> Array:
        """What is in front, black elsewhere."""
        return in_front(self.frames[some], self.masks(some))


def separate(
    frames: Any, *, rank: int = 1, sample: float = 1.0, model: Background | None = None, seed: int = 0
) -> Separation:
    """The background of a clip, (frames, height, width) or (frames, height, width, 3) in bytes, and what moves.

    The background is learned from a share `sample` of the pixels, drawn at random; with `model`, it is known already.
    A fit that diverges is an error, `lrmc.apps.outcome.FitFailed`; `status` and `warnings` of the answer tell the rest.
    """
    frames = _checked(frames)
    _check_options(rank, sample, seed)
    check_rank(rank, len(frames), "frames")
    seen = _sampled(frames, sample, seed)
    if model is None:
        model = learn(seen[:: thinning(len(frames), sample)], frames.shape[1:], rank, seed)
    _check_shape(model, frames.shape[1:])
    return Separation(frames, model, model.scores(as_observations(seen)))


def thinning(n: int, sample: float) -> int:
    """Every which of n frames is enough to learn from."""
    return max(1, math.ceil(n * sample / ENOUGH))


def _sampled(frames: Array, sample: float, seed: int) -> Any:
    """Frames x pixels, sparse unless all are observed."""
    stack = Stack(frames)
    return (stack.matrix if sample == 1 else stack.sampled(sample, seed)).T


def _checked(frames: Any) -> Array:
    frames = np.asarray(frames)
    if frames.ndim not in (3, 4) or (frames.ndim == 4 and frames.shape[3] != 3) or 0 in frames.shape:
        raise ValueError(f"frames have shape {frames.shape}; (frames, height, width) or (..., 3) is wanted")
    if frames.dtype != np.uint8:
        raise ValueError(f"frames have type {frames.dtype}; bytes (uint8, 0 is black and 255 white) are wanted")
    if len(frames) < 2:
        raise ValueError("1 frame; a background needs at least 2")
    return frames


def _check_options(rank: int, sample: float, seed: int) -> None:
    """What can be told before the frames are known."""
    if not is_whole(rank) or rank < 1:
        raise ValueError(f"rank={rank!r} for a background; 1 is wanted, or more if light moves")
    check_share(sample)
    check_seed(seed)


def _check_shape(model: Background, shape: tuple[int, ...]) -> None:
    if model.shape != shape:
        here, there = (f"{s[1]} x {s[0]} pixels in {'colour' if len(s) == 3 else 'grey'}" for s in (shape, model.shape))
        raise ValueError(f"the clip has {here}, and the model is for {there}")


# ---- masks


def masks(frames: Array, background: Array, threshold: float) -> Array:
    """Where frames are farther than the threshold from the background in any colour, cleaned up."""
    off = np.abs(frames - background)
    return cleaned((off if off.ndim == 3 else off.max(axis=3)) > threshold)


def cleaned(found: Array) -> Array:
    """What is small goes (a majority of the neighbours decides), gaps are closed: (frames, height, width).

    Neighbourhoods grow with the picture: 5 and 11 pixels where its shorter side has 240. Squares, since these are
    separable: the work does not depend on their size.
    """
    side = min(found.shape[1:])
    near, gap = _odd(side / 48), _odd(side / 22)
    share = ndi.uniform_filter(found.astype(np.float32), (1, near, near), mode="nearest")
    room = [(0, 0), (gap, gap), (gap, gap)]  # so that what touches the border is closed as anywhere
    closed = np.pad((share > 0.5).view(np.uint8), room)
    for smooth in (ndi.maximum_filter1d, ndi.minimum_filter1d):
        for axis in (1, 2):
            closed = smooth(closed, gap, axis=axis, mode="nearest")
    return closed[:, gap:-gap, gap:-gap].astype(bool)


def _odd(size: float) -> int:
    """The nearest odd number, at least 3."""
    return max(3, 2 * round((size - 1) / 2) + 1)


def in_front(frames: Array, found: Array) -> Array:
    """Frames where something was found, black elsewhere."""
    return frames * (found if frames.ndim == 3 else found[..., None])


# ---- files


@dataclass(frozen=True, eq=False)
class Done(Told):
    """What `process` did."""

    model: Background
    n_frames: int
    seconds: float
    in_front: Array  # share of each frame that is foreground
    folder: Path
    outcome: Outcome = SOUND  # of the fit, and of what was made of it
    clipped: int = 0  # values of the background that no frame could hold


class Step(NamedTuple):
    """How far `process` has come."""

    stage: str  # "reading", "learning" or "writing"
    frames: int  # done
    total: int  # as far as known, else 0


def process(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    rank: int = 1,
    sample: float = 1.0,
    grey: bool = False,
    model: str | os.PathLike[str] | Background | None = None,
    seed: int = 0,
    progress: Callable[[Step], None] | None = None,
) -> Done:
    """Write a clip's background.mp4, foreground.mp4, masks/000000.png ..., background.npz and report.html to a folder.

    The clip is a video file or a folder of pictures, and is read twice, some frames at a time: memory does not grow
    with its length. A background is learned from frames all over the clip, or is given: `model`. If it is given, or if
    there are more than `REMEMBERED` frames, it follows the clip from there. The folder appears whole or not at all.
    """
    began, tell = time.perf_counter(), progress or (lambda step: None)
    _check_options(rank, sample, seed)
    clip = Clip.open(source, grey)
    known = Background.load(model) if isinstance(model, str | os.PathLike) else model
    with whole_folder(target) as folder:
        back, still = (known, False) if known is not None else _learned(clip, rank, sample, seed, tell)
        optional("PIL.Image", "video")
        with ExitStack() as open_files:
            out = _Output(folder, clip, back.shape, open_files)
            for frames in blocks(clip.frames(), AT_ONCE):
                _check_shape(back, frames.shape[1:])
                obs = as_observations(_sampled(frames, sample, seed))
                back = back if still else back.followed(obs)
                out.write(Separation(frames, back, back.scores(obs)))
                tell(Step("writing", out.n_frames, clip.n_said))
        back.save(folder / "background.npz")
        shares, seconds = np.array(out.shares), time.perf_counter() - began
        outcome = back.outcome.warned(clip.about_depth) if clip.about_depth else back.outcome
        outcome = after_clipping(outcome, out.clipped, out.n_frames * int(np.prod(back.shape)), BYTES)
        done = Done(back, out.n_frames, seconds, shares, Path(target), outcome, out.clipped)
        report.write_report(folder / "report.html", clip.path.name, _sections(clip, done, sample, out.shown))
    return done


def _learned(clip: Clip, rank: int, sample: float, seed: int, tell: Callable[[Step], None]) -> tuple[Background, bool]:
    """A background from frames all over the clip, and whether it is short enough to have only one."""
    kept: Spread | None = None
    for k, frame in enumerate(clip.frames()):
        kept = kept or Spread(max(2, min(TO_LEARN // frame.nbytes, math.ceil(2 * ENOUGH / sample))))
        kept.add(frame)
        if k % 50 == 0:
            tell(Step("reading", k + 1, clip.n_said))
    assert kept is not None
    frames = np.stack(kept.items[:: thinning(len(kept.items), sample)])
    tell(Step("learning", 0, 0))
    return learn(_sampled(frames, sample, seed), frames.shape[1:], rank, seed), kept.n <= REMEMBERED


class Spread:
    """At most so many of the things that come by, evenly spread, however many come."""

    def __init__(self, most: int) -> None:
        self.most, self.step, self.n, self.items = most, 1, 0, list[Any]()

    def add(self, item: Any) -> None:
        """Keep it, or not."""
        if self.n % self.step == 0:
            if len(self.items) == self.most:
                self.items, self.step = self.items[::2], 2 * self.step
            if self.n % self.step == 0:
                self.items.append(item)
        self.n += 1


def blocks(frames: Iterator[Array], size: int) -> Iterator[Array]:
    """Frames together, as many as have `size` bytes, and at least one."""
    some: list[Array] = []
    for frame in frames:
        some.append(frame)
        if len(some) * frame.nbytes >= size:
            yield np.stack(some)
            some = []
    if some:
        yield np.stack(some)


class _Output:
    """The films and masks of a run, and what the report shows of them."""

    def __init__(self, folder: Path, clip: Clip, shape: tuple[int, ...], open_files: ExitStack) -> None:
        self.films = [
            open_files.enter_context(film(folder / f"{name}.mp4", shape, clip.rate))
            for name in ("background", "foreground")
        ]
        self.folder = folder / "masks"
        self.folder.mkdir()
        self.n_frames, self.clipped, self.shares = 0, 0, list[float]()
        self.shown = Spread(max(2, min(200, SHOWN // int(np.prod(shape)))))

    def write(self, parts: Separation) -> None:
        """The next frames, a few at a time: floats take four times the room of bytes."""
        pillow = optional("PIL.Image", "video")
        few = max(1, (4 << 20) // parts.frames[0].nbytes)
        for first in range(0, len(parts), few):
            some = slice(first, first + few)
            pictures, clipped = parts.model.counted(parts.scores[some])
            self.clipped += clipped
            found = masks(parts.frames[some], pictures, parts.model.threshold)
            layers = (as_type(pictures, np.dtype(np.uint8)), in_front(parts.frames[some], found))
            for made, layer in zip(self.films, layers):
                made.write(layer)
            for frame, mask, *both in zip(parts.frames[some], found, *layers):
                shown = pillow.fromarray(mask.astype(np.uint8) * np.uint8(255))
                shown.save(self.folder / f"{self.n_frames:06d}.png", compress_level=1)
                self.shares.append(float(mask.mean()))
                # Copies: views would keep all the frames alive that they were made with.
                self.shown.add((self.n_frames, *(layer.copy() for layer in (frame, *both, mask))))
                self.n_frames += 1


def _sections(clip: Clip, done: Done, sample: float, shown: Spread) -> list[report.Section]:
    numbers, frames, background, foreground, found = (list(column) for column in zip(*shown.items))
    height, width = done.model.shape[:2]
    colour = "colour" if len(done.model.shape) == 3 else "grey"
    facts = {
        "frames": done.n_frames,
        "size": f"{width} × {height}, {colour}",
        "pixels observed": percent(sample),
        "rank": done.model.model.rank,
        "noise": f"{number(done.model.model.noise, 2)} grey levels",
        "threshold": f"{number(done.model.threshold, 3)} grey levels",
        "in front": percent(float(done.in_front.mean())),
        "speed": f"{number(done.n_frames / done.seconds, 2)} frames/s",
        "fit": str(done.status),
    }
    scrubber, slider = report.film_sections(frames, background, foreground, found)
    scrubber = replace(scrubber, captions=[f"frame {k + 1} of {done.n_frames}" for k in numbers])  # type: ignore[type-var]
    series = report.Series("in front, %", list(range(1, done.n_frames + 1)), (100 * done.in_front).tolist())
    caption = "How much of each frame is not the background, in percent of its pixels."
    curve = report.Lines("What is in front", [series], x_name="frame", bounds=(0.0,), caption=caption)
    slider = replace(slider, caption="Drag, or use the arrow keys.")  # type: ignore[type-var]
    return [report.Facts("", facts), *done.outcome.sections(), scrubber, slider, curve]

"""Clips in files, taken apart: background and foreground as films, masks, the background itself,
and a report.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ... import report
from ..._extras import optional
from ..._files import whole, whole_folder
from ..._work import Outcome, Progress, Tell, placed, silent
from ...observations._door import as_observations
from ...report.text import number, percent
from ...weights import Array
from ..outcome import after_clipping
from ..stack import as_type, is_whole
from .clips import Clip, Film, Region, View, film
from .events import STOPPED, Event, Tracker, write_events
from .foreground import in_front
from .model import (
    BYTES,
    ENOUGH,
    REMEMBERED,
    Background,
    Separation,
    check_options,
    check_shape,
    learn,
    learn_behind,
    sampled,
    thinning,
)
from .stops import Stops

TO_LEARN = 256 << 20  # bytes of frames that are held to learn a background from
AT_ONCE = 48 << 20  # bytes of frames that are held while a film is gone through
# Bytes of frames that are floats at a time, which take four times the room.
AS_FLOATS = 4 << 20
SHOWN = 24 << 20  # bytes of frames that are kept for the report, of each kind
MOST_SHOWN = 200  # frames in the report
TELL_EVERY = 50  # frames that are read
# Pixels of the shorter side that are enough where no picture is written: neighbourhoods of the
# clean-up grow with frames anyway.
SIDE = 240
NOTHING = 128  # grey of the foreground film where nothing is: dark things are seen, too

BRIGHTEST = 0.99  # of deviations are not white in a picture of them
TINT = np.array([255.0, 140.0, 0.0], np.float32)  # of what has stopped

Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False, kw_only=True)
class Processed(Outcome):
    """What `process` did."""

    model: Background
    n_frames: int
    in_front: Array  # share of each frame that is foreground
    folder: Path
    clipped: int  # values of the background that no frame could hold
    events: tuple[Event, ...]  # what is in front, box by box


def process(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    rank: int = 1,
    sample: float = 1.0,
    grey: bool = False,
    model: str | os.PathLike[str] | Background | None = None,
    seed: int = 0,
    films: bool = True,
    region: tuple[int, int, int, int] | None = None,
    most: int | None = None,
    progress: Tell | None = None,
) -> Processed:
    """Separate background and foreground of a video: what `lrmc video` does.

    The folder gets background.mp4, foreground.mp4, masks/000000.png and on, events.csv and
    events.json (boxes of what is in front, with tracks), background.npz and report.html; it appears
    whole or not at all. The clip is read twice, some frames at a time: memory does not grow with
    its length. A background that is given, or one of more than `REMEMBERED` frames, follows the
    clip. A stream is read once: its background is learned from the first `ENOUGH` frames, and
    follows.

    Parameters
    ----------
    source : path
        A video file, a folder of pictures, the address of a stream (rtsp://...), or the number of
        a camera.
    target : path
        The folder to make.
    rank, sample, seed
        As for `separate`.
    grey : bool, default False
        Read the clip without its colours.
    model : path or Background, optional
        A background.npz of another clip of this camera.
    films : bool, default True
        Write films and masks. Without, only events, the background and the report are written, and
        frames are looked at with a shorter side of `SIDE` pixels, if they have more.
    region : left, top, width, height, optional
        The part of each frame that is looked at, in pixels.
    most : int, optional
        Frames that are read; a stream that does not end needs it.
    progress : callable, optional
        Called with each `Progress`.

    Returns
    -------
    Processed
        Files, report, status, warnings and seconds, events, and the background.

    Raises
    ------
    ValueError
        If the input or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If a fit diverged; nothing is written then.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from lrmc.apps import video
    >>> Path("clip").mkdir()
    >>> frame = np.random.default_rng(0).integers(60, 90, (48, 64)).astype(np.uint8)
    >>> for t in range(12):
    ...     moved = frame.copy()
    ...     moved[20:30, 4 * t : 4 * t + 10] = 220
    ...     Image.fromarray(moved).save(f"clip/{t:03}.png")
    >>> done = video.process("clip", "out")
    >>> done.n_frames, done.report.name
    (12, 'report.html')
    """
    began = time.perf_counter()
    tell = progress or silent
    check_options(rank, sample, seed)
    clip = _viewed(Clip.open(source, grey), films, region, most)
    known = Background.load(model) if isinstance(model, str | os.PathLike) else model
    how = _How(rank, sample, seed)
    with whole_folder(target) as folder:
        frames_of_all = clip.frames()
        back, still = known, False
        if back is None and clip.address:
            back, frames_of_all = _learned_live(frames_of_all, how, tell)
        elif back is None:
            back, still = _learned(clip, how, tell)
        optional("PIL.Image", "video")
        with ExitStack() as open_files:
            out = _Output(folder, clip, back.shape, open_files if films else None)
            for frames in blocks(frames_of_all, AT_ONCE):
                check_shape(back, frames.shape[1:])
                obs = as_observations(sampled(frames, sample, seed))
                back = back if still else back.followed(obs)
                out.write(Separation(frames, back, back.scores(obs)))
                tell(Progress("writing", out.n_frames, clip.n_said, "frames"))
        back.save(folder / "background.npz")
        _save_deviations(folder / "background_sd.npz", back)
        write_events(folder, out.events)
        page = folder / "report.html"
        outcome = _outcome(clip, back, out)
        done = Processed(
            model=back,
            n_frames=out.n_frames,
            in_front=np.array(out.shares),
            folder=Path(target),
            clipped=out.clipped,
            events=tuple(out.events),
            status=outcome.status,
            warnings=outcome.warnings,
            files=(*placed(folder, target), Path(target) / page.name),
            seconds=time.perf_counter() - began,
            report=Path(target) / page.name,
        )
        tell(Progress("writing the report", 0, 1))
        sections = _sections(clip, done, sample, out.shown)
        links = report.Files.in_folder(folder)
        report.write_report(page, clip.path.name, [*sections, links])
        tell(Progress("writing the report", 1, 1))
    return done


class _How(NamedTuple):
    """How a background is learned."""

    rank: int
    sample: float
    seed: int


def _viewed(
    clip: Clip,
    films: bool,
    region: tuple[int, int, int, int] | None,
    most: int | None,
) -> Clip:
    """The clip as it is to be looked at."""
    if most is not None and not (is_whole(most) and most >= 2):
        raise ValueError(
            f"most={most!r} frames; a whole number of at least 2 is wanted"
        )
    view = View(None if region is None else Region(*region))
    clip = replace(clip, most=most, view=view)
    if films:
        return clip
    # A stream is looked at as it is: its first frame cannot be read twice.
    side = SIDE if clip.address else min(next(clip.frames()).shape[:2])
    return replace(clip, view=replace(view, fewer=max(1, side // SIDE)))


def _learned_live(
    frames: Iterator[Array],
    how: _How,
    tell: Tell,
) -> tuple[Background, Iterator[Array]]:
    """A background from the first frames of a stream, and all frames, these too."""
    first: list[Array] = []
    for frame in islice(frames, max(2, math.ceil(ENOUGH / how.sample))):
        first.append(frame)
        tell(Progress("reading", len(first), ENOUGH, "frames"))
        if len(first) * frame.nbytes > TO_LEARN:
            break
    return _follower(np.stack(first), how, tell), chain(first, frames)


def _follower(frames: Array, how: _How, tell: Tell) -> Background:
    """A background that is to follow: what stays long enough becomes background."""
    seen = sampled(frames, how.sample, how.seed)
    back = learn(seen, frames.shape[1:], how.rank, how.seed, tell)
    obs = as_observations(seen)
    return back.with_traits(frames, back.scores(obs), obs.fraction)


def _learned(clip: Clip, how: _How, tell: Tell) -> tuple[Background, bool]:
    """A background from frames all over the clip, and whether it is short enough to have only
    one.
    """
    kept: Spread[Array] | None = None
    for k, frame in enumerate(clip.frames()):
        enough = math.ceil(2 * ENOUGH / how.sample)
        kept = kept or Spread(max(2, min(TO_LEARN // frame.nbytes, enough)))
        kept.add(frame)
        if k % TELL_EVERY == 0:
            tell(Progress("reading", k + 1, clip.n_said, "frames"))
    assert kept is not None
    frames = np.stack(kept.items[:: thinning(len(kept.items), how.sample)])
    tell(Progress("learning the background"))
    if kept.n > REMEMBERED:
        return _follower(frames, how, tell), False
    seen = sampled(frames, how.sample, how.seed)
    return learn_behind(frames, seen, how.rank, how.seed, tell), True


def _outcome(clip: Clip, back: Background, out: _Output) -> Outcome:
    outcome = back.outcome
    if clip.about_depth:
        outcome = outcome.warned(clip.about_depth)
    values = out.n_frames * int(np.prod(back.shape))
    return after_clipping(outcome, out.clipped, values, BYTES)


def _save_deviations(path: Path, back: Background) -> None:
    """How sure the background is, and how far frames are from it, if that is known."""
    traits = back.traits
    if traits is None or traits.sd is None or traits.spread is None:
        return
    with whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, sd=traits.sd, spread=traits.spread)


def _unsure(back: Background) -> list[report.Section]:
    """Pictures of the same."""
    traits = back.traits
    if traits is None or traits.sd is None or traits.spread is None:
        return []
    pictures, names = [], []
    words = ("the background, standard error", "a pixel of a frame")
    for what, values in zip(words, (traits.sd, traits.spread)):
        grey = values if values.ndim == 2 else values.max(axis=2)
        known = grey[np.isfinite(grey)]
        top = float(np.quantile(known, BRIGHTEST)) if known.size else 1.0
        shown = np.where(np.isfinite(grey), grey / top, 1.0)
        pictures.append((255 * np.minimum(shown, 1)).astype(np.uint8))
        names.append(f"{what}: white is {number(top, 2)} grey levels, or unknown")
    return [report.Gallery("How sure the background is", pictures, names)]


class Spread(Generic[Kept]):
    """At most so many of the things that come by, evenly spread, however many come."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.step = 1
        self.n = 0
        self.items: list[Kept] = []

    def add(self, item: Kept) -> None:
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


class _Layers(NamedTuple):
    """A frame, taken apart."""

    frame: Array
    background: Array
    foreground: Array
    mask: Array
    stopped: Array

    def marked(self) -> Array:
        """The foreground with colours, what has stopped tinted."""
        front = self.foreground
        front = front if front.ndim == 3 else np.repeat(front[..., None], 3, 2)
        tinted = np.where(self.stopped[..., None], (front + TINT) / 2, front)
        return tinted.astype(np.uint8)


class _Shown(NamedTuple):
    """A frame that is kept for the report."""

    number: int  # from 0
    layers: _Layers


class _Output:
    """The films and masks of a run, and what the report shows of them."""

    def __init__(
        self,
        folder: Path,
        clip: Clip,
        shape: tuple[int, ...],
        open_files: ExitStack | None,
    ) -> None:
        """Without `open_files`, no films and masks are written."""
        self.films: list[Film] = []
        self.folder: Path | None = None
        if open_files is not None:
            self.films = [
                open_files.enter_context(film(folder / f"{name}.mp4", shape, clip.rate))
                for name in ("background", "foreground")
            ]
            self.folder = folder / "masks"
            self.folder.mkdir()
        view = clip.view
        self.rate = float(clip.rate)
        self.stops: Stops | None = None
        self.tracker = Tracker(float(clip.rate), scale=view.fewer, origin=view.origin)
        self.events: list[Event] = []
        self.n_frames = 0
        self.clipped = 0
        self.shares: list[float] = []
        fits = SHOWN // int(np.prod(shape))
        self.shown = Spread[_Shown](max(2, min(MOST_SHOWN, fits)))

    def write(self, parts: Separation) -> None:
        """The next frames, a few at a time."""
        few = max(1, AS_FLOATS // parts.frames[0].nbytes)
        for first in range(0, len(parts), few):
            self._write_few(parts, slice(first, first + few))

    def _write_few(self, parts: Separation, some: slice) -> None:
        frames = parts.frames[some]
        pictures, clipped = parts.model.counted(parts.scores[some])
        self.clipped += clipped
        found = parts.model.masks(frames, pictures)
        self.stops = self.stops or Stops(self.rate, parts.model.threshold)
        background = as_type(pictures, np.dtype(np.uint8))
        states = [self.stops.add(*x) for x in zip(frames, background, found)]
        fronts, stopped = (np.stack(x) for x in zip(*states))
        foreground = in_front(frames, found, NOTHING)
        for made, layer in zip(self.films, (background, foreground)):
            made.write(layer)
        layers = zip(frames, background, foreground, found, stopped)
        for each, front in zip(layers, fronts):
            self._keep(_Layers(*each), front)

    def _keep(self, layers: _Layers, front: Array) -> None:
        """The mask in a file, and copies of all: views would keep the frames alive that they were
        made with.
        """
        mask = layers.mask
        if self.folder is not None:
            picture = optional("PIL.Image", "video").fromarray(
                mask.astype(np.uint8) * np.uint8(255)
            )
            picture.save(self.folder / f"{self.n_frames:06d}.png", compress_level=1)
        self.events += self.tracker.events(self.n_frames, front, layers.stopped)
        self.shares.append(float(mask.mean()))
        copies = _Layers(*(layer.copy() for layer in layers))
        self.shown.add(_Shown(self.n_frames, copies))
        self.n_frames += 1


def _sections(
    clip: Clip,
    done: Processed,
    sample: float,
    shown: Spread[_Shown],
) -> list[report.Section]:
    numbers, kept = (list(column) for column in zip(*shown.items))
    frames, backgrounds, _, found, _ = zip(*kept)
    fronts = [layers.marked() for layers in kept]
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
        "things in front": len({event.track for event in done.events}),
        "of these, stopped": len(
            {event.track for event in done.events if event.state == STOPPED}
        ),
        "speed": f"{number(done.n_frames / done.seconds, 2)} frames/s",
        "fit": str(done.status),
    }
    film_parts = report.film_sections(
        frames,
        backgrounds,
        fronts,
        found,
        captions=[f"frame {k + 1} of {done.n_frames}" for k in numbers],
        caption="Drag, or use the arrow keys. What has stopped is orange.",
    )
    percents = (100 * done.in_front).tolist()
    curve = report.Lines(
        "What is in front",
        [report.Series("in front, %", list(range(1, done.n_frames + 1)), percents)],
        x_name="frame",
        bounds=(0.0,),
        caption="How much of each frame is not the background, in percent of its"
        " pixels.",
    )
    return [
        report.Facts("", facts),
        *done.sections(),
        *film_parts,
        curve,
        *_unsure(done.model),
    ]

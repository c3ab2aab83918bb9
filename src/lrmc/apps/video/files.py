"""Clips in files, taken apart: background and foreground as films, masks, the background itself,
and a report.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from ... import report
from ..._extras import optional
from ..._files import whole_folder
from ..._progress import Progress, Tell, silent
from ..._work import Outcome, placed
from ...result import Status
from ...weights import Array
from ..outcome import after_clipping
from ..stack import is_whole
from .clips import Clip, Region, View
from .events import write_events
from .model import (
    BYTES,
    REMEMBERED,
    Background,
    How,
    Separation,
    check_options,
    check_shape,
    frames_enough,
    learn_from,
    sampled,
    thinning,
)
from .output import Output, Spread
from .page import Processed, save_deviations, sections

TO_LEARN = 256 << 20  # bytes of frames that are held to learn a background from
AT_ONCE = 48 << 20  # bytes of frames that are held while a film is gone through
TELL_EVERY = 50  # frames that are read
MOST = 0.5  # of the pixels in front: what most frames show is not their background
# Pixels of the shorter side that are enough where no picture is written: neighbourhoods of the
# clean-up grow with frames anyway.
SIDE = 240


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
    its length. A background that is given, or one of more than 1000 frames, follows the
    clip. A stream is read once: its background is learned from the first 200 frames, and
    follows.

    Parameters
    ----------
    source : path
        A video file, a folder of pictures, the address of a stream (`rtsp://...`), or the number of
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
        frames are looked at with a shorter side of 240 pixels, if they have more.
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
    how = How(rank, sample, seed)
    with whole_folder(target) as folder:
        back, frames_of_all, still = _begun(clip, known, how, tell)
        optional("PIL.Image", "video")
        with ExitStack() as open_files:
            out = Output(folder, clip, back.shape, open_files if films else None)
            for frames in blocks(frames_of_all, AT_ONCE):
                check_shape(back, frames.shape[1:])
                if not still:
                    before = back.pictures(back.scores(frames[:1]))[0]
                    back = back.watched(frames, before)
                    back = back.followed(sampled(frames, sample, seed))
                out.write(Separation(frames, back, back.scores(frames)))
                tell(Progress("writing", out.n_frames, clip.n_said, "frames"))
        back.save(folder / "background.npz")
        save_deviations(folder / "background_sd.npz", back)
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
        shown = sections(done, sample, clip.view.fewer, out.shown)
        links = report.Files.in_folder(folder)
        report.write_report(page, clip.path.name, [*shown, links])
        tell(Progress("writing the report", 1, 1))
    return done


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


def _begun(
    clip: Clip,
    known: Background | None,
    how: How,
    tell: Tell,
) -> tuple[Background, Iterator[Array], bool]:
    """A background to begin with, all frames, and whether one background is enough for them."""
    if known is not None:
        frames = clip.frames()
        # a stream says its rate once the first one has come
        return known, chain([next(frames)], frames), False
    if clip.address:
        return *_learned_live(clip.frames(), how, tell), False
    return _learned(clip, how, tell)


def _learned_live(
    frames: Iterator[Array],
    how: How,
    tell: Tell,
) -> tuple[Background, Iterator[Array]]:
    """A background from the first frames of a stream, and all frames, these too."""
    first: list[Array] = []
    enough = frames_enough(how.sample)
    for frame in islice(frames, enough):
        first.append(frame)
        tell(Progress("reading", len(first), enough, "frames"))
        if len(first) * frame.nbytes > TO_LEARN:
            break
    back = learn_from(np.stack(first), how, tell, follows=True)
    return back, chain(first, frames)


def _learned(
    clip: Clip,
    how: How,
    tell: Tell,
) -> tuple[Background, Iterator[Array], bool]:
    """A background from frames all over the clip; see `_begun`. What can be held is read once."""
    kept: Spread[Array] | None = None
    for k, look in enumerate(clip.looks()):
        kept = kept or Spread(max(2, TO_LEARN // look().nbytes))
        kept.add(look)
        if k % TELL_EVERY == 0:
            tell(Progress("reading", k + 1, clip.n_said, "frames"))
    assert kept is not None
    some = np.stack(kept.items[:: thinning(len(kept.items), how.sample)])
    tell(Progress("learning the background"))
    follows = kept.n > REMEMBERED
    back = learn_from(some, how, tell, follows=follows)
    again = iter(kept.items) if kept.step == 1 else clip.frames()
    return back, again, not follows


def _outcome(clip: Clip, back: Background, out: Output) -> Outcome:
    outcome = back.outcome
    if clip.about_depth:
        outcome = outcome.warned(clip.about_depth)
    if clip.live and clip.live.broke:
        outcome = outcome.warned(
            f"the stream broke off after {out.n_frames} frames ({clip.live.broke}); what"
            " came before is here"
        )
    share = float(np.mean(out.shares))
    if share > MOST:
        outcome = outcome.warned(
            f"{share:.0%} of the pixels are in front of the background, which is what most frames"
            " show: there is none to be found here, and the masks are not to be trusted",
            Status.UNDETERMINED,
        )
    values = out.n_frames * int(np.prod(back.shape))
    return after_clipping(outcome, out.clipped, values, BYTES)


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

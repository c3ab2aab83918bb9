"""Clouds out of a series of satellite scenes: what the ground looks like on every date, and where
it was covered.

Pixels of all bands x dates are a matrix of low rank, with gaps (nodata, masks) and outliers
(clouds, shadows, haze). Its time factors R (T x r) are learned from a few thousand pixels; then
every pixel is fitted to them by itself, block by block, so that what a stack takes is little more
than the stack and its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from ..._progress import Progress, Tell, silent
from ..._work import SOUND, Outcome
from ...weights import Array
from ..outcome import FEW_FAR, Limits, Told, after_clipping
from ..stack import as_type, check_rank, check_seed, check_share
from .ground import (
    CLEAR,
    Ground,
    first_mask,
    second_mask,
)
from .learn import learn_ground
from .look import Look, Readable, blocks

Fill = Literal["clouds", "all"]
FILLS = ("clouds", "all")
# Of a block: once, and again without what the first mask took for clouds, which may be the date beside
# one.
MASKS = 2


@dataclass(frozen=True, eq=False)
class Cleared(Told):
    """A series of scenes without clouds: what `remove_clouds` gives.

    Attributes
    ----------
    scenes : array of shape (T, bands, height, width)
        The scenes without clouds, in the type of the data.
    mask : array of shape (T, height, width)
        0 clear, 1 cloud (or shadow, haze, snow), 2 nothing was observed. What is not 0 was filled in.
    ground : Ground
        What was learned: among others its `rank`, and which dates were `estimated`.
    outcome : Outcome
        How the fit ended, and what was made of it; `status` and `warnings` are short for its own.
    clipped : int
        Number of values of the ground that were far outside what was observed.
    deviation : array or None
        Like the scenes: the standard deviation of every value, if `uncertainty` was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import clouds
    >>> rng = np.random.default_rng(0)
    >>> ground = rng.uniform(500, 2000, (3, 24, 24)) * rng.uniform(0.9, 1.1, (10, 1, 1, 1))
    >>> done = clouds.remove_clouds(ground.astype(np.uint16), uncertainty=True)
    >>> done.scenes.shape, done.mask.shape, done.deviation.shape
    ((10, 3, 24, 24), (10, 24, 24), (10, 3, 24, 24))
    """

    scenes: Array
    mask: Array
    ground: Ground
    outcome: Outcome = SOUND
    clipped: int = 0
    deviation: Array | None = None


def remove_clouds(
    stack: ArrayLike | Readable,
    seen: ArrayLike | Readable | None = None,
    *,
    nodata: float | None = None,
    dates: ArrayLike | None = None,
    rank: int | None = None,
    fill: Fill = "clouds",
    sample: float = 1.0,
    uncertainty: bool = False,
    seed: int = 0,
    threads: int | None = None,
    progress: Tell | None = None,
) -> Cleared:
    """Remove clouds from a series of satellite scenes of one place.

    A date with nothing to see, or nothing but clouds, is estimated from those around it and from
    the same season of other years.

    Parameters
    ----------
    stack : array, memmap or zarr array
        T x bands x height x width, or T x height x width for one band. NaN and `nodata` are
        missing; a pixel is missing if one of its bands is.
    seen : array of bool, optional
        T x height x width: True where a pixel may be believed.
    nodata : float, optional
        The value of missing pixels.
    dates : array, optional
        Days, or anything NumPy reads as dates; scenes are taken as evenly spaced without.
    rank : int, optional
        Rank of the ground; found if not given.
    fill : {"clouds", "all"}, default "clouds"
        Keep the pixels that look clear as they are, or give the model everywhere, which also
        removes thin haze and noise.
    sample : float, default 1.0
        Fraction of pixels and dates that is looked at, drawn at random.
    uncertainty : bool, default False
        Whether to give the standard deviation of every value as well: of a pixel that was kept,
        that of the noise of its band; of one that was filled in, what is unknown of it, in
        proportion to errors at pixels that were hidden where other dates have clouds.
    seed : int, default 0
        Seed of the draw.
    threads : int, optional
        Number of threads; all cores if not given.
    progress : callable, optional
        Called with each `Progress`.

    Returns
    -------
    Cleared
        `scenes` in the type of the data, `mask` (0 clear, 1 cloud or shadow, 2 nothing was
        observed), `deviation` if `uncertainty` was asked for, `status` and `warnings`.

    Raises
    ------
    ValueError
        If the stack or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If the fit diverged.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import clouds
    >>> rng = np.random.default_rng(0)
    >>> ground = rng.uniform(500, 2000, (3, 24, 24))
    >>> scenes = ground * rng.uniform(0.9, 1.1, (10, 1, 1, 1))
    >>> scenes[4, :, 5:15, 5:15] = 8000  # a cloud
    >>> done = clouds.remove_clouds(scenes.astype(np.uint16))
    >>> int(done.mask[4, 10, 10]), bool(done.scenes[4].max() < 3000)
    (1, True)
    """
    data = checked(stack, seen, fill, sample)
    check_rank(rank, len(data), "dates")
    check_seed(seed)
    look = Look(data, None if seen is None else readable(seen), nodata, sample, seed)
    tell = progress or silent
    ground = learn_ground(look, as_days(dates, len(data)), rank, seed, threads, tell)
    part = cleared_scenes(look, ground, Asked(fill, uncertainty, threads), tell)
    outcome = ground.outcome
    if ground.limits is not None:
        outcome = held(outcome, part.clipped, part.scenes.size, ground.limits)
    return Cleared(
        part.scenes, part.mask, ground, outcome, part.clipped, part.deviation
    )


def held(outcome: Outcome, clipped: int, total: int, limits: Limits) -> Outcome:
    """The outcome, with a word about values that were clipped if they are more than a few pixels."""
    few = clipped <= FEW_FAR * total
    return outcome if few else after_clipping(outcome, clipped, total, limits)


# ---- at the door


def readable(given: ArrayLike | Readable) -> Readable:
    """The same if it can be read by slices, else an array of it."""
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return cast(Readable, given)
    return np.asarray(given)


def checked(
    stack: ArrayLike | Readable,
    seen: ArrayLike | Readable | None,
    fill: str,
    sample: float = 1.0,
) -> Readable:
    """The stack as time x bands x height x width, once it is known that it can be used."""
    data = readable(stack)
    if len(data.shape) == 3:
        data = np.asarray(data)[:, None]
    if len(data.shape) != 4 or 0 in data.shape:
        raise ValueError(
            f"the stack has shape {tuple(data.shape)}; time x bands x height x width is"
            " wanted"
        )
    if np.dtype(data.dtype).kind not in "iuf":
        raise ValueError(f"the stack holds {data.dtype}; integers or floats are wanted")
    if len(data) < 3:
        raise ValueError(
            f"{len(data)} scene(s); at least 3 dates of the same place are wanted"
        )
    wanted = (data.shape[0], *data.shape[2:])
    if seen is not None and tuple(np.shape(seen)) != wanted:
        raise ValueError(
            f"seen has shape {np.shape(seen)}; {wanted} is wanted, True where a pixel"
            " may be believed"
        )
    if fill not in FILLS:
        raise ValueError(f"fill={fill!r}; one of {', '.join(FILLS)} is wanted")
    check_share(sample)
    return data


def as_days(dates: ArrayLike | None, n: int) -> Array:
    """Dates as days since the first; evenly spaced if there are none."""
    if dates is None:
        return np.arange(n, dtype=np.float64)
    given = np.atleast_1d(np.asarray(dates))
    if len(given) != n:
        raise ValueError(f"{len(given)} dates for {n} scenes; one for each is wanted")
    if given.dtype.kind in "iuf":
        return given.astype(np.float64)
    try:
        moments = given.astype("datetime64[s]")
        return (moments - moments.min()) / np.timedelta64(1, "D")
    except (TypeError, ValueError):
        raise ValueError(
            f"dates such as {given.flat[0]!r} cannot be read; 2021-06-30 is wanted"
        ) from None


# ---- the answer


class Asked(NamedTuple):
    """How every block is answered."""

    fill: Fill
    uncertainty: bool
    threads: int | None


class Part(NamedTuple):
    """The answer of a part of the picture."""

    scenes: Array  # T x bands x lines x width
    mask: Array  # T x lines x width
    deviation: Array | None
    clipped: int


def cleared_scenes(
    look: Look,
    ground: Ground,
    asked: Asked,
    tell: Tell = silent,
) -> Part:
    """All that can be looked at, without clouds, block by block."""
    T, _, height, width = shape = look.data.shape
    scenes = np.empty(shape, look.data.dtype)
    mask = np.empty((T, height, width), np.uint8)
    deviation = np.empty(shape, np.float32) if asked.uncertainty else None
    clipped = 0
    for lines in blocks(shape):
        part = cleared_block(look, lines, ground, asked)
        scenes[:, :, lines], mask[:, lines] = part.scenes, part.mask
        if deviation is not None:
            deviation[:, :, lines] = part.deviation
        clipped += part.clipped
        tell(Progress("clearing", lines.stop * width, height * width, "pixels"))
    return Part(scenes, mask, deviation, clipped)


def cleared_block(
    look: Look,
    lines: slice,
    ground: Ground,
    asked: Asked,
) -> Part:
    """Some lines without clouds."""
    Y, there = look.block(lines)
    looked_at = there if look.sample == 1 else there & look.chosen(lines)
    mask = first_mask(Y, there, looked_at, ground, asked.threads)
    for _ in range(MASKS):
        mask = second_mask(Y, mask, (mask == CLEAR) & looked_at, ground)
    clear = mask == CLEAR
    used = clear & looked_at
    replaced = np.ones_like(clear) if asked.fill == "all" else ~clear
    wanted = replaced.any(0)
    values, outside = _predicted(Y[:, :, wanted], used[:, wanted], ground)
    scenes = np.array(Y)
    scenes[:, :, wanted] = np.where(
        replaced[:, None, wanted],
        _stored(values, Y.dtype, look.nodata),
        scenes[:, :, wanted],
    )
    unsure = None
    if asked.uncertainty:
        unsure = _deviation(Y, used, replaced, ground)
    return Part(scenes, mask, unsure, outside)


def _predicted(
    Y: Array,
    used: Array,
    ground: Ground,
) -> tuple[Array, int]:
    """The ground of some pixels, T x bands x n, and how many of its values had to be clipped."""
    if ground.filling is None:
        return Y, 0
    values = ground.filling.predicted(Y, used, own=True)
    if ground.limits is None:
        return values, 0
    held, outside = ground.limits.held(values[..., None], "the ground")
    return held[..., 0], outside


def _deviation(
    Y: Array,
    clear: Array,
    replaced: Array,
    ground: Ground,
) -> Array:
    """Of what is written: of a pixel that was kept, that of the noise."""
    noise = ground.deviation.astype(np.float32)[:, None, None]
    answer = np.broadcast_to(noise, Y.shape).copy()
    wanted = replaced.any(0)
    if ground.filling is not None:
        unsure = ground.filling.deviations(
            Y[:, :, wanted], clear[:, wanted], ground.deviation
        )
        answer[:, :, wanted] = np.where(
            replaced[:, None, wanted], unsure, answer[:, :, wanted]
        )
    return answer


def _stored(
    model: Array,
    dtype: np.dtype[Any],
    nodata: float | None,
) -> Array:
    """In the type of the data, and never what stands for nothing."""
    values = as_type(model, dtype)
    if nodata is not None and dtype.kind in "iu":
        beside = nodata + 1 if nodata < np.iinfo(dtype).max else nodata - 1
        values[values == nodata] = beside
    return values

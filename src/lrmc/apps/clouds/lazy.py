"""Clouds out of a series of scenes that is not in memory: what is learned is learned from a few
thousand pixels, and every chunk is cleared when somebody asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..._extras import optional
from ..._progress import Tell, silent
from ..._work import Outcome
from ...weights import Array
from ..outcome import Told
from ..stack import check_rank, check_seed
from .ground import Ground
from .learn import learn_ground
from .look import Look
from .model import Asked, Fill, Part, as_days, checked, cleared_scenes

DaskArray: TypeAlias = Any  # of Dask, which need not be installed
Delayed: TypeAlias = Any
CLEARING = "_cleared_chunk"  # how keys of tasks begin that clear a chunk


@dataclass(frozen=True, eq=False)
class Lazily(Told):
    """As `Cleared`, in arrays that are made chunk by chunk when they are asked for."""

    scenes: DaskArray  # T x bands x height x width
    mask: DaskArray  # T x height x width
    ground: Ground
    outcome: Outcome  # of what was learned
    deviation: DaskArray | None = None
    # values of the ground that are far outside what was observed, when all is computed
    clipped: Delayed | None = None


def remove_clouds_lazily(
    stack: DaskArray,
    seen: DaskArray | None = None,
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
    source: Path | None = None,
) -> Lazily:
    """`remove_clouds` of a Dask array, without loading it.

    The stack is read once for about 2500 pixels, from which everything is learned; then each chunk
    of the picture, all dates and bands of it, is cleared by itself. So memory is that of a few
    chunks, and chunks that are small in y and x are wanted.

    Parameters
    ----------
    stack : dask array
        T x bands x height x width.
    seen : dask array of bool, optional
        T x height x width: True where a pixel may be believed.
    nodata, dates, rank, fill, sample, uncertainty, seed, threads, progress
        As for `remove_clouds`.
    source : path, optional
        The file that the stack is read from, to be named if it is damaged.

    Returns
    -------
    Lazily
        Arrays of Dask, and how many values had to be clipped, all to be computed.
    """
    data = checked(stack, seen, fill, sample)
    check_rank(rank, len(data), "dates")
    check_seed(seed)
    look = Look(data, seen, nodata, sample, seed, source)
    days = as_days(dates, len(data))
    ground = learn_ground(look, days, rank, seed, threads, progress or silent)
    asked = Asked(fill, uncertainty, threads)
    made = _in_chunks(stack, look, ground, asked)
    return Lazily(
        made.scenes, made.mask, ground, ground.outcome, made.deviation, made.clipped
    )


def _in_chunks(
    stack: DaskArray,
    look: Look,
    ground: Ground,
    asked: Asked,
) -> Part:
    """All of the answer in chunks; what is computed together is made together."""
    dask = optional("dask", "scale")
    block = optional("dask.array", "scale").block
    clear = dask.delayed(_cleared_chunk, pure=False)
    # Once in the graph, not in every task.
    settings = (look.nodata, look.sample, look.seed)
    shared = dask.delayed((settings, ground, asked), pure=False)
    lines, columns = (_slices(sizes) for sizes in stack.chunks[2:])

    def part(y: slice, x: slice) -> Part:
        values = stack[:, :, y, x]
        seen = None if look.seen is None else look.seen[:, y, x]
        return _lazy_part(clear(values, seen, shared), values)

    made = [[part(y, x) for x in columns] for y in lines]
    arrays = {
        name: block([[getattr(one, name) for one in row] for row in made])
        for name in ("scenes", "mask", "deviation")
    }
    if not asked.uncertainty:
        arrays["deviation"] = None
    clipped = dask.delayed(sum)([one.clipped for row in made for one in row])
    return Part(**arrays, clipped=clipped)


def _cleared_chunk(
    values: Array,
    seen: Array | None,
    shared: tuple[tuple[float | None, float, int], Ground, Asked],
) -> Part:
    settings, ground, asked = shared
    return cleared_scenes(Look(values, seen, *settings), ground, asked)


def _lazy_part(part: Delayed, values: DaskArray) -> Part:
    """The arrays of a part that is not there yet."""
    lazy = optional("dask.array", "scale").from_delayed
    T, _, height, width = shape = values.shape
    return Part(
        scenes=lazy(part.scenes, shape, values.dtype),
        mask=lazy(part.mask, (T, height, width), np.uint8),
        deviation=lazy(part.deviation, shape, np.float32),
        clipped=part.clipped,
    )


def _slices(sizes: tuple[int, ...]) -> list[slice]:
    return [slice(*ends) for ends in pairwise(accumulate(sizes, initial=0))]

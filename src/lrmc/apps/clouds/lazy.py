"""Clouds out of a series of scenes that is not in memory: what is learned is learned from a few
thousand pixels, and every chunk is cleared when somebody asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
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


@dataclass(frozen=True, eq=False)
class Lazily(Told):
    """As `Cleared`, in arrays that are made chunk by chunk when they are asked for."""

    scenes: DaskArray  # T x bands x height x width
    mask: DaskArray  # T x height x width
    ground: Ground
    outcome: Outcome  # of what was learned
    deviation: DaskArray | None = None


def remove_clouds_lazily(
    stack: DaskArray,
    seen: DaskArray | None = None,
    *,
    nodata: float | None = None,
    dates: ArrayLike | None = None,
    rank: int | None = None,
    fill: Fill = "clouds",
    uncertainty: bool = False,
    seed: int = 0,
    threads: int | None = None,
    progress: Tell | None = None,
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
    nodata, dates, rank, fill, uncertainty, seed, threads, progress
        As for `remove_clouds`.

    Returns
    -------
    Lazily
        Arrays of Dask. Values that had to be clipped are not counted.
    """
    data = checked(stack, seen, fill)
    check_rank(rank, len(data), "dates")
    check_seed(seed)
    look = Look(data, seen, nodata, 1.0, seed)
    days = as_days(dates, len(data))
    ground = learn_ground(look, days, rank, seed, threads, progress or silent)
    asked = Asked(fill, uncertainty, threads)
    scenes, mask, deviation = _in_chunks(stack, seen, nodata, ground, asked)
    return Lazily(scenes, mask, ground, ground.outcome, deviation)


def _in_chunks(
    stack: DaskArray,
    seen: DaskArray | None,
    nodata: float | None,
    ground: Ground,
    asked: Asked,
) -> tuple[DaskArray, DaskArray, DaskArray | None]:
    """Scenes, mask and deviation, of which those that are asked for together are made together."""
    dask = optional("dask", "scale")
    block = optional("dask.array", "scale").block
    clear = dask.delayed(_cleared_chunk, pure=False)
    # Once in the graph, not in every task.
    shared = dask.delayed((nodata, ground, asked), pure=False)
    lines, columns = (_slices(sizes) for sizes in stack.chunks[2:])
    made: dict[str, list[list[DaskArray]]] = {"scenes": [], "mask": [], "deviation": []}
    for y in lines:
        rows: dict[str, list[DaskArray]] = {name: [] for name in made}
        for x in columns:
            values = stack[:, :, y, x]
            part = clear(values, None if seen is None else seen[:, y, x], shared)
            for name, one in _arrays(part, values).items():
                rows[name].append(one)
        for name, row in rows.items():
            made[name].append(row)
    deviation = block(made["deviation"]) if asked.uncertainty else None
    return block(made["scenes"]), block(made["mask"]), deviation


def _cleared_chunk(
    values: Array,
    seen: Array | None,
    shared: tuple[float | None, Ground, Asked],
) -> Part:
    nodata, ground, asked = shared
    return cleared_scenes(Look(values, seen, nodata, 1.0, 0), ground, asked)


def _arrays(part: Any, values: DaskArray) -> dict[str, DaskArray]:
    """The arrays of a part that is not there yet."""
    lazy = optional("dask.array", "scale").from_delayed
    T, _, height, width = shape = values.shape
    return {
        "scenes": lazy(part.scenes, shape, values.dtype),
        "mask": lazy(part.mask, (T, height, width), np.uint8),
        "deviation": lazy(part.deviation, shape, np.float32),
    }


def _slices(sizes: tuple[int, ...]) -> list[slice]:
    return [slice(*ends) for ends in pairwise(accumulate(sizes, initial=0))]

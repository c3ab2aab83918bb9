"""One door for matrices in files: completed in memory, or block by block where they are large."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import blockwise, in_memory
from .dates import AUTO, NONE
from .table import Long
from .tables import TABLES


def process(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    rank: int | None = None,
    *,
    keep: Sequence[str] = (),
    data: Sequence[str] = (),
    missing: Sequence[str] = (),
    long: Long | None = None,
    limits: bool = True,
    marks_to: str | os.PathLike[str] | None = None,
    time: str = AUTO,
    memory: int | str | None = None,
    scheduler: str | None = None,
    intervals_to: str | os.PathLike[str] | None = None,
    level: float = 0.9,
    **options: Any,
) -> in_memory.Completed | blockwise.Completed:
    """Complete the matrix in a file, and write it.

    Options are those of `in_memory.complete` and `blockwise.complete_large`, which both have;
    `keep`, `data`, `long` and `time` are for tables, `missing`, `marks_to`, `intervals_to` and `level` for
    matrices in memory, `memory` and `scheduler` for those that are read block by block.
    """
    check_kept(Path(source), (*keep, *data, *(long or ())))
    large = blockwise.is_for(source, memory, scheduler)
    check_intervals(intervals_to is not None, level, large)
    if large:
        check_in_memory(missing=bool(missing), marks=marks_to is not None)
        _check_no_time(time)
        return blockwise.complete_large(
            source, target, rank, memory=memory, scheduler=scheduler, **options
        )
    return in_memory.complete(
        source,
        target,
        rank,
        keep=keep,
        data=data,
        missing=missing,
        long=long,
        limits=limits,
        marks_to=marks_to,
        time=time,
        intervals_to=intervals_to,
        level=level,
        **options,
    )


def _check_no_time(time: str) -> None:
    if time not in (AUTO, NONE):
        raise ValueError(
            f"--time {time}: only tables in memory have columns of dates; leave it out"
        )


def check_in_memory(**asked: bool) -> None:
    """Refuse options that data have to be in memory for."""
    for option, wanted in asked.items():
        if wanted:
            raise ValueError(
                f"--{option} is for data in memory, and these are read block by block;"
                " leave it out"
            )


def check_intervals(wanted: bool, level: float, large: bool) -> None:
    """A level, and data in memory."""
    if not wanted:
        return
    if not 0 < level < 1:
        raise ValueError(
            f"--intervals {level:g}: a number between 0 and 1 is wanted, such as 0.9"
        )
    if large:
        raise ValueError(
            "--intervals list every gap, for data in memory, and these are read block by"
            " block; leave it out, and ask `interval` of the result of lrmc.solve for some"
        )


def check_kept(source: Path, named: Sequence[str]) -> None:
    """Columns of an array have no names."""
    if named and not source.name.lower().endswith(TABLES):
        raise ValueError(
            f"column {named[0]!r}: {source.name} is no table; only {' '.join(TABLES)}"
            " files have columns with names"
        )

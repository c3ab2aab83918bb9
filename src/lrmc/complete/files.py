"""One door for matrices in files: completed in memory, or block by block where they are large."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import blockwise, in_memory

TABLES = (".csv", ".parquet")  # files whose columns have names


def process(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    rank: int | None = None,
    *,
    keep: Sequence[str] = (),
    memory: int | str | None = None,
    scheduler: str | None = None,
    intervals_to: str | os.PathLike[str] | None = None,
    level: float = 0.9,
    **options: Any,
) -> in_memory.Completed | blockwise.Completed:
    """Complete the matrix in a file, and write it.

    Options are those of `in_memory.complete` and `blockwise.complete_large`, which both have;
    `keep` is for tables, `intervals_to` and `level` are for matrices in memory, `memory` and
    `scheduler` for those that are read block by block.
    """
    check_kept(Path(source), keep)
    large = blockwise.is_for(source, memory, scheduler)
    check_intervals(intervals_to is not None, level, large)
    if large:
        return blockwise.complete_large(
            source, target, rank, memory=memory, scheduler=scheduler, **options
        )
    return in_memory.complete(
        source,
        target,
        rank,
        keep=keep,
        intervals_to=intervals_to,
        level=level,
        **options,
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


def check_kept(source: Path, keep: Sequence[str]) -> None:
    """Columns of an array have no names by which some could be kept out."""
    if keep and source.suffix.lower() not in TABLES:
        raise ValueError(
            f"--keep {keep[0]}: {source.name} is no table; only {' and '.join(TABLES)}"
            " files have columns with names"
        )

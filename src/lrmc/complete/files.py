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
    """Complete the matrix in a file, and write it: what `lrmc complete` does.

    All files appear, whole, or none does. Files of more than a quarter of the memory are read block
    by block.

    Parameters
    ----------
    source : path
        The data, by its suffix: csv, tsv (also .gz, .bz2, .xz), xlsx, parquet, npy, npz, mtx, mat,
        zarr, nc or h5.
    target : path
        Where the completed matrix goes; any of the same formats, npy or zarr if it is large.
    rank : int, optional
        Rank of the model; found if not given. Offsets of rows and columns may be added to it.
    keep : sequence of str, optional
        Columns of a table that pass through although they hold numbers.
    data : sequence of str, optional
        Columns that are data although they look like ids, years or dates.
    missing : sequence of str, optional
        Codes for missing values, such as "-999" (in memory only).
    long : Long, optional
        Names of the columns of a long table with row, column and value of each entry.
    limits : bool, default True
        Keep what is filled in, and ends of intervals, within the plausible range of their column.
    marks_to : path, optional
        A csv file that lists every cell that was filled in or replaced (in memory only).
    time : str, default "auto"
        The column of dates, whose rows are times; "auto" finds one, "none" has none.
    memory : int or str, optional
        Read block by block with about so much memory, such as "2GB".
    scheduler : str, optional
        Compute with Dask: "threads", or the address `tcp://...` of a cluster.
    intervals_to : path, optional
        Where what was missing is listed with intervals: csv, or zarr for what is read block by
        block.
    level : float, default 0.9
        Probability with which an interval holds the truth.
    **options
        `outliers_to` (csv, parquet or zarr: the list of outliers), `report_to` (html), `fill`
        ("missing+outliers", "missing" or "all": which entries the model replaces), `scale` ("auto",
        "columns" or "none": columns in different units), `name` (of a variable or sheet),
        `undetermined` ("nan" or "keep"), `progress` (called with each `Progress`), and those of
        `lrmc.solve`.

    Returns
    -------
    Completed
        The `Result`, status, warnings, files, seconds, and what was counted.

    Raises
    ------
    ValueError
        If the file or an option cannot be used; the message says what would do.
    OSError
        If a file cannot be read or written.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc import complete, synthetic
    >>> np.save("in.npy", synthetic.problem(n=60, rank=2, p=0.8, form="dense").Y)
    >>> done = complete.process("in.npy", "out.npy", report_to="out.html")
    >>> [file.name for file in done.files], bool(np.isnan(np.load("out.npy")).any())
    (['out.npy', 'out.html'], False)
    """
    check_kept(Path(source), (*keep, *data, *(long or ())))
    large = blockwise.is_for(source, memory, scheduler)
    check_level(level)
    if large:
        check_in_memory(missing=bool(missing), marks=marks_to is not None)
        _check_no_time(time)
        return blockwise.complete_large(
            source,
            target,
            rank,
            memory=memory,
            scheduler=scheduler,
            intervals_to=intervals_to,
            level=level,
            **options,
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


def check_level(level: float) -> None:
    """Refuse what is no probability of intervals."""
    if not 0 < level < 1:
        raise ValueError(
            f"--intervals {level:g}: a number between 0 and 1 is wanted, such as 0.9"
        )


def check_kept(source: Path, named: Sequence[str]) -> None:
    """Columns of an array have no names."""
    if named and not source.name.lower().endswith(TABLES):
        raise ValueError(
            f"column {named[0]!r}: {source.name} is no table; only {' '.join(TABLES)}"
            " files have columns with names"
        )

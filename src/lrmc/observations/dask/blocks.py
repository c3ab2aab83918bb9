"""Rows in the blocks of a Dask array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _kernels
from ..._extras import optional
from ..._rows import Lines, Work
from ...weights import Array
from .._checks import (
    as_mask,
    check_mask,
    check_observed,
    check_shape,
    precision,
    storable,
)
from ..base import Observations
from ..blocks import Blocks, Question, unreadable
from ..ondisk import counted, declared
from ..reading import Reading
from ..transposed import transposed
from ..watched import Watched
from .cluster import ClusterLostError, killed, limited, on_cluster
from .graph import Graph, OnWorkers
from .made import reads_of
from .tasks import Job, asked, worked

dask = optional("dask", "scale")
da = optional("dask.array", "scale")


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskBlocks(Blocks):
    """Rows in the blocks of a Dask array, whose chunks are as wide as the matrix."""

    Y: Any
    mask: Any = None
    data: tuple[Any, ...]  # the same, as tasks take them

    def round(self, work: Work, rows: Lines, shared: Any) -> tuple[Any, Any]:
        """See `Observations.round`."""
        self.meter.rows += self.shape[0]
        with self._named(closely=True):
            return self._graph(worked, work, rows, shared).done(self.threads)

    def visit(
        self,
        ask: Question,
        rows: Lines,
        shared: Any,
        each: Mapping[int, Any],
    ) -> Iterator[tuple[int, Any]]:
        """See `Blocks.visit`."""
        graph = self._graph(asked, ask, rows, shared)
        with self._named():
            yield from zip(each, graph.asked(each, self.threads))

    def _graph(self, task: Any, work: Any, rows: Lines, shared: Any) -> Graph:
        job = Job(task, work, shared, self.reading, len(self.data))
        return Graph(job, self.data, rows, self.Y.chunks[0])

    def outliers(self, L: Any, R: Array, threshold: float) -> Any:
        """A Dask array that is computed when asked for, with NaN where nothing was observed."""
        L, R = self.in_form(L, R)
        parts = [self.Y, L] if self.mask is None else [self.Y, L, self.mask]
        arguments = {
            "reading": self.reading,
            "R": np.asarray(R),
            "threshold": threshold,
        }
        return da.map_blocks(
            _outliers,
            *parts,
            dtype=self.dtype,
            chunks=self.Y.chunks,
            meta=np.empty((0, 0)),
            **arguments,
        )

    def in_form(self, L: Any, R: Any) -> tuple[Any, Any]:
        """See `Observations.in_form`: L is a Dask array."""
        if isinstance(L, OnWorkers):
            return L.as_dask(), R
        if isinstance(L, np.ndarray):
            L = da.from_array(L, chunks=(self.Y.chunks[0], -1))
        return L, R

    @contextmanager
    def _named(self, closely: bool = False) -> Iterator[None]:
        """Errors say which block they are about; data that changed meanwhile are one."""
        try:
            yield
        except ClusterLostError:
            raise
        except Exception as error:
            self.check_unchanged()
            if type(error).__name__ == "KilledWorker":
                raise killed(error, self.borders) from error
            # an error of Dask does not tell: read each again until one fails
            for b in range(len(self.borders) - 1):
                try:
                    parts = self.Y.blocks[b].to_delayed().ravel().tolist()
                    with limited():
                        dask.compute(dask.delayed(_touched)(parts))
                except Exception as broken:
                    raise unreadable(b, self.borders, broken) from broken
            raise
        self.check_unchanged(closely)


def as_dask_observations(
    Y: Any,
    mask: Any = None,
    *,
    threads: int = 0,
    fill: Any = None,
    watched: tuple[Watched, ...] = (),
) -> Observations:
    """A Dask array, or a DataArray over one, as observations; what `as_observations` calls for
    these.

    Chunks that are not as wide as the matrix are put together where they are; where they are whole
    columns, blocks are columns. `threads` (all cores if 0) are shared by the blocks that are
    computed at the same time. `fill` is the number that stands for missing, if the attributes of a
    DataArray do not tell; `watched` what the data are read from."""
    fill = declared(Y, np.dtype(Y.dtype)) if fill is None else fill
    Y = _array_of(Y)
    check_shape(Y.shape)
    if any(np.isnan(n) for n in Y.shape):
        # which tells the array itself, and that is the caller's
        Y = Y.copy().compute_chunk_sizes()
        check_shape(Y.shape)
    if mask is not None:
        mask = _mask_of(mask, Y)
    bands = [max(Y.chunks[axis]) * Y.shape[1 - axis] for axis in (0, 1)]
    by_columns = bands[1] < bands[0]
    if by_columns:
        Y, mask = Y.T, None if mask is None else mask.T
    rows = tuple(n for n in Y.chunks[0] if n)
    Y, mask = (x if x is None else x.rechunk((rows, (Y.shape[1],))) for x in (Y, mask))
    stored = storable(np.dtype(Y.dtype))
    cores = 1 if on_cluster() else threads or _kernels.max_threads()
    reading = Reading(precision(stored), stored, 1.0, max(1, cores // len(rows)), fill)
    lines = counted(
        DaskBlocks(
            shape=Y.shape,
            dtype=reading.dtype,
            row_observed=np.zeros(0, np.int64),
            col_observed=np.zeros(0, np.int64),
            threads=cores,
            borders=np.concatenate([[0], np.cumsum(rows)]),
            block_observed=np.zeros(len(rows), np.int64),
            Y=Y,
            mask=mask,
            data=tuple(reads_of(x) for x in (Y, mask) if x is not None),
            reading=reading,
            watched=watched,
        )
    )
    obs: Observations = transposed(lines) if by_columns else lines
    check_observed(obs.n_observed, obs.shape)
    return obs


def is_dask(Y: Any) -> bool:
    """Whether this is a Dask array, or a DataArray over one."""
    if type(Y).__module__.startswith("xarray"):  # its `data` would load what is on disk
        return hasattr(Y, "dtype") and Y.chunks is not None
    return isinstance(Y, da.Array)


def _array_of(Y: Any) -> Any:
    return Y if isinstance(Y, da.Array) else Y.data


def _mask_of(mask: Any, Y: Any) -> Any:
    """A mask as a Dask array. What is in memory is looked at now, the rest where its
    blocks are read.
    """
    if is_dask(mask):
        mask = _array_of(mask)
        check_mask(mask, Y.shape)
        return mask
    return da.from_array(as_mask(mask, Y.shape), chunks=Y.chunks)


def _touched(parts: list[Any]) -> int:
    return len(parts)


def _outliers(
    Y: Any,
    L: Array,
    mask: Any = None,
    *,
    reading: Reading,
    R: Array,
    threshold: float,
) -> Array:
    return np.asarray(reading.block(Y, mask).outliers(L, R, threshold))

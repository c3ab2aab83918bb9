"""Graphs: tasks for all blocks, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from ... import _kernels
from ..._extras import optional
from ..._rows import Elsewhere, Lines, Some, Work, is_equal, like
from ...weights import Array
from .cluster import limited, on_cluster
from .made import Reads
from .tasks import (
    Constant,
    Job,
    Place,
    Same,
    Several,
    alone,
    apply,
    everything,
    one_by_one,
    row_part,
    rows_of,
    together,
    totalled,
    worked,
)

dask = optional("dask", "scale")
da = optional("dask.array", "scale")

# columns of all blocks together, up to which their sums may be kept until the end of a pass
SUMS = 1 << 18
TASKS = 4  # for each thread of this process: enough to share the work evenly
SPLIT = 8  # blocks whose sums are added at once


@dataclass(frozen=True, eq=False)
class Bundle:
    """What a round left on the workers: several arrays, block by block."""

    keys: list[Any]
    there: dict[Any, Any]  # key -> the promise of it
    chunks: tuple[int, ...]  # rows of the blocks


class OnWorkers(Elsewhere):
    """An array of a bundle."""

    def __init__(
        self,
        bundle: Bundle,
        number: int,
        like: Array,
        factor: float = 1.0,
    ) -> None:
        """`like` has no rows, but the type and width of the array."""
        self.bundle, self.number, self.like, self.factor = bundle, number, like, factor
        self.dtype, self.shape = like.dtype, (sum(bundle.chunks), *like.shape[1:])

    def __repr__(self) -> str:
        return f"OnWorkers(shape {self.shape}, {self.dtype}, in {len(self.bundle.chunks)} blocks)"

    def each(self, work: Work, rows: Lines, shared: Any) -> tuple[Any, Any]:
        """See `Elsewhere.each`."""
        return Graph(Job(worked, work, shared), (), rows, self.bundle.chunks).done()

    def scaled(self, factor: float) -> OnWorkers:
        """See `Elsewhere.scaled`."""
        return OnWorkers(self.bundle, self.number, self.like, factor * self.factor)

    def as_dask(self) -> Any:
        """A Dask array of what is there."""
        name, zero = f"lrmc-{uuid4().hex}", (0,) * (self.ndim - 1)
        layer = {
            (name, b, *zero): (row_part, key, self.number, self.factor)
            for b, key in enumerate(self.bundle.keys)
        }
        chunks = (self.bundle.chunks, *((n,) for n in self.shape[1:]))
        return da.Array(layer | self.bundle.there, name, chunks, self.dtype)


class Graph:
    """Tasks, one for each block, and what they need. Every graph has keys of its own."""

    def __init__(
        self,
        job: Job,
        data: tuple[Any, ...],
        rows: Lines,
        chunks: tuple[int, ...],
    ) -> None:
        # Words before the first hexadecimal one say which tasks are alike: Dask learns how long
        # they take from those.
        kind, token = job.work.__name__.strip("_"), uuid4().hex
        self.chunks = chunks
        self.name = f"lrmc-{kind}-{token}"
        self.rows = f"lrmc-{kind}-rows-{token}"
        self.sums = f"lrmc-{kind}-sums-{token}"
        self.arrays = [_aligned(x, chunks) for x in data]
        places = tuple(self._placed(x) for x in rows)
        self.slots = [_slot(x, chunks) for x in self.arrays]
        self.job = f"{self.name}-job"
        about = (job.task, job.work, job.shared, job.reading, job.data)
        self.tasks: dict[Any, Any] = {
            self.job: Same(Job(*about, places, getattr(rows, "_make", tuple)))
        }
        for x in self.arrays:
            self.tasks |= x.there if isinstance(x, Bundle) else {}

    def _placed(self, x: Any) -> Place | None:
        """Where the tasks find an array: what lies on the workers together is sent for once."""
        if x is None:
            return None
        if not isinstance(x, OnWorkers):
            self.arrays.append(_aligned(x, self.chunks))
            return Place(len(self.arrays) - 1)
        known = (k for k, array in enumerate(self.arrays) if array is x.bundle)
        at = next(known, None)
        if at is None:
            at = len(self.arrays)
            self.arrays.append(x.bundle)
        return Place(at, x.number, x.factor)

    def done(self, threads: int = 0) -> tuple[Any, Any]:
        """What tasks keep for their rows, which stays there, and what they tell
        together, which comes back.
        """
        data = [x for x in self.arrays if isinstance(x, da.Array | Reads)]
        if not on_cluster() and all(isinstance(x, Reads) for x in data):
            return self._read_here(threads or _kernels.max_threads())
        numbers = range(len(self.chunks))
        for b in numbers:
            self._add(b)
        rows = [(self.name, b) for b in numbers]
        width = max((x.shape[-1] for x in data), default=0)
        # sums are let go when they are added up
        if on_cluster() or width * len(rows) > SUMS:
            rows = [(self.rows, b) for b in numbers]
            self.tasks |= {(self.rows, b): (rows_of, (self.name, b)) for b in numbers}
        with limited(threads):
            return self._on_workers(rows) if on_cluster() else self._brought(rows)

    def _brought(self, rows: list[Any]) -> tuple[Any, Any]:
        """Everything is in this process: so is what belongs to rows."""
        last = self._tree([(self.name, b) for b in range(len(rows))])
        self.tasks[f"{self.name}-all"] = (everything, rows, last)
        ((parts, total),) = dask.compute(*self._delayed([f"{self.name}-all"]))
        return together(parts), total.told

    def _on_workers(self, rows: list[Any]) -> tuple[Any, Any]:
        """What belongs to rows stays on the workers, and does not go into the tree."""
        numbers = range(len(rows))
        self.tasks |= {(self.sums, 0, b): (alone, (self.name, b)) for b in numbers}
        last = self._tree([(self.sums, 0, b) for b in numbers])
        *promises, promise = dask.persist(*self._delayed([*rows, last]))
        total = promise.dask[last].result()
        there = {key: promise.dask[key] for key, promise in zip(rows, promises)}
        bundle = Bundle(rows, there, self.chunks)
        kept = [
            x if x is None else OnWorkers(bundle, k, x)
            for k, x in enumerate(total.like)
        ]
        return like(total.like, kept), total.told

    def _read_here(self, threads: int) -> tuple[Any, Any]:
        """The same by threads of this process, which take several blocks each, one after
        another: fewer tasks.
        """
        groups = np.array_split(
            np.arange(len(self.chunks)), min(len(self.chunks), TASKS * threads)
        )
        for g, numbers in enumerate(groups):
            several = [
                Several([slot(b) for slot in self.slots], self.chunks[b])
                for b in numbers.tolist()
            ]
            self.tasks[(self.name, g)] = (one_by_one, self.job, several)
        with limited(threads):
            keys = [(self.name, g) for g in range(len(groups))]
            found = dask.compute(*self._delayed(keys))
        kept = [rows for some, _ in found for rows in some]
        return together(kept), totalled([total for _, total in found]).told

    def asked(self, each: Mapping[int, Any], threads: int = 0) -> Any:
        """What the tasks of some blocks answer, each to a question of its own, here."""
        for b, own in each.items():
            self._add(b, own)
        with limited(threads):
            return dask.compute(*self._delayed([(self.name, b) for b in each]))

    def _add(self, b: int, own: Any = None) -> None:
        slots = [slot(b) for slot in self.slots]
        self.tasks[(self.name, b)] = (
            apply,
            self.job,
            slots,
            self.chunks[b],
            Same(own),
        )

    def _tree(self, keys: list[Any]) -> Any:
        """Tasks that add up the answers to these keys, some at a time; the key of the last one."""
        level = 0
        while len(keys) > 1:
            level += 1
            groups = [keys[i : i + SPLIT] for i in range(0, len(keys), SPLIT)]
            self.tasks |= {
                (self.sums, level, j): (totalled, group)
                for j, group in enumerate(groups)
            }
            keys = [(self.sums, level, j) for j in range(len(groups))]
        return keys[0]

    def _delayed(self, keys: Sequence[Any]) -> list[Any]:
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        there = [x for x in self.arrays if isinstance(x, da.Array)]
        graph = HighLevelGraph.from_collections(
            self.name, self.tasks, dependencies=there
        )
        return [Delayed(key, graph, layer=self.name) for key in keys]  # type: ignore[no-untyped-call]


def _aligned(x: Any, chunks: tuple[int, ...]) -> Any:
    """A Dask array in the blocks of the data."""
    wanted = (chunks, *((n,) for n in x.shape[1:])) if isinstance(x, da.Array) else None
    return x if wanted is None or x.chunks == wanted else x.rechunk(wanted)


def _slot(x: Any, chunks: tuple[int, ...]) -> Callable[[int], Any]:
    """Block number -> its lines of an array, or what stands for them in a graph."""
    if isinstance(x, Bundle):
        return lambda b: x.keys[b]
    if isinstance(x, Reads):
        return lambda b: x.blocks[b]
    if isinstance(x, da.Array):
        return lambda b: (x.name, b, *((0,) * (x.ndim - 1)))
    if is_equal(x):
        return lambda b: Constant(x[0])
    borders = np.concatenate([[0], np.cumsum(chunks)])
    if isinstance(x, Some):
        return lambda b: x.cut(borders[b], borders[b + 1])
    if not isinstance(x, np.ndarray):  # the same for all blocks
        return lambda b: x
    return lambda b: x[borders[b] : borders[b + 1]]

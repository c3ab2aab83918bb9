"""Data in a Dask array, solved where they lie. Imported only where Dask is.

Each block keeps its rows of the data, of L and of all that has a line per row. A round is one
graph: what is the same for all rows goes out, each block does its work, and what they tell comes
back, added up as a tree where the blocks are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import uuid4

import numpy as np

from .. import _kernels
from .._extras import optional
from .._rows import Elsewhere, Lines, Some, Work, added, is_equal, like, wide
from ..weights import Array
from ._checks import (
    as_mask,
    check_mask,
    check_observed,
    check_shape,
    precision,
    storable,
)
from .base import Observations
from .blocks import BlockError, Blocks, Question, Reading, unreadable
from .ondisk import counted, declared
from .transposed import transposed
from .watched import Watched

dask = optional("dask", "scale")
optional("dask.local", "scale")
da = optional("dask.array", "scale")

SMALL = 100_000  # bytes: what making a block takes along, unless it holds data
# columns of all blocks together, up to which their sums may be kept until the end of a pass
SUMS = 1 << 18
TASKS = 4  # for each thread of this process: enough to share the work evenly
SPLIT = 8  # blocks whose sums are added at once


class ClusterLostError(ConnectionError):
    """The scheduler is gone, and with it all that workers held."""


@dataclass(frozen=True)
class Same:
    """Something that Dask must not look into."""

    value: Any


@dataclass(frozen=True)
class Answer:
    """What came of one block: for its rows, and to be added up."""

    rows: Any
    told: Any


@dataclass(frozen=True)
class Several:
    """What a task needs for one of its blocks."""

    slots: list[Any]
    n: int


@dataclass(frozen=True)
class Total:
    """What several blocks told, and arrays without rows like those that stay where they are."""

    told: Any
    like: Any


@dataclass(frozen=True, eq=False)
class Read:
    """How a block is made: as part of the task that uses it, so that it is made where
    the rows of L are.
    """

    tasks: dict[Any, Any]
    key: Any

    def now(self) -> Any:
        """The block."""
        return dask.local.get_sync(self.tasks, self.key)


@dataclass(frozen=True, eq=False)
class Reads:
    """All blocks of an array that nobody holds."""

    blocks: list[Read]
    shape: tuple[int, ...]


def _reads(Y: Any) -> Any:
    """How blocks are made, if each is made from little and without the others; otherwise the array
    itself.

    Blocks that are there already (persisted, or in the memory of this process) stay where they are.
    """
    if any(type(x).__name__ == "Future" for x in dict(Y.__dask_graph__()).values()):
        return Y
    (Y,) = dask.optimize(Y)
    graph, keys = (
        dict(Y.__dask_graph__()),
        [(Y.name, b, 0) for b in range(Y.numblocks[0])],
    )
    parts = [_needed(graph, key) for key in keys]
    made = [
        key
        for part in parts
        for key, task in part.items()
        if getattr(task, "dependencies", True)
    ]
    if len(made) > len(set(made)):
        return Y
    try:  # within this process nothing is sent
        small = (
            not on_cluster()
            or len(optional("cloudpickle", "scale").dumps(parts[0])) < SMALL
        )
    except Exception:  # what cannot be sent is not sent
        small = False
    return (
        Reads([Read(part, key) for part, key in zip(parts, keys)], Y.shape)
        if small
        else Y
    )


def _needed(graph: dict[Any, Any], key: Any) -> dict[Any, Any]:
    """The part of a graph that a key needs."""
    found, left = {}, [key]
    while left:
        at = left.pop()
        if at not in found:
            found[at] = graph[at]
            left += dask.core.get_dependencies(graph, at)
    return found


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
            return self._graph(_worked, work, rows, shared).done(self.threads)

    def visit(
        self,
        ask: Question,
        rows: Lines,
        shared: Any,
        each: Mapping[int, Any],
    ) -> Iterator[tuple[int, Any]]:
        """See `Blocks.visit`."""
        graph = self._graph(_asked, ask, rows, shared)
        with self._named():
            yield from zip(each, graph.asked(each, self.threads))

    def _graph(self, task: Any, work: Any, rows: Lines, shared: Any) -> Graph:
        return Graph(
            Job(task, work, shared, self.reading, len(self.data)),
            self.data,
            rows,
            self.Y.chunks[0],
        )

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
        return da.from_array(L, chunks=(self.Y.chunks[0], -1)) if isinstance(
            L, np.ndarray
        ) else L, R

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
                raise _killed(error, self.borders) from error
            # an error of Dask does not tell: read each again until one fails
            for b in range(len(self.borders) - 1):
                try:
                    with _limited():
                        dask.compute(
                            dask.delayed(_touched)(
                                self.Y.blocks[b].to_delayed().ravel().tolist()
                            )
                        )
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
            data=tuple(_reads(x) for x in (Y, mask) if x is not None),
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


# ---- what stays on the workers


@dataclass(frozen=True)
class Kept:
    """What stays on a worker for the rows of a block."""

    rows: Lines


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
        return Graph(Job(_worked, work, shared), (), rows, self.bundle.chunks).done()

    def scaled(self, factor: float) -> OnWorkers:
        """See `Elsewhere.scaled`."""
        return OnWorkers(self.bundle, self.number, self.like, factor * self.factor)

    def as_dask(self) -> Any:
        """A Dask array of what is there."""
        name, zero = f"lrmc-{uuid4().hex}", (0,) * (self.ndim - 1)
        layer = {
            (name, b, *zero): (_row_part, key, self.number, self.factor)
            for b, key in enumerate(self.bundle.keys)
        }
        chunks = (self.bundle.chunks, *((n,) for n in self.shape[1:]))
        return da.Array(layer | self.bundle.there, name, chunks, self.dtype)


# ---- tasks: what runs where the blocks are


@dataclass(frozen=True)
class Place:
    """Where the lines of an array are, among what a task is given: a slot, or an array
    of what is kept there.
    """

    slot: int
    number: int | None = None
    factor: float = 1.0  # the array is read in other units


@dataclass(frozen=True)
class Constant:
    """A line that is the same for every row."""

    value: Any


@dataclass(frozen=True)
class Job:
    """What every task of a graph does: the work, what it shares, and how a block of the
    data is read, if it is.
    """

    task: Callable[..., Any]
    work: Callable[..., Any]
    shared: Any
    reading: Reading | None = None
    data: int = 0  # slots that hold the block of data
    places: tuple[Place | None, ...] = ()
    make: Callable[..., Any] = tuple

    def arguments(self, slots: list[Any], n: int) -> tuple[Any, ...]:
        """The block of data, if there is one, and its rows."""
        slots = [slot.now() if isinstance(slot, Read) else slot for slot in slots]
        rows = self.make([_found(place, slots, n) for place in self.places])
        return (
            (rows,)
            if self.reading is None
            else (self.reading.block(*slots[: self.data]), rows)
        )


def _found(place: Place | None, slots: list[Any], n: int) -> Any:
    if place is None:
        return None
    x = slots[place.slot]
    if place.number is not None:
        return _row_part(x, place.number, place.factor)
    return (
        np.broadcast_to(x.value, (n, *np.shape(x.value)))
        if isinstance(x, Constant)
        else x
    )


def _apply(job: Same, slots: list[Any], n: int, own: Same) -> Any:
    return job.value.task(job.value, slots, n, own.value)


def _worked(job: Job, slots: list[Any], n: int, _: None) -> Answer:
    return Answer(*job.work(*job.arguments(slots, n), job.shared))


def _asked(job: Job, slots: list[Any], n: int, question: Any) -> Any:
    return job.work(*job.arguments(slots, n), job.shared, question)


def _one_by_one(job: Same, several: list[Several]) -> tuple[list[Kept], Total]:
    """What some blocks keep, and what they tell together."""
    answers = [_worked(job.value, block.slots, block.n, None) for block in several]
    return [Kept(answer.rows) for answer in answers], _total(answers)


def _together(answers: Sequence[Answer | Kept]) -> Any:
    """What blocks keep, one after another."""
    columns = zip(*(answer.rows for answer in answers), strict=True)
    return like(
        answers[0].rows,
        [None if parts[0] is None else np.concatenate(parts) for parts in columns],
    )


def _total(answers: Sequence[Any]) -> Total:
    """What answers tell, or sums of answers, added up."""
    first, *others = (_alone(a) if isinstance(a, Answer) else a for a in answers)
    told = first.told
    for other in others:
        told = like(told, added(told, other.told))
    return Total(told, first.like)


def _alone(answer: Answer) -> Total:
    told = like(answer.told, [wide(x) for x in answer.told])
    return Total(
        told, like(answer.rows, [None if x is None else x[:0] for x in answer.rows])
    )


def _rows_of(answer: Answer) -> Kept:
    return Kept(answer.rows)


def _all(rows: list[Any], total: Any) -> tuple[list[Any], Total]:
    return rows, _total([total])


def _row_part(kept: Kept, k: int, factor: float) -> Any:
    return (
        kept.rows[k] if factor == 1 else kept.rows[k] * kept.rows[k].dtype.type(factor)
    )


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


# ---- graphs


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
        kind, self.token, self.chunks = (
            job.work.__name__.strip("_"),
            uuid4().hex,
            chunks,
        )
        self.name = f"lrmc-{kind}-{self.token}"
        self.rows, self.sums = (
            f"lrmc-{kind}-{part}-{self.token}" for part in ("rows", "sums")
        )
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
        if not on_cluster() and all(
            isinstance(x, Reads) for x in self.arrays if _is_data(x)
        ):
            return self._done_here(threads or _kernels.max_threads())
        numbers = range(len(self.chunks))
        for b in numbers:
            self._add(b)
        rows = [(self.name, b) for b in numbers]
        width = max((x.shape[-1] for x in self.arrays if _is_data(x)), default=0)
        # sums are let go when they are added up
        if on_cluster() or width * len(rows) > SUMS:
            rows = [(self.rows, b) for b in numbers]
            self.tasks |= {(self.rows, b): (_rows_of, (self.name, b)) for b in numbers}
        with _limited(threads):
            # everything is in this process: so is what belongs to rows
            if not on_cluster():
                last = self._tree([(self.name, b) for b in numbers])
                self.tasks[f"{self.name}-all"] = (_all, rows, last)
                ((parts, total),) = dask.compute(*self._delayed([f"{self.name}-all"]))
                return _together(parts), total.told
            # rows do not go into the tree
            self.tasks |= {(self.sums, 0, b): (_alone, (self.name, b)) for b in numbers}
            last = self._tree([(self.sums, 0, b) for b in numbers])
            *promises, promise = dask.persist(*self._delayed([*rows, last]))
            total = promise.dask[last].result()
        bundle = Bundle(
            rows,
            {key: promise.dask[key] for key, promise in zip(rows, promises)},
            self.chunks,
        )
        there = [
            x if x is None else OnWorkers(bundle, k, x)
            for k, x in enumerate(total.like)
        ]
        return like(total.like, there), total.told

    def _done_here(self, threads: int) -> tuple[Any, Any]:
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
            self.tasks[(self.name, g)] = (_one_by_one, self.job, several)
        with _limited(threads):
            keys = [(self.name, g) for g in range(len(groups))]
            found = dask.compute(*self._delayed(keys))
        kept = [rows for some, _ in found for rows in some]
        return _together(kept), _total([total for _, total in found]).told

    def asked(self, each: Mapping[int, Any], threads: int = 0) -> Any:
        """What the tasks of some blocks answer, each to a question of its own, here."""
        for b, own in each.items():
            self._add(b, own)
        with _limited(threads):
            return dask.compute(*self._delayed([(self.name, b) for b in each]))

    def _add(self, b: int, own: Any = None) -> None:
        slots = [slot(b) for slot in self.slots]
        self.tasks[(self.name, b)] = (
            _apply,
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
                (self.sums, level, j): (_total, group) for j, group in enumerate(groups)
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


def _is_data(x: Any) -> bool:
    return isinstance(x, da.Array | Reads)


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


# ---- where and with how many threads


def on_cluster() -> bool:
    """Whether tasks go to the workers of `distributed`, rather than to threads of this process."""
    return dask.config.get("scheduler", None) in ("dask.distributed", "distributed")


@lru_cache(1)
def _pools() -> Any:
    """The thread pools of this process: finding them takes some milliseconds."""
    return optional("threadpoolctl", "scale").ThreadpoolController()


@contextmanager
def _limited(threads: int = 0) -> Iterator[None]:
    """As many tasks at a time as there are threads, and BLAS with one in each; workers
    see to that themselves.
    """
    with ExitStack() as stack:
        if on_cluster():
            stack.enter_context(_in_touch())
            stack.enter_context(
                dask.config.set(
                    {"distributed.admin.large-graph-warning-threshold": "1GB"}
                )
            )
        else:
            stack.enter_context(
                dask.config.set(num_workers=threads or _kernels.max_threads())
            )
            stack.enter_context(_pools().limit(limits=1, user_api="blas"))
        yield


@contextmanager
def _in_touch() -> Iterator[None]:
    """What goes wrong after the scheduler is gone went wrong for that reason, and
    nothing is tried again.
    """
    client = optional("distributed", "scale").get_client()
    where = getattr(client.scheduler, "address", None) or "the scheduler"
    _check_connected(client, where)
    try:
        yield
    except Exception:
        _check_connected(client, where)
        raise


def _check_connected(client: Any, where: str) -> None:
    """With the scheduler go all rows of L, so being connected anew would not help."""
    if client.status != "running":
        raise ClusterLostError(
            f"the Dask cluster at {where} was lost: its scheduler does not answer any more; start it again, and the run"
        )


def _killed(error: Any, borders: Array) -> BlockError:
    """A worker that died again and again, most likely for want of memory."""
    number = re.search(r", (\d+)", str(getattr(error, "task", error)))
    which = "a block"
    if number and int(number[1]) < len(borders) - 1:
        first, last = borders[int(number[1]) : int(number[1]) + 2]
        which = f"block {number[1]} of {len(borders) - 1} (lines {first} to {last - 1})"
    return BlockError(
        f"workers died while they computed with {which}: too little memory? Smaller chunks need less"
    )

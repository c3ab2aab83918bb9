"""Data in a Dask array, solved where they lie. Imported only where Dask is.

Each block keeps its rows of the data, of L and of all that has a line per row. Per pass, R and what belongs to columns
go out, and their sums come back, added up as a tree where the blocks are.
"""

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
from ..weights import Array
from .base import Observations
from .blocks import BlockError, Blocks, Reading, Work, added, unreadable, wide
from .ondisk import counted, declared
from .spread import Bundle, Leaf, Program, Spread, run
from .tall import is_here
from .transposed import transposed
from .watched import Watched

dask = optional("dask", "scale")
optional("dask.local", "scale")
da = optional("dask.array", "scale")

SMALL = 100_000  # bytes: what making a block takes along, unless it holds data
SUMS = 1 << 18  # columns of all blocks together, up to which their sums may be kept until the end of a pass
TASKS = 4  # for each thread of this process: enough to share the work evenly
SPLIT = 8  # blocks whose sums are added at once


class ClusterLostError(ConnectionError):
    """The scheduler is gone, and with it all that workers held."""


@dataclass(frozen=True)
class Same:
    """Something that Dask must not look into."""

    value: Any


@dataclass(frozen=True)
class Kept:
    """What stays on a worker for the rows of a block."""

    rows: tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """What came of one block."""

    rows: tuple[Any, ...]
    sums: tuple[Any, ...]


@dataclass(frozen=True)
class Several:
    """What a task needs for one of its blocks."""

    pieces: list[Any]
    n: int


@dataclass(frozen=True)
class Total:
    """What came of several blocks: their sums, and arrays without rows like those that stay where they are."""

    sums: list[Any]
    like: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Read:
    """How a block is made: as part of the task that uses it, so that it is made where the rows of L are."""

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
    """How blocks are made, if each is made from little and without the others; otherwise the array itself.

    Blocks that are there already (persisted, or in the memory of this process) stay where they are.
    """
    if any(type(x).__name__ == "Future" for x in dict(Y.__dask_graph__()).values()):
        return Y
    (Y,) = dask.optimize(Y)
    graph, keys = dict(Y.__dask_graph__()), [(Y.name, b, 0) for b in range(Y.numblocks[0])]
    parts = [_needed(graph, key) for key in keys]
    made = [key for part in parts for key, task in part.items() if getattr(task, "dependencies", True)]
    if len(made) > len(set(made)):
        return Y
    try:  # within this process nothing is sent
        small = not on_cluster() or len(optional("cloudpickle", "scale").dumps(parts[0])) < SMALL
    except Exception:  # what cannot be sent is not sent
        small = False
    return Reads([Read(part, key) for part, key in zip(parts, keys)], Y.shape) if small else Y


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

    def sweep(self, work: Work, tall: Sequence[Any], same: Any) -> tuple[list[Any], list[Any]]:
        """See `Blocks.sweep`."""
        self.meter.rows += self.shape[0]
        with self._named(closely=True):
            return self._graph(_answer_of_block, work, tall, same).swept(self.threads)

    def visit(self, work: Work, tall: Sequence[Any], same: Any, each: Mapping[int, Any]) -> Iterator[tuple[int, Any]]:
        """See `Blocks.visit`."""
        graph = self._graph(_of_block, work, tall, same)
        with self._named():
            yield from zip(each, graph.asked(each, self.threads))

    def _graph(self, function: Any, work: Work, tall: Sequence[Any], same: Any) -> Graph:
        how = (function, work, self.reading, len(self.data))
        return Graph(how, [*self.data, *tall], same, self.Y.chunks[0])

    def outliers(self, L: Any, R: Array, threshold: float) -> Any:
        """A Dask array that is computed when asked for, with NaN where nothing was observed."""
        L, R = self.in_form(L, R)
        parts = [self.Y, L] if self.mask is None else [self.Y, L, self.mask]
        arguments = {"reading": self.reading, "R": np.asarray(R), "threshold": threshold}
        return da.map_blocks(
            _outliers, *parts, dtype=self.dtype, chunks=self.Y.chunks, meta=np.empty((0, 0)), **arguments
        )

    def in_form(self, L: Any, R: Any) -> tuple[Any, Any]:
        """See `Observations.in_form`: L is a Dask array."""
        if isinstance(L, Spread):
            return as_dask(L), R
        return da.from_array(L, chunks=(self.Y.chunks[0], -1)) if is_here(L) else L, R

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
            for b in range(len(self.borders) - 1):  # an error of Dask does not tell: read each again until one fails
                try:
                    with _limited():
                        dask.compute(dask.delayed(_touched)(self.Y.blocks[b].to_delayed().ravel().tolist()))
                except Exception as broken:
                    raise unreadable(b, self.borders, broken) from broken
            raise
        self.check_unchanged(closely)


def as_dask_observations(
    Y: Any, mask: Any = None, *, threads: int = 0, fill: Any = None, watched: tuple[Watched, ...] = ()
) -> Observations:
    """A Dask array, or a DataArray over one, as observations; what `as_observations` calls for these.

    Chunks that are not as wide as the matrix are put together where they are; where they are whole columns, blocks are
    columns. `threads` (all cores if 0) are shared by the blocks that are computed at the same time. `fill` is the
    number that stands for missing, if the attributes of a DataArray do not tell; `watched` what the data are read from.
    """
    from ._door import as_mask, check_observed, precision, storable

    fill = declared(Y, np.dtype(Y.dtype)) if fill is None else fill
    Y = _array_of(Y)
    if Y.ndim != 2:
        raise ValueError(f"a 2-D matrix is wanted, but the array has shape {Y.shape}; reshape it")
    if any(np.isnan(n) for n in Y.shape):
        Y = Y.copy().compute_chunk_sizes()  # which tells the array itself, and that is the caller's
    if 0 in Y.shape:
        raise ValueError(f"the matrix is empty: shape {Y.shape}")
    if mask is not None:
        mask = _array_of(mask) if is_dask(mask) else da.from_array(as_mask(mask, Y.shape), chunks=Y.chunks)
        if mask.shape != Y.shape:
            raise ValueError(f"mask has shape {mask.shape}, the matrix {Y.shape}")
        if mask.dtype.kind not in "biu":
            raise ValueError(f"mask has type {mask.dtype}; booleans are wanted, True where an entry is observed")
    bands = [max(Y.chunks[axis]) * Y.shape[1 - axis] for axis in (0, 1)]
    if bands[1] < bands[0]:
        turned = None if mask is None else mask.T
        return transposed(as_dask_observations(Y.T, turned, threads=threads, fill=fill, watched=watched))
    rows = tuple(n for n in Y.chunks[0] if n)
    Y, mask = (x if x is None else x.rechunk((rows, (Y.shape[1],))) for x in (Y, mask))
    stored = storable(np.dtype(Y.dtype))
    cores = 1 if on_cluster() else threads or _kernels.max_threads()
    reading = Reading(precision(stored), stored, 1.0, max(1, cores // len(rows)), fill)
    obs = counted(
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
    check_observed(obs.n_observed, obs.shape)
    return obs


def is_dask(Y: Any) -> bool:
    """Whether this is a Dask array, or a DataArray over one."""
    if type(Y).__module__.startswith("xarray"):  # its `data` would load what is on disk
        return hasattr(Y, "dtype") and Y.chunks is not None
    return isinstance(Y, da.Array)


def _array_of(Y: Any) -> Any:
    return Y if isinstance(Y, da.Array) else Y.data


# ---- what tall.py and spread.py ask for


def persisted(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Computed now, and kept where they are."""
    derived = [x for x in arrays if isinstance(x, Spread) and not isinstance(x.node, Leaf)]
    if not derived:
        return tuple(arrays)
    chunks = derived[0].chunks
    found = iter(Graph((_kept_lines, _kept_lines), derived, None, chunks).kept([x.like for x in derived]))
    return tuple(next(found) if isinstance(x, Spread) and not isinstance(x.node, Leaf) else x for x in arrays)


def fetched(X: Any, lines: Array) -> Array:
    """Some lines of an array that is elsewhere. Each block sends what is asked of it, and no more."""
    chunks = _chunks_of([X])
    borders = np.concatenate([[0], np.cumsum(chunks)])
    block = np.searchsorted(borders, lines, side="right") - 1
    order = np.argsort(block, kind="stable")
    numbers, first = np.unique(block[order], return_index=True)
    groups = dict(zip(numbers.tolist(), np.split(order, first[1:])))
    graph = Graph((_some_lines, _some_lines), [X], None, chunks)
    out = np.empty((len(lines), *X.shape[1:]), X.dtype)
    for at, part in zip(groups.values(), graph.asked({b: lines[at] - borders[b] for b, at in groups.items()})):
        out[at] = part
    return out


def gathered(X: Spread) -> Array:
    """All lines."""
    graph = Graph((_some_lines, _some_lines), [X], None, X.chunks)
    return np.concatenate(graph.asked(dict.fromkeys(range(len(X.chunks)), slice(None))))


def numbered(flags: Spread) -> Array:
    """The numbers of the lines that are flagged."""
    graph = Graph((_flagged_lines, _flagged_lines), [flags], None, flags.chunks)
    borders = np.cumsum([0, *flags.chunks[:-1]])
    return np.concatenate(graph.asked({b: int(first) for b, first in enumerate(borders)}))


def summed(work: Callable[..., Any], tall: Sequence[Any], *same: Any) -> Any:
    """The sum over blocks of what `work` makes of their pieces."""
    return Graph((_sum_of_lines, work), tall, same, _chunks_of(tall)).summed()


def swept(work: Callable[..., Any], tall: Sequence[Any], same: Any) -> tuple[Any, Any]:
    """`tall.by_row` for arrays that are elsewhere."""
    return Graph((_answer_of_lines, work), tall, same, _chunks_of(tall)).swept()


def _chunks_of(tall: Sequence[Any]) -> tuple[int, ...]:
    some = next(x for x in tall if not is_here(x))
    return some.chunks if isinstance(some, Spread) else some.chunks[0]


# ---- tasks: what runs where the blocks are


def _apply(how: Same, pieces: list[Any], n: int, same: Same, own: Same) -> Any:
    (function, *known), program = how.value
    pieces = [piece.now() if isinstance(piece, Read) else piece for piece in pieces]
    return function(*known, run(program, pieces, n), same.value, own.value)


def _one_by_one(how: Same, same: Same, several: list[Several]) -> Answer:
    """The answers of some blocks together."""
    answers = [_apply(how, block.pieces, block.n, same, Same(None)) for block in several]
    rows = tuple(_together([a.rows[k] for a in answers]) for k in range(len(answers[0].rows)))
    return Answer(rows, tuple(_total(answers).sums))


def _of_block(work: Work, reading: Reading, data: int, found: list[Any], same: Any, own: Any) -> Any:
    return work(reading.block(*found[:data]), found[data:], same, own)


def _answer_of_block(work: Work, reading: Reading, data: int, found: list[Any], same: Any, own: Any) -> Answer:
    return Answer(*_of_block(work, reading, data, found, same, own))


def _answer_of_lines(work: Callable[..., Any], found: list[Any], same: Any, own: Any) -> Answer:
    return Answer(*work(tuple(found), same))


def _sum_of_lines(work: Callable[..., Any], found: list[Any], same: Any, own: Any) -> Answer:
    return Answer((), (work(*found, *same),))


def _kept_lines(_: Any, found: list[Any], same: Any, own: Any) -> Kept:
    return Kept(tuple(found))


def _some_lines(_: Any, found: list[Any], same: Any, lines: Any) -> Array:
    return found[0][lines]


def _flagged_lines(_: Any, found: list[Any], same: Any, first: int) -> Array:
    return first + np.flatnonzero(found[0])


def _total(answers: list[Any]) -> Total:
    """Sums of answers, or of sums of answers."""
    first, *others = (_alone(a) if isinstance(a, Answer) else a for a in answers)
    sums = first.sums
    for other in others:
        sums = added(sums, other.sums)
    return Total(sums, first.like)


def _alone(answer: Answer) -> Total:
    return Total([wide(x) for x in answer.sums], tuple(None if x is None else x[:0] for x in answer.rows))


def _rows_of(answer: Answer) -> Kept:
    return Kept(answer.rows)


def _all(rows: list[Any], total: Any) -> tuple[list[Any], Total]:
    return rows, _total([total])


def _row_part(kept: Kept, k: int) -> Any:
    return kept.rows[k]


def _touched(parts: list[Any]) -> int:
    return len(parts)


def _outliers(Y: Any, L: Array, mask: Any = None, *, reading: Reading, R: Array, threshold: float) -> Array:
    return np.asarray(reading.block(Y, mask).outliers(L, R, threshold))


# ---- graphs


class Graph:
    """Tasks, one for each block, and what they need. Every graph has keys of its own."""

    def __init__(self, how: tuple[Any, ...], tall: Sequence[Any], same: Any, chunks: tuple[int, ...]) -> None:
        # Words before the first hexadecimal one say which tasks are alike: Dask learns how long they take from those.
        kind, self.token, self.chunks = how[1].__name__.strip("_"), uuid4().hex, chunks
        self.name = f"lrmc-{kind}-{self.token}"
        self.rows, self.sums = (f"lrmc-{kind}-{part}-{self.token}" for part in ("rows", "sums"))
        program = Program(tall)
        self.arrays = [_aligned(x, chunks) for x in program.pieces]
        self.pieces = [_pieces(x, chunks) for x in self.arrays]
        self.tasks: dict[Any, Any] = {
            f"{self.name}-same": Same(same),
            f"{self.name}-how": Same((how, program.packed())),
        }
        for x in self.arrays:
            self.tasks |= x.there if isinstance(x, Bundle) else {}

    def swept(self, threads: int = 0) -> tuple[list[Any], list[Any]]:
        """What tasks answer for their rows, which stays there, and the sum of the rest, which comes back."""
        if not on_cluster() and all(isinstance(x, Reads) for x in self.arrays if _is_data(x)):
            return self._swept_here(threads or _kernels.max_threads())
        numbers = range(len(self.chunks))
        for b in numbers:
            self._add(b)
        rows, width = (
            [(self.name, b) for b in numbers],
            max((x.shape[-1] for x in self.arrays if _is_data(x)), default=0),
        )
        if on_cluster() or width * len(rows) > SUMS:  # sums are let go when they are added up
            rows = [(self.rows, b) for b in numbers]
            self.tasks |= {(self.rows, b): (_rows_of, (self.name, b)) for b in numbers}
        with _limited(threads):
            if not on_cluster():  # everything is in this process: so is what belongs to rows
                last = self._tree([(self.name, b) for b in numbers])
                self.tasks[f"{self.name}-all"] = (_all, rows, last)
                ((parts, total),) = dask.compute(*self._delayed([f"{self.name}-all"]))
                return [_together([part.rows[k] for part in parts]) for k in range(len(total.like))], total.sums
            self.tasks |= {(self.sums, 0, b): (_alone, (self.name, b)) for b in numbers}  # rows do not go into the tree
            last = self._tree([(self.sums, 0, b) for b in numbers])
            *promises, promise = dask.persist(*self._delayed([*rows, last]))
            total = promise.dask[last].result()
        return self._spread(rows, promises, total.like), total.sums

    def _swept_here(self, threads: int) -> tuple[list[Any], list[Any]]:
        """The same by threads of this process, which take several blocks each, one after another: fewer tasks."""
        groups = np.array_split(np.arange(len(self.chunks)), min(len(self.chunks), TASKS * threads))
        about = (f"{self.name}-how", f"{self.name}-same")
        for g, numbers in enumerate(groups):
            several = [Several([piece(b) for piece in self.pieces], self.chunks[b]) for b in numbers.tolist()]
            self.tasks[(self.name, g)] = (_one_by_one, *about, several)
        with _limited(threads):
            answers = dask.compute(*self._delayed([(self.name, g) for g in range(len(groups))]))
        total = _total(list(answers))
        return [_together([a.rows[k] for a in answers]) for k in range(len(total.like))], total.sums

    def summed(self) -> Any:
        """The sum of what tasks answer, here."""
        numbers = range(len(self.chunks))
        for b in numbers:
            self._add(b)
        last = self._tree([(self.name, b) for b in numbers])
        with _limited():
            (found,) = dask.compute(*self._delayed([last]))
        return _total([found]).sums[0]

    def kept(self, like: Sequence[Any]) -> list[Any]:
        """What tasks keep, where it is."""
        keys = [(self.name, b) for b in range(len(self.chunks))]
        for b in range(len(keys)):
            self._add(b)
        with _limited():
            return self._spread(keys, dask.persist(*self._delayed(keys)), like)

    def asked(self, each: Mapping[int, Any], threads: int = 0) -> Any:
        """What the tasks of some blocks answer, each to a question of its own, here."""
        for b, own in each.items():
            self._add(b, own)
        with _limited(threads):
            return dask.compute(*self._delayed([(self.name, b) for b in each]))

    def _add(self, b: int, own: Any = None) -> None:
        pieces = [piece(b) for piece in self.pieces]
        about = (f"{self.name}-how", pieces, self.chunks[b], f"{self.name}-same", Same(own))
        self.tasks[(self.name, b)] = (_apply, *about)

    def _tree(self, keys: list[Any]) -> Any:
        """Tasks that add up the answers to these keys, some at a time; the key of the last one."""
        level = 0
        while len(keys) > 1:
            level += 1
            groups = [keys[i : i + SPLIT] for i in range(0, len(keys), SPLIT)]
            self.tasks |= {(self.sums, level, j): (_total, group) for j, group in enumerate(groups)}
            keys = [(self.sums, level, j) for j in range(len(groups))]
        return keys[0]

    def _delayed(self, keys: Sequence[Any]) -> list[Any]:
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        there = [x for x in self.arrays if isinstance(x, da.Array)]
        graph = HighLevelGraph.from_collections(self.name, self.tasks, dependencies=there)
        return [Delayed(key, graph, layer=self.name) for key in keys]  # type: ignore[no-untyped-call]

    def _spread(self, keys: list[Any], promises: Sequence[Any], like: Sequence[Any]) -> list[Any]:
        bundle = Bundle(keys, {key: promise.dask[key] for key, promise in zip(keys, promises)})
        return [x if x is None else Spread(self.chunks, Leaf(bundle, k), x) for k, x in enumerate(like)]


def as_dask(X: Spread) -> Any:
    """A Dask array of what is there."""
    (X,) = persisted([X])
    assert isinstance(X.node, Leaf)
    bundle, k = X.node.bundle, X.node.number
    name, zero = f"lrmc-{uuid4().hex}", (0,) * (X.ndim - 1)
    layer = {(name, b, *zero): (_row_part, key, k) for b, key in enumerate(bundle.keys)}
    return da.Array(layer | bundle.there, name, (X.chunks, *((n,) for n in X.shape[1:])), X.dtype)


def _together(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _is_data(x: Any) -> bool:
    return isinstance(x, da.Array | Reads)


def _aligned(x: Any, chunks: tuple[int, ...]) -> Any:
    """A Dask array in the blocks of the data."""
    wanted = (chunks, *((n,) for n in x.shape[1:])) if isinstance(x, da.Array) else None
    return x if wanted is None or x.chunks == wanted else x.rechunk(wanted)


def _pieces(x: Any, chunks: tuple[int, ...]) -> Callable[[int], Any]:
    """Block number -> its piece of an array, or what stands for that in a graph."""
    if isinstance(x, Bundle):
        return lambda b: x.keys[b]
    if isinstance(x, Reads):
        return lambda b: x.blocks[b]
    if is_here(x):
        borders = np.concatenate([[0], np.cumsum(chunks)])
        return lambda b: x[borders[b] : borders[b + 1]]
    return lambda b: (x.name, b, *((0,) * (x.ndim - 1)))


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
    """As many tasks at a time as there are threads, and BLAS with one in each; workers see to that themselves."""
    with ExitStack() as stack:
        if on_cluster():
            stack.enter_context(_in_touch())
            stack.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}))
        else:
            stack.enter_context(dask.config.set(num_workers=threads or _kernels.max_threads()))
            stack.enter_context(_pools().limit(limits=1, user_api="blas"))
        yield


@contextmanager
def _in_touch() -> Iterator[None]:
    """What goes wrong after the scheduler is gone went wrong for that reason, and nothing is tried again."""
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
    return BlockError(f"workers died while they computed with {which}: too little memory? Smaller chunks need less")

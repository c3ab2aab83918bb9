"""How blocks of a Dask array are made, where nobody holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._extras import optional
from .cluster import on_cluster

dask = optional("dask", "scale")
optional("dask.local", "scale")

SMALL = 100_000  # bytes: what making a block takes along, unless it holds data


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


def reads_of(Y: Any) -> Any:
    """How blocks are made, if each is made from little and without the others; otherwise the array
    itself.

    Blocks that are there already (persisted, or in the memory of this process) stay where they are.
    """
    if any(type(x).__name__ == "Future" for x in dict(Y.__dask_graph__()).values()):
        return Y
    (Y,) = dask.optimize(Y)
    graph = dict(Y.__dask_graph__())
    keys = [(Y.name, b, 0) for b in range(Y.numblocks[0])]
    parts = [_needed(graph, key) for key in keys]
    made = [
        key
        for part in parts
        for key, task in part.items()
        if getattr(task, "dependencies", True)
    ]
    if len(made) > len(set(made)):
        return Y
    # within this process nothing is sent
    if on_cluster() and not _is_small(parts[0]):
        return Y
    return Reads([Read(part, key) for part, key in zip(parts, keys)], Y.shape)


def _is_small(part: Any) -> bool:
    try:
        return len(optional("cloudpickle", "scale").dumps(part)) < SMALL
    except Exception:  # what cannot be sent is not sent
        return False


def _needed(graph: dict[Any, Any], key: Any) -> dict[Any, Any]:
    """The part of a graph that a key needs."""
    found, left = {}, [key]
    while left:
        at = left.pop()
        if at not in found:
            found[at] = graph[at]
            left += dask.core.get_dependencies(graph, at)
    return found

"""Where tasks run, and with how many threads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

from ... import _kernels
from ..._extras import optional
from ...weights import Array
from ..blocks import BlockError

dask = optional("dask", "scale")

# from which size on Dask warns of graphs: ours hold what every block needs
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


class ClusterLostError(ConnectionError):
    """The scheduler is gone, and with it all that workers held."""


def on_cluster() -> bool:
    """Whether tasks go to the workers of `distributed`, rather than to threads of this process."""
    return dask.config.get("scheduler", None) in ("dask.distributed", "distributed")


@lru_cache(1)
def _pools() -> Any:
    """The thread pools of this process: finding them takes some milliseconds."""
    return optional("threadpoolctl", "scale").ThreadpoolController()


@contextmanager
def limited(threads: int = 0) -> Iterator[None]:
    """As many tasks at a time as there are threads, and BLAS with one in each; workers
    see to that themselves.
    """
    with ExitStack() as stack:
        if on_cluster():
            stack.enter_context(_in_touch())
            stack.enter_context(dask.config.set({LARGE_GRAPH: "1GB"}))
        else:
            workers = threads or _kernels.max_threads()
            stack.enter_context(dask.config.set(num_workers=workers))
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


def killed(error: Any, borders: Array) -> BlockError:
    """A worker that died again and again, most likely for want of memory."""
    number = re.search(r", (\d+)", str(getattr(error, "task", error)))
    which = "a block"
    if number and int(number[1]) < len(borders) - 1:
        first, last = borders[int(number[1]) : int(number[1]) + 2]
        which = f"block {number[1]} of {len(borders) - 1} (lines {first} to {last - 1})"
    return BlockError(
        f"workers died while they computed with {which}: too little memory? Smaller chunks need less"
    )

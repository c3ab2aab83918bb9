"""How much memory there is, and how much may be used."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

SHARE = 4  # data that take less than one part in so many of the memory are simply read
UNKNOWN = 1 << 33  # bytes of memory, where the system does not tell


def is_large(size: float) -> bool:
    """Whether so many bytes are better not read at once."""
    return size > memory_there_is() // SHARE


def as_bytes(memory: int | str) -> int:
    """Of 2000000000, "2GB" or "500 MB"."""
    found = re.fullmatch(
        r"\s*(\d+(?:\.\d*)?)\s*([kMGT]?)i?B?\s*", str(memory), re.IGNORECASE
    )
    size = (
        float(found[1]) * 1000 ** " kmgt".index(found[2].lower() or " ")
        if found
        else 0.0
    )
    if size < 1:
        raise ValueError(
            f"memory={memory!r}; a number of bytes is wanted, or such as '2GB'"
        )
    return int(size)


def allowed_memory(memory: int | str | None = None) -> int:
    """Bytes that were asked for; a quarter of what there is if none were."""
    return as_bytes(memory) if memory is not None else memory_there_is() // SHARE


def memory_there_is() -> int:
    """Bytes that this process may use: what the machine has, or less where a limit is set."""
    found = [
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if hasattr(os, "sysconf")
        else UNKNOWN
    ]
    for place in (
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(place).read_text()))
    with contextlib.suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    return min(found)

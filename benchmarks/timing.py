"""What the benchmarks measure with."""

from __future__ import annotations

import time
from collections.abc import Callable


def fastest(work: Callable[[], object], repeats: int = 25) -> float:
    """The shortest of some runs, in seconds, after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)

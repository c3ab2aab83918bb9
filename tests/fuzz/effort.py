"""How long a random test goes on: `from fuzz.effort import rounds`."""

import os
import time
from collections.abc import Iterable, Iterator
from itertools import count, takewhile


def rounds(quick: int) -> Iterator[int]:
    """The seeds 0 to quick - 1; with LRMC_FUZZ_SECONDS, seeds from LRMC_FUZZ_SEED on for so many seconds.

    Each is printed: pytest shows them with a failure, which is found again by LRMC_FUZZ_SEED=4711 LRMC_FUZZ_SECONDS=0.
    """
    for seed in _seeds(quick):
        print("seed", seed)
        yield seed


def _seeds(quick: int) -> Iterable[int]:
    seconds, first = os.environ.get("LRMC_FUZZ_SECONDS"), int(os.environ.get("LRMC_FUZZ_SEED", "0"))
    if not seconds:
        return range(first, first + quick)
    end = time.monotonic() + float(seconds)
    return takewhile(lambda seed: seed == first or time.monotonic() < end, count(first))

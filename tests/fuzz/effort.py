"""How long a random test goes on: `from fuzz.effort import rounds`."""

import os
import time
from collections.abc import Iterator
from itertools import count, takewhile


def rounds(quick: int) -> Iterator[int]:
    """The seeds 0 to quick - 1; with LRMC_FUZZ_SECONDS, seeds from LRMC_FUZZ_SEED on for so many seconds.

    A failure is found again with its seed: LRMC_FUZZ_SEED=4711 LRMC_FUZZ_SECONDS=1.
    """
    seconds, first = os.environ.get("LRMC_FUZZ_SECONDS"), int(os.environ.get("LRMC_FUZZ_SEED", "0"))
    if not seconds:
        return iter(range(first, first + quick))
    end = time.monotonic() + float(seconds)
    return takewhile(lambda seed: seed == first or time.monotonic() < end, count(first))

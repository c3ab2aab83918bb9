"""How long a random test goes on, and each of its calls: `from fuzz.effort import
rounds, within`.
"""

import faulthandler
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count, takewhile


def rounds(quick: int) -> Iterator[int]:
    """The seeds 0 to quick - 1; with LRMC_FUZZ_SECONDS, seeds from LRMC_FUZZ_SEED on for so many
    seconds.

    Each is printed: pytest shows them with a failure, which is found again by LRMC_FUZZ_SEED=4711
    LRMC_FUZZ_SECONDS=0."""
    for seed in _seeds(quick):
        print("seed", seed)
        yield seed


def _seeds(quick: int) -> Iterable[int]:
    seconds, first = (
        os.environ.get("LRMC_FUZZ_SECONDS"),
        int(os.environ.get("LRMC_FUZZ_SEED", "0")),
    )
    if not seconds:
        return range(first, first + quick)
    end = time.monotonic() + float(seconds)
    return takewhile(lambda seed: seed == first or time.monotonic() < end, count(first))


class HungError(BaseException):
    """A call that should have returned long ago. Nothing that catches mere exceptions
    catches it.
    """


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise an error in a block that takes longer; if compiled code does not let go, end the
    process with a traceback.

    Where the system has no alarms, only the latter.
    """

    def hung(number, frame):
        raise HungError(f"no end after {seconds} seconds")

    faulthandler.dump_traceback_later(10 * seconds, exit=True)
    before = signal.signal(signal.SIGALRM, hung) if hasattr(signal, "SIGALRM") else None
    try:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()

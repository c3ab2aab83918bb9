"""What a run says on its way: the logger `lrmc`, and lines on stderr if `verbose` is asked for."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable

from ._arguments import yes_or_no
from .result import Iterate, Result

EVERY = 1.0  # seconds between two lines
LOGGER = logging.getLogger("lrmc")
LOGGER.addHandler(logging.NullHandler())
Follow = Callable[[Iterate], None]


def followed(progress: Follow | None, verbose: bool, tol: float) -> Follow | None:
    """What is called with each iterate: the user's function, and what writes lines if they are
    wanted.
    """
    yes_or_no("verbose", verbose)
    wanted = verbose or LOGGER.isEnabledFor(logging.INFO)
    if not wanted:
        return progress
    lines = Lines(tol, _printed if verbose else LOGGER.info)

    def follow(it: Iterate) -> None:
        lines(it)
        if progress is not None:
            progress(it)

    return follow


def log_end(result: Result, verbose: bool) -> None:
    """Say how a run ended."""
    (_printed if verbose else LOGGER.info)(repr(result))


def _printed(line: str) -> None:
    LOGGER.info(line)
    print(f"lrmc: {line}", file=sys.stderr, flush=True)


def in_words(it: Iterate) -> str:
    """How far a run is; where its rank has just changed there is no change to tell."""
    change = f"change {it.change:.0e}, " if math.isfinite(it.change) else ""
    return f"{change}{it.inliers:.0%} inliers"


class Lines:
    """A line about a run every second."""

    def __init__(
        self,
        tol: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.tol = tol
        self.say = say
        self.clock = clock
        self.began = self.last = clock()

    def __call__(self, it: Iterate) -> None:
        """Say where the run is, if the last line is some time ago."""
        now = self.clock()
        if now - self.last < EVERY or it.k == 0:
            return
        self.last = now
        left = self._left(it.change, now - self.began)
        self.say(f"iteration {it.k} ({it.stage}), {in_words(it)}{left}")

    def _left(self, change: float, passed: float) -> str:
        """How long the rest takes if the change goes on falling as it did."""
        if not 0 < change < 1 or not 0 < self.tol < 1 or change <= self.tol:
            return ""
        done = math.log(change) / math.log(self.tol)
        return f", about {passed * (1 - done) / done:.0f} s left"

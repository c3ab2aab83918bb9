"""What every command shares: where it speaks, how errors and warnings are told, and the bar that
shows progress.
"""

from __future__ import annotations

import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from .._program import INTERRUPTED, TERMINATED, Terminated
from .._work import Outcome, Progress, Tell
from ..apps.outcome import FitFailed

NOT_CONVERGED, BAD_INPUT = 1, 2  # exit codes
SOON_ENOUGH = 0.2  # seconds after which a speed is told
TELLS_LITTLE = 1.0  # seconds that are too few to say how long the rest will take


def unwind_at_sigterm() -> None:
    """Make SIGTERM an exception, unless whoever started the process has it ignored."""

    def unwind(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, unwind)


def ended(stop: KeyboardInterrupt, more: str = "") -> typer.Exit:
    """Say that a command was ended from outside; what is returned has the exit code."""
    by_signal = isinstance(stop, Terminated)
    sentence = f"{'terminated' if by_signal else 'interrupted'}{more}"
    err().print(plain(sentence), soft_wrap=True, highlight=False)
    return typer.Exit(TERMINATED if by_signal else INTERRUPTED)


def out() -> Console:
    """For results."""
    return Console()


def err() -> Console:
    """For everything else."""
    return Console(stderr=True)


def table(*columns: str) -> Table:
    """An empty table: names on the left, numbers on the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    return table


def facts_table(facts: Mapping[str, str]) -> Table:
    """Names on the left, what is to be said of each on the right."""
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), plain(value))
    return table


@contextmanager
def progress(title: str) -> Iterator[Tell]:
    """A bar that is told where the work is, from its first stage to its last. In the end it is
    gone.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    screen = err()
    hidden = not screen.is_terminal
    with RichProgress(*columns, console=screen, transient=True, disable=hidden) as bars:
        task = bars.add_task(plain(title), total=None, state="reading")
        told = InWords()

        def tell(at: Progress) -> None:
            bars.update(task, completed=at.done, total=at.total or None, state=told(at))

        yield tell


class InWords:
    """Where some work is, in words: its stage, how much of it is done, how fast, and how long the
    rest will take.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.stage = ""
        self.since = 0.0

    def __call__(self, at: Progress) -> str:
        """A line for this moment."""
        if at.stage != self.stage:
            self.stage, self.since = at.stage, self.clock()
        passed = self.clock() - self.since
        parts = [
            plain(at.stage),
            _counted(at),
            _speed(at, passed),
            plain(at.note),
            _left(at, passed),
        ]
        return ", ".join(part for part in parts if part)


def _counted(at: Progress) -> str:
    if not at.unit or not at.done:
        return ""
    of = f" of {at.total:,.0f}" if at.total else ""
    return f"{at.done:,.0f}{of} {at.unit}".replace(",", " ")


def _speed(at: Progress, passed: float) -> str:
    if not at.unit or passed < SOON_ENOUGH:
        return ""
    speed = at.done / passed
    return f"{speed:,.0f} {at.unit}/s".replace(",", " ") if speed >= 1 else ""


def _left(at: Progress, passed: float) -> str:
    """At the pace of the stage so far; nothing while that tells little."""
    if not 0 < at.done < at.total or passed < TELLS_LITTLE:
        return ""
    seconds = passed * (at.total - at.done) / at.done
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}:{rest:02d} min left" if minutes else f"{rest} s left"


@contextmanager
def errors_in_a_sentence(interrupted: str = "") -> Iterator[None]:
    """What the user can mend is told in one sentence, with exit code 2; Ctrl-C ends with exit code
    130, SIGTERM 143.

    A fit that gave nothing is told with exit code 1.
    """
    try:
        yield
    except FitFailed as error:
        _tell_error(str(error))
        raise typer.Exit(NOT_CONVERGED) from None
    except (
        ValueError,
        ImportError,
        OSError,
        FloatingPointError,
        MemoryError,
        np.linalg.LinAlgError,
    ) as error:
        if isinstance(error, OSError) and error.filename is not None:
            sentence = f"{error.filename}: {error.strerror}"
        else:
            sentence = " ".join(str(error).split()) or type(error).__name__
        _tell_error(sentence)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt as stop:
        raise ended(stop, interrupted) from None


def _tell_error(sentence: str) -> None:
    err().print(f"[red]error:[/red] {plain(sentence)}", soft_wrap=True, highlight=False)


def end_with(outcome: Outcome) -> None:
    """Exit code 1 if a fit is not sound: its warnings were shown, and its files are written."""
    if not outcome.sound:
        raise typer.Exit(NOT_CONVERGED)


@contextmanager
def warnings_in_a_sentence() -> Iterator[None]:
    """Warnings are shown at the end, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for sentence in dict.fromkeys(
        str(w.message) for w in caught if issubclass(w.category, UserWarning)
    ):
        err().print(
            f"[yellow]warning:[/yellow] {plain(sentence)}",
            soft_wrap=True,
            highlight=False,
        )


def plain(sentence: str) -> str:
    """Text that rich shows as it is."""
    return sentence.replace("[", r"\[")

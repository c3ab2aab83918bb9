"""What every command shares: where it speaks, how errors and warnings are told, and the bar that
shows progress.
"""

from __future__ import annotations

import json
import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from .._program import INTERRUPTED, TERMINATED, Terminated
from .._progress import FitFailed, Progress, Tell, silent

if TYPE_CHECKING:
    from .._work import Outcome

NOT_CONVERGED, BAD_INPUT = 1, 2  # exit codes
SOON_ENOUGH = 0.2  # seconds after which a speed is told
EVERY = 10.0  # seconds between two lines of progress in a log
LONGEST_NAME = 24  # characters of a name before a bar
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


@dataclass
class Manner:
    """How much a command says, and in what form."""

    quiet: bool = False  # nothing but warnings and errors
    json: bool = False  # one object on stdout, for scripts


MANNER = Manner()  # of the command that runs; options set it


def _be_quiet(wanted: bool) -> bool:
    MANNER.quiet = wanted
    return wanted


def _speak_json(wanted: bool) -> bool:
    MANNER.json = wanted
    return wanted


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", callback=_be_quiet, help="Show only warnings and errors."
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        callback=_speak_json,
        help="Print a summary as JSON: status, counts, files, warnings.",
    ),
]


def out() -> Console:
    """For results that people read; silent where they are not wanted."""
    return Console(quiet=MANNER.quiet or MANNER.json)


def err() -> Console:
    """For everything else."""
    return Console(stderr=True)


def table(*columns: str) -> Table:
    """An empty table: names on the left, which are folded where they are long, and numbers on the
    right, which are always whole.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        if i:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold")
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
    """A bar that shows the stage of the work, how much of it is done and how long the rest takes;
    at the end it is gone. Without a terminal, a line now and then.
    """
    screen = err()
    if MANNER.quiet:
        yield silent
    elif screen.is_terminal:
        with _bar(title, screen) as tell:
            yield tell
    else:
        yield Lines(title, screen)


@contextmanager
def _bar(title: str, screen: Console) -> Iterator[Tell]:
    from rich import (
        progress as rich,
    )  # `lrmc --help` shows no bar

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[state]}"),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=screen, transient=True) as bars:
        task = bars.add_task(plain(shortened(title)), total=None, state="reading")
        told, forward = InWords(), Forward()

        def tell(at: Progress) -> None:
            at = forward(at)
            bars.update(task, completed=at.done, total=at.total or None, state=told(at))

        yield tell


def shortened(name: str) -> str:
    """A name that leaves room for a bar."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


class Forward:
    """Progress that never goes back within a stage: a fit may change more again for a while."""

    def __init__(self) -> None:
        self.stage = ""
        self.most = 0.0

    def __call__(self, at: Progress) -> Progress:
        """The same, or as far as the stage was before."""
        if at.stage != self.stage:
            self.stage, self.most = at.stage, 0.0
        self.most = max(self.most, at.done)
        return at._replace(done=self.most)


class Lines:
    """Progress for logs: a line every `EVERY` seconds, so that short work says nothing."""

    def __init__(
        self,
        title: str,
        screen: Console,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.title = title
        self.screen = screen
        self.clock = clock
        self.last = clock()
        self.told = InWords(clock)
        self.forward = Forward()

    def __call__(self, at: Progress) -> None:
        """Print a line if the last one is some time ago."""
        sentence = self.told(self.forward(at))
        if self.clock() - self.last < EVERY:
            return
        self.last = self.clock()
        text = f"{plain(self.title)}: {sentence}"
        self.screen.print(text, soft_wrap=True, highlight=False)


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
    from numpy.linalg import LinAlgError  # `lrmc --help` does without NumPy

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
        LinAlgError,
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


def end_with(outcome: Outcome, **more: object) -> None:
    """Print the summary for scripts, if it is wanted, with what else there is to say; exit code 1
    if a fit is not sound: its warnings were shown, and its files are written.
    """
    if MANNER.json:
        about = {
            "status": str(outcome.status),
            **more,
            "seconds": round(outcome.seconds, 3),
            "files": [str(file) for file in outcome.files],
            "report": None if outcome.report is None else str(outcome.report),
            "warnings": list(outcome.warnings),
        }
        typer.echo(json.dumps(about))
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

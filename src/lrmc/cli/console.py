"""What every command shares: where it speaks, how errors and warnings are told, a progress bar."""

from __future__ import annotations

import math
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from .._program import INTERRUPTED, TERMINATED, Terminated
from ..apps.outcome import FitFailed, Outcome
from ..result import Iterate

NOT_CONVERGED, BAD_INPUT = 1, 2  # exit codes


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


@contextmanager
def bar(title: str, state: str = "", total: float | None = 1.0) -> Iterator[Callable[..., None]]:
    """A bar that is told what changes: `completed`, `state`, `description`, `total`. In the end it is gone."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    screen = err()
    hidden = not screen.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=screen, transient=True, disable=hidden) as progress:
        task = progress.add_task(plain(title), total=total, state=state)
        yield partial(progress.update, task)


@contextmanager
def progress_bar(title: str, tol: float = 1e-6) -> Iterator[Callable[..., None]]:
    """A bar that is full when the change per iteration, on a logarithmic scale, has come down to tol."""
    with bar(title, "reading") as update:

        def follow(it: Iterate, more: str = "") -> None:
            if it.k == 0 or not 0 < tol < 1:
                return
            done = math.log(max(it.change, 1e-300)) / math.log(tol)
            state = f"iteration {it.k}, change {it.change:.0e}, {it.inliers:.0%} inliers{', ' if more else ''}{more}"
            update(completed=min(1.0, max(0.0, done)), state=state)

        yield follow


@contextmanager
def stages_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar for work in stages: it is told the stage, and the share of it that is done."""
    with bar("reading") as update:
        yield lambda stage, done: update(description=stage, completed=done)


@contextmanager
def count_bar(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that is counted: how much of how much is done."""
    with bar(title, "learning") as update:

        def follow(done: int, total: int) -> None:
            update(completed=done / max(total, 1), state=f"{done:,} of {total:,} {unit}".replace(",", " "))

        yield follow


@contextmanager
def errors_in_a_sentence(interrupted: str = "") -> Iterator[None]:
    """What the user can mend is told in one sentence, with exit code 2; Ctrl-C ends with exit code 130, SIGTERM 143.

    A fit that gave nothing is told with exit code 1.
    """
    try:
        yield
    except FitFailed as error:
        _tell_error(str(error))
        raise typer.Exit(NOT_CONVERGED) from None
    except (ValueError, ImportError, OSError, FloatingPointError, MemoryError, np.linalg.LinAlgError) as error:
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


def end_with(*outcomes: Outcome) -> None:
    """Exit code 1 if a fit inside an application is not sound: its warnings were shown, and its files are written."""
    if not all(outcome.sound for outcome in outcomes):
        raise typer.Exit(NOT_CONVERGED)


@contextmanager
def warnings_in_a_sentence() -> Iterator[None]:
    """Warnings are shown at the end, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for sentence in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
        err().print(f"[yellow]warning:[/yellow] {plain(sentence)}", soft_wrap=True, highlight=False)


def plain(sentence: str) -> str:
    """Text that rich shows as it is."""
    return sentence.replace("[", r"\[")

"""The first thing that `import lrmc` runs: where the program is the command `lrmc`, Ctrl-C shows no
traceback.

The imports that follow take a second or so, and no other code of ours runs before them. In all
other programs nothing is done here."""

from __future__ import annotations

import os
import shlex
import sys
from types import TracebackType

INTERRUPTED, TERMINATED = 130, 143  # as shells say it for Ctrl-C and for SIGTERM


class Terminated(KeyboardInterrupt):
    """The process was asked to end: everything unwinds as after Ctrl-C, and temporary
    files are removed.
    """


def is_the_command() -> bool:
    """Whether Python was started as `lrmc` or `python -m lrmc`. With -m, sys.argv
    does not tell this early.
    """
    name = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    pairs = set(zip(sys.orig_argv, sys.orig_argv[1:]))
    as_module = {("-m", "lrmc"), ("-m", "lrmc.cli")}
    return name in ("lrmc", "lrmc-script") or bool(pairs & as_module)


def command_line() -> str:
    """What was typed, where the program is the command `lrmc`; else nothing."""
    return shlex.join(["lrmc", *sys.argv[1:]]) if is_the_command() else ""


def _without_traceback(
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    by_signal = issubclass(kind, Terminated)
    print("terminated" if by_signal else "interrupted", file=sys.stderr, flush=True)
    os._exit(
        TERMINATED if by_signal else INTERRUPTED
        # Python would end itself by the signal: the same for a shell, not for other programs
    )


if is_the_command():
    sys.excepthook = _without_traceback

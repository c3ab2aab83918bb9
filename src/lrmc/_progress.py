"""How far some work has come, and that it gave nothing: known to the command line before anything
heavy is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class FitFailed(ArithmeticError):
    """A fit gave nothing that could be used; nothing was written."""


class Progress(NamedTuple):
    """How far some work has come."""

    stage: str  # in a word or two, such as "reading"
    done: float = 0.0
    total: float = 0.0  # 0 where it is not known
    unit: str = (
        ""  # of what is counted, such as "frames"; none where `done` is a share of 1
    )
    note: str = ""  # whatever else is worth a few words


Tell = Callable[[Progress], None]


def silent(at: Progress) -> None:
    """For those who do not ask."""

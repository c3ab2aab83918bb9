"""Work on files: how far it has come, and how it ended. The same records for every application and
command.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ._log import in_words
from ._progress import Progress, Tell
from .report import Words
from .result import Iterate, Status
from .solve import ConvergenceWarning

if TYPE_CHECKING:
    from typing_extensions import Self

SMALLEST_CHANGE = 1e-300  # whose logarithm is finite


def following(
    tell: Tell,
    tol: float,
    more: Callable[[], str] | None = None,
) -> Callable[[Iterate], None]:
    """What `solve` calls with each iterate: a fit is done when its change, on a logarithmic scale,
    has come to tol.
    """

    def follow(it: Iterate) -> None:
        if it.k == 0:
            tell(Progress("fitting", 0.0, 1.0, note="start"))
            return
        note = f"iteration {it.k}, {in_words(it)}"
        if more is not None:
            note += f", {more()}"
        tell(Progress("fitting", _share(it.change, tol), 1.0, note=note))

    return follow


def _share(change: float, tol: float) -> float:
    """How much of the way to `tol` is done."""
    if not 0 < tol < 1:
        return 0.0
    way = math.log(max(change, SMALLEST_CHANGE)) / math.log(tol)
    return min(1.0, max(0.0, way))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How some work ended: its fits, and what it wrote. A fit alone has no files.

    Functions that work on files return one of these, most with more in it.
    """

    status: Status = Status.CONVERGED
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()  # and folders
    seconds: float = 0.0
    report: Path | None = None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with the fit."""
        return self.status is Status.CONVERGED

    def warned(self, sentence: str, status: Status | None = None) -> Self:
        """The same with one more warning, which is given as well; with a status, that is the new
        one.
        """
        category = UserWarning if status is None else ConvergenceWarning
        warnings.warn(sentence, category, stacklevel=3)
        return replace(
            self, status=status or self.status, warnings=(*self.warnings, sentence)
        )

    def sections(self) -> list[Words]:
        """What a report page has to say about it: nothing if all is well."""
        about = [f"{text[0].upper()}{text[1:]}." for text in self.warnings]
        return [Words("", about, "warning")] if about else []


SOUND = Outcome()


def placed(folder: Path, target: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Where everything in a temporary folder will be."""
    return moved(sorted(folder.iterdir()), target)


def moved(files: Iterable[Path], target: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Where these files of a temporary folder will be."""
    return tuple(Path(target) / file.name for file in files)

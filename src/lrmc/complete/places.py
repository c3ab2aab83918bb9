"""Where the outputs of `lrmc complete` go, and what it says of itself, in memory or block by
block.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .._work import Outcome
from ..evidence.calibration import Coverage
from ..result import Result, Undetermined
from ..units import Units
from .csv_files import COMPRESSED


class Places(NamedTuple):
    """Of the completed matrix, and of the list of outliers, the report, the list of intervals
    and that of new cells if they are wanted.
    """

    target: Path
    outliers: Path | None
    report: Path | None
    intervals: Path | None = None
    marks: Path | None = None

    @property
    def given(self) -> tuple[Path, ...]:
        """Those where something is written."""
        return tuple(path for path in self if path is not None)


def places(
    target: str | os.PathLike[str],
    outliers_to: str | os.PathLike[str] | None,
    report_to: str | os.PathLike[str] | None,
    intervals_to: str | os.PathLike[str] | None = None,
    marks_to: str | os.PathLike[str] | None = None,
) -> Places:
    """As paths."""
    others = (outliers_to, report_to, intervals_to, marks_to)
    return Places(Path(target), *map(_path, others))


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


def beside(target: Path, ending: str) -> Path:
    """Where a file goes that belongs to another: `completed.report.html` beside `completed.csv`
    and `completed.csv.gz`.
    """
    stem = (
        Path(target.stem).stem if target.suffix.lower() in COMPRESSED else target.stem
    )
    return target.parent / f"{stem}.{ending}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Completion(Outcome):
    """How a matrix in a file was completed. Its seconds are those of the solve, without reading and
    writing.
    """

    result: Result  # in units of the columns' spreads, if columns were scaled
    units: Units | None  # that columns were scaled by
    observed: float  # fraction
    undetermined: Undetermined = "nan"  # what became of lines that are not determined
    coverage: tuple[Coverage, ...] | None = None  # of intervals, if they were written

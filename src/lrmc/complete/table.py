"""A matrix as it stood in a file, with everything around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ..formats.sparse import Matrix
from ..weights import Array

Frame: TypeAlias = Any  # of pandas, which need not be installed


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix from a file, and what stood around it there."""

    values: Matrix
    name: str = "X"  # of the variable, in npz and mat files
    frame: Frame = (
        None  # the whole table, if it was one: as text from CSV, typed from Parquet
    )
    columns: Sequence[int] = ()  # where the columns of `values` are in the frame
    header: bool = True
    delimiter: str = ","
    # By column: text that was taken as missing.
    markers: Mapping[int, Counter[str]] = field(default_factory=dict)

    def row_names(self) -> list[str] | None:
        """The index, or else the first column that passes through if its cells are all different;
        None without.
        """
        if self.frame is None:
            return None
        if type(self.frame.index).__name__ != "RangeIndex":
            return _distinct(self.frame.index)
        beside = next(iter(self._beside()), None)
        if beside is None or not self.frame.iloc[:, beside].is_unique:
            return None
        return _distinct(self.frame.iloc[:, beside])

    def col_names(self) -> list[str] | None:
        """The header over the columns of `values`; None without."""
        if self.frame is None or not self.header:
            return None
        return _distinct(self.frame.columns[list(self.columns)])

    def others(self) -> list[str]:
        """The header over the columns that pass through."""
        if self.frame is None:
            return []
        return [str(self.frame.columns[i]) for i in self._beside()]

    def _beside(self) -> list[int]:
        """Where the columns are that pass through."""
        completed = set(self.columns)
        return [i for i in range(self.frame.shape[1]) if i not in completed]

    def without(self, keep: Sequence[str]) -> Table:
        """The table without the columns that only pass through."""
        if not keep:
            return self
        names = (
            [] if self.frame is None else [str(label) for label in self.frame.columns]
        )
        unknown = [label for label in keep if label not in names]
        if unknown:
            raise ValueError(
                f"there is no column {unknown[0]!r} to keep; there are:"
                f" {', '.join(names) or 'no names'}"
            )
        chosen = [k for k, i in enumerate(self.columns) if names[i] not in keep]
        if not chosen:
            raise ValueError(
                "all columns of numbers are kept unchanged, and none is left to"
                " complete"
            )
        return replace(
            self,
            values=self.values[:, chosen],
            columns=[self.columns[k] for k in chosen],
        )


def _distinct(labels: Iterable[object]) -> list[str]:
    """Labels as text; one that is empty or not the only one of its name is followed by its place,
    counted from 0.
    """
    names = [
        " / ".join(map(str, x)) if isinstance(x, tuple) else str(x).strip()
        for x in labels
    ]
    seen = Counter(names)
    return [
        name if name and seen[name] == 1 else f"{name} [{i}]".strip()
        for i, name in enumerate(names)
    ]


def is_new(new: Array, old: Array) -> Array:
    """Which entries are new: what is not determined stays as it was."""
    return (new != old) & ~np.isnan(new)

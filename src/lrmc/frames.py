"""The labels of a DataFrame that was solved, and frames with these labels: pandas and polars."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .weights import Array

LIBRARIES = ("pandas", "polars")


class Labels(NamedTuple):
    """What names the rows and columns of a frame."""

    library: str
    columns: Any
    index: Any = None  # polars has none
    dates: tuple[int, Any] | None = None  # a column that was taken for times, and where

    def frame(self, X: Array) -> Any:
        """X with these labels."""
        library = importlib.import_module(self.library)
        if self.library == "polars":
            return library.DataFrame(X, schema=self.columns)
        frame = library.DataFrame(X, index=self.index, columns=self.columns)
        if self.dates is not None:
            at, column = self.dates
            frame.insert(at, column.name, column.array, allow_duplicates=True)
        return frame


def labels_of(Y: Any, given: Any = None) -> Labels | None:
    """The labels of a DataFrame; None of anything else. As it was given it may have had a column of
    dates besides.
    """
    library = type(Y).__module__.partition(".")[0]
    if library not in LIBRARIES or not hasattr(Y, "columns"):
        return None
    return Labels(
        library,
        list(Y.columns) if library == "polars" else Y.columns,
        getattr(Y, "index", None),
        None if given is None or given is Y else _dates(given),
    )


def _dates(frame: Any) -> tuple[int, Any] | None:
    """The column of dates and its place."""
    kinds = enumerate(getattr(kind, "kind", "") for kind in frame.dtypes)
    at = next((i for i, kind in kinds if kind == "M"), None)
    return None if at is None else (at, frame.iloc[:, at])

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

    def frame(self, X: Array) -> Any:
        """X with these labels."""
        library = importlib.import_module(self.library)
        if self.library == "polars":
            return library.DataFrame(X, schema=self.columns)
        return library.DataFrame(X, index=self.index, columns=self.columns)


def labels_of(Y: Any) -> Labels | None:
    """The labels of a DataFrame; None of anything else."""
    library = type(Y).__module__.partition(".")[0]
    if library not in LIBRARIES or not hasattr(Y, "columns"):
        return None
    return Labels(
        library,
        list(Y.columns) if library == "polars" else Y.columns,
        getattr(Y, "index", None),
    )

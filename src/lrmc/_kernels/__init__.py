"""The compiled passes. `_native` is C++; `run` calls the one that fits the precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from ._native import (
    consensus,
    instruction_set,
    instruction_sets,
    locate,
    max_threads,
    most_threads,
    newton,
    read_once,
    survey,
    use_instruction_set,
)

__all__ = [
    "consensus",
    "instruction_set",
    "instruction_sets",
    "locate",
    "max_threads",
    "most_threads",
    "newton",
    "read_once",
    "run",
    "survey",
    "use_instruction_set",
]


def run(kernel: str, dtype: np.dtype[Any], *arguments: Any) -> None:
    """Call `kernel` ("dense", "sparse", "residual", "adjoint_dense", ...) in the precision `dtype`.

    What came through a network may begin anywhere in memory: such arrays are copied.
    """
    there = (x.copy() if isinstance(x, np.ndarray) and not x.flags.aligned else x for x in arguments)
    getattr(_native, f"{kernel}_{dtype.name}")(*there)

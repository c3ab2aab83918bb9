"""The compiled passes: `_native` is C++, and `_native.pyi` says what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._native import (
    DenseData,
    Factors,
    Regression,
    Room,
    RowStep,
    Rule,
    SparseData,
    Weight,
    adjoint,
    consensus,
    entries_at,
    instruction_set,
    instruction_sets,
    locate,
    magnitudes,
    max_threads,
    most_small_rank,
    most_threads,
    newton,
    products,
    read_once,
    regress,
    regressor_slopes,
    regressors,
    residual,
    slope_rows,
    slopes,
    small,
    solve_rows,
    step_rows,
    survey,
    use_instruction_set,
)

__all__ = [
    "DenseData",
    "Factors",
    "Regression",
    "Room",
    "RowStep",
    "Rule",
    "SparseData",
    "Weight",
    "adjoint",
    "aligned",
    "consensus",
    "entries_at",
    "instruction_set",
    "instruction_sets",
    "locate",
    "magnitudes",
    "max_threads",
    "most_small_rank",
    "most_threads",
    "newton",
    "products",
    "read_once",
    "ready",
    "regress",
    "regressor_slopes",
    "regressors",
    "residual",
    "slope_rows",
    "slopes",
    "small",
    "solve_rows",
    "step_rows",
    "survey",
    "threads_for",
    "use_instruction_set",
]

Array = np.ndarray[Any, np.dtype[Any]]

# multiplications that a thread must have to do, for starting it to pay: about a millisecond. On a busy
# machine a thread that waits for its core makes a pass of less three to thirty times slower.
WORTH_A_THREAD = 10_000_000


def aligned(X: Array) -> Array:
    """The same array, or a copy: what came through a network may begin anywhere in memory."""
    return X if X.flags.aligned else X.copy()


def ready(X: Any, dtype: Any) -> Array:
    """An array as the kernels take it: of this type, contiguous, aligned."""
    return aligned(np.ascontiguousarray(X, dtype))


def threads_for(work: int, threads: int) -> int:
    """As many threads as so many multiplications are worth, at least one."""
    return max(1, min(threads, work // WORTH_A_THREAD))

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
    instruction_set,
    instruction_sets,
    locate,
    magnitudes,
    max_threads,
    most_threads,
    newton,
    openmp,
    products,
    read_once,
    regress,
    regressor_slopes,
    regressors,
    residual,
    residual_at,
    slope_rows,
    slopes,
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
    "instruction_set",
    "instruction_sets",
    "locate",
    "magnitudes",
    "max_threads",
    "most_threads",
    "newton",
    "openmp",
    "products",
    "read_once",
    "ready",
    "regress",
    "regressor_slopes",
    "regressors",
    "residual",
    "residual_at",
    "slope_rows",
    "slopes",
    "solve_rows",
    "step_rows",
    "survey",
    "use_instruction_set",
]

Array = np.ndarray[Any, np.dtype[Any]]


def aligned(X: Array) -> Array:
    """The same array, or a copy: what came through a network may begin anywhere in memory."""
    return X if X.flags.aligned else X.copy()


def ready(X: Any, dtype: Any) -> Array:
    """An array as the kernels take it: of this type, contiguous, aligned."""
    return aligned(np.ascontiguousarray(X, dtype))

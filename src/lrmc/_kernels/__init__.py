"""The compiled passes: `_native` is C++, and `_native.pyi` says what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from ._native import (
    DenseData,
    Factors,
    Layer,
    LayerRoom,
    LoopLines,
    LoopPass,
    LoopRules,
    LoopSample,
    Regression,
    Room,
    RowStep,
    Rule,
    SparseData,
    Steps,
    Weight,
    add,
    add_slopes,
    adjoint,
    all_in,
    among,
    any_in,
    byte_medians,
    clean,
    compress,
    connected,
    consensus,
    distances,
    entries_at,
    follow,
    from_canvas,
    gaps,
    instruction_set,
    instruction_sets,
    invert_rows,
    lasting,
    layer_rows,
    layers,
    levels,
    locate,
    loop_step,
    magnitudes,
    masks,
    max_threads,
    mix,
    mixture,
    most_frequent,
    most_layer_rank,
    most_loop_rank,
    most_small_rank,
    most_threads,
    near_background,
    nearest,
    newton,
    noise_levels,
    normal,
    note,
    observed_at,
    onto_canvas,
    ordered,
    part_medians,
    patches,
    products,
    read_once,
    refit,
    regress,
    regressor_slopes,
    regressors,
    residual,
    settle,
    shrink,
    slope_rows,
    slopes,
    small,
    smooth,
    solve_rows,
    step_rows,
    survey,
    survey_entries,
    tails,
    tile_sums,
    times_rows,
    two_groups,
    use_instruction_set,
)

__all__ = [
    "DenseData",
    "Factors",
    "Layer",
    "LayerRoom",
    "LoopLines",
    "LoopPass",
    "LoopRules",
    "LoopSample",
    "Regression",
    "Room",
    "RowStep",
    "Rule",
    "SparseData",
    "Steps",
    "Weight",
    "add",
    "add_slopes",
    "adjoint",
    "aligned",
    "all_in",
    "among",
    "any_in",
    "byte_medians",
    "clean",
    "compress",
    "connected",
    "consensus",
    "cross",
    "distances",
    "entries_at",
    "follow",
    "from_canvas",
    "gaps",
    "instruction_set",
    "instruction_sets",
    "invert_rows",
    "lasting",
    "layer_rows",
    "layers",
    "levels",
    "locate",
    "loop_step",
    "magnitudes",
    "masks",
    "max_threads",
    "mix",
    "mixture",
    "most_frequent",
    "most_layer_rank",
    "most_loop_rank",
    "most_small_rank",
    "most_threads",
    "near_background",
    "nearest",
    "newton",
    "noise_levels",
    "normal",
    "note",
    "observed_at",
    "onto_canvas",
    "ordered",
    "part_medians",
    "patches",
    "products",
    "read_once",
    "ready",
    "refit",
    "regress",
    "regressor_slopes",
    "regressors",
    "residual",
    "settle",
    "shrink",
    "slope_rows",
    "slopes",
    "small",
    "smooth",
    "solve_rows",
    "step_rows",
    "survey",
    "survey_entries",
    "tails",
    "threads_for",
    "tile_sums",
    "times",
    "times_rows",
    "two_groups",
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


# Rows and columns from which, and up to which, our own products of long matrices are taken. They cost as
# much as those of BLAS when it is fast (OpenBLAS 0.3.31, AVX2: 0.6 to 2 ms at 480,000 x 2 to 5), and never
# what it takes where its buffers hold numbers near underflow: 75 ms.
LONG = 1000
NARROW = 32


def _are_narrow(X: Array, Z: Array) -> bool:
    """Whether these are a long matrix of floats and one beside it, both with few columns."""
    return (
        len(X) >= LONG
        and 0 < X.shape[1] <= NARROW
        and 0 < Z.shape[1] <= NARROW
        and X.dtype == Z.dtype
        and X.dtype.char in "fd"
    )


def times(X: Array, S: Array) -> Array:
    """X S, where X has many rows and both have few columns."""
    if not _are_narrow(X, S):
        return X @ S
    out = np.empty((len(X), S.shape[1]), X.dtype)
    _native.times(ready(X, X.dtype), ready(S, X.dtype), out=out)
    return out


def cross(X: Array, Z: Array) -> Array:
    """X' Z in double precision, where both have many rows and few columns."""
    if not _are_narrow(X, Z):
        return (X.T @ Z).astype(np.float64, copy=False)
    out = np.zeros((X.shape[1], Z.shape[1]))
    _native.cross(ready(X, X.dtype), ready(Z, X.dtype), out=out)
    return out

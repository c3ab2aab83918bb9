"""What is observed of dense data, as a sparse pass reads it."""

from __future__ import annotations

import numpy as np
import pytest
from each import each

from lrmc import _kernels, as_observations
from lrmc.observations._door import compressed
from lrmc.observations.dense import Dense

# around words of 64 entries, and beyond the columns that are looked at together
WIDTHS = (1, 63, 64, 65, 200, 4096 + 70)
TYPES = (np.float32, np.float64, np.uint8, np.int16, np.uint16)


def drawn(n2, dtype, gaps):
    """A matrix whose gaps are a mask, NaN or both, and where there is a number."""
    rng = np.random.default_rng(n2)
    Y = rng.integers(0, 255, (7, n2)).astype(dtype)
    seen = rng.random(Y.shape) < 0.6
    seen[0] = True  # no gap, and no entry
    seen[3] = False
    if gaps == "mask" or Y.dtype.kind != "f":
        return Y, seen, seen
    Y[~seen] = np.nan
    if gaps == "NaN":
        return Y, None, seen
    mask = rng.random(Y.shape) < 0.7
    return Y, mask, seen & mask


@pytest.mark.usefixtures("restore_instruction_set")
@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("gaps", ["mask", "NaN", "both"])
@each("dtype", TYPES)
@each("n2", WIDTHS)
def test_as_numpy_finds_them(name, gaps, dtype, n2):
    _kernels.use_instruction_set(name)
    Y, mask, seen = drawn(n2, dtype, gaps)
    dense = as_observations(Y, mask)
    assert isinstance(dense, Dense)  # most entries are there: not yet compressed
    for by_column in (False, True):
        of = (Y.T, seen.T) if by_column else (Y, seen)
        entries = compressed(dense, by_column=by_column)
        rows, cols = np.nonzero(of[1])
        np.testing.assert_array_equal(entries.indices, cols)
        np.testing.assert_array_equal(entries.values, of[0][rows, cols])
        np.testing.assert_array_equal(np.diff(entries.indptr), of[1].sum(1))
